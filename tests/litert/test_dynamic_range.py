"""Models with float activations and weights of 8 bits or less.

LiteRT rounds their activations to 8 bits at run time, and the delegate does not: it is compared
closely with the same model in float, and loosely with LiteRT.
"""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.profiles import NAMED
from tests.support.force import force_profile
from tests.support.oracle import (
    assert_close,
    gles_interpreter,
    in_ours,
    litert_interpreter,
    run,
    run_gles,
    run_litert,
)
from tests.support.schema import Values
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder, blockwise, quantization

CASES = (  # those that LiteRT has kernels for: op, weights for 5 channels, axis, scales
    ("CONV_2D", (6, 3, 3, 5), 0, 1),
    ("CONV_2D", (6, 3, 3, 5), 0, 6),
    ("DEPTHWISE_CONV_2D", (1, 3, 3, 5), 3, 5),
    ("FULLY_CONNECTED", (7, 5), 0, 1),
)

TYPES = {"int8": 127, "int4": 7, "int2": 1}
"""With the largest number of each."""


def model(op: str, steps: NDArray[Any], scales: NDArray[Any], axis: int, dtype: str) -> bytes:
    builder = ModelBuilder()
    x = builder.input((2, 5) if op == "FULLY_CONNECTED" else (2, 8, 9, 5))
    outputs = steps.shape[axis]
    if dtype == "float32":
        shape = [1] * steps.ndim
        shape[axis] = -1
        weights = builder.constant((steps * scales.reshape(shape)).astype(np.float32))
    else:
        stored = quantization(scales, 0, axis)
        weights = stored_as(builder, dtype, steps, stored)
    bias = builder.constant(np.linspace(-1, 1, outputs, dtype=np.float32))
    options: dict[str, Any] = {} if op == "FULLY_CONNECTED" else {"stride_w": 1, "stride_h": 1}
    if op == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    version = {"int4": 7, "int2": 13}.get(dtype, 3) if op == "FULLY_CONNECTED" else 6
    y = builder.op(op, [x, weights, bias], version=version, **options)
    return builder.build(outputs=[y])


def stored_as(builder: ModelBuilder, dtype: str, steps: NDArray[Any], how: Values) -> int:
    if dtype == "int8":
        return builder.constant(steps.astype(np.int8), quantization=how)
    return builder.small(steps, dtype, quantization=how)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("op", "shape", "axis", "count"), CASES)
def test_weights_are_the_numbers_they_stand_for(
    op: str, shape: tuple[int, ...], axis: int, count: int, dtype: str
) -> None:
    if (op, dtype) == ("DEPTHWISE_CONV_2D", "int4") or (
        dtype == "int2" and op != "FULLY_CONNECTED"
    ):
        pytest.skip("LiteRT has no kernel for it")
    rng = np.random.default_rng(0)
    steps = rng.integers(-TYPES[dtype], TYPES[dtype], shape, endpoint=True)
    scales = rng.uniform(0.01, 0.03, count).astype(np.float32)
    spread = scales.repeat(shape[axis] // count)
    x = rng.standard_normal((2, 5) if op == "FULLY_CONNECTED" else (2, 8, 9, 5)).astype(np.float32)
    ours = run_gles(model(op, steps, scales, axis, dtype), [x])
    assert_close(ours, run_litert(model(op, steps, spread, axis, "float32"), [x]))
    (hybrid,) = run_litert(model(op, steps, scales, axis, dtype), [x])
    assert np.abs(ours[0] - hybrid).max() < 0.02 * np.abs(hybrid).max()


@pytest.mark.parametrize(
    ("op", "dtype"),
    [("FULLY_CONNECTED", "int4"), ("EMBEDDING_LOOKUP", "int4"), ("EMBEDDING_LOOKUP", "int2")],
)
def test_weights_with_a_scale_for_each_block(op: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(-TYPES[dtype], TYPES[dtype], (7, 64), endpoint=True)
    scales = rng.uniform(0.01, 0.03, (7, 2)).astype(np.float16)
    builder = ModelBuilder()
    blocks = builder.constant(scales)
    weights = builder.small(steps, dtype, quantization=blockwise(blocks, 32))
    real = steps * scales.repeat(32, axis=1).astype(np.float32)
    if op == "EMBEDDING_LOOKUP":
        x: NDArray[Any] = np.array([3, 0, 6], np.int32)
        y = builder.op(op, [builder.input(x.shape, x.dtype), weights], [builder.tensor((3, 64))])
        expected = real[x]
    else:
        x = rng.standard_normal((2, 64)).astype(np.float32)
        y = builder.op(op, [builder.input(x.shape), weights], [(2, 7)], version=13)
        expected = x @ real.T
    content = builder.build(outputs=[y])
    with gles_interpreter(content) as interpreter:
        (ours,) = run(interpreter, [x])
        described, known = (
            {d["index"]: d["quantization_parameters"] for d in made.get_tensor_details()}
            for made in (interpreter, litert_interpreter(content))
        )
    for what in ("scales", "block_size", "quantized_dimension"):  # LiteRT's zero points are noise
        np.testing.assert_equal(described[weights][what], known[weights][what])
    np.testing.assert_allclose(ours, expected, atol=1e-5)
    (theirs,) = run_litert(content, [x])
    assert np.abs(ours - theirs).max() < 0.02 * np.abs(theirs).max()


@pytest.mark.parametrize(("dtype", "bits"), [("int8", 8), ("int4", 4), ("int2", 4)])
def test_weights_stay_small(dtype: str, bits: int) -> None:
    """On the GPU too, where a few rows are multiplied by them."""
    steps, scales = np.ones((512, 5), np.int8), np.full(512, 0.1, np.float32)
    content = model("FULLY_CONNECTED", steps, scales, 0, dtype)
    with gd.GpuDelegate() as delegate:
        in_ours(delegate, content)
        # With the biases and the scales; 5 inputs take two slices.
        assert delegate.memory().constants == 512 * 8 * bits // 8 + 2 * 512 * 4


@pytest.mark.usefixtures("floor")
@pytest.mark.parametrize("name", NAMED)
@pytest.mark.parametrize(
    ("kind", "zero"), [(np.uint8, 0), (np.uint8, 131), (np.uint8, 255), (np.int8, 0)]
)
def test_memory_before_speed(
    name: str, kind: type, zero: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weights of large images stay bytes, whatever their zero point."""
    force_profile(monkeypatch, NAMED[name])
    rng = np.random.default_rng(0)
    s = Sketch(rng)
    how = {"quantization": quantization(0.04, 120 if kind is np.uint8 else -8)}
    x = s.input((1, 12, 9, 20), kind, **how)
    limits = np.iinfo(kind)
    steps = rng.integers(limits.min, limits.max, (24, 3, 3, 20), endpoint=True).astype(kind)
    weights = s.constant(steps, quantization=quantization(0.002, zero))
    bias = s.constant(np.arange(24, dtype=np.int32) * 50, quantization=quantization(0.00008))
    y = s.tensor(dtype=kind, **how)
    s.op("CONV_2D", [x, weights, bias], [y], stride_w=1, stride_h=1)
    content = s.build([y])
    feed = rng.integers(limits.min, limits.max, (1, 12, 9, 20), endpoint=True).astype(kind)
    options = gd.GpuDelegateOptions(inference_priority2=gd.InferencePriority.MIN_MEMORY_USAGE)
    with gd.GpuDelegate(options) as delegate:
        (ours,) = run(in_ours(delegate, content), [feed])
        # NVIDIA's blocks have 32 channels.
        assert delegate.memory().constants < 9 * 32 * 20 + 4 * 32 * 4
    assert_close([ours], run_litert(content, [feed]))
