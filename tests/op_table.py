"""The table of single-op models and small graphs that every test of the ops draws from.

An op has one function that puts it into a model, one that lists its fixed attributes and one that
draws attributes at random. To add an op: write the three and name them in ``OPS``.
"""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests import ops_compute, ops_elementwise, ops_movement
from tests.graph_table import GRAPHS, random_graph
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
from tests.oracle import run_litert
from tests.sketch import Dims, Sketch
from tests.tflite_builder import NO_INPUT


@dataclass(frozen=True)
class Case:
    """One model with inputs; everything random in it follows from its id."""

    id: str
    op: str
    model: Callable[..., int | Sequence[int]]
    attributes: Attributes

    @property
    def special(self) -> bool:
        """Inputs or outputs hold infinities or NaN."""
        return bool(self.attributes.get("special"))

    def build(self) -> tuple[bytes, list[NDArray[np.float32]]]:
        sketch = Sketch(np.random.default_rng(zlib.crc32(self.id.encode())))
        outputs = self.model(sketch, self.op, **self.attributes)
        content = sketch.complete([outputs] if isinstance(outputs, int) else outputs)
        return content, sketch.feeds


def make_case(op: str, attributes: Attributes) -> Case:
    return Case(f"{op} {_spell(attributes)}".rstrip(), op, OPS[op].model, attributes)


def _cases(*rows: tuple[str, Attributes]) -> list[Case]:
    return [make_case(op, attributes) for op, attributes in rows]


def _spell(value: Any) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={_spell(item)}" for key, item in value.items())
    if isinstance(value, tuple):
        nested = any(isinstance(item, tuple) for item in value)
        return ("+" if nested else "x").join(map(_spell, value)) + "," * (len(value) == 1) or "()"
    return str(value)


def random_cases(op: str, count: int, seed: int = 0) -> list[Case]:
    """``count`` cases drawn at random among those that LiteRT takes and that have a result."""
    rng = random.Random(f"{op}/{seed}")
    drawn = (make_case(op, OPS[op].draw(rng)) for _ in range(100 * count))
    cases = list(itertools.islice(filter(_has_result, drawn), count))
    assert len(cases) == count, f"LiteRT refuses nearly all that is drawn for {op}"
    return cases


def _has_result(case: Case) -> bool:
    try:
        return all(output.size for output in run_litert(*case.build()))
    except (RuntimeError, ValueError):
        return False


# --- convolutions --------------------------------------------------------------------------------


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
    for kernel, padding in itertools.product(kernels, ("SAME", "VALID")):
        yield dict(kernel=kernel, padding=padding)
    for stride, padding in itertools.product(((2, 2), (3, 3), (1, 2), (3, 1)), ("SAME", "VALID")):
        yield dict(x=(1, 11, 14, 4), stride=stride, padding=padding)
        yield dict(x=(1, 10, 13, 3), kernel=(2, 5), stride=stride, padding=padding)
    for stride in ((2, 2), (3, 2)):
        yield dict(x=(1, 8, 7, 6), kernel=(1, 1), stride=stride)
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
    for x, kernel in (((1, 7, 6, 5), (3, 3)), ((2, 7, 6, 8), (1, 1))):
        yield dict(x=x, kernel=kernel, runtime_weights=True)
        yield dict(x=x, kernel=kernel, runtime_weights=True, stride=(2, 2))


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


def fully_connected(
    s: Sketch,
    op: str,
    x: Dims = (1, 12),
    out: int = 7,
    depth: int | None = None,
    bias: bool = True,
    runtime_weights: bool = False,
    keep_num_dims: bool = False,
    act: str = "NONE",
) -> int:
    """``depth``: length of the reduction; by default the last dimension of ``x``."""
    depth = depth or x[-1]
    weights = s.operand((out, depth), constant=not runtime_weights, scale=3 / np.sqrt(depth))
    inputs = [s.feed(x), weights, s.constant(s.normal((out,))) if bias else NO_INPUT]
    return s.op(op, inputs, keep_num_dims=keep_num_dims, fused_activation_function=act)


def fully_connected_cases() -> Iterator[Attributes]:
    for depth, out in itertools.product((1, 3, 4, 5, 16, 33), (1, 3, 4, 10)):
        yield dict(x=(1, depth), out=out)
    for x in ((3, 12), (12,), (3, 5, 12), (2, 3, 4, 12), (1, 1, 1, 12)):
        yield dict(x=x)
        yield dict(x=x, keep_num_dims=True)
        yield dict(x=x, runtime_weights=True, bias=False)
    yield dict(x=(1, 4, 3, 5), depth=60)
    yield dict(x=(3, 4, 3, 5), depth=60)
    yield dict(x=(2, 4, 3, 5), depth=15)
    yield dict(x=(2, 6), depth=3)
    yield dict(x=(3, 4, 7), depth=28, act="RELU")
    yield dict(bias=False)
    yield dict(x=(0, 5))
    yield dict(x=(1, 1024), out=1001)
    yield dict(x=(3, 1024), out=1001, act="RELU6")
    yield dict(x=(1, 7, 7, 64), depth=3136, out=130)
    for act in ACTIVATIONS:
        yield dict(x=(2, 9), act=act)


def fully_connected_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_dims(rng, rng.randint(1, 4)),
        out=rng.randint(1, 40),
        bias=rng.random() < 0.8,
        runtime_weights=rng.random() < 0.3,
        keep_num_dims=rng.random() < 0.4,
        act=random_activation(rng),
    )


# --- element by element --------------------------------------------------------------------------


def binary(
    s: Sketch,
    op: str,
    a: Dims = (1, 4, 5, 6),
    b: Dims | None = None,
    constant: str = "",
    act: str | None = None,
    special: bool = False,
) -> int:
    """``b=None`` takes ``a`` twice; ``constant`` names the operand that is one: "a" or "b"."""
    if special:
        x = s.feed(values=np.repeat(EXTREMES, len(EXTREMES)))
        y = s.feed(values=np.tile(EXTREMES, len(EXTREMES)))
    else:
        x = s.operand(a, constant=constant == "a")
        y = x if b is None else s.operand(b, constant=constant == "b")
    options: Attributes = {} if act is None else {"fused_activation_function": act}
    return s.op(op, [x, y], **options)


BROADCASTS: tuple[tuple[Dims, Dims], ...] = (
    ((), ()),
    ((5,), (5,)),
    ((5,), (1,)),
    ((5,), ()),
    ((3, 5), (5,)),
    ((3, 5), (3, 1)),
    ((3, 1), (1, 5)),
    ((3, 4, 5), (3, 4, 5)),
    ((3, 4, 5), (5,)),
    ((3, 4, 5), (4, 1)),
    ((3, 4, 5), (3, 1, 5)),
    ((1, 4, 5, 6), (1, 4, 5, 6)),
    ((1, 4, 5, 6), ()),
    ((1, 4, 5, 6), (1,)),
    ((1, 4, 5, 6), (6,)),
    ((1, 4, 5, 6), (1, 1, 1, 6)),
    ((1, 4, 5, 6), (1, 1, 1, 1)),
    ((1, 4, 5, 6), (1, 4, 5, 1)),
    ((1, 4, 5, 6), (1, 4, 1, 6)),
    ((1, 4, 5, 6), (1, 1, 5, 6)),
    ((1, 4, 5, 6), (1, 4, 1, 1)),
    ((1, 4, 5, 6), (5, 6)),
    ((1, 4, 5, 6), (4, 5, 6)),
    ((1, 4, 1, 6), (1, 1, 5, 1)),
    ((1, 4, 5, 8), (8,)),
    ((3, 4, 5, 6), (3, 4, 5, 6)),
    ((3, 4, 5, 6), (1, 4, 5, 6)),
    ((3, 4, 5, 6), (3, 1, 1, 6)),
    ((3, 4, 5, 6), (3, 1, 1, 1)),
    ((3, 1, 5, 1), (1, 4, 1, 6)),
    ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
    ((2, 3, 4, 5, 6), (6,)),
    ((2, 3, 4, 5, 6), ()),
    ((2, 3, 4, 5, 6), (2, 1, 4, 1, 6)),
    ((2, 3, 4, 5, 6), (3, 1, 5, 1)),
    ((2, 1, 4, 1, 6), (3, 1, 5, 1)),
    ((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6)),
    ((2, 1, 3, 1, 2, 3), (1, 2, 1, 3, 1, 3)),
    ((0, 3), (0, 3)),
    ((0, 3), (1, 3)),
)


def binary_cases() -> Iterator[Attributes]:
    for a, b in BROADCASTS:
        yield dict(a=a, b=b)
        if a != b:
            yield dict(a=b, b=a)
        yield dict(a=a, b=b, constant="b")
        yield dict(a=a, b=b, constant="a")
    for a in ((7,), (3, 5, 6, 7)):
        yield dict(a=a, b=None)
    yield dict(a=(1, 33, 31, 5), b=(1, 33, 31, 5))


def binary_act_cases() -> Iterator[Attributes]:
    yield from binary_cases()
    for act in ACTIVATIONS:
        yield dict(b=(1, 4, 5, 6), act=act)
        yield dict(b=(6,), act=act, constant="b")
    yield dict(a=(2, 1, 4, 1, 6), b=(2, 3, 1, 5, 1), act="RELU")


def binary_special_cases() -> Iterator[Attributes]:
    yield from binary_cases()
    yield dict(special=True)


def division_cases() -> Iterator[Attributes]:
    yield from binary_act_cases()
    yield dict(special=True)


def binary_random(rng: random.Random) -> Attributes:
    shape = random_dims(rng, rng.randint(1, 5), 6)

    def operand() -> Dims:
        kept = shape[rng.choice((0, 0, 0, rng.randint(0, len(shape)))) :]
        return tuple(1 if rng.random() < 0.3 else size for size in kept)

    return dict(a=operand(), b=operand(), constant=rng.choice(("", "", "a", "b")))


def binary_act_random(rng: random.Random) -> Attributes:
    return dict(binary_random(rng), act=random_activation(rng))


def unary(
    s: Sketch, op: str, x: Dims = (1, 4, 5, 6), scale: float = 1.0, special: bool = False
) -> int:
    return s.op(op, [s.feed(values=EXTREMES) if special else s.feed(x, scale=scale)])


UNARY_SHAPES: tuple[Dims, ...] = (
    (), (1,), (7,), (1, 1), (3, 5), (2, 3, 4), (1, 4, 5, 8), (3, 4, 5, 7), (1, 32, 33, 3),
    (2, 3, 4, 5, 6), (2, 1, 3, 2, 1, 2), (0, 3), (3, 0),
)  # fmt: skip


def unary_cases() -> Iterator[Attributes]:
    for x in UNARY_SHAPES:
        yield dict(x=x)
    yield dict(x=(2, 5, 4, 3), scale=10.0)
    yield dict(special=True)


def unary_random(rng: random.Random) -> Attributes:
    return dict(x=random_dims(rng, rng.randint(0, 5)), scale=rng.choice((0.1, 1.0, 5.0)))


def prelu(
    s: Sketch,
    op: str,
    x: Dims = (1, 4, 5, 6),
    alpha: Dims = (6,),
    runtime_alpha: bool = False,
    special: bool = False,
) -> int:
    if special:
        return s.op(op, [s.feed(values=EXTREMES), s.constant(np.array([0.5], np.float32))])
    return s.op(op, [s.feed(x), s.operand(alpha, constant=not runtime_alpha)])


def prelu_cases() -> Iterator[Attributes]:
    alphas: tuple[Dims, ...] = (
        (), (1,), (6,), (1, 6), (1, 1, 6), (1, 1, 1), (4, 5, 6), (4, 1, 6), (1, 5, 1), (4, 5, 1),
        (5, 6), (1, 4, 5, 6), (1, 1, 1, 6), (1, 1, 1, 1),
    )  # fmt: skip
    for alpha in alphas:
        yield dict(alpha=alpha)
        yield dict(x=(3, 4, 5, 6), alpha=alpha)
    for x, alpha in (
        ((6,), (6,)),
        ((6,), (1,)),
        ((3, 6), (6,)),
        ((3, 6), (3, 1)),
        ((2, 5, 6), (1, 6)),
        ((2, 5, 6), (2, 1, 1)),
        ((3, 4, 5, 6), (3, 4, 5, 6)),
        ((1, 4, 5, 8), (1, 1, 8)),
        ((2, 3, 4, 5, 6), (6,)),
        ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
        ((2, 3, 4, 5, 6), (3, 1, 1, 6)),
        ((0, 3), (3,)),
    ):
        yield dict(x=x, alpha=alpha)
    yield dict(runtime_alpha=True)
    yield dict(alpha=(4, 5, 6), runtime_alpha=True)
    yield dict(special=True)


def prelu_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 7)
    kept = x[rng.randint(0, len(x) - 1) :]
    alpha = tuple(1 if rng.random() < 0.4 else size for size in kept)
    return dict(x=x, alpha=alpha, runtime_alpha=rng.random() < 0.2)


# --- windows and reductions ----------------------------------------------------------------------


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
    for size, stride, padding in itertools.product(sizes, strides, ("SAME", "VALID")):
        yield dict(size=size, stride=stride, padding=padding)
    for channels in CHANNELS:
        yield dict(x=(1, 7, 7, channels), size=(3, 3), stride=(2, 2))
    yield dict(x=(1, 7, 7, 37), size=(7, 7), padding="VALID")
    yield dict(x=(3, 7, 5, 4), size=(7, 5), stride=(7, 5), padding="VALID")
    yield dict(x=(1, 3, 3, 4), size=(5, 5))
    yield dict(x=(0, 3, 3, 4))
    yield dict(x=(1, 1, 1, 4), size=(2, 2), stride=(2, 2))
    yield dict(x=(3, 6, 7, 5), size=(3, 2), stride=(2, 2))
    yield dict(x=(1, 32, 32, 64), size=(32, 32), padding="VALID")
    for act in ACTIVATIONS:
        yield dict(act=act)


def pool_2d_random(rng: random.Random) -> Attributes:
    return dict(
        x=random_image(rng),
        size=random_dims(rng, 2, 6),
        stride=random_dims(rng, 2, 4),
        padding=rng.choice(("SAME", "VALID")),
        act=random_activation(rng),
    )


def softmax(
    s: Sketch,
    op: str,
    x: Dims = (1, 10),
    beta: float = 1.0,
    scale: float = 1.0,
    offset: float = 0.0,
) -> int:
    return s.op(op, [s.feed(values=s.normal(x, scale) + offset)], beta=beta)


def softmax_cases() -> Iterator[Attributes]:
    for x, beta in itertools.product(((10,), (3, 10), (2, 3, 10), (1, 4, 5, 6)), (0.5, 1.0, 2.0)):
        yield dict(x=x, beta=beta)
    for x in ((1,), (5, 1), (1, 3), (1, 1001), (3, 1001), (1, 3, 3, 130), (3, 5, 4, 3)):
        yield dict(x=x)
    yield dict(x=(1, 64, 64, 2))
    yield dict(x=(2, 3, 4, 5, 6))
    yield dict(x=(0, 3))
    yield dict(x=(2, 4), beta=0.0)
    yield dict(x=(2, 4), beta=-1.0)
    for offset in (500.0, -500.0):
        yield dict(x=(2, 7), scale=30.0, offset=offset)
    yield dict(x=(2, 7), scale=1e4)


def softmax_random(rng: random.Random) -> Attributes:
    return dict(
        x=(*random_dims(rng, rng.randint(0, 3)), rng.choice((1, 2, 5, 17, 64, 129))),
        beta=rng.choice((0.5, 1.0, 1.5)),
        scale=rng.choice((1.0, 10.0)),
    )


def mean(
    s: Sketch,
    op: str,
    x: Dims = (2, 4, 5, 6),
    axes: Dims | int = (1, 2),
    keep_dims: bool = False,
) -> int:
    return s.op(op, [s.feed(x), s.constant(np.asarray(axes, np.int32))], keep_dims=keep_dims)


def mean_cases() -> Iterator[Attributes]:
    for keep_dims in (False, True):
        for x in ((7,), (3, 5), (2, 3, 5), (2, 3, 4, 5), (2, 3, 4, 3, 2)):
            for count in range(1, len(x) + 1):
                for axes in itertools.combinations(range(len(x)), count):
                    yield dict(x=x, axes=axes, keep_dims=keep_dims)
        for order in (-1, 2, (-1,), (-3, -2), (2, 1), (1, -3), (1, 1), (-1, 3, 0)):
            yield dict(axes=order, keep_dims=keep_dims)
        yield dict(axes=(), keep_dims=keep_dims)
        yield dict(x=(), axes=(), keep_dims=keep_dims)
        yield dict(x=(0, 3), axes=(1,), keep_dims=keep_dims)
        yield dict(x=(1, 7, 7, 37), keep_dims=keep_dims)
        yield dict(x=(1, 64, 65, 3), keep_dims=keep_dims)
        yield dict(x=(3, 1, 1, 9), keep_dims=keep_dims)
        yield dict(x=(1, 1000), axes=(1,), keep_dims=keep_dims)


def mean_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 7)
    count = rng.randint(1, len(x))
    axes = tuple(axis - rng.choice((0, len(x))) for axis in rng.sample(range(len(x)), count))
    return dict(x=x, axes=axes, keep_dims=rng.random() < 0.5)


# --- moving data ---------------------------------------------------------------------------------


def concatenation(
    s: Sketch,
    op: str,
    shapes: tuple[Dims, ...],
    axis: int,
    constants: Dims = (),
    twice: bool = False,
    act: str = "NONE",
) -> int:
    """``constants``: positions of constant inputs; ``twice``: the first is also the last."""
    inputs = [s.operand(shape, constant=i in constants) for i, shape in enumerate(shapes)]
    inputs += inputs[:1] if twice else []
    return s.op(op, inputs, axis=axis, fused_activation_function=act)


def concatenation_cases() -> Iterator[Attributes]:
    sizes: Dims = (2, 3, 4, 5, 3)
    for rank in range(1, 6):
        for axis in range(-rank, rank):
            base, position = sizes[:rank], axis % rank
            other = (*base[:position], 7, *base[position + 1 :])
            yield dict(shapes=(base, other), axis=axis)
    for count in range(3, 8):
        yield dict(shapes=tuple((1, 3, 4, channels + 1) for channels in range(count)), axis=3)
    for channels in ((4, 8), (1, 1), (3, 4), (4, 3), (5, 2, 9), (16, 16, 16), (33, 31)):
        yield dict(shapes=tuple((1, 5, 6, depth) for depth in channels), axis=3)
    yield dict(shapes=((3, 5, 6, 4),) * 4, axis=1)
    yield dict(shapes=((1, 19, 19, 12), (1, 10, 19, 12)), axis=1)
    yield dict(shapes=((1, 1083, 4), (1, 600, 4), (1, 150, 4)), axis=1)
    pair = ((1, 3, 4, 5), (1, 3, 4, 2))
    for constants in ((0,), (1,)):
        yield dict(shapes=pair, axis=-1, constants=constants)
    yield dict(shapes=pair + pair, axis=-1, constants=(1, 2))
    yield dict(shapes=((2, 3, 4, 5),), axis=3, twice=True)
    yield dict(shapes=pair, axis=3, twice=True)
    yield dict(shapes=((2, 3, 4, 5),), axis=3)
    yield dict(shapes=((0, 3), (2, 3)), axis=0)
    yield dict(shapes=((0, 3), (0, 3)), axis=1)


def concatenation_random(rng: random.Random) -> Attributes:
    base = random_dims(rng, rng.randint(1, 5), 6)
    axis = rng.randrange(-len(base), len(base))
    position = axis % len(base)
    shapes = tuple(
        (*base[:position], rng.randint(1, 9), *base[position + 1 :])
        for _ in range(rng.randint(2, 6))
    )
    return dict(shapes=shapes, axis=axis, constants=rng.choice(((), (), (0,), (1,))))


def reshape(s: Sketch, op: str, x: Dims, to: Dims, by: str = "tensor") -> int:
    """``by``: the new shape is an input ("tensor"), an option ("option"), or both ("both")."""
    inputs = [s.feed(x)]
    if by != "option":
        inputs.append(s.constant(np.array(to, np.int32)))
    options: Attributes = {} if by == "tensor" else {"new_shape": list(to)}
    return s.op(op, inputs, **options)


def reshape_cases() -> Iterator[Attributes]:
    shapes: tuple[Dims, ...] = ((24,), (4, 6), (2, 3, 4), (1, 2, 3, 4), (2, 2, 1, 3, 2))
    for x, to in itertools.product(shapes, shapes):
        yield dict(x=x, to=to)
    for by in ("tensor", "option", "both"):
        yield dict(x=(2, 3, 4), to=(4, -1), by=by)
        yield dict(x=(2, 3, 4), to=(-1,), by=by)
        yield dict(x=(1, 4, 6, 8), to=(1, 2, 12, 8), by=by)
    yield dict(x=(1, 1), to=())
    yield dict(x=(), to=(1, 1))
    yield dict(x=(), to=(-1,))
    yield dict(x=(1, 7, 5, 3), to=(1, 105))
    yield dict(x=(1, 7, 5, 3), to=(1, 5, 7, 3))
    yield dict(x=(1, 7, 5, 4), to=(35, 4))
    yield dict(x=(1, 4, 4, 15), to=(1, 48, 5))
    yield dict(x=(3, 4, 5, 6), to=(1, 12, 5, 6))
    yield dict(x=(1,), to=(0,), by="option")  # an old way to write a scalar
    yield dict(x=(0, 3), to=(3, -1))
    yield dict(x=(0, 3), to=(0, 5))
    yield dict(x=(1, 3, 2, 2, 3, 2, 1), to=(6, 12))
    yield dict(x=(6, 12), to=(1, 3, 2, 2, 3, 2, 1))


def reshape_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    to = list(x)
    rng.shuffle(to)
    while len(to) > 1 and rng.random() < 0.4:
        to[-2:] = [to[-2] * to[-1]]
    if rng.random() < 0.3:
        to[rng.randrange(len(to))] = -1
    return dict(x=x, to=tuple(to), by=rng.choice(("tensor", "option", "both")))


def pad(s: Sketch, op: str, x: Dims, pads: tuple[Dims, ...], wide: bool = False) -> int:
    """``wide``: the paddings are 64-bit integers."""
    paddings = np.array(pads, np.int64 if wide else np.int32).reshape(len(x), 2)
    return s.op(op, [s.feed(x), s.constant(paddings)])


def pad_cases() -> Iterator[Attributes]:
    x = (2, 3, 4, 5, 3)
    for rank in range(1, 6):
        yield dict(x=x[:rank], pads=((0, 0),) * rank)
        yield dict(x=x[:rank], pads=((1, 2),) * rank)
        for axis in range(rank):
            pads = tuple((2, 1) if i == axis else (0, 0) for i in range(rank))
            yield dict(x=x[:rank], pads=pads)
    yield dict(x=(), pads=())
    yield dict(x=(0, 3), pads=((1, 1), (0, 0)))
    yield dict(x=(0, 3), pads=((0, 0), (1, 1)))
    yield dict(x=(1, 8, 9, 3), pads=((0, 0), (1, 1), (1, 1), (0, 0)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 1), (0, 1), (0, 0)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (0, 12)))
    yield dict(x=(1, 8, 9, 4), pads=((0, 0), (0, 0), (0, 0), (3, 0)))
    yield dict(x=(3, 2, 2, 5), pads=((0, 0), (7, 0), (0, 9), (1, 1)), wide=True)


def pad_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    pads = tuple((rng.randint(0, 3), rng.randint(0, 3)) for _ in x)
    return dict(x=x, pads=pads, wide=rng.random() < 0.2)


def resize_bilinear(
    s: Sketch,
    op: str,
    x: Dims,
    size: Dims,
    align_corners: bool = False,
    half_pixel_centers: bool = False,
) -> int:
    inputs = [s.feed(x), s.constant(np.array(size, np.int32))]
    return s.op(op, inputs, align_corners=align_corners, half_pixel_centers=half_pixel_centers)


RESIZE_MODES: tuple[Attributes, ...] = (
    {},
    {"align_corners": True},
    {"half_pixel_centers": True},
)


def resize_bilinear_cases() -> Iterator[Attributes]:
    for x, size in (
        ((1, 4, 5, 3), (8, 10)),
        ((1, 4, 5, 4), (12, 15)),
        ((1, 4, 5, 3), (7, 9)),
        ((1, 9, 11, 5), (4, 5)),
        ((1, 8, 8, 4), (4, 4)),
        ((1, 9, 11, 5), (3, 17)),
        ((1, 4, 5, 3), (4, 5)),
        ((1, 6, 7, 2), (1, 1)),
        ((1, 1, 1, 5), (4, 3)),
        ((1, 1, 6, 8), (5, 6)),
        ((3, 5, 4, 7), (11, 6)),
        ((1, 33, 33, 21), (65, 65)),
        ((1, 17, 13, 1), (10, 29)),
        ((0, 4, 5, 1), (3, 3)),
    ):
        for mode in RESIZE_MODES:
            yield dict(x=x, size=size, **mode)


def resize_bilinear_random(rng: random.Random) -> Attributes:
    return dict(x=random_image(rng), size=random_dims(rng, 2, 24), **rng.choice(RESIZE_MODES))


def depth_to_space(s: Sketch, op: str, x: Dims, block: int) -> int:
    return s.op(op, [s.feed(x)], block_size=block)


def depth_to_space_cases() -> Iterator[Attributes]:
    for block, depth in itertools.product((1, 2, 3, 4), (1, 3, 4, 5)):
        yield dict(x=(1, 3, 4, depth * block * block), block=block)
    yield dict(x=(3, 5, 2, 12), block=2)
    yield dict(x=(1, 1, 1, 16), block=4)
    yield dict(x=(0, 2, 2, 8), block=2)


def depth_to_space_random(rng: random.Random) -> Attributes:
    block = rng.randint(2, 4)
    batch, height, width, depth = random_image(rng, channels=9)
    return dict(x=(batch, height, width, depth * block * block), block=block)


# --- several ops ---------------------------------------------------------------------------------


def graph(s: Sketch, op: str, of: str = "random", seed: int = 0) -> int | Sequence[int]:
    return random_graph(s, seed) if of == "random" else GRAPHS[of](s)


def graph_cases() -> Iterator[Attributes]:
    return ({"of": name} for name in GRAPHS)


def graph_random(rng: random.Random) -> Attributes:
    return {"seed": rng.randrange(1_000_000)}


OPS = {
    "CONV_2D": Op(conv_2d, conv_2d_cases, conv_2d_random),
    "DEPTHWISE_CONV_2D": Op(depthwise_conv_2d, depthwise_conv_2d_cases, depthwise_conv_2d_random),
    "FULLY_CONNECTED": Op(fully_connected, fully_connected_cases, fully_connected_random),
    **{op: Op(binary, binary_act_cases, binary_act_random) for op in ("ADD", "SUB", "MUL")},
    "DIV": Op(binary, division_cases, binary_act_random),
    **{op: Op(binary, binary_special_cases, binary_random) for op in ("MAXIMUM", "MINIMUM")},
    **{op: Op(pool_2d, pool_2d_cases, pool_2d_random) for op in ("AVERAGE_POOL_2D", "MAX_POOL_2D")},
    "CONCATENATION": Op(concatenation, concatenation_cases, concatenation_random),
    "RESHAPE": Op(reshape, reshape_cases, reshape_random),
    "PAD": Op(pad, pad_cases, pad_random),
    "PRELU": Op(prelu, prelu_cases, prelu_random),
    **{
        op: Op(unary, unary_cases, unary_random)
        for op in ("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "EXP")
    },
    "SOFTMAX": Op(softmax, softmax_cases, softmax_random),
    "RESIZE_BILINEAR": Op(resize_bilinear, resize_bilinear_cases, resize_bilinear_random),
    "MEAN": Op(mean, mean_cases, mean_random),
    "DEPTH_TO_SPACE": Op(depth_to_space, depth_to_space_cases, depth_to_space_random),
    **ops_elementwise.OPS,
    **ops_movement.OPS,
    **ops_compute.OPS,
    "GRAPH": Op(graph, graph_cases, graph_random),
}

CASES = [make_case(op, attributes) for op in OPS for attributes in OPS[op].fixed()]

# LiteRT runs these, and the delegate leaves them to it: there a fused TANH is ignored, a window
# far larger than the image gives an empty result, and the mean of nothing is NaN.
LEFT_TO_LITERT = _cases(
    *((op, dict(act="TANH")) for op in ("CONV_2D", "DEPTHWISE_CONV_2D", "AVERAGE_POOL_2D")),
    *((op, dict(b=(6,), act="TANH")) for op in ("ADD", "SUB", "MUL", "DIV")),
    ("CONV_2D", dict(x=(1, 6, 7, 4), groups=2, out=6, runtime_weights=True)),
    ("MAX_POOL_2D", dict(x=(1, 3, 3, 4), size=(5, 5), padding="VALID")),
    ("MEAN", dict(x=(0, 3), axes=(0,))),
    *ops_elementwise.LEFT_TO_LITERT,
    *ops_movement.LEFT_TO_LITERT,
    *ops_compute.LEFT_TO_LITERT,
)

# Denormals and the signs of zero, which GLSL leaves to the driver; Mesa keeps them.
LEFT_TO_THE_DRIVER = {
    "RSQRT special=1 span=1e-38x3e+38",
    "LOG special=1 span=1e-38x3e+38",
    "POW special=2 dtype=float32",
    "ATAN2 special=2",
}

LITERT_REFUSES = _cases(
    ("CONV_2D", dict(bias=False)),
    ("CONV_2D", dict(stride=(0, 1))),
    ("CONV_2D", dict(x=(1, 4, 4, 4), groups=2, out=3)),
    ("DEPTHWISE_CONV_2D", dict(stride=(1, 0))),
    ("FULLY_CONNECTED", dict(act="TANH")),
    ("FULLY_CONNECTED", dict(x=(2, 6), depth=3, keep_num_dims=True)),
    ("ADD", dict(a=(2, 3), b=(3, 2))),
    ("PRELU", dict(x=(6,), alpha=(2, 6))),
    ("SOFTMAX", dict(x=())),
    ("MEAN", dict(axes=(4,))),
    ("CONCATENATION", dict(shapes=((2, 3), (2, 3)), axis=2)),
    ("CONCATENATION", dict(shapes=((2, 3), (2, 3)), axis=1, act="RELU")),
    ("RESHAPE", dict(x=(2, 3), to=(4,))),
    ("RESHAPE", dict(x=(2, 3), to=(-1, -1))),
    ("RESHAPE", dict(x=(2, 3), to=(2, 0))),
    ("PAD", dict(x=(2,) * 6, pads=((1, 1),) * 6)),
    ("PAD", dict(x=(4,), pads=((-1, 0),))),
    ("RESIZE_BILINEAR", dict(x=(1, 4, 5, 3), size=(0, 3))),
    (
        "RESIZE_BILINEAR",
        dict(x=(1, 4, 5, 3), size=(8, 9), align_corners=True, half_pixel_centers=True),
    ),
    ("DEPTH_TO_SPACE", dict(x=(1, 2, 2, 6), block=2)),
    *ops_elementwise.LITERT_REFUSES,
    *ops_movement.LITERT_REFUSES,
    *ops_compute.LITERT_REFUSES,
)
