"""The intermediate representation: which shader runs on which tensors, as plain data.

Layout of a tensor on the GPU (PHWC4): let C be the last dimension and P the product of the
others. The tensor has ``ceil(C / 4)`` slices of P texels. Texel ``slice * P + pixel`` is a vec4
with the channels ``4 * slice`` to ``4 * slice + 3`` of that pixel. Lanes past C are zero in every
tensor, so sums over channels need no masks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import Literal, TypeAlias, TypeVar

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

    def size_defines(self, prefix: str) -> dict[str, Define]:
        """Defines of its sizes, with at least one channel to divide by."""
        return {f"{prefix}_CHANNELS": max(self.channels, 1), f"{prefix}_PIXELS": self.pixels}


_COMPLEX = "complex"


@dataclass(frozen=True)
class Value(_Texels):
    """A tensor on the GPU.

    Attributes:
        tensor: Index of the TFLite tensor, or of the tensor that it helps to compute.
        name: The name of an intermediate result; "" for the tensor itself.
        kind: The type of its lanes.
    """

    tensor: int
    shape: Shape
    name: str = ""
    kind: Kind = "float"

    @staticmethod
    def of_complex(tensor: int, shape: Shape) -> Value:
        """A complex tensor, as [2, *shape]: all real parts, then all imaginary ones."""
        return Value(tensor, (2, *(shape or (1,))), _COMPLEX)

    @property
    def tensor_shape(self) -> Shape | None:
        """The shape of the tensor; None for an intermediate result."""
        return {"": self.shape, _COMPLEX: self.shape[1:]}.get(self.name)

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


@dataclass(frozen=True)
class Call:
    """A call of a function of glsl/lib/elementwise.glsl on a result.

    Attributes:
        args: Numbers passed after the result.
        operand: Another argument: a tensor with the output's texels, one pixel, or one element; or
            with the output's first channels, and zero for the others.
        operand_first: Pass the operand before the result.
        rows: 0, or the output's width if the operand is twice as wide and high: the maximum of
            each 2x2 pixels is passed.
    """

    function: str
    args: tuple[float, ...] = ()
    operand: Operand | None = None
    operand_first: bool = False
    rows: int = 0

    def __str__(self) -> str:
        operand = f" {'2x2 of ' if self.rows else ''}{self.operand}" if self.operand else ""
        return f"{self.function}{operand}"


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
        rows: Work groups along z, if the work groups along the pixels exceed a device's limit.
    """

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False
    reduction_lanes: int = 1
    rows: int = 1

    @property
    def groups(self) -> tuple[int, int, int]:
        """Work groups in x, y and z."""
        p, s = ceil(self.pixels / self.pixel_lanes), ceil(self.slices / self.slice_lanes)
        if self.rows > 1:
            x, y, _ = self._xyz(ceil(p / self.rows), s, 1)
            return x, y, self.rows
        return self._xyz(p, s, 1)

    def within(self, limits: tuple[int, int, int]) -> Grid:
        """The grid with enough `rows` for a device's limits of work groups."""
        pixels, most = self.groups[self.slices_in_x], limits[self.slices_in_x]
        if self.reduction_lanes > 1 or pixels <= most:
            return self
        return replace(self, rows=ceil(pixels / most))

    @property
    def local_size(self) -> tuple[int, int, int]:
        """Invocations of a work group in x, y and z."""
        return self._xyz(self.pixel_lanes, self.slice_lanes, self.reduction_lanes)

    def _xyz(self, pixels: int, slices: int, reduction: int) -> tuple[int, int, int]:
        if self.reduction_lanes > 1:
            return reduction, pixels, slices
        return (slices, pixels, 1) if self.slices_in_x else (pixels, slices, 1)


DispatchT = TypeVar("DispatchT", bound="Dispatch")


@dataclass(frozen=True)
class Dispatch:
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
        textures: The number of textures that it samples, bound to the tensor of `reads[0]`.
        flops: Floating-point operations, for reports; 0 if not counted.
        fused: The other nodes that it computes.
        sizes: Like `defines`, but passed as uniforms, together with the size of the output and
            the numbers of the epilogue. Dispatches that differ only in these share a program.
        uniforms: Other numbers passed as uniforms, because they differ between shapes of the
            model's inputs.
        choice: Index among `Profile.choices` that its register tile was chosen by.
        passes: Upper bound of an invocation's passes through loops. A loop after or inside another
            takes one more, which ends it.
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
    textures: int = 0
    flops: int = 0
    fused: tuple[int, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    uniforms: frozenset[NumberKey] = frozenset()
    choice: int = 0
    passes: int = 0

    def joined(self: DispatchT, *others: Dispatch) -> DispatchT:
        """Return a copy that is attributed to the nodes of `others`, too."""
        dispatches: tuple[Dispatch, ...] = (self, *others)
        nodes = {node for d in dispatches for node in (d.node, *d.fused)} - {-1}
        node = self.node if self.node >= 0 else min(nodes, default=-1)
        return replace(self, node=node, fused=tuple(sorted(nodes - {node})))

    def sized(self: DispatchT, *names: str) -> DispatchT:
        """Return a copy with these of `defines` moved to `sizes`."""
        sizes = {name: int(str(self.defines[name])) for name in names}
        defines = {name: value for name, value in self.defines.items() if name not in sizes}
        return replace(self, defines=defines, sizes=sizes)

    @property
    def numbers(self) -> dict[str, Define]:
        """`defines` and `sizes`, with the size of the output."""
        size = {"OUT_CHANNELS": self.output.channels, "OUT_PIXELS": self.output.pixels}
        return {**self.defines, **self.sizes, **size}

    @property
    def operands(self) -> tuple[Operand, ...]:
        """Everything that is read: `reads`, then the operands of the epilogue."""
        return self.reads + tuple(c.operand for c in self.epilogue if c.operand is not None)

    def __str__(self) -> str:
        reads = ", ".join(map(str, self.reads))
        inner, calls = ("".join(f" | {c}" for c in row) for row in (self.inner, self.epilogue))
        axes = 3 if self.grid.reduction_lanes > 1 else 2
        groups = "x".join(map(str, self.grid.groups[:axes]))
        local = "x".join(map(str, self.grid.local_size[:axes]))
        fused = f" with {', '.join(map(str, self.fused))}" if self.fused else ""
        return (
            f"{self.output} = {self.shader}({reads}{inner}){calls}  {groups} groups of {local}, "
            f"node {self.node}{fused}"
        )


@dataclass(frozen=True)
class Alias:
    """`output` has the same texels as `source`, so both share one buffer."""

    node: int
    output: Value
    source: Value


Step: TypeAlias = Dispatch | Alias
