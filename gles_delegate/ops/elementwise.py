"""Element-wise ops: a row here and a function in glsl/lib/elementwise.glsl each.

Where LiteRT stops with an error at run time (integers divided by zero, or raised to a negative
power), the result is any number. LiteRT interpolates some functions of int16 tensors from tables.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import erfc, floor, log2

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import (
    broadcasting,
    elementwise,
    inputs,
    is_interpolated,
    quantizations,
    refuse_quantized,
    refuse_rescaling,
    stablehlo,
    unary,
)
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import broadcast_shapes
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, constants
from gles_delegate.ops.lib.options import Bool, Float32, Int8, Int32, Options, activation
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import Fold, op
from gles_delegate.shaders.dispatch import Call, Const, Step

pointwise = partial(op, rows=rows.elementwise)


class FusedActivation(Options):
    fused_activation: Int8 = 0


class LeakyRelu(Options):
    alpha: Float32 = 0.0


class Gelu(Options):
    approximate: Bool = False


@pointwise("LOGISTIC", max_version=3, results="shares", ends_networks=True)
@pointwise("TANH", max_version=3, ends_networks=True)
def sigmoid_function(node: NodeView, options: Options) -> list[Step]:
    return (sigmoid(node) if is_interpolated(node) else []) or function(node, options)


@pointwise("RELU", "RELU6", max_version=3)
@pointwise("SQRT", "SIN", "COS", max_version=2)
@pointwise("RELU_N1_TO_1", "RELU_0_TO_1", "ELU", "HARD_SWISH")
@pointwise("SQUARE", fold=np.square)
@pointwise("ROUND", fold=np.rint)
@pointwise("FLOOR", fold=np.floor)
@pointwise("CEIL", fold=np.ceil)
def function(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,)), Call(node.op))]


@pointwise("RSQRT", max_version=3)
@pointwise("EXP", max_version=2)
def tabulated(node: NodeView, options: Options) -> list[Step]:
    return interpolated(node) if is_interpolated(node) else function(node, options)


@pointwise("ABS", max_version=5, fold=np.absolute)
@pointwise("SIGN", max_version=2, fold=np.sign)
def integer_function(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,), "float32", "int32"), Call(node.op))]


@pointwise("NEG", fold=np.negative)
def neg(node: NodeView, options: Options) -> list[Step]:
    refuse_quantized(node)
    return integer_function(node, options)


@pointwise("LOG", max_version=2)
def log(node: NodeView, options: Options) -> list[Step]:
    """LiteRT takes the logarithm of 0 for quantized numbers below 0."""
    if is_interpolated(node):
        return interpolated(node)
    calls = (Call("RELU"), Call("LOG")) if quantizations(node) else (Call("LOG"),)
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


class FakeQuantOptions(Options):
    low: Float32 = 0.0
    high: Float32 = 0.0
    num_bits: Int32 = 0
    narrow_range: Bool = False


@pointwise("FAKE_QUANT", max_version=2, options=FakeQuantOptions)
def fake_quant(node: NodeView, options: FakeQuantOptions) -> list[Step]:
    """Shifts the range so that 0 is one of its steps."""
    refuse_quantized(node)
    low, high = np.float32(options.low), np.float32(options.high)
    is_range = low <= 0 <= high and low < high
    if options.narrow_range or not 2 <= options.num_bits <= 16 or not is_range:
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


@pointwise(
    "QUANTIZE", max_version=6, checks_types=True, rounds_evenly=True, results="inputs",
    ends_networks=True,
)  # fmt: skip
def quantize(node: NodeView, options: Options) -> list[Step]:
    """The same real numbers, rounded."""
    return [unary(node, inputs(node, (0,)))]


def _fold_dequantize(node: NodeView) -> Array | None:
    x = node.graph.tensors[node.inputs[0]]
    return x.values() if x.is_quantized or x.dtype == "float16" else None


@pointwise(
    "DEQUANTIZE", max_version=9, fold=_fold_dequantize, checks_types=True, results="inputs",
    ends_networks=True,
)  # fmt: skip
def dequantize(node: NodeView, options: Options) -> list[Step]:
    """LiteRT returns float32, even if the model has another type."""
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


@pointwise(
    "ADD", max_version=6, options=FusedActivation, fold=np.add, results="unbounded",
    ends_networks=True,
)  # fmt: skip
@pointwise("SUB", max_version=5, options=FusedActivation, fold=np.subtract, ends_networks=True)
@pointwise("MUL", max_version=8, options=FusedActivation, fold=np.multiply, ends_networks=True)
@pointwise("DIV", max_version=2, options=FusedActivation, fold=_fold_division)
def arithmetic(node: NodeView, options: FusedActivation) -> list[Step]:
    operands = inputs(node, (0, 1), "float32", "int32")
    return [broadcasting(node, operands, epilogue=activation(options.fused_activation))]


def _fold_power(node: NodeView) -> Array | None:
    a, b = constants(node)
    return np.power(a, b) if a.dtype.kind == "i" and (b >= 0).all() else None


@pointwise(
    "SQUARED_DIFFERENCE", max_version=2, fold=lambda node: np.square(np.subtract(*constants(node)))
)
@pointwise("POW", fold=_fold_power)
def integer_binary(node: NodeView, options: Options) -> list[Step]:
    return [broadcasting(node, inputs(node, (0, 1), "float32", "int32"))]


@pointwise("ATAN2")
def atan2(node: NodeView, options: Options) -> list[Step]:
    y, x = inputs(node, (0, 1))
    if y.shape != x.shape:
        raise UnfitSizes(f"inputs of shapes {list(y.shape)} and {list(x.shape)}; expected one")
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


@op("STABLEHLO_ADD", fold=np.add)
@op("STABLEHLO_MULTIPLY", fold=np.multiply)
@op("STABLEHLO_MAXIMUM", fold=np.maximum)
@op("STABLEHLO_MINIMUM", fold=np.minimum)
def stablehlo_arithmetic(node: NodeView, options: Options) -> list[Step]:
    function = node.op.removeprefix("STABLEHLO_").replace("MULTIPLY", "MUL")
    # Swapped: with a NaN, the shader returns the first operand.
    return stablehlo(node, function, "float32", "int32", "int8", "uint8", "int16", swapped=True)


@pointwise("PRELU")
def prelu(node: NodeView, options: Options) -> list[Step]:
    x, alpha = inputs(node, (0, 1))
    read = "int8" if node.dtype(0) == "int16" else node.dtype(0)
    if node.dtype(1) != read:
        raise Unsupported(f"alpha is {node.dtype(1)}, which LiteRT reads as {read}")
    if broadcast_shapes(x.shape, alpha.shape) != x.shape:
        raise UnfitSizes(f"alpha {list(alpha.shape)} does not broadcast to {list(x.shape)}")
    return [broadcasting(node, (x, alpha))]


@pointwise("ADD_N", fold=lambda node: np.add.reduce(constants(node)))
def add_n(node: NodeView, options: Options) -> list[Step]:
    total, *others = inputs(node, range(len(node.inputs)), "float32", "int32")
    output = node.output(total.shape, kind=total.kind, dtype=node.dtype(0))
    if not others or any(x.shape != total.shape for x in others):
        raise UnfitSizes("expected two or more inputs of one shape")
    sums = [node.scratch(total.shape, f"sum{i}", total.kind) for i in range(1, len(others))]
    steps: list[Step] = []
    for x, result in zip(others, (*sums, output), strict=True):
        steps.append(elementwise(node, (total, x), result, "ADD"))
        total = result
    return steps


LOWEST, HIGHEST = -(1 << 15), (1 << 15) - 1
INTERVALS = 512
SIGMOIDS = 256


def interpolated(node: NodeView, function: str = "") -> list[Step]:
    """A function of an int16 tensor, by default the node's op, in exactly LiteRT's steps."""
    x = node.input(0)
    output = node.output(x.shape)
    tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs)]
    if any(t.dtype != "int16" or t.quantization.pair[1] for t in tensors):
        raise Unsupported("int16 and another type, or a zero point; expected int16 alone and 0")
    unit, out_unit = (tensor.quantization.pair[0] for tensor in tensors)
    name = function or node.op
    entries = Const(table_of, (), (INTERVALS + 1,), (name, unit, out_unit), "int")
    defines = {"STEP": unit, "RESULT_STEP": out_unit}
    return [by_texel(node, "interpolated", (x, entries), output, defines)]


def sigmoid(node: NodeView) -> list[Step]:
    """LOGISTIC or TANH of an int16 tensor, in exactly LiteRT's steps.

    No steps if LiteRT computes it without a table, as for some scales that are powers of two.
    """
    x = node.input(0)
    output = node.output(x.shape)
    ends = (node.inputs[0], node.outputs[0])
    (unit, zero), out = (node.graph.tensors[i].quantization.pair for i in ends)
    is_tanh = node.op == "TANH"
    if out != (2.0**-15, 0) or zero or not 2.0**-28 < unit < 4:
        return []
    exponent = log2(unit) + 12
    if abs(exponent - round(exponent)) < 1e-3 and 0 <= round(exponent) <= int(is_tanh):
        return []
    factor, shift = unit * 3 * 4096, 0
    while factor <= HIGHEST / 2:
        factor, shift = factor * 2, shift + 1
    entries = Const(sigmoid_table, (), (SIGMOIDS,), (), "int")
    defines = {"STEP": unit, "FACTOR": int(factor), "SHIFT": shift, "IS_TANH": int(is_tanh)}
    return [by_texel(node, "sigmoid", (x, entries), output, defines)]


def sigmoid_table() -> Array:
    """The logistic function at multiples of 1/24, times 2^16, adjusted for interpolation."""
    every = 1 / (1 + np.exp(-np.arange(2 * SIGMOIDS + 1) / 48))
    starts, middles = every[:-1:2], every[1::2]
    entries = np.rint(65536 * (starts + (middles - (starts + every[2::2]) / 2) / 2))
    entries[-1] = 65535
    return phwc4(entries)


def table_of(name: str, unit: float, out_unit: float) -> Array:
    """The results at every 128th step from -2^15 on, adjusted for the error between entries.

    Computed as in `LUTPopulate` of LiteRT's kernels/internal/common.h, in float32.
    """
    low, high = (np.float32(unit) * np.float32(step) for step in (LOWEST, HIGHEST))
    out_low, out_high = (np.float32(out_unit) * np.float32(step) for step in (LOWEST, HIGHEST))
    interval = (high - low) / np.float32(INTERVALS)
    per_unit = np.float32(HIGHEST - LOWEST + 1) / (out_high - out_low)
    entry = np.arange(INTERVALS + 1, dtype=np.float32)
    starts = low + entry * interval
    starts[-1] = high

    def steps(x: Array) -> Array:
        real = _FUNCTIONS[name](x.astype(np.float64), out_unit).astype(np.float32)
        scaled: Array = real * per_unit
        return scaled

    with np.errstate(all="ignore"):
        values, nexts = steps(starts), steps(low + entry[1:] * interval)
        middles = steps(starts[:-1] + interval / np.float32(2))
        entries = _rounded(values)
        error = _rounded((nexts + entries[:-1]) / np.float32(2)) - _rounded(middles)
        entries[:-1] -= _rounded(error / np.float32(2))
    return phwc4(np.clip(np.nan_to_num(entries, posinf=HIGHEST, neginf=LOWEST), LOWEST, HIGHEST))


def _rounded(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = np.trunc(x)
    nearest: Array = np.where(np.abs(x - whole) >= 0.5, whole + np.sign(x), whole)
    return nearest


_FUNCTIONS: dict[str, Callable[[Array, float], Array]] = {
    "EXP": lambda x, unit: np.exp(x),
    "LOG": lambda x, unit: np.where(x > 0, np.log(x), LOWEST * unit),
    "RSQRT": lambda x, unit: np.where(x > 0, 1 / np.sqrt(x), HIGHEST * unit),
    "GELU": lambda x, unit: 0.5 * x * np.vectorize(erfc)(x * -np.float32(np.sqrt(0.5))),
    "GELU_TANH": lambda x, unit: (
        0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    ),
}
"""Functions of real numbers, by name; `unit` is the step of the result."""
