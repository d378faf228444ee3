"""Random graphs: ops that fuse, alias, write in parts and share buffers, in any order."""

from __future__ import annotations

import random

import numpy as np

from tests.support.sketch import Dims, Sketch

_UNARY = ("RELU", "RELU6", "TANH", "LOGISTIC")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM")
_CLAMPS = ("NONE", "RELU", "RELU_N1_TO_1", "RELU6")
_MOST_CHANNELS = 48
_MOST_ROWS = 40


def random_graph(choose: random.Random, ops: int = 14) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well.

    ``choose``: the first of each choice is the simplest.
    """
    sketch = Sketch(np.random.default_rng(choose.getrandbits(16)))
    channels = choose.choice((1, 3, 4, 6))
    batch = choose.choice((1, 2))
    tensors: list[tuple[int, Dims]] = []
    for shape in (*((batch, 5, 3, channels),) * 2, (1,), (1, 1, 1, channels)):
        tensors.append((sketch.feed(shape), shape))
    for _ in range(ops):
        tensors.append(_op(sketch, choose, tensors))
    made = [index for index, _ in tensors[4:]]
    return sketch, [made[-1], *choose.sample(made[:-1], choose.randrange(min(3, ops)))]


def _op(s: Sketch, choose: random.Random, tensors: list[tuple[int, Dims]]) -> tuple[int, Dims]:
    x, shape = choose.choice([t for t in tensors if len(t[1]) == 4 and t[1][1] > 1][-5:])
    kind = choose.choice(
        ("unary", "binary", "binary", "vector", "reshape", "conv", "equal parts", "channels")
    )
    if kind == "unary":
        return s.op(choose.choice(_UNARY), [x]), shape
    if kind == "binary":
        others = [t for t, other in tensors if other in (shape, (1,), (1, 1, 1, shape[-1]))]
        operands = [x, choose.choice(others)]
        choose.shuffle(operands)
        return s.op(choose.choice(_BINARY), operands), shape
    if kind == "vector":
        operands = [x, s.constant(s.normal(shape[-1:]))]
        choose.shuffle(operands)
        return s.op(choose.choice(("MUL", "ADD")), operands), shape
    if kind == "conv":
        return _conv(s, choose, x, shape)
    if kind == "equal parts" and shape[-1] * shape[1] <= _MOST_ROWS:
        axis = choose.choice((1, 3))
        equal = [t for t, other in tensors if other == shape]
        parts = [choose.choice(equal) for _ in range(choose.choice((1, 2, 3)))]
        sizes = list(shape)
        sizes[axis] *= len(parts)
        return s.op("CONCATENATION", parts, axis=axis), tuple(sizes)
    if kind == "channels" and shape[-1] <= _MOST_CHANNELS:
        beside = [t for t in tensors if t[1][:-1] == shape[:-1] and t[1][-1] <= _MOST_CHANNELS]
        other, size = choose.choice(beside)
        return s.op("CONCATENATION", [x, other], axis=3), (*shape[:-1], shape[-1] + size[-1])
    shape = (shape[0], shape[2], shape[1], shape[3])
    return s.op("RESHAPE", [x, s.constant(np.array(shape, np.int32))]), shape


def _conv(s: Sketch, choose: random.Random, x: int, shape: Dims) -> tuple[int, Dims]:
    depth, size = choose.choice((1, 4, 5, 12)), choose.choice((1, 3))
    weights = s.normal((depth, size, size, shape[-1]), 1 / (size * np.sqrt(shape[-1])))
    inputs = [x, s.constant(weights), s.constant(s.normal((depth,)))]
    clamp = choose.choice(_CLAMPS)
    y = s.op("CONV_2D", inputs, stride_h=1, stride_w=1, fused_activation_function=clamp)
    return y, (*shape[:-1], depth)
