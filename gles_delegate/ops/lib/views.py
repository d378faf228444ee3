"""Strided views: dispatches that only move elements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, prod
from typing import Literal, TypeAlias, get_args

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import merged, row_major
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.shaders.dispatch import (
    Alias,
    Call,
    Define,
    Dispatch,
    Operand,
    Shape,
    Step,
    Value,
    values_of,
)

Mirror: TypeAlias = Literal["", "REFLECT", "SYMMETRIC", "WRAP"]
_MIRRORS = get_args(Mirror)


@dataclass(frozen=True)
class View:
    """A strided view: which source element each element of a target shows.

    Elements are counted in row-major order. The element with coordinates c in `sizes` shows the
    source's element ``offset + sum(c * strides)``. If some c is outside its bounds
    ``lower <= c < upper``, it is mirrored at the bound, without ("REFLECT") or with ("SYMMETRIC")
    repeating the outermost element, or goes on at `lower` ("WRAP"); without a `mirror`, the element
    is the fill. It is also the fill if the source has no such element.
    """

    sizes: Shape
    strides: Shape
    offset: int = 0
    lower: Shape = ()
    upper: Shape = ()
    mirror: Mirror = ""

    @property
    def bounds(self) -> tuple[Shape, Shape]:
        """`lower` and `upper` with their defaults."""
        return self.lower or (0,) * len(self.sizes), self.upper or self.sizes

    @property
    def has_bounds(self) -> bool:
        return bool(self.upper) and (any(self.lower) or self.upper != self.sizes)

    def is_whole(self, source: Operand) -> bool:
        """Whether it shows all elements of `source` in order."""
        in_order = merged(self.sizes, self.strides) == ((source.elements,), (1,))
        return in_order and not (self.offset or self.has_bounds)

    def through(self, inner: View) -> View | None:
        """The view of the source of `inner`, by which `inner` shows the elements in order.

        None if a dimension runs across dimensions of `inner`, has bounds, or runs backwards.
        """
        if self.has_bounds or inner.has_bounds or min((self.offset, *self.strides)) < 0:
            return None
        dims = [*zip(row_major(inner.sizes), inner.sizes, inner.strides, strict=True)]
        # How far this view reaches in each: first to its first element, then to its last.
        last = [self.offset // unit % size for unit, size, _ in dims]
        offset = inner.offset + sum(i * step for i, (_, _, step) in zip(last, dims, strict=True))
        pieces: list[tuple[int, int]] = []  # sizes and strides in the source, the last one first
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            while size > 1 and stride:
                along = (i for i, (unit, n, _) in enumerate(dims) if unit <= stride < unit * n)
                at = next(along, None)
                if at is None or stride % dims[at][0]:
                    return None
                unit, count, step = dims[at]
                jump = stride // unit
                steps = min(size, -(-count // jump))
                if steps < size and (size % steps or count % jump):
                    return None
                last[at] += jump * (steps - 1)
                pieces.append((steps, jump * step))
                size, stride = size // steps, unit * count
            if size != 1:
                pieces.append((size, 0))
        if any(i >= n for i, (_, n, _) in zip(last, dims, strict=True)):
            return None
        sizes, strides = ([piece[i] for piece in reversed(pieces)] for i in (0, 1))
        return View(tuple(sizes), tuple(strides), offset)

    def simplified(self) -> View:
        """The same elements with at least one dimension; without bounds, as few as possible."""
        if not self.sizes:
            return View((1,), (1,), self.offset)
        if self.has_bounds or len(self.sizes) == 1:
            return self
        sizes, strides = merged(self.sizes[:-1], self.strides[:-1])
        return View((*sizes, self.sizes[-1]), (*strides, self.strides[-1]), self.offset)


@dataclass(frozen=True)
class Target:
    """The pixels and channels of an output that a view fills.

    Pixel q of the target is the output's pixel ``q // row * out_row + q % row + out_pixel``;
    its channel 0 is the output's channel `out_channel`.
    """

    pixels: int
    channels: int
    row: int
    out_row: int
    out_pixel: int = 0
    out_channel: int = 0


@dataclass(frozen=True, kw_only=True)
class Copy(Dispatch):
    """Fills `target` of the output (None: all of it) with the view `layout` of the input."""

    layout: View
    target: Target | None

    @property
    def written(self) -> Array:
        """The lanes of `target`, to the end of its last slice."""
        area = self.target
        if area is None:
            return super().written
        pixels = self.output.pixels
        q = np.arange(area.pixels)
        rows, columns = np.divmod(q, max(area.row, 1))
        is_pixel, is_lane = np.zeros(pixels, np.bool_), np.zeros(4 * self.output.slices, np.bool_)
        is_pixel[rows * area.out_row + columns + area.out_pixel] = True
        is_lane[area.out_channel : ceil((area.out_channel + area.channels) / 4) * 4] = True
        return is_lane.reshape(-1, 1, 4) & is_pixel[:, np.newaxis]

    @property
    def writes_all(self) -> bool:
        return True

    @property
    def is_view(self) -> bool:
        """Whether all of the output is elements of one tensor."""
        has_fill = self.reads[1:] or self.layout.has_bounds
        return not (self.target or has_fill or self.counts_lanes)

    @property
    def counts_lanes(self) -> bool:
        """Whether `layout` counts all lanes of the input's texels, those of zeros included."""
        return self.numbers["IN_CHANNELS"] != self.reads[0].channels

    @property
    def span(self) -> tuple[int, int] | None:
        """The range of output elements that holds the whole input in order; or None."""
        (source, *fill), area = self.reads, self.target
        if not self.layout.is_whole(source) or fill or self.epilogue or self.counts_lanes:
            return None
        if area is None:
            return (0, source.elements) if source.elements == self.output.elements else None
        if area.channels != self.output.channels or area.pixels > area.row:
            return None
        begin = area.out_pixel * area.channels
        return begin, begin + source.elements

    @property
    def range_of_bytes(self) -> tuple[int, int, int] | None:
        """Its offset in the input and in the output, and its size, if it copies just one range."""
        source, output, layout = self.reads[0], self.output, self.layout
        area = self.target or Target(output.pixels, output.channels, output.pixels, output.pixels)
        shape = area.pixels, area.channels
        pixel, channel = divmod(layout.offset, source.channels or 1)
        is_dense = merged(layout.sizes, layout.strides) == merged(shape, (source.channels, 1))
        is_unchanged = len(self.reads) == 1 and not self.epilogue and source.kind == output.kind
        if not is_dense or not is_unchanged or layout.has_bounds or area.pixels > area.row:
            return None
        if self.counts_lanes:
            return None
        first = _first_texel(source, shape, pixel, channel)
        second = _first_texel(output, shape, area.out_pixel, area.out_channel)
        if first is None or second is None:
            return None
        size = output.texel_bytes
        return first * size, second * size, area.pixels * -(-area.channels // 4) * size

    @property
    def borders(self) -> tuple[tuple[int, int], tuple[int, int]] | None:
        """The rows above and below, and the columns left and right, of zeros around an image.

        None if it does anything else to the input [batch, height, width, channels].
        """
        (lower, upper), layout = self.layout.bounds, self.layout
        if len(lower) != 4 or len(self.reads) > 1 or self.epilogue or self.target:
            return None
        pads = [[a, n - b] for a, b, n in zip(lower, upper, layout.sizes, strict=True)]
        shape = tuple(b - a for a, b in zip(lower, upper, strict=True))
        is_whole = prod(shape) == self.reads[0].elements and layout == bordered(shape, pads)
        if not is_whole or any(pads[0] + pads[3]) or min(pads[1] + pads[2]) < 0:
            return None
        return (pads[1][0], pads[1][1]), (pads[2][0], pads[2][1])

    @property
    def is_wider(self) -> bool:
        """Whether the output is the input with zero channels appended."""
        source, layout = self.reads[0], self.layout
        pixels, channels = layout.sizes[:-1], layout.sizes[-1]
        inner = (*pixels, source.channels)
        return (
            (self.target, self.epilogue, len(self.reads)) == (None, (), 1)
            and (source.pixels, channels) == (prod(pixels), self.output.channels)
            and layout == View(layout.sizes, row_major(inner), 0, (0,) * len(inner), inner)
        )


def _first_texel(tensor: Operand, shape: tuple[int, int], pixel: int, channel: int) -> int | None:
    """The first texel of pixels and channels from there on, if they are consecutive and whole."""
    (pixels, channels), end = shape, channel + shape[1]
    is_whole = channel % 4 == 0 and (end % 4 == 0 or end == tensor.channels)
    is_inside = 0 <= pixel <= tensor.pixels - pixels and end <= tensor.channels
    if not is_whole or not is_inside or (channels > 4 and pixels < tensor.pixels):
        return None
    return channel // 4 * tensor.pixels + pixel


def view(
    source: Operand,
    output: Value,
    layout: View,
    limits: Limits,
    node: int,
    target: Target | None = None,
    epilogue: tuple[Call, ...] = (),
    fill: Operand | None = None,
) -> Copy:
    """The dispatch that fills `target` of `output` (default: all of it) from `source`.

    Args:
        node: Index of the node that it belongs to.
        fill: One element for positions outside the bounds; None: 0.
    """
    area = target or Target(output.pixels, output.channels, output.pixels, output.pixels)
    layout = layout.simplified()
    general = limits.profile.general
    lower, upper = layout.bounds
    is_whole = _whole_texels(source, layout, area, lower[-1], upper[-1])
    ones = (1,) * (3 - len(layout.sizes)) if general else ()
    is_consecutive = layout.strides == (1,) and not layout.upper and not area.out_channel
    defines: dict[str, Define] = {
        **source.size_defines("IN"),
        "IN_ELEMENTS": source.elements,
        "REGION_PIXELS": area.pixels,
        "REGION_CHANNELS": area.channels,
        "ROW": area.row,
        "OUT_ROW": area.out_row,
        "OUT_PIXEL": area.out_pixel,
        "OUT_CHANNEL": area.out_channel,
        "DIMS": len(ones + layout.sizes),
        "SIZES": ones + layout.sizes,
        "STRIDES": ones + layout.strides,
        "HAS_BOUNDS": int(layout.has_bounds),
        "LOWER": (0,) * len(ones) + lower,
        "UPPER": ones + upper,
        "MIRROR": _MIRRORS.index(layout.mirror),
        "OFFSET": layout.offset,
        "FILLED": int(fill is not None),
        "CONSECUTIVE": int(is_consecutive and not (is_whole or general)),
        "WHOLE_TEXELS": int(is_whole),
    }
    first, last = area.out_channel // 4, (area.out_channel + area.channels + 3) // 4
    grid = make_grid(area.pixels, last - first, limits)
    reads = (source,) if fill is None else (source, fill)
    return Copy(
        node, "view", reads, output, grid, defines, epilogue, partial=target is not None,
        layout=layout, target=target,
    )  # fmt: skip


def _whole_texels(source: Operand, layout: View, area: Target, lower: int, upper: int) -> bool:
    """Whether each texel of the target has the four lanes of one source texel."""
    if layout.strides[-1] != 1 or area.out_channel % 4:
        return False
    steps = (layout.offset, *layout.strides[:-1])
    channels, last = source.channels, layout.sizes[-1]
    if last == area.channels == channels > 0 and (lower, upper) == (0, last):
        return not any(step % channels for step in steps)
    if layout.mirror and (lower, upper) != (0, last):
        return False
    return not any(n % 4 for n in (channels, area.channels, last, lower, upper, *steps))


def viewed(
    node: NodeView,
    source: Operand,
    output: Value,
    layout: View,
    target: Target | None = None,
    epilogue: tuple[Call, ...] = (),
    fill: Operand | None = None,
) -> Copy:
    """`view` for a node."""
    return view(source, output, layout, node.limits, node.index, target, epilogue, fill)


def reshaped_as(node: NodeView, source: Operand, output: Value) -> Step:
    """Reshape: the same elements in row-major order."""
    if isinstance(source, Value) and same_texels(source, output):
        return Alias(node.index, output, source)
    return viewed(node, source, output, View((output.elements,), (1,)))


def assigned(node: NodeView, state: Operand, now: Value) -> list[Step]:
    """Assign to a state that the next run reads; nothing if it is a constant."""
    return [Alias(node.index, before, now) for before in values_of([state])]


def same_texels(a: Operand, b: Operand) -> bool:
    """Whether two shapes lay out the same elements in the same texels."""
    if a.elements != b.elements:
        return False
    return a.channels == b.channels or (a.pixels == b.pixels == 1)


def moved_output(node: NodeView, x: Operand, shape: Iterable[int], i: int = 0) -> Value:
    """Output `i`, which holds elements of the input `x` and has its type and quantization."""
    output = node.output(shape, i, x.kind)
    index = x.tensors[0]
    source, target = node.graph.tensors[index], node.graph.tensors[output.tensor]
    if meaning(source) != meaning(target):
        raise Unsupported(
            f"tensor {index} is moved to output {i}, of another type or quantization; expected "
            "the same (quantize it again with a QUANTIZE node)"
        )
    return output


def meaning(tensor: Tensor) -> object:
    """The meaning of a tensor's stored bytes."""
    if not tensor.is_quantized:
        return tensor.dtype
    quantization = tensor.quantization
    return tensor.dtype, quantization.scales, quantization.zero_points or (0,)


def moved(
    node: NodeView,
    x: Operand,
    shape: Iterable[int],
    layout: View,
    i: int = 0,
    fill: Operand | None = None,
) -> Step:
    """Output `i` of the given shape as a view of the input `x`; see `view`."""
    output = moved_output(node, x, shape, i)
    if layout.is_whole(x):
        return reshaped_as(node, x, output)
    return viewed(node, x, output, layout, fill=fill)


def reshaped(node: NodeView, x: Operand, shape: Iterable[int]) -> list[Step]:
    """The node's only step: the input `x` in another shape."""
    return [reshaped_as(node, x, moved_output(node, x, shape))]


def complex_input(node: NodeView) -> Value:
    """Input 0, of complex numbers computed at run time."""
    shape, dtype = node.shape(0), node.dtype(0)
    if dtype != "complex64" or node.is_constant(0):
        found = f"constant {dtype}" if node.is_constant(0) else dtype
        raise Unsupported(f"input 0 is {found}; expected complex64 computed at run time")
    return Value.of_complex(node.inputs[0], shape)


def complex_output(node: NodeView, shape: Iterable[int]) -> Value:
    """Output 0, of complex numbers, with the shape that the lowering inferred."""
    tensor = node.graph.tensors[node.outputs[0]]
    if tensor.dtype != "complex64":
        raise Unsupported(f"output 0 is {tensor.dtype}; expected complex64")
    return Value.of_complex(tensor.index, tuple(shape))


def complex_part(node: NodeView, output: Value, imaginary: bool = False) -> Copy:
    """The real or the imaginary parts of the complex input 0."""
    layout = View((output.elements,), (1,), output.elements if imaginary else 0)
    return viewed(node, complex_input(node), output, layout)


def reshaped_input(node: NodeView, shape: Iterable[int]) -> list[Step]:
    """`reshaped` for input 0, which may be complex."""
    if node.dtype(0) != "complex64":
        return reshaped(node, node.input(0, None), shape)
    x, output = complex_input(node), complex_output(node, shape)
    return [reshaped_as(node, x, output)]


def bordered(shape: Shape, pads: list[list[int]], mirror: Mirror = "") -> View:
    """The view of a tensor with `pads` elements before and after each dimension."""
    before = tuple(a for a, _ in pads)
    strides = row_major(shape)
    return View(
        sizes=tuple(a + n + b for (a, b), n in zip(pads, shape, strict=True)),
        strides=strides,
        offset=-sum(a * stride for a, stride in zip(before, strides, strict=True)),
        lower=before,
        upper=tuple(a + n for a, n in zip(before, shape, strict=True)),
        mirror=mirror,
    )
