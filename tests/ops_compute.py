"""Ops that compute over windows, axes and sequences, for the table in op_table.py."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tests.op_base import (
    ACTIVATIONS,
    CHANNELS,
    EXTREMES,
    Attributes,
    Op,
    random_activation,
    random_dims,
    random_image,
)
from tests.sketch import Dims, Sketch
from tests.tflite_builder import quantization

TENSOR_TYPES = {"int32": 2, "int64": 4}


def transpose_conv(
    s: Sketch,
    op: str,
    x: Dims = (1, 5, 4, 3),
    kernel: Dims = (3, 3),
    out: int = 5,
    stride: Dims = (2, 2),
    padding: str = "SAME",
    more: Dims = (0, 0),
    bias: bool = True,
    runtime_weights: bool = False,
    act: str = "NONE",
    version: int | None = None,
) -> int:
    """``more``: how much larger than the usual one the output is."""
    batch, *image, depth = x
    size = [
        n * step + extra + max(width - step, 0) * (padding == "VALID")
        for n, width, step, extra in zip(image, kernel, stride, more, strict=True)
    ]
    shape = s.constant(np.array([batch, *size, out], np.int32))
    scale = 3 / np.sqrt(depth * kernel[0] * kernel[1])
    weights = s.operand((out, *kernel, depth), constant=not runtime_weights, scale=scale)
    inputs = [shape, weights, s.feed(x)] + [s.constant(s.normal((out,)))] * bias
    return s.op(
        op,
        inputs,
        [s.tensor()],
        version=version or (4 if act != "NONE" else 3 if bias else 1),
        stride_h=stride[0],
        stride_w=stride[1],
        padding=padding,
        fused_activation_function=act,
    )


def transpose_conv_cases() -> Iterator[Attributes]:
    kernels = ((1, 1), (2, 2), (3, 3), (4, 4), (2, 5), (7, 1))
    strides = ((1, 1), (2, 2), (3, 3), (1, 2), (4, 3))
    for kernel, stride, padding in itertools.product(kernels, strides, ("SAME", "VALID")):
        yield dict(kernel=kernel, stride=stride, padding=padding)
    for channels in CHANNELS:
        yield dict(x=(1, 3, 4, channels))
        yield dict(out=channels)
    for more in ((-1, 0), (0, -1), (-1, -1)):
        yield dict(more=more)
        yield dict(x=(3, 4, 3, 6), kernel=(2, 2), more=more, bias=False)
    for more in ((0, 1), (1, 1)):
        yield dict(padding="VALID", more=more)
    for act in ("NONE", *ACTIVATIONS):
        yield dict(act=act)
        yield dict(act=act, bias=False)
        yield dict(x=(3, 4, 3, 6), act=act, kernel=(4, 4))
    yield dict(x=(0, 4, 3, 6))
    yield dict(x=(1, 1, 1, 5))
    yield dict(x=(1, 1, 1, 5), padding="VALID", kernel=(1, 1), stride=(3, 3))
    yield dict(x=(1, 28, 27, 16), out=16)
    yield dict(x=(1, 7, 7, 130), out=66)
    for bias in (True, False):
        yield dict(runtime_weights=True, bias=bias)
        yield dict(x=(2, 3, 4, 8), out=8, kernel=(2, 3), runtime_weights=True, bias=bias)


def transpose_conv_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_image(rng, 9),
        kernel=random_dims(rng, 2, 5),
        out=rng.randint(1, 20),
        stride=random_dims(rng, 2, 4),
        padding=rng.choice(("SAME", "VALID")),
        bias=rng.random() < 0.7,
        runtime_weights=rng.random() < 0.2,
        act=random_activation(rng),
    )


# --- along axes ----------------------------------------------------------------------------------


def along(
    s: Sketch,
    x: Dims,
    kind: str,
    special: bool = False,
    extremes: tuple[float, ...] = EXTREMES,
) -> int:
    """An input with values of the type `kind`: small whole numbers, but for float32."""
    if special:
        return s.feed(values=np.resize(extremes, x))
    if kind == "float32":
        return s.feed(x)
    return s.feed(values=s.rng.integers(-9, 10, x), dtype=kind)


def reduction(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axes: Dims | int = (1, 2),
    keep_dims: bool = False,
    kind: str = "float32",
    special: bool = False,
) -> int:
    inputs = [along(s, x, kind, special), s.constant(np.asarray(axes, np.int32))]
    return s.op(op, inputs, keep_dims=keep_dims)


def reduction_cases(*kinds: str) -> Iterator[Attributes]:
    for kind in kinds:
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 5), (2, 3, 4, 3, 2)):
            for count in range(1, len(x) + 1):
                for axes in itertools.combinations(range(len(x)), count):
                    yield dict(x=x, axes=axes, kind=kind)
        for keep_dims in (False, True):
            for order in (-1, 2, (-1,), (-3, -2), (2, 1), (1, 1), (-1, 3, 0)):
                yield dict(axes=order, keep_dims=keep_dims, kind=kind)
            yield dict(axes=(), keep_dims=keep_dims, kind=kind)
            yield dict(x=(), axes=(), keep_dims=keep_dims, kind=kind)
            yield dict(x=(0, 3), axes=(1,), keep_dims=keep_dims, kind=kind)
            yield dict(x=(3, 1, 1, 9), keep_dims=keep_dims, kind=kind)
            yield dict(x=(1, 7, 7, 37), axes=(1, 2, 3), keep_dims=keep_dims, kind=kind)
        yield dict(x=(1, 64, 65, 3), kind=kind)


def number_cases() -> Iterator[Attributes]:
    yield from reduction_cases("float32", "int32")
    for kind in ("float32", "int32"):
        yield dict(x=(0, 3), axes=(0,), kind=kind)
        yield dict(x=(2, 0), axes=(1,), kind=kind)


def extremum_cases() -> Iterator[Attributes]:
    yield from number_cases()
    for axes in ((0,), (1,), (0, 1)):
        yield dict(x=(16, 5), axes=axes, special=True)


def logical_cases() -> Iterator[Attributes]:
    yield from reduction_cases("bool")
    yield dict(x=(2, 0), axes=(1,), kind="bool")


def reduction_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 5)
    count = rng.randint(1, len(x))
    axes = tuple(axis - rng.choice((0, len(x))) for axis in rng.sample(range(len(x)), count))
    return dict(x=x, axes=axes, keep_dims=rng.random() < 0.5)


def number_random(rng: random.Random) -> Attributes:
    return dict(reduction_random(rng), kind=rng.choice(("float32", "int32")))


def logical_random(rng: random.Random) -> Attributes:
    return dict(reduction_random(rng), kind="bool")


def arg_max(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axis: int = -1,
    kind: str = "float32",
    out: str = "int32",
    special: bool = False,
) -> int:
    """`special`: without NaN, which LiteRT sometimes takes for the largest and sometimes not."""
    inputs = [along(s, x, kind, special, EXTREMES[:-1]), s.constant(np.int32(axis))]
    return s.op(op, inputs, [s.tensor(dtype=out)], output_type=TENSOR_TYPES[out])


def axis_cases(*kinds: str) -> Iterator[Attributes]:
    for kind in kinds:
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 6), (3, 1, 4, 3, 2)):
            for axis in range(-len(x), len(x)):
                yield dict(x=x, axis=axis, kind=kind)
        yield dict(x=(0, 3), axis=1, kind=kind)
        yield dict(x=(1, 1001), axis=1, kind=kind)
        yield dict(x=(1, 1), axis=0, kind=kind)
        yield dict(x=(1, 33, 31, 21), axis=3, kind=kind)


def arg_max_cases() -> Iterator[Attributes]:
    yield from axis_cases("float32", "int32")
    for axis in range(2):
        yield dict(x=(16, 5), axis=axis, special=True)


def axis_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    kind = rng.choice(("float32", "int32"))
    return dict(x=x, axis=rng.randrange(-len(x), len(x)), kind=kind)


def cumsum(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axis: int = -1,
    kind: str = "float32",
    exclusive: bool = False,
    reverse: bool = False,
) -> int:
    inputs = [along(s, x, kind), s.constant(np.int32(axis))]
    return s.op(op, inputs, exclusive=exclusive, reverse=reverse)


def cumsum_cases() -> Iterator[Attributes]:
    for exclusive, reverse in itertools.product((False, True), repeat=2):
        for attributes in axis_cases("float32", "int32"):
            yield dict(attributes, exclusive=exclusive, reverse=reverse)
    yield dict(x=(0, 3), axis=0)


def cumsum_random(rng: random.Random) -> Attributes:
    return dict(axis_random(rng), exclusive=rng.random() < 0.5, reverse=rng.random() < 0.5)


def over_channels(s: Sketch, op: str, x: Dims = (2, 3, 4, 6), scale: float = 1.0) -> int:
    return s.op(op, [s.feed(x, scale=scale)])


def over_channels_cases() -> Iterator[Attributes]:
    for x in ((1,), (7,), (3, 5), (2, 3, 4), (1, 3, 3, 130), (2, 3, 4, 5, 6), (0, 3), (1, 1001)):
        yield dict(x=x)
        yield dict(x=x, scale=30.0)
    for channels in CHANNELS:
        yield dict(x=(1, 7, 6, channels))
    yield dict(x=(3, 1001))
    yield dict(x=(1, 2050))
    yield dict(x=(2, 4101))
    yield dict(x=(1, 64, 64, 2))
    yield dict(x=(300, 67))
    yield dict(x=(2, 7), scale=0.0)
    yield dict(x=(2, 7), scale=1e-8)


def over_channels_random(rng: random.Random) -> Attributes:
    channels = rng.choice((1, 2, 5, 17, 64, 129, 301))
    return dict(x=(*random_dims(rng, rng.randint(0, 3)), channels), scale=rng.choice((1.0, 10.0)))


def batch_matmul(
    s: Sketch,
    op: str,
    a: Dims = (5, 7),
    b: Dims = (7, 6),
    adj_x: bool = False,
    adj_y: bool = False,
    constant: str = "",
) -> int:
    """``a`` and ``b`` are the shapes before the last two dimensions are swapped."""
    shapes = [
        (*shape[:-2], shape[-1], shape[-2]) if swap else shape
        for shape, swap in ((a, adj_x), (b, adj_y))
    ]
    x, y = (
        s.operand(shape, constant=name == constant)
        for name, shape in zip("ab", shapes, strict=True)
    )
    return s.op(op, [x, y], adj_x=adj_x, adj_y=adj_y)


BATCHES: tuple[tuple[Dims, Dims], ...] = (
    ((), ()), ((3,), (3,)), ((3,), ()), ((), (3,)), ((3,), (1,)), ((2, 1), (3,)), ((2, 3), (2, 3)),
    ((2, 3), (1, 3)), ((2, 3, 2), (3, 1)), ((0,), (0,)),
)  # fmt: skip


def batch_matmul_cases() -> Iterator[Attributes]:
    for adj_x, adj_y in itertools.product((False, True), repeat=2):
        adjoint: Attributes = dict(adj_x=adj_x, adj_y=adj_y)
        for of_a, of_b in BATCHES:
            yield dict(a=(*of_a, 5, 7), b=(*of_b, 7, 6), **adjoint)
        for m, k, n in ((1, 1, 1), (4, 8, 4), (9, 3, 33), (1, 64, 130), (33, 17, 65), (3, 1, 5)):
            yield dict(a=(2, m, k), b=(2, k, n), **adjoint)
        for constant in "ab":
            yield dict(constant=constant, **adjoint)
            yield dict(a=(2, 5, 7), constant=constant, **adjoint)
        yield dict(a=(64, 96), b=(96, 80), **adjoint)


def batch_matmul_random(rng: random.Random) -> Attributes:
    of_a, of_b = rng.choice(BATCHES[:-1])
    m, k, n = random_dims(rng, 3, 20)
    return dict(
        a=(*of_a, m, k),
        b=(*of_b, k, n),
        adj_x=rng.random() < 0.5,
        adj_y=rng.random() < 0.5,
        constant=rng.choice(("", "", "a", "b")),
    )


def lstm(
    s: Sketch,
    op: str,
    x: Dims = (1, 7),
    units: int = 5,
    act: str = "TANH",
    runtime_weights: bool = False,
) -> list[int]:
    """A cell whose state is an input; its four results."""
    batch, depth = x
    weights = s.operand((4 * units, depth + units), constant=not runtime_weights, scale=0.5)
    bias = s.operand((4 * units,), constant=not runtime_weights)
    inputs = [s.feed(x), s.feed((batch, units)), weights, bias, s.feed((batch, units))]
    results = [s.tensor() for _ in range(4)]
    s.op(op, inputs, results, kernel_type="BASIC", fused_activation_function=act)
    return results


def lstm_cases() -> Iterator[Attributes]:
    for batch, depth, units in itertools.product((1, 3), (1, 4, 7), (1, 4, 5, 8)):
        yield dict(x=(batch, depth), units=units)
    yield dict(x=(2, 65), units=130)
    yield dict(x=(3, 6), units=6, runtime_weights=True)
    yield dict(act="RELU")


def lstm_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, 2, 20), units=rng.randint(1, 40))


# --- quantised tensors ---------------------------------------------------------------------------

ZERO_POINTS = {"int8": 3, "uint8": 131}
IN_SCALE = 0.05
FIXED_OUTPUTS = {
    "SOFTMAX": (1 / 256, {"int8": -128, "uint8": 0}),
    "LOG_SOFTMAX": (16 / 256, {"int8": 127, "uint8": 255}),
    "L2_NORMALIZATION": (1 / 128, {"int8": 0, "uint8": 128}),
}
"""The quantisations that LiteRT demands of these outputs; others get `out_scale`."""


def eight_bit(
    s: Sketch,
    op: str,
    x: Dims,
    kind: str,
    weights: Dims = (),
    per_channel: bool = True,
    integers: tuple[Dims | int, ...] = (),
    out_scale: float = IN_SCALE,
    **options: Any,
) -> int:
    """`op` on a quantised input, then on the constants `integers`.

    Args:
        weights: The shape of quantised weights, which come after the input and before a bias.
        per_channel: The weights have a scale for each output channel.
    """
    name = op.partition(" ")[0]
    inputs = [drawn_bytes(s, x, kind)]
    if name == "BATCH_MATMUL":
        inputs.append(drawn_bytes(s, weights, kind))
    elif weights:
        inputs += quantized_weights(s, weights, kind, 3 if "DEPTHWISE" in op else 0, per_channel)
    inputs += [s.constant(np.array(values, np.int32)) for values in integers]
    if name == "TRANSPOSE_CONV":
        inputs = [inputs[3], inputs[1], inputs[0], inputs[2]]
    scale, zero_points = FIXED_OUTPUTS.get(name, (out_scale, ZERO_POINTS))
    result = s.tensor(dtype=kind, quantization=quantization(scale, zero_points[kind]))
    if name.startswith("ARG_"):
        result = s.tensor(dtype="int32")
        options = {"output_type": TENSOR_TYPES["int32"]}
    return s.op(name, inputs, [result], **options)


def drawn_bytes(s: Sketch, shape: Dims, kind: str) -> int:
    limits = np.iinfo(kind)
    s.feeds.append(s.rng.integers(limits.min, limits.max, shape, kind, endpoint=True))
    return s.input(shape, kind, quantization=quantization(IN_SCALE, ZERO_POINTS[kind]))


def quantized_weights(s: Sketch, shape: Dims, kind: str, axis: int, per_channel: bool) -> list[int]:
    """Weights, whose output channels are the dimension `axis`, and biases."""
    zero_point = 0 if kind == "int8" else 120
    scales = s.rng.uniform(0.005, 0.02, shape[axis] if per_channel else 1)
    limits = np.iinfo(kind)
    values = s.rng.integers(limits.min + 1, limits.max, shape, kind, endpoint=True)
    biases = s.rng.integers(-500, 500, shape[axis], np.int32)
    return [
        s.constant(values, quantization=quantization(scales, zero_point, axis)),
        s.constant(biases, quantization=quantization(scales * IN_SCALE)),
    ]


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


def depthwise_8_bit() -> Iterator[Attributes]:
    for x, multiplier, options in (
        ((1, 9, 8, 3), 1, window()),
        ((1, 9, 8, 6), 1, window((2, 2), fused_activation_function="RELU6")),
        ((3, 6, 5, 4), 2, window(padding="VALID")),
    ):
        weights = (1, 3, 3, x[3] * multiplier)
        rest = dict(depth_multiplier=multiplier, out_scale=0.1, **options)
        yield from weighted(x=x, weights=weights, **rest)


def transpose_conv_8_bit() -> Iterator[Attributes]:
    for x, weights, size, options in (
        ((1, 5, 4, 3), (5, 3, 3, 3), (1, 10, 8, 5), window((2, 2))),
        ((2, 3, 3, 8), (4, 2, 2, 8), (2, 6, 6, 4), window((2, 2), "VALID")),
    ):
        yield from weighted(x=x, weights=weights, integers=(size,), out_scale=0.25, **options)


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


def quantized(cases: Callable[[], Iterable[Attributes]]) -> Op:
    """Fixed cases, of which the random ones are the same with other numbers."""
    return Op(eight_bit, cases, lambda rng: rng.choice(list(cases())))


OPS: dict[str, Op] = {
    "TRANSPOSE_CONV": Op(transpose_conv, transpose_conv_cases, transpose_conv_random),
    "SUM": Op(reduction, number_cases, number_random),
    "REDUCE_PROD": Op(reduction, number_cases, number_random),
    "REDUCE_MAX": Op(reduction, extremum_cases, number_random),
    "REDUCE_MIN": Op(reduction, extremum_cases, number_random),
    "REDUCE_ANY": Op(reduction, logical_cases, logical_random),
    "REDUCE_ALL": Op(reduction, logical_cases, logical_random),
    "ARG_MAX": Op(arg_max, arg_max_cases, axis_random),
    "ARG_MIN": Op(arg_max, arg_max_cases, axis_random),
    "CUMSUM": Op(cumsum, cumsum_cases, cumsum_random),
    "BATCH_MATMUL": Op(batch_matmul, batch_matmul_cases, batch_matmul_random),
    "LSTM": Op(lstm, lstm_cases, lstm_random),
    "L2_NORMALIZATION": Op(over_channels, over_channels_cases, over_channels_random),
    "LOG_SOFTMAX": Op(over_channels, over_channels_cases, over_channels_random),
    "CONV_2D (8-bit)": quantized(conv_8_bit),
    "DEPTHWISE_CONV_2D (8-bit)": quantized(depthwise_8_bit),
    "TRANSPOSE_CONV (8-bit)": quantized(transpose_conv_8_bit),
    "FULLY_CONNECTED (8-bit)": quantized(fully_connected_8_bit),
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
}

LEFT_TO_LITERT: tuple[tuple[str, Attributes], ...] = (("ARG_MAX", dict(out="int64")),)

LITERT_REFUSES: tuple[tuple[str, Attributes], ...] = (
    ("TRANSPOSE_CONV", dict(version=6)),
    ("ARG_MAX", dict(x=(2, 0))),
    ("REDUCE_ANY", {}),
    ("CUMSUM", dict(x=(), axis=0)),
    ("L2_NORMALIZATION", dict(x=())),
    ("BATCH_MATMUL", dict(a=(7,), b=(7, 6))),
    ("BATCH_MATMUL", dict(a=(1,) * 6, b=(1, 1))),
)
