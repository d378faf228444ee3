"""Element-wise ops: a row here and a function in glsl/lib/elementwise.glsl each.

Where LiteRT stops with an error at run time (integers divided by zero, or raised to a negative
power), the result is any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from math import floor
from types import MappingProxyType

import numpy as np

from gles_delegate.dispatch import Call, Define, Dispatch, Kind, Operand, Shape, Step, Value
from gles_delegate.model.graph import Array, Quantization
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.options import Bool, Float32, Int8, Int32, Options, activation
from gles_delegate.ops.lib.registry import Fold, op
from gles_delegate.ops.lib.strides import broadcast_shapes, broadcast_strides, merged
from gles_delegate.ops.tables import interpolated, sigmoid

TYPES = ("float32", "int32", "bool", "int8", "uint8", "int16", "int64")
"""Element types that ops take which only move or choose elements."""

PER_LANE = 4
DIVISION_PASSES = 602
"""Passes through the loops of FLOOR_MOD in glsl/lib/elementwise.glsl."""

NONE: Mapping[str, Define] = MappingProxyType({})

pointwise = partial(op, rows=rows.elementwise)


@dataclass(frozen=True)
class FusedActivation(Options):
    fused_activation: Int8 = 0


@dataclass(frozen=True)
class LeakyRelu(Options):
    alpha: Float32 = 0.0


@dataclass(frozen=True)
class Gelu(Options):
    approximate: Bool = False


@pointwise("LOGISTIC", "TANH", max_version=3)
def sigmoid_function(node: NodeView, options: Options) -> list[Step]:
    return (sigmoid(node) if is_interpolated(node) else []) or function(node, options)


@pointwise("RELU", "RELU6", max_version=3)
@pointwise("SQRT", "SIN", "COS", max_version=2)
@pointwise("RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH")
@pointwise("SQUARE", "ROUND")
@pointwise("FLOOR", fold=np.floor)
@pointwise("CEIL", fold=np.ceil)
def function(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,)), Call(node.op))]


@pointwise("RSQRT", max_version=3)
@pointwise("EXP", max_version=2)
def tabulated(node: NodeView, options: Options) -> list[Step]:
    return interpolated(node) if is_interpolated(node) else function(node, options)


@pointwise("ABS", max_version=5, fold=np.absolute)
@pointwise("SIGN", max_version=2)
def integer_function(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,), "float32", "int32"), Call(node.op))]


@pointwise("NEG", fold=np.negative)
def neg(node: NodeView, options: Options) -> list[Step]:
    refuse_quantized(node)
    return integer_function(node, options)


@pointwise("LOG", max_version=2)
def log(node: NodeView, options: Options) -> list[Step]:
    """Of a quantized number below 0, LiteRT takes the logarithm of 0."""
    if is_interpolated(node):
        return interpolated(node)
    calls = (Call("RELU"), Call("LOG")) if _quantizations(node) else (Call("LOG"),)
    return [unary(node, inputs(node, (0,)), *calls)]


@pointwise("LEAKY_RELU", max_version=2, options=LeakyRelu)
def leaky_relu(node: NodeView, options: LeakyRelu) -> list[Step]:
    return [unary(node, inputs(node, (0,)), Call("LEAKY_RELU", (options.alpha,)))]


@pointwise("GELU", max_version=3, options=Gelu)
def gelu(node: NodeView, options: Gelu) -> list[Step]:
    name = "GELU_TANH" if options.approximate else "GELU"
    if is_interpolated(node):
        return interpolated(node, name)
    return [unary(node, inputs(node, (0,)), Call(name))]


@dataclass(frozen=True)
class FakeQuantOptions(Options):
    low: Float32 = 0.0
    high: Float32 = 0.0
    num_bits: Int32 = 0
    narrow_range: Bool = False


@pointwise("FAKE_QUANT", max_version=2, options=FakeQuantOptions)
def fake_quant(node: NodeView, options: FakeQuantOptions) -> list[Step]:
    """The range is moved so that 0 is one of its steps."""
    refuse_quantized(node)
    low, high = np.float32(options.low), np.float32(options.high)
    if (
        options.narrow_range
        or not 2 <= options.num_bits <= 16
        or not low <= 0 <= high
        or low == high
    ):
        raise Unsupported(
            f"{options.num_bits} bits from {low} to {high}{', narrow' * options.narrow_range}; "
            "expected 2 to 16 bits, 0 in the range, and not the narrow range, which LiteRT refuses"
        )
    steps = (1 << options.num_bits) - 1
    scale = np.float32(high - low) / np.float32(steps)
    zero = min(floor(np.float32(0.5) - low / scale), steps)
    ends = float(np.float32(-zero) * scale), float(np.float32(steps - zero) * scale)
    call = Call("FAKE_QUANT", (float(1 / scale), float(scale), *ends))
    return [unary(node, inputs(node, (0,)), call)]


@pointwise("QUANTIZE", max_version=6, checks_types=True)
def quantize(node: NodeView, options: Options) -> list[Step]:
    """The same real numbers, up to their rounding."""
    return [unary(node, inputs(node, (0,)))]


def _fold_dequantize(node: NodeView) -> Array | None:
    x = node.graph.tensors[node.inputs[0]]
    return x.values() if x.is_quantized or x.dtype == "float16" else None


@pointwise("DEQUANTIZE", max_version=9, fold=_fold_dequantize, checks_types=True)
def dequantize(node: NodeView, options: Options) -> list[Step]:
    """LiteRT's result is float32, whatever the model says."""
    dtype = node.graph.tensors[node.outputs[0]].dtype
    if dtype != "float32":
        raise Unsupported(f"output 0 is {dtype}; expected float32")
    return quantize(node, options)


def _fold_division(node: NodeView) -> Array | None:
    """C's division: integers are rounded towards zero."""
    a, b = constants(node)
    if a.dtype.kind == "f":
        return np.divide(a, b)
    quotient: Array = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient if b.all() else None


@pointwise("ADD", max_version=6, options=FusedActivation, fold=np.add)
@pointwise("SUB", max_version=5, options=FusedActivation, fold=np.subtract)
@pointwise("MUL", max_version=8, options=FusedActivation, fold=np.multiply)
@pointwise("DIV", max_version=2, options=FusedActivation, fold=_fold_division)
def arithmetic(node: NodeView, options: FusedActivation) -> list[Step]:
    operands = inputs(node, (0, 1), "float32", "int32")
    return [broadcasting(node, operands, epilogue=activation(options.fused_activation))]


def _fold_power(node: NodeView) -> Array | None:
    a, b = constants(node)
    return np.power(a, b) if a.dtype.kind == "i" and (b >= 0).all() else None


@pointwise("SQUARED_DIFFERENCE", max_version=2)
@pointwise("POW", fold=_fold_power)
def integer_binary(node: NodeView, options: Options) -> list[Step]:
    return [broadcasting(node, inputs(node, (0, 1), "float32", "int32"))]


@pointwise("ATAN2")
def atan2(node: NodeView, options: Options) -> list[Step]:
    y, x = inputs(node, (0, 1))
    if y.shape != x.shape:
        raise Unsupported(f"inputs of shapes {list(y.shape)} and {list(x.shape)}; expected one")
    return [broadcasting(node, (y, x))]


def _folded_by(divide: np.ufunc) -> Fold:
    def fold(node: NodeView) -> Array | None:
        a, b = constants(node)
        return divide(a, b) if b.all() else None

    return fold


@pointwise("FLOOR_DIV", max_version=3, fold=_folded_by(np.floor_divide))
@pointwise("FLOOR_MOD", max_version=2, fold=_folded_by(np.mod))
def floor_division(node: NodeView, options: Options) -> list[Step]:
    refuse_quantized(node)
    return [broadcasting(node, inputs(node, (0, 1), "float32", "int32"))]


@pointwise("MAXIMUM", max_version=4, fold=np.maximum)
@pointwise("MINIMUM", max_version=4, fold=np.minimum)
def extremum(node: NodeView, options: Options) -> list[Step]:
    refuse_rescaling(node)
    return [broadcasting(node, inputs(node, (0, 1), "float32", "int32", "int8", "uint8", "int16"))]


@pointwise("BITWISE_XOR", "RIGHT_SHIFT")
def bitwise(node: NodeView, options: Options) -> list[Step]:
    refuse_quantized(node)
    return [broadcasting(node, inputs(node, (0, 1), "int32", "int8", "uint8", "int16"))]


@op("STABLEHLO_ADD", "STABLEHLO_MULTIPLY", max_version=1)
@op("STABLEHLO_MAXIMUM", "STABLEHLO_MINIMUM", max_version=1)
def stablehlo_arithmetic(node: NodeView, options: Options) -> list[Step]:
    function = node.op.removeprefix("STABLEHLO_").replace("MULTIPLY", "MUL")
    # Swapped, since the first is the extremum with a NaN here.
    return stablehlo(node, function, "float32", "int32", "int8", "uint8", "int16", swapped=True)


def stablehlo(node: NodeView, function: str, *types: str, swapped: bool = False) -> list[Step]:
    """A function of two tensors of one shape and one of `types`; integers wrap around."""
    refuse_quantized(node)
    a, b = inputs(node, (0, 1), *types)
    dtype = node.dtype(0)
    if a.shape != b.shape or dtype == "float16":
        raise Unsupported(f"{dtype} of shapes {list(a.shape)} and {list(b.shape)}; expected one")
    output = node.output(a.shape, kind=a.kind, dtype=dtype)
    wraps = dtype in ("int8", "uint8", "int16")
    epilogue = (Call(f"CAST_TO_{dtype.upper()}"),) if wraps else ()
    operands = (b, a) if swapped else (a, b)
    return [elementwise(node, operands, output, function, epilogue)]


@pointwise("PRELU")
def prelu(node: NodeView, options: Options) -> list[Step]:
    x, alpha = inputs(node, (0, 1))
    if broadcast_shapes(x.shape, alpha.shape) != x.shape:
        raise Unsupported(
            f"alpha of shape {list(alpha.shape)} does not broadcast to {list(x.shape)}"
        )
    return [broadcasting(node, (x, alpha))]


@pointwise("ADD_N")
def add_n(node: NodeView, options: Options) -> list[Step]:
    total, *others = inputs(node, range(len(node.inputs)), "float32", "int32")
    output = node.output(total.shape, kind=total.kind, dtype=node.dtype(0))
    if not others or any(x.shape != total.shape for x in others):
        raise Unsupported("expected two or more inputs of one shape")
    sums = [node.scratch(total.shape, f"sum{i}", total.kind) for i in range(1, len(others))]
    steps: list[Step] = []
    for x, result in zip(others, (*sums, output), strict=True):
        steps.append(elementwise(node, (total, x), result, "ADD"))
        total = result
    return steps


def inputs(node: NodeView, which: Iterable[int], *types: str) -> tuple[Operand, ...]:
    """Inputs of a node, all of one of `types`.

    Args:
        types: "float32", the default, is any real number, and "int32" int64 too.

    Raises:
        Unsupported: They are of another type, or of several.
    """
    expected = types or ("float32",)
    operands = {i: node.input(i, None) for i in which}
    found = {
        "float32" if operand.kind == "float" else node.dtype(i) for i, operand in operands.items()
    }
    if len(found) != 1 or not {"int32" if t == "int64" else t for t in found} <= {*expected}:
        raise Unsupported(
            f"the inputs are {' and '.join(sorted(found))}; expected {' or '.join(expected)}"
        )
    return tuple(operands.values())


def refuse_quantized(node: NodeView) -> None:
    """Raise `Unsupported` for quantized tensors, of which LiteRT takes the integers as such."""
    if _quantizations(node):
        raise Unsupported(f"LiteRT's {node.op} ignores the quantization")


def is_interpolated(node: NodeView) -> bool:
    """Whether LiteRT interpolates between few results, which is up to thousands of steps off."""
    return node.dtype(0) == "int16" and bool(_quantizations(node))


def refuse_rescaling(node: NodeView) -> None:
    """Raise `Unsupported` unless the integers of all quantized tensors mean the same numbers."""
    if len(_quantizations(node)) > 1:
        raise Unsupported(
            f"the tensors are quantized differently, and LiteRT's {node.op} ignores that"
        )


def _quantizations(node: NodeView) -> set[Quantization]:
    tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs) if i >= 0]
    return {tensor.quantization for tensor in tensors if tensor.is_quantized}


def unary(node: NodeView, operands: tuple[Operand, ...], *calls: Call) -> Elementwise:
    """Functions of an operand, one after the other."""
    (x,) = operands
    output = node.output(x.shape, kind=x.kind, dtype=node.dtype(0))
    return elementwise(node, operands, output, epilogue=calls)


def broadcasting(
    node: NodeView,
    operands: tuple[Operand, ...],
    dtype: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] = NONE,
) -> Elementwise:
    """The op of the node on operands that broadcast.

    Args:
        dtype: The type of the result, if it is one of integers; "": that of the operands.
    """
    shape = reduce(broadcast_shapes, (operand.shape for operand in operands))
    kind: Kind = "int" if dtype else operands[0].kind
    output = node.output(shape, kind=kind, dtype=dtype or node.dtype(0))
    return elementwise(node, operands, output, node.op, epilogue, defines)


@dataclass(frozen=True, kw_only=True)
class Elementwise(Dispatch):
    """What `elementwise` makes: a function of glsl/lib/elementwise.glsl; "" of one operand."""

    function: str


def elementwise(
    node: NodeView,
    operands: tuple[Operand, ...],
    output: Value,
    function: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] = NONE,
) -> Elementwise:
    """`function` of the operands, which broadcast to `output`; of one operand it may be empty."""
    pixels: Shape = output.shape[:-1]
    dense = broadcast_strides(pixels, pixels)
    strides = [broadcast_strides(operand.shape[:-1], pixels) for operand in operands]
    sizes, *walks = merged(pixels, *strides)
    all_defines: dict[str, Define] = {"FUNCTION": function, "OPERANDS": len(operands), **defines}
    all_defines |= {"PER_LANE": PER_LANE, "SIZES": sizes, "DIMS": len(sizes)}
    for name, operand, full, walk in zip("ABC", operands, strides, walks, strict=False):
        all_defines |= {
            f"{name}_SAME_PIXELS": int(full == dense),
            f"{name}_STRIDES": walk,
            f"{name}_PIXELS": operand.pixels,
            f"{name}_ONE_CHANNEL": int(operand.channels == 1 and output.channels > 1),
        }
    grid = make_grid(output.pixels, output.slices, node.limits, PER_LANE)
    passes = PER_LANE * DIVISION_PASSES if function in ("FLOOR_DIV", "FLOOR_MOD") else 0
    return Elementwise(
        node.index, "elementwise", operands, output, grid, all_defines, epilogue, passes=passes,
        function=function,
    )  # fmt: skip
