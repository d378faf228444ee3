"""The intermediate representation: which shader runs on which tensors, as plain data.

Layout of a tensor on the GPU (PHWC4): let C be the last dimension and P the product of the
others. The tensor has ``ceil(C / 4)`` slices of P texels. Texel ``slice * P + pixel`` is a vec4
with the channels ``4 * slice`` to ``4 * slice + 3`` of that pixel. Lanes past C are zero in every
tensor, so sums over channels need no masks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import Field, dataclass, field, replace
from functools import cached_property
from math import ceil, prod
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

import numpy as np

from gles_delegate.model.graph import Array

Shape: TypeAlias = tuple[int, ...]
Define: TypeAlias = int | float | str | tuple[int, ...]
Argument: TypeAlias = Define | tuple[float, ...]
NumberKey: TypeAlias = tuple[str, int]
"""A number of a define: the define's name, and the index in its tuple, otherwise 0."""
Kind: TypeAlias = Literal["float", "int", "half"]
"""The type of a lane: float32, int32 (bool is 0 or 1), or float32 stored as float16."""


class _Texels:
    """Sizes of the PHWC4 layout, from `shape` and `kind`."""

    shape: Shape
    kind: Kind

    @property
    def channels(self) -> int:
        return self.shape[-1] if self.shape else 1

    @property
    def pixels(self) -> int:
        return prod(self.shape[:-1])

    @property
    def slices(self) -> int:
        return ceil(self.channels / 4)

    @property
    def texels(self) -> int:
        return self.slices * self.pixels

    @property
    def elements(self) -> int:
        return prod(self.shape)

    @property
    def texel_bytes(self) -> int:
        return 8 if self.kind == "half" else 16

    @property
    def nbytes(self) -> int:
        return self.texels * self.texel_bytes

    @property
    def tensor_shape(self) -> Shape | None:
        """The shape of the TFLite tensor that it is; None if it is not a whole one."""
        return None

    def size_defines(self, prefix: str) -> dict[str, Define]:
        """Defines of its sizes, with at least one channel to divide by."""
        return {f"{prefix}_CHANNELS": max(self.channels, 1), f"{prefix}_PIXELS": self.pixels}


_COMPLEX, _COMPLEX_SCALAR = "complex", "complex scalar"


@dataclass(frozen=True)
class Value(_Texels):
    """A tensor on the GPU.

    Attributes:
        tensor: Index of the TFLite tensor, or of the tensor that it helps to compute.
        name: The name of an intermediate result; "" for the tensor itself.
        kind: The type of its lanes.

    Examples:
        >>> value = ops.Value(tensor=3, shape=(1, 8, 8, 6))
        >>> value.slices, value.pixels, value.texels
        (2, 64, 128)
    """

    tensor: int
    shape: Shape
    name: str = ""
    kind: Kind = "float"

    @staticmethod
    def of_complex(tensor: int, shape: Shape) -> Value:
        """A complex tensor, as [2, *shape]: all real parts, then all imaginary ones."""
        if not shape:
            return Value(tensor, (2, 1), _COMPLEX_SCALAR)
        return Value(tensor, (2, *shape), _COMPLEX)

    @property
    def tensors(self) -> tuple[int, ...]:
        """Its tensor, as `Const.tensors`."""
        return (self.tensor,)

    @property
    def tensor_shape(self) -> Shape | None:
        shapes: dict[str, Shape] = {"": self.shape, _COMPLEX: self.shape[1:], _COMPLEX_SCALAR: ()}
        return shapes.get(self.name)

    def __str__(self) -> str:
        name = f".{self.name}" if self.name else ""
        return f"t{self.tensor}{name}[{'x'.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class SessionInput(Value):
    """An input that the session writes before each run; its tensor is -2.

    Attributes:
        content: Called with the number of earlier runs and two random words of the session;
            returns an array of the value's shape.
    """

    content: Callable[[int, Array], Array] = field(kw_only=True)


TEXTURE_WIDTH = 1024
"""Texels in a row of a texture of weights, as in glsl/lib/weights.glsl."""


@dataclass(frozen=True)
class Const(_Texels):
    """Constants on the GPU, packed from constant tensors.

    Attributes:
        pack: Called with the tensors' values (None for index -1) and `args`; returns 4 values per
            texel.
        tensors: Indices of constant TFLite tensors.
        shape: The shape of the packed tensor.
        kind: The type of its lanes.
        texture: Read through a 2D texture with rows of `TEXTURE_WIDTH` texels.
    """

    pack: Callable[..., Array]
    tensors: tuple[int, ...]
    shape: Shape
    args: tuple[Argument, ...] = ()
    kind: Kind = "float"
    texture: bool = False

    def __str__(self) -> str:
        tensors = ",".join(map(str, self.tensors))
        return f"{self.pack.__name__}({tensors})[{'x'.join(map(str, self.shape))}]"


Operand: TypeAlias = Value | Const


def values_of(operands: Iterable[Operand]) -> list[Value]:
    """The operands that are not constants, in order."""
    return [operand for operand in operands if isinstance(operand, Value)]


def constants_of(operands: Iterable[Operand]) -> list[Const]:
    """The operands that are constants, in order."""
    return [operand for operand in operands if isinstance(operand, Const)]


def integer(define: Argument) -> int:
    """A define, or an argument of a `Const`, that is one integer."""
    assert isinstance(define, int)
    return define


def integers(define: Define) -> tuple[int, ...]:
    """A define that is a tuple."""
    assert isinstance(define, tuple)
    return define


OperandT = TypeVar("OperandT", bound=Operand)
OUTSIDE = "outside"
"""The name of values outside a plan: in the layout of a port."""


def stored_in_half(operand: OperandT) -> OperandT:
    """The operand as a plan stores it whose tensors are float16: not outside the plan."""
    if operand.kind != "float" or (isinstance(operand, Value) and operand.name == OUTSIDE):
        return operand
    return replace(operand, kind="half")


@dataclass(frozen=True)
class Call:
    """A call of a function of glsl/lib/elementwise.glsl on a result.

    Attributes:
        args: Numbers passed after the result.
        operand: Another argument: a tensor with the output's texels, one pixel, or one element; or
            with the output's first channels, and zero for the others.
        number: Another argument instead of an operand, the same for each element.
        operand_first: Pass the operand, or the number, before the result.
        rows: 0, or the output's width if the operand is twice as wide and high: the maximum of
            each 2x2 pixels is passed.
        branches: If given, these are the only arguments: each the result after these calls, which
            start from one result.
        kind: The type of what a call with branches returns.
        spread: (), or numbers (a, b, c): the output's pixel p takes the operand's pixel
            p / a * b + p % c, of all channels or the only one.
    """

    function: str
    args: tuple[float, ...] = ()
    operand: Operand | None = None
    operand_first: bool = False
    rows: int = 0
    number: float | None = None
    branches: tuple[tuple[Call, ...], ...] = ()
    kind: Kind = "float"
    spread: tuple[int, ...] = ()

    def reading(self, change: Callable[[Operand], Operand]) -> Call:
        """Return a copy whose operands are changed, and the operands of its branches."""
        branches = tuple(tuple(call.reading(change) for call in calls) for calls in self.branches)
        operand = None if self.operand is None else change(self.operand)
        return replace(self, operand=operand, branches=branches)

    def __str__(self) -> str:
        if self.branches:
            branches = (" | ".join(map(str, calls)) or "." for calls in self.branches)
            return f"{self.function}({', '.join(branches)})"
        operand = f" {'2x2 of ' if self.rows else ''}{self.operand}" if self.operand else ""
        if self.number is not None:
            operand = f" {self.number:g}"
        return f"{self.function}{operand}"


def every_call(calls: Iterable[Call]) -> Iterator[Call]:
    """The calls in order, each followed by those in its branches."""
    for call in calls:
        yield call
        for branch in call.branches:
            yield from every_call(branch)


def call_operands(calls: Iterable[Call]) -> tuple[Operand, ...]:
    """The operands of calls and of their branches, in order."""
    return tuple(call.operand for call in every_call(calls) if call.operand is not None)


@dataclass(frozen=True)
class Grid:
    """The invocations of a dispatch: along the pixels, and along the slices.

    Attributes:
        pixels: Invocations needed along the pixels; rounded up to whole work groups.
        slices: Invocations needed along the slices; likewise.
        pixel_lanes: Size of a work group along the pixels.
        slice_lanes: Size of a work group along the slices.
        slices_in_x: Slices lie along x, the axis of a GPU's neighboring lanes and of llvmpipe's
            SIMD vectors; otherwise pixels do.
        reduction_lanes: Invocations that share each result, a power of two. If several, they lie
            along x, pixels along y and slices along z.
        rows: Work groups along z, if those along the pixels or the slices exceed a device's limit.
        slices_in_rows: These are along the slices.
    """

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False
    reduction_lanes: int = 1
    rows: int = 1
    slices_in_rows: bool = False

    @property
    def groups(self) -> tuple[int, int, int]:
        """Work groups in x, y and z."""
        p, s = ceil(self.pixels / self.pixel_lanes), ceil(self.slices / self.slice_lanes)
        if self.rows == 1:
            return self._xyz(p, s, 1)
        x, y, _ = self._xyz(ceil(p / self.pixel_rows), ceil(s / self.slice_rows), 1)
        return x, y, self.rows

    @property
    def invocations(self) -> int:
        """All invocations, with those beyond the output in the last work groups."""
        return prod(self.groups) * prod(self.local_size)

    def within(self, limits: tuple[int, int, int]) -> Grid:
        """The grid with enough `rows` for a device's limits of work groups."""
        if self.reduction_lanes > 1:
            return self
        for slices in (False, True):
            axis = slices != self.slices_in_x
            groups, most = self.groups[axis], limits[axis]
            if groups > most:
                return replace(self, rows=ceil(groups / most), slices_in_rows=slices)
        return self

    @property
    def pixel_rows(self) -> int:
        """`rows`, if they divide those along the pixels."""
        return 1 if self.slices_in_rows else self.rows

    @property
    def slice_rows(self) -> int:
        """`rows`, if they divide those along the slices."""
        return self.rows if self.slices_in_rows else 1

    @property
    def local_size(self) -> tuple[int, int, int]:
        """Invocations of a work group in x, y and z."""
        return self._xyz(self.pixel_lanes, self.slice_lanes, self.reduction_lanes)

    def _xyz(self, pixels: int, slices: int, reduction: int) -> tuple[int, int, int]:
        if self.reduction_lanes > 1:
            return reduction, pixels, slices
        return (slices, pixels, 1) if self.slices_in_x else (pixels, slices, 1)


OperationT = TypeVar("OperationT", bound="Operation")


class Operation:
    """What computes one tensor from others: a `Dispatch`, or a product that becomes some.

    Attributes:
        node: Index of its node; -1 for a layout conversion where a tensor enters or leaves.
        reads: Its inputs.
        output: The tensor it writes.
        epilogue: Applied to each result before it is stored.
        fused: The other nodes that it computes.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    node: int
    reads: tuple[Operand, ...]
    output: Value
    epilogue: tuple[Call, ...]
    fused: tuple[int, ...]

    @property
    def partial(self) -> bool:
        """Whether it writes some texels of `output`, and keeps the others."""
        return False

    @property
    def passes(self) -> int:
        """Upper bound of an invocation's passes through loops; 0 if it is not known yet."""
        return 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return not self.output.texels

    @property
    def numbers(self) -> dict[str, Define]:
        """Constants and sizes of its shader; none before it has one."""
        return {}

    @cached_property
    def operands(self) -> tuple[Operand, ...]:
        """Everything that is read: `reads`, then the operands of the epilogue."""
        return self.reads + call_operands(self.epilogue)

    @property
    def read_count(self) -> int:
        """Tensors that its shader reads."""
        return len(self.operands)

    def joined(self: OperationT, *others: Operation) -> OperationT:
        """Return a copy that is attributed to the nodes of `others`, too."""
        operations: tuple[Operation, ...] = (self, *others)
        nodes = {node for each in operations for node in (each.node, *each.fused)} - {-1}
        node = self.node if self.node >= 0 else min(nodes, default=-1)
        return replace(self, node=node, fused=tuple(sorted(nodes - {node})))

    def reading(self: OperationT, change: Callable[[Operand], Operand]) -> OperationT:
        """Return a copy whose operands are changed."""
        reads = tuple(map(change, self.reads))
        epilogue = tuple(call.reading(change) for call in self.epilogue)
        return replace(self, reads=reads, epilogue=epilogue)


DispatchT = TypeVar("DispatchT", bound="Dispatch")


@dataclass(frozen=True)
class Dispatch(Operation):
    """One dispatch of one compute shader.

    Attributes:
        node: Index of its node; -1 for a layout conversion where a tensor enters or leaves.
        shader: File name in glsl/, or an absolute path, without ``.glsl``.
        reads: The shader's inputs, in the order of their bindings.
        output: The tensor it writes.
        grid: Its invocations.
        defines: Compile-time constants of the shader.
        epilogue: Applied to each result before it is stored.
        inner: Applied to the intermediate results of a shader that computes two fused ops.
        partial: It writes some texels of `output`, and keeps the others.
        pixels: The first pixel and the number of those that it may write; None: all.
        textures: The number of textures that it samples, bound to the tensor of `reads[0]`.
        flops: Floating-point operations, for reports; 0 if not counted.
        fused: The other nodes that it computes.
        sizes: Like `defines`, but passed as uniforms, together with the size of the output and
            the numbers of the epilogue. Dispatches that differ only in these share a program.
        uniforms: Other numbers passed as uniforms, because they differ between shapes of the
            model's inputs.
        general: The program also suits outputs of any channels, and parts of them.
        passes: Upper bound of an invocation's passes through loops. A loop after or inside another
            takes one more, which ends it.
        unrolled: Texels that an invocation computes by unrolled code.

    Examples:
        >>> def lowering(node: ops.NodeView, options: ops.Options) -> list[ops.Dispatch]:
        ...     x = node.input(0)
        ...     output = node.output(x.shape)
        ...     grid = ops.make_grid(output.pixels, output.slices, node.limits)
        ...     return [node.dispatch("/path/to/shader", (x,), output, grid, {"LEVELS": 4})]
    """

    node: int
    shader: str
    reads: tuple[Operand, ...]
    output: Value
    grid: Grid
    defines: Mapping[str, Define] = field(default_factory=dict)
    epilogue: tuple[Call, ...] = ()
    inner: tuple[Call, ...] = ()
    partial: bool = False
    pixels: tuple[int, int] | None = None
    textures: int = 0
    flops: int = 0
    fused: tuple[int, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    uniforms: frozenset[NumberKey] = frozenset()
    general: bool = False
    passes: int = 0
    unrolled: int = 1

    def sized(self: DispatchT, *names: str) -> DispatchT:
        """Return a copy with these of `defines` moved to `sizes`."""
        sizes = {**self.sizes, **{name: integer(self.defines[name]) for name in names}}
        defines = {name: value for name, value in self.defines.items() if name not in names}
        return replace(self, defines=defines, sizes=sizes)

    @property
    def most_passes(self) -> int:
        """`passes`, or, as a loop may read them all, the texels of the largest constant."""
        return self.passes or max((c.texels for c in constants_of(self.operands)), default=4)

    def by_pixel(self) -> Dispatch:
        """The same with one pixel an invocation, if its shader has an unrolled loop over them."""
        return self

    @property
    def is_empty(self) -> bool:
        return not prod(self.grid.groups)

    @property
    def numbers(self) -> dict[str, Define]:
        """`defines` and `sizes`, with the size of the output."""
        size = {"OUT_CHANNELS": self.output.channels, "OUT_PIXELS": self.output.pixels}
        return {**self.defines, **self.sizes, **size}

    @property
    def traffic(self) -> int:
        """Bytes that it must read and write, each texel once."""
        written = self.output.nbytes
        if self.partial:
            written = min(written, self.grid.invocations * self.output.texel_bytes)
        read = [operand.nbytes for operand in {*self.operands}]
        if not self.passes:  # without loops it reads about one texel for each that it writes
            read = [min(size, written) for size in read]
        return sum(read) + written

    @property
    def written(self) -> Array:
        """Which lanes of the output it may write, of [slices, pixels, 4]."""
        first, count = self.pixels or (0, self.output.pixels)
        written = np.zeros((self.output.slices, self.output.pixels, 4), np.bool_)
        written[:, first : first + count] = True
        return written

    @property
    def writes_all(self) -> bool:
        """Whether it writes all of `written`; otherwise its operands decide."""
        return not self.partial

    @property
    def most_texels(self) -> int:
        """Texels of the largest tensor that it reads or writes."""
        return max(tensor.texels for tensor in (*self.operands, self.output))

    def __str__(self) -> str:
        reads = ", ".join(map(str, self.reads))
        inner, calls = ("".join(f" | {c}" for c in row) for row in (self.inner, self.epilogue))
        axes = 3 if self.grid.reduction_lanes > 1 else 2
        groups = "x".join(map(str, self.grid.groups[:axes]))
        local = "x".join(map(str, self.grid.local_size[:axes]))
        node = f", node {self.node}" if self.node >= 0 else ""
        fused = f" with {', '.join(map(str, self.fused))}" if self.fused else ""
        return (
            f"{self.output} = {self.shader}({reads}{inner}){calls}  {groups} groups of {local}"
            f"{node}{fused}"
        )


@dataclass(frozen=True)
class OperandPlace:
    """Where the members of a chain find an operand.

    Attributes:
        number: Index among `DispatchChain.blocks`, or `DispatchChain.images`.
        offset: Its first texel there.
    """

    is_image: bool
    number: int
    offset: int = 0


@dataclass(frozen=True)
class DispatchChain:
    """Small dispatches that one work group computes in sequence, in one dispatch.

    Attributes:
        members: The dispatches in order.
        blocks: Storage blocks: the number of a plan's buffer, and the type of the lanes.
        images: Constants that are read through buffer textures.
        places: Of each operand and output.
    """

    members: tuple[Dispatch, ...]
    blocks: tuple[tuple[int, Kind], ...]
    images: tuple[Const, ...]
    places: Mapping[Operand, OperandPlace]


@dataclass(frozen=True)
class Alias:
    """`output` has the same texels as `source`, so both share one buffer."""

    node: int
    output: Value
    source: Value

    @property
    def reads(self) -> tuple[Operand, ...]:
        return (self.source,)


Step: TypeAlias = Operation | Alias
