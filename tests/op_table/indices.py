"""Elements picked by indices."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import X, data, moved, random_type, random_values, scalar, with_types
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization


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


def embedding_lookup(
    s: Sketch,
    op: str,
    x: Dims,
    count: int,
    constant: tuple[int, ...] = (),
    dtype: str = "float32",
    out: str = "",
    zero_point: int = 0,
) -> list[int]:
    """``constant``: which inputs are constants; ``out``: the type of the output, if another."""
    rows = indices(s, (count,), x[0], 0 in constant)
    if not out:
        return moved(s, op, [rows, data(s, x, dtype, 1 in constant)], dtype)
    options = quantization(0.37, zero_point)
    table = s.constant(random_values(s, x, dtype), quantization=options)
    return [s.op(op, [rows, table], [s.tensor(dtype=out)])]


def embedding_lookup_cases() -> Iterator[Attributes]:
    yield dict(x=(7, 5), count=4)
    for constant in ((0,), (1,)):
        for rank in range(2, 6):
            yield dict(x=X[:rank], count=5, constant=constant)
        yield dict(x=(9, 16), count=11, constant=constant)
    for x in ((4, 8), (3, 5), (5, 2, 3)):
        yield dict(x=x, count=4, dtype="int8", out="float32")
    yield dict(x=(4, 8), count=0)
    yield dict(x=(1, 1), count=3)


def embedding_lookup_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(2, 4), 6)
    constant = rng.choice(((), (0,), (1,)))
    dtype = rng.choice(("float32", "int8", "uint8"))
    return dict(x=x, count=rng.randint(1, 9), constant=constant, dtype=dtype)


def reverse_sequence(
    s: Sketch,
    op: str,
    x: Dims,
    seq_dim: int,
    batch_dim: int,
    constant: bool = False,
    wide: bool = False,
    dtype: str = "float32",
) -> list[int]:
    """``constant``: the lengths are."""
    values = s.rng.integers(0, x[seq_dim], x[batch_dim : batch_dim + 1], endpoint=True)
    lengths = (
        s.constant(np.asarray(values, np.int64 if wide else np.int32))
        if constant
        else s.feed(values=values, dtype="int32")
    )
    inputs = [data(s, x, dtype), lengths]
    return moved(s, op, inputs, dtype, seq_dim=seq_dim, batch_dim=batch_dim)


def reverse_sequence_cases() -> Iterator[Attributes]:
    for rank in range(2, 6):
        for along, batch in itertools.permutations(range(rank), 2):
            constant = bool((along + batch) % 2)
            yield dict(x=X[:rank], seq_dim=along, batch_dim=batch, constant=constant)
    yield dict(x=(5, 16, 8), seq_dim=1, batch_dim=0)
    yield dict(x=(3, 7, 18), seq_dim=1, batch_dim=0)
    yield dict(x=(9, 3), seq_dim=1, batch_dim=0, constant=True, wide=True)
    yield dict(x=(2, 1, 5), seq_dim=1, batch_dim=2)
    yield dict(x=(2, 4, 0), seq_dim=1, batch_dim=0)
    yield from each(dict(x=(3, 4, 5), seq_dim=1, batch_dim=0), dtype=("int32", "uint8"))


def reverse_sequence_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(2, 5), 6)
    along, batch = rng.sample(range(len(x)), 2)
    dtype = rng.choice(("float32", "int32", "uint8"))
    return dict(x=x, seq_dim=along, batch_dim=batch, constant=rng.random() < 0.4, dtype=dtype)


NUMBERS = ("float32", "int32", "int8", "uint8")


def matrix_diag(s: Sketch, op: str, x: Dims, dtype: str = "float32", zero_point: int = 0) -> int:
    options = quantization(0.37, zero_point) if dtype in ("int8", "uint8") else None
    s.feeds.append(random_values(s, x, dtype))
    diagonal = s.input(x, dtype, quantization=options)
    return s.op(op, [diagonal], [s.tensor(None, dtype, quantization=options)])


def matrix_diag_cases() -> Iterator[Attributes]:
    for rank, dtype in itertools.product(range(1, 5), NUMBERS):
        yield dict(x=X[:rank], dtype=dtype)
    yield from each(x=((1,), (8,), (3, 9), (0,), (2, 0), (0, 3)))


def matrix_diag_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, rng.randint(1, 4)), dtype=rng.choice(NUMBERS))


def matrix_set_diag(
    s: Sketch, op: str, x: Dims, constant: tuple[int, ...] = (), dtype: str = "float32"
) -> list[int]:
    """``constant``: which inputs are constants."""
    shapes = x, (*x[:-2], min(x[-2:]))
    parts = [data(s, shape, dtype, i in constant) for i, shape in enumerate(shapes)]
    return moved(s, op, parts, dtype)


def matrix_set_diag_cases() -> Iterator[Attributes]:
    for rank, dtype in itertools.product(range(2, 6), NUMBERS):
        yield dict(x=X[:rank], dtype=dtype)
    yield from each(x=((1, 1), (8, 5), (5, 8), (2, 3, 9), (2, 9, 3), (0, 3), (2, 3, 0)))
    yield dict(x=(4, 4), constant=(0,))
    yield dict(x=(3, 4, 4), constant=(1,))


def matrix_set_diag_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, rng.randint(2, 5)), dtype=rng.choice(NUMBERS))


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
        yield from each(dict(x=X[:rank], depth=6), axis=range(-1, rank + 1))
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
    "EMBEDDING_LOOKUP": Op(
        embedding_lookup,
        lambda: [
            *embedding_lookup_cases(),
            *(dict(x=(7, 5), count=4, dtype=dtype) for dtype in ("int8", "uint8")),
        ],
        embedding_lookup_random,
    ),
    "REVERSE_SEQUENCE": Op(reverse_sequence, reverse_sequence_cases, reverse_sequence_random),
    "MATRIX_DIAG": Op(matrix_diag, matrix_diag_cases, matrix_diag_random),
    "MATRIX_SET_DIAG": Op(matrix_set_diag, matrix_set_diag_cases, matrix_set_diag_random),
    "ONE_HOT": Op(one_hot, one_hot_cases, one_hot_random),
}

# LiteRT stores 0 off the diagonal, whatever it means.
LEFT_TO_LITERT: Cases = (("MATRIX_DIAG", dict(x=(3,), dtype="int8", zero_point=3)),)

LITERT_REFUSES: Cases = (
    ("ONE_HOT", dict(x=(2,), depth=-1)),
    ("EMBEDDING_LOOKUP", dict(x=(2,), count=2)),
    ("EMBEDDING_LOOKUP", dict(x=(7, 5), count=4, dtype="int8", out="float32", zero_point=3)),
    ("REVERSE_SEQUENCE", dict(x=(2, 3), seq_dim=1, batch_dim=0, dtype="int8")),
    ("MATRIX_SET_DIAG", dict(x=(2,))),
)
