"""Random graphs: ops that fuse, alias, write in parts and share buffers, in any order."""

from __future__ import annotations

import random

import numpy as np

from tests.support.sketch import Dims, Sketch

_UNARY = ("RELU", "RELU6", "TANH", "LOGISTIC")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM")


def random_graph(seed: int, ops: int = 14) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well."""
    choose = random.Random(seed)
    sketch = Sketch(np.random.default_rng(seed))
    channels = choose.choice((1, 3, 4, 6))
    tensors: list[tuple[int, Dims]] = []
    for shape in ((1, 5, 3, channels), (1, 5, 3, channels), (1,), (1, 1, 1, channels)):
        tensors.append((sketch.feed(shape), shape))
    for _ in range(ops):
        tensors.append(_op(sketch, choose, tensors))
    made = [index for index, _ in tensors[4:]]
    return sketch, [made[-1], *choose.sample(made[:-1], choose.randrange(3))]


def _op(s: Sketch, choose: random.Random, tensors: list[tuple[int, Dims]]) -> tuple[int, Dims]:
    x, shape = choose.choice([t for t in tensors if len(t[1]) == 4][-5:])
    kind = choose.choice(("unary", "binary", "binary", "conv", "concatenation", "reshape"))
    if kind == "unary":
        return s.op(choose.choice(_UNARY), [x]), shape
    if kind == "binary":
        others = [t for t, other in tensors if other in (shape, (1,), (1, 1, 1, shape[-1]))]
        operands = [x, choose.choice(others)]
        choose.shuffle(operands)
        return s.op(choose.choice(_BINARY), operands), shape
    if kind == "conv":
        depth = choose.choice((1, 4, 5, 12))
        weights = s.normal((depth, 1, 1, shape[-1]), 1 / np.sqrt(shape[-1]))
        inputs = [x, s.constant(weights), s.constant(s.normal((depth,)))]
        return s.op("CONV_2D", inputs, stride_h=1, stride_w=1), (*shape[:-1], depth)
    if kind == "concatenation":
        axis = choose.choice((1, 3))
        equal = [t for t, other in tensors if other == shape]
        parts = [choose.choice(equal) for _ in range(choose.choice((1, 2, 3)))]
        sizes = list(shape)
        sizes[axis] *= len(parts)
        return s.op("CONCATENATION", parts, axis=axis), tuple(sizes)
    shape = (1, shape[2], shape[1], shape[3])
    return s.op("RESHAPE", [x, s.constant(np.array(shape, np.int32))]), shape
