"""Random graphs of ops that move elements, between a few that compute: what planning does in place.

Parts that are split, sliced, gathered, unpacked, padded, repeated and joined again, in any order;
inputs, constants and repeats among what is joined; results that are read twice, and returned.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization

TYPES = ("float32", "float32", "float32", "int8", "int32")
PLANES: tuple[Dims, ...] = (
    *((1, 1), (1, 2), (2, 2), (1, 4), (2, 4), (4, 4), (7, 7), (8, 8)),
    *((1, 3), (3, 3), (2, 3), (5, 5), (4, 8), (1, 16)),
)
DEPTHS = (4, 8, 12, 20, 24, 32, 36, 68, 3, 6, 7)
MOST_ELEMENTS = 1 << 15
MOST_RANK = 5
_SCALE = 0.05

Drawer = Callable[["_Graph"], "list[Moved] | None"]


@dataclass(frozen=True)
class Moved:
    """A tensor and its shape."""

    index: int
    shape: Dims


def random_copies(choose: random.Random, ops: int = 12) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well.

    `choose`: the first of each choice is the simplest.
    """
    graph = _Graph(Sketch(np.random.default_rng(choose.getrandbits(16))), choose)
    for _ in range(3):
        graph.feed()
    graph.made = []
    while len(graph.made) < ops:
        drawn = choose.choice(_OPS)(graph)
        graph.add(drawn or graph.unary())
    made = [moved.index for moved in graph.made]
    return graph.s, list(
        dict.fromkeys([made[-1], *choose.sample(made, choose.randrange(min(4, ops)))])
    )


@dataclass
class _Graph:
    s: Sketch
    choose: random.Random
    tensors: list[Moved] = field(default_factory=list)
    made: list[Moved] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dtype = self.choose.choice(TYPES)
        self.plane = self.choose.choice(PLANES)

    def feed(self) -> None:
        shape = (1, *self.plane, self.choose.choice(DEPTHS))
        self.s.feeds.append(self.values(shape))
        self.tensors.append(Moved(self.s.input(shape, **self.type), shape))

    def add(self, moved: list[Moved]) -> None:
        self.tensors += moved
        self.made += moved

    def values(self, shape: Dims) -> Any:
        if self.dtype == "float32":
            return self.s.normal(shape)
        low, high = (-128, 127) if self.dtype == "int8" else (-999, 999)
        return self.s.rng.integers(low, high, shape, endpoint=True).astype(self.dtype)

    @property
    def type(self) -> dict[str, Any]:
        quantized = quantization(_SCALE, 3) if self.dtype == "int8" else None
        return {"dtype": self.dtype, "quantization": quantized}

    @property
    def recent(self) -> Moved:
        return self.choose.choice(self.tensors[-6:])

    def axis(self, shape: Dims) -> int:
        """The last axis as often as all others."""
        return self.choose.choice((len(shape) - 1, self.choose.randrange(len(shape))))

    def ints(self, values: Any) -> int:
        return self.s.constant(np.array(values, np.int32))

    def op(self, name: str, inputs: Sequence[int], *shapes: Dims, **options: Any) -> list[Moved]:
        outputs = [self.s.tensor(shape, **self.type) for shape in shapes]
        self.s.op(name, inputs, outputs, **options)
        return [Moved(i, shape) for i, shape in zip(outputs, shapes, strict=True)]

    def unary(self) -> list[Moved]:
        x = self.recent
        names = {"float32": ("RELU", "ABS", "NEG", "TANH"), "int8": ("RELU",)}
        return self.op(
            self.choose.choice(names.get(self.dtype, ("ABS", "NEG"))), [x.index], x.shape
        )


def _binary(g: _Graph) -> list[Moved] | None:
    x = g.recent
    other = g.choose.choice([t for t in g.tensors if t.shape == x.shape])
    name = g.choose.choice(("MAXIMUM", "MINIMUM") if g.dtype == "int8" else ("ADD", "MAXIMUM"))
    return g.op(name, [x.index, other.index], x.shape)


def _conv(g: _Graph) -> list[Moved] | None:
    x = g.recent
    if g.dtype != "float32" or len(x.shape) != 4:
        return None
    depth, size = g.choose.choice(DEPTHS), g.choose.choice((1, 1, 3))
    weights = g.s.normal((depth, size, size, x.shape[3]), 1 / np.sqrt(size * size * x.shape[3]))
    operands = [x.index, g.s.constant(weights), g.s.constant(g.s.normal((depth,)))]
    shape = (*x.shape[:3], depth)
    return g.op("CONV_2D", operands, shape, stride_h=1, stride_w=1)


def _concatenation(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis = g.axis(x.shape)

    def others(shape: Dims) -> Dims:
        return shape[:axis] + shape[axis + 1 :]

    beside = [
        t for t in g.tensors if len(t.shape) == len(x.shape) and others(t.shape) == others(x.shape)
    ]
    parts = [g.choose.choice((x, *beside)) for _ in range(g.choose.choice((2, 2, 3, 1, 4)))]
    if not g.choose.randrange(4):
        shape = list(x.shape)
        shape[axis] = g.choose.choice(DEPTHS)
        constant = g.s.constant(
            g.values(tuple(shape)), **{k: v for k, v in g.type.items() if k != "dtype"}
        )
        parts.insert(g.choose.randrange(len(parts) + 1), Moved(constant, tuple(shape)))
    sizes = list(x.shape)
    sizes[axis] = sum(part.shape[axis] for part in parts)
    axis -= g.choose.choice((0, len(sizes)))
    return g.op("CONCATENATION", [part.index for part in parts], tuple(sizes), axis=axis)


def _split(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis = g.axis(x.shape)
    counts = [n for n in (2, 3, 4) if x.shape[axis] % n == 0]
    if not counts:
        return None
    count = g.choose.choice(counts)
    shape = (*x.shape[:axis], x.shape[axis] // count, *x.shape[axis + 1 :])
    inputs = [g.s.constant(np.int32(axis)), x.index]
    return g.op("SPLIT", inputs, *[shape] * count, num_splits=count)


def _split_v(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis = g.axis(x.shape)
    size = x.shape[axis]
    if size < 2:
        return None
    steps = 4 if size > 4 and g.choose.randrange(4) else 1
    cut = g.choose.randrange(1, -(-size // steps)) * steps
    sizes = [cut, size - cut]
    shapes = [(*x.shape[:axis], n, *x.shape[axis + 1 :]) for n in sizes]
    inputs = [x.index, g.ints(sizes), g.s.constant(np.int32(axis))]
    return g.op("SPLIT_V", inputs, *shapes, num_splits=2)


def _slice(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis, begin, size = g.axis(x.shape), [0] * len(x.shape), list(x.shape)
    for i in {axis, g.axis(x.shape)} if g.choose.randrange(2) else {axis}:
        step = 4 if size[i] > 4 and g.choose.randrange(4) else 1
        begin[i] = g.choose.randrange(0, x.shape[i], step)
        size[i] = g.choose.randrange(min(step, x.shape[i] - begin[i]), x.shape[i] - begin[i] + 1)
    return g.op("SLICE", [x.index, g.ints(begin), g.ints(size)], tuple(size))


def _strided_slice(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis = g.axis(x.shape)
    begin, end, strides = [0] * len(x.shape), list(x.shape), [1] * len(x.shape)
    strides[axis] = g.choose.choice((1, 2, 3, -1))
    if strides[axis] < 0:
        begin[axis], end[axis] = x.shape[axis] - 1, -x.shape[axis] - 1
        shape = x.shape
    else:
        begin[axis] = g.choose.randrange(x.shape[axis])
        kept = -(-(x.shape[axis] - begin[axis]) // strides[axis])
        shape = (*x.shape[:axis], kept, *x.shape[axis + 1 :])
    operands = [x.index, *map(g.ints, (begin, end, strides))]
    return g.op("STRIDED_SLICE", operands, shape)


def _gather(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis = g.axis(x.shape)
    count = g.choose.choice((1, 4, 8, 3))
    first = g.choose.randrange(x.shape[axis])
    indices = [(first + i) % x.shape[axis] for i in range(count)]
    if not g.choose.randrange(3):
        indices = [g.choose.randrange(x.shape[axis]) for _ in indices]
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return g.op("GATHER", [x.index, g.ints(indices)], shape, axis=axis)


def _pack(g: _Graph) -> list[Moved] | None:
    x = g.recent
    if len(x.shape) >= MOST_RANK:
        return None
    equal = [t for t in g.tensors if t.shape == x.shape]
    parts = [g.choose.choice(equal) for _ in range(g.choose.choice((2, 3, 1, 4)))]
    axis = g.choose.choice((0, len(x.shape), g.choose.randrange(len(x.shape) + 1)))
    shape = (*x.shape[:axis], len(parts), *x.shape[axis:])
    return g.op("PACK", [p.index for p in parts], shape, axis=axis, values_count=len(parts))


def _unpack(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axes = [i for i, n in enumerate(x.shape) if n <= 4]
    if not axes or len(x.shape) < 3:
        return None
    axis = g.choose.choice(axes)
    shape = x.shape[:axis] + x.shape[axis + 1 :]
    count = x.shape[axis]
    return g.op("UNPACK", [x.index], *[shape] * count, axis=axis, num=count)


def _pad(g: _Graph) -> list[Moved] | None:
    x = g.recent
    axis, pads = g.axis(x.shape), [[0, 0] for _ in x.shape]
    pads[axis] = [g.choose.choice((0, 4, 1)), g.choose.choice((0, 4, 3))]
    shape = tuple(n + a + b for n, (a, b) in zip(x.shape, pads, strict=True))
    return g.op("PAD", [x.index, g.ints(pads)], shape) if len(shape) <= 4 else None


def _tile(g: _Graph) -> list[Moved] | None:
    x = g.recent
    repeats = [1] * len(x.shape)
    repeats[g.axis(x.shape)] = g.choose.choice((2, 3))
    shape = tuple(n * m for n, m in zip(x.shape, repeats, strict=True))
    return g.op("TILE", [x.index, g.ints(repeats)], shape) if g.dtype != "int8" else None


def _transpose(g: _Graph) -> list[Moved] | None:
    x = g.recent
    order = list(range(len(x.shape)))
    g.choose.shuffle(order)
    return g.op("TRANSPOSE", [x.index, g.ints(order)], tuple(x.shape[i] for i in order))


def _reshape(g: _Graph) -> list[Moved] | None:
    x = g.recent
    shapes = [(1, 1, prod(x.shape[:-1]), x.shape[-1]), (1, 1, 1, prod(x.shape))]
    shapes += [(1, *g.plane, n // prod(g.plane)) for n in [prod(x.shape)] if n % prod(g.plane) == 0]
    shape = g.choose.choice(shapes)
    return g.op("RESHAPE", [x.index, g.ints(shape)], shape)


def _limited(draw: Drawer) -> Drawer:
    """Nothing where what it would read is large already."""

    def drawn(g: _Graph) -> list[Moved] | None:
        if any(prod(t.shape) > MOST_ELEMENTS // 4 for t in g.tensors[-6:]):
            return None
        return draw(g)

    return drawn


_OPS: tuple[Drawer, ...] = (
    _Graph.unary,
    *map(_limited, [_concatenation] * 5),
    *(_binary, _conv, _split, _split_v, _slice, _strided_slice, _gather, _unpack, _transpose),
    *(_reshape, *map(_limited, [_pack, _pad, _tile])),
)
