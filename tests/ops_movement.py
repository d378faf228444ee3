"""Ops that move elements, for the table in op_table.py.

``dtype`` is that of the moved elements; 8-bit ones are quantised, the same before and after.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.op_base import Attributes, Op, random_dims, random_image
from tests.sketch import Dims, Sketch
from tests.tflite_builder import quantization

TYPES = ("float32", "int32", "bool", "int8", "uint8")
X: Dims = (2, 3, 4, 5, 3)
IMAGE: Dims = (2, 4, 6, 5)
CUBE = tuple(itertools.product((0, 1), repeat=3))


def data(
    s: Sketch, shape: Dims, dtype: str = "float32", constant: bool = False, scale: float = 0.37
) -> int:
    """Random elements of any type."""
    values = _random(s, shape, dtype)
    if constant:
        return s.constant(values, quantization=_meaning(dtype, scale))
    s.feeds.append(values)
    return s.input(shape, dtype, quantization=_meaning(dtype, scale))


def _random(s: Sketch, shape: Dims, dtype: str) -> NDArray[Any]:
    if dtype == "float32":
        return s.normal(shape)
    low, high = {"int32": (-(2**31), 2**31), "bool": (0, 2), "int8": (-128, 128)}.get(
        dtype, (0, 256)
    )
    return np.asarray(s.rng.integers(low, high, shape), dtype)


def _meaning(dtype: str, scale: float = 0.37) -> Any:
    return quantization(scale, 5) if dtype in ("int8", "uint8") else None


def ints(s: Sketch, *values: Any, wide: bool = False) -> int:
    return s.constant(np.array(values, np.int64 if wide else np.int32))


def moved(
    s: Sketch, op: str, inputs: Sequence[int], dtype: str, outputs: int = 1, **options: Any
) -> list[int]:
    """The outputs of an op; of a row "OP (what sets it apart)" too."""
    made = [s.tensor(None, dtype, quantization=_meaning(dtype)) for _ in range(outputs)]
    s.op(op.partition(" ")[0], inputs, made, **options)
    return made


def scalar(s: Sketch, value: int, wide: bool = False) -> int:
    return s.constant(np.array(value, np.int64 if wide else np.int32))


def random_type(rng: random.Random) -> str:
    return rng.choice(("float32", *TYPES))


def with_types(cases: Callable[[], Iterator[Attributes]]) -> Callable[[], Iterator[Attributes]]:
    """The cases, and the first of them with every other type."""

    def typed() -> Iterator[Attributes]:
        yield from cases()
        first = next(cases())
        yield from (dict(first, dtype=dtype) for dtype in TYPES[1:])

    return typed


# --- the ops of op_table.py, on other types ------------------------------------------------------


def reshape(s: Sketch, op: str, x: Dims, to: Dims, dtype: str, scale: float = 0.37) -> list[int]:
    return moved(s, op, [data(s, x, dtype, scale=scale), ints(s, *to)], dtype)


def reshape_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for x, to in (((2, 3, 4), (4, -1)), ((3, 8), (4, 6)), ((1, 7, 5, 3), (105,)), ((1,), ())):
            yield dict(x=x, to=to, dtype=dtype)


def reshape_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    return dict(x=x, to=(*x[1:], -1), dtype=rng.choice(TYPES[1:]))


def pad(
    s: Sketch, op: str, x: Dims, pads: tuple[Dims, ...], dtype: str = "float32", value: Any = None
) -> list[int]:
    """``value``: what to pad with, "random" for one of the type."""
    paddings = np.array(pads, np.int32).reshape(len(x), 2)
    inputs = [data(s, x, dtype), s.constant(paddings)]
    if value == "random":
        inputs.append(data(s, (), dtype, constant=True))
    elif value == "runtime":
        inputs.append(data(s, (), dtype))
    elif value is not None:
        inputs.append(s.constant(np.full((1,), value, dtype)))
    return moved(s, op, inputs, dtype)


def pad_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for rank in range(1, 6):
            yield dict(x=X[:rank], pads=((1, 2),) * rank, dtype=dtype)
        yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 1), (0, 1), (0, 0)), dtype=dtype)
        yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (0, 12)), dtype=dtype)


def pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    pads = tuple((rng.randint(0, 3), rng.randint(0, 3)) for _ in x)
    return dict(x=x, pads=pads, dtype=rng.choice(TYPES[1:]))


def padv2_cases() -> Iterator[Attributes]:
    for rank in range(1, 6):
        yield dict(x=X[:rank], pads=((1, 2),) * rank, value=-1.5)
    for value in (3e38, np.inf, -np.inf, np.nan):
        yield dict(x=(2, 5), pads=((1, 1), (0, 1)), value=value, special=True)
    for dtype, value in itertools.product(TYPES, ("random", "runtime")):
        yield dict(x=(2, 3, 5), pads=((1, 0), (0, 1), (2, 1)), value=value, dtype=dtype)
        yield dict(x=(1, 3, 2, 8), pads=((0, 0), (1, 0), (0, 1), (0, 0)), value=value, dtype=dtype)
    yield dict(x=(), pads=(), value=2.0)
    yield dict(x=(0, 3), pads=((1, 1), (0, 0)), value=2.0)


def padv2(s: Sketch, op: str, special: bool = False, **attributes: Any) -> list[int]:
    return pad(s, op, **attributes)


def padv2_random(rng: random.Random) -> Attributes:
    return dict(pad_random(rng), value=rng.choice(("random", "runtime")))


def mirror_pad(
    s: Sketch, op: str, x: Dims, pads: tuple[Dims, ...], mode: str, dtype: str = "float32"
) -> list[int]:
    paddings = np.array(pads, np.int32).reshape(len(x), 2)
    return moved(s, op, [data(s, x, dtype), s.constant(paddings)], dtype, mode=mode)


def mirror_pad_cases() -> Iterator[Attributes]:
    for mode in ("REFLECT", "SYMMETRIC"):
        for rank in range(1, 6):
            yield dict(x=X[:rank], pads=((1, 0),) * rank, mode=mode)
            yield dict(x=X[:rank], pads=((0, 1),) * rank, mode=mode)
            for axis in range(rank):
                most = X[axis] - (mode == "REFLECT")
                pads = tuple((most, most) if i == axis else (0, 0) for i in range(rank))
                yield dict(x=X[:rank], pads=pads, mode=mode)
        yield dict(x=(1, 8, 9, 4), pads=((0, 0), (3, 2), (1, 4), (0, 0)), mode=mode)
        yield dict(x=(1, 3, 3, 8), pads=((0, 0), (1, 1), (1, 1), (4, 4)), mode=mode)
        yield dict(x=(1, 1, 3), pads=((0, 0), (0, 0), (2, 2)), mode=mode)
    yield dict(x=(2, 0, 3), pads=((1, 1), (0, 0), (0, 0)), mode="SYMMETRIC")


def mirror_pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    mode = rng.choice(("REFLECT", "SYMMETRIC"))
    most = [size - (mode == "REFLECT") for size in x]
    pads = tuple((rng.randint(0, n), rng.randint(0, n)) for n in most)
    return dict(x=x, pads=pads, mode=mode, dtype=random_type(rng))


def concatenation(
    s: Sketch,
    op: str,
    shapes: tuple[Dims, ...],
    axis: int,
    dtype: str,
    constant: int = -1,
    scales: tuple[float, ...] = (),
) -> list[int]:
    """``constant``: the position of a constant input; ``scales``: of quantised ones."""
    inputs = [
        data(s, shape, dtype, i == constant, *scales[i : i + 1]) for i, shape in enumerate(shapes)
    ]
    return moved(s, op, inputs, dtype, axis=axis)


def concatenation_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for rank in range(1, 6):
            for axis in range(rank):
                other = (*X[:axis], 7, *X[axis + 1 : rank])
                yield dict(shapes=(X[:rank], other), axis=axis, dtype=dtype)
        yield dict(shapes=((2, 3), (2, 2), (2, 5)), axis=-1, constant=1, dtype=dtype)
    for axis in (0, 1):
        yield dict(shapes=((3, 5), (3, 5)), axis=axis, dtype="uint8", scales=(0.2, 0.5))


def concatenation_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    axis = rng.randrange(len(x))
    shapes = tuple((*x[:axis], rng.randint(1, 9), *x[axis + 1 :]) for _ in range(3))
    return dict(shapes=shapes, axis=axis, dtype=rng.choice(TYPES[1:]))


# --- the same elements in another order ----------------------------------------------------------


def expand_dims(
    s: Sketch, op: str, x: Dims, axis: int, wide: bool = False, dtype: str = "float32"
) -> list[int]:
    return moved(s, op, [data(s, x, dtype), scalar(s, axis, wide)], dtype)


def expand_dims_cases() -> Iterator[Attributes]:
    for rank in range(6):
        for axis in range(-rank - 1, rank + 1):
            yield dict(x=X[:rank], axis=axis)
    yield dict(x=(2, 8), axis=1, wide=True)
    yield dict(x=(0, 3), axis=1)


def expand_dims_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    axis = rng.randint(-len(x) - 1, len(x))
    return dict(x=x, axis=axis, wide=rng.random() < 0.2, dtype=random_type(rng))


def squeeze(s: Sketch, op: str, x: Dims, axes: Dims = (), dtype: str = "float32") -> list[int]:
    return moved(s, op, [data(s, x, dtype)], dtype, squeeze_dims=list(axes))


def squeeze_cases() -> Iterator[Attributes]:
    yield dict(x=(1, 3, 1, 5))
    for axes in ((0,), (2,), (-2,), (0, 2), (-4, -2)):
        yield dict(x=(1, 3, 1, 5), axes=axes)
    for x in ((1,), (1, 1, 1, 1), (2, 3), (5, 1), (1, 1, 7), (2, 3, 4, 5, 1), (0, 1, 3)):
        yield dict(x=x)
    yield dict(x=(2, 5, 1), axes=(2,))
    yield dict(x=(1, 7, 5, 1), axes=(3, 0))


def squeeze_random(rng: random.Random) -> Attributes:
    x = tuple(rng.choice((1, rng.randint(1, 6))) for _ in range(rng.randint(1, 5)))
    ones = [axis - rng.choice((0, len(x))) for axis, size in enumerate(x) if size == 1]
    axes = tuple(rng.sample(ones, rng.randint(0, len(ones))))
    return dict(x=x, axes=axes, dtype=random_type(rng))


def transpose(
    s: Sketch, op: str, x: Dims, perm: Dims, runtime: bool = False, dtype: str = "float32"
) -> list[int]:
    """``runtime``: the permutation is an input."""
    order = s.feed(values=perm, dtype="int32") if runtime else ints(s, *perm)
    return moved(s, op, [data(s, x, dtype), order], dtype)


def transpose_cases() -> Iterator[Attributes]:
    yield dict(x=(3, 5, 2), perm=(2, 0, 1))
    for rank in range(1, 5):
        for perm in itertools.permutations(range(rank)):
            yield dict(x=X[:rank], perm=perm)
    for perm in (
        (4, 3, 2, 1, 0),
        (0, 2, 1, 4, 3),
        (1, 0, 2, 3, 4),
        (0, 1, 2, 3, 4),
        (3, 4, 0, 2, 1),
    ):
        yield dict(x=X, perm=perm)
    yield dict(x=(2, 1, 3, 2, 3, 2), perm=(5, 0, 3, 4, 1, 2))
    yield dict(x=(2, 3, 5), perm=(-1, 0, 1))
    for perm in ((0, 3, 1, 2), (0, 2, 1, 3), (0, 2, 3, 1)):
        yield dict(x=(1, 9, 10, 16), perm=perm)
    yield dict(x=(0, 3), perm=(1, 0))
    yield dict(x=(1, 1, 7), perm=(2, 1, 0))


def transpose_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 6), 5)
    return dict(x=x, perm=tuple(rng.sample(range(len(x)), len(x))), dtype=random_type(rng))


def reverse(s: Sketch, op: str, x: Dims, axes: Dims, dtype: str = "float32") -> list[int]:
    return moved(s, op, [data(s, x, dtype), ints(s, *axes)], dtype)


def reverse_cases() -> Iterator[Attributes]:
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield dict(x=X[:rank], axes=(axis,))
        for count in range(2, rank + 1):
            yield dict(x=X[:rank], axes=tuple(range(rank - count, rank)))
    yield dict(x=(2, 3, 8), axes=(0, 1))
    yield dict(x=(0, 3), axes=(1,))


def reverse_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    first = rng.randrange(len(x))
    axes = tuple(range(first, rng.randint(first, len(x) - 1) + 1))
    return dict(x=x, axes=axes, dtype=random_type(rng))


def tile(
    s: Sketch, op: str, x: Dims, times: Dims, wide: bool = False, dtype: str = "float32"
) -> list[int]:
    return moved(s, op, [data(s, x, dtype), ints(s, *times, wide=wide)], dtype)


def tile_cases() -> Iterator[Attributes]:
    for rank in range(1, 6):
        yield dict(x=X[:rank], times=(1,) * rank)
        yield dict(x=X[:rank], times=(2, 1, 3, 1, 2)[:rank])
        for axis in range(rank):
            yield dict(x=X[:rank], times=tuple(3 if i == axis else 1 for i in range(rank)))
    yield dict(x=(2, 3, 8), times=(2, 2, 1), wide=True)
    yield dict(x=(2, 3, 8), times=(1, 1, 2))
    yield dict(x=(2, 3), times=(0, 2))
    yield dict(x=(0, 3), times=(2, 2))
    yield dict(x=(1, 1, 1, 6), times=(1, 5, 7, 1))


def tile_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 5)
    return dict(x=x, times=random_dims(rng, len(x), 3), dtype=random_type(rng))


def broadcast_to(
    s: Sketch, op: str, x: Dims, to: Dims, wide: bool = False, dtype: str = "float32"
) -> list[int]:
    return moved(s, op, [data(s, x, dtype), ints(s, *to, wide=wide)], dtype, version=2)


def broadcast_to_cases() -> Iterator[Attributes]:
    for rank in range(1, 6):
        yield dict(x=X[:rank], to=X[:rank])
        yield dict(x=X[rank:], to=X)
        for axis in range(rank):
            yield dict(x=(*X[:axis], 1, *X[axis + 1 : rank]), to=X[:rank])
    yield dict(x=(), to=(2, 3))
    yield dict(x=(1,), to=(7,), wide=True)
    yield dict(x=(1, 5), to=(3, 1, 5))
    yield dict(x=(1, 3), to=(0, 3))
    yield dict(x=(2, 1, 1, 8), to=(2, 4, 3, 8))


def broadcast_to_random(rng: random.Random) -> Attributes:
    to = random_dims(rng, rng.randint(1, 5), 6)
    x = tuple(rng.choice((1, size)) for size in to[rng.randrange(len(to)) :])
    return dict(x=x, to=to, dtype=random_type(rng))


def fill(s: Sketch, op: str, to: Dims, wide: bool = False, dtype: str = "float32") -> list[int]:
    return moved(s, op, [ints(s, *to, wide=wide), data(s, (), dtype)], dtype)


def fill_cases() -> Iterator[Attributes]:
    for rank in range(1, 6):
        yield dict(to=X[:rank])
    yield dict(to=(2, 3), wide=True)
    yield dict(to=(0, 3))


def fill_random(rng: random.Random) -> Attributes:
    return dict(to=random_dims(rng, rng.randint(1, 5), 6), dtype=random_type(rng))


def zeros_like(s: Sketch, op: str, x: Dims, dtype: str = "float32") -> list[int]:
    return moved(s, op, [data(s, x, dtype)], dtype)


def zeros_like_cases() -> Iterator[Attributes]:
    for x, dtype in itertools.product(((), (5,), (2, 3, 5), (0, 3)), ("float32", "int32")):
        yield dict(x=x, dtype=dtype)


def zeros_like_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, rng.randint(1, 5)), dtype=rng.choice(("float32", "int32")))


# --- parts of a tensor ---------------------------------------------------------------------------


def slice_(
    s: Sketch,
    op: str,
    x: Dims,
    begin: Dims,
    size: Dims,
    wide: bool = False,
    runtime: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``runtime``: where it begins is an input."""
    start = s.feed(values=begin, dtype="int32") if runtime else ints(s, *begin, wide=wide)
    return moved(s, op, [data(s, x, dtype), start, ints(s, *size, wide=wide)], dtype)


def slice_cases() -> Iterator[Attributes]:
    yield dict(x=(3, 4, 7), begin=(1, 0, 2), size=(2, -1, 3))
    for rank in range(1, 6):
        yield dict(x=X[:rank], begin=(0,) * rank, size=(-1,) * rank)
        yield dict(x=X[:rank], begin=(1,) * rank, size=(1,) * rank)
        for axis in range(rank):
            begin = tuple(int(i == axis) for i in range(rank))
            yield dict(x=X[:rank], begin=begin, size=(-1,) * rank)
    for begin, size in ((4, 8), (0, 4), (8, -1), (3, 9), (0, 6)):
        yield dict(x=(2, 3, 16), begin=(0, 1, begin), size=(2, 2, size))
    yield dict(x=(2, 3, 5), begin=(1, 2, 0), size=(1, 1, 5), wide=True)
    yield dict(x=(2, 3), begin=(0, 3), size=(2, 0))
    yield dict(x=(2, 3), begin=(2, 0), size=(-1, -1))
    yield dict(x=(0, 3), begin=(0, 1), size=(0, 2))
    yield dict(x=(2,) * 6, begin=(1, 0) * 3, size=(1, 2) * 3)


def slice_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 9)
    begin = tuple(rng.randrange(size) for size in x)
    size = tuple(rng.choice((-1, rng.randint(1, n - at))) for n, at in zip(x, begin, strict=True))
    return dict(x=x, begin=begin, size=size, wide=rng.random() < 0.2, dtype=random_type(rng))


def strided_slice(
    s: Sketch,
    op: str,
    x: Dims,
    begin: Dims,
    end: Dims,
    step: Dims | None = None,
    offset: bool = False,
    dtype: str = "float32",
    **masks: int,
) -> list[int]:
    """``masks``: begin, end, ellipsis, new_axis and shrink_axis, each with ``_mask``."""
    limits = (ints(s, *values) for values in (begin, end, step or (1,) * len(begin)))
    inputs = [data(s, x, dtype), *limits]
    version = 8 if offset else 6
    return moved(s, op, inputs, dtype, offset=offset, version=version, **masks)


def strided_slice_cases() -> Iterator[Attributes]:
    yield dict(x=(5, 6, 7), begin=(1, 5, 0), end=(4, 0, 7), step=(1, -2, 3))
    for rank in range(1, 6):
        yield dict(x=X[:rank], begin=(0,) * rank, end=X[:rank])
        yield dict(x=X[:rank], begin=(-1,) * rank, end=(-9,) * rank, step=(-1,) * rank)
        yield dict(x=X[:rank], begin=(0,) * rank, end=X[:rank], step=(2,) * rank)
        yield dict(x=X[:rank], begin=(1,), end=(2,))
        for axis in range(rank):
            bit = 1 << axis
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, begin_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, end_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, shrink_axis_mask=bit)
            yield dict(x=X[:rank], begin=(1,) * rank, end=(2,) * rank, ellipsis_mask=bit)
            if rank < 5:
                spec = dict(begin=(0,) * (rank + 1), end=(2,) * (rank + 1))
                yield dict(x=X[:rank], **spec, new_axis_mask=bit)
    for begin, end, step in (
        (-3, -1, 1), (-1, -4, -1), (-20, 20, 1), (20, -20, -1), (2, 2, 1), (3, 1, 1), (1, 3, -1),
        (0, 7, 4), (6, 0, -4), (-7, 7, 3), (5, 5, -1), (7, 0, -1), (0, 0, 1),
    ):  # fmt: skip
        for begin_mask, end_mask in itertools.product((0, 1), repeat=2):
            masks = dict(begin_mask=begin_mask, end_mask=end_mask)
            yield dict(x=(7, 3), begin=(begin,), end=(end,), step=(step,), **masks)
    for begin in (0, 6, -1, -7):
        yield dict(x=(7, 3), begin=(begin,), end=(0,), shrink_axis_mask=1)
        yield dict(x=(3, 7), begin=(0, begin), end=(3, 0), shrink_axis_mask=2)
    yield dict(x=(7, 3), begin=(4,), end=(5,), shrink_axis_mask=1, begin_mask=1)
    yield dict(x=(2, 3), begin=(1, 2), end=(2, 3), shrink_axis_mask=3)
    yield dict(x=(4, 3, 5), begin=(0, 1, 2), end=(0, 2, 3), ellipsis_mask=1, shrink_axis_mask=4)
    yield dict(x=X, begin=(1, 0, 1), end=(2, 0, 3), ellipsis_mask=2)
    yield dict(x=X, begin=(1, 0, 1), end=(2, 0, 3), ellipsis_mask=2, shrink_axis_mask=5)
    yield dict(x=X[:3], begin=(0, 0, 1), end=(0, 0, 3), ellipsis_mask=2, new_axis_mask=1)
    yield dict(x=X[:3], begin=(1, 0, 0), end=(2, 0, 0), ellipsis_mask=2, new_axis_mask=4)
    yield dict(x=X[:3], begin=(0, 0, 1), end=(0, 0, 3), ellipsis_mask=2, new_axis_mask=3)
    yield dict(x=X[:2], begin=(0, 1, 0), end=(0, 2, 0), new_axis_mask=5, shrink_axis_mask=2)
    for begin, end, step in ((1, 2, 1), (-3, 2, 1), (0, 7, 2), (5, -3, -1), (2, -2, -1)):
        yield dict(x=(7, 3), begin=(begin, 1), end=(end, 2), step=(step, 1), offset=True)
        yield dict(x=(7,), begin=(begin,), end=(end,), step=(step,), offset=True)
    yield dict(x=(7, 3), begin=(3, 1), end=(2, 1), begin_mask=1, shrink_axis_mask=2, offset=True)
    for begin, end, step in ((4, 12, 1), (0, 8, 1), (2, 10, 1), (0, 16, 4), (15, -17, -1)):
        yield dict(x=(2, 3, 16), begin=(0, 0, begin), end=(2, 3, end), step=(1, 1, step))
    yield dict(x=(1, 9, 10, 8), begin=(0, 0, 1, 0), end=(1, 9, 10, 8), step=(1, 2, 2, 1))
    yield dict(x=(0, 3), begin=(0, 1), end=(9, 3))
    yield dict(x=(3, 4), begin=(0, 0), end=(3, 0))
    yield dict(x=(2,) * 6, begin=(1, 0) * 3, end=(2,) * 6)


def strided_slice_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 8)
    new_axis = rng.random() < 0.3
    count = rng.randint(1, len(x)) + new_axis
    special = 1 << rng.randrange(count)  # the entry that is an axis of its own or shrinks one
    masks = {"new_axis_mask": special} if new_axis else {}
    if rng.random() < 0.4:
        masks["ellipsis_mask"] = 1 << rng.randrange(count) & ~special
    begin = [rng.randint(-9, 9) for _ in range(count)]
    step = [rng.choice((1, 1, 2, -1, -2, 3)) for _ in range(count)]
    if not new_axis and rng.random() < 0.4:
        masks["shrink_axis_mask"] = special
        begin[special.bit_length() - 1], step[special.bit_length() - 1] = 0, 1
    return dict(
        x=x,
        begin=tuple(begin),
        end=tuple(rng.randint(-9, 9) for _ in range(count)),
        step=tuple(step),
        begin_mask=rng.randrange(1 << count),
        end_mask=rng.randrange(1 << count),
        dtype=random_type(rng),
        **masks,
    )


def split(s: Sketch, op: str, x: Dims, axis: int, count: int, dtype: str = "float32") -> list[int]:
    inputs = [scalar(s, axis), data(s, x, dtype)]
    return moved(s, op, inputs, dtype, count, num_splits=count)


def split_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 12), axis=2, count=4)
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield dict(x=X[:rank], axis=axis, count=X[axis % rank])
            yield dict(x=X[:rank], axis=axis, count=1)
    for count in (2, 3, 8):
        yield dict(x=(1, 5, 24), axis=-1, count=count)
    for dtype in ("int32", "int8", "uint8"):  # LiteRT splits no bool
        yield dict(x=(2, 6, 3), axis=1, count=3, dtype=dtype)
        yield dict(x=(2, 6), axis=1, count=2, dtype=dtype)
    yield dict(x=(0, 4), axis=1, count=2)
    yield dict(x=(3, 0), axis=1, count=2)


def split_random(rng: random.Random) -> Attributes:
    x = list(random_dims(rng, rng.randint(1, 5), 5))
    axis, count = rng.randrange(len(x)), rng.randint(1, 4)
    x[axis] *= count
    axis -= rng.choice((0, len(x)))
    return dict(x=tuple(x), axis=axis, count=count, dtype=random_type(rng))


def split_v(
    s: Sketch, op: str, x: Dims, axis: int, sizes: Dims, dtype: str = "float32"
) -> list[int]:
    inputs = [data(s, x, dtype), ints(s, *sizes), scalar(s, axis)]
    return moved(s, op, inputs, dtype, len(sizes), num_splits=len(sizes))


def split_v_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 12), axis=2, sizes=(5, 3, 4))
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield dict(x=X[:rank], axis=axis, sizes=(1, -1))
    for sizes in ((4, 8, 12), (-1, 8), (23, -1), (24,), (-1,), (0, 24), (24, -1)):
        yield dict(x=(1, 5, 24), axis=-1, sizes=sizes)
    for dtype in ("int32", "int8", "uint8"):
        yield dict(x=(2, 6), axis=1, sizes=(5, 1), dtype=dtype)


def split_v_random(rng: random.Random) -> Attributes:
    x = list(random_dims(rng, rng.randint(1, 5), 5))
    axis = rng.randrange(len(x))
    sizes = [rng.randint(1, 6) for _ in range(rng.randint(1, 4))]
    x[axis] = sum(sizes)
    if rng.random() < 0.3:
        sizes[rng.randrange(len(sizes))] = -1
    axis -= rng.choice((0, len(x)))
    return dict(x=tuple(x), axis=axis, sizes=tuple(sizes), dtype=random_type(rng))


def unpack(s: Sketch, op: str, x: Dims, axis: int, dtype: str = "float32") -> list[int]:
    count = x[axis]
    return moved(s, op, [data(s, x, dtype)], dtype, count, num=count, axis=axis)


def unpack_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 5), axis=1)
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            yield dict(x=X[:rank], axis=axis)
    yield dict(x=(4, 3, 8), axis=1)


def unpack_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    return dict(x=x, axis=rng.randrange(-len(x), len(x)), dtype=random_type(rng))


def pack(
    s: Sketch,
    op: str,
    x: Dims,
    axis: int,
    count: int = 3,
    constant: int = -1,
    dtype: str = "float32",
) -> list[int]:
    """``constant``: the position of a constant input."""
    inputs = [data(s, x, dtype, constant=i == constant) for i in range(count)]
    return moved(s, op, inputs, dtype, values_count=count, axis=axis)


def pack_cases() -> Iterator[Attributes]:
    for rank in range(5):
        for axis in range(-rank - 1, rank + 1):
            yield dict(x=X[:rank], axis=axis)
    for count in (1, 2, 6):
        yield dict(x=(3, 8), axis=1, count=count)
        yield dict(x=(3, 8), axis=2, count=count, constant=0)
    yield dict(x=(0, 3), axis=1)
    for dtype in ("int32", "int8", "uint8"):  # LiteRT packs no bool
        yield dict(x=(2, 5), axis=1, dtype=dtype)
        yield dict(x=(2, 5), axis=2, dtype=dtype)


def pack_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(0, 4), 6)
    axis, count = rng.randint(-len(x) - 1, len(x)), rng.randint(1, 6)
    return dict(x=x, axis=axis, count=count, dtype=random_type(rng))


# --- blocks --------------------------------------------------------------------------------------


def block_op(s: Sketch, op: str, x: Dims, block: int, dtype: str = "float32") -> list[int]:
    return moved(s, op, [data(s, x, dtype)], dtype, block_size=block)


def depth_to_space_cases() -> Iterator[Attributes]:
    for dtype in ("int32", "int8", "uint8"):
        yield dict(x=(2, 3, 4, 12), block=2, dtype=dtype)
        yield dict(x=(1, 3, 2, 16), block=2, dtype=dtype)


def depth_to_space_random(rng: random.Random) -> Attributes:
    block, (batch, height, width, depth) = rng.randint(2, 4), random_image(rng, 9, 9)
    x = (batch, height, width, depth * block * block)
    return dict(x=x, block=block, dtype=rng.choice(("int32", "int8", "uint8")))


def space_to_depth_cases() -> Iterator[Attributes]:
    for block, depth in itertools.product((1, 2, 3, 4), (1, 2, 3, 4, 5)):
        yield dict(x=(1, 3 * block, 2 * block, depth), block=block)
    yield dict(x=(3, 4, 6, 7), block=2)
    yield dict(x=(0, 2, 2, 3), block=2)
    for dtype in ("int32", "int8", "uint8"):
        yield dict(x=(2, 4, 6, 3), block=2, dtype=dtype)


def space_to_depth_random(rng: random.Random) -> Attributes:
    block, (batch, height, width, depth) = rng.randint(2, 4), random_image(rng, 5, 9)
    x = (batch, height * block, width * block, depth)
    return dict(x=x, block=block, dtype=random_type(rng))


def batch_op(
    s: Sketch,
    op: str,
    x: Dims,
    block: Dims,
    borders: tuple[Dims, ...] = (),
    dtype: str = "float32",
) -> list[int]:
    """``borders``: the paddings or crops."""
    around = np.array(borders or ((0, 0),) * len(block), np.int32)
    return moved(s, op, [data(s, x, dtype), ints(s, *block), s.constant(around)], dtype)


def space_to_batch_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 5, 6, 3), block=(2, 3), borders=((1, 0), (1, 2)))
    for block in itertools.product((1, 2, 3), repeat=2):
        yield dict(x=(1, 6, 6, 4), block=block)
        yield dict(x=(3, 6, 12, 5), block=block)
    for borders in (((1, 1), (0, 0)), ((0, 0), (2, 0)), ((0, 2), (3, 1)), ((4, 0), (0, 4))):
        yield dict(x=(1, 4, 4, 3), block=(2, 2), borders=borders)
        yield dict(x=(2, 4, 4, 8), block=(2, 2), borders=borders)
    for block, border in ((1, (0, 0)), (2, (0, 0)), (2, (1, 1)), (3, (2, 1)), (3, (0, 0))):
        yield dict(x=(2, 6, 5), block=(block,), borders=(border,))
    yield dict(x=(0, 4, 4, 3), block=(2, 2))


def space_to_batch_random(rng: random.Random) -> Attributes:
    space = rng.randint(1, 2)
    block = random_dims(rng, space, 3)
    before = [rng.randint(0, 3) for _ in block]
    size = random_dims(rng, space, 9)
    borders = tuple((a, -(a + n) % b) for a, n, b in zip(before, size, block, strict=True))
    x = (rng.randint(1, 3), *size, rng.randint(1, 9))
    return dict(x=x, block=block, borders=borders, dtype=random_type(rng))


def batch_to_space_cases() -> Iterator[Attributes]:
    yield dict(x=(12, 3, 4, 3), block=(2, 3), borders=((1, 0), (2, 3)))
    for block in itertools.product((1, 2, 3), repeat=2):
        yield dict(x=(block[0] * block[1], 3, 2, 4), block=block)
        yield dict(x=(3 * block[0] * block[1], 2, 3, 5), block=block)
    for borders in (((1, 1), (0, 0)), ((0, 0), (2, 0)), ((0, 2), (3, 1)), ((4, 4), (0, 0))):
        yield dict(x=(4, 4, 4, 3), block=(2, 2), borders=borders)
        yield dict(x=(8, 4, 4, 8), block=(2, 2), borders=borders)
    for block, border in ((1, (0, 0)), (2, (0, 0)), (2, (1, 1)), (3, (2, 1)), (6, (0, 3))):
        yield dict(x=(6, 4, 5), block=(block,), borders=(border,))
    yield dict(x=(0, 4, 4, 3), block=(2, 2))


def batch_to_space_random(rng: random.Random) -> Attributes:
    block = random_dims(rng, rng.randint(1, 2), 3)
    size = random_dims(rng, len(block), 5)
    borders = tuple(
        (rng.randrange(n * b), 0) if rng.random() < 0.5 else (0, rng.randrange(n * b))
        for n, b in zip(size, block, strict=True)
    )
    x = (rng.randint(1, 3) * int(np.prod(block)), *size, rng.randint(1, 9))
    return dict(x=x, block=block, borders=borders, dtype=random_type(rng))


def resize_nearest(
    s: Sketch,
    op: str,
    x: Dims,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
    dtype: str = "float32",
) -> list[int]:
    modes = dict(align_corners=align_corners, half_pixel_centers=half_pixel_centers)
    return moved(s, op, [data(s, x, dtype), ints(s, *size)], dtype, **modes)


RESIZE_MODES: tuple[Attributes, ...] = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
    {"align_corners": True, "half_pixel_centers": True},
)


def resize_nearest_cases() -> Iterator[Attributes]:
    for x, size in (
        ((1, 4, 5, 3), (8, 10)), ((1, 4, 5, 4), (7, 9)), ((1, 9, 11, 5), (4, 5)),
        ((1, 8, 8, 4), (4, 4)), ((1, 9, 11, 5), (3, 17)), ((1, 4, 5, 3), (4, 5)),
        ((1, 6, 7, 2), (1, 1)), ((1, 1, 1, 5), (4, 3)), ((3, 5, 4, 7), (11, 6)),
        ((1, 17, 13, 1), (10, 29)), ((0, 4, 5, 1), (3, 3)), ((1, 2, 3, 1), (1000, 1000)),
    ):  # fmt: skip
        for mode in RESIZE_MODES:
            yield dict(x=x, size=size, **mode)
    for dtype, mode in itertools.product(TYPES[1:], RESIZE_MODES):
        yield dict(x=(1, 2, 3, 1), size=(1000, 1000), dtype=dtype, **mode)
        yield dict(x=(2, 7, 9, 5), size=(5, 16), dtype=dtype, **mode)


def resize_nearest_random(rng: random.Random) -> Attributes:
    size, dtype = random_dims(rng, 2, 40), random_type(rng)
    return dict(x=random_image(rng), size=size, dtype=dtype, **rng.choice(RESIZE_MODES))


# --- indices -------------------------------------------------------------------------------------


def indices(s: Sketch, shape: Dims, below: Dims | int, constant: bool, wide: bool = False) -> int:
    """Random indices; ``below``: their bound, or one for each of the last dimension."""
    values = s.rng.integers(0, below, shape)
    if constant:
        return s.constant(np.asarray(values, np.int64 if wide else np.int32))
    return s.feed(values=values, dtype="int32")


def gather(
    s: Sketch,
    op: str,
    x: Dims,
    at: Dims,
    axis: int = 0,
    batch_dims: int = 0,
    constant: bool = False,
    wide: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``at``: the shape of the indices."""
    inputs = [data(s, x, dtype), indices(s, at, x[axis], constant, wide)]
    return moved(s, op, inputs, dtype, axis=axis, batch_dims=batch_dims)


def gather_cases() -> Iterator[Attributes]:
    yield dict(x=(4, 5, 3), at=(6,), axis=1)
    for rank in range(1, 5):
        for axis, at in itertools.product(range(-rank, rank), ((), (3,), (2, 3), (2, 1, 5))):
            if rank + len(at) <= 5:
                yield dict(x=X[:rank], at=at, axis=axis)
    for at in ((5,), (2, 4)):
        yield dict(x=(7, 8), at=at, constant=True)
        yield dict(x=(7, 8), at=at, axis=1, constant=True, wide=True)
    yield dict(x=(100, 16), at=(1, 9))
    yield dict(x=(3, 1), at=(), axis=1)
    yield dict(x=(3, 5), at=(0,))
    for axis in (1, 2, 3):
        yield dict(x=(2, 4, 6, 5), at=(2, 3), axis=axis, batch_dims=1)
        yield dict(x=(2, 4, 6, 8), at=(2, 3, 2), axis=axis, batch_dims=1)
    for axis in (2, 3):
        yield dict(x=(2, 4, 6, 5), at=(2, 4), axis=axis, batch_dims=2)
        yield dict(x=(2, 4, 6, 5), at=(2, 4, 3), axis=axis, batch_dims=-1)


def gather_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 6)
    axis = rng.randrange(len(x))
    batch_dims = rng.randint(0, axis)
    at = (*x[:batch_dims], *random_dims(rng, rng.randint(0, 2), 4))
    axis -= rng.choice((0, len(x)))
    constant, dtype = rng.random() < 0.4, random_type(rng)
    return dict(x=x, at=at, axis=axis, batch_dims=batch_dims, constant=constant, dtype=dtype)


def gather_nd(
    s: Sketch, op: str, x: Dims, at: Dims, constant: bool = False, dtype: str = "float32"
) -> list[int]:
    """``at``: the shape of the indices."""
    inputs = [data(s, x, dtype), indices(s, at, x[: at[-1]], constant)]
    return moved(s, op, inputs, dtype)


def gather_nd_cases() -> Iterator[Attributes]:
    yield dict(x=(4, 5, 3), at=(6, 2))
    for rank in range(1, 6):
        for depth, before in itertools.product(range(1, rank + 1), ((), (3,), (2, 3))):
            yield dict(x=X[:rank], at=(*before, depth))
    yield dict(x=(4, 5, 8), at=(6, 2), constant=True)


def gather_nd_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 5)
    at = (*random_dims(rng, rng.randint(0, 3), 4), rng.randint(1, len(x)))
    return dict(x=x, at=at, constant=rng.random() < 0.4, dtype=random_type(rng))


def one_hot(
    s: Sketch,
    op: str,
    x: Dims,
    depth: int,
    axis: int = -1,
    on: float = 1,
    off: float = 0,
    constant: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``constant``: of the indices, some of which are outside the depth."""
    values = np.asarray(s.rng.integers(-2, depth + 2, x), np.int32)
    hot = s.constant(values) if constant else s.feed(values=values, dtype="int32")
    states = [s.constant(np.array(value, dtype)) for value in (on, off)]
    return moved(s, op, [hot, scalar(s, depth), *states], dtype, axis=axis)


def one_hot_cases() -> Iterator[Attributes]:
    for rank in range(5):
        for axis in range(-1, rank + 1):
            yield dict(x=X[:rank], depth=6, axis=axis)
    yield dict(x=(3, 4), depth=1)
    yield dict(x=(3, 4), depth=8, on=2.5, off=-1.5)
    yield dict(x=(7,), depth=5, constant=True)
    yield dict(x=(3,), depth=0)
    yield dict(x=(0, 3), depth=4)
    yield dict(x=(2, 3), depth=5, on=7, off=-2, dtype="int32")
    yield dict(x=(2, 3), depth=5, axis=0, dtype="bool")
    yield dict(x=(2, 3), depth=5, axis=1, on=0, off=1, dtype="bool")


def one_hot_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(0, 4), 5)
    depth, axis = rng.randint(1, 9), rng.randint(-1, len(x))
    dtype = rng.choice(("float32", "int32", "bool"))
    return dict(x=x, depth=depth, axis=axis, constant=rng.random() < 0.3, dtype=dtype)


OPS: dict[str, Op] = {
    "RESHAPE (other types)": Op(reshape, reshape_cases, reshape_random),
    "PAD (other types)": Op(pad, pad_cases, pad_random),
    "CONCATENATION (other types)": Op(concatenation, concatenation_cases, concatenation_random),
    "DEPTH_TO_SPACE (other types)": Op(block_op, depth_to_space_cases, depth_to_space_random),
    "PADV2": Op(padv2, padv2_cases, padv2_random),
    "MIRROR_PAD": Op(mirror_pad, with_types(mirror_pad_cases), mirror_pad_random),
    "EXPAND_DIMS": Op(expand_dims, with_types(expand_dims_cases), expand_dims_random),
    "SQUEEZE": Op(squeeze, with_types(squeeze_cases), squeeze_random),
    "TRANSPOSE": Op(transpose, with_types(transpose_cases), transpose_random),
    "REVERSE_V2": Op(reverse, with_types(reverse_cases), reverse_random),
    "TILE": Op(tile, with_types(tile_cases), tile_random),
    "BROADCAST_TO": Op(broadcast_to, with_types(broadcast_to_cases), broadcast_to_random),
    "FILL": Op(fill, fill_cases, fill_random),
    "ZEROS_LIKE": Op(zeros_like, zeros_like_cases, zeros_like_random),
    "SLICE": Op(slice_, with_types(slice_cases), slice_random),
    "STRIDED_SLICE": Op(strided_slice, with_types(strided_slice_cases), strided_slice_random),
    "SPLIT": Op(split, split_cases, split_random),
    "SPLIT_V": Op(split_v, split_v_cases, split_v_random),
    "UNPACK": Op(unpack, with_types(unpack_cases), unpack_random),
    "PACK": Op(pack, pack_cases, pack_random),
    "SPACE_TO_DEPTH": Op(block_op, space_to_depth_cases, space_to_depth_random),
    "SPACE_TO_BATCH_ND": Op(batch_op, with_types(space_to_batch_cases), space_to_batch_random),
    "BATCH_TO_SPACE_ND": Op(batch_op, with_types(batch_to_space_cases), batch_to_space_random),
    "RESIZE_NEAREST_NEIGHBOR": Op(resize_nearest, resize_nearest_cases, resize_nearest_random),
    "GATHER": Op(gather, with_types(gather_cases), gather_random),
    "GATHER_ND": Op(gather_nd, with_types(gather_nd_cases), gather_nd_random),
    "ONE_HOT": Op(one_hot, one_hot_cases, one_hot_random),
}

# What is known only at run time, bytes that mean something else where they are moved to, slices
# from outside the tensor, and an ellipsis that stands for no axis, where LiteRT takes it for one.
LEFT_TO_LITERT: tuple[tuple[str, Attributes], ...] = (
    ("RESHAPE (other types)", dict(x=(2, 3), to=(6,), dtype="int8", scale=0.5)),
    ("TRANSPOSE", dict(x=(2, 3), perm=(1, 0), runtime=True)),
    ("SLICE", dict(x=(2, 3), begin=(1, 0), size=(1, 2), runtime=True)),
    ("STRIDED_SLICE", dict(x=(2, 3), begin=(5,), end=(6,), shrink_axis_mask=1)),
    ("STRIDED_SLICE", dict(x=(3, 3), begin=(1, 0), end=(3, 3), offset=True)),
    ("STRIDED_SLICE", dict(x=(3, 8), begin=(0, 1, 2), end=(0, 2, 3), ellipsis_mask=1)),
)

LITERT_REFUSES: tuple[tuple[str, Attributes], ...] = (
    (
        "CONCATENATION (other types)",
        dict(shapes=((2,), (2,)), axis=0, dtype="int8", scales=(0.2, 0.5)),
    ),
    ("SLICE", dict(x=(2, 3), begin=(0, 1), size=(1, 5))),
    ("SLICE", dict(x=(2, 3), begin=(0, -1), size=(1, 1))),
    ("STRIDED_SLICE", dict(x=(2, 3), begin=(0,), end=(2,), step=(0,))),
    ("SPLIT", dict(x=(2, 3), axis=1, count=2)),
    ("SPLIT_V", dict(x=(2, 3), axis=1, sizes=(1, 1))),
    ("TRANSPOSE", dict(x=(2, 3), perm=(0, 2))),
    ("TILE", dict(x=(2, 3), times=(-1, 1))),
    ("BROADCAST_TO", dict(x=(2, 3), to=(2, 4))),
    ("SQUEEZE", dict(x=(2, 3), axes=(0,))),
    ("PACK", dict(x=(2, 3), axis=0, dtype="bool")),
    ("SPLIT_V", dict(x=(2, 3), axis=1, sizes=(1, 2), dtype="bool")),
    ("SPACE_TO_DEPTH", dict(x=(1, 3, 2, 1), block=2)),
    ("SPACE_TO_BATCH_ND", dict(x=(1, 3, 2, 1), block=(2, 2))),
    ("SPACE_TO_BATCH_ND", dict(x=(1, 2, 2, 2, 1), block=(2, 2, 2))),
    ("MIRROR_PAD", dict(x=(2, 3), pads=((2, 0), (0, 0)), mode="REFLECT")),
    ("PADV2", dict(x=(1,) * 6, pads=((1, 1),) * 6, value=1.0)),
    ("ONE_HOT", dict(x=(2,), depth=-1)),
)
