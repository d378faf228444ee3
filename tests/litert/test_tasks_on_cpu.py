"""Tasks on LiteRT's CPU kernels; tests/gl/test_mediapipe.py compares them with MediaPipe."""

import gc
import logging
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.tasks import runner, vision
from gles_delegate.errors import ContextError
from tests.support.example import EXAMPLES
from tests.support.mediapipe import image

CPU = mp.BaseOptions.Delegate.CPU
BALL = EXAMPLES / "models" / "ball_segmenter.tflite"
FRAME = np.random.default_rng(0).integers(0, 256, (180, 320, 3), np.uint8)


def test_without_a_gpu_the_default_is_the_cpu(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise ContextError("no EGL here")

    monkeypatch.setattr(runner, "GpuContext", refuse)
    caplog.set_level(logging.WARNING)
    with vision.ImageSegmenter.create_from_model_path(BALL) as segmenter:
        (mask,) = segmenter.segment(image(FRAME)).confidence_masks or ()
        assert str(segmenter.report) == "on LiteRT's CPU"
    assert "tasks run on LiteRT's CPU: no EGL here" in caplog.text
    options = vision.ImageSegmenterOptions(
        mp.BaseOptions(BALL, delegate=mp.BaseOptions.Delegate.GPU)
    )
    with pytest.raises(ContextError, match="no EGL here"):
        vision.ImageSegmenter(options)
    assert mask.numpy_view().shape == (180, 320, 1)


def test_the_cpu_takes_no_textures(gl: None) -> None:
    on_cpu = vision.ImageSegmenterOptions(mp.BaseOptions(BALL, delegate=CPU))
    with (
        vision.ImageSegmenter(on_cpu) as cpu,
        vision.ImageSegmenter.create_from_model_path(BALL) as gpu,
    ):
        masks = [task.segment(image(FRAME)).confidence_masks for task in (cpu, gpu)]
        with pytest.raises(ValueError, match=r"found a texture: Delegate\.CPU"):
            cpu.segment(mp.Image.create_from_texture(1))
    first, second = (mask.numpy_view() for (mask,) in masks)
    np.testing.assert_allclose(first, second, atol=0.01)


def test_a_task_that_is_dropped() -> None:
    options = vision.ImageSegmenterOptions(mp.BaseOptions(BALL, delegate=CPU))
    segmenter = vision.ImageSegmenter(options)
    segmenter.segment(image(FRAME))
    held = segmenter._runner
    del segmenter
    gc.collect()
    assert not held.leases
