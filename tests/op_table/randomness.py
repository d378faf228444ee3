"""Random numbers of a seed, as in LiteRT's first run."""

import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Op, each, random_dims
from tests.op_table.typed import scalar
from tests.support.sketch import Dims, Sketch

LARGE = 0x123456789ABCDEF


def numbers(
    s: Sketch, op: str, shape: Dims, seed: int = 1, seed2: int = 0, runtime: bool = False
) -> int:
    sizes = s.feed(values=shape, dtype="int32") if runtime else s.constant(np.int32(shape))
    return s.op(op, [sizes], [s.tensor()], seed=seed, seed2=seed2)


def numbers_cases() -> Iterator[Attributes]:
    yield from each(shape=((1,), (4,), (7,), (3, 5), (2, 3, 4), (2, 5, 6, 3), (1000,), (0, 3)))
    for seed, seed2 in ((0, 5), (7, 9), (LARGE, 1), (3, LARGE), (-2, -3)):
        yield dict(shape=(9,), seed=seed, seed2=seed2)


def numbers_random(rng: random.Random) -> Attributes:
    return dict(shape=random_dims(rng, rng.randint(1, 4)), seed=rng.randint(1, 1 << 40))


def multinomial(
    s: Sketch,
    op: str,
    x: Dims,
    count: int,
    seed: int = 1,
    dtype: str = "int64",
    special: bool = False,
    runtime: bool = False,
) -> int:
    logits = s.normal(x, 2)
    if special:
        logits[..., ::3], logits[..., 1::5] = -np.inf, np.nan
    samples = s.feed(values=count, dtype="int32") if runtime else scalar(s, count)
    return s.op(op, [s.feed(values=logits), samples], [s.tensor(None, dtype)], seed=seed)


def multinomial_cases() -> Iterator[Attributes]:
    for x in ((1, 1), (1, 5), (3, 4), (2, 300)):
        yield from each(dict(x=x), count=(1, 4, 7))
    yield dict(x=(3, 8), count=50, dtype="int32")
    yield dict(x=(3, 8), count=50, seed=LARGE)
    yield dict(x=(3, 13), count=20, special=True)


def multinomial_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, 2), count=rng.randint(1, 20), seed=rng.randint(1, 1 << 40))


OPS: dict[str, Op] = {
    "RANDOM_UNIFORM": Op(numbers, numbers_cases, numbers_random),
    "RANDOM_STANDARD_NORMAL": Op(numbers, numbers_cases, numbers_random),
    "MULTINOMIAL": Op(multinomial, multinomial_cases, multinomial_random),
}
