"""Inlining: the nodes of a subgraph replace the node that runs it.

A composite becomes its decomposition, IF becomes the chosen branch, and WHILE becomes its body once
per turn, if the conditions depend only on constants and shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Graph, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.views import meaning
from gles_delegate.ops.planned import COMPOSITE, IF, TEST, WHILE
from gles_delegate.ops.variables import IDENTITY

MOST_ADDED = 1 << 16
"""Most tensors and nodes that the subgraphs of a model add."""


class Inliner:
    """Inlines the nodes of a graph in order, which is checked.

    Args:
        tensors: The graph's tensors; tensors of subgraphs are appended.
    """

    def __init__(self, graph: Graph, tensors: list[Tensor]) -> None:
        _check_order(graph)
        self._subgraphs = graph.subgraphs
        self._tensors = tensors
        self._checked: set[int] = set()
        self._constants: dict[tuple[int, int], int] = {}
        self._left = MOST_ADDED

    def expand(self, node: Node) -> list[Node]:
        """The nodes, with the same index, that replace a node whose op is in `INLINED`."""
        if not node.outputs:
            raise Unsupported("the node has no outputs; expected at least one")
        if len(node.subgraphs) != (1 if node.op == COMPOSITE else 2):
            raise Unsupported("it names no subgraph")
        if node.op == COMPOSITE:
            nodes, results = self._insert(node, node.subgraphs[0], node.inputs)
        elif node.op == IF:
            branch = node.subgraphs[0 if self._holds(node) else 1]
            nodes, results = self._insert(node, branch, node.inputs[1:])
        elif node.op == WHILE:
            nodes, results = self._insert(node, node.subgraphs[0], node.inputs)
            return [*nodes, replace(node, op=TEST, inputs=(*results[:1], *node.inputs))]
        elif self._holds(node):
            nodes, results = self._insert(node, node.subgraphs[1], node.inputs[1:])
            return [*nodes, replace(node, op=WHILE, inputs=results)]
        else:
            nodes, results = [], node.inputs[1:]
        self._require_same(results, node.outputs, "output")
        return nodes + [
            replace(node, op=IDENTITY, inputs=(result,), outputs=(output,), subgraphs=())
            for result, output in zip(results, node.outputs, strict=True)
        ]

    def _holds(self, node: Node) -> bool:
        """Whether the condition, input 0, is true."""
        condition = self._tensors[node.inputs[0]] if node.inputs else None
        if condition is None or not condition.is_constant:
            raise Unsupported(
                "its condition is computed at run time; expected one that only constants and "
                "shapes decide"
            )
        return bool(condition.array().all())

    def _insert(
        self, node: Node, index: int, inputs: tuple[int, ...]
    ) -> tuple[list[Node], tuple[int, ...]]:
        """The nodes of a subgraph on these inputs, and its outputs."""
        body = self._subgraphs[index]
        self._left -= len(body.tensors) + len(body.nodes)
        if self._left < 0:
            raise Unsupported(
                f"its subgraph {index} runs too often or is too large; expected at most "
                f"{MOST_ADDED} tensors and nodes in all"
            )
        if index not in self._checked:
            _check_order(body, f"in subgraph {index}, ")
            if index in called_by(body):
                raise Unsupported(f"its subgraph {index} contains itself")
            self._checked.add(index)
        if len(set(body.inputs)) < len(body.inputs) or any(t.is_variable for t in body.tensors):
            raise Unsupported(f"its subgraph {index} has variables, or two inputs in one tensor")
        self._require_same(inputs, body.inputs, "input", body)
        tensors = dict(zip(body.inputs, inputs, strict=True)) | {-1: -1}
        for tensor in body.tensors:
            if tensor.index not in tensors:
                tensors[tensor.index] = self._added(index, tensor)

        def renumbered(indices: tuple[int, ...]) -> tuple[int, ...]:
            return tuple(tensors[i] for i in indices)

        nodes = [
            replace(
                inner,
                index=node.index,
                inputs=renumbered(inner.inputs),
                outputs=renumbered(inner.outputs),
                intermediates=renumbered(inner.intermediates),
            )
            for inner in body.in_order
        ]
        return nodes, renumbered(body.outputs)

    def _added(self, subgraph: int, tensor: Tensor) -> int:
        """The index of a copy of a subgraph's tensor; all its runs share a constant's copy."""
        key = subgraph, tensor.index
        if not tensor.is_constant or key not in self._constants:
            self._constants[key] = len(self._tensors)
            self._tensors.append(replace(tensor, index=len(self._tensors), is_derived=True))
        return self._constants[key]

    def _require_same(
        self, outside: Sequence[int], inside: Sequence[int], name: str, body: Graph | None = None
    ) -> None:
        """Raise `Unsupported` if tensors differ in number or type from a subgraph's."""
        tensors = self._tensors if body is None else body.tensors
        if len(outside) != len(inside):
            raise Unsupported(f"{len(outside)} {name}s and {len(inside)} of its subgraph")
        for i, (a, b) in enumerate(zip(outside, inside, strict=True)):
            if a >= 0 and meaning(self._tensors[a]) != meaning(tensors[b]):
                raise Unsupported(f"{name} {i} of its subgraph is of another type or quantization")


def called_by(graph: Graph, nodes: Sequence[Node] | None = None) -> set[int]:
    """The subgraphs that nodes run, directly or not (None: all nodes of the graph)."""
    called: set[int] = set()
    pending = list(graph.nodes if nodes is None else nodes)
    while pending:
        for index in {*pending.pop().subgraphs} - called:
            called.add(index)
            pending += graph.subgraphs[index].nodes
    return called


def initial_tensors(graph: Graph) -> set[int]:
    """The tensors that no node computes: constants, variables and inputs."""
    return {t.index for t in graph.tensors if t.is_constant or t.is_variable} | set(graph.inputs)


def _check_order(graph: Graph, where: str = "") -> None:
    """Raise `ModelError` if a node reads a tensor before it is computed, or computes one again."""
    computed = initial_tensors(graph)
    for node in graph.in_order:
        missing = [i for i in node.inputs if i >= 0 and i not in computed]
        if missing:
            raise ModelError(
                f"damaged model: {where}node {node.index} {node.op} reads tensor {missing[0]}, "
                "which nothing computed before it"
            )
        repeated = computed.intersection(node.outputs)
        if repeated:
            raise ModelError(
                f"damaged model: {where}node {node.index} {node.op} computes tensor "
                f"{min(repeated)} again"
            )
        computed.update(node.outputs)
