"""DEPTHWISE_CONV_2D."""

from __future__ import annotations

from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, UnfitSizes
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import Depthwise
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.weights import Weights
from gles_delegate.ops.lib.window import Window
from gles_delegate.shaders.dispatch import Step


class DepthwiseConv2DOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    depth_multiplier: Int32 = 0
    fused_activation: Int8 = 0
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@op(
    "DEPTHWISE_CONV_2D", max_version=7, options=DepthwiseConv2DOptions, rows=rows.images,
    biases=(0, 1, 2), has_symmetric_weights=True, results="unbounded",
)  # fmt: skip
def depthwise_conv_2d(node: NodeView, options: DepthwiseConv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    one, kernel_h, kernel_w, outputs = rank_4(node.shape(1), "the weights")
    if one != 1 or not channels or outputs % channels:
        raise UnfitSizes(f"weights of shape {list(node.shape(1))} on {channels} channels")
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    weights, operands = Weights.of(node, (1, 2), outputs)
    return [
        Depthwise(
            node=node.index,
            reads=(x, *operands),
            output=output,
            epilogue=activation(options.fused_activation),
            flops=2 * output.elements * window.taps,
            weights=weights,
            window=window,
            multiplier=outputs // channels,
        )
    ]
