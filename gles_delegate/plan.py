"""Lowered nodes to a plan: what is dispatched in which order, on which buffers. No GL."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TypeVar

from gles_delegate.dispatch import Alias, Const, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.fusion import drop_unused, fuse_elementwise
from gles_delegate.graph import Tensor
from gles_delegate.limits import Limits
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.movement import View, view
from gles_delegate.ops.registry import lane_kind
from gles_delegate.partition import Lowered

OperandT = TypeVar("OperandT", bound=Operand)

HOST = "host"
"""Part name of a tensor's elements in row-major order, as the CPU sees them."""


@dataclass(frozen=True)
class Plan:
    """What a session runs.

    Attributes:
        dispatches: In order of execution.
        inputs: Tensor index to the row-major value that the CPU fills before a run.
        outputs: Tensor index to the row-major value that holds the result after it.
        variables: Tensor index to the row-major value that lasts from one run to the next.
        slots: Bytes of each buffer for the values of the plan.
        slot_of: The buffer of each value; values that never live together share one.
    """

    dispatches: tuple[Dispatch, ...]
    inputs: Mapping[int, Value]
    outputs: Mapping[int, Value]
    variables: Mapping[int, Value]
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


def make_plan(lowered: Lowered, nodes: Iterable[int], limits: Limits, half: bool = False) -> Plan:
    """Plan the nodes `nodes` of a lowered graph, all of which must have steps.

    `half` stores tensors and weights as float16; sums are float32 all the same.

    Inputs of the plan are the tensors that the nodes read and do not compute; outputs are
    those they compute that the graph returns or another node reads. Constants are neither, nor
    is a variable tensor: a node assigns to it by an alias, and what it is at the end the next
    run begins with.
    """
    chosen = sorted(nodes)
    inputs, outputs = _boundary(lowered, chosen)
    shapes = lowered.shapes
    upload, download = (
        {t: _HostCopy(lowered.graph.tensors[t], shapes[t], limits, half) for t in tensors}
        for tensors in (inputs, outputs)
    )
    steps: list[Step] = [copy.upload() for copy in upload.values()]
    steps += [step for index in chosen for step in lowered.steps[index]]
    assigned = {step.output for step in steps[len(upload) :]}
    steps += [copy.download() for copy in download.values()]
    steps += [copy.write_back() for copy in upload.values() if copy.value in assigned]
    roots, dispatches = _resolve(steps)
    hosts = {t: copy.host for t, copy in upload.items()}
    variables = {t: host for t, host in hosts.items() if lowered.graph.tensors[t].is_variable}
    host_inputs = {t: host for t, host in hosts.items() if t not in variables}
    host_outputs = {t: _root(copy.host, roots) for t, copy in download.items()}
    kept = {*hosts.values(), *host_outputs.values()}
    dispatches = fuse_elementwise(dispatches, kept, limits)
    dispatches = drop_unused(dispatches, kept)
    if half:
        dispatches = [_in_half(dispatch) for dispatch in dispatches]
    slots, slot_of = _assign_slots(dispatches, kept)
    return Plan(tuple(dispatches), host_inputs, host_outputs, variables, slots, slot_of)


def _boundary(lowered: Lowered, nodes: Sequence[int]) -> tuple[list[int], list[int]]:
    graph = lowered.graph
    inside = set(nodes)
    made = {t for index in nodes for t in graph.nodes[index].outputs}
    read = {v.tensor for i in nodes for v in _values(lowered.steps[i]) if v.tensor not in made}
    wanted = set(graph.outputs).union(
        *(node.inputs for node in graph.nodes if node.index not in inside)
    )
    constants = {t.index for t in graph.tensors if t.is_constant}
    return sorted(read), sorted(made & wanted - constants)


def _values(steps: Iterable[Step]) -> Iterable[Value]:
    for step in steps:
        operands: tuple[Operand, ...] = step.reads if isinstance(step, Dispatch) else (step.source,)
        yield from (operand for operand in operands if isinstance(operand, Value))


@dataclass(frozen=True)
class _HostCopy:
    """The way of a tensor between the CPU's row-major elements and the GPU's texels."""

    tensor: Tensor
    shape: Shape
    limits: Limits
    half: bool

    @property
    def value(self) -> Value:
        kind = lane_kind(self.tensor)
        if kind is None:
            raise ValueError(f"tensor {self.tensor.index} is {self.tensor.dtype}")
        return Value(self.tensor.index, self.shape, kind=kind)

    @property
    def host(self) -> Value:
        """The elements, four to a texel or, of bytes, sixteen."""
        if self._bytes:
            return Value(self.tensor.index, (ceil(self.value.elements / 16), 4), HOST, "int")
        shape = self.shape if self._is_row_major else (ceil(self.value.elements / 4), 4)
        return Value(self.tensor.index, shape, HOST, self.value.kind)

    def upload(self) -> Step:
        if self._bytes:
            return self._converted("unpack_bytes", self.host, self.value)
        if self._is_row_major:
            return Alias(-1, self.value, self.host)
        whole = View((self.value.elements,), (1,))
        return view(self.host, self.value, whole, self.limits, -1)

    def download(self) -> Step:
        if self._is_row_major and not self._bytes:
            return Alias(-1, self.host, self.value)
        return self.write_back()

    def write_back(self) -> Step:
        """Like `download`, but always into the value `host` itself."""
        if self._bytes:
            return self._converted("pack_bytes", self.value, self.host)
        whole = View((self.host.elements,), (1,))
        return view(self.value, self.host, whole, self.limits, -1)

    @property
    def _bytes(self) -> bool:
        return self.tensor.dtype in ("uint8", "int8", "bool")

    @property
    def _is_row_major(self) -> bool:
        """Whether the tensor's texels hold its elements in row-major order, as they are."""
        return not self.half and (self.value.channels == 4 or self.value.pixels == 1)

    def _converted(self, shader: str, source: Value, output: Value) -> Dispatch:
        quantization = self.tensor.quantization
        defines: dict[str, Define] = {
            "CHANNELS": self.value.channels,
            "PIXELS": self.value.pixels,
            "SIGNED": int(self.tensor.dtype == "int8"),
        }
        if self.tensor.is_quantized:
            defines["SCALE"] = quantization.scales[0]
            defines["ZERO_POINT"] = (*quantization.zero_points, 0)[0]
        grid = make_grid(output.pixels, output.slices, self.limits)
        return Dispatch(-1, shader, (source,), output, grid, defines)


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


def _in_half(dispatch: Dispatch) -> Dispatch:
    """With every float tensor stored as float16, but those that the CPU sees."""

    def stored(operand: OperandT) -> OperandT:
        if operand.kind != "float" or (isinstance(operand, Value) and operand.part == HOST):
            return operand
        return replace(operand, kind="half")

    return replace(
        dispatch,
        reads=tuple(map(stored, dispatch.reads)),
        output=stored(dispatch.output),
        epilogue=tuple(
            replace(call, operand=call.operand and stored(call.operand))
            for call in dispatch.epilogue
        ),
    )


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
    for value in sorted(lives, key=lambda v: (-v.nbytes, lives[v])):
        first, last = lives[value]
        free = (
            slot
            for slot, others in enumerate(tenants)
            if all(last < start or end < first for start, end in others)
        )
        slot = next(free, len(sizes))
        if slot == len(sizes):
            sizes.append(max(value.nbytes, 16))
            tenants.append([])
        tenants[slot].append((first, last))
        slot_of[value] = slot
    return tuple(sizes), slot_of
