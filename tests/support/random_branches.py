"""Random graphs whose runs choose among branches, and whose constants follow from shapes.

The inputs have N rows, and every op takes any N, so that the graphs can be resized. The results of
branches have equal sizes, sizes that broadcast, other ranks, or no elements; some are the inputs.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import ModelBuilder

DEPTHS = (4, 3, 1, 5)
ROWS = (3, 1, 2, 4)
"""N in the file."""

_UNARY = ("NEG", "TANH", "ABS", "RELU", "LOGISTIC")
_BINARY = ("ADD", "SUB", "MUL", "MAXIMUM")


@dataclass(frozen=True)
class Made:
    """A tensor of float32; `shape` is None if a run decides it."""

    index: int
    shape: Dims | None


def random_branches(choose: random.Random, ops: int = 6) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well.

    The first two inputs are [N, depth] of float32; then a bool and an int32 that choose.
    """
    rows, depth = choose.choice(ROWS), choose.choice(DEPTHS)
    s = Sketch(np.random.default_rng(choose.getrandbits(16)))
    inputs = [Made(s.feed((rows, depth)), (rows, depth)) for _ in range(2)]
    choosers = [
        s.feed(values=choose.random() < 0.5, dtype="bool"),
        s.feed(values=choose.choice((0, 1, 2, 5, -1)), dtype="int32"),
    ]
    graph = _Graph(choose, s, (rows, depth))
    # LiteRT forgets the inputs that no node of a graph with branches reads.
    made = [*inputs, graph.binary(*inputs)]
    for _ in range(ops):
        x = choose.choice(made[-3:])
        name = choose.choice(("branches", "branches", "unary", "binary", "folded", "SHAPE"))
        if name == "branches":
            made.append(graph.chosen(choosers, [x, choose.choice(made)]))
        elif name == "binary":
            made.append(graph.binary(x, choose.choice(made)))
        elif name == "folded" and x.shape == graph.shape:
            made.append(graph.times_folded(x))
        elif name == "SHAPE" and x.shape == graph.shape:
            made.append(graph.times_rows(x))
        else:
            made.append(graph.unary(x))
    results = [each.index for each in made[2:]]
    others = choose.sample(results, choose.randrange(min(3, len(results))))
    return s, list(dict.fromkeys([results[-1], *others]))


class _Graph:
    """A graph or a branch of one; `shape` is the inputs' in the file."""

    def __init__(self, choose: random.Random, builder: ModelBuilder, shape: Dims, depth: int = 0):
        self.choose = choose
        self.b = builder
        self.shape = shape
        self.depth = depth

    def ints(self, *values: int) -> int:
        return self.b.constant(np.array(values, np.int32))

    def op(self, name: str, inputs: Sequence[int], shape: Dims | None, **options: object) -> Made:
        result = self.b.tensor(shape)
        return Made(self.b.op(name, inputs, [result], **options), shape)

    def unary(self, x: Made) -> Made:
        return self.op(self.choose.choice(_UNARY), [x.index], x.shape)

    def binary(self, x: Made, other: Made) -> Made:
        """Two tensors of one size, or one and a number."""
        if x.shape is None or other.shape != x.shape:
            y = self.b.constant(np.float32(self.choose.choice((0.5, -2))))
        else:
            y = other.index
        return self.op(self.choose.choice(_BINARY), [x.index, y], x.shape)

    def rows(self, x: Made) -> int:
        """The number of rows, as a vector of one element."""
        (shape,) = self.sizes(x)
        return self.b.op("GATHER", [shape, self.ints(0)], [self.b.tensor((1,), "int32")])

    def sizes(self, *tensors: Made) -> list[int]:
        number = SCHEMA_NUMBERS["int32"]
        rank = len(self.shape)
        return [
            self.b.op("SHAPE", [x.index], [self.b.tensor((rank,), "int32")], out_type=number)
            for x in tensors
        ]

    def times_rows(self, x: Made) -> Made:
        number = self.b.op("CAST", [self.rows(x)], [self.b.tensor((1,))])
        return self.op("MUL", [x.index, number], x.shape)

    def times_folded(self, x: Made) -> Made:
        """The tensor times one that shapes give, through several more shapes."""
        choose, shape = self.choose, self.sizes(x)[0]
        one = self.b.constant(np.float32(1))
        for _ in range(choose.choice((1, 2, 3))):
            name = choose.choice(("FILL", "BROADCAST_ARGS", "TILE", "ABS", "RANGE"))
            if name == "BROADCAST_ARGS":
                outputs = [self.b.tensor((2,), "int32")]
                shape = self.b.op(name, [shape, self.ints(1, 1)], outputs)
            if name == "TILE":
                ones = self.b.constant(np.ones((1, 1), np.float32))
                filled = self.op("TILE", [ones, shape], self.shape)
            elif name == "RANGE":
                ends = [self.ints(0), self.ints(0), self.ints(1)]
                ends = [self.b.op("RESHAPE", [each, self.ints()], [()]) for each in ends]
                count = self.b.op("GATHER", [shape, self.ints(0)], [self.b.tensor((1,), "int32")])
                ends[1] = self.b.op("RESHAPE", [count, self.ints()], [()])
                counted = self.b.op("RANGE", ends, [self.b.tensor(self.shape[:1], "int32")])
                numbers = self.op("CAST", [counted], self.shape[:1])
                column = self.op("RESHAPE", [numbers.index, self.ints(-1, 1)], (self.shape[0], 1))
                filled = self.op("FILL", [shape, one], self.shape)
                filled = self.op("MUL", [filled.index, column.index], self.shape)
            else:
                filled = self.op("FILL", [shape, one], self.shape)
            if name == "ABS":
                filled = self.op("ABS", [filled.index], self.shape)
            (shape,) = self.sizes(filled)
        filled = self.op("FILL", [shape, self.b.constant(np.float32(1.5))], self.shape)
        return self.op("MUL", [x.index, filled.index], x.shape)

    def chosen(self, choosers: Sequence[int], values: Sequence[Made]) -> Made:
        """The result of a branch that an input chooses, or the sign of a sum."""
        choose, op = self.choose, self.choose.choice(("IF", "IF", "STABLEHLO_CASE"))
        chosen, count = choosers[0], 2
        if op == "STABLEHLO_CASE":
            chosen, count = choosers[1], choose.choice((2, 3, 1))
        elif values[0].shape is not None and choose.random() < 0.3:
            total = self.reduced("SUM", values[0], range(len(values[0].shape)))
            zero = self.b.constant(np.float32(0))
            chosen = self.b.op("GREATER", [total.index, zero], [self.b.tensor((), "bool")])
        same = choose.random() < 0.4
        shapes: list[Dims | None] = []

        def branch(b: ModelBuilder) -> list[int]:
            inner = _Graph(choose, b, self.shape, self.depth + 1)
            inputs = [Made(b.input(x.shape or ()), x.shape) for x in values]
            for x, each in zip(values, inputs, strict=True):
                if x.shape is None:
                    b.set_shape(each.index, ())
            flag = Made(b.input((), dtype="bool"), ()).index
            number = Made(b.input((), dtype="int32"), ()).index
            result = inner.branch(inputs, [flag, number], same)
            shapes.append(result.shape)
            return [result.index]

        found = [self.b.subgraph(branch) for _ in range(count)]
        options = {"branch_subgraph_indices": found}
        if op == "IF":
            options = {"then_subgraph_index": found[0], "else_subgraph_index": found[1]}
        is_known = shapes[0] is not None and len({*shapes}) == 1 and same
        inputs = [chosen, *(x.index for x in values), *choosers]
        return self.op(op, inputs, shapes[0] if is_known else None, **options)

    def branch(self, inputs: Sequence[Made], choosers: Sequence[int], same: bool) -> Made:
        """What a branch makes of its inputs, of the first one's size if all should have it."""
        x = self.choose.choice(inputs) if not same else inputs[0]
        for _ in range(self.choose.choice((0, 1, 2))):
            x = self.unary(x)
        if self.depth < 2 and self.choose.random() < 0.15:
            return self.chosen(choosers, [x, x])
        if same or x.shape is None:
            return x
        return self.choose.choice(_RESULTS)(self, x)

    def reduced(self, name: str, x: Made, axes: Sequence[int], keep_dims: bool = False) -> Made:
        assert x.shape is not None
        kept = [1 if axis in axes else n for axis, n in enumerate(x.shape)]
        shape = kept if keep_dims else [n for i, n in enumerate(x.shape) if i not in axes]
        return self.op(name, [x.index, self.ints(*axes)], tuple(shape), keep_dims=keep_dims)

    def cut(self, x: Made, first: int, end: int | None) -> Made:
        """Some of the rows."""
        assert x.shape is not None
        rank = len(x.shape)
        begin, ends, mask = (
            [first, *[0] * (rank - 1)],
            [end or 0, *[0] * (rank - 1)],
            (1 << rank) - 1,
        )
        places = [self.ints(*begin), self.ints(*ends), self.ints(*[1] * rank)]
        options = {"end_mask": mask if end is None else mask - 1, "begin_mask": mask - 1}
        rows = len(range(x.shape[0])[first:end])
        return self.op("STRIDED_SLICE", [x.index, *places], (rows, *x.shape[1:]), **options)

    def turned(self, x: Made) -> Made:
        assert x.shape is not None
        order = range(len(x.shape))[::-1]
        return self.op("TRANSPOSE", [x.index, self.ints(*order)], x.shape[::-1])

    def flat(self, x: Made) -> Made:
        assert x.shape is not None
        return self.op("RESHAPE", [x.index, self.ints(-1)], (int(np.prod(x.shape)),))

    def twice(self, x: Made) -> Made:
        assert x.shape is not None
        shape = (2 * x.shape[0], *x.shape[1:])
        return self.op("CONCATENATION", [x.index, x.index], shape, axis=0)


_RESULTS: tuple[Callable[[_Graph, Made], Made], ...] = (
    lambda graph, x: x,
    lambda graph, x: graph.cut(x, 0, 1) if x.shape else x,
    lambda graph, x: graph.cut(x, 1, None) if x.shape else x,
    lambda graph, x: graph.cut(x, 0, 0) if x.shape else x,
    lambda graph, x: graph.reduced("MEAN", x, [0], keep_dims=True) if x.shape else x,
    lambda graph, x: graph.reduced("SUM", x, [0]) if x.shape else x,
    lambda graph, x: graph.reduced("REDUCE_MAX", x, range(len(x.shape or ()))) if x.shape else x,
    lambda graph, x: (
        graph.reduced("SUM", x, [len(x.shape or ()) - 1], keep_dims=True) if x.shape else x
    ),
    _Graph.turned,
    _Graph.flat,
    lambda graph, x: graph.twice(x) if x.shape else x,
)
"""Results of branches, from a tensor of a known rank."""
