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
from gles_delegate.ops import packing
from gles_delegate.ops.grid import VECTOR, WORK_GROUP, make_grid
from gles_delegate.ops.movement import Region, View, rank_4, reshape_view, view
from gles_delegate.ops.registry import (
    Bool,
    Int8,
    Int32,
    NodeView,
    Options,
    Unsupported,
    activation,
    op,
)
from gles_delegate.ops.window import Window

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
    pointwise = window is None or window.is_pointwise
    tile = Tile.choose(output.pixels, output.slices, node.limits)
    defines: dict[str, Define] = {"POINTWISE": int(pointwise)}
    if window is None or pointwise:
        defines |= {"KERNEL_H": 1, "KERNEL_W": 1}
    else:
        defines |= window.defines("KERNEL") | window.dilation_defines()
    flops = 2 * output.elements * prod(node.shape(inputs[0])[1:])
    grid = tile.grid(ceil(output.pixels / tile.pixels), ceil(output.slices / tile.slices))
    dispatch = Dispatch(
        node.node.index, "conv_2d", (x,), output, grid, defines, epilogue, flops=flops
    )
    return with_weights(node, dispatch, tile, groups, inputs)


def with_weights(
    node: NodeView, dispatch: Dispatch, tile: Tile, groups: int, inputs: WeightInputs
) -> list[Step]:
    """What computes `dispatch`, once it reads the weights and biases at `inputs` as well."""
    (x,), output = dispatch.reads, dispatch.output
    slices = ceil(output.slices / tile.slices) * tile.slices
    # Neighbouring lanes read neighbouring weights, or all lanes the same ones.
    block = slices if tile.slices_in_x else tile.slices
    weights, steps = _weights(node, inputs, groups, x.slices, slices, block)
    defines: dict[str, Define] = {
        "IN_PIXELS": x.pixels,
        "IN_SLICES": x.slices,
        "W_SLICES": slices,
        "BLOCK": block,
        "PIXELS": tile.pixels,
        "SLICES": tile.slices,
    }
    return [*steps, replace(dispatch, reads=(x, weights), defines={**dispatch.defines, **defines})]


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
    pixels = run_length(window)
    step = window.dilation_w if window.stride_w == 1 else 1
    runs = ceil(window.out_w / (pixels * step)) * step
    multiplier = outputs // channels
    defines: dict[str, Define] = {
        **window.defines("KERNEL"),
        **window.dilation_defines(),
        "IN_PIXELS": x.pixels,
        "BATCH": batch,
        "MULTIPLIER": multiplier,
        "PIXELS": pixels,
        "RUNS": runs,
    }
    if multiplier > 1:
        defines["IN_CHANNELS"] = channels
    grid = make_grid(batch * window.out_h * runs, output.slices, node.limits)
    dispatch = Dispatch(
        node.node.index, "depthwise_conv_2d", (x, weights), output, grid, defines,
        activation(options.fused_activation), flops=2 * output.elements * taps,
    )  # fmt: skip
    return [*steps, dispatch]


@dataclass(frozen=True)
class Tile:
    """What one invocation of a convolution computes, and its work group."""

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False

    @classmethod
    def choose(cls, pixels: int, slices: int, limits: Limits) -> Tile:
        """The tile for an output of that many pixels and slices."""
        if pixels < 8 and slices > pixels:
            return cls(max(pixels, 1), 1, 1, 64, True)
        if not limits.cpu:  # registers hold no more
            return cls(4, min(slices, 2), VECTOR, WORK_GROUP // VECTOR)
        candidates = (
            cls(p, s, VECTOR, 1) for s in range(1, 5) for p in range(1, 17) if s <= slices
        )
        return min(candidates, key=lambda tile: tile._cost(pixels, slices))

    def _cost(self, pixels: int, slices: int) -> float:
        """Time on llvmpipe, up to a factor, for an output of that many pixels and slices.

        By measurement a load takes 8 ns, a product of a matrix and a vector 3.1 ns. The work
        groups are dealt out evenly to two or more threads.
        """
        groups = ceil(pixels / (VECTOR * self.pixels)) * ceil(slices / self.slices)
        loads, products = self.pixels + 4 * self.slices, self.pixels * self.slices
        return ceil(groups / 2) * (8 * loads + 3.1 * products)

    def grid(self, pixels: int, slices: int) -> Grid:
        """Invocations for that many tiles."""
        return Grid(pixels, slices, self.pixel_lanes, self.slice_lanes, self.slices_in_x)


def run_length(window: Window) -> int:
    """How many outputs of a row one invocation of a depthwise convolution computes."""
    if window.stride_w > 1 and window.dilation_w > 1:
        return 1  # neighbours share no inputs
    most = 8 if window.stride_w == 1 else 4
    step = window.dilation_w if window.stride_w == 1 else 1
    width = ceil(window.out_w / step) or 1
    return ceil(width / ceil(width / most))
