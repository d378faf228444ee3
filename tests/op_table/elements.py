"""Models of one element-wise op on tensors of any type, and the numbers to give to it."""

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gles_delegate.ops import supported_ops
from tests.op_table.base import EXTREMES
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization

Shapes = tuple[Dims, ...]
INTEGER_EXTREMES = (0, 1, -1, 2, -3, 7, 46341, -46341, 2**31 - 1, -(2**31))

RANGES = {
    **dict.fromkeys(("int32", "int64"), (-60, 60)),
    "bool": (0, 1),
    "int8": (-128, 127),
    "uint8": (0, 255),
    "int16": (-(2**15), 2**15 - 1),
}

ZERO_POINTS = {"int8": -4, "uint8": 124, "int16": 0}
FIXED_OUTPUTS = {"LOGISTIC": (1 / 256, 0), "TANH": (1 / 128, 128)}
POSITIVE = ("LOG", "SQRT", "RSQRT")
DIVISIONS = ("DIV", "FLOOR_DIV", "FLOOR_MOD")
COMPARISONS = ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")


def elementwise(
    s: Sketch,
    op: str,
    x: Shapes = (),
    dtype: str = "float32",
    out: str = "",
    constant: Dims = (),
    twice: bool = False,
    special: int = 0,
    without: tuple[float, ...] = (),
    span: tuple[float, float] | None = None,
    scales: tuple[float, ...] = (),
    past_newest: int | None = None,
    **options: Any,
) -> int:
    """`op` of operands of the shapes `x`.

    Args:
        dtype: Of the operands, but for a condition, which is bool.
        out: Of the output; that of the op by default.
        constant: Which operands are constants.
        twice: The first operand is also the second.
        special: Of this many operands, all combinations of extreme values but `without`; of one,
            with a `span`, values spread over it.
        scales: The operands are quantized with these, and the output with the last.
        past_newest: The version of the op, above the newest that the delegate takes.
    """
    name = op.partition(" ")[0]
    out = out or ("bool" if name in COMPARISONS else dtype)
    operands = []
    for values in extremes(special, dtype, without) if span is None else [spread(*span)]:
        operands.append(s.feed(values=values, dtype=dtype))
    for i, shape in enumerate(x):
        kind = "bool" if name.startswith("SELECT") and i == 0 else dtype
        values = numbers(s.rng, name, i, shape, kind, scales)
        how = quantization(scales[i], ZERO_POINTS[kind]) if scales else None
        if i in constant:
            operands.append(s.constant(values, quantization=how))
        else:
            s.feeds.append(values)
            operands.append(s.input(shape, kind, quantization=how))
    result = s.tensor(None, out, quantization=output_quantization(name, out, scales))
    version = 1 if past_newest is None else supported_ops()[name] + past_newest
    return s.op(name, operands * 2 if twice else operands, [result], version=version, **options)


def add_n(s: Sketch, op: str, count: int, x: Dims = (3, 5), **how: Any) -> int:
    return elementwise(s, op, (x,) * count, **how)


def output_quantization(op: str, dtype: str, scales: tuple[float, ...]) -> Any:
    if not scales or dtype == "bool":
        return None
    if op in FIXED_OUTPUTS and dtype == "int16":
        return quantization(2.0**-15)
    if op in FIXED_OUTPUTS:
        scale, above = FIXED_OUTPUTS[op]
        return quantization(scale, RANGES[dtype][0] + above)
    return quantization(scales[-1], ZERO_POINTS[dtype])


def extremes(count: int, dtype: str, without: tuple[float, ...]) -> NDArray[Any]:
    every = EXTREMES if dtype == "float32" else INTEGER_EXTREMES
    kept = [value for value in every if value not in without]
    return np.array(list(itertools.product(kept, repeat=count)), dtype).T


def spread(low: float, high: float) -> NDArray[Any]:
    return (np.geomspace if low * high > 0 else np.linspace)(low, high, 2001)


def numbers(
    rng: np.random.Generator,
    op: str,
    position: int,
    shape: Dims,
    dtype: str,
    scales: tuple[float, ...],
) -> NDArray[Any]:
    """Random operands inside the domain of an op; for comparisons many are equal."""
    if dtype.startswith("float"):
        real = np.asarray(3 * rng.standard_normal(shape), np.float32)
        if op in (*COMPARISONS, "FLOOR_DIV", "FLOOR_MOD"):
            real = np.asarray(np.round(5 * real) / 5, np.float32)
        if op in POSITIVE or (op == "POW" and position == 0):
            real = np.abs(real) + np.float32(0.01)
        real = np.where(real == 0, np.float32(0.5), real) if op in DIVISIONS else real
        return real.astype(dtype)
    low, high = RANGES[dtype]
    zero = ZERO_POINTS[dtype] if scales else 0
    if scales and op in POSITIVE:
        low = zero
    if scales and op in COMPARISONS:
        low, high = zero - 12, zero + 12
    if scales and op in DIVISIONS and position == 1:
        # LiteRT's quotients overflow where the dividend, here of 4 bits or more, is far smaller.
        _, exponent = math.frexp(scales[0] / (scales[1] * scales[2]))
        most = 2 ** (5 + exponent) - 1
        low, high = max(low, zero - most), min(high, zero + most)
    if op == "POW" and position == 1:
        low, high = 0, 4
    integers = np.asarray(rng.integers(low, high, shape, endpoint=True), dtype)
    if op in DIVISIONS:
        integers[np.abs(integers.astype(int) - zero) < (9 if scales else 1)] = zero + 9
    return integers
