"""Depthwise convolutions, alone or computed by the pointwise one that reads them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from gles_delegate.dispatch import Const, Define, Dispatch, Grid, Operand
from gles_delegate.limits import Limits
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.product import Convolution, tile_defines, with_size_uniforms
from gles_delegate.ops.lib.runs import run_defines
from gles_delegate.ops.lib.tiles import DISPATCH, fused_slices, time_of
from gles_delegate.ops.lib.weights import weight_defines
from gles_delegate.ops.lib.window import Window


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


def depthwise_defines(
    x: Operand, window: Window, batch: int, run: int, multiplier: int, by_taps: bool = False
) -> dict[str, Define]:
    defines: dict[str, Define] = {
        **run_defines(window, batch, run, by_taps),
        "IN_PIXELS": x.pixels,
        "MULTIPLIER": multiplier,
        "PIXELS": run,
    }
    return {**defines, "IN_CHANNELS": x.channels} if multiplier > 1 else defines


def depthwise_product(first: Dispatch, second: Dispatch, limits: Limits) -> Dispatch | None:
    """A pointwise convolution together with the depthwise one that it reads.

    None for any other pair, and where it takes longer on llvmpipe: the depthwise results
    are computed again for each tile of output slices.
    """
    if not (isinstance(first, Depthwise) and isinstance(second, Convolution)):
        return None
    weights, window, pixels, apart = second.reads[-1], first.window, first.run, second.tile
    if (
        first.multiplier != 1
        or second.window is not None
        or second.parts > 1
        or not isinstance(weights, Const)
        or any(call.operand for call in first.epilogue)
    ):
        return None
    (x, taps), depth, outputs = first.reads, first.output.slices, second.output.slices
    size = window.kernel_h * window.kernel_w
    columns = (pixels - 1) * window.stride_w + window.kernel_w
    loads, products = window.kernel_h * columns + size, pixels * size / 4
    runs = ceil(first.grid.pixels / limits.simd_lanes)
    search = limits.profile.searches[second.choice]

    def time(slices: int) -> float:
        groups, texels = runs * ceil(outputs / slices), pixels * slices
        time = time_of(groups, depth, loads + 4 * slices, products + texels, texels)
        return time + search.compile_cost * texels

    each = min(fused_slices(search, pixels, outputs), key=time)
    time_apart = time_of(runs * depth, 1, loads, products, pixels) + DISPATCH
    time_apart += apart.time(second.output.pixels, outputs, depth)
    if time(each) > time_apart + search.compile_cost * apart.pixels * apart.slices:
        return None
    passes = depth * (window.kernel_h + 2) + pixels * each + 2
    if passes > limits.loop_passes:
        return None
    slices = ceil(outputs / each) * each
    defines: dict[str, Define] = {
        **depthwise_defines(x, window, first.output.shape[0], pixels, 1),
        "IN_SLICES": depth,
        "IN_LANES": min(first.output.channels, 4),
        "W_SLICES": slices,
        "BLOCK": each,
        **weight_defines(weights),
        **tile_defines(pixels, each, limits, second.choice),
    }
    texels = packing.bias_texels(slices) + slices * 4 * depth
    how = (weights.args[0], slices, each)
    both = Dispatch(
        second.node,
        "depthwise_product",
        (x, replace(weights, shape=(texels, 4), args=how), taps),
        second.output,
        Grid(first.grid.pixels, slices // each, limits.simd_lanes, 1),
        defines,
        second.epilogue,
        first.epilogue,
        flops=first.flops + second.flops,
        fused=second.fused,
        choice=second.choice,
        passes=passes,
    )
    return with_size_uniforms(both, limits)
