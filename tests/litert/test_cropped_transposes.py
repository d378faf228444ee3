"""TRANSPOSE_CONV as JAX's converters write it: VALID, with rows and columns cut off at the end.

LiteRT's default kernels compute a larger result than such a model declares, and its reference
kernels refuse it. The oracle is LiteRT's whole result.
"""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from tests.op_table.base import Dims
from tests.support.hosts import both_hosts
from tests.support.oracle import assert_close, in_litert, run, run_litert
from tests.support.sketch import Sketch


def sketch(
    more: Dims,
    x: Dims,
    kernel: Dims,
    stride: Dims,
    bias: bool = True,
    padding: str = "VALID",
    **options: str,
) -> tuple[bytes, Sketch]:
    """``more``: how much larger than the usual one the output is."""
    s, out = Sketch(np.random.default_rng(0)), 6
    sizes = [
        (n - 1) * step + k + m for n, step, k, m in zip(x[1:3], stride, kernel, more, strict=True)
    ]
    shape = (x[0], *sizes, out)
    weights = s.operand((out, *kernel, x[3]), constant=bias)
    inputs = [s.constant(np.array(shape, np.int32)), weights, s.feed(x)]
    inputs += [s.constant(s.normal((out,)))] * bias
    y = s.op(
        "TRANSPOSE_CONV", inputs, [s.tensor(shape)], version=4 if options else 3 if bias else 1,
        padding=padding, stride_h=stride[0], stride_w=stride[1], **options,
    )  # fmt: skip
    return s.build([y]), s


@both_hosts
@pytest.mark.parametrize(
    ("more", "attributes"),
    [
        ((-1, -1), dict(x=(1, 5, 4, 3), kernel=(3, 3), stride=(2, 2))),
        ((0, -1), dict(x=(2, 6, 7, 4), kernel=(3, 2), stride=(3, 1))),
        (
            (-2, -1),
            dict(x=(3, 4, 5, 9), kernel=(5, 4), stride=(2, 3), fused_activation_function="RELU6"),
        ),
        ((-2, 0), dict(x=(1, 3, 1, 5), kernel=(3, 1), stride=(1, 1))),
        ((-2, -2), dict(x=(1, 1, 1, 5), kernel=(3, 3), stride=(1, 1))),
        ((-1, -1), dict(x=(1, 5, 4, 3), kernel=(3, 3), stride=(2, 2), bias=False)),
    ],
    ids=str,
)
def test_what_is_left_is_right(host: Any, more: Dims, attributes: Any) -> None:
    whole, s = sketch((0, 0), **attributes)
    (expected,) = run_litert(whole, s.feeds)
    content, s = sketch(more, **attributes)
    height, width = (n + m for n, m in zip(expected.shape[1:3], more, strict=True))
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        actual = run(host(delegate, content), s.feeds)
        assert delegate.report.fully_delegated
    assert_close(actual, [expected[:, :height, :width]])


@pytest.mark.parametrize(("more", "padding"), [((-3, 0), "VALID"), ((-3, -3), "SAME")])
def test_an_input_without_an_output_is_refused(more: Dims, padding: str) -> None:
    content, _ = sketch(more, (1, 5, 4, 3), (3, 3), (2, 2), padding=padding)
    assert "its convolution has" in lower_graph(read_model(content), Limits()).reasons[0]
