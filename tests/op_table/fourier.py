"""Fourier transforms, and complex numbers."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import EXTREMES, Attributes, Cases, Op, random_dims
from tests.support.sketch import Dims, Sketch


def rfft2d(s: Sketch, op: str, x: Dims, length: Dims, runtime: bool = False) -> list[int]:
    """The transform, and what is made of it."""
    lengths = np.array(length, np.int32)
    chosen = s.feed(values=lengths, dtype="int32") if runtime else s.constant(lengths)
    result = s.op(op, [s.feed(x), chosen], [s.tensor(None, "complex64")])
    size = s.op("COMPLEX_ABS", [result], [s.tensor()])
    return [result, size]


def rfft2d_cases() -> Iterator[Attributes]:
    for width in (2, 4, 8, 16, 64, 256, 512, 1024, 2048):
        yield dict(x=(3, 1, width), length=(1, width))
    for x in ((1, 8), (5, 8), (2, 1, 5), (2, 1, 9), (2, 3, 1, 8), (2, 3, 4, 5, 9), (0, 1, 8)):
        yield dict(x=x, length=(1, 8))
    for height, width in itertools.product((1, 2, 4, 8, 16), (2, 4, 8, 16, 32)):
        yield dict(x=(2, height, width), length=(height, width))
    for x in ((2, 3, 7), (1, 6, 11), (3, 5, 6), (2, 1, 8)):
        yield dict(x=x, length=(4, 8))
    yield dict(x=(98, 1, 400), length=(1, 512))


def rfft2d_random(rng: random.Random) -> Attributes:
    length = (1 << rng.choice((0, 0, 1, 2, 3)), 1 << rng.randint(1, 7))
    return dict(x=random_dims(rng, rng.randint(2, 4), 9), length=length)


def drawn(s: Sketch, shape: Dims, special: bool = False) -> int:
    values = s.normal(shape) + 1j * s.normal(shape)
    if special:
        pairs = np.array(list(itertools.product(EXTREMES, repeat=2)), np.float32)
        values = np.resize(pairs, (*shape, 2)).view(np.complex64)[..., 0]
    return s.feed(values=values, dtype="complex64")


def part(s: Sketch, op: str, x: Dims, special: bool = False) -> int:
    return s.op(op, [drawn(s, x, special)], [s.tensor()])


def part_cases() -> Iterator[Attributes]:
    for x in ((), (1,), (5,), (3, 4), (2, 3, 5), (2, 3, 4, 8), (0, 3), (4, 1, 2)):
        yield dict(x=x)
    yield dict(x=(16, 16), special=True)


def reshaped(s: Sketch, op: str, x: Dims, new: Dims) -> list[int]:
    """As a result, and as what another op takes."""
    name = op.partition(" ")[0]
    operands = [] if name == "SQUEEZE" else [s.constant(np.array(new, np.int32))]
    result = s.op(name, [drawn(s, x), *operands], [s.tensor(None, "complex64")])
    return [result, s.op("IMAG", [result], [s.tensor()])]


OPS: dict[str, Op] = {
    "RFFT2D": Op(rfft2d, rfft2d_cases, rfft2d_random),
    **{op: Op(part, part_cases) for op in ("REAL", "IMAG", "COMPLEX_ABS")},
    "RESHAPE (complex)": Op(
        reshaped,
        lambda: (
            dict(x=x, new=new)
            for x in ((3, 8), (4, 6))
            for new in ((24,), (2, 3, 4), (8, 3), (-1, 2))
        ),
    ),
    "EXPAND_DIMS (complex)": Op(
        reshaped, lambda: (dict(x=(3, 5), new=(axis,)) for axis in (-1, 0, 1))
    ),
    "SQUEEZE (complex)": Op(reshaped, lambda: (dict(x=x, new=()) for x in ((3, 1), (1, 4, 5)))),
}

LEFT_TO_LITERT: Cases = (("RFFT2D", dict(x=(2, 1, 8), length=(1, 8), runtime=True)),)
LITERT_REFUSES: Cases = (
    ("RFFT2D", dict(x=(2, 1, 8), length=(1, 6))),
    ("RFFT2D", dict(x=(8,), length=(1, 8))),
)
