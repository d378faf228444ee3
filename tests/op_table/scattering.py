"""Elements put where indices say."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import random_values, scalar
from tests.support.sketch import Dims, Sketch

SEGMENTS = tuple(f"UNSORTED_SEGMENT_{name}" for name in ("SUM", "PROD", "MAX", "MIN"))


def numbers(s: Sketch, shape: Dims, dtype: str, constant: bool) -> int:
    values = s.rng.integers(-9, 10, shape) if dtype == "int32" else random_values(s, shape, dtype)
    values = np.asarray(values, dtype)
    return s.constant(values) if constant else s.feed(values=values, dtype=dtype)


def scatter_nd(
    s: Sketch,
    op: str,
    at: Dims,
    shape: Dims,
    constant: tuple[int, ...] = (),
    runtime_shape: bool = False,
    dtype: str = "float32",
) -> int:
    """``at``: the shape of the indices; ``constant``: which inputs are constants."""
    values = np.asarray(s.rng.integers(0, shape[: at[-1]], at), np.int32)
    indices = s.constant(values) if 0 in constant else s.feed(values=values, dtype="int32")
    updates = numbers(s, (*at[:-1], *shape[at[-1] :]), dtype, 1 in constant)
    sizes = s.feed(values=shape, dtype="int32") if runtime_shape else s.constant(np.int32(shape))
    return s.op(op, [indices, updates, sizes], [s.tensor(None, dtype)])


def scatter_nd_cases() -> Iterator[Attributes]:
    shape = (3, 4, 2, 5)
    for rank in range(1, 5):
        for depth, before in itertools.product(range(1, rank + 1), ((1,), (7,), (2, 3))):
            yield dict(at=(*before, depth), shape=shape[:rank])
    for constant in ((0,), (1,)):
        yield dict(at=(6, 2), shape=(3, 4, 8), constant=constant)
        yield dict(at=(9, 1), shape=(5,), constant=constant)
    for dtype in ("int32", "int8", "uint8"):
        yield dict(at=(30, 1), shape=(4, 7), dtype=dtype)
        yield dict(at=(9, 2), shape=(2, 3), dtype=dtype)
    yield dict(at=(0, 1), shape=(4, 7))
    yield dict(at=(3, 1), shape=(4, 0))
    yield dict(at=(200, 1), shape=(13, 16))


def scatter_nd_random(rng: random.Random) -> Attributes:
    shape = random_dims(rng, rng.randint(1, 4), 6)
    at = (*random_dims(rng, rng.randint(1, 2), 5), rng.randint(1, len(shape)))
    constant = rng.choice(((), (0,), (1,)))
    return dict(at=at, shape=shape, constant=constant, dtype=rng.choice(("float32", "int32")))


def segments(
    s: Sketch,
    op: str,
    x: Dims,
    count: int,
    constant: bool = False,
    lowest: int = 0,
    special: bool = False,
    dtype: str = "float32",
) -> int:
    """``constant``: the segments are; ``lowest``: of their numbers."""
    ids = np.asarray(s.rng.integers(lowest, count, x[:1]), np.int32)
    values = np.resize(np.array([1, np.inf, -np.inf, np.nan, 3], np.float32), x)
    data = s.feed(values=values) if special else numbers(s, x, dtype, False)
    chosen = s.constant(ids) if constant else s.feed(values=ids, dtype="int32")
    result = s.tensor((count, *x[1:]), dtype)
    return s.op(op, [data, chosen, scalar(s, count)], [result])


def segments_cases() -> Iterator[Attributes]:
    shape = (7, 3, 4, 5)
    for rank, constant, dtype in itertools.product(
        range(1, 5), (False, True), ("float32", "int32")
    ):
        yield dict(x=shape[:rank], count=4, constant=constant, dtype=dtype)
    yield from each(dict(x=(9, 8), count=3, lowest=-2), constant=(False, True))
    yield dict(x=(2, 3), count=9)
    yield dict(x=(100, 13), count=5)
    yield dict(x=(0, 3), count=2)


def extremum_cases() -> Iterator[Attributes]:
    yield from segments_cases()
    yield dict(x=(40, 3), count=3, special=True)


def segments_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 7)
    constant, dtype = rng.random() < 0.4, rng.choice(("float32", "int32"))
    return dict(x=x, count=rng.randint(1, 6), constant=constant, dtype=dtype)


def segment_sum(
    s: Sketch, op: str, x: Dims, ids: Dims, runtime: bool = False, dtype: str = "float32"
) -> int:
    chosen = s.feed(values=ids, dtype="int32") if runtime else s.constant(np.array(ids, np.int32))
    result = s.tensor((max(ids, default=-1) + 1, *x[1:]), dtype)
    return s.op(op, [numbers(s, x, dtype, False), chosen], [result])


def segment_sum_cases() -> Iterator[Attributes]:
    shape = (6, 3, 4, 5)
    for rank, dtype in itertools.product(range(1, 5), ("float32", "int32")):
        for ids in ((0, 0, 1, 2, 2, 2), (0,) * 6, tuple(range(6))):
            yield dict(x=shape[:rank], ids=ids, dtype=dtype)
    yield dict(x=(1, 8), ids=(0,))


def segment_sum_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 7)
    ids = tuple(itertools.accumulate((rng.randint(0, 1) for _ in x[1:]), initial=0))
    ids = (*ids, *(ids[-1:] * x[0]))[: x[0]]
    return dict(x=x, ids=ids, dtype=rng.choice(("float32", "int32")))


def sparse_to_dense(
    s: Sketch,
    op: str,
    at: Dims,
    shape: Dims,
    one: bool = False,
    constant: bool = False,
    wide: bool = False,
    other: float = 0,
    runtime_shape: bool = False,
    dtype: str = "float32",
) -> int:
    """``at``: the shape of the indices; ``one``: one value for all; ``other``: everywhere else."""
    depth = at[1] if len(at) == 2 else 1
    places = np.asarray(s.rng.integers(0, shape[:depth] if len(at) == 2 else shape[0], at))
    places = places.astype("int64" if wide else "int32")
    indices = s.constant(places) if constant else s.feed(values=places, dtype=places.dtype.name)
    sizes = s.feed(values=shape, dtype="int32") if runtime_shape else s.constant(np.int32(shape))
    values = numbers(s, () if one else at[:1], dtype, False)
    others = s.constant(np.array(other, dtype))
    return s.op(op, [indices, sizes, values, others], [s.tensor(None, dtype)])


def sparse_to_dense_cases() -> Iterator[Attributes]:
    shape = (3, 4, 2, 5)
    for rank, constant in itertools.product(range(1, 5), (False, True)):
        yield dict(at=(5, rank), shape=shape[:rank], constant=constant, other=7)
    for dtype, wide in itertools.product(("float32", "int32", "int8", "uint8"), (False, True)):
        yield dict(at=(9,), shape=(13,), wide=wide, other=3, dtype=dtype)
    yield dict(at=(6,), shape=(5,), other=-(2**31), dtype="int32")
    yield dict(at=(6,), shape=(5,), dtype="int64")
    yield dict(at=(1,), shape=(6,), one=True, other=-1.5)
    yield dict(at=(1, 2), shape=(3, 8), one=True)
    yield dict(at=(0,), shape=(6,), other=2)
    yield dict(at=(3, 1), shape=(4,), runtime_shape=True)


def sparse_to_dense_random(rng: random.Random) -> Attributes:
    shape = random_dims(rng, rng.randint(1, 4), 6)
    return dict(at=(rng.randint(1, 9), len(shape)), shape=shape, constant=rng.random() < 0.4)


OPS: dict[str, Op] = {
    "SPARSE_TO_DENSE": Op(sparse_to_dense, sparse_to_dense_cases, sparse_to_dense_random),
    "SCATTER_ND": Op(scatter_nd, scatter_nd_cases, scatter_nd_random),
    "SEGMENT_SUM": Op(segment_sum, segment_sum_cases, segment_sum_random),
    **{op: Op(segments, segments_cases, segments_random) for op in SEGMENTS[:2]},
    **{op: Op(segments, extremum_cases, segments_random) for op in SEGMENTS[2:]},
}

# The sizes of these depend on data.
LEFT_TO_LITERT: Cases = (
    ("SEGMENT_SUM", dict(x=(3, 2), ids=(0, 0, 1), runtime=True)),
    ("SCATTER_ND", dict(at=(3, 1), shape=(4, 2), runtime_shape=True)),
)
