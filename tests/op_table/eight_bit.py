"""Quantized tensors: ops that compute, on integers of 8 and 16 bits."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tests.op_table.base import TENSOR_TYPES, Attributes, Op
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import quantization

ZERO_POINTS = {"int8": 3, "uint8": 131, "int16": 0}
IN_SCALE = 0.05
FINER = 1 / 256
"""How much smaller the steps of 16 bits are."""


FIXED_OUTPUTS = {
    "SOFTMAX": (1 / 256, {"int8": -128, "uint8": 0}),
    "SOFTMAX (16-bit)": (2.0**-15, {"int16": 0}),
    "LOG_SOFTMAX": (16 / 256, {"int8": 127, "uint8": 255}),
    "L2_NORMALIZATION": (1 / 128, {"int8": 0, "uint8": 128}),
}


def eight_bit(
    s: Sketch,
    op: str,
    x: Dims,
    kind: str,
    weights: Dims = (),
    per_channel: bool = True,
    stored: str = "",
    integers: tuple[Dims | int, ...] = (),
    out_scale: float = IN_SCALE,
    bias_scale: float = 1.0,
    **options: Any,
) -> int:
    """`op` on a quantized input, then on the constants `integers`.

    Each scale of int16 tensors is `FINER`.

    Args:
        weights: The shape of quantized weights, which come after the input and before a bias.
        per_channel: The weights have a scale for each output channel.
        stored: The type of the weights; "" for that of 8 bits.
        bias_scale: Of the biases, in units of that of the products; 0 for none.
    """
    name = op.partition(" ")[0]
    out_scale *= FINER if kind == "int16" else 1
    inputs = [drawn_integers(s, x, kind)]
    if name == "BATCH_MATMUL":
        inputs.append(drawn_integers(s, weights, kind))
    elif weights:
        inputs += quantized_weights(
            s, weights, kind, 3 if "DEPTHWISE" in op else 0, per_channel, stored, bias_scale
        )
    inputs += [s.constant(np.array(values, np.int32)) for values in integers]
    if name == "TRANSPOSE_CONV":
        inputs = [inputs[3], inputs[1], inputs[0], inputs[2]]
    scale, zero_points = FIXED_OUTPUTS.get(op, FIXED_OUTPUTS.get(name, (out_scale, ZERO_POINTS)))
    result = s.tensor(dtype=kind, quantization=quantization(scale, zero_points[kind]))
    if name.startswith("ARG_"):
        result = s.tensor(dtype="int32")
        options = {"output_type": TENSOR_TYPES["int32"]}
    return s.op(name, inputs, [result], **options)


def in_scale(kind: str) -> float:
    return IN_SCALE * (FINER if kind == "int16" else 1)


def drawn_integers(s: Sketch, shape: Dims, kind: str) -> int:
    limits = np.iinfo(kind)
    s.feeds.append(s.rng.integers(limits.min, limits.max, shape, kind, endpoint=True))
    return s.input(shape, kind, quantization=quantization(in_scale(kind), ZERO_POINTS[kind]))


def quantized_weights(
    s: Sketch,
    shape: Dims,
    kind: str,
    axis: int,
    per_channel: bool,
    stored: str = "",
    bias_scale: float = 1.0,
) -> list[int]:
    """Weights, whose output channels are the dimension `axis`, and biases."""
    zero_point = 120 if kind == "uint8" else 0
    scales = s.rng.uniform(0.005, 0.02, shape[axis] if per_channel else 1)
    options = quantization(scales, zero_point, axis)
    if stored:
        weights = s.small(s.rng.integers(-7, 7, shape, endpoint=True), stored, quantization=options)
    else:
        dtype = "uint8" if kind == "uint8" else "int8"
        limits = np.iinfo(dtype)
        values = s.rng.integers(limits.min + 1, limits.max, shape, dtype, endpoint=True)
        weights = s.constant(values, quantization=options)
    wide = np.int64 if kind == "int16" else np.int32
    biases = s.rng.integers(-500, 500, shape[axis], wide) * (256 if kind == "int16" else 1)
    options = quantization(scales * in_scale(kind) * bias_scale) if bias_scale else {}
    return [weights, s.constant(biases, quantization=options)]


def window(stride: Dims = (1, 1), padding: str = "SAME", **options: Any) -> Attributes:
    return dict(stride_h=stride[0], stride_w=stride[1], padding=padding, **options)


def weighted(**rest: Any) -> Iterator[Attributes]:
    """int8 weights with a scale for each output channel, uint8 ones with a single one."""
    yield dict(kind="int8", **rest)
    yield dict(kind="int8", per_channel=False, **rest)
    yield dict(kind="uint8", per_channel=False, **rest)


def conv_8_bit() -> Iterator[Attributes]:
    for x, weights, options in (
        ((1, 9, 8, 3), (5, 3, 3, 3), window()),
        ((1, 9, 8, 3), (8, 3, 3, 3), window((2, 2), fused_activation_function="RELU6")),
        ((3, 6, 5, 8), (13, 1, 1, 8), window(fused_activation_function="RELU")),
        ((1, 7, 7, 4), (4, 2, 5, 4), window((1, 2), "VALID")),
    ):
        yield from weighted(x=x, weights=weights, out_scale=0.25, **options)
    for scale in (0.0, 3.0):
        yield dict(x=(1, 5, 4, 3), weights=(5, 3, 3, 3), kind="int8", bias_scale=scale, **window())


def depthwise_8_bit() -> Iterator[Attributes]:
    for x, multiplier, options in (
        ((1, 9, 8, 3), 1, window()),
        ((1, 9, 8, 6), 1, window((2, 2), fused_activation_function="RELU6")),
        ((3, 6, 5, 4), 2, window(padding="VALID")),
    ):
        weights = (1, 3, 3, x[3] * multiplier)
        rest = dict(depth_multiplier=multiplier, out_scale=0.1, **options)
        yield from weighted(x=x, weights=weights, **rest)
    rest = dict(depth_multiplier=1, bias_scale=3.0, **window())
    yield dict(x=(1, 5, 4, 6), weights=(1, 3, 3, 6), kind="int8", **rest)


def transpose_conv_8_bit() -> Iterator[Attributes]:
    for x, weights, size, options in (
        ((1, 5, 4, 3), (5, 3, 3, 3), (1, 10, 8, 5), window((2, 2))),
        ((2, 3, 3, 8), (4, 2, 2, 8), (2, 6, 6, 4), window((2, 2), "VALID")),
    ):
        yield from weighted(x=x, weights=weights, integers=(size,), out_scale=0.25, **options)
    rest = dict(weights=(5, 3, 3, 3), integers=((1, 10, 8, 5),), kind="int8", **window((2, 2)))
    yield dict(x=(1, 5, 4, 3), bias_scale=3.0, **rest)


def fully_connected_8_bit() -> Iterator[Attributes]:
    for x, weights in (((1, 12), (7, 12)), ((3, 33), (10, 33)), ((2, 4, 3), (5, 12))):
        for kind in ("int8", "uint8"):
            yield dict(x=x, kind=kind, weights=weights, per_channel=False, out_scale=0.25)


def pool_8_bit() -> Iterator[Attributes]:
    for kind, x in itertools.product(("int8", "uint8"), ((1, 9, 8, 5), (3, 7, 7, 8))):
        for stride, padding in (((1, 1), "SAME"), ((2, 2), "VALID")):
            for size in (2, 3):
                options = window(stride, padding, filter_height=size, filter_width=size)
                yield dict(x=x, kind=kind, **options)
        relu = window(filter_height=3, filter_width=2, fused_activation_function="RELU")
        yield dict(x=x, kind=kind, **relu)


def axes_8_bit(*out_scales: float) -> Iterator[Attributes]:
    for kind, axes in itertools.product(("int8", "uint8"), ((1, 2), (3,), (0, -1), (1, 2, 3))):
        for out_scale, keep_dims in itertools.product(out_scales, (False, True)):
            rest = dict(integers=(axes,), out_scale=out_scale, keep_dims=keep_dims)
            yield dict(x=(2, 5, 4, 6), kind=kind, **rest)


def channels_8_bit(**options: Any) -> Iterator[Attributes]:
    for kind, x in itertools.product(("int8", "uint8"), ((1, 10), (3, 5), (1, 4, 5, 6), (2, 131))):
        yield dict(x=x, kind=kind, **options)


def arg_max_8_bit() -> Iterator[Attributes]:
    for kind, axis in itertools.product(("int8", "uint8"), range(4)):
        yield dict(x=(2, 5, 4, 6), kind=kind, integers=(axis,))


def batch_matmul_8_bit() -> Iterator[Attributes]:
    for a, b in (((5, 7), (7, 6)), ((3, 5, 8), (8, 4)), ((2, 1, 3, 4), (3, 4, 5))):
        yield dict(x=a, kind="int8", weights=b, out_scale=0.5)


def with_int4(cases: Iterable[Attributes]) -> list[Attributes]:
    """The cases, and the int8 cases with weights of 4 bits."""
    listed = list(cases)
    return listed + [dict(case, stored="int4") for case in listed if case["kind"] == "int8"]


def as_16_bit(cases: Iterable[Attributes]) -> Op:
    """The cases of int8, with int16 activations."""
    kept = [dict(case, kind="int16") for case in cases if case["kind"] == "int8"]
    return quantized(lambda: kept)


def quantized(cases: Callable[[], Iterable[Attributes]]) -> Op:
    """Fixed cases, of which the random ones are the same with other numbers."""
    return Op(eight_bit, cases, lambda rng: rng.choice(list(cases())))


OPS: dict[str, Op] = {
    "CONV_2D (8-bit)": quantized(lambda: with_int4(conv_8_bit())),
    "DEPTHWISE_CONV_2D (8-bit)": quantized(lambda: with_int4(depthwise_8_bit())),
    "TRANSPOSE_CONV (8-bit)": quantized(transpose_conv_8_bit),
    "FULLY_CONNECTED (8-bit)": quantized(lambda: with_int4(fully_connected_8_bit())),
    "BATCH_MATMUL (8-bit)": quantized(batch_matmul_8_bit),
    "AVERAGE_POOL_2D (8-bit)": quantized(pool_8_bit),
    "MAX_POOL_2D (8-bit)": quantized(pool_8_bit),
    "MEAN (8-bit)": quantized(lambda: axes_8_bit(IN_SCALE, 0.02)),
    "SUM (8-bit)": quantized(lambda: axes_8_bit(0.5)),
    "REDUCE_MAX (8-bit)": quantized(lambda: axes_8_bit(IN_SCALE)),
    "REDUCE_MIN (8-bit)": quantized(lambda: axes_8_bit(IN_SCALE)),
    "ARG_MAX (8-bit)": quantized(arg_max_8_bit),
    "ARG_MIN (8-bit)": quantized(arg_max_8_bit),
    "SOFTMAX (8-bit)": quantized(lambda: channels_8_bit(beta=1.0)),
    "LOG_SOFTMAX (8-bit)": quantized(channels_8_bit),
    "L2_NORMALIZATION (8-bit)": quantized(channels_8_bit),
    "CONV_2D (16-bit)": as_16_bit(conv_8_bit()),
    "DEPTHWISE_CONV_2D (16-bit)": as_16_bit(depthwise_8_bit()),
    "TRANSPOSE_CONV (16-bit)": as_16_bit(transpose_conv_8_bit()),
    "FULLY_CONNECTED (16-bit)": as_16_bit(fully_connected_8_bit()),
    "BATCH_MATMUL (16-bit)": as_16_bit(batch_matmul_8_bit()),
    "AVERAGE_POOL_2D (16-bit)": as_16_bit(pool_8_bit()),
    "MAX_POOL_2D (16-bit)": as_16_bit(pool_8_bit()),
    "MEAN (16-bit)": as_16_bit(axes_8_bit(IN_SCALE, 0.02)),
    "SUM (16-bit)": as_16_bit(axes_8_bit(0.5)),
    "REDUCE_MAX (16-bit)": as_16_bit(axes_8_bit(IN_SCALE)),
    "REDUCE_MIN (16-bit)": as_16_bit(axes_8_bit(IN_SCALE)),
    "SOFTMAX (16-bit)": as_16_bit(channels_8_bit(beta=1.0)),
}
