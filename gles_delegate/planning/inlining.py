"""Inlining: the nodes of its decomposition take the place of a composite."""

from __future__ import annotations

from dataclasses import replace

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Graph, Node
from gles_delegate.ops.lib.registry import Unsupported
from gles_delegate.ops.lib.views import meaning

DEEPEST = 16
"""Subgraphs in one another."""

MOST_ADDED = 1 << 16
"""Tensors and nodes that all composites of a model add."""


class Inlined:
    """A graph and the nodes that compute it, those of decompositions included.

    Attributes:
        graph: The graph, with the tensors inside composites past the end of its own.
        nodes: In order of execution. Those inside a composite have the composite's index.
        reasons: By node index, why a composite is left as it is.

    Raises:
        ModelError: Nodes wait for each other, or compute a tensor twice.
    """

    def __init__(self, graph: Graph) -> None:
        _check_order(graph)
        self._subgraphs = graph.subgraphs
        self._tensors = list(graph.tensors)
        self._left = MOST_ADDED
        self.nodes: list[Node] = []
        self.reasons: dict[int, str] = {}
        for node in graph.in_order:
            own, count = len(self._tensors), len(self.nodes)
            try:
                self._add(node, 0)
            except Unsupported as error:
                del self._tensors[own:], self.nodes[count:]
                self.nodes.append(node)
                self.reasons[node.index] = str(error)
        self.graph = replace(graph, tensors=tuple(self._tensors))

    def _add(self, node: Node, depth: int) -> None:
        """Add a node, or what it decomposes into."""
        if node.op != "STABLEHLO_COMPOSITE" or not node.subgraphs:
            self.nodes.append(node)
            return
        body = self._subgraphs[node.subgraphs[0]]
        self._left -= len(body.tensors) + len(body.nodes)
        if depth == DEEPEST or self._left < 0:
            raise Unsupported(
                f"its subgraph {body.index} contains itself or is too large; expected at most "
                f"{DEEPEST} subgraphs in one another, and {MOST_ADDED} tensors and nodes in all"
            )
        _check_order(body, f"in subgraph {body.index}, ")
        places = self._places(node, body)
        for tensor in body.tensors:
            if tensor.index not in places:
                places[tensor.index] = len(self._tensors)
                self._tensors.append(replace(tensor, index=len(self._tensors)))
        for inner in body.in_order:
            inputs, outputs = (
                tuple(places.get(i, -1) for i in indices)
                for indices in (inner.inputs, inner.outputs)
            )
            inner = replace(inner, index=node.index, inputs=inputs, outputs=outputs)
            self._add(inner, depth + 1)

    def _places(self, node: Node, body: Graph) -> dict[int, int]:
        """By index of the body's inputs and outputs, the node's tensors.

        Raises:
            Unsupported: They differ in number or type, or outputs are no results of the body.
        """
        inside, outside = (*body.inputs, *body.outputs), (*node.inputs, *node.outputs)
        if not outside[len(body.inputs) :]:
            raise Unsupported("the node has no outputs; expected at least one")
        if len(body.inputs) != len(node.inputs) or len(inside) != len(outside):
            raise Unsupported(
                f"{len(node.inputs)} inputs and {len(node.outputs)} outputs; expected "
                f"{len(body.inputs)} and {len(body.outputs)}, as of its subgraph {body.index}"
            )
        made = {i for inner in body.nodes for i in inner.outputs}
        for i in body.outputs:
            if i not in made or inside.count(i) > 1:
                raise Unsupported(
                    f"its subgraph {body.index} returns tensor {i}, which is an input, a "
                    "constant or another output too; expected a result"
                )
        if len(set(inside)) < len(inside) or any(tensor.is_variable for tensor in body.tensors):
            raise Unsupported(
                f"its subgraph {body.index} has variables, or takes two inputs as one tensor"
            )
        places = dict(zip(inside, outside, strict=True))
        for i, place in places.items():
            if place >= 0 and meaning(body.tensors[i]) != meaning(self._tensors[place]):
                raise Unsupported(
                    f"tensor {i} of its subgraph {body.index} has another type or quantization "
                    f"than tensor {place}; expected the same"
                )
        return places


def given_tensors(graph: Graph) -> set[int]:
    """The tensors that no node computes: constants, variables and inputs."""
    return {t.index for t in graph.tensors if t.is_constant or t.is_variable} | set(graph.inputs)


def _check_order(graph: Graph, where: str = "") -> None:
    """Raise `ModelError` if a node reads what none before it computes, or computes it anew."""
    known = given_tensors(graph)
    for node in graph.in_order:
        missing = [i for i in node.inputs if i >= 0 and i not in known]
        if missing:
            raise ModelError(
                f"damaged model: {where}node {node.index} {node.op} reads tensor {missing[0]}, "
                "which nothing computed before it"
            )
        repeated = known.intersection(node.outputs)
        if repeated:
            raise ModelError(
                f"damaged model: {where}node {node.index} {node.op} computes tensor "
                f"{min(repeated)} anew"
            )
        known.update(node.outputs)
