"""DEPTHWISE_CONV_2D, alone or computed by the pointwise convolution that reads it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gles_delegate.device.limits import Limits
from gles_delegate.ops.lib import packing, rows
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, UnfitSizes
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import Convolution, tile_defines, with_size_uniforms
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.tiles import DISPATCH, fused_slices, option_of, searched_length, time_of
from gles_delegate.ops.lib.views import View
from gles_delegate.ops.lib.weights import constant_weights, packed, packed_constants, weight_defines
from gles_delegate.ops.lib.window import Window
from gles_delegate.shaders.dispatch import (
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Step,
    call_operands,
)

MAX_BLOCK_LOADS = 64
"""Texels that a block's invocation loads for depthwise results in the time of a dispatch."""


@dataclass(frozen=True)
class DepthwiseConv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    depth_multiplier: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@dataclass(frozen=True, kw_only=True)
class Depthwise(Dispatch):
    """A depthwise convolution.

    Attributes:
        run: Pixels of a row that one invocation computes.
        multiplier: Output channels of each input channel.
    """

    window: Window
    run: int
    multiplier: int


@op(
    "DEPTHWISE_CONV_2D", max_version=7, options=DepthwiseConv2DOptions, rows=rows.images,
    biases=(0, 1, 2), has_symmetric_weights=True, results="unbounded",
)  # fmt: skip
def depthwise_conv_2d(node: NodeView, options: DepthwiseConv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    one, kernel_h, kernel_w, outputs = rank_4(node.shape(1), "the weights")
    if one != 1 or not channels or outputs % channels:
        raise UnfitSizes(f"weights of shape {list(node.shape(1))} on {channels} channels")
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    taps = kernel_h * kernel_w
    texels = output.slices * (1 + taps)
    steps: list[Step] = []
    weights: Operand
    tensors = constant_weights(node, (1, 2))
    if tensors:
        weights = packed_constants(
            node.limits, node.choice, packing.depthwise_weights, tensors, texels
        )
    else:
        layout = View((output.slices, taps, 4), (4, outputs, 1))
        weights, steps = packed(node, node.input(1), 2, output.slices, texels, layout)
    multiplier, profile = outputs // channels, node.limits.profile
    by_taps = kernel_w > profile.columns
    if multiplier > 1 and profile.by_taps:  # each pixel is read in four pieces
        pixels, by_taps = 1, True
    else:
        most = option_of(profile.depthwise, node.choice)
        most = most if window.stride_w == 1 else ceil(most / 2)
        most = max(min(most, window.pixels_within(profile.columns)), 1)
        pixels = window.run_length(most)
        if profile.searches:
            pixels = searched_length(profile.searches[node.choice], window, most)
    defines = _defines(x, window, batch, pixels, multiplier, by_taps) | weight_defines(weights)
    runs = batch * window.out_h * window.runs(pixels)
    dispatch = Depthwise(
        node.index, "depthwise_conv_2d", (x, weights), output,
        _run_grid(runs, output.slices, node.limits, node.choice), defines,
        activation(options.fused_activation), flops=2 * output.elements * taps, choice=node.choice,
        passes=kernel_h * (1 + kernel_w * by_taps), window=window, run=pixels,
        multiplier=multiplier,
    )  # fmt: skip
    return [*steps, with_size_uniforms(dispatch, node.limits)]


def _run_grid(runs: int, slices: int, limits: Limits, choice: int) -> Grid:
    """Invocations for one slice of a run each; of few kinds if `TileSearch.few`."""
    searches = limits.profile.searches
    if not (searches and searches[choice].few):
        return make_grid(runs, slices, limits)
    lanes = limits.simd_lanes
    if 2 * runs <= lanes and runs < slices:
        return Grid(runs, slices, 1, lanes, True)
    return Grid(runs, slices, lanes, 1 if slices % 4 else 4)


def _defines(
    x: Operand, window: Window, batch: int, run: int, multiplier: int = 1, by_taps: bool = False
) -> dict[str, Define]:
    defines: dict[str, Define] = {
        **window.run_defines(batch, run, by_taps),
        "IN_PIXELS": x.pixels,
        "MULTIPLIER": multiplier,
        "PIXELS": run,
    }
    return {**defines, "IN_CHANNELS": x.channels} if multiplier > 1 else defines


def depthwise_product(first: Dispatch, second: Dispatch, limits: Limits) -> Dispatch | None:
    """A pointwise convolution fused with the depthwise one that it reads.

    None for any other pair, and where the fused one takes longer: on llvmpipe the depthwise results
    are computed again for each tile of output slices, on a GPU for each work group along these.
    """
    if not (isinstance(first, Depthwise) and isinstance(second, Convolution)):
        return None
    weights, window, pixels, tile = second.reads[-1], first.window, first.run, second.tile
    if (
        first.multiplier != 1
        or second.window is not None
        or second.divisions > 1
        or not isinstance(weights, Const)
        or call_operands(first.epilogue)
    ):
        return None
    (x, taps), depth, outputs = first.reads, first.output.slices, second.output.slices
    lanes = {"LAST_LANES": (first.output.channels - 1) % 4 + 1}
    if tile.depth and outputs <= tile.block[1] and not (isinstance(taps, Const) and taps.texture):
        kernel = {"KERNEL_H": window.kernel_h, "IN_PIXELS": x.pixels, "DEPTHWISE": 1, **lanes}
        numbers = {**second.numbers, **window.block_defines(), **kernel, "POINTWISE": 0}
        loads = int(str(numbers["STEPS"])) * int(str(numbers["X_LOADS"]))
        if loads * window.kernel_h * window.kernel_w > MAX_BLOCK_LOADS:
            return None
        in_blocks = replace(
            second, reads=(x, weights, taps), defines=numbers, sizes={}, inner=first.epilogue,
            flops=first.flops + second.flops,
            passes=second.passes + loads * (window.kernel_h * (window.kernel_w + 1) + 1),
        )  # fmt: skip
        return with_size_uniforms(in_blocks, limits)
    if tile.depth or not limits.profile.searches:
        return None
    size = window.kernel_h * window.kernel_w
    loads, products = window.kernel_h * window.columns(pixels) + size, pixels * size / 4
    runs = ceil(first.grid.pixels / limits.simd_lanes)
    search = limits.profile.searches[second.choice]

    def time(slices: int) -> float:
        groups, texels = runs * ceil(outputs / slices), pixels * slices
        time = time_of(groups, depth, loads + 4 * slices, products + texels, texels)
        return time + search.compile_cost * texels

    each = min(fused_slices(search, pixels, outputs), key=time)
    unfused_time = time_of(runs * depth, 1, loads, products, pixels) + DISPATCH
    unfused_time += tile.time(second.output.pixels, outputs, depth)
    passes = depth * (window.kernel_h + 2) + pixels * each + 2
    if (
        time(each) > unfused_time + search.compile_cost * tile.pixels * tile.slices
        or passes > limits.loop_passes
    ):
        return None
    slices = ceil(outputs / each) * each
    defines: dict[str, Define] = {
        **_defines(x, window, first.output.shape[0], pixels),
        "IN_SLICES": depth,
        "IN_LANES": min(first.output.channels, 4),
        **lanes,
        "W_SLICES": slices,
        "BLOCK": each,
        **weight_defines(weights),
        **tile_defines(pixels, each, limits, second.choice),
    }
    shape = packing.bias_texels(slices) + slices * 4 * depth, 4
    weights = replace(weights, shape=shape, args=(weights.args[0], slices, each))
    both = Dispatch(
        second.node, "depthwise_product", (x, weights, taps), second.output,
        Grid(first.grid.pixels, slices // each, limits.simd_lanes, 1), defines, second.epilogue,
        first.epilogue, flops=first.flops + second.flops, fused=second.fused, choice=second.choice,
        passes=passes,
    )  # fmt: skip
    return with_size_uniforms(both, limits)
