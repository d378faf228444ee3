"""Tensors with something before and behind them: paddings, concatenations, packs."""

import itertools
import random
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.op_table.typed import TYPES, X, data, moved, random_type, with_types
from tests.support.sketch import Dims, Sketch


def pad(s: Sketch, op: str, x: Dims, pads: tuple[Dims, ...], wide: bool = False) -> int:
    """``wide``: the paddings are 64-bit integers."""
    paddings = np.array(pads, np.int64 if wide else np.int32).reshape(len(x), 2)
    return s.op(op, [s.feed(x), s.constant(paddings)])


def pad_cases() -> Iterator[Attributes]:
    x = (2, 3, 4, 5, 3)
    for rank in range(1, 6):
        yield from each(dict(x=x[:rank]), pads=(((0, 0),) * rank, ((1, 2),) * rank))
        for axis in range(rank):
            pads = tuple((2, 1) if i == axis else (0, 0) for i in range(rank))
            yield dict(x=x[:rank], pads=pads)
    yield dict(x=(), pads=())
    yield from each(dict(x=(0, 3)), pads=(((1, 1), (0, 0)), ((0, 0), (1, 1))))
    yield dict(x=(1, 8, 9, 3), pads=((0, 0), (1, 1), (1, 1), (0, 0)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 1), (0, 1), (0, 0)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (0, 12)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (3, 0)))
    yield dict(x=(3, 2, 2, 5), pads=((0, 0), (7, 0), (0, 9), (1, 1)), wide=True)


def pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    pads = tuple((rng.randint(0, 3), rng.randint(0, 3)) for _ in x)
    return dict(x=x, pads=pads, wide=rng.random() < 0.2)


def typed_pad(
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


def typed_pad_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for rank in range(1, 6):
            yield dict(x=X[:rank], pads=((1, 2),) * rank, dtype=dtype)
        yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 1), (0, 1), (0, 0)), dtype=dtype)
        yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (0, 12)), dtype=dtype)


def typed_pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    pads = tuple((rng.randint(0, 3), rng.randint(0, 3)) for _ in x)
    return dict(x=x, pads=pads, dtype=rng.choice(TYPES[1:]))


def padv2(s: Sketch, op: str, special: bool = False, **attributes: Any) -> list[int]:
    return typed_pad(s, op, **attributes)


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


def padv2_random(rng: random.Random) -> Attributes:
    return dict(typed_pad_random(rng), value=rng.choice(("random", "runtime")))


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
    constants: Dims = (),
    twice: bool = False,
    act: str = "NONE",
) -> int:
    """``constants``: positions of constant inputs; ``twice``: the first is also the last."""
    inputs = [s.operand(shape, constant=i in constants) for i, shape in enumerate(shapes)]
    inputs += inputs[:1] if twice else []
    return s.op(op, inputs, axis=axis, fused_activation_function=act)


def concatenation_cases() -> Iterator[Attributes]:
    sizes: Dims = (2, 3, 4, 5, 3)
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            base, position = sizes[:rank], axis % rank
            other = (*base[:position], 7, *base[position + 1 :])
            yield dict(shapes=(base, other), axis=axis)
    for count in range(3, 8):
        yield dict(shapes=tuple((1, 3, 4, channels + 1) for channels in range(count)), axis=3)
    for channels in ((4, 8), (1, 1), (3, 4), (4, 3), (5, 2, 9), (16, 16, 16), (33, 31)):
        yield dict(shapes=tuple((1, 5, 6, depth) for depth in channels), axis=3)
    yield dict(shapes=((3, 5, 6, 4),) * 4, axis=1)
    yield dict(shapes=((1, 19, 19, 12), (1, 10, 19, 12)), axis=1)
    yield dict(shapes=((1, 1083, 4), (1, 600, 4), (1, 150, 4)), axis=1)
    pair = ((1, 3, 4, 5), (1, 3, 4, 2))
    yield from each(dict(shapes=pair, axis=-1), constants=((0,), (1,)))
    yield dict(shapes=pair + pair, axis=-1, constants=(1, 2))
    yield dict(shapes=((2, 3, 4, 5),), axis=3, twice=True)
    yield dict(shapes=pair, axis=3, twice=True)
    yield dict(shapes=((2, 3, 4, 5),), axis=3)
    yield dict(shapes=((0, 3), (2, 3)), axis=0)
    yield dict(shapes=((0, 3), (0, 3)), axis=1)


def concatenation_random(rng: random.Random) -> Attributes:
    base = random_dims(rng, rng.randint(1, 5), 6)
    axis = rng.randrange(-len(base), len(base))
    position = axis % len(base)
    shapes = tuple(
        (*base[:position], rng.randint(1, 9), *base[position + 1 :])
        for _ in range(rng.randint(2, 6))
    )
    return dict(shapes=shapes, axis=axis, constants=rng.choice(((), (), (0,), (1,))))


def typed_concatenation(
    s: Sketch,
    op: str,
    shapes: tuple[Dims, ...],
    axis: int,
    dtype: str,
    constant: int = -1,
    scales: tuple[float, ...] = (),
) -> list[int]:
    """``constant``: the position of a constant input; ``scales``: of quantized ones."""
    inputs = [
        data(s, shape, dtype, i == constant, *scales[i : i + 1]) for i, shape in enumerate(shapes)
    ]
    return moved(s, op, inputs, dtype, axis=axis)


def typed_concatenation_cases() -> Iterator[Attributes]:
    for dtype in TYPES[1:]:
        for rank in range(1, 6):
            for axis in range(rank):
                other = (*X[:axis], 7, *X[axis + 1 : rank])
                yield dict(shapes=(X[:rank], other), axis=axis, dtype=dtype)
        yield dict(shapes=((2, 3), (2, 2), (2, 5)), axis=-1, constant=1, dtype=dtype)
    for axis in (0, 1):
        yield dict(shapes=((3, 5), (3, 5)), axis=axis, dtype="uint8", scales=(0.2, 0.5))


def typed_concatenation_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    axis = rng.randrange(len(x))
    shapes = tuple((*x[:axis], rng.randint(1, 9), *x[axis + 1 :]) for _ in range(3))
    return dict(shapes=shapes, axis=axis, dtype=rng.choice(TYPES[1:]))


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
        yield from each(dict(x=X[:rank]), axis=range(-rank - 1, rank + 1))
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


OPS: dict[str, Op] = {
    "CONCATENATION": Op(concatenation, concatenation_cases, concatenation_random),
    "PAD": Op(pad, pad_cases, pad_random),
    "PAD (other types)": Op(typed_pad, typed_pad_cases, typed_pad_random),
    "CONCATENATION (other types)": Op(
        typed_concatenation, typed_concatenation_cases, typed_concatenation_random
    ),
    "PADV2": Op(padv2, padv2_cases, padv2_random),
    "MIRROR_PAD": Op(mirror_pad, with_types(mirror_pad_cases), mirror_pad_random),
    "PACK": Op(pack, pack_cases, pack_random),
}

LITERT_REFUSES: Cases = (
    ("CONCATENATION", dict(shapes=((2, 3), (2, 3)), axis=2)),
    ("CONCATENATION", dict(shapes=((2, 3), (2, 3)), axis=1, act="RELU")),
    ("PAD", dict(x=(2,) * 6, pads=((1, 1),) * 6)),
    ("PAD", dict(x=(4,), pads=((-1, 0),))),
    (
        "CONCATENATION (other types)",
        dict(shapes=((2,), (2,)), axis=0, dtype="int8", scales=(0.2, 0.5)),
    ),
    ("PACK", dict(x=(2, 3), axis=0, dtype="bool")),
    ("MIRROR_PAD", dict(x=(2, 3), pads=((2, 0), (0, 0)), mode="REFLECT")),
    ("PADV2", dict(x=(1,) * 6, pads=((1, 1),) * 6, value=1.0)),
)
