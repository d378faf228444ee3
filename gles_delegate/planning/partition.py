"""Lowered nodes to segments: which nodes run on the GPU, in how few parts."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass

from gles_delegate.model.graph import Graph, Node
from gles_delegate.planning.lowering import Lowered, is_folded
from gles_delegate.report import DelegationReport, NodeReport


@dataclass(frozen=True)
class Partition:
    """What of a graph runs on the GPU.

    Attributes:
        segments: The nodes of each part that runs as one, by index.
        reasons: Of each node that stays on the CPU, why it does.
    """

    segments: tuple[tuple[int, ...], ...]
    reasons: Mapping[int, str]

    def report(self, graph: Graph, storage: str = "float32") -> DelegationReport:
        """Node by node, for the user."""
        nodes = (
            NodeReport(
                n.index, n.op, n.version, n.index not in self.reasons, self.reasons.get(n.index, "")
            )
            for n in graph.nodes
        )
        return DelegationReport(tuple(nodes), storage, len(self.segments))


def choose_segments(
    lowered: Lowered, most: int | None = None, first: int = 0, last: int | None = None
) -> Partition:
    """Choose the nodes that run on the GPU.

    Args:
        most: The number of segments, of which the largest are taken; None for all.
        first, last: Only nodes from the one to the other, both included, are taken.
    """
    graph = lowered.graph
    reasons = dict(lowered.reasons)
    for index in lowered.steps:
        if index < first or (last is not None and index > last):
            reasons[index] = "first_delegate_node_index and last_delegate_node_index leave it out"
    _leave_folded(graph, reasons)
    segments = find_segments(graph, reasons.keys())
    by_size = sorted(segments, key=len, reverse=True)
    for segment in by_size[most:] if most is not None else ():
        for index in segment:
            reasons[index] = (
                f"max_delegated_partitions is {most}, and there are {len(segments)} segments"
            )
    _leave_folded(graph, reasons)
    taken = ([index for index in segment if index not in reasons] for segment in segments)
    return Partition(tuple(tuple(segment) for segment in taken if segment), reasons)


def find_segments(graph: Graph, left: Set[int]) -> list[tuple[int, ...]]:
    """The nodes that are not `left` on the CPU, in as few parts as can run one after the other.

    LiteRT's graph_info.cc (PartitionGraphIntoIndependentNodeSubsets) finds the same: in turns,
    all nodes of one side that can run by then.
    """
    made = {tensor for node in graph.nodes for tensor in node.outputs}
    pending = graph.nodes
    found: list[tuple[int, ...]] = []
    while pending:
        on_cpu = pending[0].index in left
        segment: list[int] = []
        rest: list[Node] = []
        for node in pending:
            if (node.index in left) == on_cpu and not made.intersection(node.inputs):
                segment.append(node.index)
                made.difference_update(node.outputs)
            else:
                rest.append(node)
        if not on_cpu:
            found.append(tuple(segment))
        pending = tuple(rest)
    return found


def _leave_folded(graph: Graph, reasons: dict[int, str]) -> None:
    """Leave a node whose result is a constant to the CPU, if a node there reads it."""
    read: set[int] = set()
    for node in reversed(graph.nodes):
        if node.index not in reasons and is_folded(graph, node) and read.intersection(node.outputs):
            reasons[node.index] = "its result is a constant that a node on the CPU reads"
        if node.index in reasons:
            read.update(node.inputs)
