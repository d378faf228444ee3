"""Products with weights, or of two tensors: CONV_2D, CONV_3D, FULLY_CONNECTED ..."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import broadcast_shapes, broadcast_strides, merged, rank_4
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Bool, Int8, Int32, Options, activation
from gles_delegate.ops.lib.product import (
    Convolution3D,
    MatrixProduct,
    TransposedConvolution,
    product,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, reshaped_as, viewed
from gles_delegate.ops.lib.weights import Weights
from gles_delegate.ops.lib.window import SAME, VALID, Sliding, Window, span
from gles_delegate.shaders.dispatch import Define, Operand, Shape, Step, Value


class TransposeConvOptions(Options):
    padding: Int8 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0


class Conv2DOptions(TransposeConvOptions):
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1


@op(
    "CONV_2D", max_version=8, options=Conv2DOptions, rows=rows.images, biases=(0, 1, 2),
    results="unbounded",
)  # fmt: skip
def conv_2d(node: NodeView, options: Conv2DOptions) -> list[Step]:
    x = node.input(0)
    batch, height, width, channels = rank_4(x.shape, "input 0")
    outputs, kernel_h, kernel_w, share = rank_4(node.shape(1), "the weights")
    if not share or not channels or channels % share or outputs % (channels // share):
        raise UnfitSizes(f"weights for {share} channels on an input with {channels}")
    window = Window.of(options, (height, width), (kernel_h, kernel_w))
    output = node.output((batch, window.out_h, window.out_w, outputs))
    epilogue = activation(options.fused_activation)
    return [product(node, x, output, window, epilogue, channels // share)]


class FullyConnectedOptions(Options):
    fused_activation: Int8 = 0
    weights_format: Int8 = 0
    keep_num_dims: Bool = False


@op(
    "FULLY_CONNECTED", max_version=13, options=FullyConnectedOptions, biases=(0, 1, 2),
    expands=(1,), results="unbounded",
    rows=lambda batch, options: batch.are_divided and batch.inputs == (0,),
)  # fmt: skip
def fully_connected(node: NodeView, options: FullyConnectedOptions) -> list[Step]:
    x = node.input(0)
    if options.weights_format != 0:
        raise Unsupported("shuffled weights; expected the default weights format")
    if len(node.shape(1)) != 2:
        raise Unsupported(f"weights of shape {list(node.shape(1))}; expected rank 2")
    outputs, inputs = node.shape(1)
    if not inputs or x.elements % inputs:
        raise UnfitSizes(f"an input of {x.elements} elements; expected a multiple of {inputs}")
    rows = node.scratch((x.elements // inputs, inputs), "rows")
    if not options.keep_num_dims:
        output = node.output((rows.pixels, outputs))
    elif x.shape[-1:] == (inputs,):
        output = node.output((*x.shape[:-1], outputs))
    else:
        raise UnfitSizes(f"keep_num_dims with the shape {list(x.shape)} and {inputs} inputs")
    return [
        reshaped_as(node, x, rows),
        product(node, rows, output, None, activation(options.fused_activation)),
    ]


class BatchMatMulOptions(Options):
    adj_x: Bool = False
    adj_y: Bool = False


@op(
    "BATCH_MATMUL", max_version=4, options=BatchMatMulOptions, results="unbounded",
    rows=lambda batch, options: len(batch.shapes[-1]) > 2 and rows.elementwise(batch, options),
)  # fmt: skip
def batch_matmul(node: NodeView, options: BatchMatMulOptions) -> list[Step]:
    a, b = node.input(0), node.input(1, may_have_scales=True)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Unsupported(f"the shapes {list(a.shape)} and {list(b.shape)}; expected matrices")
    steps: list[Step] = []
    if options.adj_x:
        *others, rows, columns = a.shape
        transposed = node.scratch((*others, columns, rows), "transposed")
        layout = View((prod(others), columns, rows), (rows * columns, 1, columns))
        steps.append(viewed(node, a, transposed, layout))
        a = transposed
    rows, depth = a.shape[-2:]
    columns, b_depth = b.shape[-2:] if options.adj_y else b.shape[:-3:-1]
    if depth != b_depth:
        raise UnfitSizes(f"rows of {depth} elements on columns of {b_depth}")
    batches = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    output = node.output((*batches, rows, columns))
    sizes, a_strides, b_strides = merged(
        batches, broadcast_strides(a.shape[:-2], batches), broadcast_strides(b.shape[:-2], batches)
    )
    defines: dict[str, Define] = {
        "BATCHES": prod(batches),
        "DIMS": len(sizes),
        "SIZES": sizes,
        "A_STRIDES": a_strides,
        "B_STRIDES": b_strides,
        "A_PIXELS": a.pixels,
        "B_PIXELS": b.pixels,
        "ROWS": rows,
        "B_ROWS": b.shape[-2],
        "DEPTH": depth,
        "B_ADJOINT": int(options.adj_y),
    }
    return [
        *steps,
        MatrixProduct(
            node=node.index,
            reads=(a, b),
            output=output,
            flops=2 * output.elements * depth,
            defines=defines,
            count=prod(batches),
            rows=rows,
            depth=depth,
        ),
    ]


@op(
    "TRANSPOSE_CONV", max_version=5, options=TransposeConvOptions, rows=rows.within(2),
    results="unbounded",
    biases=(2, 1, 3), has_symmetric_weights=True, example=lambda shape, count, output: output,
)  # fmt: skip
def transpose_conv(node: NodeView, options: TransposeConvOptions) -> list[Step]:
    size = node.array(0).ravel().tolist()
    batch, out_h, out_w, outputs = rank_4(size, "the output")
    x = node.input(2)
    if (batch, outputs) != (x.shape[0], node.shape(1)[0]):
        raise UnfitSizes(f"an output of shape {size}; expected the input's batch and {outputs}")
    output = node.output((batch, out_h, out_w, outputs))
    return _transposed(node, x, output, options, 3, options.fused_activation)


@op("Convolution2DTransposeBias", rows=rows.images)
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
        raise UnfitSizes(f"weights for {depth} channels on an input with {channels}")
    _, out_h, out_w, _ = rank_4(output.shape, "the output")
    window = Window.of(options, (out_h, out_w), (kernel_h, kernel_w), may_exceed=True)
    # JAX's converters crop rows below and columns to the right.
    steps = (out_h, in_h, window.stride_h, kernel_h), (out_w, in_w, window.stride_w, kernel_w)
    is_cropped = options.padding == VALID and all(
        (n - 1) * stride < out <= (n - 1) * stride + kernel for out, n, stride, kernel in steps
    )
    if (window.out_h, window.out_w) != (in_h, in_w) and not is_cropped:
        raise UnfitSizes(
            f"an output of {out_h}x{out_w} pixels from {in_h}x{in_w}; its convolution has "
            f"{window.out_h}x{window.out_w}"
        )
    # Larger strides give the same from the only pixel of `x`, and phases without pixels.
    stride_h, stride_w = min(window.stride_h, out_h or 1), min(window.stride_w, out_w or 1)
    window = replace(window, stride_h=stride_h, stride_w=stride_w)
    weights, operands = Weights.of(node, (1, bias), output.channels)
    return [
        TransposedConvolution(
            node=node.index,
            reads=(x, *operands),
            output=output,
            epilogue=activation(fused_activation),
            flops=2 * x.elements * kernel_h * kernel_w * outputs,
            weights=weights,
            window=window,
            image=(in_h, in_w),
            batch=batch,
        )
    ]


class Conv3DOptions(Options):
    padding: Int8 = 0
    stride_d: Int32 = 0
    stride_w: Int32 = 0
    stride_h: Int32 = 0
    fused_activation: Int8 = 0
    dilation_d: Int32 = 1
    dilation_w: Int32 = 1
    dilation_h: Int32 = 1

    @property
    def strides(self) -> tuple[int, int, int]:
        return self.stride_d, self.stride_h, self.stride_w

    @property
    def dilations(self) -> tuple[int, int, int]:
        return self.dilation_d, self.dilation_h, self.dilation_w


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
        raise UnfitSizes(
            f"an input of shape {list(x.shape)} and weights of {list(kernel)} for an output of "
            f"{list(shape)}; expected the input {list(expected)}"
        )
    return _convolution(node, options, x, shape, padding, (1, 3), transposed=True)


def _check(node: NodeView, x: Operand, kernel: Shape) -> None:
    """Raise `Unsupported` unless weights [depth, height, width, inputs, outputs] fit the input."""
    if (len(x.shape), len(kernel)) != (5, 5) or x.channels != kernel[3] or not prod(kernel):
        raise UnfitSizes(f"weights of {list(kernel)} on an input of shape {list(x.shape)}")
    types = {node.dtype(i) for i in range(1, len(node.inputs)) if node.has_input(i)}
    if types != {"float32"}:
        raise Unsupported(f"tensors of {' and '.join(sorted(types))}; expected float32")


def _windows(options: Conv3DOptions, sizes: Shape, kernel: Shape) -> tuple[Shape, Shape]:
    """The sizes of a convolution's result, and the padding in front of each axis."""
    strides, dilations = options.strides, options.dilations
    if options.padding not in (SAME, VALID) or min(*strides, *dilations) < 1:
        raise Unsupported(
            f"padding {options.padding}, strides {list(strides)} and dilations {list(dilations)}; "
            "expected 0 (SAME) or 1 (VALID), and positive numbers"
        )
    spans = [
        span(*numbers, options.padding == SAME, False)
        for numbers in zip(sizes, kernel[:3], strides, dilations, strict=True)
    ]
    return tuple(size for size, _ in spans), tuple(padding for _, padding in spans)


def _convolution(
    node: NodeView,
    options: Conv3DOptions,
    x: Operand,
    shape: Shape,
    padding: Shape,
    inputs: tuple[int, int],
    transposed: bool,
) -> list[Step]:
    """The convolution, with weights and biases at `inputs`."""
    output = node.output(shape)
    weights, operands = Weights.of(node, inputs, output.channels)
    taps = prod(weights.shape[:3])
    return [
        Convolution3D(
            node=node.index,
            reads=(x, *operands),
            output=output,
            epilogue=activation(options.fused_activation),
            flops=2 * taps * x.channels * output.channels * (x if transposed else output).pixels,
            weights=weights,
            batch=shape[0],
            in_sizes=x.shape[1:4],
            out_sizes=shape[1:4],
            strides=options.strides,
            padding=padding,
            dilations=options.dilations,
            transposed=transposed,
        )
    ]
