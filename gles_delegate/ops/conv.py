"""CONV_2D and FULLY_CONNECTED."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import (
    Step,
)
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import product
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import Rows
from gles_delegate.ops.lib.views import reshape_view
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


@op(
    "CONV_2D", max_version=8, options=Conv2DOptions, rows=rows.images, biases=(0, 1, 2),
    results="unbounded",
)  # fmt: skip
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
    biases=(0, 1, 2), results="unbounded",
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
