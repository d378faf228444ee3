"""Ops that multiply matrices."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    ACTIVATIONS,
    Attributes,
    Cases,
    Op,
    each,
    random_activation,
    random_dims,
)
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import NO_INPUT


def fully_connected(
    s: Sketch,
    op: str,
    x: Dims = (1, 12),
    out: int = 7,
    depth: int | None = None,
    bias: bool = True,
    runtime_weights: bool = False,
    keep_num_dims: bool = False,
    act: str = "NONE",
) -> int:
    """``depth``: length of the reduction; by default the last dimension of ``x``."""
    depth = depth or x[-1]
    weights = s.operand((out, depth), constant=not runtime_weights, scale=3 / np.sqrt(depth))
    inputs = [s.feed(x), weights, s.constant(s.normal((out,))) if bias else NO_INPUT]
    return s.op(op, inputs, keep_num_dims=keep_num_dims, fused_activation_function=act)


def fully_connected_cases() -> Iterator[Attributes]:
    for depth, out in itertools.product((1, 3, 4, 5, 16, 33), (1, 3, 4, 10)):
        yield dict(x=(1, depth), out=out)
    for x in ((3, 12), (12,), (3, 5, 12), (2, 3, 4, 12), (1, 1, 1, 12)):
        yield dict(x=x)
        yield dict(x=x, keep_num_dims=True)
        yield dict(x=x, runtime_weights=True, bias=False)
    yield from each(dict(runtime_weights=True), x=((3, 1), (3, 6), (2, 8)), out=(2, 4, 8))
    yield dict(x=(1, 4, 3, 5), depth=60)
    yield dict(x=(3, 4, 3, 5), depth=60)
    yield dict(x=(2, 4, 3, 5), depth=15)
    yield dict(x=(2, 6), depth=3)
    yield dict(x=(3, 4, 7), depth=28, act="RELU")
    yield dict(bias=False)
    yield dict(x=(0, 5))
    yield dict(x=(1, 1024), out=1001)
    yield dict(x=(3, 1024), out=1001, act="RELU6")
    yield dict(x=(1, 7, 7, 64), depth=3136, out=130)
    yield dict(x=(70, 5), out=125)
    yield from each(dict(x=(2, 9)), act=ACTIVATIONS)


def fully_connected_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_dims(rng, rng.randint(1, 4)),
        out=rng.randint(1, 40),
        bias=rng.random() < 0.8,
        runtime_weights=rng.random() < 0.3,
        keep_num_dims=rng.random() < 0.4,
        act=random_activation(rng),
    )


def batch_matmul(
    s: Sketch,
    op: str,
    a: Dims = (5, 7),
    b: Dims = (7, 6),
    adj_x: bool = False,
    adj_y: bool = False,
    constant: str = "",
) -> int:
    """``a`` and ``b`` are the shapes before the last two dimensions are swapped."""
    shapes = [
        (*shape[:-2], shape[-1], shape[-2]) if swap else shape
        for shape, swap in ((a, adj_x), (b, adj_y))
    ]
    x, y = (
        s.operand(shape, constant=name == constant)
        for name, shape in zip("ab", shapes, strict=True)
    )
    return s.op(op, [x, y], adj_x=adj_x, adj_y=adj_y)


BATCHES: tuple[tuple[Dims, Dims], ...] = (
    ((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((3,), (1,)), ((2, 1), (3,)), ((2, 3), (2, 3)),
    ((2, 3), (1, 3)), ((2, 3, 2), (3, 1)), ((0,), (0,)),
)  # fmt: skip

SIZES = (
    (1, 1, 1), (4, 8, 4), (9, 3, 33), (1, 64, 130), (33, 17, 65), (3, 1, 5),
    (9, 3, 0), (9, 0, 4), (0, 3, 4),
)  # fmt: skip


def batch_matmul_cases() -> Iterator[Attributes]:
    for adj_x, adj_y in itertools.product((False, True), repeat=2):
        adjoint: Attributes = dict(adj_x=adj_x, adj_y=adj_y)
        for of_a, of_b in BATCHES:
            yield dict(a=(*of_a, 5, 7), b=(*of_b, 7, 6), **adjoint)
        for m, k, n in SIZES:
            yield dict(a=(2, m, k), b=(2, k, n), **adjoint)
        for constant in "ab":
            yield dict(constant=constant, **adjoint)
            yield dict(a=(2, 5, 7), constant=constant, **adjoint)
        yield dict(a=(64, 96), b=(96, 80), **adjoint)
        yield dict(a=(70, 5), b=(5, 125), **adjoint)


def batch_matmul_random(rng: random.Random) -> Attributes:
    of_a, of_b = rng.choice(BATCHES[:-1])
    m, k, n = random_dims(rng, 3, 20)
    return dict(
        a=(*of_a, m, k),
        b=(*of_b, k, n),
        adj_x=rng.random() < 0.5,
        adj_y=rng.random() < 0.5,
        constant=rng.choice(("", "", "a", "b")),
    )


def lstm(
    s: Sketch,
    op: str,
    x: Dims = (1, 7),
    units: int = 5,
    act: str = "TANH",
    runtime_weights: bool = False,
) -> list[int]:
    """A cell whose state is an input; its four results."""
    batch, depth = x
    weights = s.operand((4 * units, depth + units), constant=not runtime_weights, scale=0.5)
    bias = s.operand((4 * units,), constant=not runtime_weights)
    inputs = [s.feed(x), s.feed((batch, units)), weights, bias, s.feed((batch, units))]
    results = [s.tensor() for _ in range(4)]
    s.op(op, inputs, results, kernel_type="BASIC", fused_activation_function=act)
    return results


def lstm_cases() -> Iterator[Attributes]:
    for batch, depth, units in itertools.product((1, 3), (1, 4, 7), (1, 4, 5, 8)):
        yield dict(x=(batch, depth), units=units)
    yield dict(x=(2, 65), units=130)
    yield dict(x=(3, 6), units=6, runtime_weights=True)
    yield dict(act="RELU")


def lstm_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, 2, 20), units=rng.randint(1, 40))


OPS: dict[str, Op] = {
    "FULLY_CONNECTED": Op(fully_connected, fully_connected_cases, fully_connected_random),
    "BATCH_MATMUL": Op(batch_matmul, batch_matmul_cases, batch_matmul_random),
    "LSTM": Op(lstm, lstm_cases, lstm_random),
}

LITERT_REFUSES: Cases = (
    ("FULLY_CONNECTED", dict(act="TANH")),
    ("FULLY_CONNECTED", dict(x=(2, 6), depth=3, keep_num_dims=True)),
    ("BATCH_MATMUL", dict(a=(7,), b=(7, 6))),
    ("BATCH_MATMUL", dict(a=(1,) * 6, b=(1, 1))),
)
