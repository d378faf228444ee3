"""Pooling and resizing of images [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gles_delegate.dispatch import Dispatch, Step
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.movement import rank_4
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
from gles_delegate.ops.window import Window


@dataclass(frozen=True)
class Pool2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    filter_width: Int32 = 0
    filter_height: Int32 = 0
    fused_activation: Int8 = 0


@op("AVERAGE_POOL_2D", "MAX_POOL_2D", max_version=3, options=Pool2DOptions)
def pool_2d(node: NodeView, options: Pool2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    window = Window.of(options, (height, width), (options.filter_height, options.filter_width))
    output = node.output((batch, window.out_h, window.out_w, channels))
    defines = {
        **window.defines("FILTER"),
        "BATCH": batch,
        "AVERAGE": int(node.node.op == "AVERAGE_POOL_2D"),
    }
    grid = make_grid(output.pixels, output.slices, node.limits)
    return [
        Dispatch(
            node.node.index, "pool_2d", (x,), output, grid, defines,
            activation(options.fused_activation),
        )
    ]  # fmt: skip


@dataclass(frozen=True)
class ResizeBilinearOptions(Options):
    unused_new_height: Int32 = 0  # the schema's first two fields are deprecated
    unused_new_width: Int32 = 0
    align_corners: Bool = False
    half_pixel_centers: Bool = False


@op("RESIZE_BILINEAR", max_version=4, options=ResizeBilinearOptions)
def resize_bilinear(node: NodeView, options: ResizeBilinearOptions) -> list[Step]:
    x = node.input(0)
    batch, in_h, in_w, channels = rank_4(x.shape, "input 0")
    size = node.array(1).ravel().tolist()
    if len(size) != 2 or min(size) < 1:
        raise Unsupported(f"the new size {size}; expected a positive height and width")
    if options.align_corners and options.half_pixel_centers:
        raise Unsupported("align_corners together with half_pixel_centers")
    out_h, out_w = size
    output = node.output((batch, out_h, out_w, channels))
    defines = {
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
    return [Dispatch(node.node.index, "resize_bilinear", (x,), output, grid, defines)]


def _scale(size: int, out: int, align_corners: bool) -> float:
    """Input step of one output step, in float32 as LiteRT computes it."""
    if align_corners and out > 1:
        return float(np.float32(size - 1) / np.float32(out - 1))
    return float(np.float32(size) / np.float32(out))
