"""CONV_2D, DEPTHWISE_CONV_2D and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil, prod
from typing import TypeAlias

from gles_delegate.dispatch import (
    Alias,
    Call,
    Const,
    Define,
    Dispatch,
    Grid,
    Operand,
    Shape,
    Step,
    Value,
)
from gles_delegate.limits import Limits
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import WORK_GROUP, make_grid
from gles_delegate.ops.lib.registry import (
    Bool,
    Int8,
    Int32,
    NodeView,
    Options,
    Unsupported,
    activation,
    op,
)
from gles_delegate.ops.lib.strides import rank_4
from gles_delegate.ops.lib.tiles import CPU_TILES, DISPATCH, Tile, run_length, runs_of, time_of
from gles_delegate.ops.lib.views import Region, View, reshape_view, view
from gles_delegate.ops.lib.window import Window

MOST_DIVIDED = 1 << 20
"""What glsl/lib/tensor.glsl divides by a uniform is less."""

_SIZES = {
    *("BATCH", "RUNS", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "KERNEL_H"),
    *("IN_PIXELS", "IN_SLICES", "W_SLICES", "BLOCK", "GROUPS", "STORES"),
}
"""What a convolution's code does not depend on."""

WeightInputs: TypeAlias = tuple[int, int]
"""Which inputs of a node are the weights and, if it has them, the biases."""


@dataclass(frozen=True)
class Conv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@dataclass(frozen=True)
class DepthwiseConv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    depth_multiplier: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@dataclass(frozen=True)
class FullyConnectedOptions(Options):
    fused_activation: Int8 = 0
    weights_format: Int8 = 0
    keep_num_dims: Bool = False


@op("CONV_2D", max_version=8, options=Conv2DOptions)
def conv_2d(node: NodeView, options: Conv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    outputs, kernel_h, kernel_w, share = rank_4(node.shape(1), "the weights")
    if not share or channels % share or outputs % (channels // share):
        raise Unsupported(f"weights for {share} channels on an input with {channels}")
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    epilogue = activation(options.fused_activation)
    return product(node, x, output, window, epilogue, channels // share)


@op("FULLY_CONNECTED", max_version=13, options=FullyConnectedOptions)
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
        reshape_view(node.node.index, x, rows, node.limits),
        *product(node, rows, output, None, activation(options.fused_activation)),
    ]


def product(
    node: NodeView,
    x: Operand,
    output: Value,
    window: Window | None = None,
    epilogue: tuple[Call, ...] = (),
    groups: int = 1,
    inputs: WeightInputs = (1, 2),
) -> list[Step]:
    """The dense product of the input under `window` (None: one pixel) and the weights."""
    flops = 2 * output.elements * prod(node.shape(inputs[0])[1:])
    defines: dict[str, Define]
    if window is None or window.is_pointwise:
        tile = Tile.choose(output.pixels, output.slices, x.slices, node.limits, node.choice)
        tiles = ceil(output.pixels / tile.pixels)
        defines = {"POINTWISE": 1, "KERNEL_H": 1, "KERNEL_W": 1}
    else:
        batch = output.shape[0]
        tile = Tile.of_run(window, batch, x, output.slices, node.limits, node.choice)
        tiles = batch * window.out_h * runs_of(window, tile.pixels)
        defines = {"POINTWISE": 0, **run_defines(window, batch, tile.pixels)}
    grid = tile.grid(tiles, ceil(output.slices / tile.slices))
    dispatch = Dispatch(
        node.node.index, "conv_2d", (x,), output, grid, defines, epilogue, flops=flops,
        choice=node.choice,
    )  # fmt: skip
    return with_weights(node, dispatch, tile, groups, inputs)


def run_defines(window: Window, batch: int, pixels: int) -> dict[str, Define]:
    """What glsl/lib/runs.glsl has to know of runs of that many pixels."""
    columns = (pixels - 1) * window.stride_w + window.kernel_w
    runs: dict[str, Define] = {
        "BATCH": batch,
        "RUNS": runs_of(window, pixels),
        "COLUMNS": columns,
    }
    return {**window.defines("KERNEL"), **window.dilation_defines(), **runs}


def with_weights(
    node: NodeView, dispatch: Dispatch, tile: Tile, groups: int, inputs: WeightInputs
) -> list[Step]:
    """What computes `dispatch`, once it reads the weights and biases at `inputs` as well."""
    (x,), output = dispatch.reads, dispatch.output
    slices = ceil(output.slices / tile.slices) * tile.slices
    # Neighbouring lanes read neighbouring weights, or all lanes the same ones.
    block = slices if tile.slices_in_x else tile.slices
    weights, steps = _weights(node, inputs, groups, x.slices, slices, block)
    sizes = {"IN_PIXELS": x.pixels, "IN_SLICES": x.slices, "W_SLICES": slices, "BLOCK": block}
    defines = {
        "IN_LANES": min(x.channels, 4),
        **tile_defines(tile.pixels, tile.slices, node.limits, node.choice),
    }
    dispatch = replace(
        dispatch, reads=(x, weights), defines={**dispatch.defines, **defines, **sizes}
    )
    return [*steps, with_size_uniforms(dispatch, node.limits)]


def tile_defines(pixels: int, slices: int, limits: Limits, choice: int) -> dict[str, Define]:
    """What glsl/lib/product.glsl has to know of a tile."""
    loop = limits.store_loops and choice == 0
    tile: dict[str, Define] = {"PIXELS": pixels, "SLICES": slices, "STORE_LOOP": int(loop)}
    return {**tile, "STORES": pixels * slices} if loop else tile


def with_size_uniforms(dispatch: Dispatch, limits: Limits) -> Dispatch:
    """The same, where possible with its sizes as uniforms, so that other sizes share its program.

    Runs are a little slower then, on llvmpipe. A GPU's compiler can overlap the loads of a window's
    rows only if their number is a constant.
    """
    if max(dispatch.output.pixels, dispatch.grid.pixels + WORK_GROUP) >= MOST_DIVIDED:
        return dispatch
    if dispatch.choice and not dispatch.defines.get("POINTWISE"):
        return dispatch
    names = _SIZES if limits.cpu else _SIZES - {"KERNEL_H"}
    return dispatch.sized(*(name for name in dispatch.defines if name in names))


def _weights(
    node: NodeView, inputs: WeightInputs, groups: int, in_slices: int, slices: int, block: int
) -> tuple[Operand, list[Step]]:
    """The weights as glsl/conv_2d.glsl reads them, and what must run to make them so."""
    shape = node.shape(inputs[0])
    taps = prod(shape[1:-1])
    texels = slices * (1 + taps * in_slices * 4)
    if _are_constant(node, inputs):
        tensors = (node.constant(inputs[0]), node.constant(inputs[1]))
        return Const(packing.conv_weights, tensors, (texels, 4), (groups, slices, block)), []
    if groups > 1:
        raise Unsupported("grouped convolution with weights computed at run time")
    outputs, depth = shape[0], 4 * in_slices
    columns = View(
        (slices // block, taps * in_slices, block, 4, 4),
        (block * 4 * taps * depth, 4, 4 * taps * depth, 1, taps * depth),
    )
    # With the channels padded to whole slices, a column's lanes are elements like any other.
    source, steps = _with_shape(node, node.input(inputs[0]), (outputs, taps, depth))
    weights, packing_steps = _packed(node, source, inputs[1], slices, texels, columns)
    return weights, [*steps, *packing_steps]


def _with_shape(node: NodeView, source: Operand, shape: Shape) -> tuple[Operand, list[Step]]:
    """The texels of `source` as a tensor of another shape that has just as many."""
    if isinstance(source, Const):
        return replace(source, shape=shape), []
    other = node.scratch(shape, "wide")
    return other, [Alias(node.node.index, other, source)]


def _are_constant(node: NodeView, inputs: WeightInputs) -> bool:
    return all(node.is_constant(i) for i in inputs if node.has_input(i))


def _packed(
    node: NodeView, source: Operand, bias_input: int, slices: int, texels: int, how: View
) -> tuple[Operand, list[Step]]:
    """Weights computed at run time: `slices` texels of biases, then the texels of `how`."""
    weights = node.scratch((texels, 4), "weights")
    bias = node.input(bias_input) if node.has_input(bias_input) else None
    biases = View((4 * slices,), (1,), upper=(4 * slices if bias else 0,))
    rest = texels - slices
    parts = (
        (bias or source, biases, Region(slices, 4, slices, slices)),
        (source, how, Region(rest, 4, rest, rest, out_pixel=slices)),
    )
    index = node.node.index
    return weights, [view(x, weights, v, node.limits, index, r) for x, v, r in parts]


@op("DEPTHWISE_CONV_2D", max_version=7, options=DepthwiseConv2DOptions)
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
    if _are_constant(node, (1, 2)):
        tensors = (node.constant(1), node.constant(2))
        weights = Const(packing.depthwise_weights, tensors, (texels, 4))
    else:
        how = View((output.slices, taps, 4), (4, outputs, 1))
        weights, steps = _packed(node, node.input(1), 2, output.slices, texels, how)
    most = 8 if window.stride_w == 1 else 4
    tiles = CPU_TILES[node.choice]
    pixels = tiles.length(window, most) if node.limits.cpu else run_length(window, most)
    multiplier = outputs // channels
    defines: dict[str, Define] = {
        **run_defines(window, batch, pixels),
        "IN_PIXELS": x.pixels,
        "MULTIPLIER": multiplier,
        "PIXELS": pixels,
    }
    if multiplier > 1:
        defines["IN_CHANNELS"] = channels
    runs = batch * window.out_h * runs_of(window, pixels)
    grid = _run_grid(runs, output.slices, node.limits, node.choice)
    dispatch = Dispatch(
        node.node.index, "depthwise_conv_2d", (x, weights), output, grid, defines,
        activation(options.fused_activation), flops=2 * output.elements * taps, choice=node.choice,
    )  # fmt: skip
    return [*steps, with_size_uniforms(dispatch, node.limits)]


def _run_grid(runs: int, slices: int, limits: Limits, choice: int) -> Grid:
    """Invocations for one slice of a run each; on llvmpipe at first in few kinds of work groups."""
    if choice or not limits.cpu:
        return make_grid(runs, slices, limits)
    lanes = limits.simd_lanes
    if 2 * runs <= lanes and runs < slices:
        return Grid(runs, slices, 1, lanes, True)
    return Grid(runs, slices, lanes, 1 if slices % 4 else 4)


def depthwise_product(first: Dispatch, second: Dispatch, limits: Limits) -> Dispatch | None:
    """A pointwise convolution together with the depthwise one that it reads.

    None where that is no such pair, or where it takes longer on llvmpipe: the depthwise results
    are computed anew for each tile of output slices.
    """
    weights, sizes, tile = second.reads[-1], _sizes(first), _sizes(second)
    if (
        (first.shader, sizes.get("MULTIPLIER")) != ("depthwise_conv_2d", 1)
        or (second.shader, tile.get("POINTWISE")) != ("conv_2d", 1)
        or not isinstance(weights, Const)
        or any(call.operand for call in first.epilogue)
    ):
        return None
    (x, taps), depth, outputs = first.reads, first.output.slices, second.output.slices
    pixels, size = sizes["PIXELS"], sizes["KERNEL_H"] * sizes["KERNEL_W"]
    columns = (pixels - 1) * sizes["STRIDE_W"] + sizes["KERNEL_W"]
    loads, products = sizes["KERNEL_H"] * columns + size, pixels * size / 4
    runs, tiles = ceil(first.grid.pixels / limits.simd_lanes), CPU_TILES[second.choice]

    def time(slices: int) -> float:
        groups, texels = runs * ceil(outputs / slices), pixels * slices
        time = time_of(groups, depth, loads + 4 * slices, products + texels, texels)
        return time + tiles.compile * texels

    each = min(tiles.slices_of(pixels, outputs), key=time)
    grid = second.grid
    lanes = (grid.pixel_lanes, grid.slice_lanes, grid.slices_in_x)
    apart = Tile(tile["PIXELS"], tile["SLICES"], *lanes)
    time_apart = time_of(runs * depth, 1, loads, products, pixels) + DISPATCH
    time_apart += apart.time(second.output.pixels, outputs, depth)
    if time(each) > time_apart + tiles.compile * apart.pixels * apart.slices:
        return None
    slices = ceil(outputs / each) * each
    defines = {
        **first.defines,
        **first.sizes,
        "IN_SLICES": depth,
        "IN_LANES": tile["IN_LANES"],
        "W_SLICES": slices,
        "BLOCK": each,
        **tile_defines(pixels, each, limits, second.choice),
    }
    shape, how = (slices * (1 + 4 * depth), 4), (weights.args[0], slices, each)
    both = replace(
        second,
        shader="depthwise_product",
        reads=(x, replace(weights, shape=shape, args=how), taps),
        grid=Grid(first.grid.pixels, slices // each, limits.simd_lanes, 1),
        defines=defines,
        sizes={},
        inner=first.epilogue,
        flops=first.flops + second.flops,
    )
    return with_size_uniforms(both, limits)


def _sizes(dispatch: Dispatch) -> dict[str, int]:
    defines = {**dispatch.defines, **dispatch.sizes}
    return {name: value for name, value in defines.items() if isinstance(value, int)}
