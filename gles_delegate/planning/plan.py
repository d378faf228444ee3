"""Lowered nodes to a plan: the dispatches in order, and the allocations of tensors. No GL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from gles_delegate.device.limits import Limits
from gles_delegate.kernels.choosing import steps_dispatches
from gles_delegate.ops.lib.product import Product
from gles_delegate.planning import fusion
from gles_delegate.planning.biases import take_biases
from gles_delegate.planning.boundary import PortedNodes, SegmentBoundary
from gles_delegate.planning.chains import find_chains, make_chain
from gles_delegate.planning.contraction import contract
from gles_delegate.planning.in_place import drop_copies
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.memory import Allocation, allocate, live_bytes
from gles_delegate.planning.normalization import fuse_normalizations
from gles_delegate.planning.ports import Port
from gles_delegate.planning.products import read_in_place
from gles_delegate.planning.rewriting import Listing, Pass, Scope
from gles_delegate.shaders.assembly import ES_HEADER, ShaderSource, assemble
from gles_delegate.shaders.chains import assemble_chain
from gles_delegate.shaders.dispatch import (
    Alias,
    Const,
    Dispatch,
    DispatchChain,
    Operand,
    Operation,
    SessionInput,
    Value,
    constants_of,
    stored_in_half,
    values_of,
)


@dataclass(frozen=True)
class Plan(SegmentBoundary):
    """The dispatches of a session, and the allocations of their tensors.

    Attributes:
        dispatches: In order of execution.
        inside: For each value that lies inside another: that other, and the byte offset in it.
        buffers: Size of each buffer, in bytes.
        allocations: The range of bytes of each value. A value that is live all through the run has
            its own buffer; others whose live ranges do not overlap share bytes.
        chains: Consecutive dispatches that one work group computes in sequence.
    """

    dispatches: tuple[Dispatch, ...] = ()
    inside: Mapping[Value, tuple[Value, int]] = field(default_factory=dict)
    buffers: tuple[int, ...] = ()
    allocations: Mapping[Value, Allocation] = field(default_factory=dict)
    chains: tuple[range, ...] = ()

    @cached_property
    def groups(self) -> tuple[tuple[Dispatch, ...], ...]:
        """The dispatches, and together the members of a chain, which run as one."""
        starts = {chain.start: chain.stop for chain in self.chains}
        groups: list[tuple[Dispatch, ...]] = []
        at = 0
        while at < len(self.dispatches):
            stop = starts.get(at, at + 1)
            groups.append(self.dispatches[at:stop])
            at = stop
        return tuple(groups)

    def sources(self, limits: Limits, header: str = ES_HEADER) -> list[ShaderSource]:
        """The shader of each of `groups`."""
        return [
            assemble_chain(self.chain(group), limits, header)
            if len(group) > 1
            else assemble(group[0], limits, header)
            for group in self.groups
        ]

    def chain(self, group: Sequence[Dispatch]) -> DispatchChain:
        """The chain of one of `groups`."""
        return make_chain(group, self.allocations)

    def chained(self, limits: Limits) -> Plan:
        """The plan with chains, unless a buffer is larger than a storage block."""
        if any(map(limits.is_large, self.buffers)):
            return self
        return replace(self, chains=find_chains(self.dispatches, self.allocations, limits))

    @property
    def has_textures(self) -> bool:
        """Whether constants are read through textures."""
        return any(const.texture for const in self.constants)

    @cached_property
    def constants(self) -> tuple[Const, ...]:
        """Each packed constant, in order of first use."""
        return tuple(dict.fromkeys(c for d in self.dispatches for c in constants_of(d.operands)))

    @cached_property
    def live_ranges(self) -> dict[Value, tuple[int, int]]:
        """Live range of each value, including values inside it: first and last dispatch.

        Inputs, also the session's, and tensors with their own port are live before the first
        dispatch; these and the outputs are live after the last.
        """
        lives: dict[Value, tuple[int, int]] = {}
        for i, dispatch in enumerate(self.dispatches):
            for value in (*values_of(dispatch.operands), dispatch.output):
                outer, _ = self.inside.get(value, (value, 0))
                lives[outer] = (lives.get(outer, (i, i))[0], i)
        end = len(self.dispatches)
        for tensor, value in self.outputs.items():
            lives[value] = (-1 if tensor in self.results else lives.get(value, (-1, -1))[0], end)
        for values in (self.inputs, self.variables, self.results):
            lives |= dict.fromkeys(values.values(), (-1, end))
        return lives | dict.fromkeys(self.session_inputs, (-1, end))

    @cached_property
    def session_inputs(self) -> tuple[SessionInput, ...]:
        """Each input that the session writes, in order of first use."""
        reads = (read for d in self.dispatches for read in d.operands)
        return tuple(dict.fromkeys(read for read in reads if isinstance(read, SessionInput)))

    @cached_property
    def owners(self) -> dict[int, Value]:
        """The buffers that hold one value all through a run; the other buffer is the arena."""
        always = (-1, len(self.dispatches))
        own = [value for value, live_range in self.live_ranges.items() if live_range == always]
        return {self.allocations[value].buffer: value for value in own}

    @property
    def peak_bytes(self) -> int:
        """Peak live bytes: the lower bound for any allocation."""
        return max(live_bytes(self.live_ranges), default=0)

    def __str__(self) -> str:
        lines: list[str] = []
        for group in self.groups:
            indent = ""
            if len(group) > 1:
                lines.append(f"one work group computes {len(group)} in sequence:")
                indent = "  "
            lines += [f"{indent}{d}  -> {self.allocations[d.output]}" for d in group]
        return "\n".join([*lines, f"{len(self.buffers)} buffers, {sum(self.buffers)} bytes"])


def make_plan(
    lowered: Lowered,
    nodes: Iterable[int],
    limits: Limits,
    half: bool = False,
    ports: Mapping[int, Port] | None = None,
    choices: Mapping[int, int] | None = None,
) -> Plan:
    """Plan nodes of a lowered graph, all of which must have steps.

    The plan's inputs are the tensors that the nodes read and do not compute. Its outputs are the
    tensors they compute that the graph returns or another node reads, and the inputs that a node
    assigns to by an alias, as an LSTM does to its state. Constants are neither. A variable tensor
    is neither: the next run starts with the value it had at the end.

    Args:
        half: Store tensors and weights as float16; see also `Profile.half_products`.
        ports: Entrances of inputs and exits of outputs, by tensor index; by default, row-major
            elements.
        choices: By node index, an index among `Profile.choices`; by default 0.
    """
    ported = PortedNodes.of(lowered, nodes, limits, half, ports or {})
    operations, boundary = _operations(ported)
    scope = Scope(boundary.values, lowered.graph.tensors, limits, half, choices or {})
    dispatches = with_kernels(rewritten(operations, scope), scope)
    if half:
        boundary = boundary.in_half()
    return _allocated(dispatches, boundary, limits.offset_alignment)


def products_of(
    lowered: Lowered, nodes: Iterable[int], limits: Limits, half: bool
) -> tuple[list[Product], Scope]:
    """The products of a plan of these nodes, with all kernels possible; see `make_plan`."""
    operations, boundary = _operations(PortedNodes.of(lowered, nodes, limits, half, {}))
    scope = Scope(boundary.values, lowered.graph.tensors, limits, half, is_tuned=True)
    return [each for each in rewritten(operations, scope) if isinstance(each, Product)], scope


def plan_alone(dispatches: Sequence[Dispatch]) -> Plan:
    """A plan of dispatches without the rest of their network, on inputs of any content."""
    plan = Plan({}, {}, {}, {}, tuple(dispatches))
    buffers, allocations = allocate(plan.live_ranges)
    return replace(plan, buffers=buffers, allocations=allocations)


def _operations(ported: PortedNodes) -> tuple[list[Operation], SegmentBoundary]:
    """The operations of nodes, with aliases replaced by their sources."""
    roots: dict[Operand, Value] = {}
    operations: list[Operation] = []
    for step in ported.steps:
        if isinstance(step, Alias):
            roots[step.output] = roots.get(step.source, step.source)
        elif not step.is_empty:
            reads = tuple(roots.get(read, read) for read in step.reads)
            operations.append(step if reads == step.reads else replace(step, reads=reads))
    return operations, ported.ends(roots)


def rewritten(operations: list[Operation], scope: Scope) -> list[Operation]:
    """What to compute instead, after all of `REWRITES`."""
    listing = Listing(operations, scope)
    for rewrite in REWRITES:
        if not listing.is_single:
            listing = Listing(listing.operations, scope)
        rewrite(listing)
    return listing.operations


def with_kernels(operations: Sequence[Operation], scope: Scope) -> list[Dispatch]:
    """The dispatches, with kernels for the products, as the device can run them."""
    dispatches: list[Dispatch] = []
    for operation in operations:
        dispatches += steps_dispatches([operation], scope.setting(operation.node))
    return [_finished(dispatch, scope) for dispatch in dispatches]


def _finished(dispatch: Dispatch, scope: Scope) -> Dispatch:
    """The dispatch within the device's work groups, stored as float16.

    Values outside the plan are not, and constants only with `Profile.half_weights`.
    """
    limits = scope.limits
    grid = dispatch.grid.within(limits.groups)
    if grid is not dispatch.grid:
        dispatch = replace(dispatch, grid=grid)
    if not scope.half:
        return dispatch
    stays = () if limits.profile.half_weights else Const
    stored = dispatch.reading(lambda x: x if isinstance(x, stays) else stored_in_half(x))
    return replace(stored, output=stored_in_half(dispatch.output))


REWRITES: tuple[Pass, ...] = (
    fusion.absorb_padding,
    Listing.drop_unread,
    fusion.fuse_elementwise,
    take_biases,
    fuse_normalizations,
    contract,
    fusion.fuse_elementwise,
    fusion.move_copies,
    fusion.propagate_copies,
    Listing.drop_unread,
    fusion.join_parts,
    fusion.fuse_elementwise,
    read_in_place,
    fusion.sum_squares,
    fusion.pair_depthwise,
    Listing.drop_unread,
)
"""The rules of a plan, in order."""


def _allocated(dispatches: list[Dispatch], boundary: SegmentBoundary, alignment: int) -> Plan:
    """The plan with allocations, without copies unless that takes more memory."""
    tensors = (boundary.inputs, boundary.outputs, boundary.variables, boundary.results)
    plan = _in_place(Plan(*tensors, tuple(dispatches)), alignment)
    buffers, allocations = allocate(plan.live_ranges)
    for value, (outer, offset) in plan.inside.items():
        allocations[value] = allocations[outer].slice(offset, value.nbytes)
    return replace(plan, buffers=buffers, allocations=allocations)


def _in_place(plan: Plan, alignment: int) -> Plan:
    """The plan with tensors inside others, as far as this does not need more memory.

    A tensor inside another keeps all of that one live. Where too many bytes are live, none lie
    inside the tensors that live there.
    """
    most = plan.peak_bytes
    bound = (plan.inputs, plan.variables, plan.results)
    no_hosts = {value for values in bound for value in values.values()}
    while True:
        dispatches, inside = drop_copies(plan.dispatches, plan.values, no_hosts, alignment)
        result = replace(plan, dispatches=tuple(dispatches), inside=inside)
        if result.peak_bytes <= most:
            return result
        lives = result.live_ranges
        fullest = live_bytes(lives).index(result.peak_bytes) - 1
        hosts = {outer for outer, _ in inside.values()}
        no_hosts |= {v for v in hosts if lives[v][0] <= fullest <= lives[v][1]}
