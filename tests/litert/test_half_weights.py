"""Weights that a device reads as float16 or int8: without loss where they are so in the model."""

from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.device.profiles import MALI_G, V3D, Profile
from tests.support.force import force_profile
from tests.support.oracle import assert_close, in_ours, run, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

pytestmark = pytest.mark.usefixtures("floor")

Model = tuple[bytes, list[Any]]


@cache
def model(dtype: str) -> Model:
    """Every kind of convolution, with weights of that type; few and odd channels."""
    s = Sketch(np.random.default_rng(0))

    def weights(*shape: int) -> int:
        if dtype == "int8" and len(shape) > 1:
            scales = s.rng.uniform(0.002, 0.004, shape[-1 if shape[0] == 1 else 0])
            steps = s.rng.integers(-127, 127, shape, np.int8, endpoint=True)
            axis = 3 if shape[0] == 1 else 0
            return s.constant(steps, quantization=quantization(scales, 0, axis))
        if dtype == "int8":
            return s.constant(s.normal(shape, 0.3))
        constant = s.constant(s.normal(shape, 0.3).astype(dtype))
        return constant if dtype == "float32" else s.op("DEQUANTIZE", [constant], [s.tensor(shape)])

    sliding = dict(padding="SAME", stride_w=1, stride_h=1)
    x = s.feed((2, 9, 7, 3))
    y = s.op("CONV_2D", [x, weights(10, 3, 3, 3), weights(10)], [(2, 9, 7, 10)], **sliding)
    y = s.op(
        "DEPTHWISE_CONV_2D", [y, weights(1, 3, 3, 10), weights(10)], [(2, 9, 7, 10)], **sliding
    )
    y = s.op("CONV_2D", [y, weights(21, 1, 1, 10), weights(21)], [(2, 9, 7, 21)], **sliding)
    y = s.op("CONV_2D", [y, weights(6, 2, 5, 21), weights(6)], [(2, 9, 7, 6)], **sliding)
    shape = s.constant(np.array([2, 18, 14, 5], np.int32))
    inputs = [shape, weights(5, 3, 3, 6), y]
    y = s.op(
        "TRANSPOSE_CONV", inputs, [s.tensor((2, 18, 14, 5))], padding="SAME", stride_w=2, stride_h=2
    )
    y = s.op("FULLY_CONNECTED", [y, weights(2, 18 * 14 * 5), weights(2)], [(2, 2)])
    return s.build([y]), s.feeds


@pytest.mark.parametrize("name", profiles.NAMED)
def test_8_bit_weights_are_exact_and_take_less_memory(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    profile = profiles.NAMED[name]
    content, inputs = model("int8")
    force_profile(monkeypatch, replace(profile, weight_bytes=(0,)))
    with gd.GpuDelegate() as delegate:
        expected = run(in_ours(delegate, content), inputs)
        most = delegate.memory().constants
    force_profile(monkeypatch, replace(profile, weight_bytes=(1 << 20,)))
    with gd.GpuDelegate() as delegate:
        assert_close(run(in_ours(delegate, content), inputs), expected)
        assert delegate.memory().constants < 0.35 * most


def constant_bytes(delegate: gd.GpuDelegate, content: bytes) -> int:
    gd.Interpreter(model_content=content, experimental_delegates=[delegate]).allocate_tensors()
    return delegate.memory().constants


@pytest.mark.parametrize("profile", [V3D, MALI_G], ids=["V3D", "MALI_G"])
def test_float16_weights_are_exact_and_take_less_memory(
    profile: Profile, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, profile)
    content, inputs = model("float16")
    with gd.GpuDelegate() as delegate:
        ours = run(in_ours(delegate, content), inputs)
        assert_close(ours, run_litert(content, inputs), inputs=inputs)
    with gd.GpuDelegate() as delegate, gd.GpuDelegate() as other:
        assert constant_bytes(delegate, content) < 0.6 * constant_bytes(other, model("float32")[0])


@pytest.mark.parametrize("name", profiles.NAMED)
def test_float32_weights_are_float16_only_where_precision_may_be_lost(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, profiles.NAMED[name])
    content, inputs = model("float32")
    (expected,) = run_litert(content, inputs)
    for lossy in (False, True):
        options = gd.GpuDelegateOptions(precision_loss_allowed=lossy)
        with gd.GpuDelegate(options) as delegate:
            (actual,) = run(in_ours(delegate, content), inputs)
            is_half = delegate.report.storage == "float16"
        error = np.abs(actual - expected).max() / np.abs(expected).max()
        assert error < (1e-2 if is_half else 1e-5)
        assert is_half <= lossy
        assert error > 1e-5 or not is_half
