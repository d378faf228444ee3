"""Fourier transforms, and complex numbers."""

import itertools
import random
from collections.abc import Iterator

import numpy as np
from flatbuffers import flexbuffers

from gles_delegate.ops.lib.elementwise import TYPES
from tests.op_table.base import EXTREMES, Attributes, Cases, Op, each, random_dims
from tests.op_table.elements import numbers
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
    yield from each(x=((), (1,), (5,), (3, 4), (2, 3, 5), (2, 3, 4, 8), (0, 3), (4, 1, 2)))
    yield dict(x=(16, 16), special=True)


def reshaped(s: Sketch, op: str, x: Dims, new: Dims) -> list[int]:
    """As a result, and as what another op takes."""
    name = op.partition(" ")[0]
    operands = [] if name == "SQUEEZE" else [s.constant(np.array(new, np.int32))]
    result = s.op(name, [drawn(s, x), *operands], [s.tensor(None, "complex64")])
    return [result, s.op("IMAG", [result], [s.tensor()])]


def cast(s: Sketch, op: str, x: Dims, dtype: str, out: str, special: bool = False) -> int:
    """From or to complex numbers; a result of LiteRT's is undefined where the type has none."""
    if dtype != "complex64":
        source = s.feed(values=numbers(s.rng, op, 0, x, dtype, ()), dtype=dtype)
    elif out == "uint8":
        source = s.feed(values=np.abs(s.normal(x)) + 1j, dtype=dtype)
    else:
        source = drawn(s, x, special)
    return s.op("CAST", [source], [s.tensor(None, out)])


def cast_cases() -> Iterator[Attributes]:
    for dtype in (*TYPES, "float16"):
        for x in ((), (7,), (3, 4, 5, 7), (2, 3, 8), (0, 3)):
            yield dict(x=x, dtype="complex64", out=dtype)
            yield dict(x=x, dtype=dtype, out="complex64")
    yield from each(
        dict(x=(16, 16), dtype="complex64"), out=("float32", "complex64"), special=(False, True)
    )


def spectrogram(s: Sketch, op: str, x: Dims, size: int, stride: int, squared: bool = True) -> int:
    entries = dict(window_size=size, stride=stride, magnitude_squared=squared)
    return s.op(op, [s.feed(x)], [s.tensor()], custom_options=flexbuffers.Dumps(entries))


def spectrogram_cases() -> Iterator[Attributes]:
    for size, stride in ((2, 1), (3, 2), (8, 8), (25, 10), (64, 70), (480, 160)):
        yield dict(x=(500, 1), size=size, stride=stride)
        yield dict(x=(500, 1), size=size, stride=stride, squared=False)
    for x in ((16, 1), (17, 3), (23, 2), (40, 5)):
        yield dict(x=x, size=16, stride=7)


def spectrogram_random(rng: random.Random) -> Attributes:
    x = (rng.randint(40, 200), rng.randint(1, 3))
    rest = dict(size=rng.randint(2, 40), stride=rng.randint(1, 40), squared=rng.random() < 0.5)
    return dict(x=x, **rest)


def mfcc(
    s: Sketch,
    op: str,
    x: Dims,
    bands: int = 40,
    count: int = 13,
    low: float = 20.0,
    high: float = 4000.0,
    rate: int = 16000,
    runtime: bool = False,
) -> int:
    squares = s.normal(x) ** 2
    rates = np.array([rate], np.int32)
    second = s.feed(values=rates, dtype="int32") if runtime else s.constant(rates)
    entries = dict(
        upper_frequency_limit=high, lower_frequency_limit=low, filterbank_channel_count=bands,
        dct_coefficient_count=count,
    )  # fmt: skip
    options = flexbuffers.Dumps(entries)
    return s.op(op, [s.feed(values=squares), second], [s.tensor()], custom_options=options)


def mfcc_cases() -> Iterator[Attributes]:
    yield from each(dict(x=(1, 9, 257)), runtime=(False, True))
    for x in ((3, 5, 513), (1, 1, 257), (2, 3, 200)):
        yield dict(x=x, count=40)
    yield dict(x=(1, 4, 33), bands=1, count=1, low=0)
    yield dict(x=(1, 4, 65), bands=7, count=6, low=125, high=7500.9)
    yield dict(x=(1, 4, 257), high=4000, rate=44100)
    for high in (7999, 8000, 8001, 8100):  # the last are above half of the rate
        yield dict(x=(1, 4, 129), bands=23, high=high)
    yield dict(x=(1, 4, 9), high=3900)  # bands narrower than bins


def mfcc_random(rng: random.Random) -> Attributes:
    bands = rng.randint(1, 50)
    rest = dict(count=rng.randint(1, bands), low=rng.randint(0, 300), high=rng.randint(1000, 7000))
    x = (rng.randint(1, 3), rng.randint(1, 5), rng.randint(100, 300))
    return dict(x=x, bands=bands, runtime=rng.random() < 0.5, **rest)


OPS: dict[str, Op] = {
    "RFFT2D": Op(rfft2d, rfft2d_cases, rfft2d_random),
    **{op: Op(part, part_cases) for op in ("REAL", "IMAG", "COMPLEX_ABS")},
    "AudioSpectrogram": Op(spectrogram, spectrogram_cases, spectrogram_random),
    "Mfcc": Op(mfcc, mfcc_cases, mfcc_random),
    "CAST (complex)": Op(cast, cast_cases),
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
    "SQUEEZE (complex)": Op(
        reshaped, lambda: (dict(x=x, new=()) for x in ((3, 1), (1, 4, 5), (1,), (1, 1)))
    ),
}

LEFT_TO_LITERT: Cases = (("RFFT2D", dict(x=(2, 1, 8), length=(1, 8), runtime=True)),)
LITERT_REFUSES: Cases = (
    ("RFFT2D", dict(x=(2, 1, 8), length=(1, 6))),
    ("RFFT2D", dict(x=(8,), length=(1, 8))),
    ("AudioSpectrogram", dict(x=(50, 1), size=1, stride=1)),
    ("AudioSpectrogram", dict(x=(50, 1), size=4, stride=0)),
)
