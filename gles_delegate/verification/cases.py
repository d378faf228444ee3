"""The cases: models of one op, with inputs and the results of LiteRT's CPU kernels.

`tools/verification-cases` chooses them from the op table, and writes them to a file of the package:
a JSON list, a line feed, and the bytes of the models and arrays in its order, compressed by zlib.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import prod
from typing import Any

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.runtime.store import fingerprint
from gles_delegate.verification.deviation import allowed_error, ratio, relative_error

FILE = "cases.bin"
_TOLERANCE, _HALF_TOLERANCE = 1e-5, 1e-2
"""Allowed errors of real numbers, relative to the largest one of a result."""
_HALF_STEPS = 3
"""Allowed error of 8-bit and 16-bit integers with float16 storage."""


@dataclass(frozen=True)
class VerificationCase:
    """A model with inputs and results, in the order of the model's inputs and outputs.

    Attributes:
        op: The op that it decides on.
        name: Its id in the op table.
        quick: Whether the short form includes it.
        half: Whether float16 storage is accurate enough for a comparison.
        steps: Allowed error of 8-bit and 16-bit integers, which are quantized.
    """

    op: str
    name: str
    quick: bool
    half: bool
    steps: int
    model: bytes
    inputs: tuple[Array, ...]
    outputs: tuple[Array, ...]

    def deviation(self, results: Sequence[Array], half: bool) -> tuple[float, float]:
        """The error of the worst result, and the allowed one."""
        pairs = zip(results, self.outputs, strict=True)
        each = [(relative_error(*pair), self._allowed(pair[1], half)) for pair in pairs]
        return max(each, key=lambda pair: ratio(*pair), default=(0.0, 0.0))

    def _allowed(self, expected: Array, half: bool) -> float:
        quantized = expected.dtype.itemsize <= 2 and expected.dtype.kind in "iu"
        tolerance = _HALF_TOLERANCE if half else _TOLERANCE
        steps = max(self.steps, _HALF_STEPS) if half else self.steps
        return allowed_error(expected, quantized, tolerance, steps)


@cache
def content() -> bytes:
    """The bytes of the file."""
    return files(__package__).joinpath(FILE).read_bytes()


@cache
def content_id() -> str:
    """A hash of the file."""
    return fingerprint(content())


def load_cases(quick: bool = False) -> tuple[VerificationCase, ...]:
    """The cases of the package, or the quick ones, in the order of their ops."""
    return tuple(case for case in unpack(content()) if case.quick or not quick)


def pack(cases: Iterable[VerificationCase]) -> bytes:
    """The content of a file with these cases."""
    rows: list[dict[str, Any]] = []
    blobs = bytearray()
    for case in cases:
        kinds = {
            name: [[array.dtype.name, list(array.shape)] for array in arrays]
            for name, arrays in (("inputs", case.inputs), ("outputs", case.outputs))
        }
        own = {name: getattr(case, name) for name in ("op", "name", "quick", "half", "steps")}
        rows.append({**own, "model": len(case.model), **kinds})
        blobs += case.model
        for array in (*case.inputs, *case.outputs):
            blobs += array.tobytes()
    return zlib.compress(json.dumps(rows, separators=(",", ":")).encode() + b"\n" + blobs, 9)


def unpack(data: bytes) -> Iterator[VerificationCase]:
    """The cases of a file's content."""
    header, _, blobs = zlib.decompress(data).partition(b"\n")
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return blobs[at - size : at]

    def arrays(kinds: list[tuple[str, list[int]]]) -> tuple[Array, ...]:
        return tuple(
            np.frombuffer(take(prod(shape) * np.dtype(dtype).itemsize), dtype).reshape(shape)
            for dtype, shape in kinds
        )

    for row in json.loads(header):
        model = take(row.pop("model"))
        inputs, outputs = arrays(row.pop("inputs")), arrays(row.pop("outputs"))
        yield VerificationCase(**row, model=model, inputs=inputs, outputs=outputs)
