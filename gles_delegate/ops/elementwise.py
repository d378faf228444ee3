"""Element-wise ops: a row here and a function in glsl/lib/elementwise.glsl each."""

from __future__ import annotations

from dataclasses import dataclass

from gles_delegate.dispatch import Call, Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.registry import Int8, NodeView, Options, Unsupported, activation, op
from gles_delegate.ops.strides import broadcast_shapes, broadcast_strides, merged

PER_LANE = 4


@dataclass(frozen=True)
class FusedActivation(Options):
    fused_activation: Int8 = 0


@op("RELU", "RELU6", max_version=3)
@op("RELU_N1_TO_1", max_version=1)
@op("LOGISTIC", "TANH", max_version=3)
@op("EXP", max_version=2)
def unary(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0)
    return [elementwise(node, (x,), node.output(x.shape), epilogue=(Call(node.node.op),))]


@op("QUANTIZE", max_version=4)
@op("DEQUANTIZE", max_version=6)
def conversion(node: NodeView, options: Options) -> list[Step]:
    """Between a tensor and its quantised twin: the same real numbers, up to their rounding."""
    x = node.input(0)
    return [elementwise(node, (x,), node.output(x.shape))]


@op("ADD", max_version=6, options=FusedActivation)
@op("SUB", max_version=5, options=FusedActivation)
@op("MUL", max_version=8, options=FusedActivation)
@op("DIV", max_version=2, options=FusedActivation)
def arithmetic(node: NodeView, options: FusedActivation) -> list[Step]:
    return [binary(node, activation(options.fused_activation))]


@op("MAXIMUM", "MINIMUM", max_version=4)
def extremum(node: NodeView, options: Options) -> list[Step]:
    return [binary(node)]


@op("PRELU", max_version=1)
def prelu(node: NodeView, options: Options) -> list[Step]:
    x, alpha = node.input(0), node.input(1)
    if broadcast_shapes(x.shape, alpha.shape) != x.shape:
        raise Unsupported(
            f"alpha of shape {list(alpha.shape)} does not broadcast to {list(x.shape)}"
        )
    return [binary(node)]


def binary(node: NodeView, epilogue: tuple[Call, ...] = ()) -> Dispatch:
    """The op of the node on its two inputs, with broadcasting."""
    a, b = node.input(0), node.input(1)
    output = node.output(broadcast_shapes(a.shape, b.shape))
    return elementwise(node, (a, b), output, {"FUNCTION": node.node.op}, epilogue)


def elementwise(
    node: NodeView,
    operands: tuple[Operand, ...],
    output: Value,
    defines: dict[str, Define] | None = None,
    epilogue: tuple[Call, ...] = (),
) -> Dispatch:
    """One dispatch over the texels of `output`, to which each operand broadcasts."""
    pixels: Shape = output.shape[:-1]
    dense = broadcast_strides(pixels, pixels)
    strides = [broadcast_strides(operand.shape[:-1], pixels) for operand in operands]
    sizes, *walks = merged(pixels, *strides)
    all_defines: dict[str, Define] = {"OPERANDS": len(operands), "PER_LANE": PER_LANE}
    all_defines |= defines or {}
    for name, operand, full, walk in zip("AB", operands, strides, walks, strict=False):
        one_channel = operand.channels == 1 and output.channels > 1
        all_defines[f"{name}_ONE_CHANNEL"] = int(one_channel)
        all_defines[f"{name}_SAME_PIXELS"] = int(full == dense)
        if not one_channel:
            all_defines[f"{name}_PIXELS"] = operand.pixels
        if full != dense:
            all_defines |= {f"{name}_STRIDES": walk, "SIZES": sizes, "DIMS": len(sizes)}
    grid = make_grid(output.pixels, output.slices, node.limits, PER_LANE)
    return Dispatch(node.node.index, "elementwise", operands, output, grid, all_defines, epilogue)
