"""Lowered nodes to a plan: what is dispatched in which order, on which buffers. No GL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from gles_delegate.dispatch import Alias, Const, Dispatch, Operand, Step, Value
from gles_delegate.fusion import drop_unused, fuse_elementwise
from gles_delegate.limits import Limits
from gles_delegate.ops.movement import View, view
from gles_delegate.partition import Lowered

HOST = "host"
"""Part name of a tensor's elements in row-major order, four to a texel, as the CPU sees them."""


@dataclass(frozen=True)
class Plan:
    """What a session runs.

    Attributes:
        dispatches: In order of execution.
        inputs: Tensor index to the row-major value that the CPU fills before a run.
        outputs: Tensor index to the row-major value that holds the result after it.
        slots: Bytes of each buffer for the values of the plan.
        slot_of: The buffer of each value; values that never live together share one.
    """

    dispatches: tuple[Dispatch, ...]
    inputs: Mapping[int, Value]
    outputs: Mapping[int, Value]
    slots: tuple[int, ...]
    slot_of: Mapping[Value, int]

    @property
    def constants(self) -> tuple[Const, ...]:
        """Each packed constant once, in order of first use."""
        reads = (read for d in self.dispatches for read in d.operands)
        return tuple(dict.fromkeys(read for read in reads if isinstance(read, Const)))

    def __str__(self) -> str:
        lines = [f"{d}  -> slot {self.slot_of[d.output]}" for d in self.dispatches]
        total = sum(self.slots)
        return "\n".join([*lines, f"{len(self.slots)} buffers, {total} bytes"])


def make_plan(lowered: Lowered, nodes: Iterable[int], limits: Limits) -> Plan:
    """Plan the nodes `nodes` of a lowered graph, all of which must have steps.

    Inputs of the plan are the tensors that the nodes read and do not compute; outputs are
    those they compute that the graph returns or another node reads.
    """
    chosen = sorted(nodes)
    inputs, outputs = _boundary(lowered, chosen)
    shapes = lowered.shapes
    steps: list[Step] = [_upload(Value(t, shapes[t]), limits) for t in inputs]
    steps += [step for index in chosen for step in lowered.steps[index]]
    steps += [_download(Value(t, shapes[t]), limits) for t in outputs]
    roots, dispatches = _resolve(steps)
    host_inputs = {t: host_value(Value(t, shapes[t])) for t in inputs}
    host_outputs = {t: _root(host_value(Value(t, shapes[t])), roots) for t in outputs}
    kept = {*host_inputs.values(), *host_outputs.values()}
    dispatches = fuse_elementwise(dispatches, kept, limits)
    dispatches = drop_unused(dispatches, kept)
    slots, slot_of = _assign_slots(dispatches, kept)
    return Plan(tuple(dispatches), host_inputs, host_outputs, slots, slot_of)


def host_value(value: Value) -> Value:
    """The row-major value of a tensor: a PHWC4 value of 4 channels, or of its own if those are so.

    So the value and the one that it is an alias of always have the same pixels and channels.
    """
    shape = value.shape if _is_row_major(value) else (ceil(value.elements / 4), 4)
    return Value(value.tensor, shape, HOST)


def _boundary(lowered: Lowered, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    graph = lowered.graph
    inside = set(nodes)
    made = {t for index in nodes for t in graph.nodes[index].outputs}
    read = {v.tensor for i in nodes for v in _values(lowered.steps[i]) if v.tensor not in made}
    wanted = set(graph.outputs).union(
        *(node.inputs for node in graph.nodes if node.index not in inside)
    )
    return sorted(read), sorted(made & wanted)


def _values(steps: Iterable[Step]) -> Iterable[Value]:
    for step in steps:
        operands: tuple[Operand, ...] = step.reads if isinstance(step, Dispatch) else (step.source,)
        yield from (operand for operand in operands if isinstance(operand, Value))


def _upload(value: Value, limits: Limits) -> Step:
    host = host_value(value)
    if _is_row_major(value):
        return Alias(-1, value, host)
    return view(host, value, View((value.elements,), (1,)), limits, -1)


def _download(value: Value, limits: Limits) -> Step:
    host = host_value(value)
    if _is_row_major(value):
        return Alias(-1, host, value)
    return view(value, host, View((host.elements,), (1,)), limits, -1)


def _is_row_major(value: Value) -> bool:
    """Whether the tensor's texels hold its elements in row-major order."""
    return value.channels == 4 or value.pixels == 1


def _resolve(steps: Sequence[Step]) -> tuple[dict[Value, Value], list[Dispatch]]:
    """Take the aliases out: what each stands for, and the dispatches without them."""
    roots: dict[Value, Value] = {}
    dispatches: list[Dispatch] = []
    for step in steps:
        if isinstance(step, Alias):
            roots[step.output] = _root(step.source, roots)
        elif prod(step.grid.groups):
            reads = tuple(
                _root(read, roots) if isinstance(read, Value) else read for read in step.reads
            )
            dispatches.append(replace(step, reads=reads))
    return roots, dispatches


def _root(value: Value, roots: Mapping[Value, Value]) -> Value:
    return roots.get(value, value)


def _assign_slots(
    dispatches: Sequence[Dispatch], kept: Iterable[Value]
) -> tuple[tuple[int, ...], dict[Value, int]]:
    """Buffers for values: largest first, each into the first buffer free in its lifetime.

    This is the greedy-by-size rule of Pisarchyk and Lee, "Efficient Memory Management for Deep
    Neural Net Inference", 2020.
    """
    lives: dict[Value, tuple[int, int]] = {}
    for i, dispatch in enumerate(dispatches):
        for value in (*dispatch.operands, dispatch.output):
            if isinstance(value, Value):
                lives[value] = (lives.get(value, (i, i))[0], i)
    for value in kept:
        lives[value] = (-1, len(dispatches))
    sizes: list[int] = []
    tenants: list[list[tuple[int, int]]] = []
    slot_of: dict[Value, int] = {}
    for value in sorted(lives, key=lambda v: (-v.texels, lives[v])):
        first, last = lives[value]
        free = (
            slot
            for slot, others in enumerate(tenants)
            if all(last < start or end < first for start, end in others)
        )
        slot = next(free, len(sizes))
        if slot == len(sizes):
            sizes.append(max(16 * value.texels, 16))
            tenants.append([])
        tenants[slot].append((first, last))
        slot_of[value] = slot
    return tuple(sizes), slot_of
