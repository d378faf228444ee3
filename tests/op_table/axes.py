"""Ops along axes: reductions, positions, running sums, softmax."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    CHANNELS,
    EXTREMES,
    TENSOR_TYPES,
    Attributes,
    Cases,
    Op,
    each,
    random_dims,
)
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization


def mean_cases() -> Iterator[Attributes]:
    for keep_dims in (False, True):
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 5), (2, 3, 4, 3, 2)):
            for count in range(1, len(x) + 1):
                for axes in itertools.combinations(range(len(x)), count):
                    yield dict(x=x, axes=axes, keep_dims=keep_dims)
        for order in (-1, 2, (-1,), (-3, -2), (2, 1), (1, -3), (1, 1), (-1, 3, 0)):
            yield dict(axes=order, keep_dims=keep_dims)
        yield dict(axes=(), keep_dims=keep_dims)
        yield dict(x=(), axes=(), keep_dims=keep_dims)
        yield dict(x=(0, 3), axes=(1,), keep_dims=keep_dims)
        yield dict(x=(1, 7, 7, 37), keep_dims=keep_dims)
        yield dict(x=(1, 64, 65, 3), keep_dims=keep_dims)
        yield dict(x=(3, 1, 1, 9), keep_dims=keep_dims)
        yield dict(x=(1, 1000), axes=(1,), keep_dims=keep_dims)


def softmax(
    s: Sketch,
    op: str,
    x: Dims = (1, 10),
    beta: float = 1.0,
    scale: float = 1.0,
    offset: float = 0.0,
) -> int:
    return s.op(op, [s.feed(values=s.normal(x, scale) + offset)], beta=beta)


def softmax_cases() -> Iterator[Attributes]:
    yield from each(x=((10,), (3, 10), (2, 3, 10), (1, 4, 5, 6)), beta=(0.5, 1.0, 2.0))
    yield from each(x=((1,), (5, 1), (1, 3), (1, 1001), (3, 1001), (1, 3, 3, 130), (3, 5, 4, 3)))
    yield from each(x=((1, 64, 64, 2), (2, 3, 4, 5, 6), (0, 3)))
    yield from each(dict(x=(2, 4)), beta=(0.0, -1.0))
    yield from each(dict(x=(2, 7), scale=30.0), offset=(500.0, -500.0))
    yield dict(x=(2, 7), scale=1e4)
    yield dict(x=(20, 300), scale=1e4)
    yield from each(dict(x=(2, 16391)), beta=(1.0, 0.0, -1.0))
    yield dict(x=(1, 70001), scale=1e4)


def softmax_random(rng: random.Random) -> Attributes:
    return dict(
        x=(*random_dims(rng, rng.randint(0, 3)), rng.choice((1, 2, 5, 17, 64, 129))),
        beta=rng.choice((0.5, 1.0, 1.5)),
        scale=rng.choice((1.0, 10.0)),
    )


def local_response_normalization(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 13),
    radius: int = 2,
    bias: float = 1.0,
    alpha: float = 0.7,
    beta: float = 0.75,
) -> int:
    return s.op(op, [s.feed(x)], radius=radius, bias=bias, alpha=alpha, beta=beta)


def local_response_normalization_cases() -> Iterator[Attributes]:
    for channels, radius in itertools.product(CHANNELS, (0, 1, 5)):
        yield dict(x=(1, 3, 2, channels), radius=radius)
    yield from each(beta=(1.0, 0.5, 0.75, 2.0, -1.5, 0.0), bias=(0.5, 2.0), alpha=(0.1, 3.0))
    yield dict(radius=100)
    yield from each(x=((0, 3, 2, 5), (2, 3, 2, 0)))
    yield dict(bias=20.0, alpha=-0.5)


def local_response_normalization_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_dims(rng, 4),
        radius=rng.randint(0, 6),
        bias=rng.choice((0.5, 1.0, 3.0)),
        alpha=rng.choice((0.01, 1.0)),
        beta=rng.choice((0.25, 0.5, 0.75, 1.0)),
    )


def along(
    s: Sketch, x: Dims, kind: str, special: bool = False, extremes: tuple[float, ...] = EXTREMES
) -> int:
    """An input with values of the type `kind`: small whole numbers, but for float32."""
    if special:
        return s.feed(values=np.resize(extremes, x))
    if kind == "float32":
        return s.feed(x)
    return s.feed(values=s.rng.integers(-9, 10, x), dtype=kind)


def reduction(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axes: Dims | int = (1, 2),
    keep_dims: bool = False,
    kind: str = "float32",
    special: bool = False,
) -> int:
    inputs = [along(s, x, kind, special), s.constant(np.asarray(axes, np.int32))]
    return s.op(op, inputs, keep_dims=keep_dims)


def reduction_cases(*kinds: str) -> Iterator[Attributes]:
    for kind in kinds:
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 5), (2, 3, 4, 3, 2)):
            for count in range(1, len(x) + 1):
                for axes in itertools.combinations(range(len(x)), count):
                    yield dict(x=x, axes=axes, kind=kind)
        for keep_dims in (False, True):
            for order in (-1, 2, (-1,), (-3, -2), (2, 1), (1, 1), (-1, 3, 0)):
                yield dict(axes=order, keep_dims=keep_dims, kind=kind)
            yield dict(axes=(), keep_dims=keep_dims, kind=kind)
            yield dict(x=(), axes=(), keep_dims=keep_dims, kind=kind)
            yield dict(x=(0, 3), axes=(1,), keep_dims=keep_dims, kind=kind)
            yield dict(x=(3, 1, 1, 9), keep_dims=keep_dims, kind=kind)
            yield dict(x=(1, 7, 7, 37), axes=(1, 2, 3), keep_dims=keep_dims, kind=kind)
        yield dict(x=(1, 64, 65, 3), kind=kind)


def number_cases() -> Iterator[Attributes]:
    yield from reduction_cases("float32", "int32")
    for kind in ("float32", "int32"):
        yield dict(x=(0, 3), axes=(0,), kind=kind)
        yield dict(x=(2, 0), axes=(1,), kind=kind)


def extremum_cases() -> Iterator[Attributes]:
    yield from number_cases()
    for axes in ((0,), (1,), (0, 1)):
        yield dict(x=(16, 5), axes=axes, special=True)


def logical_cases() -> Iterator[Attributes]:
    yield from reduction_cases("bool")
    yield dict(x=(2, 0), axes=(1,), kind="bool")


def reduction_random(rng: random.Random, most: int = 5) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), most)
    count = rng.randint(1, len(x))
    axes = tuple(axis - rng.choice((0, len(x))) for axis in rng.sample(range(len(x)), count))
    return dict(x=x, axes=axes, keep_dims=rng.random() < 0.5)


def number_random(rng: random.Random) -> Attributes:
    return dict(reduction_random(rng), kind=rng.choice(("float32", "int32")))


def logical_random(rng: random.Random) -> Attributes:
    return dict(reduction_random(rng), kind="bool")


def arg_max(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axis: int = -1,
    kind: str = "float32",
    out: str = "int32",
    special: bool = False,
) -> int:
    """`special`: without NaN, which LiteRT sometimes takes for the largest and sometimes not."""
    inputs = [along(s, x, kind, special, EXTREMES[:-1]), s.constant(np.int32(axis))]
    return s.op(op, inputs, [s.tensor(dtype=out)], output_type=TENSOR_TYPES[out])


def top_k(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 9),
    k: int = 3,
    kind: str = "float32",
    equal: bool = False,
    runtime: bool = False,
    special: bool = False,
) -> list[int]:
    """``equal``: many elements are; ``special``: limits of the type, infinity and NaN."""
    options = {"int16": quantization(0.3), "int8": quantization(0.3, 7)}.get(kind.removeprefix("u"))
    values = s.normal(x) if kind == "float32" and not equal else s.rng.integers(0, 9, x)
    if special and kind == "float32":
        values = s.rng.choice(EXTREMES, x)
    elif special:
        limits = np.iinfo("int32" if kind == "int64" else kind)
        values = s.rng.choice((limits.min, limits.min + 1, 1, limits.max - 1, limits.max), x)
    s.feeds.append(np.asarray(values, kind))
    operand = s.input(x, kind, quantization=options)
    count = s.feed(values=k, dtype="int32") if runtime else s.constant(np.int32(k))
    outputs = [s.tensor(None, kind, quantization=options), s.tensor(None, "int32")]
    s.op(op, [operand, count], outputs)
    return outputs


def top_k_cases() -> Iterator[Attributes]:
    yield dict(runtime=True)
    yield from each(x=((9,), (3, 5), (2, 3, 8), (2, 3, 4, 6), (2, 1, 3, 2, 5)), k=(1, 3, 5))
    for kind in ("float32", "int32", "int8", "uint8", "int16", "int64"):
        yield dict(x=(3, 50), k=11, kind=kind, equal=True)
        yield dict(x=(3, 13), k=13, kind=kind, equal=True)
        for n, k in ((23, 16), (23, 23), (700, 16), (700, 300)):
            yield dict(x=(2, n), k=k, kind=kind, special=True)
    for n, k in (
        *((256, 256), (257, 1), (257, 257), (1025, 16), (1025, 17), (1025, 256)),
        *((1027, 1026), (4500, 300)),
    ):
        yield dict(x=(2, n), k=k)
        yield dict(x=(2, n), k=k, equal=True)
    yield dict(k=0)
    yield dict(x=(2, 300), k=0)
    yield dict(x=(2, 259), k=20)
    yield dict(x=(2, 0), k=0)
    yield dict(x=(0, 3), k=2)
    yield dict(x=(0, 300), k=2)
    yield dict(x=(1, 1), k=1)
    yield dict(x=(1, 1001), k=10)
    yield dict(x=(1, 70000), k=7)
    yield dict(x=(1000, 3), k=2)


def top_k_random(rng: random.Random) -> Attributes:
    x = (
        *random_dims(rng, rng.randint(0, 3)),
        rng.choice((rng.randint(1, 9), rng.randint(1, 3000))),
    )
    return dict(x=x, k=rng.randint(0, x[-1]), equal=rng.random() < 0.5)


def axis_cases(*kinds: str) -> Iterator[Attributes]:
    for kind in kinds:
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 6), (3, 1, 4, 3, 2)):
            for axis in range(-len(x), len(x)):
                yield dict(x=x, axis=axis, kind=kind)
        yield dict(x=(0, 3), axis=1, kind=kind)
        yield dict(x=(1, 1001), axis=1, kind=kind)
        yield dict(x=(1, 1), axis=0, kind=kind)
        yield dict(x=(1, 33, 31, 21), axis=3, kind=kind)


def arg_max_cases() -> Iterator[Attributes]:
    yield from axis_cases("float32", "int32")
    for axis in range(2):
        yield dict(x=(16, 5), axis=axis, special=True)
        yield dict(x=(16, 5), axis=axis, out="int64")


def axis_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    kind = rng.choice(("float32", "int32"))
    return dict(x=x, axis=rng.randrange(-len(x), len(x)), kind=kind)


def cumsum(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axis: int = -1,
    kind: str = "float32",
    exclusive: bool = False,
    reverse: bool = False,
) -> int:
    inputs = [along(s, x, kind), s.constant(np.int32(axis))]
    return s.op(op, inputs, exclusive=exclusive, reverse=reverse)


def cumsum_cases() -> Iterator[Attributes]:
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        for attributes in axis_cases("float32", "int32"):
            yield dict(attributes, exclusive=exclusive, reverse=reverse)
    yield dict(x=(0, 3), axis=0)


def cumsum_random(rng: random.Random) -> Attributes:
    return dict(axis_random(rng), exclusive=rng.random() < 0.5, reverse=rng.random() < 0.5)


def over_channels(
    s: Sketch, op: str, x: Dims = (2, 3, 4, 6), scale: float = 1.0, special: bool = False
) -> int:
    return s.op(op, [along(s, x, "float32", special) if special else s.feed(x, scale=scale)])


def over_channels_cases() -> Iterator[Attributes]:
    for x in ((1,), (7,), (3, 5), (2, 3, 4), (1, 3, 3, 130), (2, 3, 4, 5, 6), (0, 3), (1, 1001)):
        yield dict(x=x)
        yield dict(x=x, scale=30.0)
    for channels in CHANNELS:
        yield dict(x=(1, 7, 6, channels))
    yield from each(x=((3, 1001), (1, 2050), (2, 4101), (1, 64, 64, 2), (300, 67)))
    yield from each(dict(x=(2, 7)), scale=(0.0, 1e-8))
    yield dict(x=(16, 5), special=True)
    yield dict(x=(3, 2051), special=True)


def over_channels_random(rng: random.Random) -> Attributes:
    channels = rng.choice((1, 2, 5, 17, 64, 129, 301))
    return dict(x=(*random_dims(rng, rng.randint(0, 3)), channels), scale=rng.choice((1.0, 10.0)))


OPS: dict[str, Op] = {
    "SOFTMAX": Op(softmax, softmax_cases, softmax_random),
    "LOCAL_RESPONSE_NORMALIZATION": Op(
        local_response_normalization,
        local_response_normalization_cases,
        local_response_normalization_random,
    ),
    "MEAN": Op(reduction, mean_cases, lambda rng: reduction_random(rng, 7)),
    "SUM": Op(reduction, number_cases, number_random),
    "REDUCE_PROD": Op(reduction, number_cases, number_random),
    "REDUCE_MAX": Op(reduction, extremum_cases, number_random),
    "REDUCE_MIN": Op(reduction, extremum_cases, number_random),
    "REDUCE_ANY": Op(reduction, logical_cases, logical_random),
    "REDUCE_ALL": Op(reduction, logical_cases, logical_random),
    "ARG_MAX": Op(arg_max, arg_max_cases, axis_random),
    "ARG_MIN": Op(arg_max, arg_max_cases, axis_random),
    "TOPK_V2": Op(top_k, top_k_cases, top_k_random),
    "CUMSUM": Op(cumsum, cumsum_cases, cumsum_random),
    "L2_NORMALIZATION": Op(over_channels, over_channels_cases, over_channels_random),
    "LOG_SOFTMAX": Op(over_channels, over_channels_cases, over_channels_random),
}

# The mean of nothing is NaN.
LEFT_TO_LITERT: Cases = (("MEAN", dict(x=(0, 3), axes=(0,))),)

LITERT_REFUSES: Cases = (
    ("SOFTMAX", dict(x=())),
    ("LOCAL_RESPONSE_NORMALIZATION", dict(x=(2, 3, 4))),
    ("MEAN", dict(axes=(4,))),
    ("ARG_MAX", dict(x=(2, 0))),
    ("TOPK_V2", dict(x=(2, 3), k=4)),
    ("REDUCE_ANY", {}),
    ("CUMSUM", dict(x=(), axis=0)),
    ("L2_NORMALIZATION", dict(x=())),
)
