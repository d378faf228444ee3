"""Element-wise ops on floats: operands that broadcast, constants, extreme values."""

import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import (
    ACTIVATIONS,
    EXTREMES,
    Attributes,
    Cases,
    Op,
    each,
    random_activation,
    random_dims,
)
from tests.support.sketch import Dims, Sketch


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
    ((), ()), ((5,), (5,)), ((5,), (1,)), ((5,), ()), ((3, 5), (5,)), ((3, 5), (3, 1)),
    ((3, 1), (1, 5)), ((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (5,)), ((3, 4, 5), (4, 1)),
    ((3, 4, 5), (3, 1, 5)), ((1, 4, 5, 6), (1, 4, 5, 6)), ((1, 4, 5, 6), ()), ((1, 4, 5, 6), (1,)),
    ((1, 4, 5, 6), (6,)), ((1, 4, 5, 6), (1, 1, 1, 6)), ((1, 4, 5, 6), (1, 1, 1, 1)),
    ((1, 4, 5, 6), (1, 4, 5, 1)), ((1, 4, 5, 6), (1, 4, 1, 6)), ((1, 4, 5, 6), (1, 1, 5, 6)),
    ((1, 4, 5, 6), (1, 4, 1, 1)), ((1, 4, 5, 6), (5, 6)), ((1, 4, 5, 6), (4, 5, 6)),
    ((1, 4, 1, 6), (1, 1, 5, 1)), ((1, 4, 5, 8), (8,)), ((3, 4, 5, 6), (3, 4, 5, 6)),
    ((3, 4, 5, 6), (1, 4, 5, 6)), ((3, 4, 5, 6), (3, 1, 1, 6)), ((3, 4, 5, 6), (3, 1, 1, 1)),
    ((3, 1, 5, 1), (1, 4, 1, 6)), ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)), ((2, 3, 4, 5, 6), (6,)),
    ((2, 3, 4, 5, 6), ()), ((2, 3, 4, 5, 6), (2, 1, 4, 1, 6)), ((2, 3, 4, 5, 6), (3, 1, 5, 1)),
    ((2, 1, 4, 1, 6), (3, 1, 5, 1)), ((1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6)),
    ((2, 1, 3, 1, 2, 3), (1, 2, 1, 3, 1, 3)), ((0, 3), (0, 3)), ((0, 3), (1, 3)),
)  # fmt: skip


def binary_cases() -> Iterator[Attributes]:
    for a, b in BROADCASTS:
        yield dict(a=a, b=b)
        if a != b:
            yield dict(a=b, b=a)
        yield from each(dict(a=a, b=b), constant=("b", "a"))
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
    yield from each(x=UNARY_SHAPES)
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
        ((6,), (6,)), ((6,), (1,)), ((3, 6), (6,)), ((3, 6), (3, 1)), ((2, 5, 6), (1, 6)),
        ((2, 5, 6), (2, 1, 1)), ((3, 4, 5, 6), (3, 4, 5, 6)), ((1, 4, 5, 8), (1, 1, 8)),
        ((2, 3, 4, 5, 6), (6,)), ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
        ((2, 3, 4, 5, 6), (3, 1, 1, 6)), ((0, 3), (3,)),
    ):  # fmt: skip
        yield dict(x=x, alpha=alpha)
    yield dict(runtime_alpha=True)
    yield dict(alpha=(4, 5, 6), runtime_alpha=True)
    yield dict(special=True)


def prelu_random(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4), 7)
    kept = x[rng.randint(0, len(x) - 1) :]
    alpha = tuple(1 if rng.random() < 0.4 else size for size in kept)
    return dict(x=x, alpha=alpha, runtime_alpha=rng.random() < 0.2)


OPS: dict[str, Op] = {
    **{op: Op(binary, binary_act_cases, binary_act_random) for op in ("ADD", "SUB", "MUL")},
    "DIV": Op(binary, division_cases, binary_act_random),
    **{op: Op(binary, binary_special_cases, binary_random) for op in ("MAXIMUM", "MINIMUM")},
    "PRELU": Op(prelu, prelu_cases, prelu_random),
    **{
        op: Op(unary, unary_cases, unary_random)
        for op in ("RELU", "RELU6", "RELU_N1_TO_1", "LOGISTIC", "TANH", "EXP")
    },
}

# LiteRT ignores a fused TANH.
LEFT_TO_LITERT: Cases = (*((op, dict(b=(6,), act="TANH")) for op in ("ADD", "SUB", "MUL", "DIV")),)
LITERT_REFUSES: Cases = (("ADD", dict(a=(2, 3), b=(3, 2))), ("PRELU", dict(x=(6,), alpha=(2, 6))))
