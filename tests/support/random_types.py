"""Random graphs of tensors of any type, with composites, control flow and recurrent layers."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import NO_INPUT, ModelBuilder

SHAPES: tuple[Dims, ...] = ((2, 3, 4), (1, 1, 5), (3, 2, 7), (2, 5, 1), (0, 3, 4), (1, 9, 16))
_REALS = ("TANH", "ELU", "ABS", "NEG", "LOGISTIC", "RELU", "HARD_SWISH", "GELU")
_EXACT = ("ABS", "NEG", "RELU")
"""Ops whose results LiteRT and we have bit by bit, if their inputs are so."""

_INTEGERS = ("int32", "int64")
_COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
_OPS = (
    *("real", "real", "binary", "binary", "integer", "cast", "compare", "logic", "select"),
    *("move", "move", "join", "reduce", "composite", "if", "while", "recurrent"),
)


@dataclass(frozen=True)
class Typed:
    """A tensor; `exact` if LiteRT has its numbers bit by bit, so that they may be compared."""

    index: int
    shape: Dims
    dtype: str
    exact: bool = True


def random_types(choose: random.Random, ops: int = 14) -> tuple[Sketch, list[int]]:
    """A sketch and its outputs: the last tensor, and some that other ops read as well."""
    graph = _Graph(Sketch(np.random.default_rng(choose.getrandbits(16))), choose)
    shape = choose.choice(SHAPES)
    for dtype in ("float32", "float32", "int32", "int64", "bool"):
        index = graph.s.feed(values=np.zeros(shape), dtype=dtype)
        graph.tensors.append(Typed(index, shape, dtype))
    for _ in range(ops):
        graph.tensors.append(graph.draw())
    made = [tensor.index for tensor in graph.tensors[5:]]
    return graph.s, [made[-1], *choose.sample(made[:-1], choose.randrange(min(3, ops)))]


@dataclass
class _Graph:
    s: Sketch
    choose: random.Random
    tensors: list[Typed] = field(default_factory=list)

    def draw(self) -> Typed:
        """One op more; a movement where the tensors do not have what another takes."""
        made: Typed | None = getattr(self, f"_{self.choose.choice(_OPS)}")()
        return made or self._move()

    def one(self, *dtypes: str, exact: bool = False) -> Typed | None:
        """One of the last tensors that are of these types."""
        fitting = [t for t in self.tensors if t.dtype in dtypes and (t.exact or not exact)]
        return self.choose.choice(fitting[-4:]) if fitting else None

    def like(self, x: Typed, exact: bool = False) -> Typed:
        """A tensor of the same type and shape."""
        same = [t for t in self.tensors if (t.dtype, t.shape) == (x.dtype, x.shape)]
        return self.choose.choice([t for t in same if t.exact or not exact])

    def op(
        self,
        name: str,
        inputs: Sequence[Typed | int],
        shape: Dims,
        dtype: str,
        exact: bool = False,
        **options: Any,
    ) -> Typed:
        operands = [t.index if isinstance(t, Typed) else t for t in inputs]
        result = self.s.op(name, operands, [self.s.tensor(shape, dtype)], **options)
        return Typed(result, shape, dtype, exact)

    def integers(self, *values: Any) -> int:
        return self.s.constant(np.array(values, np.int32).reshape(-1))

    def _real(self) -> Typed | None:
        if x := self.one("float32"):
            name = self.choose.choice(_REALS)
            options = {"approximate": False} if name == "GELU" else {}
            return self.op(name, [x], x.shape, "float32", x.exact and name in _EXACT, **options)
        return None

    def _binary(self) -> Typed | None:
        if x := self.one("float32", *_INTEGERS):
            names = ("ADD", "SUB", "MAXIMUM", "MINIMUM", *("MUL",) * (x.dtype != "int64"))
            name, other = self.choose.choice(names), self.like(x)
            keeps = x.dtype != "float32" or name in ("MAXIMUM", "MINIMUM")
            return self.op(name, [x, other], x.shape, x.dtype, x.exact and other.exact and keeps)
        return None

    def _integer(self) -> Typed | None:
        if x := self.one("int32"):
            if self.choose.random() < 0.5:
                return self.op(self.choose.choice(("ABS", "NEG")), [x], x.shape, "int32", True)
            return self.op("CUMSUM", [x, self.s.constant(np.int32(1))], x.shape, "int32", True)
        return None

    def _cast(self) -> Typed | None:
        if x := self.one("float32", "bool", "float16", *_INTEGERS, exact=True):
            types = ("float32", "int32", "int64", "bool", "float16")
            return self.op("CAST", [x], x.shape, self.choose.choice(types), True)
        return None

    def _compare(self) -> Typed | None:
        if x := self.one("float32", *_INTEGERS, exact=True):
            name = self.choose.choice(_COMPARISONS)
            return self.op(name, [x, self.like(x, exact=True)], x.shape, "bool", True)
        return None

    def _logic(self) -> Typed | None:
        if x := self.one("bool"):
            if self.choose.random() < 0.3:
                return self.op("LOGICAL_NOT", [x], x.shape, "bool", True)
            name = self.choose.choice(("LOGICAL_AND", "LOGICAL_OR"))
            return self.op(name, [x, self.like(x)], x.shape, "bool", True)
        return None

    def _select(self) -> Typed | None:
        if condition := self.one("bool"):
            alike = [t for t in self.tensors if t.shape == condition.shape and t.dtype != "float16"]
            x = self.choose.choice(alike)
            y = self.like(x)
            exact = x.exact and y.exact
            return self.op("SELECT_V2", [condition, x, y], x.shape, x.dtype, exact)
        return None

    def _move(self) -> Typed:
        x = self.choose.choice(
            [t for t in self.tensors[-6:] if t.dtype != "float16"] or self.tensors[:1]
        )
        rank = len(x.shape)
        turned = (*x.shape[: rank - 2], x.shape[-1], x.shape[-2])
        axes = self.integers(*range(rank - 2), rank - 1, rank - 2)
        name = self.choose.choice(("RESHAPE", "TRANSPOSE", "REVERSE_V2", "TILE", "SLICE"))
        if name == "RESHAPE":
            return self.op(name, [x, self.integers(*turned)], turned, x.dtype, x.exact)
        if name == "TRANSPOSE":
            return self.op(name, [x, axes], turned, x.dtype, x.exact)
        if name == "TILE" and max(x.shape) < 20:
            shape = (*x.shape[:-1], 2 * x.shape[-1])
            return self.op(name, [x, self.integers(*[1] * (rank - 1), 2)], shape, x.dtype, x.exact)
        if name == "SLICE" and min(x.shape) > 0:
            begin = [self.choose.randrange(n) for n in x.shape]
            size = [self.choose.randint(1, n - b) for n, b in zip(x.shape, begin, strict=True)]
            operands = [x, self.integers(*begin), self.integers(*size)]
            return self.op(name, operands, tuple(size), x.dtype, x.exact)
        return self.op("REVERSE_V2", [x, self.integers(1)], x.shape, x.dtype, x.exact)

    def _join(self) -> Typed | None:
        x = self.choose.choice(self.tensors[-6:])
        if x.dtype == "float16" or max(x.shape) > 20:
            return None
        other = self.like(x)
        axis = self.choose.randrange(3)
        shape = tuple(n * (2 if i == axis else 1) for i, n in enumerate(x.shape))
        exact = x.exact and other.exact
        return self.op("CONCATENATION", [x, other], shape, x.dtype, exact, axis=axis)

    def _reduce(self) -> Typed | None:
        x = self.choose.choice(self.tensors[-6:])
        names = {
            "float32": ("SUM", "REDUCE_MAX", "MEAN"),
            "int32": ("SUM", "REDUCE_MAX", "REDUCE_MIN"),
            "bool": ("REDUCE_ANY", "REDUCE_ALL"),
        }.get(x.dtype, ())
        if not names or 0 in x.shape:
            return None
        name, axis = self.choose.choice(names), self.choose.randrange(3)
        shape = tuple(1 if i == axis else n for i, n in enumerate(x.shape))
        exact = x.exact and (x.dtype != "float32" or name == "REDUCE_MAX")
        return self.op(name, [x, self.integers(axis)], shape, x.dtype, exact, keep_dims=True)

    def _chain(self, shape: Dims) -> Callable[[ModelBuilder], list[int]]:
        """A subgraph with one input and one output."""
        names = self.choose.sample(_REALS[:6], self.choose.randint(1, 3))

        def build(b: ModelBuilder) -> list[int]:
            x = b.input(shape)
            for name in names:
                x = b.op(name, [x], [shape])
            return [x]

        return build

    def _composite(self) -> Typed | None:
        if x := self.one("float32"):
            inner = self.s.subgraph(self._chain(x.shape))
            return Typed(self.s.composite(inner, [x.index], [x.shape]), x.shape, "float32", False)
        return None

    def _if(self) -> Typed | None:
        if x := self.one("float32"):
            branches = [self.s.subgraph(self._chain(x.shape)) for _ in range(2)]
            options = dict(
                zip(("then_subgraph_index", "else_subgraph_index"), branches, strict=True)
            )
            condition = self.s.constant(np.array(self.choose.random() < 0.5))
            if (way := self.choose.random()) < 0.3:
                condition = self.s.input((), "bool")
            elif way < 0.7 and np.prod(x.shape):
                axes = self.s.constant(np.arange(len(x.shape), dtype=np.int32))
                most = self.s.op("REDUCE_MAX", [x.index, axes], [()])
                flag = self.s.tensor((), np.bool_)
                condition = self.s.op("GREATER", [most, self.s.constant(np.float32(1))], [flag])
            if way > 0.5:
                number = self.s.op("CAST", [condition], [self.s.tensor((), np.int32)])
                more = [self.s.subgraph(self._chain(x.shape))] * self.choose.randint(0, 2)
                branches = self.choose.sample([*branches, *more], 2 + len(more))
                inputs = [number, x]
                options = dict(branch_subgraph_indices=branches)
                return self.op("STABLEHLO_CASE", inputs, x.shape, "float32", **options)
            return self.op("IF", [condition, x], x.shape, "float32", **options)
        return None

    def _while(self) -> Typed | None:
        x = self.one("float32")
        if x is None:
            return None
        trips, name = self.choose.randrange(4), self.choose.choice(_REALS[:4])

        def condition(b: ModelBuilder) -> list[int]:
            count, _ = b.input((), np.int32), b.input(x.shape)
            return [b.op("LESS", [count, b.constant(np.int32(trips))], [b.tensor((), np.bool_)])]

        def body(b: ModelBuilder) -> list[int]:
            count, value = b.input((), np.int32), b.input(x.shape)
            more = b.op("ADD", [count, b.constant(np.int32(1))], [()])
            return [more, b.op(name, [value], [x.shape])]

        options = {
            "cond_subgraph_index": self.s.subgraph(condition),
            "body_subgraph_index": self.s.subgraph(body),
        }
        outputs = [self.s.tensor((), np.int32), self.s.tensor(x.shape)]
        self.s.op("WHILE", [self.s.constant(np.int32(0)), x.index], outputs, **options)
        return Typed(outputs[1], x.shape, "float32", False)

    def _recurrent(self) -> Typed | None:
        x = self.one("float32")
        if x is None or 0 in x.shape:
            return None
        units, draw = self.choose.choice((1, 4, 5)), self.choose.random()
        shape = (*x.shape[:-1], units)
        if draw < 0.3:
            return self._filter(x, shape)
        rest = dict(time_major=False, fused_activation_function="TANH")
        inputs, recurrent = (units, x.shape[-1]), (units, units)
        states = [self.s.variable((x.shape[0], units)) for _ in range(2)]
        if draw < 0.6:
            operands = [x, *map(self.weights, (inputs, recurrent, (units,))), states[0]]
            return self.op("UNIDIRECTIONAL_SEQUENCE_RNN", operands, shape, "float32", **rest)
        matrices = map(self.weights, (*(inputs,) * 4, *(recurrent,) * 4))
        biases = map(self.weights, ((units,),) * 4)
        operands = [x, *matrices, *(NO_INPUT,) * 3, *biases, *(NO_INPUT,) * 2, *states]
        return self.op("UNIDIRECTIONAL_SEQUENCE_LSTM", operands, shape, "float32", **rest)

    def _filter(self, x: Typed, shape: Dims) -> Typed:
        """SVDF of the rows of a tensor, which are its batch."""
        rows, memory, units = int(np.prod(x.shape[:-1])), self.choose.choice((1, 3)), shape[-1]
        sizes = self.integers(rows, x.shape[-1]), self.integers(*shape)
        matrix = self.op("RESHAPE", [x, sizes[0]], (rows, x.shape[-1]), "float32")
        weights = map(self.weights, ((units, x.shape[-1]), (units, memory), (units,)))
        operands = [matrix, *weights, self.s.variable((rows, units * memory))]
        result = self.op(
            "SVDF", operands, (rows, units), "float32", rank=1, fused_activation_function="NONE"
        )
        return self.op("RESHAPE", [result, sizes[1]], shape, "float32")

    def weights(self, shape: Dims) -> int:
        return self.s.constant(self.s.normal(shape, 0.4))
