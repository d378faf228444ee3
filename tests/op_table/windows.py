"""Ops that slide a window over an image: convolutions and pools."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    ACTIVATIONS,
    CHANNELS,
    Attributes,
    Cases,
    Op,
    each,
    random_activation,
    random_dims,
    random_image,
)
from tests.support.sketch import Dims, Sketch


def conv_2d(
    s: Sketch,
    op: str,
    x: Dims = (1, 9, 8, 3),
    kernel: Dims = (3, 3),
    out: int = 5,
    groups: int = 1,
    bias: bool = True,
    runtime_weights: bool = False,
    stride: Dims = (1, 1),
    dilation: Dims = (1, 1),
    padding: str = "SAME",
    act: str = "NONE",
) -> int:
    depth = x[3] // groups
    scale = 3 / np.sqrt(depth * kernel[0] * kernel[1])
    weights = s.operand((out, *kernel, depth), constant=not runtime_weights, scale=scale)
    inputs = [s.feed(x), weights] + [s.constant(s.normal((out,)))] * bias
    return s.op(op, inputs, **_window_options(stride, dilation, padding, act))


def _window_options(stride: Dims, dilation: Dims, padding: str, act: str) -> Attributes:
    return dict(
        stride_h=stride[0],
        stride_w=stride[1],
        dilation_h_factor=dilation[0],
        dilation_w_factor=dilation[1],
        padding=padding,
        fused_activation_function=act,
    )


def _window_cases() -> Iterator[Attributes]:
    """Kernels, strides, dilations and paddings: the same for both kinds of convolution."""
    kernels = ((1, 1), (3, 3), (5, 5), (1, 7), (7, 1), (2, 2), (4, 3), (6, 4))
    yield from each(kernel=kernels, padding=("SAME", "VALID"))
    for stride, padding in itertools.product(((2, 2), (3, 3), (1, 2), (3, 1)), ("SAME", "VALID")):
        yield dict(x=(1, 11, 14, 4), stride=stride, padding=padding)
        yield dict(x=(1, 10, 13, 3), kernel=(2, 5), stride=stride, padding=padding)
    yield from each(dict(x=(1, 8, 7, 6), kernel=(1, 1)), stride=((2, 2), (3, 2)))
    for dilation, padding in itertools.product(((2, 2), (3, 1), (1, 4)), ("SAME", "VALID")):
        yield dict(x=(1, 12, 13, 4), dilation=dilation, padding=padding)
    yield dict(x=(1, 12, 13, 4), dilation=(2, 3), stride=(2, 2))
    yield dict(x=(1, 3, 2, 4), kernel=(5, 7))
    yield dict(x=(1, 1, 1, 4))
    yield dict(x=(1, 1, 1, 4), kernel=(1, 1))
    yield dict(x=(3, 7, 5, 6))
    yield dict(x=(3, 7, 5, 6), stride=(2, 2), padding="VALID")
    for act in ACTIVATIONS:
        yield dict(act=act)
        yield dict(x=(1, 6, 5, 8), kernel=(1, 1), act=act)


def conv_2d_cases() -> Iterator[Attributes]:
    yield from _window_cases()
    for channels in CHANNELS:
        yield dict(x=(1, 5, 6, channels))
        yield dict(out=channels)
        yield dict(x=(1, 5, 6, channels), out=channels, kernel=(1, 1), act="RELU")
    yield dict(x=(0, 5, 6, 3))
    yield dict(x=(1, 2, 2, 3), padding="VALID")
    yield dict(x=(1, 14, 14, 128), out=192, kernel=(1, 1))
    yield dict(x=(1, 7, 10, 5), out=125, kernel=(1, 1))
    yield dict(x=(1, 14, 14, 128), out=192)
    yield dict(x=(1, 7, 7, 256), out=260)
    yield dict(x=(2, 7, 7, 256), out=260, kernel=(1, 1), act="RELU6")
    for more in ({}, dict(groups=2), dict(runtime_weights=True)):
        yield dict(x=(1, 7, 7, 64), out=518, kernel=(1, 1), **more)
    yield dict(x=(2, 5, 5, 32), out=390, act="RELU")
    yield dict(x=(1, 1, 1, 1024), out=1001, kernel=(1, 1))
    yield dict(x=(1, 64, 64, 3), out=32, stride=(2, 2), act="RELU6")
    yield dict(x=(1, 17, 19, 67), out=33, stride=(2, 1))
    for groups, depth, out in ((2, 4, 6), (2, 8, 8), (3, 9, 6), (4, 16, 32), (5, 5, 10), (7, 7, 7)):
        yield dict(x=(1, 6, 7, depth), groups=groups, out=out)
    yield dict(x=(2, 9, 7, 8), groups=2, out=12, stride=(2, 1), padding="VALID", act="RELU")
    yield dict(x=(1, 6, 7, 8), groups=4, out=8, kernel=(1, 1))
    yield dict(x=(1, 8, 8, 30), groups=3, out=30, kernel=(1, 1))  # groups that share slices
    yield dict(x=(1, 12, 12, 42), groups=3, out=63, kernel=(1, 1), act="RELU")
    yield dict(x=(2, 8, 9, 12), groups=2, out=124, kernel=(1, 1))
    for x, kernel in (((1, 7, 6, 5), (3, 3)), ((2, 7, 6, 8), (1, 1))):
        yield dict(x=x, kernel=kernel, runtime_weights=True)
        yield dict(x=x, kernel=kernel, runtime_weights=True, stride=(2, 2))
    yield from each(dict(runtime_weights=True), x=((1, 3, 4, 1), (1, 3, 4, 3)), out=(2, 4, 8))


def conv_2d_random(rng: random.Random) -> Attributes:
    groups = rng.choice((1, 1, 1, 1, 2, 3))
    batch, height, width, depth = random_image(rng)
    return dict(
        x=(batch, height, width, depth * groups),
        out=groups * rng.randint(1, 20),
        groups=groups,
        runtime_weights=groups == 1 and rng.random() < 0.2,
        **_window_random(rng),
    )


def _window_random(rng: random.Random) -> Attributes:
    dilated = rng.random() < 0.3
    return dict(
        kernel=random_dims(rng, 2, 6),
        stride=(1, 1) if dilated else random_dims(rng, 2, 3),
        dilation=random_dims(rng, 2, 3) if dilated else (1, 1),
        padding=rng.choice(("SAME", "VALID")),
        act=random_activation(rng),
    )


def depthwise_conv_2d(
    s: Sketch,
    op: str,
    x: Dims = (1, 9, 8, 3),
    kernel: Dims = (3, 3),
    multiplier: int = 1,
    runtime_weights: bool = False,
    stride: Dims = (1, 1),
    dilation: Dims = (1, 1),
    padding: str = "SAME",
    act: str = "NONE",
) -> int:
    out = x[3] * multiplier
    scale = 3 / np.sqrt(kernel[0] * kernel[1])
    weights = s.operand((1, *kernel, out), constant=not runtime_weights, scale=scale)
    inputs = [s.feed(x), weights, s.constant(s.normal((out,)))]
    options = _window_options(stride, dilation, padding, act)
    return s.op(op, inputs, depth_multiplier=multiplier, **options)


def depthwise_conv_2d_cases() -> Iterator[Attributes]:
    yield from _window_cases()
    for channels, multiplier in itertools.product((1, 2, 3, 4, 5, 8, 13), (1, 2, 3, 4, 8)):
        yield dict(x=(1, 5, 6, channels), multiplier=multiplier)
    for size in range(1, 8):
        yield dict(x=(1, 10, 11, 7), kernel=(size, size))
        yield dict(x=(1, 10, 11, 8), kernel=(size, 8 - size), stride=(2, 2), padding="VALID")
    for channels in CHANNELS:
        yield dict(x=(1, 7, 6, channels), stride=(2, 2), act="RELU6")
    yield dict(x=(0, 7, 6, 5))
    yield dict(x=(3, 7, 6, 5), multiplier=2, dilation=(2, 2))
    yield dict(x=(1, 28, 28, 96), act="RELU6")
    yield dict(x=(1, 7, 6, 5), runtime_weights=True)
    yield dict(x=(2, 7, 6, 4), runtime_weights=True, multiplier=2, stride=(2, 2))


def depthwise_conv_2d_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_image(rng),
        multiplier=rng.choice((1, 1, 1, 2, 3, 4, 8)),
        runtime_weights=rng.random() < 0.2,
        **_window_random(rng),
    )


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
    yield from each(kernel=kernels, stride=strides, padding=("SAME", "VALID"))
    for channels in CHANNELS:
        yield dict(x=(1, 3, 4, channels))
        yield dict(out=channels)
    for more in ((-1, 0), (0, -1), (-1, -1)):
        yield dict(more=more)
        yield dict(x=(3, 4, 3, 6), kernel=(2, 2), more=more, bias=False)
    yield from each(dict(padding="VALID"), more=((0, 1), (1, 1)))
    for act in ("NONE", *ACTIVATIONS):
        yield dict(act=act)
        yield dict(act=act, bias=False)
        yield dict(x=(3, 4, 3, 6), act=act, kernel=(4, 4))
    yield from each(x=((0, 4, 3, 6), (1, 1, 1, 5)))
    yield dict(x=(1, 1, 1, 5), padding="VALID", kernel=(1, 1), stride=(3, 3))
    yield dict(x=(1, 1, 1, 5), padding="SAME", stride=(9, 7), more=(-5, -4))
    yield dict(x=(1, 28, 27, 16), out=16)
    yield dict(x=(1, 7, 7, 130), out=66)
    for bias in (True, False):
        yield dict(runtime_weights=True, bias=bias)
        yield dict(x=(2, 3, 4, 8), out=8, kernel=(2, 3), runtime_weights=True, bias=bias)
    yield from each(dict(runtime_weights=True), x=((1, 3, 4, 1), (1, 3, 4, 3)), out=(2, 4, 8))


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


def pool_2d(
    s: Sketch,
    op: str,
    x: Dims = (1, 9, 8, 5),
    size: Dims = (2, 2),
    stride: Dims = (1, 1),
    padding: str = "SAME",
    act: str = "NONE",
) -> int:
    return s.op(
        op,
        [s.feed(x, scale=3)],
        filter_height=size[0],
        filter_width=size[1],
        stride_h=stride[0],
        stride_w=stride[1],
        padding=padding,
        fused_activation_function=act,
    )


def pool_2d_cases() -> Iterator[Attributes]:
    sizes, strides = ((1, 1), (2, 2), (3, 3), (2, 5), (7, 1)), ((1, 1), (2, 2), (3, 1))
    yield from each(size=sizes, stride=strides, padding=("SAME", "VALID"))
    for channels in CHANNELS:
        yield dict(x=(1, 7, 7, channels), size=(3, 3), stride=(2, 2))
    yield dict(x=(1, 7, 7, 37), size=(7, 7), padding="VALID")
    yield dict(x=(3, 7, 5, 4), size=(7, 5), stride=(7, 5), padding="VALID")
    yield dict(x=(1, 3, 3, 4), size=(5, 5))
    yield dict(x=(0, 3, 3, 4))
    yield dict(x=(1, 0, 3, 4), size=(2, 5), padding="VALID")
    for x in ((1, 3, 3, 4), (1, 9, 3, 4), (1, 9, 4, 4), (1, 3, 9, 4)):
        yield dict(x=x, size=(5, 5), padding="VALID")
    yield dict(x=(1, 1, 1, 4), size=(2, 2), stride=(2, 2))
    yield dict(x=(3, 6, 7, 5), size=(3, 2), stride=(2, 2))
    yield dict(x=(1, 32, 32, 64), size=(32, 32), padding="VALID")
    yield from each(act=ACTIVATIONS)


def pool_2d_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_image(rng),
        size=random_dims(rng, 2, 6),
        stride=random_dims(rng, 2, 4),
        padding=rng.choice(("SAME", "VALID")),
        act=random_activation(rng),
    )


POOLS = ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D")

OPS: dict[str, Op] = {
    "CONV_2D": Op(conv_2d, conv_2d_cases, conv_2d_random),
    "DEPTHWISE_CONV_2D": Op(depthwise_conv_2d, depthwise_conv_2d_cases, depthwise_conv_2d_random),
    **{op: Op(pool_2d, pool_2d_cases, pool_2d_random) for op in POOLS},
    "TRANSPOSE_CONV": Op(transpose_conv, transpose_conv_cases, transpose_conv_random),
}

# LiteRT ignores a fused TANH, and makes an empty result of a padding that no enumerator names.
LEFT_TO_LITERT: Cases = (
    *((op, dict(act="TANH")) for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D")),
    *((op, dict(padding=7)) for op in POOLS),
    ("CONV_2D", dict(x=(1, 6, 7, 4), groups=2, out=6, runtime_weights=True)),
)

LITERT_REFUSES: Cases = (
    ("CONV_2D", dict(bias=False)),
    ("CONV_2D", dict(padding=7)),
    ("CONV_2D", dict(stride=(0, 1))),
    ("CONV_2D", dict(x=(1, 4, 4, 4), groups=2, out=3)),
    ("DEPTHWISE_CONV_2D", dict(stride=(1, 0))),
    ("TRANSPOSE_CONV", dict(version=6)),
)
