"""Lowered nodes to segments: which nodes run on the GPU, in as few segments as possible."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import pairwise

from gles_delegate.model.graph import Graph, Node
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.planning.lowering import Lowered, is_folded
from gles_delegate.report import DelegationReport, NodeReport


@dataclass(frozen=True)
class Partition:
    """Which nodes of a graph run on the GPU.

    Attributes:
        segments: Node indices of each segment.
        reasons: Why each other node stays on the CPU.
        folded: Nodes of the segments whose results are constants.
    """

    segments: tuple[tuple[int, ...], ...]
    reasons: Mapping[int, str]
    folded: Set[int] = frozenset()

    def report(self, graph: Graph, storage: str = "float32") -> DelegationReport:
        """The report for users."""
        nodes = (
            NodeReport(
                index=n.index,
                op=n.op,
                version=n.version,
                delegated=n.index not in self.reasons,
                reason=self.reasons.get(n.index, ""),
                folded=n.index in self.folded,
                subgraph=graph.index,
            )
            for n in graph.nodes
        )
        return DelegationReport(tuple(nodes), storage, len(self.segments))


def choose_partitions(
    graphs: Sequence[Lowered], most: int | None = None, first: int = 0, last: int | None = None
) -> list[Partition]:
    """Choose the nodes of a model's subgraphs that run on the GPU.

    A variable is on the GPU if all nodes that use it run there, in one segment of each subgraph.

    Args:
        most: Maximum number of segments of each subgraph; the largest are chosen. None: no limit.
        first: The first node that may be chosen.
        last: The last node that may be chosen; None: no limit.
    """
    on_cpu: set[str] = set()
    while True:
        partitions = [_choose_segments(graph, on_cpu, most, first, last) for graph in graphs]
        split = {
            name
            for graph, partition in zip(graphs, partitions, strict=True)
            for name, users in graph.uses.users.items()
            if not any(users <= {*segment} for segment in partition.segments)
        }
        if split <= on_cpu:
            return partitions
        on_cpu |= split


def _choose_segments(
    lowered: Lowered, on_cpu: Set[str], most: int | None, first: int, last: int | None
) -> Partition:
    """Choose the nodes of one subgraph; users of the variables `on_cpu` run on the CPU."""
    graph, uses = lowered.graph, lowered.uses
    reasons = {
        index: f"other nodes that use the variable {name!r} do not run in its segment"
        for name in on_cpu
        for index in uses.users.get(name, ())
    }
    for index, names in uses.called.items():
        for name in names & on_cpu:
            reasons.setdefault(index, f"the variable {name!r} is on the CPU")
    reasons |= lowered.reasons
    for index in lowered.steps:
        if index < first or (last is not None and index > last):
            reasons[index] = "excluded by first_delegate_node_index and last_delegate_node_index"
    _move_folded_to_cpu(graph, reasons)
    segments = find_segments(graph, reasons.keys())
    by_size = sorted(segments, key=len, reverse=True)
    for segment in by_size[most:] if most is not None else ():
        for index in segment:
            count = len(segments)
            reasons[index] = f"max_delegated_partitions is {most}, and there are {count} segments"
    _move_folded_to_cpu(graph, reasons)
    taken = ([index for index in segment if index not in reasons] for segment in segments)
    folded = {n.index for n in graph.nodes if is_folded(graph, n)}.difference(reasons)
    return Partition(tuple(tuple(segment) for segment in taken if segment), reasons, folded)


def find_segments(graph: Graph, on_cpu: Set[int]) -> list[tuple[int, ...]]:
    """Group the nodes that are not on the CPU into as few segments as can run one after another.

    The same as LiteRT's graph_info.cc (PartitionGraphIntoIndependentNodeSubsets): alternately take
    all nodes of one side whose inputs are ready. Nodes with side effects keep their order.

    Args:
        on_cpu: Indices of the nodes that the CPU runs.
    """
    nodes = graph.in_order
    reads, writes = _reads_and_writes(graph, nodes)
    readers: defaultdict[int, list[int]] = defaultdict(list)
    # By side, the CPU's last: the nodes whose inputs are ready.
    ready: tuple[list[int], list[int]] = [], []
    for position, node in enumerate(nodes):
        for tensor in reads[position]:
            readers[tensor].append(position)
        if not reads[position]:
            ready[node.index in on_cpu].append(position)
    missing = [*map(len, reads)]
    segments: list[tuple[int, ...]] = []
    turn = bool(nodes) and nodes[0].index in on_cpu
    while any(ready):
        taken: list[int] = []
        while ready[turn]:
            taken.append(ready[turn].pop())
            for tensor in writes[taken[-1]]:
                for reader in readers.pop(tensor, ()):
                    missing[reader] -= 1
                    if not missing[reader]:
                        ready[nodes[reader].index in on_cpu].append(reader)
        if not turn:
            segments.append(tuple(nodes[position].index for position in sorted(taken)))
        turn = not turn
    return segments


def _reads_and_writes(
    graph: Graph, nodes: Sequence[Node]
) -> tuple[list[set[int]], list[list[int]]]:
    """The computed tensors that each node reads, and those that it writes.

    A node with side effects also writes a tensor below -1, which the next such node reads.
    """
    computed = {tensor for node in nodes for tensor in node.outputs}
    reads = [computed.intersection(node.inputs) for node in nodes]
    writes = [[*node.outputs] for node in nodes]
    # LiteRT's subgraph.cc has the same in OpMightHaveSideEffect.
    resources = {tensor.index for tensor in graph.tensors if tensor.dtype == "resource"}
    effects = [
        i
        for i, node in enumerate(nodes)
        if op_of(node.op).runs_subgraphs or not resources.isdisjoint((*node.inputs, *node.outputs))
    ]
    for first, second in pairwise(effects):
        reads[second].add(-2 - first)
        writes[first].append(-2 - first)
    return reads, writes


def _move_folded_to_cpu(graph: Graph, reasons: dict[int, str]) -> None:
    """Move a folded node to the CPU if a node there reads its result."""
    read: set[int] = set()
    for node in reversed(graph.in_order):
        if node.index not in reasons and is_folded(graph, node) and read.intersection(node.outputs):
            reasons[node.index] = "its result is a constant that a node on the CPU reads"
        if node.index in reasons:
            read.update(node.inputs)
