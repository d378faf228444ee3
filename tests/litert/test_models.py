"""The published models, wholly on the GPU, against LiteRT's CPU kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate.device import profiles
from tests.support.force import force_profile
from tests.support.hosts import run_resized
from tests.support.models import REAL_MODELS
from tests.support.sampling import choose

TOLERANCE = 1e-4
SMALL = ("mnist_model", "face_landmark")
OF_A_PROFILE = choose("models by profile", REAL_MODELS, REAL_MODELS[1:2])
BATCH_IS_FIXED = {"twins/twin_mobilenet_v1_1.0_224", "twins/twin_ssd_mobilenet_v2_300"}
RESIZED = {"twins/twin_posenet_mobilenet_v1_075_353x257": (1, 97, 129, 3)}


def run_shaped(interpreter: Any, shapes: Sequence[Sequence[int]]) -> list[Any]:
    """The outputs for inputs of these shapes: pictures of smooth noise, the same every time."""
    rng = np.random.default_rng(0)
    pictures = [rng.uniform(-1, 1, shape).astype(np.float32) for shape in shapes]
    return run_resized(interpreter, pictures)


def check(interpreter: gd.Interpreter, content: bytes, shapes: Sequence[Sequence[int]]) -> None:
    ours = run_shaped(interpreter, shapes)
    reference = run_shaped(LiteRt(model_content=content), shapes)
    assert len(ours) == len(reference)
    for actual, expected in zip(ours, reference, strict=True):
        scale = float(np.abs(expected).max())
        assert scale > 0
        assert actual.shape == expected.shape
        np.testing.assert_allclose(actual, expected, rtol=0, atol=TOLERANCE * scale)


@pytest.mark.parametrize("name", REAL_MODELS)
def test_model_and_its_sizes(name: str, real_model: Callable[[str], bytes]) -> None:
    content = real_model(name)
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.fully_delegated
        shapes = [detail["shape"].tolist() for detail in interpreter.get_input_details()]
        check(interpreter, content, shapes)
        batch_of_3 = [[3, *shape[1:]] for shape in shapes]
        if name in BATCH_IS_FIXED:  # by a RESHAPE; LiteRT refuses as well
            with pytest.raises(gd.UnsupportedModelError, match="RESHAPE"):
                run_shaped(interpreter, batch_of_3)
            with pytest.raises(RuntimeError):
                run_shaped(LiteRt(model_content=content), batch_of_3)
        else:
            check(interpreter, content, batch_of_3)
        if name in RESIZED:
            check(interpreter, content, [RESIZED[name]])


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.usefixtures("floor")
def test_model_at_the_floor(name: str, real_model: Callable[[str], bytes]) -> None:
    content = real_model(name)
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.gpu.limits.buffer_texels == 0
        shapes = [detail["shape"].tolist() for detail in interpreter.get_input_details()]
        check(interpreter, content, shapes)


@pytest.mark.parametrize("profile", profiles.NAMED)
@pytest.mark.parametrize("name", OF_A_PROFILE)
@pytest.mark.usefixtures("floor")
def test_model_with_the_kernels_of_a_profile(
    name: str, profile: str, real_model: Callable[[str], bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, profiles.NAMED[profile])
    content = real_model(name)
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        shapes = [detail["shape"].tolist() for detail in interpreter.get_input_details()]
        check(interpreter, content, shapes)
