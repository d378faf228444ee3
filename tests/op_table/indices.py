"""Elements picked by indices."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    Attributes,
    Cases,
    Op,
    random_dims,
)
from tests.op_table.typed import (
    X,
    data,
    moved,
    random_type,
    scalar,
    with_types,
)
from tests.support.sketch import Dims, Sketch


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
    "GATHER": Op(gather, with_types(gather_cases), gather_random),
    "GATHER_ND": Op(gather_nd, with_types(gather_nd_cases), gather_nd_random),
    "ONE_HOT": Op(one_hot, one_hot_cases, one_hot_random),
}


LITERT_REFUSES: Cases = (("ONE_HOT", dict(x=(2,), depth=-1)),)
