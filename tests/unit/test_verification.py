"""The cases that the package verifies devices with, without GL."""

from dataclasses import replace

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.ops import supported_ops
from gles_delegate.verification.cases import content, load_cases, pack, unpack
from gles_delegate.verification.check import CaseResult, Form, _checked

CASES = load_cases()

WITHOUT_CASES = {
    *("ASSIGN_VARIABLE", "CALL_ONCE", "READ_VARIABLE", "VAR_HANDLE"),  # they move nothing
    # LiteRT has no results of them, and they run kernels of others.
    *(f"FlexTensorList{name}" for name in ("FromTensor", "GetItem", "SetItem", "Stack")),
    "Convolution2DTransposeBias",  # runs TRANSPOSE_CONV's kernel
    "LiteRtMaxUnpooling2D",
    "STABLEHLO_SORT",  # runs TOPK_V2's kernels
}


def test_the_file_is_small() -> None:
    assert len(content()) < 1_000_000


def test_cases_are_packed_and_unpacked() -> None:
    some = CASES[::50]
    for before, after in zip(some, unpack(pack(some)), strict=True):
        arrays = zip(before.inputs + before.outputs, after.inputs + after.outputs, strict=True)
        for expected, actual in arrays:
            assert (actual.shape, actual.dtype) == (expected.shape, expected.dtype)
            np.testing.assert_array_equal(actual, expected)
        plain = {"inputs": (), "outputs": ()}
        assert replace(after, **plain) == replace(before, **plain)


def test_every_op_has_a_quick_case() -> None:
    assert set(supported_ops()) - {case.op for case in CASES if case.quick} <= WITHOUT_CASES


def test_every_element_type_and_batches() -> None:
    arrays = [array for case in CASES for array in case.inputs]
    types = {"float32", "int32", "int64", "int16", "int8", "uint8", "bool"}
    assert types <= {array.dtype.name for array in arrays}
    assert any(array.ndim == 4 and array.shape[0] > 1 for array in arrays)
    assert any(array.ndim and array.shape[-1] % 4 for array in arrays)


def test_models_take_the_inputs() -> None:
    for case in CASES:
        graph = read_model(case.model)
        assert len(graph.inputs) == len(case.inputs)
        for index, array in zip(graph.inputs, case.inputs, strict=True):
            assert graph.tensors[index].dtype == array.dtype.name, case.name


@pytest.mark.parametrize(
    ("dtype", "off", "half", "right"),
    [
        ("float32", 0.9e-5, False, True),
        ("float32", 1.1e-5, False, False),
        ("float32", 0.9e-2, True, True),
        ("float32", 1.1e-2, True, False),
        ("float32", np.nan, True, False),
        ("float32", np.inf, True, False),
        ("int8", 1, False, True),
        ("int8", 2, False, False),
        ("int8", 3, True, True),
        ("int32", 1, True, False),
        ("bool", True, True, False),
    ],
)
def test_allowed_errors(dtype: str, off: float, half: bool, right: bool) -> None:
    expected = np.zeros((2, 3), dtype)
    case = replace(CASES[0], steps=1, outputs=(expected,))
    result = expected.copy()
    assert case.deviation([result], half)[0] == 0
    result[1, 1] = off
    error, allowed = case.deviation([result], half)
    assert CaseResult("", "", "", 0, error, allowed).passed == right


def test_forms_that_a_case_does_not_have() -> None:
    """Neither float16 nor constants of cases that are not for them."""
    case = replace(CASES[0], half=False, quick=False)
    forms = [Form(Limits(), half=True), Form(Limits(), constant=True)]
    assert [*_checked(case, None, forms)] == []  # type: ignore[arg-type]
