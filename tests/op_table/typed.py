"""Tensors of every type, for ops that move elements and do not look at them."""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.op_table.base import Attributes
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization

TYPES = ("float32", "int32", "bool", "int8", "uint8", "int16", "int64")
X: Dims = (2, 3, 4, 5, 3)
IMAGE: Dims = (2, 4, 6, 5)


def data(
    s: Sketch, shape: Dims, dtype: str = "float32", constant: bool = False, scale: float = 0.37
) -> int:
    """Random elements of any type."""
    values = random_values(s, shape, dtype)
    if constant:
        return s.constant(values, quantization=meaning(dtype, scale))
    s.feeds.append(values)
    return s.input(shape, dtype, quantization=meaning(dtype, scale))


def random_values(s: Sketch, shape: Dims, dtype: str) -> NDArray[Any]:
    if dtype == "float32":
        return s.normal(shape)
    low, high = {
        **dict.fromkeys(("int32", "int64"), (-(2**31), 2**31)),
        "int16": (-(2**15), 2**15),
        "int8": (-128, 128),
        "bool": (0, 2),
    }.get(dtype, (0, 256))
    return np.asarray(s.rng.integers(low, high, shape), dtype)


def meaning(dtype: str, scale: float = 0.37) -> Any:
    zero_point = {"int8": 5, "uint8": 5, "int16": 0}.get(dtype)
    return None if zero_point is None else quantization(scale, zero_point)


def ints(s: Sketch, *values: Any, wide: bool = False) -> int:
    return s.constant(np.array(values, np.int64 if wide else np.int32))


def moved(
    s: Sketch, op: str, inputs: Sequence[int], dtype: str, outputs: int = 1, **options: Any
) -> list[int]:
    """The outputs of an op; of a row "OP (what sets it apart)" too."""
    made = [s.tensor(None, dtype, quantization=meaning(dtype)) for _ in range(outputs)]
    s.op(op.partition(" ")[0], inputs, made, **options)
    return made


def scalar(s: Sketch, value: int, wide: bool = False) -> int:
    return s.constant(np.array(value, np.int64 if wide else np.int32))


def random_type(rng: random.Random) -> str:
    return rng.choice(("float32", *TYPES))


def with_types(
    cases: Callable[[], Iterator[Attributes]], types: Sequence[str] = TYPES
) -> Callable[[], Iterator[Attributes]]:
    """The cases, and the first of them with every other type."""

    def typed() -> Iterator[Attributes]:
        yield from cases()
        first = next(cases())
        yield from (dict(first, dtype=dtype) for dtype in types[1:])

    return typed
