"""Dense convolutions and products of pixels and weights, by glsl/lib/product.glsl."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, gcd, prod

from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import FEW_PIXELS, Tile, gpu_lanes
from gles_delegate.kernels.weights import packed_by_run, packed_constants, weight_defines
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import WORK_GROUP, with_reduction_lanes
from gles_delegate.ops.lib.product import Convolution, WeightedProduct
from gles_delegate.ops.lib.views import View
from gles_delegate.shaders.dispatch import Define, Dispatch, Grid, Operand, stored_in_half

MAX_DIVIDED = 1 << 20
"""glsl/lib/tensor.glsl divides only smaller numbers by a uniform."""

_SIZES = {
    *("BATCH", "RUNS", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "KERNEL_H"),
    *("IN_PIXELS", "IN_SLICES", "W_SLICES", "BLOCK", "GROUPS", "STORES", "STEPS"),
}
"""Sizes that may be uniforms: a convolution's code does not depend on them."""


def block_tile(product: Convolution, setting: Setting) -> Tile | None:
    """The tile of work groups that share what they load; None if none suits the product."""
    if product.divisions > 1 or product.x.channels < 4:
        return None
    output = product.output
    sizes = output.pixels, output.slices, product.in_slices
    return Tile.of_block(*sizes, setting.limits, setting.choice, product.taps)


def by_blocks(product: Convolution, setting: Setting) -> list[Dispatch] | None:
    """A convolution whose work groups share what they load."""
    tile = block_tile(product, setting)
    if tile is None:
        return None
    output, window = product.output, product.window
    depth = product.x.slices
    defines: dict[str, Define] = {"POINTWISE": int(window is None), "DEPTHWISE": 0}
    if window:
        depth *= window.taps
        defines |= window.block_defines()
    dispatch = product.dispatch(
        "block_product",
        (product.x,),
        tile.block_grid(output.pixels, output.slices),
        {**defines, **tile.block_defines(depth)},
        passes=tile.block_passes(depth),
        unrolled=tile.texels,
    )
    has_window = window is not None
    return with_weights(product, dispatch, tile, tile.block[1], setting, has_window, product.groups)


def by_runs(product: Convolution, setting: Setting) -> list[Dispatch]:
    """A convolution each invocation of which computes a tile of pixels and slices alone.

    Several share the sums if the tiles are too few for the GPU.
    """
    x, output, window = product.x, product.output, product.window
    profile = setting.profile
    tile = run_tile(product, setting)
    grid = _run_grid(product, tile, setting)
    block = weight_block(tile, window is not None, setting)
    out_slices = output.slices // product.divisions
    group_slices = out_slices if product.divisions > 1 else 0
    is_adjacent = False
    if setting.half and not (grid.slices_in_x or grid.reduction_lanes > 1):
        reads_half = stored_in_half(x).kind == "half"
        pairs = window is None and reads_half and output.pixels % 2 == 0
        half = _half_tile(product, pairs, gcd(block, group_slices), setting)
        if half is not None:
            tile, is_adjacent = half, pairs
            grid = tile.grid(_tiles(product, tile), ceil(output.slices / tile.slices))
    defines: dict[str, Define]
    passes = product.in_slices
    if window is None:
        defines = {"POINTWISE": 1, "KERNEL_H": 1, "KERNEL_W": 1}
    else:
        defines = {"POINTWISE": 0}
        defines |= window.run_defines(window.batch(output), tile.pixels, profile.by_taps)
        if profile.by_taps:
            passes = window.kernel_w * (passes + 1) + 1
        passes *= window.kernel_h
    defines["GROUP_SLICES"] = group_slices
    defines["ADJACENT"] = int(is_adjacent)
    defines["STEPPED"] = int(profile.stepped and grid.reduction_lanes == 1)
    passes += tile.texels + 2
    dispatch = product.dispatch("conv_2d", (x,), grid, defines, passes=passes, unrolled=tile.texels)
    has_window = window is not None
    return with_weights(product, dispatch, tile, block, setting, has_window, product.groups)


def run_tile(product: Convolution, setting: Setting) -> Tile:
    """The tile of an invocation that computes alone, of tensors stored as float32."""
    output, window, limits = product.output, product.window, setting.limits
    if window is None:
        sizes = output.pixels, output.slices, product.in_slices
        tile = Tile.choose(*sizes, limits, setting.choice)
    else:
        batch = window.batch(output)
        tile = Tile.of_run(window, batch, product.x, output.slices, limits, setting.choice)
    if product.divisions > 1:
        tile = replace(tile, slices=gcd(tile.slices, output.slices // product.divisions))
    return tile


def _tiles(product: Convolution, tile: Tile) -> int:
    """The number of tiles along the pixels."""
    window, output = product.window, product.output
    if window is None:
        return ceil(output.pixels / tile.pixels)
    return window.batch(output) * window.out_h * window.runs(tile.pixels)


def _run_grid(product: Convolution, tile: Tile, setting: Setting) -> Grid:
    output = product.output
    grid = tile.grid(_tiles(product, tile), ceil(output.slices / tile.slices))
    shared = setting.option(setting.profile.shared_sums)
    if not (shared or output.pixels < FEW_PIXELS):
        return grid
    each = product.taps if shared and product.taps else 1
    return with_reduction_lanes(grid, product.in_slices, setting.limits, each)


def _half_tile(product: Convolution, pairs: bool, whole: int, setting: Setting) -> Tile | None:
    """The tile for tensors stored as float16, if another: `Profile.half_pointwise`, `half_windows`.

    Args:
        pairs: Two neighboring pixels are one load.
        whole: Slices that a tile must divide.
    """
    profile, output, window = setting.profile, product.output, product.window
    tiles = profile.half_windows if window else profile.half_pointwise
    if setting.choice or not tiles:
        return None
    pixels, slices = tiles[0] if pairs else tiles[-1]
    if whole % slices or output.pixels < pixels:
        return None
    if window is not None:
        pixels = window.run_length(pixels)
    tile = Tile(pixels, slices, 1, 1)
    lanes = gpu_lanes(_tiles(product, tile), ceil(output.slices / slices), profile)
    return Tile(pixels, slices, *lanes)


def weight_block(tile: Tile, by_runs: bool, setting: Setting) -> int:
    """Number of slices with weights side by side, enough for the tiles of both types of storage."""
    half = setting.profile.half_windows if by_runs and setting.choice == 0 else ()
    return max([tile.slices, *(slices for _, slices in half if slices % tile.slices == 0)])


def with_weights(
    product: WeightedProduct,
    dispatch: Dispatch,
    tile: Tile,
    block: int,
    setting: Setting,
    by_runs: bool,
    groups: packing.Groups = (1, 1),
) -> list[Dispatch]:
    """Add the weights to the reads of `dispatch`, and its sizes; and what packs them in a run.

    Args:
        block: Number of slices with weights side by side.
        by_runs: Whether an invocation computes a run of pixels that share inputs.
        groups: As for `packing.conv_weights`.
    """
    shape, constants = product.weights.shape, product.weights.constants
    in_slices = product.x.slices * groups[1] // groups[0]
    slices = ceil(product.output.slices / block) * block
    if dispatch.grid.slices_in_x:
        block = slices  # neighboring lanes read neighboring weights, otherwise all read the same
    taps = prod(shape[1:-1])
    first = packing.bias_texels(slices)
    texels = first + slices * taps * in_slices * 4
    weights: Operand
    steps: list[Dispatch] = []
    if constants is not None:
        args = (groups, slices, block)
        weights = packed_constants(setting, packing.conv_weights, constants, texels, args)
    else:
        # With the channels padded to whole slices, a column's lanes are elements like any other.
        wide = (shape[0], taps, 4 * in_slices)
        row = taps * 4 * in_slices
        columns = View(
            (slices // block, taps * in_slices, block, 4, 4), (block * 4 * row, 4, 4 * row, 1, row)
        )
        weights, steps = packed_by_run(product, first, texels, columns, setting, wide)
    dispatch = replace(dispatch, reads=(product.x, weights))
    sizes = in_slices, slices, block
    return [*steps, with_product_defines(dispatch, tile, sizes, setting, by_runs)]


def with_product_defines(
    dispatch: Dispatch, tile: Tile, sizes: tuple[int, int, int], setting: Setting, by_runs: bool
) -> Dispatch:
    """Add the defines of glsl/lib/product.glsl to a dispatch that reads X and W.

    Args:
        sizes: Input slices, slices of W, and those whose weights lie side by side.
    """
    x, weights = dispatch.reads
    in_slices, slices, block = sizes
    defines: dict[str, Define] = {
        **dispatch.defines,
        "IN_LANES": min(x.channels, 4),
        **weight_defines(weights),
        **tile_defines(tile.pixels, tile.slices, setting),
        "IN_PIXELS": x.pixels,
        "IN_SLICES": in_slices,
        "W_SLICES": slices,
        "BLOCK": block,
    }
    return with_size_uniforms(replace(dispatch, defines=defines), setting, by_runs)


def tile_defines(pixels: int, slices: int, setting: Setting) -> dict[str, Define]:
    """Defines of glsl/lib/product.glsl for a tile."""
    loop = setting.limits.store_loops and setting.choice == 0
    tile: dict[str, Define] = {"PIXELS": pixels, "SLICES": slices, "STORE_LOOP": int(loop)}
    return {**tile, "STORES": pixels * slices} if loop else tile


def with_size_uniforms(dispatch: Dispatch, setting: Setting, by_runs: bool = True) -> Dispatch:
    """Make sizes uniforms, so that other sizes share the program, unless that costs speed.

    A GPU's compiler overlaps the loads of a window's rows only if their number is constant; that
    takes registers. See also `Profile.constant_sizes`.

    Args:
        by_runs: Whether an invocation computes a run of pixels that share inputs.
    """
    if max(dispatch.output.pixels, dispatch.grid.pixels + WORK_GROUP) >= MAX_DIVIDED:
        return dispatch
    if by_runs and setting.option(setting.profile.constant_sizes):
        return dispatch
    names = set(_SIZES)
    if dispatch.defines.get("BY_TAPS"):
        names.add("KERNEL_W")
    elif not setting.profile.row_loops:
        names.remove("KERNEL_H")
    return dispatch.sized(*(name for name in dispatch.defines if name in names))
