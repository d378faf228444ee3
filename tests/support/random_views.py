"""Random graphs whose ops read one tensor several times, through views of different shapes.

The inputs have N rows, and every op takes any N, so that the graphs can be resized.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import NO_INPUT, quantization

TYPES = ("float32", "float32", "float32", "int32", "int8")
DEPTHS = (3, 4, 6, 1, 8)
ROWS = (3, 4, 5, 1)
"""N; also where it equals a depth, and where it is 1."""

MOST_ELEMENTS = 1 << 11
MOST_RANK = 4
_SCALE = 0.05
_EXACT = ("NEG", "ABS", "RELU", "MAXIMUM", "MINIMUM")
_BINARY = {
    "float32": ("SUB", "ADD", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM"),
    "int32": ("SUB", "ADD", "MUL", "MAXIMUM", "MINIMUM"),
    "int8": ("MAXIMUM", "MINIMUM", "ADD", "SUB"),
}
_UNARY = {"float32": ("NEG", "TANH", "ABS", "RELU", "LOGISTIC"), "int32": ("NEG", "ABS")}


@dataclass(frozen=True)
class Viewed:
    """A tensor; an axis of c * N elements has c in `per_row`, and one of any N has 0.

    Attributes:
        exact: LiteRT has its numbers bit by bit, so they may be compared.
    """

    index: int
    shape: Dims
    per_row: Dims
    exact: bool = True

    @property
    def axes(self) -> list[tuple[int, int]]:
        return list(zip(self.shape, self.per_row, strict=True))


def random_views(
    choose: random.Random, ops: int = 8, rows: int | None = None
) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well.

    Args:
        rows: N; by default one of `ROWS`.
    """
    rows = choose.choice(ROWS) if rows is None else rows + 0 * choose.choice(ROWS)
    graph = _Graph(Sketch(np.random.default_rng(choose.getrandbits(16))), choose, rows)
    for _ in range(choose.choice((1, 1, 2))):
        graph.feed()
    while len(graph.made) < ops:
        made = choose.choice(_OPS)(graph) or graph.view()
        if made and np.prod(made.shape) <= MOST_ELEMENTS:
            graph.made.append(made)
    made = [viewed.index for viewed in graph.made]
    return graph.s, list(
        dict.fromkeys([made[-1], *choose.sample(made, choose.randrange(min(3, ops)))])
    )


@dataclass
class _Graph:
    s: Sketch
    choose: random.Random
    rows: int
    inputs: list[Viewed] = field(default_factory=list)
    made: list[Viewed] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dtype = self.choose.choice(TYPES)
        self.depth = self.choose.choice(DEPTHS)

    def feed(self) -> None:
        shape, per_row = (self.rows, self.depth), (1, 0)
        if self.choose.randrange(3) == 0:
            shape, per_row = (1, *shape), (0, *per_row)
        values = self.s.rng.standard_normal(shape)
        if self.dtype != "float32":
            values = (values * 40).clip(-128, 127)
        self.s.feeds.append(values.astype(self.dtype))
        self.inputs.append(Viewed(self.s.input(shape, **self.type), shape, per_row))

    @property
    def type(self) -> dict[str, Any]:
        quantized = quantization(_SCALE, 3) if self.dtype == "int8" else None
        return {"dtype": self.dtype, "quantization": quantized}

    @property
    def recent(self) -> Viewed:
        return self.choose.choice([*self.inputs, *self.made][-5:])

    def ints(self, *values: int) -> int:
        return self.s.constant(np.array(values, np.int32))

    def op(
        self, name: str, inputs: list[int], like: list[tuple[int, int]], exact: bool, **options: Any
    ) -> Viewed:
        shape, per_row = tuple(n for n, _ in like), tuple(c for _, c in like)
        return Viewed(
            self.s.op(name, inputs, [self.s.tensor(shape, **self.type)], **options),
            shape, per_row, exact,
        )  # fmt: skip

    def view(self, x: Viewed | None = None) -> Viewed | None:
        """The elements of a tensor in another shape or order, or some of them."""
        x = x or self.recent
        axes = x.axes
        name = self.choose.choice(("RESHAPE", "RESHAPE", "EXPAND_DIMS", "TRANSPOSE", "SLICE"))
        if name in ("RESHAPE", "EXPAND_DIMS") and len(axes) < MOST_RANK:
            at = self.choose.randrange(len(axes) + 1)
            wider = [*axes[:at], (1, 0), *axes[at:]]
            if name == "EXPAND_DIMS":
                return self.op(name, [x.index, self.ints(at)], wider, x.exact)
            return self.reshaped(x, wider)
        if name == "RESHAPE":
            at = self.choose.randrange(len(axes) - 1)
            (m, c), (n, d) = axes[at : at + 2]
            if c and d:
                return None  # a square of N
            return self.reshaped(x, [*axes[:at], (m * n, c * n + m * d), *axes[at + 2 :]])
        if name == "SLICE":
            fixed = [i for i, (n, per_row) in enumerate(axes) if not per_row and n > 1]
            if not fixed:
                return None
            at, begin = self.choose.choice(fixed), [0] * len(axes)
            begin[at] = self.choose.randrange(1, axes[at][0])
            axes[at] = (axes[at][0] - begin[at], 0)
            places = [self.ints(*values) for values in (begin, [0] * len(axes), [1] * len(axes))]
            return self.op(
                "STRIDED_SLICE", [x.index, *places], axes, x.exact, end_mask=(1 << len(axes)) - 1
            )
        order = list(range(len(axes)))
        self.choose.shuffle(order)
        turned = [axes[i] for i in order]
        return self.op("TRANSPOSE", [x.index, self.ints(*order)], turned, x.exact)

    def reshaped(self, x: Viewed, axes: list[tuple[int, int]]) -> Viewed | None:
        """None where the shape cannot be given for any N: two of its axes depend on it."""
        if sum(per_row > 0 for _, per_row in axes) > 1:
            return None
        sizes = [-1 if per_row else n for n, per_row in axes]
        return self.op("RESHAPE", [x.index, self.ints(*sizes)], axes, x.exact)

    def views(self, count: int) -> list[Viewed]:
        """A tensor read `count` times, through up to two views each, or after an activation."""
        root = self.recent
        if self.dtype in _UNARY and self.choose.randrange(3) == 0:
            root = self.unary(root)
        found = []
        for _ in range(count):
            x = root
            for _ in range(self.choose.choice((1, 0, 2))):
                x = self.view(x) or x
            found.append(x)
        return found

    def unary(self, x: Viewed | None = None) -> Viewed:
        x = x or self.recent
        name = self.choose.choice(_UNARY.get(self.dtype, ("RELU",)))
        return self.op(name, [x.index], x.axes, x.exact and name in _EXACT)

    def of_views(self, count: int) -> tuple[list[Viewed], list[tuple[int, int]]] | None:
        """Views of one tensor that broadcast together, and the axes of the result."""
        for _ in range(6):
            views = self.views(count)
            if axes := broadcast([view.axes for view in views]):
                return views, axes
        return None

    def binary(self) -> Viewed | None:
        if not (found := self.of_views(2)):
            return None
        (a, b), axes = found
        name = self.choose.choice(_BINARY[self.dtype])
        exact = a.exact and b.exact and (name in _EXACT or self.dtype == "int32")
        options: dict[str, Any] = {}
        if self.dtype == "float32" and name in ("ADD", "SUB", "MUL"):
            options["fused_activation_function"] = self.choose.choice(("NONE", "NONE", "RELU"))
        return self.op(name, [a.index, b.index], axes, exact, **options)

    def select(self) -> Viewed | None:
        if not (found := self.of_views(4)):
            return None
        views, axes = found
        a, b = views[:2]
        compared = broadcast([a.axes, b.axes])
        if not (compared and a.exact and b.exact) or self.dtype == "int8":
            return None
        condition = self.s.tensor([n for n, _ in compared], np.bool_)
        self.s.op("GREATER", [a.index, b.index], [condition])
        operands = [condition, *(view.index for view in views[2:])]
        return self.op("SELECT_V2", operands, axes, all(view.exact for view in views))

    def product(self) -> Viewed | None:
        """A matrix product of a tensor with itself, or its transposed self."""
        if self.dtype != "float32":
            return None
        a, b = self.views(2)
        flip = self.choose.choice((True, False))
        if min(len(a.shape), len(b.shape)) < 2:
            return None
        rows, (inner, columns) = a.axes[:-1], b.axes[-2:][:: -1 if flip else 1]
        batch = broadcast([rows[:-1], b.axes[:-2]]) if rows[:-1] or b.axes[:-2] else []
        if a.axes[-1] != inner or batch is None:
            return None
        if self.choose.randrange(3) == 0 and len(b.shape) == 2 and flip:
            options = {"keep_num_dims": True}
            operands = [a.index, b.index, NO_INPUT]
            return self.op("FULLY_CONNECTED", operands, [*rows, columns], False, **options)
        axes = [*batch, rows[-1], columns]
        return self.op("BATCH_MATMUL", [a.index, b.index], axes, False, adj_y=flip)

    def joined(self) -> Viewed | None:
        views = self.views(self.choose.choice((2, 3)))
        axes, name = views[0].axes, self.choose.choice(("CONCATENATION", "PACK", "ADD_N"))
        if any(view.axes != axes for view in views) or (name == "PACK" and len(axes) == MOST_RANK):
            return None
        operands, exact = [view.index for view in views], all(view.exact for view in views)
        if name == "ADD_N":
            is_whole = self.dtype == "int32"
            return None if self.dtype == "int8" else self.op(name, operands, axes, is_whole)
        at = self.choose.randrange(len(axes))
        if name == "PACK":
            packed = [*axes[:at], (len(views), 0), *axes[at:]]
            return self.op(name, operands, packed, exact, axis=at, values_count=len(views))
        axes[at] = (axes[at][0] * len(views), axes[at][1] * len(views))
        return self.op(name, operands, axes, exact, axis=at)

    def reduced(self) -> Viewed | None:
        x = self.recent
        if self.dtype != "float32":
            return None
        name = self.choose.choice(("SUM", "MEAN", "REDUCE_MAX", "SOFTMAX"))
        if name == "SOFTMAX":
            return self.op(name, [x.index], x.axes, False, beta=1.0)
        at = self.choose.randrange(len(x.axes))
        axes = [*x.axes[:at], (1, 0), *x.axes[at + 1 :]]
        return self.op(name, [x.index, self.ints(at)], axes, False, keep_dims=True)

    def sized(self) -> Viewed | None:
        """A tensor times a number of the shape of another, or of itself."""
        if self.dtype == "int8":
            return None
        x, of = self.recent, self.recent
        rank, at = len(of.shape), self.choose.randrange(len(of.shape))
        number = SCHEMA_NUMBERS["int32"]
        shape = self.s.op("SHAPE", [of.index], [self.s.tensor((rank,), "int32")], out_type=number)
        size = self.s.op("GATHER", [shape, self.ints(at)], [self.s.tensor((1,), "int32")])
        if self.dtype != "int32":
            size = self.s.op("CAST", [size], [self.s.tensor((1,))])
        return self.op("MUL", [x.index, size], x.axes, x.exact and self.dtype == "int32")


def broadcast(operands: list[list[tuple[int, int]]]) -> list[tuple[int, int]] | None:
    """The axes of an element-wise result for any N, or None."""
    rank = max(map(len, operands))
    result = []
    for sizes in zip(*([(1, 0)] * (rank - len(axes)) + axes for axes in operands), strict=True):
        different = {*sizes} - {(1, 0)}
        if len(different) > 1:
            return None
        result.append(next(iter(different), (1, 0)))
    return result


_OPS: tuple[Callable[[_Graph], Viewed | None], ...] = (
    *(_Graph.binary,) * 5,
    *(_Graph.select, _Graph.product, _Graph.joined, _Graph.reduced, _Graph.unary, _Graph.view),
    _Graph.sized,
)
