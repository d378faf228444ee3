"""DEPTHWISE_CONV_2D, alone or computed by the pointwise convolution that reads it."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gles_delegate.dispatch import (
    Grid,
    Operand,
    Step,
)
from gles_delegate.limits import Limits
from gles_delegate.ops.lib import packing, rows
from gles_delegate.ops.lib.depthwise import Depthwise, depthwise_defines
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import with_size_uniforms
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.runs import depthwise_run, runs_of
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.views import View
from gles_delegate.ops.lib.weights import constant_weights, packed, packed_constants, weight_defines
from gles_delegate.ops.lib.window import Window


@dataclass(frozen=True)
class DepthwiseConv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    depth_multiplier: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@op(
    "DEPTHWISE_CONV_2D", max_version=7, options=DepthwiseConv2DOptions, rows=rows.images,
    biases=(0, 1, 2), has_symmetric_weights=True, results="unbounded",
)  # fmt: skip
def depthwise_conv_2d(node: NodeView, options: DepthwiseConv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    one, kernel_h, kernel_w, outputs = rank_4(node.shape(1), "the weights")
    if one != 1 or not channels or outputs % channels:
        raise Unsupported(
            f"weights of shape {list(node.shape(1))} on an input with {channels} channels"
        )
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    taps = kernel_h * kernel_w
    texels = output.slices * (1 + taps)
    steps: list[Step] = []
    weights: Operand
    tensors = constant_weights(node, (1, 2))
    if tensors:
        weights = packed_constants(node, packing.depthwise_weights, tensors, texels)
    else:
        how = View((output.slices, taps, 4), (4, outputs, 1))
        weights, steps = packed(node, node.input(1), 2, output.slices, texels, how)
    multiplier, profile = outputs // channels, node.limits.profile
    if multiplier > 1 and profile.by_taps:  # each pixel is read in four pieces
        pixels, by_taps = 1, True
    else:
        most = option_of(profile.depthwise, node.choice)
        most = most if window.stride_w == 1 else ceil(most / 2)
        pixels = depthwise_run(window, most, profile, node.choice)
        by_taps = kernel_w > profile.columns
    defines = depthwise_defines(x, window, batch, pixels, multiplier, by_taps)
    defines |= weight_defines(weights)
    runs = batch * window.out_h * runs_of(window, pixels)
    grid = _run_grid(runs, output.slices, node.limits, node.choice)
    passes = kernel_h * (1 + kernel_w * by_taps)
    dispatch = Depthwise(
        node.index, "depthwise_conv_2d", (x, weights), output, grid, defines,
        activation(options.fused_activation), flops=2 * output.elements * taps, choice=node.choice,
        passes=passes, window=window, run=pixels, multiplier=multiplier,
    )  # fmt: skip
    return [*steps, with_size_uniforms(dispatch, node.limits)]


def _run_grid(runs: int, slices: int, limits: Limits, choice: int) -> Grid:
    """Invocations for one slice of a run each; in few kinds of work groups where tiles are few."""
    searches = limits.profile.searches
    if not (searches and searches[choice].few):
        return make_grid(runs, slices, limits)
    lanes = limits.simd_lanes
    if 2 * runs <= lanes and runs < slices:
        return Grid(runs, slices, 1, lanes, True)
    return Grid(runs, slices, lanes, 1 if slices % 4 else 4)
