"""Advice on changes to a model so that the GPU runs more of it, or faster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from gles_delegate.model.graph import Graph
from gles_delegate.model.schema import TENSORFLOW_OP
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.partition import Partition
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Const, Dispatch

CPU_FLOPS, BUS_BYTES, HAND_OVER = 20e9, 5e9, 1e-4
"""Estimates: operations per second of a CPU with a few cores, bytes per second between CPU and
GPU, and the latency of a transfer in seconds."""

WORTH, LEAST_MOVED = 0.02, 1e5
"""Share of a model's work and number of bytes below which there is no advice."""

BALANCE = 5.0
"""Floating-point operations of a board's GPU in the time in which its memory moves a byte: about
92 G/s for 17 GB/s on a Raspberry Pi 5."""

WAITING = 0.25
"""Share of a model's traffic below which there is no advice on memory."""

FEW_DISPATCHES = 8
"""Dispatches of a loop up to which there is no advice."""

MOST_NAMED = 5
"""Nodes or ops that a sentence lists."""


def advise(
    graph: Graph, lowered: Lowered, partition: Partition, plans: Sequence[Plan]
) -> Iterator[str]:
    """Advice on a subgraph, most important first."""
    yield from _cpu(graph, partition)
    for segment, plan in zip(partition.segments, plans, strict=True):
        if partition.reasons:
            yield from _seam(graph, segment, plan)
    dispatches = [dispatch for plan in plans for dispatch in plan.dispatches]
    yield from _loops(graph, lowered, dispatches)
    yield from _channels(graph, dispatches)
    yield from _moves(graph, dispatches)
    yield from _memory(graph, dispatches)
    yield from _requantized(graph)
    yield from _int64(graph, lowered)
    for tensor in (graph.tensors[index] for index in graph.inputs):
        if len(tensor.shape) == 4 and tensor.shape[0] > 1:
            yield (
                f"input {tensor.name!r} has a batch of {tensor.shape[0]}: export the model with a "
                "batch of 1 if samples come one by one; resize_tensor_input makes larger ones"
            )


def _cpu(graph: Graph, partition: Partition) -> Iterator[str]:
    """On the causes that keep nodes on the CPU, without their consequences."""
    for reason, nodes in partition.report(graph).causes:
        if reason.startswith(_FOLLOWS) or reason.endswith(_LATE):
            continue
        if reason.endswith("no GPU implementation"):
            remedy = "use other ops, or have the app do it before or after the model"
        elif TENSORFLOW_OP in reason:
            remedy = "docs/own-network.md shows how"
        elif "at run time" in reason:
            remedy = (
                "export the model with a constant there, so that sizes that depend on it are known"
            )
        else:
            remedy = "change that in the model"
        runs = "nothing" if TENSORFLOW_OP in reason else "the CPU"
        yield f"{runs} runs {_nodes(graph, (node.index for node in nodes))}: {reason}; {remedy}"


_FOLLOWS = ("max_delegated_partitions", "excluded by", "its result is", "other nodes that use")
_LATE = "has a size known only at run time"


def _seam(graph: Graph, segment: Sequence[int], plan: Plan) -> Iterator[str]:
    """On a segment whose tensors take longer to copy than the CPU would take to run it."""
    flops = sum(dispatch.flops for dispatch in plan.dispatches)
    moved = sum(value.nbytes for values in (plan.inputs, plan.outputs) for value in values.values())
    if flops / CPU_FLOPS < HAND_OVER + moved / BUS_BYTES:
        yield (
            f"{_nodes(graph, segment)}: the GPU computes {_mega(flops)} MFLOP, but moving "
            f"{_mega(moved)} MB between CPU and GPU takes longer than the CPU would; "
            "unless neighboring nodes can run on the GPU too, leave them out with "
            "first_delegate_node_index and last_delegate_node_index"
        )


def _loops(graph: Graph, lowered: Lowered, dispatches: Sequence[Dispatch]) -> Iterator[str]:
    """On loops that take dispatches for each turn."""
    counts = Counter(d.node for d in dispatches)
    for index, reason in lowered.unrolled.items():
        if counts[index] > FEW_DISPATCHES:
            yield (
                f"{_nodes(graph, [index])}: its turns are unrolled to {counts[index]} dispatches, "
                f"because it is not a recurrent layer that runs in one: {reason}"
            )


def _channels(graph: Graph, dispatches: Iterable[Dispatch]) -> Iterator[str]:
    """On layers that compute unused channels: a texel has four."""
    last = set(graph.outputs)  # an app depends on their channels
    for node in reversed(graph.in_order):
        if op_of(node.op).ends_networks and last.intersection(node.outputs):
            last.update(node.inputs)
    padded_layers: dict[tuple[int, int], list[int]] = {}
    products = [d for d in dispatches if d.flops]
    total = sum(d.flops for d in products)
    for d in products:
        channels, padded = d.output.channels, 4 * d.output.slices
        lost = d.flops * (padded / channels - 1)
        nodes = (graph.nodes[index] for index in (d.node, *d.fused))
        if lost > WORTH * total and channels > 1 and not any(last & {*n.outputs} for n in nodes):
            padded_layers.setdefault((channels, padded), []).append(d.node)
    for (channels, padded), layers in padded_layers.items():
        fewer = f", or {padded - 4}" if padded > 4 else ""
        yield (
            f"{_nodes(graph, layers)}: {channels} channels cost as much as {padded}; use {padded}"
            f"{fewer}"
        )


def _moves(graph: Graph, dispatches: Sequence[Dispatch]) -> Iterator[str]:
    """On nodes that only move elements."""
    moves = [d for d in dispatches if d.shader == "view" and d.node >= 0]
    ops = {node.index for node in graph.nodes if op_of(node.op).moves == "elements"}
    nodes = sorted({d.node for d in moves} & ops)
    total = sum(d.output.nbytes for d in dispatches)
    moved = sum(d.output.nbytes for d in moves if d.node in ops)
    if moved > max(WORTH * total, LEAST_MOVED):
        yield (
            f"{_nodes(graph, nodes)}: elements only move, {_mega(moved)} MB per run, "
            f"{moved / total:.0%} of all bytes written; keep channels last, and change the order "
            "of elements once, at the model's end, or not at all"
        )


def _traffic(dispatches: Iterable[Dispatch]) -> int:
    return sum(dispatch.traffic for dispatch in dispatches)


def _memory(graph: Graph, dispatches: Sequence[Dispatch]) -> Iterator[str]:
    """On layers whose weights or activations take longer to move than to compute with."""
    waiting = [d for d in dispatches if 0 < d.flops < BALANCE * d.traffic]
    by_weights: list[Dispatch] = []
    by_activations: list[Dispatch] = []
    for d in waiting:
        weights = sum(o.nbytes for o in {*d.operands} if isinstance(o, Const))
        (by_weights if 2 * weights > d.traffic else by_activations).append(d)
    least = max(WAITING * _traffic(dispatches), LEAST_MOVED)
    is_float = any(d.output.kind == "float" for d in by_activations)
    for layers, remedy in (
        (by_weights, "8-bit weights are a quarter as many bytes as float32"),
        (by_activations, "precision_loss_allowed stores them as float16, half as many bytes"),
    ):
        moved = _traffic(layers)
        if moved > least and (is_float or layers is by_weights):
            flops = sum(d.flops for d in layers)
            yield (
                f"{_nodes(graph, {d.node for d in layers})}: {_mega(moved)} MB move for "
                f"{_mega(flops)} MFLOP, so a GPU waits for memory; {remedy}"
            )


def _requantized(graph: Graph) -> Iterator[str]:
    """On changes of scale between 8-bit layers, which round once more and compute nothing."""
    bytes_ = {t.index for t in graph.tensors if t.dtype in ("int8", "uint8")}
    inner = bytes_ - {*graph.inputs, *graph.outputs}
    same = [node for node in graph.nodes if op_of(node.op).results == "inputs"]
    widened = {index for node in same for index in node.outputs if bytes_.intersection(node.inputs)}
    from_bytes = inner | widened
    nodes = [n.index for n in same if inner & {*n.outputs} and from_bytes & {*n.inputs}]
    if nodes:
        yield (
            f"{_nodes(graph, nodes)}: only the scale of 8-bit numbers changes, which rounds once "
            "more; let the quantizer give both sides one scale"
        )


def _int64(graph: Graph, lowered: Lowered) -> Iterator[str]:
    wide = {t.index for t in lowered.graph.tensors if t.dtype == "int64" and not t.is_constant}
    nodes = [n.index for n in graph.nodes if wide.intersection((*n.inputs, *n.outputs))]
    if nodes:
        yield (
            f"{_nodes(graph, nodes)}: int64 is int32 on the GPU, and is converted on entry and "
            "exit; use int32"
        )


def _nodes(graph: Graph, nodes: Iterable[int]) -> str:
    """A description of nodes: the first indices, and the number of each op."""
    listed = sorted(nodes)
    more = f" ... {listed[-1]}" if len(listed) > MOST_NAMED else ""
    numbers = ", ".join(map(str, listed[:MOST_NAMED]))
    ops = count_ops(graph.nodes[index].op for index in listed)
    return f"node{'s' if len(listed) > 1 else ''} {numbers}{more} ({ops})"


def count_ops(ops: Iterable[str]) -> str:
    """A description of ops: the number of each."""
    counts = Counter(ops).most_common()
    names = [f"{count} {op}" if count > 1 else op for op, count in counts[:MOST_NAMED]]
    return ", ".join(names) + (" and others" if len(counts) > MOST_NAMED else "")


def _mega(number: float) -> str:
    return f"{number / 1e6:.2g}" if number < 1e7 else f"{number / 1e6:.0f}"
