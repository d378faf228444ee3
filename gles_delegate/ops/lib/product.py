"""Dense convolutions and matrix products, by glsl/lib/product.glsl."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from gles_delegate.dispatch import (
    Alias,
    Call,
    Const,
    Define,
    Dispatch,
    DispatchT,
    Operand,
    Shape,
    Step,
    Value,
)
from gles_delegate.limits import Limits
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import WORK_GROUP, with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.runs import run_defines, runs_of
from gles_delegate.ops.lib.tiles import FEW_PIXELS, Tile, option_of
from gles_delegate.ops.lib.views import View
from gles_delegate.ops.lib.weights import (
    WeightInputs,
    constant_weights,
    packed,
    packed_constants,
    weight_defines,
)
from gles_delegate.ops.lib.window import Window


@dataclass(frozen=True, kw_only=True)
class Convolution(Dispatch):
    """A dense convolution.

    Attributes:
        window: None where each output pixel sees only its own input pixel.
        tile: What one invocation computes.
        parts: Parts of the input's slices, of which each output slice sees one.
    """

    window: Window | None
    tile: Tile
    parts: int


def product(
    node: NodeView,
    x: Operand,
    output: Value,
    window: Window | None = None,
    epilogue: tuple[Call, ...] = (),
    groups: int = 1,
    inputs: WeightInputs = (1, 2),
) -> list[Step]:
    """Lower a dense convolution; `window` None: each output pixel sees one input pixel."""
    flops = 2 * output.elements * prod(node.shape(inputs[0])[1:])
    merged = _merged(groups, x.channels, output.channels)
    parts = groups // merged
    in_slices, part_slices = x.slices // parts, output.slices // parts
    defines: dict[str, Define]
    if window is not None and window.is_pointwise:
        window = None
    if window is None:
        tile = Tile.choose(output.pixels, output.slices, in_slices, node.limits, node.choice)
        tiles = ceil(output.pixels / tile.pixels)
        defines = {"POINTWISE": 1, "KERNEL_H": 1, "KERNEL_W": 1}
        passes = in_slices
    else:
        batch = output.shape[0]
        tile = Tile.of_run(window, batch, x, output.slices, node.limits, node.choice)
        tiles = batch * window.out_h * runs_of(window, tile.pixels)
        by_taps = node.limits.profile.by_taps
        defines = {"POINTWISE": 0, **run_defines(window, batch, tile.pixels, by_taps)}
        row = window.kernel_w * (in_slices + 1) + 1 if by_taps else in_slices
        passes = window.kernel_h * row
    if parts > 1:
        tile = replace(tile, slices=gcd(tile.slices, part_slices))
    defines["GROUP_SLICES"] = part_slices if parts > 1 else 0
    grid = tile.grid(tiles, ceil(output.slices / tile.slices))
    if output.pixels < FEW_PIXELS:
        grid = with_reduction_lanes(grid, in_slices, node.limits)
    defines["STEPPED"] = int(node.limits.profile.stepped and grid.reduction_lanes == 1)
    dispatch = Convolution(
        node.index, "conv_2d", (x,), output, grid, defines, epilogue, flops=flops,
        choice=node.choice, passes=passes + tile.pixels * tile.slices + 2, window=window,
        tile=tile, parts=parts,
    )  # fmt: skip
    split = (groups, merged)
    return with_weights(node, dispatch, tile, split, inputs, by_runs=window is not None)


def _merged(groups: int, inputs: int, outputs: int) -> int:
    """The fewest neighboring groups that together read and write whole slices, or all groups."""
    for count in range(1, groups):
        whole = groups % count or count * inputs // groups % 4 or count * outputs // groups % 4
        if not whole:
            return count
    return groups


MOST_DIVIDED = 1 << 20
"""glsl/lib/tensor.glsl divides only smaller numbers by a uniform."""


_SIZES = {
    *("BATCH", "RUNS", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "KERNEL_H"),
    *("IN_PIXELS", "IN_SLICES", "W_SLICES", "BLOCK", "GROUPS", "STORES"),
}
"""Numbers on which a convolution's code does not depend."""


def with_weights(
    node: NodeView,
    dispatch: Dispatch,
    tile: Tile,
    groups: packing.Groups,
    inputs: WeightInputs,
    by_runs: bool = True,
) -> list[Step]:
    """Add the weights and biases at `inputs` to what `dispatch` reads.

    Args:
        by_runs: Whether an invocation computes a run of pixels that share inputs.
    """
    (x,), output = dispatch.reads, dispatch.output
    in_slices = x.slices * groups[1] // groups[0]
    slices = ceil(output.slices / tile.slices) * tile.slices
    # Neighboring lanes read neighboring weights, or all read the same.
    block = slices if dispatch.grid.slices_in_x else tile.slices
    weights, steps = _weights(node, inputs, groups, in_slices, slices, block)
    sizes = {"IN_PIXELS": x.pixels, "IN_SLICES": in_slices, "W_SLICES": slices, "BLOCK": block}
    defines = {
        "IN_LANES": min(x.channels, 4),
        **weight_defines(weights),
        **tile_defines(tile.pixels, tile.slices, node.limits, node.choice),
    }
    dispatch = replace(
        dispatch, reads=(x, weights), defines={**dispatch.defines, **defines, **sizes}
    )
    return [*steps, with_size_uniforms(dispatch, node.limits, by_runs)]


def tile_defines(pixels: int, slices: int, limits: Limits, choice: int) -> dict[str, Define]:
    """Defines of glsl/lib/product.glsl for a tile."""
    loop = limits.store_loops and choice == 0
    tile: dict[str, Define] = {"PIXELS": pixels, "SLICES": slices, "STORE_LOOP": int(loop)}
    return {**tile, "STORES": pixels * slices} if loop else tile


def with_size_uniforms(dispatch: DispatchT, limits: Limits, by_runs: bool = True) -> DispatchT:
    """Make the sizes uniforms where that costs nothing, so that other sizes share the program.

    Except those that the profile has as constants. A GPU's compiler overlaps the loads of a
    window's rows only if their number is constant, which takes registers.
    """
    if max(dispatch.output.pixels, dispatch.grid.pixels + WORK_GROUP) >= MOST_DIVIDED:
        return dispatch
    if by_runs and option_of(limits.profile.constant_sizes, dispatch.choice):
        return dispatch
    names = set(_SIZES)
    if dispatch.defines.get("BY_TAPS"):
        names.add("KERNEL_W")
    elif not limits.profile.row_loops:
        names.remove("KERNEL_H")
    return dispatch.sized(*(name for name in dispatch.defines if name in names))


def _weights(
    node: NodeView,
    inputs: WeightInputs,
    groups: packing.Groups,
    in_slices: int,
    slices: int,
    block: int,
) -> tuple[Operand, list[Step]]:
    """The weights as glsl/conv_2d.glsl reads them, and the steps that pack them at run time."""
    shape = node.shape(inputs[0])
    taps = prod(shape[1:-1])
    first = packing.bias_texels(slices)
    texels = first + slices * taps * in_slices * 4
    tensors = constant_weights(node, inputs)
    if tensors:
        how = (groups, slices, block)
        return packed_constants(node, packing.conv_weights, tensors, texels, how), []
    if groups[1] > 1:
        raise Unsupported("grouped convolution with weights computed at run time")
    outputs, depth = shape[0], 4 * in_slices
    columns = View(
        (slices // block, taps * in_slices, block, 4, 4),
        (block * 4 * taps * depth, 4, 4 * taps * depth, 1, taps * depth),
    )
    # With the channels padded to whole slices, a column's lanes are elements like any other.
    source, steps = _with_shape(node, node.input(inputs[0]), (outputs, taps, depth))
    weights, packing_steps = packed(node, source, inputs[1], first, texels, columns)
    return weights, [*steps, *packing_steps]


def _with_shape(node: NodeView, source: Operand, shape: Shape) -> tuple[Operand, list[Step]]:
    """Reinterpret the texels of `source` as a tensor of another shape."""
    if isinstance(source, Const):
        return replace(source, shape=shape), []
    other = node.scratch(shape, "wide")
    return other, [Alias(node.index, other, source)]
