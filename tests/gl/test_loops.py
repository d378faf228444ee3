"""Long loops, which llvmpipe ends without a word: each gives the right result or is refused."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.tflite_builder import ModelBuilder

WHOLE = gd.GpuDelegateOptions(require_full_delegation=True)


def run(content: bytes, array: Any) -> Any:
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        (result,) = interpreter.run({0: array}).values()
    return result


@pytest.mark.parametrize("length", [65535, 65536, 262144])
@pytest.mark.parametrize("name", ["CUMSUM", "SUM", "REDUCE_MAX"])
def test_along_an_axis(name: str, length: int) -> None:
    b = ModelBuilder()
    x = b.input((length, 1))
    shape = (length, 1) if name == "CUMSUM" else (1,)
    content = b.build([b.op(name, [x, b.constant(np.array([0], np.int32))], [shape])])
    array = np.zeros((length, 1), np.float32)
    array[-1] = 1
    try:
        last = run(content, array).ravel()[-1]
    except gd.UnsupportedModelError as error:
        last = "passes through the loops" in str(error) and length > 65535
    assert last == 1


@pytest.mark.parametrize("name", ["SOFTMAX", "L2_NORMALIZATION"])
def test_over_channels(name: str) -> None:
    """Three loops over 22000 slices are too long for one invocation."""
    b = ModelBuilder()
    shape = (64, 88000)
    array = np.zeros(shape, np.float32)
    array[:, -1] = 50
    options = {"beta": 1.0} if name == "SOFTMAX" else {}
    result = run(b.build([b.op(name, [b.input(shape)], [shape], **options)]), array)
    np.testing.assert_allclose(result[:, -1], 1, atol=1e-6)
    np.testing.assert_allclose(result[:, :-1], 0, atol=1e-6)


@pytest.mark.parametrize(("n", "k"), [(33600, 33600), (672000, 100)])
def test_the_largest_of_many(n: int, k: int) -> None:
    """Each tenth number is equal to others; of these, the first come first."""
    rng = np.random.default_rng(0)
    array = np.where(rng.random((1, n)) < 0.1, 3, rng.normal(size=(1, n))).astype(np.float32)
    b = ModelBuilder()
    x = b.input((1, n))
    outputs = [b.tensor((1, k)), b.tensor((1, k), np.int32)]
    b.op("TOPK_V2", [x, b.constant(np.int32(k))], outputs)
    with gd.GpuDelegate(WHOLE) as delegate:
        interpreter = gd.Interpreter(
            model_content=b.build(outputs), experimental_delegates=[delegate]
        )
        values, places = interpreter.run({0: array}).values()
    expected = np.argsort(-array, kind="stable")[:, :k]
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(values, np.take_along_axis(array, expected, 1))


def test_a_function_with_loops_after_a_long_loop() -> None:
    """Inside CUMSUM's loop, FLOOR_MOD would make some fifty passes for each element."""
    b = ModelBuilder()
    shape = (5000, 1)
    sums = b.op("CUMSUM", [b.input(shape), b.constant(np.int32(0))], [shape])
    content = b.build([b.op("FLOOR_MOD", [sums, b.constant(np.float32(3))], [shape])])
    result = run(content, np.full(shape, 2.0**20, np.float32))
    exact = np.cumsum(np.full(shape, 2.0**20, np.float32), dtype=np.float32) % 3
    np.testing.assert_array_equal(result.ravel(), exact)
