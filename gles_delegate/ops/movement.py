"""Ops that move elements and compute nothing: all are strided views of their inputs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal, TypeAlias, get_args

from gles_delegate.dispatch import Alias, Call, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.graph import Tensor
from gles_delegate.limits import Limits
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.registry import Ints, NodeView, Options, Unsupported, op
from gles_delegate.ops.strides import broadcast_strides, merged, normal_axis, row_major

Mirror: TypeAlias = Literal["", "REFLECT", "SYMMETRIC"]


@dataclass(frozen=True)
class View:
    """Which element of a tensor each element of a region is.

    Elements are counted in row-major order. The region's element with the coordinates c in
    `sizes` is the source's element ``offset + sum(c * strides)``. Where some c is outside its
    bounds ``lower <= c < upper`` it is mirrored there if there is a `mirror`, without ("REFLECT")
    or with ("SYMMETRIC") the outermost element again; otherwise it is the fill, which also
    stands where the source has no such element.
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
    """What `view` makes: fills `region` of the output (None: all of it) with `how` of the input."""

    how: View
    region: Region | None

    @property
    def _is_whole(self) -> bool:
        """Whether it copies all elements of the input, in order, as they are."""
        how, (source, *fill) = self.how, self.reads
        in_order = merged(how.sizes, how.strides) == ((source.elements,), (1,))
        return in_order and not (how.offset or _has_bounds(how) or fill or self.epilogue)

    @property
    def span(self) -> tuple[int, int] | None:
        """The output's elements from where to where are the whole input, in order; or None."""
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
        """From which byte of the output on lie all bytes of the input, as they are; or None."""
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
        """Whether the output is the input with channels after its own that are zero."""
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
    """The dispatch that fills `region` of `output` (all of it by default) from `source`.

    `fill` holds the one element for what is outside the bounds; 0 by default.
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
    """The same walk over at least one dimension, and few before the last if none has bounds."""
    if not how.sizes:
        return View((1,), (1,), how.offset)
    if _has_bounds(how) or len(how.sizes) == 1:
        return how
    sizes, strides = merged(how.sizes[:-1], how.strides[:-1])
    return View((*sizes, how.sizes[-1]), (*strides, how.strides[-1]), how.offset)


def _has_bounds(how: View) -> bool:
    return bool(how.upper) and (any(how.lower) or how.upper != how.sizes)


def _whole_texels(source: Operand, how: View, area: Region, lower: int, upper: int) -> bool:
    """Whether the four lanes of each texel of the region are the lanes of one source texel."""
    if how.strides[-1] != 1 or area.out_channel % 4:
        return False
    steps = (how.offset, *how.strides[:-1])
    channels, last = source.channels, how.sizes[-1]
    if last == area.channels == channels and (lower, upper) == (0, last):
        return not any(step % channels for step in steps)
    if how.mirror:
        return False
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


def moved_output(node: NodeView, x: Operand, shape: Iterable[int], i: int = 0) -> Value:
    """Output `i`, which takes elements of the input `x` as they are.

    Raises:
        Unsupported: It is of another type or quantisation, so that the same stored bytes mean
            something else there.
    """
    output = node.output(shape, i, x.kind)
    index = x.tensor if isinstance(x, Value) else x.tensors[0]
    source, target = node.graph.tensors[index], node.graph.tensors[output.tensor]
    if _meaning(source) != _meaning(target):
        raise Unsupported(
            f"tensor {index} is moved to output {i}, of another type or quantisation; expected "
            "the same (quantise it again with a QUANTIZE node)"
        )
    return output


def _meaning(tensor: Tensor) -> object:
    """What a tensor's stored bytes stand for."""
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
        return reshape_view(node.node.index, x, output, node.limits)
    return view(x, output, how, node.limits, node.node.index, fill=fill)


def reshaped(node: NodeView, x: Operand, shape: Iterable[int]) -> list[Step]:
    """The only output: the elements of the input `x` in another shape."""
    return [reshape_view(node.node.index, x, moved_output(node, x, shape), node.limits)]


@dataclass(frozen=True)
class ReshapeOptions(Options):
    new_shape: Ints = ()


@op("RESHAPE", max_version=1, options=ReshapeOptions)
def reshape(node: NodeView, options: ReshapeOptions) -> list[Step]:
    x = node.input(0, None)
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
    return reshaped(node, x, new_shape)


@op("EXPAND_DIMS", max_version=1)
def expand_dims(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    axis = normal_axis(one_integer(node, 1, "the axis"), len(x.shape) + 1)
    return reshaped(node, x, (*x.shape[:axis], 1, *x.shape[axis:]))


@dataclass(frozen=True)
class SqueezeOptions(Options):
    squeeze_dims: Ints = ()


@op("SQUEEZE", max_version=2, options=SqueezeOptions)
def squeeze(node: NodeView, options: SqueezeOptions) -> list[Step]:
    x = node.input(0, None)
    axes = {normal_axis(axis, len(x.shape)) for axis in options.squeeze_dims}
    if any(x.shape[axis] != 1 for axis in axes):
        raise Unsupported(f"the dimensions {sorted(axes)} of {list(x.shape)} squeezed; expected 1s")
    if not axes:
        axes = {axis for axis, size in enumerate(x.shape) if size == 1}
    return reshaped(node, x, (size for axis, size in enumerate(x.shape) if axis not in axes))


@op("TRANSPOSE", max_version=9)
def transpose(node: NodeView, options: Options) -> list[Step]:
    x, rank = node.input(0, None), len(node.shape(0))
    axes = [normal_axis(axis, rank) for axis in node.array(1).ravel().tolist()]
    if sorted(axes) != list(range(rank)):
        raise Unsupported(f"the permutation {axes} of {rank} dimensions")
    shape, strides = (tuple(row[axis] for axis in axes) for row in (x.shape, row_major(x.shape)))
    return [moved(node, x, shape, View(shape, strides))]


@op("REVERSE_V2", max_version=4)
def reverse(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    axes = {normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()}
    dense = row_major(x.shape)
    strides = tuple(-step if axis in axes else step for axis, step in enumerate(dense))
    offset = sum((x.shape[axis] - 1) * dense[axis] for axis in axes)
    return [moved(node, x, x.shape, View(x.shape, strides, offset))]


@op("TILE", max_version=3)
def tile(node: NodeView, options: Options) -> list[Step]:
    x, multiples = node.input(0, None), node.array(1).ravel().tolist()
    if len(multiples) != len(x.shape) or min(multiples, default=0) < 0:
        raise Unsupported(f"the multiples {multiples} of {list(x.shape)}; expected one for each")
    shape = tuple(n * size for n, size in zip(multiples, x.shape, strict=True))
    sizes = tuple(n for pair in zip(multiples, x.shape, strict=True) for n in pair)
    strides = tuple(step for stride in row_major(x.shape) for step in (0, stride))
    return [moved(node, x, shape, View(sizes, strides))]


@op("BROADCAST_TO", max_version=4)
def broadcast_to(node: NodeView, options: Options) -> list[Step]:
    x, shape = node.input(0, None), tuple(node.array(1).ravel().tolist())
    matching = shape[len(shape) - len(x.shape) :]
    if len(shape) < len(x.shape) or any(
        size not in (1, n) for size, n in zip(x.shape, matching, strict=True)
    ):
        raise Unsupported(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return [moved(node, x, shape, View(shape, broadcast_strides(x.shape, shape)))]


@op("FILL", max_version=5)
def fill(node: NodeView, options: Options) -> list[Step]:
    shape, x = tuple(node.array(0).ravel().tolist()), node.input(1, None)
    if x.shape or min(shape, default=0) < 0:
        raise Unsupported(f"{list(shape)} filled with {list(x.shape)}; expected a scalar")
    return [moved(node, x, shape, View(shape, (0,) * len(shape)))]


@op("ZEROS_LIKE", max_version=1)
def zeros_like(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    beyond = View((x.elements,), (0,), offset=x.elements)
    return [moved(node, x, x.shape, beyond)]


def one_integer(node: NodeView, i: int, what: str) -> int:
    """The value of input `i`, a constant.

    Raises:
        Unsupported: It is computed at run time, or it is not one integer.
    """
    array = node.array(i)
    if array.size != 1:
        raise Unsupported(f"{what} of shape {list(array.shape)}; expected one integer")
    return int(array.item())


def rank_4(shape: Sequence[int], what: str) -> tuple[int, int, int, int]:
    """The four sizes of `shape`.

    Raises:
        Unsupported: It has another rank.
    """
    if len(shape) != 4:
        raise Unsupported(f"{what} of shape {list(shape)}; expected rank 4")
    a, b, c, d = shape
    return a, b, c, d
