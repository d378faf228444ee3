"""Recurrent layers that a converter unrolled: the cells of all steps become one node."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from gles_delegate.model.graph import Graph, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.variables import IDENTITY
from gles_delegate.planning.cells import Cell, CellReader, EnclosingGraph
from gles_delegate.planning.patterns import JOIN, PARTS, Subgraph
from gles_delegate.shaders.dispatch import Shape, Step

CONCATENATION, REVERSE = "CONCATENATION", "REVERSE_V2"

NOT_FOUND = (Unsupported, ArithmeticError, LookupError, ValueError)
"""Errors about nodes that no converter writes; lowering reports them."""


@dataclass(frozen=True)
class UnrolledLayer:
    """A layer that computes tensors in place of the nodes that the model has for them.

    Attributes:
        node: Stands for the layer among the nodes of the graph; its inputs and outputs.
        members: The nodes that the layer was found in.
        replaced: Those whose outputs the layer computes.
    """

    node: Node
    members: frozenset[int]
    replaced: frozenset[int]
    steps: Sequence[Step] = field(default=(), repr=False)


Chain: TypeAlias = list[list[Cell]]
"""Cells of which each has the state that the one before computed.

The first is there once with either of its sources as the state, as long as both are possible."""


def in_order(nodes: Sequence[Node], layers: Sequence[UnrolledLayer], graph: Graph) -> list[Node]:
    """The nodes with layers instead of those that they replace, or [] if these form a cycle."""
    last = {max(layer.replaced): layer for layer in layers}
    replaced = frozenset().union(*(layer.replaced for layer in layers))
    kept: list[Node] = []
    for node in nodes:
        if node.index in last:
            kept.append(last[node.index].node)
        elif node.index not in replaced:
            kept.append(node)
    ordered = replace(graph, nodes=tuple(kept)).in_order
    known: set[int] = set()
    missing = {tensor for node in kept for tensor in node.outputs}
    for node in ordered:
        if (missing - known).intersection(node.inputs):
            return []
        known.update(node.outputs)
    return list(ordered)


class UnrolledLayers:
    """Finds the layers of a graph; their nodes have to be lowered, and may be unsupported."""

    def __init__(self, graph: Graph, around: EnclosingGraph) -> None:
        self._graph = graph
        self._around = around
        self._body = Subgraph(graph)
        self._reader = CellReader(self._body, self._constant, self._shape)

    def found(self) -> Iterator[tuple[UnrolledLayer, list[Node]]]:
        """Each layer, and the nodes that compute it."""
        for chain in self._chains():
            with suppress(*NOT_FOUND):
                cells = [candidates[0] for candidates in chain]
                yield self._layer([*self._first(cells[0]), *cells])

    def _first(self, cell: Cell) -> list[Cell]:
        """The cell before, if it has the same parameters and zeros as its states."""
        first = None
        with suppress(*NOT_FOUND):
            first = self._reader.cell_before_zeros(cell)
        if first is None:
            return []
        sums = [*zip(first.of_input, cell.of_input, strict=True)]
        if first.scaled and cell.scaled:
            sums.append((first.scaled, cell.scaled))
        bias, units = self._around.bias, cell.state[-1]
        is_same = all(np.array_equal(bias(a, units), bias(b, units)) for a, b in sums)
        return [first] if is_same else []

    def _chains(self) -> list[Chain]:
        chains: list[Chain] = []
        ends: dict[int, Chain] = {}
        for node in self._graph.in_order:
            try:
                cells = [c for t in node.outputs[:1] for c in self._reader.cells(t)]
            except NOT_FOUND:
                continue
            if not cells:
                continue
            chain = next((ends[c.before[0]] for c in cells if c.before[0] in ends), None)
            if chain is None or not self._is_extended(chain, cells):
                chain = [cells]
                chains.append(chain)
            ends[cells[0].after[0]] = chain
        return chains

    @staticmethod
    def _is_extended(chain: Chain, candidates: Sequence[Cell]) -> bool:
        """Append the one of these cells that continues a chain; whether there was one."""
        for cell in candidates:
            same = [first for first in chain[0] if first.parameters == cell.parameters]
            if same and cell.before == chain[-1][0].after:
                chain[:] = [same, *chain[1:], [cell]]
                return True
        return False

    def _constant(self, tensor: int) -> Tensor:
        if tensor < 0 or not self._around.tensors[tensor].is_constant:
            raise Unsupported("weights or biases that are computed at run time")
        return self._around.tensors[tensor]

    def _shape(self, tensor: int) -> Shape:
        return self._around.shapes.get(tensor, ())

    def _layer(self, cells: Sequence[Cell]) -> tuple[UnrolledLayer, list[Node]]:
        around, first, last = self._around, cells[0], cells[-1]
        index = self._body.maker_of(last.after[0]).index
        sequence, nodes = self._sequence(cells, index)
        zeros = np.zeros(last.state, np.float32)
        before = first.before or tuple(around.constant("zeros", zeros) for _ in last.before)
        inputs = around.layer_inputs(last, sequence, before)
        shapes = {sequence: around.tensors[sequence].shape, **around.shapes}
        replace(around, shapes=shapes).check_sizes(last, inputs, len(cells))
        sizes = (len(cells), *last.state), *map(self._shape, last.after)
        outputs = tuple(around.tensor(last.op, shape) for shape in sizes)
        results = tuple(cell.after[0] for cell in cells)
        nodes.append(Node(index, last.op, 1, inputs, outputs))
        if len(self._only_shape(results)) == 2:
            nodes.append(Node(index, PARTS, 1, outputs[:1], results))
        else:
            axis = around.constant("axis", np.array(0, np.int32))
            nodes.append(Node(index, "SPLIT", 1, (axis, outputs[0]), results))
        copies = [Node(index, IDENTITY, 1, outputs[:1], (t,)) for t in self._joined(results)]
        if len(results) > 1 and (backwards := self._joined(results[::-1])):
            axis = around.constant("axis", np.array([0], np.int32))
            copies += [Node(index, REVERSE, 1, (outputs[0], axis), (t,)) for t in backwards]
        copies += [Node(index, IDENTITY, 1, outputs[-1:], (t,)) for t in last.after[1:]]
        nodes += copies
        outer = nodes[0].inputs if nodes[0].op in (JOIN, CONCATENATION) else (sequence,)
        made = (*results, *(copy.outputs[0] for copy in copies))
        node = Node(index, last.op, 1, (*outer, *first.before), made)
        replaced = [self._body.maker_of(t) for t in node.outputs]
        if any(len(each.outputs) > 1 for each in replaced):
            raise Unsupported("a cell that shares a node with others")
        numbers = frozenset(each.index for each in replaced)
        return UnrolledLayer(node, self._members(node), numbers), nodes

    def _sequence(self, cells: Sequence[Cell], index: int) -> tuple[int, list[Node]]:
        """The tensor with the inputs of all steps, and the nodes that compute it."""
        parts = tuple(cell.x for cell in cells)
        maker = self._body.maker(parts[0], PARTS)
        if maker and maker.outputs == parts and self._body.axis_zero(maker):
            return maker.inputs[0], []
        sources = {self._element(x, i) for i, x in enumerate(parts)}
        source, *others = sources
        if not others and source is not None and self._shape(source)[0] == len(parts):
            return source, []
        shape = self._only_shape(parts)
        join = JOIN if len(shape) == 2 else CONCATENATION
        sequence = self._around.tensor(cells[0].op, (len(parts), *shape[-2:]))
        return sequence, [Node(index, join, 1, parts, (sequence,))]

    def _element(self, tensor: int, number: int) -> int | None:
        """The sequence of whose element of that number it has the elements in order."""
        reshape = self._body.maker(tensor, "RESHAPE")
        cut = self._body.maker(reshape.inputs[0] if reshape else tensor, "SLICE")
        begin, size = map(self._body.array, cut.inputs[1:]) if cut else (None, None)
        if cut is None or begin is None or size is None:
            return None
        whole = [1, *self._shape(cut.inputs[0])[1:]]
        is_element = begin.tolist() == [number, 0, 0] and size.tolist() == whole
        return cut.inputs[0] if is_element and self._shape(tensor)[-1:] == (whole[-1],) else None

    def _only_shape(self, tensors: Sequence[int]) -> Shape:
        """The shape of all these matrices, which may have a first dimension of 1."""
        shapes = [*{self._shape(t) for t in tensors}]
        if len(shapes) > 1 or len(shapes[0]) not in (2, 3) or shapes[0][:-2] not in ((), (1,)):
            raise Unsupported("matrices of several shapes")
        return shapes[0]

    def _joined(self, results: tuple[int, ...]) -> list[int]:
        """What joins these results."""
        op = JOIN if len(self._shape(results[0])) == 2 else CONCATENATION
        readers = sorted(self._graph.readers.get(results[0], ()))
        return [
            node.outputs[0]
            for node in map(self._graph.nodes.__getitem__, readers)
            if self._body.maker(node.outputs[0], op) is node
            and node.inputs == results
            and self._body.axis_zero(node)
        ]

    def _members(self, layer: Node) -> frozenset[int]:
        """The nodes between the inputs and the outputs of a layer, which have real numbers."""
        members: dict[int, Node] = {}
        known, pending = {*layer.inputs}, [*layer.outputs]
        while pending:
            tensor = pending.pop()
            if tensor in known or tensor < 0 or self._around.tensors[tensor].is_constant:
                continue
            known.add(tensor)
            node = self._body.maker_of(tensor)
            if any(self._around.tensors[t].dtype != "float32" for t in node.outputs):
                raise Unsupported("a cell with other than real numbers")
            members[node.index] = node
            pending += node.inputs
        return frozenset(members)
