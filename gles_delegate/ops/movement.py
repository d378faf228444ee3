"""Ops that move elements and compute nothing: all are strided views of their inputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Alias, Call, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.limits import Limits
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.registry import (
    Int8,
    Int32,
    Ints,
    NodeView,
    Options,
    Unsupported,
    activation,
    op,
)
from gles_delegate.ops.strides import normal_axis, row_major


@dataclass(frozen=True)
class View:
    """Which element of a tensor each element of a region is.

    Elements are counted in row-major order. The region's element with the coordinates c in
    `sizes` is the source's element ``offset + sum(c * strides)``, or `fill` where some c is
    outside its bounds ``lower <= c < upper`` or the source has no such element.
    """

    sizes: Shape
    strides: Shape
    offset: int = 0
    lower: Shape = ()
    upper: Shape = ()
    fill: float = 0.0


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


def view(
    source: Operand,
    output: Value,
    how: View,
    limits: Limits,
    node: int,
    region: Region | None = None,
    epilogue: tuple[Call, ...] = (),
) -> Dispatch:
    """The dispatch that fills `region` of `output` (all of it by default) from `source`."""
    area = region or Region(output.pixels, output.channels, output.pixels, output.pixels)
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
        "OFFSET": how.offset,
        "FILL": how.fill,
        "CONSECUTIVE": int(how.strides == (1,) and not how.upper and not area.out_channel),
        "WHOLE_TEXELS": int(_whole_texels(source, how, area, lower[-1], upper[-1])),
    }
    first, last = area.out_channel // 4, (area.out_channel + area.channels + 3) // 4
    grid = make_grid(area.pixels, last - first, limits)
    return Dispatch(
        node, "view", (source,), output, grid, defines, epilogue, partial=region is not None
    )


def _whole_texels(source: Operand, how: View, area: Region, lower: int, upper: int) -> bool:
    """Whether the four lanes of each texel of the region are the lanes of one source texel."""
    if how.strides[-1] != 1 or area.out_channel % 4:
        return False
    steps = (how.offset, *how.strides[:-1])
    channels, last = source.channels, how.sizes[-1]
    if last == area.channels == channels and (lower, upper) == (0, last):
        return not any(step % channels for step in steps)
    return not any(n % 4 for n in (channels, area.channels, last, lower, upper, *steps))


def reshape_view(node: int, source: Operand, output: Value, limits: Limits) -> Step:
    """The same elements in row-major order, in another shape."""
    if isinstance(source, Value) and same_texels(source, output):
        return Alias(node, output, source)
    return view(source, output, View((output.elements,), (1,)), limits, node)


def same_texels(a: Operand, b: Operand) -> bool:
    """Whether two shapes of the same elements put them into the same texels."""
    if a.elements != b.elements:
        return False
    return a.channels == b.channels or (a.pixels == b.pixels == 1)


@dataclass(frozen=True)
class ReshapeOptions(Options):
    new_shape: Ints = ()


@op("RESHAPE", max_version=1, options=ReshapeOptions)
def reshape(node: NodeView, options: ReshapeOptions) -> list[Step]:
    x = node.input(0)
    if node.has_input(1):
        new_shape = node.array(1).ravel().tolist()
    else:
        new_shape = list(options.new_shape)
        if new_shape == [0]:  # how old converters spell a scalar
            new_shape = []
    if new_shape.count(-1) == 1:
        known = -prod(new_shape)
        new_shape[new_shape.index(-1)] = x.elements // known if known else 0
    if any(size < 0 for size in new_shape) or prod(new_shape) != x.elements:
        raise Unsupported(f"{list(x.shape)} reshaped to {new_shape}: the elements differ in number")
    return [reshape_view(node.node.index, x, node.output(new_shape), node.limits)]


@op("PAD", max_version=6)
def pad(node: NodeView, options: Options) -> list[Step]:
    x, pads = node.input(0), node.array(1)
    if pads.shape != (len(x.shape), 2) or pads.min(initial=0) < 0:
        raise Unsupported(
            f"paddings {pads.tolist()} for rank {len(x.shape)}; expected a pair each, none negative"
        )
    if not x.shape:
        return [Alias(node.node.index, node.output(()), x)] if isinstance(x, Value) else []
    before = tuple(pads[:, 0].tolist())
    sizes = tuple(a + n + b for (a, b), n in zip(pads.tolist(), x.shape, strict=True))
    strides = row_major(x.shape)
    offset = -sum(a * stride for a, stride in zip(before, strides, strict=True))
    upper = tuple(a + n for a, n in zip(before, x.shape, strict=True))
    how = View(sizes, strides, offset, before, upper)
    return [view(x, node.output(sizes), how, node.limits, node.node.index)]


@dataclass(frozen=True)
class ConcatenationOptions(Options):
    axis: Int32 = 0
    fused_activation: Int8 = 0


@op("CONCATENATION", max_version=7, options=ConcatenationOptions)
def concatenation(node: NodeView, options: ConcatenationOptions) -> list[Step]:
    inputs = [node.input(i) for i in range(len(node.node.inputs))]
    rank = len(inputs[0].shape)
    axis = normal_axis(options.axis, rank)
    shapes = [x.shape[:axis] + x.shape[axis + 1 :] for x in inputs]
    if shapes.count(shapes[0]) != len(shapes):
        raise Unsupported(f"the shapes {[list(x.shape) for x in inputs]} differ beside axis {axis}")
    total = sum(x.shape[axis] for x in inputs)
    output = node.output((*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :]))
    inner = prod(output.shape[axis + 1 : -1])
    steps: list[Step] = []
    begin = 0
    for x in inputs:
        size = x.shape[axis]
        if axis == rank - 1:
            region = Region(x.pixels, size, x.pixels or 1, x.pixels, out_channel=begin)
        else:
            region = Region(x.pixels, x.channels, size * inner or 1, total * inner, begin * inner)
        begin += size
        how = View((x.pixels, x.channels), (x.channels, 1))
        epilogue = activation(options.fused_activation)
        if x.elements:
            steps.append(view(x, output, how, node.limits, node.node.index, region, epilogue))
    return steps


@dataclass(frozen=True)
class BlockOptions(Options):
    block_size: Int32 = 0


@op("DEPTH_TO_SPACE", max_version=2, options=BlockOptions)
def depth_to_space(node: NodeView, options: BlockOptions) -> list[Step]:
    x, block = node.input(0), options.block_size
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if block < 1 or channels % (block * block):
        raise Unsupported(f"block size {block} on {channels} channels")
    depth = channels // (block * block)
    output = node.output((batch, height * block, width * block, depth))
    how = View(
        (batch * height, block, width, block, depth),
        (width * channels, block * depth, channels, depth, 1),
    )
    return [view(x, output, how, node.limits, node.node.index)]


def rank_4(shape: Sequence[int], what: str) -> tuple[int, int, int, int]:
    """The four sizes of `shape`.

    Raises:
        Unsupported: It has another rank.
    """
    if len(shape) != 4:
        raise Unsupported(f"{what} of shape {list(shape)}; expected rank 4")
    a, b, c, d = shape
    return a, b, c, d
