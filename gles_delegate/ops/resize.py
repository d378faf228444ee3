"""Resizing of images [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gles_delegate.dispatch import Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, Int32, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import moved_output


@dataclass(frozen=True)
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


@dataclass(frozen=True)
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
    return by_texel(node, shader, (x,), output, defines)


def _scale(size: int, out: int, align_corners: bool) -> float:
    """Input step of one output step, in float32 as LiteRT computes it."""
    if align_corners and out > 1:
        return float(np.float32(size - 1) / np.float32(out - 1))
    return float(np.float32(size) / np.float32(out))
