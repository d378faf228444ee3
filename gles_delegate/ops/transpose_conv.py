"""TRANSPOSE_CONV, and MediaPipe's Convolution2DTransposeBias."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from gles_delegate.dispatch import Define, Operand, Step, Value
from gles_delegate.ops.lib.index import rank_4
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import with_weights
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import images, within
from gles_delegate.ops.lib.tiles import Tile
from gles_delegate.ops.lib.window import SAME, Sliding, Window


@dataclass(frozen=True)
class TransposeConvOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0


@op(
    "TRANSPOSE_CONV", max_version=5, options=TransposeConvOptions, rows=within(2),
    results="unbounded",
    biases=(2, 1, 3), has_symmetric_weights=True, example=lambda shape, count, output: output,
)  # fmt: skip
def transpose_conv(node: NodeView, options: TransposeConvOptions) -> list[Step]:
    size = node.array(0).ravel().tolist()
    batch, out_h, out_w, outputs = rank_4(size, "the output")
    x = node.input(2)
    if (batch, outputs) != (x.shape[0], node.shape(1)[0]):
        raise Unsupported(f"an output of shape {size}; expected the input's batch and {outputs}")
    output = node.output((batch, out_h, out_w, outputs))
    return _transposed(node, x, output, options, 3, options.fused_activation)


@op("Convolution2DTransposeBias", rows=images)
def convolution_2d_transpose_bias(node: NodeView, options: Options) -> list[Step]:
    sliding = Sliding.of(node, 3)
    x = node.input(0)
    batch, height, width, _ = rank_4(x.shape, "input 0")
    outputs, kernel_h, kernel_w, _ = rank_4(node.shape(1), "the weights")
    more_h, more_w = 0, 0
    if sliding.padding != SAME:
        more_h = max(kernel_h - sliding.stride_h, 0)
        more_w = max(kernel_w - sliding.stride_w, 0)
    out_h, out_w = height * sliding.stride_h + more_h, width * sliding.stride_w + more_w
    output = node.output((batch, out_h, out_w, outputs))
    return _transposed(node, x, output, sliding, 2, 0)


def _transposed(
    node: NodeView,
    x: Operand,
    output: Value,
    options: TransposeConvOptions | Sliding,
    bias: int,
    fused_activation: int,
) -> list[Step]:
    """Lower the gradient of a convolution from `output` to the shape of `x`."""
    batch, in_h, in_w, channels = rank_4(x.shape, "the input")
    outputs, kernel_h, kernel_w, depth = rank_4(node.shape(1), "the weights")
    if depth != channels:
        raise Unsupported(f"weights for {depth} channels on an input with {channels}")
    _, out_h, out_w, _ = rank_4(output.shape, "the output")
    window = Window.of(options, (out_h, out_w), (kernel_h, kernel_w))
    if (window.out_h, window.out_w) != (in_h, in_w):
        raise Unsupported(
            f"an output of {out_h}x{out_w} pixels from {in_h}x{in_w}; its convolution has "
            f"{window.out_h}x{window.out_w}"
        )
    phases = window.stride_h * window.stride_w
    phase_pixels = batch * ceil(out_h / window.stride_h) * ceil(out_w / window.stride_w)
    taps = ceil(kernel_h / window.stride_h) * ceil(kernel_w / window.stride_w)
    others = node.limits.profile.others
    tile = Tile.choose(
        phase_pixels, output.slices, x.slices * taps, node.limits, node.choice, others
    )
    groups = ceil(phase_pixels / (tile.pixels * tile.pixel_lanes))
    defines: dict[str, Define] = {
        **window.defines("KERNEL"),
        "IN_H": in_h,
        "IN_W": in_w,
        "OUT_H": out_h,
        "OUT_W": out_w,
        "BATCH": batch,
        "GROUPS": groups,
    }
    grid = tile.grid(phases * groups * tile.pixel_lanes, ceil(output.slices / tile.slices))
    dispatch = node.dispatch("transpose_conv", (x,), output, grid, defines,
        activation(fused_activation), flops=2 * x.elements * kernel_h * kernel_w * outputs,
        passes=taps * (x.slices + 4) + tile.pixels * tile.slices + 2,
    )  # fmt: skip
    return with_weights(node, dispatch, tile, (1, 1), (1, bias))
