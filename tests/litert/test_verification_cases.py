"""The package's verification cases are the op table's, with LiteRT's results."""

from collections.abc import Collection
from itertools import groupby

import numpy as np
import pytest

from gles_delegate.verification.cases import VerificationCase, load_cases
from tests.litert.test_custom_ops import run_xnnpack
from tests.op_table import CASES as TABLE
from tests.support.faults import FAULTS, shown
from tests.support.oracle import run_litert
from tests.support.sampling import ROOT, choose, drawn
from tests.support.verification import candidates, features_of, features_of_row, others

CASES = load_cases()
QUICK = {
    op: [case for case in cases if case.quick]
    for op, cases in groupby(CASES, key=lambda case: case.op)
    if op != "GRAPH"
}
SAMPLE = choose("verification cases", CASES, drawn(CASES, len(CASES) // 10))
BY_NUMPY = {
    *("Landmarks2TransformMatrix", "LiteRtMaxUnpooling2D"),
    *("TransformLandmarks", "TransformTensorBilinear"),
}
WHOLE = {
    *("ARG_MAX", "ARG_MIN", "BITWISE_XOR", "BUCKETIZE", "MULTINOMIAL", "NON_MAX_SUPPRESSION_V4"),
    *("QUANTIZE", "REDUCE_ALL", "REDUCE_ANY", "RIGHT_SHIFT", "STABLEHLO_AND"),
    *("STABLEHLO_SHIFT_LEFT", "LOGICAL_AND", "LOGICAL_NOT", "LOGICAL_OR"),
    *("EQUAL", "GREATER", "GREATER_EQUAL", "LESS", "LESS_EQUAL", "NOT_EQUAL"),
}
"""Ops with indices, bits or booleans as results, which cannot be off by a percent."""
NOT_READ = frozenset({"pixels not read", "slices not read"})
_SWAPPED = {"pixels swapped", "channels swapped"}
_ONE_PIXEL = {"pixels missing", "pixels swapped"}
HIDDEN: dict[str, Collection[str]] = {
    "ZEROS_LIKE": FAULTS,  # its results are zeros
    "FILL": {*NOT_READ, *_SWAPPED},  # and its results are equal
    "REDUCE_ANY": _SWAPPED,  # the same, as any of many is true
    "GREATER_EQUAL": {"slices not read"},  # zeros compare as the numbers that are there
    "(gru)": {"slices missing", "slices not read"},  # units of one slice
    "(gru, reset first)": _ONE_PIXEL,
    "NON_MAX_SUPPRESSION_V4": _ONE_PIXEL,  # a list of indices
    "NON_MAX_SUPPRESSION_V5": _ONE_PIXEL,
    # Few channels, and no kernels that LiteRT runs without XNNPACK.
    **dict.fromkeys(
        (*BY_NUMPY, "MaxPoolingWithArgmax2D", "MaxUnpooling2D"), NOT_READ | {"slices missing"}
    ),
    # `shown` leaves integers, which may be indices, as they are.
    **dict.fromkeys(("BITWISE_XOR", "ONE_HOT", "RIGHT_SHIFT", "SPARSE_TO_DENSE"), NOT_READ),
    **dict.fromkeys(("STABLEHLO_AND", "STABLEHLO_SHIFT_LEFT"), NOT_READ),
    **dict.fromkeys(("RANDOM_STANDARD_NORMAL", "RANDOM_UNIFORM"), NOT_READ),
}
"""Faults that the quick cases of an op cannot show."""
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


@pytest.mark.parametrize("op", QUICK)
def test_the_quick_cases_show_faults(op: str) -> None:
    """Results that are off by a percent, that end early or stand in the wrong place."""
    hidden = {*HIDDEN.get(op, ()), *(["scaled"] if op in WHOLE else [])}
    assert frozenset().union(*map(shown, QUICK[op])) >= FAULTS - hidden


@pytest.mark.parametrize("op", QUICK)
def test_all_cases_show_errors_of_a_percent(op: str) -> None:
    of_op = [case for case in CASES if case.op == op]
    assert op in {*WHOLE, "ZEROS_LIKE"} or any("scaled" in shown(case) for case in of_op)


@pytest.mark.slow
@pytest.mark.background
def test_every_kernel_and_form_of_the_table_is_there() -> None:
    """For a sample of the table, the programs of first runs included, which verification runs, too.

    If some are missing, run tools/verification-cases.
    """
    known = {
        feature
        for case in CASES
        for feature in features_of(case.model, case.name.partition(" ")[0])
    }
    rows = candidates()
    for case in drawn(rows, len(rows) // 8):
        assert features_of_row(case) <= known, case.id
    files = {path.stem for path in (ROOT / "glsl").glob("*.glsl")}
    assert files - {shader for shader, *_ in known} == FOR_PICTURES
