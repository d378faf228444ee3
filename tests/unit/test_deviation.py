"""Errors are relative to the largest number of a result, whichever command judges it."""

import numpy as np
import pytest

from gles_delegate.bench.comparison import _difference
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.verification.cases import VerificationCase
from gles_delegate.verification.deviation import largest_error, relative_error

SMALL = np.full((1, 20000), 1 / 20000, np.float32)  # SOFTMAX of 20 000 equal numbers
NAN, INFINITE = np.float32([np.nan, 1]), np.float32([np.inf, 1])
MIXED = np.float32([0, -200, np.inf, np.nan])

PAIRS: dict[str, tuple[Array, Array, float]] = {
    "zeros for small numbers": (np.zeros_like(SMALL), SMALL, 1),
    "the same": (SMALL, SMALL, 0),
    "small numbers for zeros": (SMALL, np.zeros_like(SMALL), 1 / 20000),
    "large numbers": (np.float32([1e6, 10]), np.float32([1e6, 20]), 1e-5),
    "the same NaN": (NAN, NAN, 0),
    "no NaN": (np.ones(2, np.float32), NAN, np.inf),
    "the same infinity": (INFINITE, INFINITE, 0),
    "another infinity": (-INFINITE, INFINITE, np.inf),
    "beside infinity and NaN": (MIXED + np.float32([1, 0, 0, 0]), MIXED, 1 / 200),
    "steps": (np.uint8([250]), np.uint8([3]), 247),
    "complex numbers": (np.complex64([3j]), np.complex64([4j]), 0.25),
    "other shapes": (np.zeros((1, 2)), np.zeros(2), np.inf),
    "nothing": (np.zeros((0, 3)), np.zeros((0, 3)), 0),
}


@pytest.mark.parametrize(("actual", "expected", "error"), PAIRS.values(), ids=PAIRS)
def test_relative_errors(actual: Array, expected: Array, error: float) -> None:
    assert relative_error(actual, expected) == pytest.approx(error)


def test_the_largest_error_has_the_unit_of_the_numbers() -> None:
    assert largest_error(np.float32([2, 3e6]), np.float32([1, 3e6])) == 1


def test_zeros_are_wrong_for_small_numbers() -> None:
    tensor = Tensor(0, "scores", "float32", SMALL.shape, ())
    assert not _difference(tensor, None, np.zeros_like(SMALL), SMALL, 1e-4, 1, False).passed
    assert _difference(tensor, None, SMALL * np.float32(1.00001), SMALL, 1e-4, 1, False).passed
    case = VerificationCase("", "", True, True, 1, b"", (), (SMALL,))
    assert case.deviation([np.zeros_like(SMALL)], half=False) == (1, 1e-5)
