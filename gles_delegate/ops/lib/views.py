"""Strided views: dispatches that only move elements."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias, get_args

from gles_delegate.dispatch import Alias, Call, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.lib.complex import complex_input, complex_output
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import merged, row_major
from gles_delegate.ops.lib.node import NodeView, Unsupported

Mirror: TypeAlias = Literal["", "REFLECT", "SYMMETRIC"]


@dataclass(frozen=True)
class View:
    """A strided view: which source element each element of a region shows.

    Elements are counted in row-major order. The element with coordinates c in `sizes` shows the
    source's element ``offset + sum(c * strides)``. If some c is outside its bounds
    ``lower <= c < upper``, it is mirrored at the bound, without ("REFLECT") or with ("SYMMETRIC")
    repeating the outermost element; without a `mirror`, the element is the fill. It is also the
    fill where the source has no such element.
    """

    sizes: Shape
    strides: Shape
    offset: int = 0
    lower: Shape = ()
    upper: Shape = ()
    mirror: Mirror = ""


@dataclass(frozen=True)
class Region:
    """The part of an output that a view fills.

    Pixel q of the region is the output's pixel ``q // row * out_row + q % row + out_pixel``;
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
    """Fills `region` of the output (None: all of it) with the view `how` of the input."""

    how: View
    region: Region | None

    @property
    def _is_whole(self) -> bool:
        """Whether it copies all elements of the input, in order and unchanged."""
        how, (source, *fill) = self.how, self.reads
        in_order = merged(how.sizes, how.strides) == ((source.elements,), (1,))
        return in_order and not (how.offset or _has_bounds(how) or fill or self.epilogue)

    @property
    def span(self) -> tuple[int, int] | None:
        """The range of the output's elements that is the whole input, in order; or None."""
        area, source = self.region, self.reads[0]
        if not self._is_whole:
            return None
        if area is None:
            return (0, source.elements) if source.elements == self.output.elements else None
        if area.channels != self.output.channels or area.pixels > area.row:
            return None
        begin = area.out_pixel * area.channels
        return begin, begin + source.elements

    @property
    def first_byte(self) -> int | None:
        """Byte offset in the output at which all bytes of the input lie unchanged; or None."""
        area, source, output = self.region, self.reads[0], self.output
        if area is None or not self._is_whole or source.kind != output.kind:
            return None
        begin, end = area.out_channel, area.out_channel + area.channels
        if area.channels != source.channels or begin % 4 or (end % 4 and end < output.channels):
            return None
        if area.pixels < output.pixels and (output.slices > 1 or area.pixels > area.row):
            return None
        return (begin // 4 * output.pixels + area.out_pixel) * output.texel_bytes

    @property
    def is_wider(self) -> bool:
        """Whether the output is the input with zero channels appended."""
        source, how = self.reads[0], self.how
        pixels, channels = how.sizes[:-1], how.sizes[-1]
        inner = (*pixels, source.channels)
        return (
            (self.region, self.epilogue, len(self.reads)) == (None, (), 1)
            and (source.pixels, channels) == (prod(pixels), self.output.channels)
            and how == View(how.sizes, row_major(inner), 0, (0,) * len(inner), inner)
        )


def view(
    source: Operand,
    output: Value,
    how: View,
    limits: Limits,
    node: int,
    region: Region | None = None,
    epilogue: tuple[Call, ...] = (),
    fill: Operand | None = None,
) -> Copy:
    """Make the dispatch that fills `region` of `output` (default: all of it) from `source`.

    `fill` holds the one element for positions outside the bounds; the default is 0.
    """
    area = region or Region(output.pixels, output.channels, output.pixels, output.pixels)
    how = _simplified(how)
    lower = how.lower or (0,) * len(how.sizes)
    upper = how.upper or how.sizes
    defines: dict[str, Define] = {
        "IN_CHANNELS": max(source.channels, 1),
        "IN_PIXELS": source.pixels,
        "IN_ELEMENTS": source.elements,
        "REGION_PIXELS": area.pixels,
        "REGION_CHANNELS": area.channels,
        "ROW": area.row,
        "OUT_ROW": area.out_row,
        "OUT_PIXEL": area.out_pixel,
        "OUT_CHANNEL": area.out_channel,
        "DIMS": len(how.sizes),
        "SIZES": how.sizes,
        "STRIDES": how.strides,
        "LOWER": lower,
        "UPPER": upper,
        "MIRROR": get_args(Mirror).index(how.mirror),
        "OFFSET": how.offset,
        "FILLED": int(fill is not None),
        "CONSECUTIVE": int(how.strides == (1,) and not how.upper and not area.out_channel),
        "WHOLE_TEXELS": int(_whole_texels(source, how, area, lower[-1], upper[-1])),
    }
    first, last = area.out_channel // 4, (area.out_channel + area.channels + 3) // 4
    grid = make_grid(area.pixels, last - first, limits)
    reads = (source,) if fill is None else (source, fill)
    return Copy(
        node, "view", reads, output, grid, defines, epilogue, partial=region is not None,
        how=how, region=region,
    )  # fmt: skip


def _simplified(how: View) -> View:
    """Simplify a view: at least one dimension; without bounds, as few as possible."""
    if not how.sizes:
        return View((1,), (1,), how.offset)
    if _has_bounds(how) or len(how.sizes) == 1:
        return how
    sizes, strides = merged(how.sizes[:-1], how.strides[:-1])
    return View((*sizes, how.sizes[-1]), (*strides, how.strides[-1]), how.offset)


def _has_bounds(how: View) -> bool:
    return bool(how.upper) and (any(how.lower) or how.upper != how.sizes)


def _whole_texels(source: Operand, how: View, area: Region, lower: int, upper: int) -> bool:
    """Whether each texel of the region has the four lanes of one source texel."""
    if how.strides[-1] != 1 or area.out_channel % 4:
        return False
    steps = (how.offset, *how.strides[:-1])
    channels, last = source.channels, how.sizes[-1]
    if last == area.channels == channels > 0 and (lower, upper) == (0, last):
        return not any(step % channels for step in steps)
    if how.mirror:
        return False
    return not any(n % 4 for n in (channels, area.channels, last, lower, upper, *steps))


def reshape_view(node: int, source: Operand, output: Value, limits: Limits) -> Step:
    """Reshape: the same elements in row-major order."""
    if isinstance(source, Value) and same_texels(source, output):
        return Alias(node, output, source)
    return view(source, output, View((output.elements,), (1,)), limits, node)


def same_texels(a: Operand, b: Operand) -> bool:
    """Whether two shapes lay out the same elements in the same texels."""
    if a.elements != b.elements:
        return False
    return a.channels == b.channels or (a.pixels == b.pixels == 1)


def moved_output(node: NodeView, x: Operand, shape: Iterable[int], i: int = 0) -> Value:
    """Output `i`, to which elements of the input `x` are moved unchanged.

    Raises:
        Unsupported: Its type or quantization differs, so the same stored bytes mean another number.
    """
    output = node.output(shape, i, x.kind)
    index = x.tensor if isinstance(x, Value) else x.tensors[0]
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
    how: View,
    i: int = 0,
    fill: Operand | None = None,
) -> Step:
    """Output `i` of the given shape as a view of the input `x`; see `view`."""
    output = moved_output(node, x, shape, i)
    in_order = merged(how.sizes, how.strides) == ((x.elements,), (1,))
    if in_order and not how.offset and not _has_bounds(how):
        return reshape_view(node.index, x, output, node.limits)
    return view(x, output, how, node.limits, node.index, fill=fill)


def reshaped(node: NodeView, x: Operand, shape: Iterable[int]) -> list[Step]:
    """The only output: the input `x` in another shape."""
    return [reshape_view(node.index, x, moved_output(node, x, shape), node.limits)]


def reshaped_input(node: NodeView, shape: Iterable[int]) -> list[Step]:
    """The only output: input 0, perhaps of complex numbers, in another shape."""
    if node.dtype(0) != "complex64":
        return reshaped(node, node.input(0, None), shape)
    x, output = complex_input(node), complex_output(node, shape)
    return [reshape_view(node.index, x, output, node.limits)]


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
