"""Numbers at the edges of their types, against LiteRT's CPU kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.oracle import complete, run_gles, run_litert
from tests.support.sketch import Sketch

pytestmark = pytest.mark.usefixtures("gl")

NORMAL = np.geomspace(1.2e-38, 3e38, 4001)
"""From the smallest normal float32 to about the largest."""


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def both(s: Sketch, *outputs: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """The outputs on the delegate and on LiteRT."""
    content = complete(s, outputs)
    return run_gles(content, s.feeds), run_litert(content, s.feeds)


@pytest.mark.parametrize("op", ["TANH", "ELU", "LOGISTIC", "HARD_SWISH", "EXP"])
def test_functions_are_right_at_every_magnitude(op: str) -> None:
    s = sketch()
    y = s.op(op, [s.feed(values=[*NORMAL, *-NORMAL, 0])], [s.tensor()])
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1.2e-38)


def test_recurrent_layers_are_right_at_every_magnitude() -> None:
    units = 64
    s = sketch()
    x = s.feed(values=np.geomspace(1.2e-38, 10, units).reshape(1, 1, units))
    weights = s.constant(np.eye(units, dtype=np.float32))
    zeros = [s.constant(np.zeros(shape, np.float32)) for shape in ((units, units), units)]
    operands = [x, weights, *zeros, s.variable((1, units))]
    options = dict(time_major=False, fused_activation_function="TANH")
    y = s.op("UNIDIRECTIONAL_SEQUENCE_RNN", operands, [s.tensor()], **options)
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "kernel"),
    [(2, 4, 4, 3), (3, 4, 8, 1), (2, 64, 64, 1), (4, 16, 8, 3)],
)
def test_nan_stays_in_its_group(groups: int, inputs: int, outputs: int, kernel: int) -> None:
    s = sketch()
    values = s.normal((2, 5, 7, groups * inputs))
    values[:, 2, 3, inputs * groups - 4] = np.nan
    weights = s.constant(s.normal((groups * outputs, kernel, kernel, inputs)))
    biases = s.constant(s.normal((groups * outputs,)))
    window = dict(stride_h=1, stride_w=1, padding="SAME")
    y = s.op("CONV_2D", [s.feed(values=values), weights, biases], [s.tensor()], **window)
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)
