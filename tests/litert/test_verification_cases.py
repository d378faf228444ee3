"""The package's verification cases are the op table's, with LiteRT's results."""

from __future__ import annotations

import numpy as np
import pytest

from gles_delegate.model.reader import read_model
from gles_delegate.verification.cases import VerificationCase, load_cases
from tests.litert.test_custom_ops import run_xnnpack
from tests.op_table import CASES as TABLE
from tests.support.oracle import run_litert
from tests.support.sampling import ROOT, choose
from tests.support.verification import chosen, every_dispatch, others

CASES = load_cases()
SAMPLE = choose("verification cases", CASES, CASES[::10])
BY_NUMPY = {
    *("Landmarks2TransformMatrix", "LiteRtMaxUnpooling2D"),
    *("TransformLandmarks", "TransformTensorBilinear"),
}
FOR_PICTURES = {"image_in", "image_out"}
"""Shaders that read and write an app's textures, which are not ops."""


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: f"{case.op} {case.name}")
def test_results_are_litert_s(case: VerificationCase) -> None:
    if case.op in BY_NUMPY:
        (same,) = (other for other in others() if other.op == case.op)
        results = list(same.outputs)
    elif case.name in ("MaxPoolingWithArgmax2D", "MaxUnpooling2D"):
        results = run_xnnpack(case.model, case.inputs)
    else:
        results = run_litert(case.model, case.inputs)
    # LiteRT's products differ in the last digits between processors.
    error, allowed = case.deviation(results, half=False)
    assert error <= allowed
    for result, stored in zip(results, case.outputs, strict=True):
        assert (result.dtype, result.shape) == (stored.dtype, stored.shape)
        assert np.isfinite(stored).all()


def test_names_are_in_the_op_table() -> None:
    table = {case.id for case in TABLE}
    own = {case.name for case in others()}
    assert {case.name for case in CASES} <= table | own


@pytest.mark.slow
def test_the_script_would_choose_the_same() -> None:
    """Otherwise run tools/verification-cases."""
    names = {case.id for case in chosen()} | {case.name for case in others()}
    assert {case.name for case in CASES} == names


def test_every_shader_runs() -> None:
    shaders: set[str] = set()
    for case in CASES:
        shaders.update(dispatch.shader for dispatch in every_dispatch(read_model(case.model)))
    files = {path.stem for path in (ROOT / "glsl").glob("*.glsl")}
    assert files - shaders == FOR_PICTURES
