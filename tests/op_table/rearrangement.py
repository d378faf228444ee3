"""The same elements in another order, or several times."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import TYPES, X, data, ints, moved, random_type, scalar, with_types
from tests.support.sketch import Dims, Sketch


def reshape(s: Sketch, op: str, x: Dims, to: Dims, by: str = "tensor") -> int:
    """``by``: the new shape is an input ("tensor"), an option ("option"), or both ("both")."""
    inputs = [s.feed(x)]
    if by != "option":
        inputs.append(s.constant(np.array(to, np.int32)))
    options: Attributes = {} if by == "tensor" else {"new_shape": list(to)}
    return s.op(op, inputs, **options)


def reshape_cases() -> Iterator[Attributes]:
    shapes: tuple[Dims, ...] = ((24,), (4, 6), (2, 3, 4), (1, 2, 3, 4), (2, 2, 1, 3, 2))
    yield from each(x=shapes, to=shapes)
    for by in ("tensor", "option", "both"):
        yield dict(x=(2, 3, 4), to=(4, -1), by=by)
        yield dict(x=(2, 3, 4), to=(-1,), by=by)
        yield dict(x=(1, 4, 6, 8), to=(1, 2, 12, 8), by=by)
    yield dict(x=(1, 1), to=())
    yield from each(dict(x=()), to=((1, 1), (-1,)))
    yield from each(dict(x=(1, 7, 5, 3)), to=((1, 105), (1, 5, 7, 3)))
    yield dict(x=(1, 7, 5, 4), to=(35, 4))
    yield dict(x=(1, 4, 4, 15), to=(1, 48, 5))
    yield dict(x=(3, 4, 5, 6), to=(1, 12, 5, 6))
    yield dict(x=(1,), to=(0,), by="option")  # an old way to write a scalar
    yield from each(dict(x=(0, 3)), to=((3, -1), (0, 5)))
    yield dict(x=(1, 3, 2, 2, 3, 2, 1), to=(6, 12))
    yield dict(x=(6, 12), to=(1, 3, 2, 2, 3, 2, 1))


def reshape_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    to = list(x)
    rng.shuffle(to)
    while len(to) > 1 and rng.random() < 0.4:
        to[-2:] = [to[-2] * to[-1]]
    if rng.random() < 0.3:
        to[rng.randrange(len(to))] = -1
    return dict(x=x, to=tuple(to), by=rng.choice(("tensor", "option", "both")))


def typed_reshape(
    s: Sketch, op: str, x: Dims, to: Dims, dtype: str, scale: float = 0.37
) -> list[int]:
    return moved(s, op, [data(s, x, dtype, scale=scale), ints(s, *to)], dtype)


def typed_reshape_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for x, to in (((2, 3, 4), (4, -1)), ((3, 8), (4, 6)), ((1, 7, 5, 3), (105,)), ((1,), ())):
            yield dict(x=x, to=to, dtype=dtype)


def typed_reshape_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    return dict(x=x, to=(*x[1:], -1), dtype=rng.choice(TYPES[1:]))


def expand_dims(
    s: Sketch, op: str, x: Dims, axis: int, wide: bool = False, dtype: str = "float32"
) -> list[int]:
    return moved(s, op, [data(s, x, dtype), scalar(s, axis, wide)], dtype)


def expand_dims_cases() -> Iterator[Attributes]:
    for rank in range(6):
        yield from each(dict(x=X[:rank]), axis=range(-rank - 1, rank + 1))
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
    yield from each(dict(x=(1, 3, 1, 5)), axes=((0,), (2,), (-2,), (0, 2), (-4, -2)))
    yield from each(x=((1,), (1, 1, 1, 1), (2, 3), (5, 1), (1, 1, 7), (2, 3, 4, 5, 1), (0, 1, 3)))
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
    yield dict(x=(2, 3), perm=(1, 0), runtime=True)
    for rank in range(1, 5):
        yield from each(dict(x=X[:rank]), perm=itertools.permutations(range(rank)))
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
    yield from each(dict(x=(1, 9, 10, 16)), perm=((0, 3, 1, 2), (0, 2, 1, 3), (0, 2, 3, 1)))
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
        yield from each(dict(x=X[:rank]), times=((1,) * rank, (2, 1, 3, 1, 2)[:rank]))
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
    yield from each(x=((), (5,), (2, 3, 5), (0, 3)), dtype=("float32", "int32"))


def zeros_like_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, rng.randint(1, 5)), dtype=rng.choice(("float32", "int32")))


def dilate(
    s: Sketch,
    op: str,
    x: Dims,
    by: Dims,
    constant: bool = False,
    runtime: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``constant``: of what lies between; ``runtime``: of the dilations."""
    steps = s.feed(values=by, dtype="int32") if runtime else ints(s, *by)
    return moved(s, op, [data(s, x, dtype), steps, data(s, (), dtype, constant)], dtype)


def dilate_cases() -> Iterator[Attributes]:
    yield dict(x=(2, 3, 5), by=(2, 1, 3))
    yield dict(x=(2, 3), by=(1, 2), runtime=True)
    for rank, constant in itertools.product(range(1, 6), (False, True)):
        yield dict(x=X[:rank], by=(2, 1, 3, 1, 2)[:rank], constant=constant)
        yield dict(x=X[:rank], by=(1,) * (rank - 1) + (4,), constant=constant)
        yield dict(x=X[:rank], by=(3,) + (1,) * (rank - 1), constant=constant)
        yield dict(x=X[:rank], by=(1,) * rank, constant=constant)
    yield dict(x=(1, 1), by=(7, 5))
    yield dict(x=(2, 5, 6, 8), by=(1, 2, 2, 1))


def dilate_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 6)
    by = random_dims(rng, len(x), 3)
    return dict(x=x, by=by, constant=rng.random() < 0.4, dtype=random_type(rng))


OPS: dict[str, Op] = {
    "RESHAPE": Op(reshape, reshape_cases, reshape_random),
    "RESHAPE (other types)": Op(typed_reshape, typed_reshape_cases, typed_reshape_random),
    "EXPAND_DIMS": Op(expand_dims, with_types(expand_dims_cases), expand_dims_random),
    "SQUEEZE": Op(squeeze, with_types(squeeze_cases), squeeze_random),
    "TRANSPOSE": Op(transpose, with_types(transpose_cases), transpose_random),
    "REVERSE_V2": Op(reverse, with_types(reverse_cases), reverse_random),
    "TILE": Op(tile, with_types(tile_cases), tile_random),
    "BROADCAST_TO": Op(broadcast_to, with_types(broadcast_to_cases), broadcast_to_random),
    "FILL": Op(fill, fill_cases, fill_random),
    "DILATE": Op(dilate, with_types(dilate_cases), dilate_random),
    "ZEROS_LIKE": Op(zeros_like, zeros_like_cases, zeros_like_random),
}

# Bytes that mean something else where they are moved to, and what is known only at run time.
LEFT_TO_LITERT: Cases = (
    ("RESHAPE (other types)", dict(x=(2, 3), to=(6,), dtype="int8", scale=0.5)),
)

LITERT_REFUSES: Cases = (
    ("RESHAPE", dict(x=(2, 3), to=(4,))),
    ("RESHAPE", dict(x=(2, 3), to=(-1, -1))),
    ("RESHAPE", dict(x=(2, 3), to=(2, 0))),
    ("TRANSPOSE", dict(x=(2, 3), perm=(0, 2))),
    ("TILE", dict(x=(2, 3), times=(-1, 1))),
    ("BROADCAST_TO", dict(x=(2, 3), to=(2, 4))),
    ("SQUEEZE", dict(x=(2, 3), axes=(0,))),
)
