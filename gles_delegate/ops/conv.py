"""CONV_2D and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, gcd, prod

from gles_delegate.dispatch import (
    Call,
    Define,
    Dispatch,
    Operand,
    Step,
    Value,
)
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Int32, Options, activation
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import Rows
from gles_delegate.ops.lib.strides import rank_4
from gles_delegate.ops.lib.tiles import FEW_PIXELS, Tile, runs_of
from gles_delegate.ops.lib.views import reshape_view
from gles_delegate.ops.lib.weights import WeightInputs, run_defines, with_weights
from gles_delegate.ops.lib.window import Window


@dataclass(frozen=True)
class Conv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@dataclass(frozen=True)
class FullyConnectedOptions(Options):
    fused_activation: Int8 = 0
    weights_format: Int8 = 0
    keep_num_dims: Bool = False


@op("CONV_2D", max_version=8, options=Conv2DOptions, rows=rows.images, biases=(0, 1, 2))
def conv_2d(node: NodeView, options: Conv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    outputs, kernel_h, kernel_w, share = rank_4(node.shape(1), "the weights")
    if not share or not channels or channels % share or outputs % (channels // share):
        raise Unsupported(f"weights for {share} channels on an input with {channels}")
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    epilogue = activation(options.fused_activation)
    return product(node, x, output, window, epilogue, channels // share)


def _are_rows_of_the_matrix(batch: Rows, options: FullyConnectedOptions) -> bool:
    return batch.are_divided and batch.inputs == (0,)


@op(
    "FULLY_CONNECTED", max_version=13, options=FullyConnectedOptions, rows=_are_rows_of_the_matrix,
    biases=(0, 1, 2),
)  # fmt: skip
def fully_connected(node: NodeView, options: FullyConnectedOptions) -> list[Step]:
    x = node.input(0)
    if options.weights_format != 0:
        raise Unsupported("shuffled weights; expected the default weights format")
    if len(node.shape(1)) != 2:
        raise Unsupported(f"weights of shape {list(node.shape(1))}; expected rank 2")
    outputs, inputs = node.shape(1)
    if not inputs or x.elements % inputs:
        raise Unsupported(f"an input of {x.elements} elements; expected a multiple of {inputs}")
    rows = node.scratch((x.elements // inputs, inputs), "rows")
    if not options.keep_num_dims:
        output = node.output((rows.pixels, outputs))
    elif x.shape[-1:] == (inputs,):
        output = node.output((*x.shape[:-1], outputs))
    else:
        raise Unsupported(f"keep_num_dims with the shape {list(x.shape)} and {inputs} inputs")
    return [
        reshape_view(node.index, x, rows, node.limits),
        *product(node, rows, output, None, activation(options.fused_activation)),
    ]


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
    """The fewest neighbouring groups that together read and write whole slices, or all groups."""
    for count in range(1, groups):
        whole = groups % count or count * inputs // groups % 4 or count * outputs // groups % 4
        if not whole:
            return count
    return groups
