"""Convolutions of volumes."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    ACTIVATIONS,
    Attributes,
    Cases,
    Op,
    each,
    random_activation,
    random_dims,
)
from tests.support.sketch import Dims, Sketch

ONES = (1, 1, 1)


def conv_3d(
    s: Sketch,
    op: str,
    x: Dims = (1, 5, 6, 7, 3),
    out: int = 5,
    kernel: Dims = (3, 3, 3),
    stride: Dims = ONES,
    dilation: Dims = ONES,
    padding: str = "SAME",
    act: str = "NONE",
    bias: bool = True,
    runtime_weights: bool = False,
) -> int:
    """``x``: of the transposed one, the shape of the output, which has ``out`` channels instead."""
    transposed = op.endswith("TRANSPOSE")
    channels = (out, x[4]) if transposed else (x[4], out)
    scale = 3 / np.sqrt(x[4] * np.prod(kernel))
    weights = s.operand((*kernel, *channels), constant=not runtime_weights, scale=scale)
    biases = [s.constant(s.normal((out,)))] * bias
    if transposed:
        spans = [(size - 1) * step + 1 for size, step in zip(kernel, dilation, strict=True)]
        sizes = [
            -(-size // step) if padding == "SAME" else (size + step - span) // step
            for size, step, span in zip(x[1:4], stride, spans, strict=True)
        ]
        shape = s.constant(np.int32([*x[:4], out]))
        nodes = [shape, weights, s.feed((x[0], *sizes, x[4])), *biases]
    else:
        nodes = [s.feed(x), weights, *biases]
    return s.op(
        op, nodes, [s.tensor()], padding=padding, fused_activation_function=act,
        **{f"stride_{axis}": step for axis, step in zip("dhw", stride, strict=True)},
        **{f"dilation_{axis}_factor": step for axis, step in zip("dhw", dilation, strict=True)},
    )  # fmt: skip


def conv_3d_cases() -> Iterator[Attributes]:
    kernels = (ONES, (3, 3, 3), (1, 2, 3), (4, 1, 2), (2, 5, 1))
    strides = (ONES, (2, 2, 2), (1, 2, 3), (3, 1, 2))
    yield from each(kernel=kernels, stride=strides, padding=("SAME", "VALID"))
    for dilation, padding in itertools.product(((2, 2, 2), (1, 2, 3)), ("SAME", "VALID")):
        yield dict(x=(1, 7, 7, 8, 4), kernel=(2, 3, 2), dilation=dilation, padding=padding)
        yield dict(kernel=(2, 2, 2), dilation=dilation, stride=(2, 1, 1), padding=padding)
    for channels, out in itertools.product((1, 4, 5, 8), repeat=2):
        yield dict(x=(2, 3, 4, 5, channels), out=out, kernel=(2, 2, 2))
    yield from each(act=ACTIVATIONS)
    for bias in (False, True):
        yield dict(bias=bias)
        yield dict(bias=bias, runtime_weights=True)
    yield dict(x=(2, 3, 4, 5, 8), out=4, kernel=(2, 1, 3), runtime_weights=True)
    yield dict(x=(3, 1, 1, 1, 2))
    yield dict(x=(1, 2, 3, 17, 6), out=9)
    yield dict(x=(1, 3, 1, 9, 2), out=18, kernel=(2, 1, 2))
    yield dict(x=(0, 3, 4, 5, 2))


def conv_3d_random(rng: random.Random) -> Attributes:
    return dict(
        x=(*random_dims(rng, 4, 6), rng.randint(1, 9)),
        out=rng.randint(1, 9),
        kernel=random_dims(rng, 3, 3),
        stride=random_dims(rng, 3, 3),
        runtime_weights=rng.random() < 0.2,
        act=random_activation(rng),
    )


VOLUMES = ("CONV_3D", "CONV_3D_TRANSPOSE")

OPS: dict[str, Op] = {op: Op(conv_3d, conv_3d_cases, conv_3d_random) for op in VOLUMES}

LITERT_REFUSES: Cases = (
    *((op, dict(stride=(0, 1, 1))) for op in VOLUMES[:1]),
    *((op, dict(dilation=(1, 0, 1))) for op in VOLUMES[:1]),
)
