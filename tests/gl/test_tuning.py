"""Tiles chosen by measurement."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.gl.program import Program
from gles_delegate.kernels import convolution
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime import tuning
from gles_delegate.runtime.store import Store
from gles_delegate.shaders.dispatch import Dispatch
from tests.support.force import force_limits, force_profile
from tests.support.small import allocated
from tests.support.tflite_builder import ModelBuilder

Floats = NDArray[np.float32]


@cache
def model() -> bytes:
    """Convolutions: by runs, pointwise after a depthwise one, transposed; and a product."""
    rng = np.random.default_rng(0)
    builder = ModelBuilder()

    def constant(*shape: int) -> int:
        return builder.constant(rng.standard_normal(shape).astype(np.float32))

    sliding = dict(padding="SAME", stride_w=1, stride_h=1)
    x = builder.input((1, 11, 13, 6))
    y = builder.op(
        "CONV_2D", [x, constant(42, 3, 3, 6), constant(42)], [(1, 11, 13, 42)], **sliding
    )
    y = builder.op(
        "DEPTHWISE_CONV_2D", [y, constant(1, 3, 3, 42), constant(42)], [(1, 11, 13, 42)], **sliding
    )
    y = builder.op(
        "CONV_2D", [y, constant(70, 1, 1, 42), constant(70)], [(1, 11, 13, 70)], **sliding
    )
    shape = builder.constant(np.array([1, 22, 26, 9], np.int32))
    inputs = [shape, constant(9, 3, 3, 70), y]
    y = builder.op(
        "TRANSPOSE_CONV",
        inputs,
        [builder.tensor((1, 22, 26, 9))],
        padding="SAME",
        stride_w=2,
        stride_h=2,
    )
    y = builder.op("BATCH_MATMUL", [y, constant(1, 22, 9, 30)], [(1, 22, 26, 30)])
    return builder.build([y])


def run(**options: Any) -> Floats:
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options)) as delegate:
        interpreter = allocated(delegate, model())
        (x,), (y,) = interpreter.get_input_details(), interpreter.get_output_details()
        data = np.random.default_rng(1).standard_normal(x["shape"]).astype(np.float32)
        interpreter.set_tensor(x["index"], data)
        interpreter.invoke()
        return interpreter.get_tensor(y["index"])


SUSTAINED = gd.InferencePreference.SUSTAINED_SPEED


@pytest.mark.usefixtures("floor")
@pytest.mark.parametrize("name", profiles.NAMED)
def test_every_choice_of_a_profile_computes_the_same(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = run()
    profile = profiles.NAMED[name]
    force_profile(monkeypatch, profile)
    for choice in range(profile.choices):
        monkeypatch.setattr(
            tuning, "tune", lambda lowered, nodes, *rest, c=choice: dict.fromkeys(nodes, c)
        )
        actual = run(inference_preference=SUSTAINED)
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.usefixtures("floor")
def test_where_there_is_one_choice_nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "timed_in_turn", lambda *_: pytest.fail("measured"))
    run(inference_preference=SUSTAINED)


@pytest.mark.parametrize(("limit", "value"), [("store_loops", True), ("size_uniforms", False)])
def test_every_form_of_the_shaders_computes_the_same(
    limit: str, value: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stores in a loop or one after another, sizes as uniforms or as constants."""
    expected = run()
    force_limits(monkeypatch, **{limit: value})
    np.testing.assert_allclose(run(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_what_is_too_large_to_be_divided_by_a_uniform_is_so_by_a_constant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = run()
    monkeypatch.setattr(convolution, "MAX_DIVIDED", 0)
    np.testing.assert_allclose(run(), expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_what_was_measured_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = dict(
        inference_preference=SUSTAINED, serialization_dir=tmp_path, model_token="sustained"
    )
    expected = run(**options)
    monkeypatch.setattr(tuning, "tune", lambda *args: pytest.fail("measured again"))
    assert (run(**options) == expected).all()


@pytest.mark.parametrize("kept", [b"[" * 200_000, b"{}", b"[[0, 99]]", b"\xff"])
def test_what_cannot_have_been_measured_is_measured_again(
    kept: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = dict(
        inference_preference=SUSTAINED, serialization_dir=tmp_path, model_token="sustained"
    )
    add = Store.add

    def forge(store: Store, key: str, data: bytes) -> None:
        add(store, key, kept if data.startswith(b"[[") else data)

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add", forge)
        expected = run(**options)
    scale = float(np.abs(expected).max())
    np.testing.assert_allclose(run(**options), expected, rtol=0, atol=1e-5 * scale)


def test_other_preferences_measure_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning, "tune", lambda *args: pytest.fail("measured"))
    run(inference_preference=gd.InferencePreference.BALANCED)


def test_a_choice_that_the_driver_refuses_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run()
    started: list[Program] = []
    finish = Program.finish

    def refuse(program: Program) -> None:
        if len(started) > 8:
            raise gd.ShaderError("too large")
        started.append(program)
        finish(program)

    measured = tuning.tune

    def measure(*arguments: Any) -> tuning.Choices:
        with monkeypatch.context() as patch:
            patch.setattr(Program, "finish", refuse)
            return measured(*arguments)

    monkeypatch.setattr(tuning, "tune", measure)
    actual = run(inference_preference=SUSTAINED)
    np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


CLOCKS: dict[str, Callable[[int], float]] = {
    "steady": lambda call: 1980,
    "low at first": lambda call: 345 if call < 6 else 1980,
    "falling": lambda call: max(885, 1335 - 9 * call),
    "jumping": lambda call: (1980, 1980, 1980, 885, 885)[call // 3 % 5],
}


@pytest.mark.parametrize(
    ("gain", "clock"),
    [(0, "low at first"), (0, "jumping"), (0.24, "steady"), (0.24, "falling"), (0.24, "jumping")],
)
def test_the_clock_of_a_gpu_changes_no_choice(
    gain: float, clock: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Windows of 4 x 2 are faster or not; the choices 2 and 3 have them, and 3 nothing else new."""
    calls = count()

    class Simulated:
        def __init__(self, plan: Plan, *_: object, sources: object = ()) -> None:
            self.plan = plan

        def profile(self) -> list[tuple[Dispatch, float]]:
            frequency = CLOCKS[clock](next(calls))
            return [(d, (1 - gain * is_fast(d)) / frequency) for d in self.plan.dispatches]

        def measure(self) -> float:
            return sum(time for _, time in self.profile())

        def release(self) -> None:
            pass

    def is_fast(d: Dispatch) -> bool:
        return d.shader == "conv_2d" and d.defines["PIXELS"] == 4 and d.defines["SLICES"] == 2

    def chosen(*arguments: Any) -> tuning.Choices:
        choices.append(tune(*arguments))
        raise KeyboardInterrupt

    force_profile(monkeypatch, replace(profiles.NVIDIA, large_windows=(), winograd=(0,)))
    monkeypatch.setattr(tuning, "Session", Simulated)
    tune, choices = tuning.tune, list[tuning.Choices]()
    monkeypatch.setattr(tuning, "tune", chosen)
    path = "examples/models/super_resolution_x2.tflite"
    with gd.GpuDelegate(gd.GpuDelegateOptions(inference_preference=SUSTAINED)) as delegate:
        interpreter = gd.Interpreter(path, experimental_delegates=[delegate])
        with pytest.raises(KeyboardInterrupt):
            interpreter.allocate_tensors()
    assert {choice for each in choices for choice in each.values()} == ({2} if gain else set())
    assert len(choices) == 1
