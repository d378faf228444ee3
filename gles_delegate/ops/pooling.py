"""Pooling and unpooling of images [batch, height, width, channels]."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gles_delegate.dispatch import Call, Define, Dispatch, Step
from gles_delegate.ops.lib.elementwise import refuse_rescaling
from gles_delegate.ops.lib.grid import by_texel, make_grid
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.reduction import LEAST, SUM, Combination, reduction
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import images, within
from gles_delegate.ops.lib.views import View, view
from gles_delegate.ops.lib.window import SAME, Sliding, Window


@dataclass(frozen=True)
class Pool2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    filter_w: Int32 = 0
    filter_h: Int32 = 0
    fused_activation: Int8 = 0


@op("AVERAGE_POOL_2D", "MAX_POOL_2D", max_version=3, options=Pool2DOptions, rows=images)
@op("L2_POOL_2D", options=Pool2DOptions, rows=images)
def pool_2d(node: NodeView, options: Pool2DOptions) -> list[Step]:
    refuse_rescaling(node)
    return [_pooled(node, options, _MODES[node.op], activation(options.fused_activation))]


@op("MaxPoolingWithArgmax2D", rows=images, opaque_outputs=(1,))
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
    """Pooling: the mean, the maximum, the root of the mean square, or where the maximum is."""

    window: Window
    mode: Mode

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
    """Output `i` of the node: the `mode` of glsl/pool_2d.glsl over its windows."""
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    sizes = (height, width), (options.filter_h, options.filter_w)
    window = Window.of(options, *sizes, may_exceed=True)
    output = node.output((batch, window.out_h, window.out_w, channels), i)
    defines: dict[str, Define]
    if window.is_global and mode in _GLOBAL:
        divisor = height * width if mode == "AVERAGE" else 1
        whole = reduction(node, x, output, (1, 2), _GLOBAL[mode], divisor)
        if whole.grid.reduction_lanes > 1:
            return replace(whole, epilogue=epilogue)
    defines = {**window.defines("FILTER"), "BATCH": batch, "POOLING": mode}
    grid = make_grid(output.pixels, output.slices, node.limits)
    passes = min(window.kernel_h, height) * (min(window.kernel_w, width) + 2)
    pooling = Pooling(
        node.index, "pool_2d", (x,), output, grid, defines, epilogue, passes=passes, window=window,
        mode=mode,
    )  # fmt: skip
    short_loops = node.limits.profile.short_loops
    return pooling if short_loops else pooling.sized("FILTER_H", "FILTER_W")


@op("MaxUnpooling2D", rows=within(0, 1))
def max_unpooling_2d(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node)
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
    reads = (values, indices)
    return [by_texel(node, "max_unpooling_2d", reads, output, defines)]


@op("LiteRtMaxUnpooling2D", rows=within(0, 1))
def unpooling_by_index(node: NodeView, options: Options) -> list[Step]:
    """Each value at the element of its image that its index names; of several, the last counts."""
    sliding = Sliding.of(node)
    values, indices = node.input(0), node.input(1, "int")
    batch, height, width, channels = rank_4(values.shape, "input 0")
    if indices.shape != values.shape or node.dtype(1) != "int32":
        raise Unsupported(
            f"{node.dtype(1)} indices of shape {list(indices.shape)} for {list(values.shape)}"
        )
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
    if node.limits.is_large(claims.nbytes):  # buffer textures have no atomic functions
        raise Unsupported(f"an output of {claims.nbytes} bytes; expected that of a storage block")
    beyond = View((claims.elements,), (0,), offset=indices.elements)
    defines: dict[str, Define] = {"IN_PIXELS": values.pixels}
    images: dict[str, Define] = {"BATCH_IN": height * width, "BATCH_OUT": size[0] * size[1]}
    claiming = make_grid(indices.pixels, indices.slices, node.limits)
    claim = node.dispatch("claim", (indices,), claims, claiming, {**defines, **images})
    return [
        view(indices, claims, beyond, node.limits, node.index),
        replace(claim, partial=True),
        by_texel(node, "claimed", (values, claims), output, defines),
    ]
