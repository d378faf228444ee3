"""Tensors stored as float16, where precision_loss_allowed lets them be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt

import gles_delegate as gd
from gles_delegate import profiles
from tests.op_table import CASES, Case, sample
from tests.support.force import force_profile
from tests.support.oracle import run, run_litert
from tests.support.sampling import choose

pytestmark = pytest.mark.usefixtures("gl")

MODELS = ("mnist_model", "face_detection_front")
CASES_OF_ALL = [case for case in CASES if case.op in ("GRAPH", "CONCATENATION")]
CASES_OF_ALL += [
    case
    for case in CASES
    if case.op in ("UNIDIRECTIONAL_SEQUENCE_LSTM", "RFFT2D") and case.hash % 8 == 0
]
LOSSY = gd.GpuDelegateOptions(precision_loss_allowed=True)
SAMPLE = choose("in float16", CASES_OF_ALL, sample(CASES_OF_ALL, 30))


@pytest.fixture(params=["UNKNOWN", "MALI_G"])
def half(floor: None, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every device is taken for a GPU on which float16 pays: storage alone, and products too."""
    profile = profiles.NAMED[request.param]
    assert profile.half_storage
    assert profile.half_products == (request.param == "MALI_G")
    force_profile(monkeypatch, profile)


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("name", MODELS)
def test_models_agree_to_a_hundredth(name: str, real_model: Callable[[str], bytes]) -> None:
    content = real_model(name)
    with gd.GpuDelegate(LOSSY) as delegate:
        ours = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        assert delegate.report.storage == "float16"
        reference = LiteRt(model_content=content)
        shape = ours.get_input_details()[0]["shape"]
        feed = [np.random.default_rng(0).uniform(-1, 1, shape).astype(np.float32)]
        for interpreter in (ours, reference):
            interpreter.allocate_tensors()
        for actual, expected in zip(run(ours, feed), run(reference, feed), strict=True):
            error = np.abs(actual - expected).max() / np.abs(expected).max()
            assert 0 < error < 1e-2


@pytest.mark.usefixtures("half")
@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: case.id)
def test_small_graphs_agree_to_a_hundredth(case: Case) -> None:
    content, inputs = case.build()
    with gd.GpuDelegate(LOSSY) as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        for actual, expected in zip(
            run(interpreter, inputs), run_litert(content, inputs), strict=True
        ):
            scale = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-2 * scale)


def test_llvmpipe_keeps_float32(real_model: Callable[[str], bytes]) -> None:
    with gd.GpuDelegate(LOSSY) as delegate:
        gd.Interpreter(model_content=real_model("mnist_model"), experimental_delegates=[delegate])
        half = delegate.gpu.limits.profile.half_storage
        assert half == ("llvmpipe" not in delegate.gpu.driver.renderer)
        assert delegate.report.storage == ("float16" if half else "float32")
