"""BITCAST, BUCKETIZE, and the functions of StableHLO that LiteRT computes."""

import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import EXTREMES, Attributes, Op, each, random_dims
from tests.op_table.elements import INTEGER_EXTREMES
from tests.support.sketch import Dims, Sketch

SHAPES: tuple[Dims, ...] = (
    (), (1,), (7,), (3, 5), (2, 3, 4), (3, 4, 5, 7), (2, 3, 4, 5, 6), (0, 3),
)  # fmt: skip


def draw(s: Sketch, shape: Dims, dtype: str) -> int:
    """Any numbers of a type, its smallest and largest among them."""
    if dtype == "float32":
        return s.feed(shape, scale=5)
    if dtype == "bool":
        return s.feed(values=s.rng.integers(0, 2, shape), dtype=dtype)
    bounds = np.iinfo(dtype)
    values = s.rng.integers(bounds.min, bounds.max, shape, endpoint=True)
    return s.feed(values=values, dtype=dtype)


def bitcast(s: Sketch, op: str, x: Dims, dtype: str, out: str) -> int:
    source = draw(s, x, dtype)
    if dtype == "int32" and out == "float32":  # numbers that GPUs keep as they are
        s.feeds[-1] = s.normal(x).view(np.int32) if x else np.int32(0x40490FDB).reshape(())
    return s.op(op, [source], [s.tensor(None, out)])


def bitcast_cases() -> Iterator[Attributes]:
    for x in SHAPES:
        yield dict(x=x, dtype="float32", out="int32")
        yield dict(x=x, dtype="int32", out="float32")
    same = ((dtype, dtype) for dtype in ("bool", "int16", "float32"))
    for dtype, out in (("int8", "uint8"), ("uint8", "int8"), *same):
        yield dict(x=(3, 5, 7), dtype=dtype, out=out)


def bitcast_random(rng: random.Random) -> Attributes:
    types = rng.choice((("float32", "int32"), ("int32", "float32"), ("uint8", "int8")))
    return dict(x=random_dims(rng, rng.randint(0, 5)), dtype=types[0], out=types[1])


def bucketize(
    s: Sketch,
    op: str,
    x: Dims,
    boundaries: tuple[float, ...] = (-1.5, -0.2, 0.0, 0.0, 1.25),
    dtype: str = "float32",
    special: bool = False,
) -> int:
    values = np.array(EXTREMES) if special else s.normal(x)
    values = np.concatenate([values.ravel()[len(boundaries) :], boundaries])[: values.size]
    if dtype != "float32":
        values = s.rng.integers(-3, 4, values.shape)
    source = s.feed(values=values.reshape(-1) if special else values.reshape(x), dtype=dtype)
    return s.op(op, [source], [s.tensor(None, "int32")], boundaries=np.float32(boundaries))


def bucketize_cases() -> Iterator[Attributes]:
    yield from each(x=SHAPES)
    yield from each(dict(x=(3, 5, 7)), dtype=("int32", "int64"))
    yield from each(dict(x=(9,)), boundaries=((0.5,), ()))
    yield dict(x=(300,), boundaries=tuple(range(-18, 19)))
    yield dict(x=(16,), special=True)


def bucketize_random(rng: random.Random) -> Attributes:
    boundaries = tuple(sorted(rng.uniform(-2, 2) for _ in range(rng.randint(0, 9))))
    return dict(x=random_dims(rng, rng.randint(0, 5)), boundaries=boundaries)


def stablehlo(
    s: Sketch, op: str, x: Dims = (), dtype: str = "float32", special: bool = False
) -> int:
    if special:
        extremes = EXTREMES if dtype == "float32" else INTEGER_EXTREMES
        a = s.feed(values=np.repeat(extremes, len(extremes)), dtype=dtype)
        b = s.feed(values=np.tile(extremes, len(extremes)), dtype=dtype)
    else:
        a, b = draw(s, x, dtype), draw(s, x, dtype)
    if op == "STABLEHLO_SHIFT_LEFT":
        s.feeds[-1] = s.feeds[-1] & 7
    return s.op(op, [a, b], [s.tensor(None, dtype)])


TYPES_OF = {
    **dict.fromkeys(
        [f"STABLEHLO_{name}" for name in ("ADD", "MULTIPLY", "MAXIMUM", "MINIMUM")],
        ("float32", "int32", "int8", "uint8", "int16"),
    ),
    "STABLEHLO_AND": ("bool", "int32", "int8", "uint8", "int16"),
    "STABLEHLO_SHIFT_LEFT": ("int32", "int8", "int16"),
}


def stablehlo_op(op: str) -> Op:
    def cases() -> Iterator[Attributes]:
        for x in SHAPES:
            yield dict(x=x, dtype=TYPES_OF[op][0])
        yield from each(dict(x=(3, 5, 7)), dtype=TYPES_OF[op][1:])
        for dtype in ("float32", "int32"):
            if dtype in TYPES_OF[op]:
                yield dict(special=True, dtype=dtype)

    def draw_attributes(rng: random.Random) -> Attributes:
        return dict(x=random_dims(rng, rng.randint(0, 5)), dtype=rng.choice(TYPES_OF[op]))

    return Op(stablehlo, cases, draw_attributes)


OPS: dict[str, Op] = {
    "BITCAST": Op(bitcast, bitcast_cases, bitcast_random),
    "BUCKETIZE": Op(bucketize, bucketize_cases, bucketize_random),
    **{op: stablehlo_op(op) for op in TYPES_OF},
}
