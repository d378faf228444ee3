"""Shared by the tables of ops: the description of an op, and values to draw from."""

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.support.sketch import Dims

Attributes = dict[str, Any]
Cases = tuple[tuple[str, Attributes], ...]
"""Names of rows, and attributes for each."""

ACTIVATIONS = ("RELU", "RELU_N1_TO_1", "RELU6")
TENSOR_TYPES = {"int32": 2, "int64": 4}
"""Numbers of the schema."""

CHANNELS = (1, 2, 3, 4, 5, 7, 8, 13, 16, 33, 64)
EXTREMES = (
    0.0, -0.0, 1.0, -1.0, 0.5, 6.5, -20.0, 88.0, 90.0, -90.0, 1e-30, 3e38, -3e38,
    np.inf, -np.inf, np.nan,
)  # fmt: skip


@dataclass(frozen=True)
class Op:
    """How models of one op are made: ``model(sketch, op, **attributes)`` gives the outputs.

    ``fixed`` lists the attributes of the table's cases; ``draw`` draws attributes at random.
    """

    model: Callable[..., int | Sequence[int]]
    fixed: Callable[[], Iterable[Attributes]]
    draw: Callable[[random.Random], Attributes] | None = None


def each(fixed: Attributes | None = None, /, **choices: Iterable[Any]) -> Iterator[Attributes]:
    """The fixed attributes with every combination of the choices; the last changes fastest."""
    for values in itertools.product(*choices.values()):
        yield {**(fixed or {}), **dict(zip(choices, values, strict=True))}


def random_dims(rng: random.Random, rank: int, largest: int = 9) -> Dims:
    return tuple(rng.randint(1, largest) for _ in range(rank))


def random_image(rng: random.Random, largest: int = 17, channels: int = 24) -> Dims:
    height, width = random_dims(rng, 2, largest)
    return (rng.choice((1, 1, 2, 3)), height, width, rng.randint(1, channels))


def random_activation(rng: random.Random) -> str:
    return rng.choice(("NONE", *ACTIVATIONS))
