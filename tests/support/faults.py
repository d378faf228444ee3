"""Wrong results that a driver may give, and which of them a verification case shows."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.verification.cases import VerificationCase
from gles_delegate.verification.deviation import ratio
from tests.support.oracle import run_litert

FAULTS = frozenset(
    {"scaled"}
    | {f"{part} {what}" for part in ("pixels", "slices") for what in ("missing", "not read")}
    | {f"{part} swapped" for part in ("pixels", "channels")}
)
SCALE = 1.01
"""A driver's results may be off by a percent, as if by a rough approximation."""


def shown(case: VerificationCase) -> frozenset[str]:
    """The faults that make the results of a case wrong."""
    return frozenset(name for name, results in _faults(case) if is_wrong(case, results))


def is_wrong(case: VerificationCase, results: Sequence[Array]) -> bool:
    return ratio(*case.deviation(results, half=False)) > 1


def _faults(case: VerificationCase) -> Iterator[tuple[str, Sequence[Array]]]:
    yield "scaled", [scaled(array) for array in case.outputs]
    for part in ("pixels", "slices"):
        yield f"{part} missing", [cut(array, part) for array in case.outputs]
        for number, array in enumerate(case.inputs):
            # Larger integers may be indices and sizes.
            is_data = array.dtype.kind in "fc" or array.dtype.itemsize < 4
            shorter = cut(array, part) if is_data else array
            if not np.array_equal(shorter, array):
                inputs = (*case.inputs[:number], shorter, *case.inputs[number + 1 :])
                with suppress(RuntimeError):  # LiteRT refuses to divide by zero
                    yield f"{part} not read", run_litert(case.model, inputs)
    for part in ("pixels", "channels"):
        yield f"{part} swapped", [moved(array, part) for array in case.outputs]


def scaled(array: Array) -> Array:
    """Real numbers, off by a percent."""
    with np.errstate(over="ignore"):  # of the largest numbers
        return (array * SCALE).astype(array.dtype) if array.dtype.kind in "fc" else array


def cut(array: Array, part: str) -> Array:
    """Zeros in all but the first pixel or slice."""
    result = array.copy()
    _rows(result)[(slice(1, None),) if part == "pixels" else (slice(None), slice(4, None))] = 0
    return result


def moved(array: Array, part: str) -> Array:
    """Each pixel or channel where the next one belongs."""
    return np.roll(_rows(array), 1, axis=0 if part == "pixels" else 1).reshape(array.shape)


def _rows(array: Array) -> Array:
    """The pixels, and the channels of each."""
    return array.reshape(-1, array.shape[-1] if array.ndim and array.size else 1)
