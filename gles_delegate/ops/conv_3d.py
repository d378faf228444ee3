"""CONV_3D and CONV_3D_TRANSPOSE."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

import numpy as np

from gles_delegate.dispatch import Const, Define, Operand, Shape, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.views import View
from gles_delegate.ops.lib.weights import constant_weights, packed
from gles_delegate.ops.lib.window import SAME, VALID, span

RUN = 4
"""Most pixels of a row that an invocation computes."""


@dataclass(frozen=True)
class Conv3DOptions(Options):
    padding: Int8 = 0
    stride_d: Int32 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0
    dilation_d: Int32 = 1
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@op("CONV_3D", options=Conv3DOptions, rows=rows.images)
def conv_3d(node: NodeView, options: Conv3DOptions) -> list[Step]:
    x, kernel = node.input(0), node.shape(1)
    _check(node, x, kernel)
    sizes, padding = _windows(options, x.shape[1:4], kernel)
    shape = (x.shape[0], *sizes, kernel[4])
    return _convolution(node, options, x, shape, padding, (1, 2), transposed=False)


@op("CONV_3D_TRANSPOSE", options=Conv3DOptions, sized_by=(0,))
def conv_3d_transpose(node: NodeView, options: Conv3DOptions) -> list[Step]:
    shape = tuple(node.array(0).ravel().tolist())
    x, kernel = node.input(2), node.shape(1)
    swapped = (*kernel[:3], *kernel[:2:-1])
    _check(node, x, swapped)
    if len(shape) != 5:
        raise Unsupported(f"an output of shape {list(shape)}; expected rank 5")
    sizes, padding = _windows(options, shape[1:4], kernel)
    expected = (shape[0], *sizes, kernel[4])
    if x.shape != expected or shape[4] != kernel[3]:
        raise Unsupported(
            f"an input of shape {list(x.shape)} and weights of {list(kernel)} for an output of "
            f"{list(shape)}; expected the input {list(expected)}"
        )
    return _convolution(node, options, x, shape, padding, (1, 3), transposed=True)


def _check(node: NodeView, x: Operand, kernel: Shape) -> None:
    """Raise `Unsupported` unless weights [depth, height, width, inputs, outputs] fit the input."""
    if (len(x.shape), len(kernel)) != (5, 5) or x.channels != kernel[3] or not prod(kernel):
        raise Unsupported(f"weights of {list(kernel)} on an input of shape {list(x.shape)}")
    types = {node.dtype(i) for i in range(1, len(node.inputs)) if node.has_input(i)}
    if types != {"float32"}:
        raise Unsupported(f"tensors of {' and '.join(sorted(types))}; expected float32")


def _windows(options: Conv3DOptions, sizes: Shape, kernel: Shape) -> tuple[Shape, Shape]:
    """The sizes of a convolution's result, and the padding in front of each axis."""
    strides, dilation = _steps(options)
    if options.padding not in (SAME, VALID) or min(*strides, *dilation) < 1:
        raise Unsupported(
            f"padding {options.padding}, strides {list(strides)} and dilations {list(dilation)}; "
            "expected 0 (SAME) or 1 (VALID), and positive numbers"
        )
    spans = [
        span(*numbers, options.padding == SAME, False)
        for numbers in zip(sizes, kernel[:3], strides, dilation, strict=True)
    ]
    return tuple(size for size, _ in spans), tuple(padding for _, padding in spans)


def _steps(options: Conv3DOptions) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    """Strides and dilations along depth, height and width."""
    return (
        (options.stride_d, options.stride_h, options.stride_w),
        (options.dilation_d, options.dilation_h, options.dilation_w),
    )


def _convolution(
    node: NodeView,
    options: Conv3DOptions,
    x: Operand,
    shape: Shape,
    padding: Shape,
    inputs: tuple[int, int],
    transposed: bool,
) -> list[Step]:
    """The dispatch, with the weights and the biases at `inputs`, and what packs them."""
    output = node.output(shape)
    kernel = node.shape(inputs[0])[:3]
    texels = output.slices * (1 + 4 * prod(kernel) * x.slices)
    tensors = constant_weights(node, inputs)
    weights: Operand
    steps: list[Step] = []
    if tensors:
        weights = Const(weights_3d, tensors, (texels, 4), (int(transposed),))
    else:
        ins, outs = x.channels, output.channels
        taps, strides = prod(kernel), (1, ins) if transposed else (outs, 1)
        sizes = (taps, 4 * x.slices, 4 * output.slices)
        layout = View(sizes, (ins * outs, *strides), 0, (0, 0, 0), (taps, ins, outs))
        weights, steps = packed(
            node, node.input(inputs[0]), inputs[1], output.slices, texels, layout
        )
    apart, dilation = _steps(options)
    run = min(RUN, option_of(node.limits.profile.depthwise, node.choice))
    runs = ceil(shape[3] / run)
    defines: dict[str, Define] = {
        "TRANSPOSED": int(transposed),
        "PIXELS": run,
        "RUNS": runs,
        "IN_SLICES": x.slices,
        "BATCH": shape[0],
        "IN_SIZES": x.shape[1:4],
        "OUT_SIZES": shape[1:4],
        "KERNEL": kernel,
        "STRIDES": apart,
        "PADDING": padding,
        "DILATION": dilation,
    }
    grid = make_grid(prod(shape[:3]) * runs, output.slices, node.limits)
    passes = prod(kernel) * (x.slices + 1) + 1
    flops = 2 * prod(kernel) * x.channels * (x if transposed else output).pixels * output.channels
    epilogue = activation(options.fused_activation)
    dispatch = node.dispatch(
        "conv_3d", (x, weights), output, grid, defines, epilogue, flops=flops, passes=passes
    )
    return [*steps, dispatch]


def weights_3d(weights: Array, bias: Array | None, transposed: int) -> Array:
    """[D, H, W, I, O], or [D, H, W, O, I] if `transposed`, and [O] -> biases [slices, 4], then
    [D * H * W, I, slices, 4], with the inputs in whole slices.
    """
    taps = weights.reshape(-1, *weights.shape[3:])
    if transposed:
        taps = taps.transpose(0, 2, 1)
    outputs = taps.shape[2]
    padded = np.pad(taps, ((0, 0), (0, -taps.shape[1] % 4), (0, -outputs % 4)))
    first = np.zeros(outputs, np.float32) if bias is None else bias
    return np.concatenate([np.pad(first, (0, -outputs % 4)), padded.ravel()])
