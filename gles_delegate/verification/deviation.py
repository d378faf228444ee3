"""Whether results are right: the measure and the rule of every comparison with LiteRT."""

from __future__ import annotations

import numpy as np

from gles_delegate.model.graph import Array

_REAL = "fc"
"""numpy's kinds of real and of complex numbers."""


def largest_error(actual: Array, expected: Array) -> float:
    """The largest difference; infinite where only one is NaN, or if the shapes differ."""
    if actual.shape != expected.shape:
        return np.inf
    same = (actual == expected) | ((actual != actual) & (expected != expected))
    wide = np.complex128 if expected.dtype.kind == "c" else np.float64
    with np.errstate(invalid="ignore"):  # inf - inf
        off = np.abs(actual[~same].astype(wide) - expected[~same].astype(wide))
    return float(np.nan_to_num(off, nan=np.inf, posinf=np.inf).max(initial=0))


def scale_of(expected: Array) -> float:
    """The unit of relative errors: the largest finite magnitude of real numbers, 1 for integers.

    It has no lower limit, so that zeros are wrong however small the right results are. If these
    are all zero, it is 1.
    """
    if expected.dtype.kind not in _REAL:
        return 1.0
    finite = np.abs(expected[np.isfinite(expected)])
    return float(finite.max(initial=0)) or 1.0


def relative_error(actual: Array, expected: Array) -> float:
    """`largest_error` as a share of `scale_of`."""
    return largest_error(actual, expected) / scale_of(expected)


def allowed_error(expected: Array, quantized: bool, tolerance: float, steps: float) -> float:
    """The largest `relative_error` that is right.

    It is `tolerance` for real numbers, and `steps` for integers that are `quantized`; others are
    exact.
    """
    if expected.dtype.kind in _REAL:
        return tolerance
    return steps if quantized else 0.0


def ratio(error: float, allowed: float) -> float:
    """The share of the allowed error; above 1 is wrong."""
    if not error:
        return 0.0
    return error / allowed if allowed else np.inf
