"""Types that are not the GPU's own, on their way in and out, in both hosts and in bound buffers."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from tests.support.app import App
from tests.support.oracle import assert_close, complete, run_delegated, run_gles, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

SHAPE = (2, 3, 5)
VALUES: dict[str, NDArray[Any]] = {
    "float16": np.linspace(-7, 7, 30).astype(np.float16),
    "int16": np.linspace(-(2**15), 2**15 - 1, 30).astype(np.int16),
    "int64": np.linspace(-(2**31), 2**31 - 1, 30).astype(np.int64),
}


def turned(dtype: str) -> tuple[bytes, list[NDArray[Any]]]:
    """A tensor, and it again with its first and last dimensions swapped."""
    s = Sketch(np.random.default_rng(0))
    options = quantization(0.01) if dtype == "int16" else None
    x = s.input(SHAPE, dtype, quantization=options)
    s.feeds.append(VALUES[dtype].reshape(SHAPE))
    real = s.op("CAST", [x], [s.tensor()]) if dtype == "float16" else x
    order = s.constant(np.array([2, 1, 0], np.int32))
    y = s.op("TRANSPOSE", [real, order], [s.tensor(None, dtype, quantization=options)])
    if dtype == "float16":
        s.tensors[y]["type"] = s.tensors[real]["type"]
        y = s.op("CAST", [y], [s.tensor(None, dtype)])
    return complete(s, [y]), s.feeds


@pytest.mark.parametrize("host", [run_gles, run_delegated])
@pytest.mark.parametrize("dtype", VALUES)
def test_inputs_and_outputs(dtype: str, host: Any) -> None:
    content, feeds = turned(dtype)
    assert_close(host(content, feeds), run_litert(content, feeds))


@pytest.mark.parametrize("dtype", VALUES)
def test_bound_buffers(dtype: str, app: App) -> None:
    content, (x,) = turned(dtype)
    interpreter = app.interpreter(content)
    (source,) = interpreter.get_input_details()
    (target,) = interpreter.get_output_details()
    buffer = app.buffer(x.nbytes)
    app.delegate.bind_buffer_to_tensor(source["index"], app.buffer(x))
    app.delegate.bind_buffer_to_tensor(target["index"], buffer)
    interpreter.invoke()
    np.testing.assert_array_equal(app.read(buffer, dtype), x.transpose().ravel())


@pytest.mark.parametrize("host", [run_gles, run_delegated])
@pytest.mark.parametrize("number", [2**31, -(2**31) - 1])
def test_numbers_that_no_int32_is(number: int, host: Any) -> None:
    content, (x,) = turned("int64")
    large = x.copy()
    large[0, 0, 0] = number
    with pytest.raises((ValueError, RuntimeError), match=f"2\\*\\*31 - 1 .* found {number}"):
        host(content, [large])


def test_constants_that_no_int32_is() -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed(values=[1, 2], dtype="int64")
    y = s.op("ADD", [x, s.constant(np.array([5, 2**40]))])
    content = complete(s, [y])
    with pytest.raises(gd.UnsupportedModelError, match="input 1 has the number 1099511627776"):
        run_gles(content, s.feeds)
