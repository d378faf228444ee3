"""What a lowering returns: plain data that says which shader runs on which tensors.

Layout of a tensor on the GPU (PHWC4): with C the last dimension and P the product of the
others, ``ceil(C / 4)`` slices of P texels; texel ``slice * P + pixel`` is a vec4 with the
channels ``4 * slice`` to ``4 * slice + 3`` of that pixel. Lanes past C are zero in every
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
Kind: TypeAlias = Literal["float", "int", "half"]
"""The type of a lane: float32, int32 (which holds bool as 0 and 1), float32 stored as float16."""


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


@dataclass(frozen=True)
class Value(_Texels):
    """A tensor on the GPU.

    Attributes:
        tensor: Index of the TFLite tensor it is, or that it helps to compute.
        part: "" for the tensor itself, otherwise the name of a scratch tensor.
        kind: The type of its lanes.
    """

    tensor: int
    shape: Shape
    part: str = ""
    kind: Kind = "float"

    def __str__(self) -> str:
        part = f".{self.part}" if self.part else ""
        return f"t{self.tensor}{part}[{'x'.join(map(str, self.shape))}]"


@dataclass(frozen=True)
class Const(_Texels):
    """Constants on the GPU: what `pack` makes of constant tensors.

    Attributes:
        pack: Called with the tensors' values (None for index -1), then with `args`;
            returns 4 values a texel.
        tensors: Indices of constant TFLite tensors.
        shape: What the packed array stands for.
        kind: The type of its lanes.
    """

    pack: Callable[..., Array]
    tensors: tuple[int, ...]
    shape: Shape
    args: tuple[Define, ...] = ()
    kind: Kind = "float"

    def __str__(self) -> str:
        tensors = ",".join(map(str, self.tensors))
        return f"{self.pack.__name__}({tensors})[{'x'.join(map(str, self.shape))}]"


Operand: TypeAlias = Value | Const


@dataclass(frozen=True)
class Call:
    """An element-wise GLSL function of glsl/lib/elementwise.glsl applied to a result.

    Attributes:
        args: Numbers that follow the result.
        operand: A tensor that joins it: of the output's texels, of one pixel, or of one element;
            or of the first of the output's channels, and zero in the others.
        rows: 0, or the width of the output's rows where the operand's are twice as wide and as
            many: the largest of its 2 x 2 pixels joins the result.
        operand_first: Whether the tensor is the function's first argument, the result its second.
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
        pixels, slices: Invocations needed; rounded up to whole work groups.
        pixel_lanes, slice_lanes: The sizes of a work group.
        slices_in_x: The slices lie along x, where a GPU's neighbouring lanes are and where
            llvmpipe's SIMD vectors are; otherwise the pixels do.
    """

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False

    @property
    def groups(self) -> tuple[int, int, int]:
        """Work groups in x, y and z."""
        p, s = ceil(self.pixels / self.pixel_lanes), ceil(self.slices / self.slice_lanes)
        return (s, p, 1) if self.slices_in_x else (p, s, 1)

    @property
    def local_size(self) -> tuple[int, int, int]:
        """Invocations of a work group in x, y and z."""
        p, s = self.pixel_lanes, self.slice_lanes
        return (s, p, 1) if self.slices_in_x else (p, s, 1)


DispatchT = TypeVar("DispatchT", bound="Dispatch")


@dataclass(frozen=True)
class Dispatch:
    """One run of one compute shader.

    Attributes:
        node: Index of the node it belongs to; -1 where a tensor only enters or leaves the GPU.
        shader: File name in glsl/, or an absolute path, without ``.glsl``.
        reads: Bound to the shader's inputs in this order.
        output: The tensor it writes.
        grid: Its invocations.
        defines: Compile-time constants of the shader.
        epilogue: Applied to each result before it is stored.
        inner: Applied to the first results of a shader that computes two things, one of another.
        partial: It writes only a part of `output`, and keeps the rest.
        textures: The number of textures that it samples: those bound to the tensor of `reads[0]`.
        flops: Floating point operations, for reports; 0 where nobody would ask.
        fused: The other nodes whose work it does as well.
        sizes: Like `defines`, but uniforms. Where there are some, the size of the output is one
            too, and the epilogue's numbers; dispatches that differ in these only share a program.
        choice: The way its tile was chosen; see `ops.tiles`.
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
    choice: int = 0

    def joined(self: DispatchT, *others: Dispatch) -> DispatchT:
        """The same, to be known as doing the work of the nodes of `others` too."""
        dispatches: tuple[Dispatch, ...] = (self, *others)
        nodes = {node for d in dispatches for node in (d.node, *d.fused)} - {-1}
        node = self.node if self.node >= 0 else min(nodes, default=-1)
        return replace(self, node=node, fused=tuple(sorted(nodes - {node})))

    def sized(self: DispatchT, *names: str) -> DispatchT:
        """The same, with these of `defines` as `sizes`."""
        sizes = {name: int(str(self.defines[name])) for name in names}
        defines = {name: value for name, value in self.defines.items() if name not in sizes}
        return replace(self, defines=defines, sizes=sizes)

    @property
    def operands(self) -> tuple[Operand, ...]:
        """All that is read: `reads`, then the operands of the epilogue."""
        return self.reads + tuple(c.operand for c in self.epilogue if c.operand is not None)

    def __str__(self) -> str:
        reads = ", ".join(map(str, self.reads))
        inner, calls = ("".join(f" | {c}" for c in row) for row in (self.inner, self.epilogue))
        groups = "x".join(map(str, self.grid.groups[:2]))
        local = "x".join(map(str, self.grid.local_size[:2]))
        return (
            f"{self.output} = {self.shader}({reads}{inner}){calls}  {groups} groups of {local}, "
            f"node {self.node}{' with ' if self.fused else ''}{', '.join(map(str, self.fused))}"
        )


@dataclass(frozen=True)
class Alias:
    """`output` has the same texels as `source`: no work, one buffer."""

    node: int
    output: Value
    source: Value


Step: TypeAlias = Dispatch | Alias
