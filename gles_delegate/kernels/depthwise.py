"""Depthwise convolutions, alone or computed by the pointwise convolution that reads them."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gles_delegate.kernels.convolution import (
    block_tile,
    by_blocks,
    by_runs,
    run_tile,
    tile_defines,
    with_size_uniforms,
)
from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import DISPATCH, fused_slices, searched_length, time_of
from gles_delegate.kernels.weights import packed_by_run, packed_constants, weight_defines
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.product import Depthwise, DepthwisePointwise
from gles_delegate.ops.lib.views import View
from gles_delegate.shaders.dispatch import Define, Dispatch, Grid, Operand

MAX_BLOCK_LOADS = 64
"""Texels that a block's invocation loads for depthwise results in the time of a dispatch."""


def depthwise(product: Depthwise, setting: Setting) -> list[Dispatch]:
    """A depthwise convolution by runs of pixels."""
    x, output, window = product.x, product.output, product.window
    multiplier = product.multiplier
    weights, steps = _weights(product, setting)
    pixels = _run(product, setting)
    by_taps = window.kernel_w > setting.profile.columns
    by_taps |= multiplier > 1 and setting.profile.by_taps
    defines = {
        **window.run_defines(window.batch(output), pixels, by_taps),
        "IN_PIXELS": x.pixels,
        "MULTIPLIER": multiplier,
        "PIXELS": pixels,
    }
    if multiplier > 1:
        defines["IN_CHANNELS"] = x.channels
    dispatch = product.dispatch(
        "depthwise_conv_2d",
        (x, weights),
        _run_grid(product, pixels, setting),
        {**defines, **weight_defines(weights)},
        passes=window.kernel_h * (1 + window.kernel_w * by_taps),
        unrolled=pixels,
    )
    return [*steps, with_size_uniforms(dispatch, setting)]


def _weights(product: Depthwise, setting: Setting) -> tuple[Operand, list[Dispatch]]:
    slices, taps = product.output.slices, product.window.taps
    texels, constants = slices * (1 + taps), product.weights.constants
    if constants is not None:
        return packed_constants(setting, packing.depthwise_weights, constants, texels), []
    layout = View((slices, taps, 4), (4, product.output.channels, 1))
    return packed_by_run(product, slices, texels, layout, setting)


def _run(product: Depthwise, setting: Setting) -> int:
    """Pixels of a row that one invocation computes."""
    window, profile = product.window, setting.profile
    if product.multiplier > 1 and profile.by_taps:  # each pixel is read in four pieces
        return 1
    most = setting.option(profile.depthwise)
    most = most if window.stride_w == 1 else ceil(most / 2)
    most = max(min(most, window.pixels_within(profile.columns)), 1)
    if profile.searches:
        return searched_length(profile.searches[setting.choice], window, most)
    return window.run_length(most)


def _run_grid(product: Depthwise, run: int, setting: Setting) -> Grid:
    """Invocations for one slice of a run each; of few kinds if `TileSearch.few`."""
    window, slices = product.window, product.output.slices
    runs = window.batch(product.output) * window.out_h * window.runs(run)
    searches, lanes = setting.profile.searches, setting.limits.simd_lanes
    if not (searches and searches[setting.choice].few):
        return make_grid(runs, slices, setting.limits)
    if 2 * runs <= lanes and runs < slices:
        return Grid(runs, slices, 1, lanes, True)
    return Grid(runs, slices, lanes, 1 if slices % 4 else 4)


def _last_lanes(pair: DepthwisePointwise) -> dict[str, Define]:
    """Channels of the last slice of the depthwise results."""
    return {"LAST_LANES": (pair.first.output.channels - 1) % 4 + 1}


def pair_by_blocks(pair: DepthwisePointwise, setting: Setting) -> list[Dispatch] | None:
    """Both in work groups that share what they load.

    They compute depthwise results again for each work group along the output slices.
    """
    first, second, window = pair.first, pair.second, pair.first.window
    tile = block_tile(second, setting)
    if tile is None or second.output.slices > tile.block[1]:
        return None
    loads = first.output.slices // tile.depth * tile.loads
    taps, steps = _weights(first, setting)
    of_second = by_blocks(second, setting)
    if of_second is None or loads * window.taps > MAX_BLOCK_LOADS:
        return None
    if weight_defines(taps)["WEIGHT_TEXTURE"]:
        return None
    alone = of_second[-1]
    x = first.x
    kernel = {"KERNEL_H": window.kernel_h, "IN_PIXELS": x.pixels, "DEPTHWISE": 1}
    defines = {**alone.numbers, **window.block_defines(), **kernel, **_last_lanes(pair)}
    both = replace(
        alone, node=pair.node, fused=pair.fused, reads=(x, alone.reads[1], taps),
        defines={**defines, "POINTWISE": 0}, sizes={}, inner=first.epilogue, flops=pair.flops,
        passes=alone.passes + loads * (window.kernel_h * (window.kernel_w + 1) + 1),
    )  # fmt: skip
    if both.passes > setting.limits.loop_passes:
        return None
    return [*steps, with_size_uniforms(both, setting)]


def pair_by_runs(pair: DepthwisePointwise, setting: Setting) -> list[Dispatch] | None:
    """Both by runs of pixels on llvmpipe, if that takes less time.

    Depthwise results are computed again for each tile of output slices.
    """
    first, second, limits = pair.first, pair.second, setting.limits
    constants = second.weights.constants
    if not setting.profile.searches or constants is None or block_tile(second, setting):
        return None
    search = setting.profile.searches[setting.choice]
    window, x, output = first.window, first.x, second.output
    depth, pixels = first.output.slices, _run(first, setting)
    grid = _run_grid(first, pixels, setting)
    size = window.taps
    loads, products = window.kernel_h * window.columns(pixels) + size, pixels * size / 4
    runs = ceil(grid.pixels / limits.simd_lanes)

    def time(slices: int) -> float:
        groups, texels = runs * ceil(output.slices / slices), pixels * slices
        time = time_of(groups, depth, loads + 4 * slices, products + texels, texels)
        return time + search.compile_cost * texels

    each = min(fused_slices(search, pixels, output.slices), key=time)
    tile = run_tile(second, setting)
    time_apart = time_of(runs * depth, 1, loads, products, pixels) + DISPATCH
    time_apart += tile.time(output.pixels, output.slices, depth)
    time_apart += search.compile_cost * tile.texels
    passes = depth * (window.kernel_h + 2) + pixels * each + 2
    if time(each) > time_apart or passes > limits.loop_passes:
        return None
    slices = ceil(output.slices / each) * each
    texels = packing.bias_texels(slices) + slices * 4 * depth
    args = (second.groups, slices, each)
    weights = packed_constants(setting, packing.conv_weights, constants, texels, args)
    taps, steps = _weights(first, setting)
    defines: dict[str, Define] = {
        **window.run_defines(window.batch(first.output), pixels),
        "IN_PIXELS": x.pixels,
        "MULTIPLIER": 1,
        "PIXELS": pixels,
        "IN_SLICES": depth,
        "IN_LANES": min(first.output.channels, 4),
        **_last_lanes(pair),
        "W_SLICES": slices,
        "BLOCK": each,
        **weight_defines(weights),
        **tile_defines(pixels, each, setting),
    }
    grid = Grid(grid.pixels, slices // each, limits.simd_lanes, 1)
    both = pair.dispatch(
        "depthwise_product",
        (x, weights, taps),
        grid,
        defines,
        passes=passes,
        unrolled=pixels * each,
    )
    return [*steps, with_size_uniforms(replace(both, inner=first.epilogue), setting)]


def apart(pair: DepthwisePointwise, setting: Setting) -> list[Dispatch]:
    """One after the other."""
    second = by_blocks(pair.second, setting) or by_runs(pair.second, setting)
    return depthwise(pair.first, setting) + second


AT_ONCE = (pair_by_blocks, pair_by_runs)
"""The kernels of pairs that compute both."""


def is_computed_at_once(pair: DepthwisePointwise, setting: Setting) -> bool:
    """Whether one dispatch computes both."""
    return any(kernel(pair, setting) is not None for kernel in AT_ONCE)
