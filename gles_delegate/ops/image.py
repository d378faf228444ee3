"""Pooling and resizing of images [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gles_delegate.dispatch import Call, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.movement import moved_output, rank_4
from gles_delegate.ops.registry import (
    Bool,
    Int8,
    Int32,
    NodeView,
    Options,
    Unsupported,
    activation,
    op,
)
from gles_delegate.ops.window import Sliding, Window


@dataclass(frozen=True)
class Pool2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    filter_w: Int32 = 0
    filter_h: Int32 = 0
    fused_activation: Int8 = 0


@op("AVERAGE_POOL_2D", "MAX_POOL_2D", max_version=3, options=Pool2DOptions)
def pool_2d(node: NodeView, options: Pool2DOptions) -> list[Step]:
    mode = "AVERAGE" if node.node.op == "AVERAGE_POOL_2D" else "MAXIMUM"
    return [_pooled(node, options, mode, activation(options.fused_activation))]


@op("MaxPoolingWithArgmax2D")
def max_pooling_with_argmax_2d(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node.node)
    return [_pooled(node, sliding, mode, (), i) for i, mode in enumerate(("MAXIMUM", "ARGUMENT"))]


def _pooled(
    node: NodeView,
    options: Pool2DOptions | Sliding,
    mode: str,
    epilogue: tuple[Call, ...],
    i: int = 0,
) -> Dispatch:
    """Output `i` of the node: the `mode` of glsl/pool_2d.glsl over its windows."""
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    window = Window.of(options, (height, width), (options.filter_h, options.filter_w))
    output = node.output((batch, window.out_h, window.out_w, channels), i)
    defines: dict[str, Define] = {**window.defines("FILTER"), "BATCH": batch, "POOLING": mode}
    grid = make_grid(output.pixels, output.slices, node.limits)
    return Dispatch(node.node.index, "pool_2d", (x,), output, grid, defines, epilogue)


@op("MaxUnpooling2D")
def max_unpooling_2d(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node.node)
    values, indices = node.input(0), node.input(1)
    batch, height, width, channels = rank_4(values.shape, "input 0")
    window = (sliding.filter_h, sliding.filter_w)
    if window != (sliding.stride_h, sliding.stride_w) or min(window) < 1:
        raise Unsupported(f"windows of {list(window)} that do not lie side by side")
    if indices.shape != values.shape:
        raise Unsupported(f"indices of shape {list(indices.shape)} for {list(values.shape)}")
    output = node.output((batch, height * window[0], width * window[1], channels))
    defines: dict[str, Define] = {
        "IN_PIXELS": values.pixels,
        "IN_H": height,
        "IN_W": width,
        "OUT_H": output.shape[1],
        "OUT_W": output.shape[2],
        "FILTER_H": window[0],
        "FILTER_W": window[1],
    }
    grid = make_grid(output.pixels, output.slices, node.limits)
    reads = (values, indices)
    return [Dispatch(node.node.index, "max_unpooling_2d", reads, output, grid, defines)]


@dataclass(frozen=True)
class ResizeBilinearOptions(Options):
    unused_new_height: Int32 = 0  # the schema's first two fields are deprecated
    unused_new_width: Int32 = 0
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@op("RESIZE_BILINEAR", max_version=4, options=ResizeBilinearOptions)
def resize_bilinear(node: NodeView, options: ResizeBilinearOptions) -> list[Step]:
    if options.align_corners and options.half_pixel_centers:
        raise Unsupported("align_corners together with half_pixel_centers")
    x = node.input(0)
    output = node.output(_resized(node, x.shape))
    return [_resize(node, "resize_bilinear", x, output, options)]


@dataclass(frozen=True)
class ResizeNearestOptions(Options):
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@op("RESIZE_NEAREST_NEIGHBOR", max_version=4, options=ResizeNearestOptions)
def resize_nearest(node: NodeView, options: ResizeNearestOptions) -> list[Step]:
    x = node.input(0, None)
    output = moved_output(node, x, _resized(node, x.shape))
    of_bytes = node.graph.tensors[output.tensor].dtype in ("uint8", "int8", "bool")
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
    """The shape of an image of `shape` that is resized to the node's input 1."""
    batch, _, _, channels = rank_4(shape, "input 0")
    size = node.array(1).ravel().tolist()
    if len(size) != 2 or min(size) < 1:
        raise Unsupported(f"the new size {size}; expected a positive height and width")
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
    defines: dict[str, Define] = {
        "IN_H": in_h,
        "IN_W": in_w,
        "OUT_H": out_h,
        "OUT_W": out_w,
        "BATCH": batch,
        "SCALE_H": _scale(in_h, out_h, options.align_corners),
        "SCALE_W": _scale(in_w, out_w, options.align_corners),
        "HALF_PIXEL_CENTERS": int(options.half_pixel_centers),
    }
    grid = make_grid(output.pixels, output.slices, node.limits)
    return Dispatch(node.node.index, shader, (x,), output, grid, defines)


def _scale(size: int, out: int, align_corners: bool) -> float:
    """Input step of one output step, in float32 as LiteRT computes it."""
    if align_corners and out > 1:
        return float(np.float32(size - 1) / np.float32(out - 1))
    return float(np.float32(size) / np.float32(out))
