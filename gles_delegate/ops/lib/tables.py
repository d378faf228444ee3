"""Functions of int16 tensors, which LiteRT interpolates from tables."""

from __future__ import annotations

from collections.abc import Callable
from math import erfc, log2

import numpy as np

from gles_delegate.dispatch import Const, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.packing import phwc4

LOWEST, HIGHEST = -(1 << 15), (1 << 15) - 1
INTERVALS = 512
SIGMOIDS = 256


def interpolated(node: NodeView, function: str = "") -> list[Step]:
    """A function of an int16 tensor, in exactly LiteRT's steps.

    Args:
        function: A key of `_FUNCTIONS`; "" for the op's name.

    Raises:
        Unsupported: A tensor is not quantized int16, or has a zero point.
    """
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
