"""Patterns in a subgraph: which nodes compute a tensor, and which elements an index vector has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TypeAlias

from gles_delegate.model.graph import Array, Graph, Node
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.registry import op_of

Pattern: TypeAlias = "str | float | tuple[Pattern, ...]"
"""A name of any tensor, a number (see `is_filled`), or an op with patterns of its inputs."""

JOIN, PARTS = "PACK", "UNPACK"
SLICE_OPTIONS = (
    "begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset",
)  # fmt: skip


@dataclass(frozen=True)
class Index:
    """An element of an index vector: a number, plus a loop variable unless that is None."""

    variable: int | None
    number: int


class Subgraph:
    """The nodes of a subgraph, by what they compute."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.numbers = {tensor: i for i, tensor in enumerate(graph.inputs)}
        self._makers = {t: (node, i) for node in graph.nodes for i, t in enumerate(node.outputs)}

    def maker(self, tensor: int, *ops: str) -> Node | None:
        """The node of one of `ops` whose first output the tensor is."""
        node, position = self.part(tensor, *ops) or (None, 0)
        return None if position else node

    def maker_of(self, tensor: int) -> Node:
        """The node that computes a tensor; raises `Unsupported` if none does."""
        if tensor not in self._makers:
            raise Unsupported(f"no node computes tensor {tensor}")
        return self._makers[tensor][0]

    def part(self, tensor: int, *ops: str) -> tuple[Node, int] | None:
        """The node of one of `ops` that computes the tensor, and the number of its output."""
        node, position = self._makers.get(tensor, (None, 0))
        return (node, position) if node and node.op in ops and self._is_plain(node) else None

    def matches(
        self, pattern: Pattern, tensor: int, bound: Mapping[str, int]
    ) -> Iterator[Mapping[str, int]]:
        """The tensors that the names of a pattern stand for, if it computes the tensor."""
        if isinstance(pattern, str):
            if bound.get(pattern, tensor) == tensor:
                yield {**bound, pattern: tensor}
            return
        if isinstance(pattern, int | float):
            if self.is_filled(tensor, pattern):
                yield bound
            return
        op, *inputs = pattern
        node = self.maker(tensor, str(op))
        if node is None or len(node.inputs) != len(inputs):
            return
        for order in permutations(inputs) if op in ("ADD", "MUL") else [tuple(inputs)]:
            found = [bound]
            for each, source in zip(order, node.inputs, strict=True):
                found = [more for names in found for more in self.matches(each, source, names)]
            yield from found

    def array(self, tensor: int) -> Array | None:
        """The value of a constant of integers."""
        if tensor < 0 or not self.graph.tensors[tensor].is_constant:
            return None
        array = self.graph.tensors[tensor].array()
        return array if array.dtype.kind == "i" else None

    def is_filled(self, tensor: int, number: float) -> bool:
        """Whether it is a constant, of float32 for a float, that broadcasts like that number."""
        if tensor < 0 or not self.graph.tensors[tensor].is_constant:
            return False
        array = self.graph.tensors[tensor].array()
        is_like_one = (array.size == 1 and array.ndim < 3) or not number
        is_of_type = array.dtype.kind == "i" if isinstance(number, int) else array.dtype == "f4"
        return is_like_one and is_of_type and {*array.ravel().tolist()} == {number}

    def counted(self, tensor: int) -> Index | None:
        """An integer that is a constant, or a loop variable, to which ADD may add a constant."""
        if tensor in self.numbers:
            return Index(self.numbers[tensor], 0)
        array = self.array(tensor)
        if array is not None:
            return Index(None, int(array.item())) if array.size == 1 else None
        node = self.maker(tensor, "ADD")
        inputs = node.inputs if node else ()
        terms = [None if self.maker(i, "ADD") else self.counted(i) for i in inputs]
        if len(terms) != 2 or None in terms:
            return None
        first, second = (term for term in terms if term is not None)
        variables = [t.variable for t in (first, second) if t.variable is not None]
        return Index(variables[0], first.number + second.number) if len(variables) == 1 else None

    def vector(self, tensor: int) -> list[Index] | None:
        """The elements of an index vector."""
        node = self.maker(tensor, "CONCATENATION", "PACK")
        is_known = self.array(tensor) is not None
        if node is None or is_known or self._option(node, "axis") not in (0, -1):
            return self._leaves(tensor)
        elements: list[Index] = []
        for i in node.inputs[:8]:
            if node.op == "PACK":
                one = self.counted(i)
                part = [one] if one else None
            else:
                part = self._leaves(i)
            if part is None:
                return None
            elements += part
        return elements

    def _leaves(self, tensor: int) -> list[Index] | None:
        """The elements of a vector that is a constant or has one element."""
        array = self.array(tensor)
        if array is not None:
            return [Index(None, int(n)) for n in array] if array.ndim == 1 else None
        node = self.maker(tensor, "RESHAPE", "EXPAND_DIMS")
        shape = self.array(node.inputs[1]) if node and len(node.inputs) == 2 else None
        if node is None or shape is None:
            return None
        one = [1] if node.op == "RESHAPE" else [0]
        index = self.counted(node.inputs[0]) if shape.ravel().tolist() == one else None
        return [index] if index else None

    def channels(self, tensor: int) -> tuple[int, int, int, int] | None:
        """The matrix of which a STRIDED_SLICE takes columns, the first, the end, and all."""
        node = self.maker(tensor, "STRIDED_SLICE")
        if node is None or len(node.inputs) != 4:
            return None
        begin, end, strides = map(self.vector, node.inputs[1:])
        first, last, *others = (self._option(node, name) for name in SLICE_OPTIONS)
        if any(others) or not first & last & 1 or strides != [Index(None, 1)] * 2:
            return None
        vectors = [vector for vector in (begin, end) if vector and len(vector) == 2]
        columns = [column.number for _, column in vectors if column.variable is None]
        if len(columns) != 2:
            return None
        *rows, count = self.graph.tensors[node.inputs[0]].shape or (0,)
        if len(rows) != 1:
            return None
        start = 0 if first & 2 else columns[0]
        stop = count if last & 2 else columns[1]
        return node.inputs[0], start, stop, count

    def joins_channels(self, node: Node) -> bool:
        """Whether it joins matrices along the last dimension."""
        return self._option(node, "axis") in (1, -1)

    def axis_zero(self, node: Node) -> bool:
        """Whether it joins or takes elements along the first dimension."""
        return self._option(node, "axis") == 0 and not self._option(node, "batch_dims")

    @staticmethod
    def _option(node: Node, name: str) -> int:
        return int(getattr(op_of(node.op).options.read(node), name, 0))

    def _is_plain(self, node: Node) -> bool:
        """Whether it is of a known version, without a fused activation or shuffled weights."""
        known = node.version <= op_of(node.op).max_version
        names = ("fused_activation", "weights_format")
        return known and not any(self._option(node, name) for name in names)
