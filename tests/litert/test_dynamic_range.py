"""Models with float activations and 8-bit weights.

LiteRT rounds their activations to 8 bits at run time, and the delegate does not: it is compared
closely with the same model in float, and loosely with LiteRT.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.oracle import assert_close, run_gles, run_litert
from tests.support.tflite_builder import ModelBuilder, quantization

pytestmark = pytest.mark.usefixtures("gl")

CASES = (  # those that LiteRT has kernels for: op, weights for 5 channels, axis, scales
    ("CONV_2D", (6, 3, 3, 5), 0, 1),
    ("CONV_2D", (6, 3, 3, 5), 0, 6),
    ("DEPTHWISE_CONV_2D", (1, 3, 3, 5), 3, 5),
    ("FULLY_CONNECTED", (7, 5), 0, 1),
)


def model(op: str, steps: NDArray[Any], scales: NDArray[Any], axis: int, *, float32: bool) -> bytes:
    builder = ModelBuilder()
    x = builder.input((2, 5) if op == "FULLY_CONNECTED" else (2, 8, 9, 5))
    outputs = steps.shape[axis]
    if float32:
        shape = [1] * steps.ndim
        shape[axis] = -1
        weights = builder.constant((steps * scales.reshape(shape)).astype(np.float32))
    else:
        stored = quantization(scales, 0, axis)
        weights = builder.constant(steps.astype(np.int8), quantization=stored)
    bias = builder.constant(np.linspace(-1, 1, outputs, dtype=np.float32))
    options: dict[str, Any] = {} if op == "FULLY_CONNECTED" else {"stride_w": 1, "stride_h": 1}
    if op == "DEPTHWISE_CONV_2D":
        options["depth_multiplier"] = 1
    version = 3 if op == "FULLY_CONNECTED" else 6
    y = builder.op(op, [x, weights, bias], version=version, **options)
    return builder.build(outputs=[y])


@pytest.mark.parametrize(("op", "shape", "axis", "count"), CASES)
def test_weights_are_the_numbers_they_stand_for(
    op: str, shape: tuple[int, ...], axis: int, count: int
) -> None:
    rng = np.random.default_rng(0)
    steps = rng.integers(-127, 128, shape)
    scales = rng.uniform(0.01, 0.03, count).astype(np.float32)
    spread = scales.repeat(shape[axis] // count)
    x = rng.standard_normal((2, 5) if op == "FULLY_CONNECTED" else (2, 8, 9, 5)).astype(np.float32)
    ours = run_gles(model(op, steps, scales, axis, float32=False), [x])
    assert_close(ours, run_litert(model(op, steps, spread, axis, float32=True), [x]))
    (hybrid,) = run_litert(model(op, steps, scales, axis, float32=False), [x])
    assert np.abs(ours[0] - hybrid).max() < 0.02 * np.abs(hybrid).max()
