"""Ops on images [batch, height, width, channels]: pools, resizing, and blocks of pixels."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Literal, TypeAlias

import numpy as np

from gles_delegate.ops.axis import LEAST, SUM, Combination, reduction
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import refuse_rescaling
from gles_delegate.ops.lib.grid import by_texel, make_grid, with_loop_lengths
from gles_delegate.ops.lib.index import rank_4, row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Int32, Options, activation
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, bordered, moved, moved_output, viewed
from gles_delegate.ops.lib.window import SAME, Sliding, Window, by_side
from gles_delegate.shaders.dispatch import Call, Define, Dispatch, Operand, Shape, Step, Value


class Pool2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    filter_w: Int32 = 0
    filter_h: Int32 = 0
    fused_activation: Int8 = 0


@op("AVERAGE_POOL_2D", "MAX_POOL_2D", max_version=3, options=Pool2DOptions, rows=rows.images)
@op("L2_POOL_2D", options=Pool2DOptions, rows=rows.images)
def pool_2d(node: NodeView, options: Pool2DOptions) -> list[Step]:
    refuse_rescaling(node)
    return [_pooled(node, options, _MODES[node.op], activation(options.fused_activation))]


@op("MaxPoolingWithArgmax2D", rows=rows.images, opaque_outputs=(1,))
def max_pooling_with_argmax_2d(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node)
    return [_pooled(node, sliding, "MAXIMUM", (), 0), _pooled(node, sliding, "ARGUMENT", (), 1)]


Mode: TypeAlias = Literal["AVERAGE", "MAXIMUM", "ROOT_MEAN_SQUARE", "ARGUMENT"]
_MODES: dict[str, Mode] = {
    "AVERAGE_POOL_2D": "AVERAGE",
    "MAX_POOL_2D": "MAXIMUM",
    "L2_POOL_2D": "ROOT_MEAN_SQUARE",
}
_GLOBAL: dict[Mode, Combination] = {"AVERAGE": SUM, "MAXIMUM": Combination("max", LEAST)}
"""The reductions that pool whole images."""


@dataclass(frozen=True, kw_only=True)
class Pooling(Dispatch):
    """A pool: the mean, maximum, root mean square, or the position of the maximum."""

    window: Window
    mode: Mode

    @property
    def chooses(self) -> bool:
        """Whether each result is one of the inputs."""
        return self.mode == "MAXIMUM"

    @property
    def halves(self) -> bool:
        """True for an unpadded 2x2 max pool with stride 2 and no epilogue."""
        window = self.window
        sides = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w)
        unpadded = self.reads[0].pixels == 4 * self.output.pixels
        return self.mode == "MAXIMUM" and sides == (2, 2, 2, 2) and unpadded and not self.epilogue


def _pooled(
    node: NodeView,
    options: Pool2DOptions | Sliding,
    mode: Mode,
    epilogue: tuple[Call, ...],
    i: int = 0,
) -> Dispatch:
    """Output `i` of the node, by a `mode` of glsl/pool_2d.glsl."""
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    sizes = (height, width), (options.filter_h, options.filter_w)
    window = Window.of(options, *sizes, may_exceed=True)
    output = node.output((batch, window.out_h, window.out_w, channels), i)
    if window.is_global and mode in _GLOBAL:
        divisor = height * width if mode == "AVERAGE" else 1
        whole = reduction(node, x, output, (1, 2), _GLOBAL[mode], divisor)
        if whole.grid.reduction_lanes > 1:
            return replace(whole, epilogue=epilogue)
    defines: dict[str, Define] = {**window.defines("FILTER"), "BATCH": batch, "POOLING": mode}
    grid = make_grid(output.pixels, output.slices, node.limits)
    passes = min(window.kernel_h, height) * (min(window.kernel_w, width) + 2)
    pooling = Pooling(
        node.index, "pool_2d", (x,), output, grid, defines, epilogue, passes=passes, window=window,
        mode=mode,
    )  # fmt: skip
    return with_loop_lengths(pooling, node.limits, "FILTER_H", "FILTER_W")


@op("MaxUnpooling2D", rows=rows.within(0, 1))
def max_unpooling_2d(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node)
    values, indices = node.input(0), node.input(1)
    batch, height, width, channels = rank_4(values.shape, "input 0")
    window = (sliding.filter_h, sliding.filter_w)
    if window != (sliding.stride_h, sliding.stride_w) or min(window) < 1:
        raise Unsupported(f"windows of {list(window)} that do not lie side by side")
    if indices.shape != values.shape:
        raise UnfitSizes(f"indices of shape {list(indices.shape)} for {list(values.shape)}")
    size = height * window[0], width * window[1]
    output = node.output((batch, *size, channels))
    sizes = by_side(IN=(height, width), OUT=size, FILTER=window)
    defines = {"IN_PIXELS": values.pixels, **sizes}
    return [by_texel(node, "max_unpooling_2d", (values, indices), output, defines)]


@op("LiteRtMaxUnpooling2D", rows=rows.within(0, 1))
def unpooling_by_index(node: NodeView, options: Options) -> list[Step]:
    """Each value at the element of its image with its index; the last of several values counts."""
    sliding = Sliding.of(node)
    values, indices = node.input(0), node.input(1, "int")
    batch, height, width, channels = rank_4(values.shape, "input 0")
    if indices.shape != values.shape or node.dtype(1) != "int32":
        raise Unsupported(f"{node.dtype(1)} {list(indices.shape)} to unpool {list(values.shape)}")
    strides, filters = ((sliding.stride_h, sliding.stride_w), (sliding.filter_h, sliding.filter_w))
    if min(*strides, *filters, height, width) < 1:
        raise Unsupported(f"strides of {list(strides)} and windows of {list(filters)}")
    same = sliding.padding == SAME
    size = [
        n * stride if same else (n - 1) * stride + window
        for n, stride, window in zip((height, width), strides, filters, strict=True)
    ]
    output = node.output((batch, *size, channels))
    claims = node.scratch(output.shape, "claims", "int")
    if node.limits.is_large(claims.nbytes):  # buffer textures do not support atomic functions
        raise Unsupported(f"an output of {claims.nbytes} bytes; expected that of a storage block")
    beyond = View((claims.elements,), (0,), offset=indices.elements)
    defines: dict[str, Define] = {"IN_PIXELS": values.pixels}
    images: dict[str, Define] = {"BATCH_IN": height * width, "BATCH_OUT": size[0] * size[1]}
    claiming = make_grid(indices.pixels, indices.slices, node.limits)
    claim = node.dispatch("claim", (indices,), claims, claiming, {**defines, **images})
    return [
        viewed(node, indices, claims, beyond),
        replace(claim, partial=True),
        by_texel(node, "claimed", (values, claims), output, defines),
    ]


class ResizeBilinearOptions(Options):
    unused_new_height: Int32 = 0  # the schema's first two fields are deprecated
    unused_new_width: Int32 = 0
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@op(
    "RESIZE_BILINEAR", max_version=4, options=ResizeBilinearOptions, rows=rows.images,
    ends_networks=True,
)  # fmt: skip
def resize_bilinear(node: NodeView, options: ResizeBilinearOptions) -> list[Step]:
    if options.align_corners and options.half_pixel_centers:
        raise Unsupported("align_corners together with half_pixel_centers")
    x = node.input(0)
    output = node.output(_resized(node, x.shape))
    return [_resize(node, "resize_bilinear", x, output, options)]


class ResizeNearestOptions(Options):
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@op("RESIZE_NEAREST_NEIGHBOR", max_version=4, options=ResizeNearestOptions, rows=rows.images)
def resize_nearest(node: NodeView, options: ResizeNearestOptions) -> list[Step]:
    x = node.input(0, None)
    output = moved_output(node, x, _resized(node, x.shape))
    of_bytes = node.graph.tensors[output.tensor].type.bits == 8
    modes = options.align_corners or options.half_pixel_centers
    defines: dict[str, Define] = {
        "ROUNDED": int(options.align_corners),
        "FIXED_POINT": int(of_bytes and not modes),
        "FIXED_SCALE_H": (x.shape[1] << 16) // output.shape[1] + 1,
        "FIXED_SCALE_W": (x.shape[2] << 16) // output.shape[2] + 1,
    }
    resize = _resize(node, "resize_nearest", x, output, options)
    return [replace(resize, defines={**resize.defines, **defines})]


def _resized(node: NodeView, shape: Shape) -> Shape:
    """`shape` with the height and width of the node's input 1."""
    batch, _, _, channels = rank_4(shape, "input 0")
    size = node.array(1).ravel().tolist()
    if len(size) != 2 or min(size) < 1:
        raise UnfitSizes(f"the new size {size}; expected a positive height and width")
    return (batch, *size, channels)


def _resize(
    node: NodeView,
    shader: str,
    x: Operand,
    output: Value,
    options: ResizeBilinearOptions | ResizeNearestOptions,
) -> Dispatch:
    batch, in_h, in_w, _ = x.shape
    _, out_h, out_w, _ = output.shape
    scale_h, scale_w = (
        _scale(size, out, options.align_corners) for size, out in ((in_h, out_h), (in_w, out_w))
    )
    defines: dict[str, Define] = {
        **by_side(IN=(in_h, in_w), OUT=(out_h, out_w)),
        "BATCH": batch,
        **by_side(SCALE=(scale_h, scale_w)),
        "HALF_PIXEL_CENTERS": int(options.half_pixel_centers),
    }
    return by_texel(node, shader, (x,), output, defines)


def _scale(size: int, out: int, align_corners: bool) -> float:
    """Input step of one output step, in float32 as LiteRT computes it."""
    if align_corners and out > 1:
        return float(np.float32(size - 1) / np.float32(out - 1))
    return float(np.float32(size) / np.float32(out))


class BlockOptions(Options):
    block_size: Int32 = 0


@op("DEPTH_TO_SPACE", max_version=2, options=BlockOptions, rows=rows.images)
def depth_to_space(node: NodeView, options: BlockOptions) -> list[Step]:
    x, block = node.input(0, None), options.block_size
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if block < 1 or channels % (block * block):
        raise UnfitSizes(f"block size {block} on {channels} channels")
    depth = channels // (block * block)
    layout = View(
        (batch * height, block, width, block, depth),
        (width * channels, block * depth, channels, depth, 1),
    )
    return [moved(node, x, (batch, height * block, width * block, depth), layout)]


@op("SPACE_TO_DEPTH", max_version=2, options=BlockOptions, rows=rows.images)
def space_to_depth(node: NodeView, options: BlockOptions) -> list[Step]:
    x, block = node.input(0, None), options.block_size
    batch, height, width, channels = rank_4(x.shape, "input 0")
    if block < 1 or height % block or width % block:
        raise UnfitSizes(f"block size {block} on {height} x {width} pixels")
    run = block * channels  # the channels of a block's row follow each other
    layout = View(
        (batch * height // block, width // block, block, run),
        (block * width * channels, run, width * channels, 1),
    )
    return [moved(node, x, (batch, height // block, width // block, block * run), layout)]


@op("SPACE_TO_BATCH_ND", max_version=4)
def space_to_batch(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    blocks, pads = _blocks(node, x)
    layout = bordered(x.shape, [[0, 0], *pads, [0, 0]])
    padded = node.scratch(layout.sizes, "padded", x.kind)
    batch, *space, channels = padded.shape
    if any(size % block for size, block in zip(space, blocks, strict=True)):
        raise UnfitSizes(f"blocks {blocks} of an image that is {space} with its paddings")
    counts = [size // block for size, block in zip(space, blocks, strict=True)]
    frame, *dense, _ = row_major(padded.shape)
    jumps = [stride * block for stride, block in zip(dense, blocks, strict=True)]
    cut = View((*blocks, batch, *counts, channels), (*dense, frame, *jumps, 1))
    output = moved_output(node, x, (batch * prod(blocks), *counts, channels))
    return [viewed(node, x, padded, layout), viewed(node, padded, output, cut)]


@op("BATCH_TO_SPACE_ND", max_version=4)
def batch_to_space(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    blocks, crops = _blocks(node, x)
    images, *counts, channels = x.shape
    batch = images // prod(blocks)
    if images % prod(blocks):
        raise UnfitSizes(
            f"the batch of {images} is not divisible by {prod(blocks)}, the size of blocks {blocks}"
        )
    frame, *dense, _ = row_major(x.shape)
    sizes, strides = [batch], [frame]
    for i, (count, block, stride) in enumerate(zip(counts, blocks, dense, strict=True)):
        sizes += [count, block]
        strides += [stride, frame * batch * prod(blocks[i + 1 :])]
    layout = View((*sizes, channels), (*strides, 1))
    spread = tuple(count * block for count, block in zip(counts, blocks, strict=True))
    kept = tuple(size - a - b for size, (a, b) in zip(spread, crops, strict=True))
    if min(kept) < 0:
        raise UnfitSizes(f"crops {crops} of an image that is {list(spread)}")
    if kept == spread:
        return [moved(node, x, (batch, *kept, channels), layout)]
    whole = node.scratch((batch, *spread, channels), "whole", x.kind)
    output = moved_output(node, x, (batch, *kept, channels))
    steps = row_major(whole.shape)
    offset = sum(a * step for (a, _), step in zip(crops, steps[1:-1], strict=True))
    copy = viewed(node, x, whole, layout)
    crop = View(output.shape, steps, offset)
    return [copy, viewed(node, whole, output, crop)]


def _blocks(node: NodeView, x: Operand) -> tuple[list[int], list[list[int]]]:
    """The block sizes and, for each, the padding or cropping before and after."""
    blocks, borders = node.array(1).ravel().tolist(), node.array(2)
    space = len(x.shape) - 2
    if space not in (1, 2) or len(blocks) != space or borders.shape != (space, 2):
        raise Unsupported(
            f"blocks {blocks} and borders {borders.tolist()} of a tensor of shape {list(x.shape)}; "
            "expected rank 3 with one block or rank 4 with two"
        )
    if min(blocks) < 1 or borders.min(initial=0) < 0:
        raise Unsupported(f"blocks {blocks} and borders {borders.tolist()}; expected none negative")
    pairs: list[list[int]] = borders.tolist()
    return blocks, pairs
