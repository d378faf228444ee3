"""Element-wise ops on every type.

A row "ADD (8-bit)" has the quantized cases of ADD, and "ADD (int32)" the integer cases.
"""

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tests.op_table.base import ACTIVATIONS, Attributes, Op, each, random_dims
from tests.op_table.elements import COMPARISONS, Shapes, add_n, elementwise
from tests.support.sketch import Dims

SHAPES: Shapes = (
    (), (1,), (7,), (1, 1), (3, 5), (2, 3, 4), (1, 4, 5, 8), (3, 4, 5, 7), (1, 17, 19, 3),
    (2, 3, 4, 5, 6), (2, 1, 3, 2, 1, 2), (0, 3), (3, 0),
)  # fmt: skip

PAIRS: tuple[Shapes, ...] = (
    ((), ()), ((5,), (5,)), ((5,), (1,)), ((3, 5), ()), ((3, 5), (3, 1)), ((3, 1), (1, 5)),
    ((3, 4, 5), (4, 1)), ((1, 4, 5, 6), (1, 4, 5, 6)), ((1, 4, 5, 6), (6,)),
    ((1, 4, 5, 8), (1, 1, 1, 8)), ((1, 4, 5, 6), (1, 4, 5, 1)), ((3, 4, 5, 6), (1, 4, 5, 6)),
    ((3, 4, 5, 6), (3, 1, 1, 6)), ((3, 1, 5, 1), (1, 4, 1, 6)), ((2, 3, 4, 5, 6), (2, 3, 4, 5, 6)),
    ((2, 1, 4, 1, 6), (3, 1, 5, 1)), ((0, 3), (1, 3)),
)  # fmt: skip

SAME_TRIPLES: tuple[Shapes, ...] = tuple((x, x, x) for x in SHAPES)

ROW_TRIPLES: tuple[Shapes, ...] = tuple(
    (condition, x, x)
    for x in ((1, 5), (3, 5), (4, 3), (5, 2, 3), (3, 4, 5, 7), (2, 3, 4, 5, 6), (0, 3))
    for condition in ((), x[:1])
)

BROADCAST_TRIPLES: tuple[Shapes, ...] = (
    ((), (3, 5), (3, 5)), ((1,), (1, 1), ()), ((5,), (3, 5), ()), ((3, 1), (1, 5), (3, 5)),
    ((3, 1), (1, 5), ()), ((1, 4, 5, 1), (1, 4, 5, 6), (6,)),
    ((3, 1, 1, 6), (4, 5, 1), (3, 4, 5, 6)), ((1, 4, 1, 1), (1, 1, 5, 1), (3, 1, 1, 7)),
    ((2, 1, 4, 1, 1), (3, 1, 5, 1), (6,)), ((0, 3), (1, 3), ()),
)  # fmt: skip

TYPES = ("float32", "int32", "bool", "int8", "uint8", "int16", "int64")
FLOAT, NUMBER, BIT = ("float32",), ("float32", "int32"), ("bool",)
INTEGER, WIDE, SHORT = ("int32",), ("int64",), ("int16",)
INT8, BYTE = ("int8",), ("int8", "uint8")
RESCALED, ALIKE = (0.05, 0.031, 0.07), (0.05, 0.05, 0.05)
FINER = (0.0005, 0.00031, 0.0007)


@dataclass(frozen=True)
class Row:
    """The cases of an op of one or two operands.

    Attributes:
        special: Cases of extreme values, for each of `choices`.
        choices: The options of the op.
        scales: The operands and the output are quantized so.
    """

    arity: int
    dtypes: tuple[str, ...]
    special: tuple[Attributes, ...] = ()
    choices: tuple[Attributes, ...] = ({},)
    scales: tuple[float, ...] = ()

    @property
    def simple(self) -> Attributes:
        quantized: Attributes = {"scales": self.scales} if self.scales else {}
        return dict(x=((3, 5),) * self.arity, dtype=self.dtypes[0], **quantized)

    def cases(self) -> Iterator[Attributes]:
        for options in self.choices:
            for case in self.special:
                yield dict(case, **options)
            if options and not (self.arity == 1 and options == self.choices[-1]):
                yield dict(self.simple, **options)
        yield dict(self.simple, past_newest=0)
        for dtype, case in itertools.product(self.dtypes, self._shapes()):
            yield dict(self.simple, **{"dtype": dtype, **self.choices[-1], **case})

    def _shapes(self) -> Iterable[Attributes]:
        if self.arity == 1:
            yield from ({"x": (shape,)} for shape in SHAPES)
            return
        for a, b in PAIRS:
            yield dict(x=(a, b))
            if a != b:
                yield dict(x=(b, a))
                yield dict(x=(a, b), constant=(len(b) % 2,))
        yield from each(dict(x=((3, 5, 6, 7),) * 2), constant=((0,), (1,)))

    def draw(self, rng: random.Random) -> Attributes:
        case = drawn(rng, self.arity, self.dtypes) | rng.choice(self.choices)
        if len(set(self.scales)) > 1:
            case["scales"] = tuple(rng.choice((0.004, 0.02, 0.05, 0.1)) for _ in range(3))
        elif self.scales:
            case["scales"] = self.scales
        return case


def ternary_cases(triples: tuple[Shapes, ...]) -> Iterator[Attributes]:
    for dtype in TYPES:
        for x in triples:
            yield dict(x=x, dtype=dtype)
        for constant in ((0,), (1,), (2,), (1, 2), (0, 2)):
            yield dict(x=triples[5], dtype=dtype, constant=constant)
    yield dict(x=triples[5], past_newest=0)


def cast_cases() -> Iterator[Attributes]:
    for dtype, out in itertools.product((*TYPES, "float16"), repeat=2):
        for shape in ((), (7,), (3, 4, 5, 7), (2, 3, 4, 5, 8), (0, 3)):
            yield dict(x=(shape,), dtype=dtype, out=out)
        if dtype in ("float32", "int32") and out != "int64":
            yield dict(dtype=dtype, out=out, special=1)
    yield dict(x=((3, 5),), out="int32", past_newest=0)


def add_n_cases() -> Iterator[Attributes]:
    for dtype, count in itertools.product(("float32", "int32"), (2, 3, 4, 7)):
        for x in ((), (5,), (3, 4, 5, 7), (2, 3, 4, 5, 6), (0, 3)):
            yield dict(count=count, x=x, dtype=dtype)
    yield dict(count=3, past_newest=0)


def prelu_cases() -> Iterator[Attributes]:
    for dtype, (x, alpha) in itertools.product(BYTE, PAIRS):
        if np.broadcast_shapes(x, alpha) == x:
            for constant in ((), (1,)):
                yield dict(x=(x, alpha), dtype=dtype, constant=constant, scales=RESCALED)


def atan2_cases() -> Iterator[Attributes]:
    for x in SHAPES:
        yield dict(x=(x, x))
        yield dict(x=(x, x), constant=(1,))
    yield dict(special=2)
    yield dict(x=((3, 5), (3, 5)), past_newest=0)


def fake_quant_cases() -> Iterator[Attributes]:
    for options in FAKE_QUANTS:
        yield dict(options, x=((5, 9),))
        yield dict(options, special=1)
        yield dict(options, special=1, span=(-10, 10))
    for x in SHAPES:
        yield dict(FAKE_QUANTS[-1], x=(x,))
    yield dict(FAKE_QUANTS[-1], x=((3, 5),), past_newest=0)


def drawn_fake_quant(rng: random.Random) -> Attributes:
    return dict(drawn(rng, 1, FLOAT), **rng.choice(FAKE_QUANTS))


def drawn(rng: random.Random, arity: int, dtypes: tuple[str, ...]) -> Attributes:
    shape = random_dims(rng, rng.randint(1, 5), 7)

    def operand() -> Dims:
        kept = shape[rng.choice((0, 0, rng.randint(0, len(shape)))) :]
        return tuple(1 if rng.random() < 0.3 else size for size in kept)

    x = (shape,) if arity == 1 else tuple(operand() for _ in range(arity))
    constant = tuple(i for i in range(1, arity) if rng.random() < 0.2)
    return dict(x=x, dtype=rng.choice(dtypes), constant=constant)


def drawn_cast(rng: random.Random) -> Attributes:
    return dict(drawn(rng, 1, TYPES), out=rng.choice(TYPES))


def drawn_add_n(rng: random.Random) -> Attributes:
    dtype = rng.choice(("float32", "int32"))
    return dict(count=rng.randint(2, 6), x=random_dims(rng, rng.randint(0, 5)), dtype=dtype)


def drawn_atan2(rng: random.Random) -> Attributes:
    return dict(x=(random_dims(rng, rng.randint(0, 5)),) * 2)


def drawn_prelu(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 4))
    return dict(x=(x, x[rng.randrange(len(x)) :]), dtype=rng.choice(BYTE), scales=RESCALED)


def drawn_select(rng: random.Random) -> Attributes:
    x = random_dims(rng, rng.randint(1, 5), 6)
    return dict(x=(rng.choice(((), x[:1], x)), x, x), dtype=rng.choice(TYPES))


def extreme(arity: int, *dtypes: str, **how: Any) -> tuple[Attributes, ...]:
    return tuple(dict(special=arity, dtype=dtype, **how) for dtype in dtypes)


def spanning(low: float, high: float) -> Attributes:
    return dict(special=1, span=(low, high))


TURNS = (
    *(spanning(*span) for span in ((-500, 500), (1e3, 1e8), (1e3, 3.4e38), (-3.4e38, -1e3))),
    *extreme(1, *FLOAT),
)

MAGNITUDES = (spanning(1e-38, 3e38), *extreme(1, *FLOAT))
QUOTIENTS = extreme(2, *INTEGER, without=(0, -(2**31)))  # the rest stop LiteRT, or its process
ACTS = tuple({"fused_activation_function": act} for act in (*ACTIVATIONS, "NONE"))

# GLSL compilers may take 0 times infinity for 0.
ALPHAS: tuple[Attributes, ...] = (
    {"alpha": 0.0, "without": (-np.inf,)},
    *({"alpha": alpha} for alpha in (1.0, 1.5, -0.5, 0.2)),
)

FAKE_QUANTS: tuple[Attributes, ...] = tuple(
    {"min": low, "max": high, "num_bits": bits, "narrow_range": False}
    for low, high, bits in (
        *((-6.0, 6.0, 16), (0.0, 6.0, 4), (-3.0, 0.0, 8), (-0.1, 5.0, 2), (-1.7, 2.3, 5)),
        (-1.3, 2.9, 8),
    )
)

VARIANTS: tuple[Attributes, ...] = ({"approximate": True}, {"approximate": False})

ROWS = {
    "ABS": Row(1, NUMBER, extreme(1, *NUMBER)),
    "NEG": Row(1, NUMBER, extreme(1, *NUMBER)),
    "SIGN": Row(1, NUMBER, extreme(1, *NUMBER)),
    "SIN": Row(1, FLOAT, TURNS),
    "COS": Row(1, FLOAT, TURNS),
    "SQRT": Row(1, FLOAT, MAGNITUDES),
    "RSQRT": Row(1, FLOAT, MAGNITUDES),
    "LOG": Row(1, FLOAT, (*MAGNITUDES, spanning(0.999, 1.001))),
    "SQUARE": Row(1, FLOAT, extreme(1, *FLOAT)),
    "FLOOR": Row(1, FLOAT, (*extreme(1, *FLOAT), spanning(-10, 10))),
    "CEIL": Row(1, FLOAT, (*extreme(1, *FLOAT), spanning(-10, 10))),
    "ROUND": Row(1, FLOAT, (*extreme(1, *FLOAT), spanning(-10, 10))),
    "ELU": Row(1, FLOAT, (*extreme(1, *FLOAT), spanning(-20, 20))),
    "GELU": Row(1, FLOAT, (*extreme(1, *FLOAT), spanning(-20, 20)), VARIANTS),
    "HARD_SWISH": Row(1, FLOAT, extreme(1, *FLOAT)),
    "LEAKY_RELU": Row(1, FLOAT, extreme(1, *FLOAT), ALPHAS),
    "RELU_0_TO_1": Row(1, FLOAT, extreme(1, *FLOAT)),
    "LOGICAL_NOT": Row(1, BIT),
    "BITWISE_XOR": Row(2, (*INTEGER, *BYTE), extreme(2, *INTEGER)),
    "RIGHT_SHIFT": Row(2, (*INTEGER, *BYTE), extreme(2, *INTEGER)),
    "POW": Row(2, NUMBER, extreme(2, *FLOAT)),
    "SQUARED_DIFFERENCE": Row(2, NUMBER, extreme(2, *NUMBER)),
    "FLOOR_DIV": Row(2, NUMBER, (*extreme(2, *FLOAT, without=(0.0,)), *QUOTIENTS)),
    "FLOOR_MOD": Row(2, NUMBER, (*extreme(2, *FLOAT), *QUOTIENTS)),
    "EQUAL": Row(2, (*NUMBER, *BIT), extreme(2, *NUMBER)),
    "NOT_EQUAL": Row(2, (*NUMBER, *BIT), extreme(2, *NUMBER)),
    **{op: Row(2, NUMBER, extreme(2, *NUMBER)) for op in COMPARISONS[2:]},
    "LOGICAL_AND": Row(2, BIT),
    "LOGICAL_OR": Row(2, BIT),
    **{
        f"{op} (int32)": Row(2, INTEGER, extreme(2, *INTEGER), ACTS) for op in ("ADD", "SUB", "MUL")
    },
    "DIV (int32)": Row(2, INTEGER, QUOTIENTS, ACTS),
    **{f"{op} (int64)": Row(2, WIDE) for op in ("ADD", "SUB", "MUL", *COMPARISONS)},
    **{f"{op} (int64)": Row(2, WIDE) for op in ("MAXIMUM", "MINIMUM")},
    **{
        f"{op} (int16)": Row(2, SHORT)
        for op in ("MAXIMUM", "MINIMUM", "RIGHT_SHIFT", "BITWISE_XOR")
    },
    **{f"{op} (16-bit)": Row(2, SHORT, choices=ACTS, scales=FINER) for op in ("ADD", "SUB", "MUL")},
    **{f"{op} (16-bit)": Row(2, SHORT, scales=FINER) for op in COMPARISONS[:2]},
    **{f"{op} (16-bit)": Row(2, SHORT, scales=(0.0005,) * 3) for op in COMPARISONS[2:]},
    **{f"{op} (16-bit)": Row(2, SHORT, scales=(0.0005,) * 3) for op in ("MAXIMUM", "MINIMUM")},
    **{
        f"{op} (16-bit)": Row(1, SHORT, scales=FINER)
        for op in (*("RELU", "RELU6", "LOGISTIC", "TANH", "ABS", "SQRT", "EXP", "LOG", "RSQRT"),)
    },
    "GELU (16-bit)": Row(1, SHORT, choices=VARIANTS, scales=FINER),
    "LEAKY_RELU (16-bit)": Row(1, SHORT, choices=ALPHAS, scales=FINER),
    "MAXIMUM (int32)": Row(2, (*INTEGER, *BYTE), extreme(2, *INTEGER)),
    "MINIMUM (int32)": Row(2, (*INTEGER, *BYTE), extreme(2, *INTEGER)),
    **{
        f"{op} (8-bit)": Row(2, BYTE, choices=ACTS, scales=RESCALED)
        for op in ("ADD", "SUB", "MUL", "DIV")
    },
    "MAXIMUM (8-bit)": Row(2, BYTE, scales=ALIKE),
    "MINIMUM (8-bit)": Row(2, BYTE, scales=ALIKE),
    "SQUARED_DIFFERENCE (8-bit)": Row(2, INT8, scales=RESCALED),
    **{f"{op} (8-bit)": Row(2, BYTE, scales=RESCALED) for op in COMPARISONS},
    **{
        f"{op} (8-bit)": Row(1, BYTE, scales=RESCALED)
        for op in (
            *("RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1", "HARD_SWISH", "LOGISTIC", "TANH"),
        )
    },
    **{
        f"{op} (8-bit)": Row(1, INT8, scales=RESCALED)
        for op in ("ABS", "SQRT", "RSQRT", "LOG", "EXP", "ELU")
    },
    "GELU (8-bit)": Row(1, BYTE, choices=VARIANTS, scales=RESCALED),
    "LEAKY_RELU (8-bit)": Row(1, BYTE, choices=ALPHAS, scales=RESCALED),
}

OPS: dict[str, Op] = {name: Op(elementwise, row.cases, row.draw) for name, row in ROWS.items()}
OPS |= {
    "ATAN2": Op(elementwise, atan2_cases, drawn_atan2),
    "SELECT": Op(elementwise, partial(ternary_cases, SAME_TRIPLES + ROW_TRIPLES), drawn_select),
    "SELECT_V2": Op(
        elementwise,
        partial(ternary_cases, SAME_TRIPLES + BROADCAST_TRIPLES),
        partial(drawn, arity=3, dtypes=TYPES),
    ),
    "FAKE_QUANT": Op(elementwise, fake_quant_cases, drawn_fake_quant),
    "CAST": Op(elementwise, cast_cases, drawn_cast),
    "PRELU (8-bit)": Op(elementwise, prelu_cases, drawn_prelu),
    "ADD_N": Op(add_n, add_n_cases, drawn_add_n),
}


# LiteRT applies these ops to the stored integers, whatever real numbers they stand for.
LEFT_TO_LITERT: tuple[tuple[str, Attributes], ...] = (
    *((op, dict(x=((3, 5),), dtype="int8", scales=RESCALED)) for op in ("NEG", "CAST")),
    ("FAKE_QUANT", dict(x=((3, 5),), min=1.0, max=2.0, num_bits=8)),
    *(
        (op, dict(x=((3, 5), (3, 5)), dtype="int8", scales=RESCALED))
        for op in (
            *("FLOOR_DIV", "FLOOR_MOD", "MAXIMUM (8-bit)", "MINIMUM (8-bit)", "BITWISE_XOR"),
        )
    ),
    ("ADD (int32)", dict(x=((3, 5), (3, 5)), dtype="int32", fused_activation_function="TANH")),
    ("LESS", dict(x=((3, 5), (3, 5)), dtype="int16", scales=FINER)),
    # LiteRT gives these another type than the model declares.
    *((op, dict(x=((3, 5), (3, 5)), out="int32")) for op in COMPARISONS),
    ("LOGICAL_AND", dict(x=((3, 5), (3, 5)), dtype="bool", out="int32")),
    ("ADD (int32)", dict(x=((3, 5), (3, 5)), dtype="int32", out="bool")),
)

LITERT_REFUSES: tuple[tuple[str, Attributes], ...] = (
    *((op, dict(row.simple, past_newest=1)) for op, row in ROWS.items()),
    *(
        (op, dict(x=((3, 5),) * count, past_newest=1))
        for op, count in (("ATAN2", 2), ("SELECT", 3), ("SELECT_V2", 3), ("CAST", 1))
    ),
    ("ADD_N", dict(count=3, past_newest=1)),
    ("ADD_N", dict(count=1)),
    ("ATAN2", dict(x=((3, 5), (5,)))),
    ("SQUARE", dict(x=((3, 5),), dtype="int32")),
    ("FAKE_QUANT", dict(FAKE_QUANTS[0], x=((3, 5),), narrow_range=True)),
    ("FAKE_QUANT", dict(FAKE_QUANTS[0], x=((3, 5),), past_newest=1)),
    ("SIN", dict(x=((3, 5),), dtype="int32")),
    ("SELECT", dict(x=((3, 1), (3, 5), (3, 5)))),
    ("SELECT", dict(x=((3, 5), (3, 5), (1, 5)))),
    ("SELECT", dict(x=((), (3, 5), (1, 5)))),
    ("SELECT_V2", dict(x=((2,), (3, 5), (3, 5)))),
    ("EQUAL", dict(x=((2, 3), (3, 2)))),
)
