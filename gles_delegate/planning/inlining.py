"""Inlining: the nodes of a subgraph replace the node that runs it.

A composite becomes its decomposition, and WHILE becomes its body once per iteration, if the
conditions depend only on constants and shapes. IF and STABLEHLO_CASE become the chosen branch or,
if a run chooses, all branches and a selection among their results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from math import prod
from typing import TypeVar

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Graph, Node, Tensor
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.views import meaning
from gles_delegate.ops.planned import CASE, CHOICE, COMPOSITE, EQUAL, IF, LASTING, TEST, WHILE
from gles_delegate.ops.variables import IDENTITY
from gles_delegate.planning.cells import EnclosingGraph
from gles_delegate.planning.patterns import JOIN
from gles_delegate.planning.recurrence import CountedLoop, RecurrentLoop
from gles_delegate.shaders.dispatch import Shape

T = TypeVar("T")

MAX_ADDED = 1 << 16
"""Maximum number of tensors and nodes that the subgraphs of a model add."""


@dataclass(frozen=True)
class UnrolledIteration(Node):
    """A WHILE, or the test of one, after some of its iterations were unrolled.

    Attributes:
        lists: The loop variables to which each iteration assigns an element, with its tensor.
        items: The elements that each iteration so far assigned.
    """

    lists: tuple[tuple[int, int], ...] = ()
    items: tuple[tuple[int, ...], ...] = ()

    @staticmethod
    def of(node: Node, lists: Sequence[tuple[int, int]]) -> UnrolledIteration:
        """A WHILE of which no iteration was unrolled yet."""
        own = {each.name: getattr(node, each.name) for each in fields(Node)}
        return UnrolledIteration(**own, lists=tuple(lists))

    @property
    def elements(self) -> dict[int, tuple[int, ...]]:
        """By loop variable, the elements of each list."""
        by_list = zip(*self.items, strict=True)
        return {number: items for (number, _), items in zip(self.lists, by_list, strict=False)}


class Inliner:
    """Inlines the nodes of a graph in order, which is checked.

    Args:
        tensors: The graph's tensors; tensors of subgraphs are appended.
    """

    def __init__(self, graph: Graph, tensors: list[Tensor]) -> None:
        _check_order(graph)
        self._graph = graph
        self._subgraphs = graph.subgraphs
        self._tensors = tensors
        self._checked: set[int] = set()
        self._constants: dict[tuple[int, int], int] = {}
        self._left = MAX_ADDED

    def expand(self, node: Node, shapes: Mapping[int, Shape]) -> list[Node]:
        """The nodes, with the same index, that replace a node whose op is in `INLINED`.

        Args:
            shapes: The shapes of all tensors.
        """
        if not node.outputs:
            raise Unsupported("the node has no outputs; expected at least one")
        count = len(node.subgraphs)
        if count != {COMPOSITE: 1, CASE: max(count, 1)}.get(node.op, 2):
            raise Unsupported("it names no subgraph")
        if node.op == COMPOSITE:
            nodes, results = self._insert(node, node.subgraphs[0], node.inputs)
        elif node.op in (IF, CASE):
            nodes, results = self._branches(node, shapes)
        elif node.op == WHILE:
            iteration = node
            if not isinstance(node, UnrolledIteration):
                lists: list[tuple[int, int]] = []
                with suppress(Unsupported):
                    lists = self._asked(node, shapes, lambda *loop: CountedLoop(*loop).lists())
                iteration = UnrolledIteration.of(node, lists)
            nodes, results = self._insert(node, node.subgraphs[0], node.inputs)
            return [*nodes, replace(iteration, op=TEST, inputs=(*results[:1], *node.inputs))]
        elif self._holds(node):
            assert isinstance(node, UnrolledIteration)
            return self._next_iteration(node)
        else:
            nodes, results = [], node.inputs[1:]
        self._require_same(results, node.outputs, "output")
        elements = node.elements if isinstance(node, UnrolledIteration) else {}
        for i, (result, output) in enumerate(zip(results, node.outputs, strict=True)):
            op, inputs = (JOIN, elements[i]) if i in elements else (IDENTITY, (result,))
            nodes.append(Node(node.index, op, 1, inputs, (output,)))
        return nodes

    def _branches(
        self, node: Node, shapes: Mapping[int, Shape]
    ) -> tuple[list[Node], tuple[int, ...]]:
        """Nodes of all branches, and the selected outputs; of one branch if the condition is
        constant.
        """
        chooser = self._tensors[node.inputs[0]]
        branches = node.subgraphs
        if node.op == IF:
            branches = branches[::-1]  # the one for false first
        if prod(shapes[chooser.index]) != 1:
            raise Unsupported(f"its branch is chosen by {list(shapes[chooser.index])}")
        if chooser.is_constant:
            number = int(chooser.array().item())  # LiteRT takes the last for others
            branch = branches[number] if 0 <= number < len(branches) else branches[-1]
            return self._insert(node, branch, node.inputs[1:])
        for index in called_by(self._graph, [node]):
            kept = [inner.op for inner in self._subgraphs[index].nodes if inner.op in LASTING]
            if kept:
                raise Unsupported(f"a run chooses a branch, and {kept[0]} changes what comes later")
        inserted = [self._insert(node, branch, node.inputs[1:]) for branch in branches]
        nodes = [inner for inners, _ in inserted for inner in inners]
        *first, results = [outputs for _, outputs in inserted]
        for outputs in (*first, results):
            self._require_same(outputs, node.outputs, "output")
        around = EnclosingGraph(self._subgraphs, self._tensors, shapes, self._added)
        for number, others in reversed([*enumerate(first)]):
            condition, pair = node.inputs[0], (results, others)
            if node.op == CASE:
                condition = around.tensor("chosen", shapes[chooser.index], "bool")
                this = around.constant("branch", np.array(number, np.int32))
                nodes.append(Node(node.index, EQUAL, 1, (node.inputs[0], this), (condition,)))
                pair = others, results
            selected = []
            for x, y, output in zip(*pair, node.outputs, strict=True):
                selected.append(len(self._tensors))
                like = replace(self._tensors[output], index=selected[-1], is_derived=True)
                self._tensors.append(like)
                nodes.append(Node(node.index, CHOICE, 1, (condition, x, y), (selected[-1],)))
            results = tuple(selected)
        return nodes, results

    def _next_iteration(self, node: UnrolledIteration) -> list[Node]:
        """The nodes of the body, and the WHILE with their results. Lists stay as they are."""
        lists = node.lists
        nodes, results = self._insert(
            node, node.subgraphs[1], node.inputs[1:], tuple(item for _, item in lists)
        )
        count = len(results) - len(lists)
        values, items = list(results[:count]), results[count:]
        assigned = {values[number] for number, _ in lists}
        nodes = [inner for inner in nodes if not assigned.intersection(inner.outputs)]
        for number, _ in lists:
            values[number] = node.inputs[1 + number]
        iteration = replace(node, op=WHILE, inputs=tuple(values), items=(*node.items, items))
        return [*nodes, iteration]

    def layer(self, node: Node, shapes: Mapping[int, Shape]) -> list[Node]:
        """The nodes that replace a WHILE that runs a recurrent layer.

        Raises `Unsupported` for any other.
        """
        return self._asked(node, shapes, lambda *loop: RecurrentLoop(*loop).nodes())

    def _asked(
        self,
        node: Node,
        shapes: Mapping[int, Shape],
        ask: Callable[[Node, EnclosingGraph], list[T]],
    ) -> list[T]:
        """The answer to a question about a WHILE; raises `Unsupported` if its nodes are damaged."""
        for index in node.subgraphs:
            self._check(index, self._subgraphs[index])
        try:
            return ask(node, EnclosingGraph(self._subgraphs, self._tensors, shapes, self._added))
        except ModelError:
            raise
        except (ArithmeticError, LookupError, ValueError) as error:
            raise Unsupported(f"nodes with inputs missing ({error})") from error

    @cached_property
    def _recurses(self) -> bool:
        calls = ((index, self._subgraphs[index].nodes) for index in called_by(self._graph))
        order = TopologicalSorter(
            {index: {i for node in nodes for i in node.subgraphs} for index, nodes in calls}
        )
        try:
            order.prepare()
        except CycleError:
            return True
        return False

    def _holds(self, node: Node) -> bool:
        condition = self._tensors[node.inputs[0]] if node.inputs else None
        if condition is None or not condition.is_constant:
            raise Unsupported(
                "its condition is computed at run time; expected one that only constants and "
                "shapes decide"
            )
        return bool(condition.array().all())

    def _insert(
        self, node: Node, index: int, inputs: tuple[int, ...], more: tuple[int, ...] = ()
    ) -> tuple[list[Node], tuple[int, ...]]:
        """The nodes of a subgraph on these inputs, and its outputs, and `more` of its tensors."""
        body = self._subgraphs[index]
        self._left -= len(body.tensors) + len(body.nodes)
        if self._left < 0:
            raise Unsupported(
                f"its subgraph {index} runs too often or is too large; expected at most "
                f"{MAX_ADDED} tensors and nodes in all"
            )
        self._check(index, body)
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
        return nodes, renumbered((*body.outputs, *more))

    def _check(self, index: int, body: Graph) -> None:
        """Raise an error if a subgraph is damaged, or has nodes that cannot be inlined."""
        if index not in self._checked:
            _check_order(body, f"in subgraph {index}, ")
            if self._recurses and index in called_by(body):
                raise Unsupported(f"its subgraph {index} contains itself")
            used = [i for i in body.inputs if i >= 0]
            if len({*used}) < len(used) or any(t.is_variable for t in body.tensors):
                raise Unsupported(
                    f"its subgraph {index} has variables, or two inputs in one tensor"
                )
            self._checked.add(index)

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
            if min(a, b) >= 0 and meaning(self._tensors[a]) != meaning(tensors[b]):
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
    own = {t.index for t in graph.tensors if t.is_constant or t.is_variable}
    return own.union(graph.inputs) - {-1}


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
