"""Dense convolutions and matrix products, by glsl/lib/product.glsl."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from gles_delegate.device.limits import Limits
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import WORK_GROUP, with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.tiles import FEW_PIXELS, Tile, gpu_lanes, option_of
from gles_delegate.ops.lib.views import View
from gles_delegate.ops.lib.weights import constant_weights, packed, packed_constants, weight_defines
from gles_delegate.ops.lib.window import Window
from gles_delegate.shaders.dispatch import (
    Alias,
    Call,
    Const,
    Define,
    Dispatch,
    Operand,
    Step,
    Value,
)


@dataclass(frozen=True, kw_only=True)
class Convolution(Dispatch):
    """A dense convolution.

    Attributes:
        window: None if each output pixel reads only its own input pixel.
        tile: The output texels of one invocation.
        divisions: Divisions of the input's slices; each output slice reads one of them.
    """

    window: Window | None
    tile: Tile
    divisions: int


def product(
    node: NodeView,
    x: Operand,
    output: Value,
    window: Window | None = None,
    epilogue: tuple[Call, ...] = (),
    groups: int = 1,
    inputs: tuple[int, int] = (1, 2),
) -> list[Step]:
    """Lower a dense convolution; without a `window`, each output pixel reads one input pixel.

    Args:
        inputs: Positions of the weights and of the biases, which may be absent.
    """
    flops = 2 * output.elements * prod(node.shape(inputs[0])[1:])
    merged = _merged(groups, x.channels, output.channels)
    divisions = groups // merged
    in_slices, out_slices = x.slices // divisions, output.slices // divisions
    sizes = output.pixels, output.slices, in_slices
    if window is not None and window.is_pointwise:
        window = None
    taps = window.kernel_h * window.kernel_w if window else 0
    block = Tile.of_block(*sizes, node.limits, node.choice, taps)
    if block and divisions == 1 and x.channels >= 4:
        convolution = _block_product(node, x, output, window, block, epilogue, flops)
        by_runs = window is not None
        return with_weights(node, convolution, block, (groups, merged), inputs, by_runs)
    defines: dict[str, Define]
    if window is None:
        tile = Tile.choose(*sizes, node.limits, node.choice)
        tiles = ceil(output.pixels / tile.pixels)
        defines = {"POINTWISE": 1, "KERNEL_H": 1, "KERNEL_W": 1}
        passes = in_slices
    else:
        batch = output.shape[0]
        tile = Tile.of_run(window, batch, x, output.slices, node.limits, node.choice)
        tiles = batch * window.out_h * window.runs(tile.pixels)
        by_taps = node.limits.profile.by_taps
        defines = {"POINTWISE": 0, **window.run_defines(batch, tile.pixels, by_taps)}
        row = window.kernel_w * (in_slices + 1) + 1 if by_taps else in_slices
        passes = window.kernel_h * row
    if divisions > 1:
        tile = replace(tile, slices=gcd(tile.slices, out_slices))
    defines["GROUP_SLICES"] = out_slices if divisions > 1 else 0
    grid = tile.grid(tiles, ceil(output.slices / tile.slices))
    shared = option_of(node.limits.profile.shared_sums, node.choice)
    if shared or output.pixels < FEW_PIXELS:
        grid = with_reduction_lanes(grid, in_slices, node.limits, taps if shared and taps else 1)
    defines["ADJACENT"] = 0
    defines["STEPPED"] = int(node.limits.profile.stepped and grid.reduction_lanes == 1)
    dispatch = Convolution(
        node.index, "conv_2d", (x,), output, grid, defines, epilogue, flops=flops,
        choice=node.choice, passes=passes + tile.pixels * tile.slices + 2, window=window,
        tile=tile, divisions=divisions,
    )  # fmt: skip
    return with_weights(node, dispatch, tile, (groups, merged), inputs, window is not None)


def _block_product(
    node: NodeView,
    x: Operand,
    output: Value,
    window: Window | None,
    tile: Tile,
    epilogue: tuple[Call, ...],
    flops: int,
) -> Convolution:
    """A convolution whose work groups share what they load."""
    depth, defines = x.slices, dict[str, Define](POINTWISE=int(window is None), DEPTHWISE=0)
    if window:
        depth *= window.kernel_h * window.kernel_w
        defines |= window.block_defines()
    return Convolution(
        node.index, "block_product", (x,), output, tile.block_grid(output.pixels, output.slices),
        {**defines, **tile.block_defines(depth)}, epilogue, flops=flops, choice=node.choice,
        passes=tile.block_passes(depth), window=window, tile=tile, divisions=1,
    )  # fmt: skip


def with_half_tile(dispatch: Convolution, limits: Limits, reads_half: bool) -> Convolution:
    """The convolution with the tile for tensors stored as float16: `Profile.half_pointwise`, or
    `half_windows`.

    Args:
        reads_half: Whether its input is stored as float16; tensors outside the plan are not.
    """
    profile, grid, window = limits.profile, dispatch.grid, dispatch.window
    tiles = profile.half_windows if window else profile.half_pointwise
    is_own = dispatch.tile.depth or grid.slices_in_x or grid.reduction_lanes > 1
    if dispatch.choice or not tiles or is_own:
        return dispatch
    output = dispatch.output
    is_adjacent = window is None and reads_half and output.pixels % 2 == 0
    pixels, slices = tiles[0] if is_adjacent else tiles[-1]
    numbers = dispatch.numbers
    whole = gcd(int(str(numbers["BLOCK"])), int(str(numbers.get("GROUP_SLICES", 0))))
    if whole % slices or output.pixels < pixels:
        return dispatch
    changed: dict[str, Define] = {}
    if window is None:
        count = ceil(output.pixels / pixels)
        changed["ADJACENT"] = int(is_adjacent)
    else:
        pixels = window.run_length(pixels)
        batch = output.shape[0]
        count = batch * window.out_h * window.runs(pixels)
        changed |= window.run_defines(batch, pixels, profile.by_taps)
    rows = ceil(output.slices / slices)
    tile = Tile(pixels, slices, *gpu_lanes(count, rows, profile))
    changed |= tile_defines(pixels, slices, limits, dispatch.choice)
    sizes = {name: int(str(changed.get(name, size))) for name, size in dispatch.sizes.items()}
    defines = {name: value for name, value in changed.items() if name not in sizes}
    return replace(
        dispatch,
        grid=tile.grid(count, rows),
        tile=tile,
        defines={**dispatch.defines, **defines},
        sizes=sizes,
    )


def weight_block(tile: Tile, by_runs: bool, limits: Limits, choice: int) -> int:
    """Number of slices with weights side by side, enough for the tiles of both types of storage."""
    half = limits.profile.half_windows if by_runs and choice == 0 else ()
    return max([tile.slices, *(slices for _, slices in half if slices % tile.slices == 0)])


def _merged(groups: int, inputs: int, outputs: int) -> int:
    """The fewest neighboring groups that together read and write whole slices, or all groups."""
    for count in range(1, groups):
        whole = groups % count or count * inputs // groups % 4 or count * outputs // groups % 4
        if not whole:
            return count
    return groups


MAX_DIVIDED = 1 << 20
"""glsl/lib/tensor.glsl divides only smaller numbers by a uniform."""

_SIZES = {
    *("BATCH", "RUNS", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "KERNEL_H"),
    *("IN_PIXELS", "IN_SLICES", "W_SLICES", "BLOCK", "GROUPS", "STORES", "STEPS"),
}
"""Sizes that may be uniforms: a convolution's code does not depend on them."""


def with_weights(
    node: NodeView,
    dispatch: Dispatch,
    tile: Tile,
    groups: packing.Groups,
    inputs: tuple[int, int],
    by_runs: bool = True,
) -> list[Step]:
    """Add the weights and biases at `inputs` to the reads of `dispatch`, and its sizes.

    Args:
        by_runs: Whether an invocation computes a run of pixels that share inputs.
    """
    (x,), in_slices = dispatch.reads, dispatch.reads[0].slices * groups[1] // groups[0]
    block = tile.block[1] if tile.depth else weight_block(tile, by_runs, node.limits, node.choice)
    slices = ceil(dispatch.output.slices / block) * block
    if dispatch.grid.slices_in_x:
        block = slices  # neighboring lanes read neighboring weights, otherwise all read the same
    shape = node.shape(inputs[0])
    taps, first = prod(shape[1:-1]), packing.bias_texels(slices)
    texels = first + slices * taps * in_slices * 4
    weights: Operand
    steps: list[Step] = []
    if tensors := constant_weights(node, inputs):
        pack, args = packing.conv_weights, (groups, slices, block)
        weights = packed_constants(node.limits, node.choice, pack, tensors, texels, args)
    elif groups[1] > 1:
        raise Unsupported("grouped convolution with weights computed at run time")
    else:
        # With the channels padded to whole slices, a column's lanes are elements like any other.
        source, wide = node.input(inputs[0]), (shape[0], taps, 4 * in_slices)
        if isinstance(source, Const):
            source = replace(source, shape=wide)
        else:
            padded = node.scratch(wide, "wide")
            source, steps = padded, [Alias(node.index, padded, source)]
        row = taps * 4 * in_slices
        columns = View(
            (slices // block, taps * in_slices, block, 4, 4), (block * 4 * row, 4, 4 * row, 1, row)
        )
        weights, packing_steps = packed(node, source, inputs[1], first, texels, columns)
        steps += packing_steps
    dispatch = replace(dispatch, reads=(x, weights))
    sizes = (in_slices, slices, block)
    return [*steps, with_product_defines(dispatch, tile, sizes, node.limits, by_runs)]


def with_product_defines(
    dispatch: Dispatch, tile: Tile, sizes: tuple[int, int, int], limits: Limits, by_runs: bool
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
        **tile_defines(tile.pixels, tile.slices, limits, dispatch.choice),
        "IN_PIXELS": x.pixels,
        "IN_SLICES": in_slices,
        "W_SLICES": slices,
        "BLOCK": block,
    }
    return with_size_uniforms(replace(dispatch, defines=defines), limits, by_runs)


def tile_defines(pixels: int, slices: int, limits: Limits, choice: int) -> dict[str, Define]:
    """Defines of glsl/lib/product.glsl for a tile."""
    loop = limits.store_loops and choice == 0
    tile: dict[str, Define] = {"PIXELS": pixels, "SLICES": slices, "STORE_LOOP": int(loop)}
    return {**tile, "STORES": pixels * slices} if loop else tile


def with_size_uniforms(dispatch: Dispatch, limits: Limits, by_runs: bool = True) -> Dispatch:
    """Make sizes uniforms, so that other sizes share the program, unless that costs speed.

    A GPU's compiler overlaps the loads of a window's rows only if their number is constant; that
    takes registers. See also `Profile.constant_sizes`.
    """
    if max(dispatch.output.pixels, dispatch.grid.pixels + WORK_GROUP) >= MAX_DIVIDED:
        return dispatch
    if by_runs and option_of(limits.profile.constant_sizes, dispatch.choice):
        return dispatch
    names = set(_SIZES)
    if dispatch.defines.get("BY_TAPS"):
        names.add("KERNEL_W")
    elif not limits.profile.row_loops:
        names.remove("KERNEL_H")
    return dispatch.sized(*(name for name in dispatch.defines if name in names))
