"""Lowered nodes to a plan: the dispatches in order, and where their tensors lie. No GL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import TypeVar

from gles_delegate.dispatch import RUNS, Alias, Const, Dispatch, Operand, Step, Value
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Graph
from gles_delegate.ops.lib.weights import with_small_weights
from gles_delegate.planning.fusion import (
    concatenate_in_place,
    eliminate_dead_code,
    fuse_depthwise,
    fuse_elementwise,
    propagate_copies,
)
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.memory import Allocation, allocate, live_bytes
from gles_delegate.planning.normalization import fuse_normalizations
from gles_delegate.planning.ports import OUTSIDE, Edge, Elements, Port, entrance, exit_of

OperandT = TypeVar("OperandT", bound=Operand)


@dataclass(frozen=True)
class Plan:
    """What a session runs.

    Attributes:
        dispatches: In order of execution.
        inputs: By tensor index, the value that is filled before a run, in the layout of its port.
        outputs: By tensor index, the value that holds the result, in the layout of its port.
        variables: By tensor index, the row-major value that lasts from one run to the next.
        results: By tensor index, the tensor itself, for outputs that have a port of their own.
        inside: For each value that lies inside another: that other, and the byte offset in it.
        buffers: Size of each buffer, in bytes.
        allocations: Where each value lies. A value that is live all through the run has a buffer
            of its own; others whose live ranges do not overlap share bytes.
    """

    dispatches: tuple[Dispatch, ...]
    inputs: Mapping[int, Value]
    outputs: Mapping[int, Value]
    variables: Mapping[int, Value]
    results: Mapping[int, Value]
    inside: Mapping[Value, tuple[Value, int]] = field(default_factory=dict)
    buffers: tuple[int, ...] = ()
    allocations: Mapping[Value, Allocation] = field(default_factory=dict)

    @property
    def has_textures(self) -> bool:
        """Whether constants are read through textures."""
        return any(const.texture for const in self.constants)

    @property
    def constants(self) -> tuple[Const, ...]:
        """Each packed constant, in order of first use."""
        reads = (read for d in self.dispatches for read in d.operands)
        return tuple(dict.fromkeys(read for read in reads if isinstance(read, Const)))

    @property
    def live_ranges(self) -> dict[Value, tuple[int, int]]:
        """Live range of each value, including values inside it: first and last dispatch.

        Inputs, tensors with a port of their own and `RUNS` are live before the first dispatch;
        these and the outputs are live after the last.
        """
        lives: dict[Value, tuple[int, int]] = {}
        for i, dispatch in enumerate(self.dispatches):
            for value in (*dispatch.operands, dispatch.output):
                if isinstance(value, Value):
                    outer, _ = self.inside.get(value, (value, 0))
                    lives[outer] = (lives.get(outer, (i, i))[0], i)
        end = len(self.dispatches)
        for tensor, value in self.outputs.items():
            lives[value] = (-1 if tensor in self.results else lives.get(value, (-1, -1))[0], end)
        for values in (self.inputs, self.variables, self.results):
            lives |= dict.fromkeys(values.values(), (-1, end))
        return lives | ({RUNS: (-1, end)} if RUNS in lives else {})

    @property
    def owners(self) -> dict[int, Value]:
        """The buffers that a value has to itself all through a run; the other one is the arena."""
        always = (-1, len(self.dispatches))
        own = [value for value, live_range in self.live_ranges.items() if live_range == always]
        return {self.allocations[value].buffer: value for value in own}

    @property
    def peak_bytes(self) -> int:
        """Peak live bytes: the lower bound for any allocation."""
        return max(live_bytes(self.live_ranges), default=0)

    def __str__(self) -> str:
        lines = [f"{d}  -> {self.allocations[d.output]}" for d in self.dispatches]
        total = sum(self.buffers)
        return "\n".join([*lines, f"{len(self.buffers)} buffers, {total} bytes"])


def make_plan(
    lowered: Lowered,
    nodes: Iterable[int],
    limits: Limits,
    half: bool = False,
    ports: Mapping[int, Port] | None = None,
) -> Plan:
    """Plan some nodes of a lowered graph, all of which must have steps.

    The plan's inputs are the tensors that the nodes read and do not compute. Its outputs are the
    tensors they compute that the graph returns or another node reads, and the inputs that a node
    assigns to by an alias, as an LSTM does to its state. Constants are neither. A variable tensor
    is neither: the next run starts with the value it had at the end.

    Args:
        half: Store tensors and weights as float16; see also `Profile.half_products`.
        ports: By tensor index, how inputs enter and outputs leave; the default is row-major
            elements.
    """
    wanted = set(nodes)
    chosen = [node.index for node in lowered.graph.in_order if node.index in wanted]
    tensors, shapes, given = lowered.graph.tensors, lowered.shapes, ports or {}
    entering, leaving = (
        [(given.get(t, Elements()), Edge(tensors[t], shapes[t], limits, half)) for t in boundary]
        for boundary in _boundary(lowered, chosen)
    )
    steps: list[Step] = [entrance(port).enter(edge) for port, edge in entering]
    steps += [step for index in chosen for step in lowered.steps[index]]
    made = {step.output for step in steps[len(entering) :]}
    assigned = {edge.tensor.index for _, edge in entering if edge.value in made}
    steps += [exit_of(port).leave(edge) for port, edge in leaving]
    states = [(exit_of(port), edge) for port, edge in entering if edge.tensor.index in assigned]
    steps += [port.write_back(edge) for port, edge in states]
    roots, dispatches = _resolve(steps)
    outside = {edge.tensor.index: port.outside(edge) for port, edge in entering}
    variables = {t: value for t, value in outside.items() if tensors[t].is_variable}
    inputs = {t: value for t, value in outside.items() if t not in variables}
    outputs = {edge.tensor.index: _root(port.outside(edge), roots) for port, edge in leaving}
    outputs |= {t: value for t, value in inputs.items() if t in assigned - given.keys()}
    results = {t: _root(e.value, roots) for _, e in leaving if (t := e.tensor.index) in given}
    kept = {*outside.values(), *outputs.values(), *results.values()}
    dispatches = fuse_elementwise(dispatches, kept, limits)
    normalized = fuse_normalizations(dispatches, tensors, limits)
    if normalized != dispatches:
        dispatches = fuse_elementwise(eliminate_dead_code(normalized, kept), kept, limits)
    dispatches = propagate_copies(dispatches, kept, limits)
    dispatches = fuse_depthwise(eliminate_dead_code(dispatches, kept), kept, limits)
    dispatches = eliminate_dead_code(dispatches, kept)

    dispatches = [with_small_weights(d, limits, tensors, half) for d in dispatches]
    dispatches = [replace(d, grid=d.grid.within(limits.groups)) for d in dispatches]
    if half:
        dispatches = [_in_half(dispatch) for dispatch in dispatches]
        outputs, results = (
            {t: _stored_in_half(value) for t, value in values.items()}
            for values in (outputs, results)
        )
    kept = {*outside.values(), *outputs.values(), *results.values()}
    plan = Plan(tuple(dispatches), inputs, outputs, variables, results)
    dispatches, inside = concatenate_in_place(dispatches, kept)
    in_place = replace(plan, dispatches=tuple(dispatches), inside=inside)
    # A value inside another keeps all of it live, which may take more memory than it saves.
    if inside and in_place.peak_bytes <= plan.peak_bytes:
        plan = in_place
    buffers, allocations = allocate(plan.live_ranges)
    for value, (outer, offset) in plan.inside.items():
        allocations[value] = allocations[outer].part(offset, value.nbytes)
    return replace(plan, buffers=buffers, allocations=allocations)


def results_of(graph: Graph, nodes: Iterable[int]) -> set[int]:
    """The tensors that nodes compute, and that the graph returns or another node reads."""
    inside = set(nodes)
    made = {t for index in inside for t in graph.nodes[index].outputs}
    others = (node.inputs for node in graph.nodes if node.index not in inside)
    return made & set(graph.outputs).union(*others)


def _boundary(lowered: Lowered, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    graph = lowered.graph
    made = {t for index in nodes for t in graph.nodes[index].outputs}
    taken = {t for index in nodes for t in graph.nodes[index].inputs} - made
    steps = [step for index in nodes for step in lowered.steps[index]]
    used = {v.tensor for v in _values(steps)}
    used |= {step.output.tensor for step in steps if step.output.tensor in lowered.uses.tensors}
    constants = {t.index for t in graph.tensors if t.is_constant}
    return sorted(used & taken), sorted(results_of(graph, nodes) - constants)


def _values(steps: Iterable[Step]) -> Iterable[Value]:
    for step in steps:
        operands: tuple[Operand, ...] = step.reads if isinstance(step, Dispatch) else (step.source,)
        yield from (operand for operand in operands if isinstance(operand, Value))


def _resolve(steps: Sequence[Step]) -> tuple[dict[Value, Value], list[Dispatch]]:
    """Resolve the aliases: what each stands for, and the dispatches with aliases replaced."""
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


def _in_half(dispatch: Dispatch) -> Dispatch:
    """Store every float tensor as float16, except those outside the plan."""
    return replace(
        dispatch,
        reads=tuple(map(_stored_in_half, dispatch.reads)),
        output=_stored_in_half(dispatch.output),
        epilogue=tuple(
            replace(call, operand=call.operand and _stored_in_half(call.operand))
            for call in dispatch.epilogue
        ),
    )


def _stored_in_half(operand: OperandT) -> OperandT:
    if operand.kind != "float" or (isinstance(operand, Value) and operand.part == OUTSIDE):
        return operand
    return replace(operand, kind="half")
