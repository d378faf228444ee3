"""`load_delegate`, with options as values and as texts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import gles_delegate as gd
from tests.gl.test_binding import negated

TFLITE = "libtensorflowlite_gpu_delegate.so"


def test_texts_stand_for_values() -> None:
    texts = {
        "precision_loss_allowed": "None",
        "inference_preference": "SUSTAINED_SPEED",
        "inference_priority1": "3",
        "max_delegated_partitions": "2",
        "last_delegate_node_index": "7",
        "serialization_dir": "cache",
        "own_thread": "True",
        "pin_software_threads": "0",
    }
    expected = gd.GpuDelegateOptions(
        inference_preference=gd.InferencePreference.SUSTAINED_SPEED,
        inference_priority1=gd.InferencePriority.MIN_MEMORY_USAGE,
        max_delegated_partitions=2,
        last_delegate_node_index=7,
        serialization_dir="cache",
        own_thread=True,
        pin_software_threads=False,
    )
    assert gd.load_delegate(TFLITE, texts).options == expected
    assert gd.load_delegate(options={"serialization_dir": Path("x")}).options.serialization_dir
    assert gd.load_delegate().options == gd.GpuDelegateOptions()


@pytest.mark.parametrize(
    ("library", "options", "message"),
    [
        ("libedgetpu.so.1", {}, "expected 'gles_delegate' or TFLite's GPU delegate, found"),
        (TFLITE, {"threads": "2"}, "expected options of precision_loss_allowed.* found threads"),
        (TFLITE, {"own_thread": "maybe"}, "own_thread must be bool, not 'maybe'"),
        (TFLITE, {"device_index": "first"}, "device_index must be int, not 'first'"),
        (TFLITE, {"inference_preference": "FAST"}, "inference_preference must be Inference"),
        (TFLITE, {"inference_priority1": "9"}, "inference_priority1 must be InferencePriority"),
        (TFLITE, {"max_delegated_partitions": "0"}, "max_delegated_partitions must be 1 or more"),
    ],
)
def test_what_is_refused(library: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gd.load_delegate(library, options)


@pytest.mark.usefixtures("gl")
def test_it_runs(tmp_path: Path) -> None:
    model = tmp_path / "negated.tflite"
    model.write_bytes(negated((1, 2, 2, 4)))
    with gd.load_delegate(options={"model": str(model)}) as delegate:
        interpreter = gd.Interpreter(str(model), experimental_delegates=[delegate])
        (result,) = interpreter.run({0: np.ones((1, 2, 2, 4), np.float32)}).values()
        assert (result == -1).all()
