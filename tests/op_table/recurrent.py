"""Recurrent layers."""

import itertools
import random
from collections.abc import Iterator

import numpy as np

from tests.op_table.base import Attributes, Cases, Op, each, random_dims
from tests.support.sketch import Dims, Sketch
from tests.support.tflite_builder import NO_INPUT, quantization

ACTIVATIONS = ("RELU", "RELU_N1_TO_1", "RELU6", "TANH")
FEATURES = ("cifg", "peephole", "norm", "projection", "projection bias", "diagonal")


def matrix(s: Sketch, shape: Dims, stored: str = "float32") -> int:
    """Weights: "float32", "int8" with a scale, or "rounded" to the numbers that int8 stands for."""
    values = s.normal(shape, 1.5 / np.sqrt(shape[-1]))
    if stored == "float32":
        return s.constant(values)
    scale = np.float32(np.abs(values).max() / 127)
    steps = np.rint(values / scale)
    if stored == "rounded":
        return s.constant(np.asarray(steps * scale, np.float32))
    return s.constant(steps.astype(np.int8), quantization=quantization(scale))


def full_lstm(
    s: Sketch,
    op: str,
    x: Dims = (2, 3, 7),
    units: int = 5,
    features: tuple[str, ...] = (),
    outputs: int = 0,
    time_major: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    act: str = "TANH",
    inputs: int = 24,
    stored: str = "float32",
) -> int:
    """``outputs``: channels of the projection; ``inputs``: how many the node has.

    ``stored``: how matrices are; see `matrix`.
    """
    depth = x[-1]
    batch = x[0] if op == "LSTM" or not time_major else x[1]
    outputs = outputs or units

    def weights(*shape: int, has: bool = True) -> int:
        if not has:
            return NO_INPUT
        return matrix(s, shape, stored) if len(shape) > 1 else s.constant(s.normal(shape, 0.5))

    gates = [i > 0 or "cifg" not in features for i in range(4)]
    recurrent = (units,) if "diagonal" in features else (units, outputs)
    peephole, norm = "peephole" in features, "norm" in features
    projected = "projection" in features
    data = s.feed(x)
    nodes = [
        data,
        *(weights(units, depth, has=has) for has in gates),
        *(weights(*recurrent, has=has) for has in gates),
        *(matrix(s, (units,), stored) if peephole and gates[i] else NO_INPUT for i in (0, 1, 3)),
        *(weights(units, has=has) for has in gates),
        weights(outputs, units, has=projected),
        weights(outputs, has="projection bias" in features),
        s.variable((batch, outputs)),
        s.variable((batch, units)),
        *(weights(units, has=norm and has) for has in gates),
    ]
    options = {} if op == "LSTM" else {"time_major": time_major}
    return s.op(
        op, nodes[:inputs], [s.tensor()], cell_clip=cell_clip, proj_clip=proj_clip,
        fused_activation_function=act, **options,
    )  # fmt: skip


def integer_lstm(
    s: Sketch,
    op: str,
    x: Dims = (2, 3, 7),
    units: int = 5,
    features: tuple[str, ...] = (),
    outputs: int = 0,
    time_major: bool = False,
    cell_clip: float = 0.0,
    proj_clip: float = 0.0,
    exponent: int = -11,
    scales_first: bool = False,
) -> int:
    """With 8-bit activations; ``exponent``: that of two in the scale of the cell state.

    ``scales_first``: the tensors that only give scales are the model's first ones.
    """
    name = op.partition(" ")[0]
    depth, batch = x[-1], x[1] if time_major else x[0]
    outputs = outputs or units
    gates = [i > 0 or "cifg" not in features for i in range(4)]
    peephole, norm, projected = (
        feature in features for feature in ("peephole", "norm", "projection")
    )
    in_scale, out_scale, hidden_scale, norm_scale = 0.02, 0.009, 0.008, 2**-14 * 0.9
    hidden = (hidden_scale, 3) if projected else (out_scale, 4)

    def intermediates() -> list[int]:
        wide = [s.tensor((0,), "int16", quantization=quantization(2e-4)) for _ in range(4)]
        return [*wide, s.tensor((0,), "int8", quantization=quantization(*hidden))]

    middle = intermediates() if scales_first else []

    def drawn(shape: Dims, dtype: str, scale: float, has: bool = True, limit: float = 0) -> int:
        if not has:
            return NO_INPUT
        bound = limit or np.iinfo(dtype).max
        values = s.rng.integers(-bound, bound, shape).astype(dtype)
        return s.constant(values, quantization=quantization(scale))

    def bias(scale: float, has: bool) -> int:
        return drawn((units,), "int32", scale, has, 1 / scale)

    scales = s.rng.uniform(0.003, 0.006, 4)
    limits = np.iinfo("int8")
    s.feeds.append(s.rng.integers(limits.min, limits.max, x, "int8", endpoint=True))
    data = s.input(x, "int8", quantization=quantization(in_scale, 11))
    bias_scales = [norm_scale / 1024] * 4 if norm else in_scale * scales
    nodes = [
        data,
        *(drawn((units, depth), "int8", scales[i], gates[i]) for i in range(4)),
        *(drawn((units, outputs), "int8", scales[3 - i], gates[i]) for i in range(4)),
        *(drawn((units,), "int16", 2e-5, peephole and gates[i]) for i in (0, 1, 3)),
        *(bias(bias_scales[i], gates[i]) for i in range(4)),
        drawn((outputs, units), "int8", 0.004, projected),
        drawn((outputs,), "int32", 0.004 * hidden_scale, "projection bias" in features, 9000),
        s.variable((batch, outputs), "int8", quantization=quantization(out_scale, 4)),
        s.variable((batch, units), "int16", quantization=quantization(2.0**exponent)),
        *(drawn((units,), "int16", norm_scale, norm and gates[i]) for i in range(4)),
    ]
    middle = middle or intermediates()
    options = {} if name == "LSTM" else {"time_major": time_major}
    result = s.tensor(None, "int8", quantization=quantization(out_scale, 4))
    return s.op(
        name, nodes, [result], cell_clip=cell_clip, proj_clip=proj_clip, intermediates=middle,
        fused_activation_function="TANH", **options,
    )  # fmt: skip


def integer_cases(shapes: tuple[Dims, ...]) -> Iterator[Attributes]:
    yield from each(x=shapes, units=(1, 4, 5, 8))
    for count in range(1, 6):
        for features in itertools.combinations(FEATURES[:5], count):
            if "projection bias" in features and "projection" not in features:
                continue
            fewer = "projection" in features and "peephole" not in features
            yield dict(x=shapes[0], units=6, features=features, outputs=3 if fewer else 0)
    yield from each(dict(x=shapes[0]), exponent=(-9, -12, -13, -15))
    yield dict(x=shapes[0], cell_clip=0.3, proj_clip=0.2)
    yield dict(x=shapes[0], cell_clip=0.3, proj_clip=0.2, features=("projection",), outputs=4)
    yield dict(x=(*shapes[-1][:-1], 65), units=130)
    yield dict(x=(*shapes[-1][:-1], 64), units=128, features=("norm",))


def bidirectional_lstm(
    s: Sketch,
    op: str,
    x: Dims = (2, 3, 7),
    units: Dims = (5, 5),
    features: tuple[str, ...] = (),
    outputs: Dims = (),
    aux: int = 0,
    aux_weights: bool = False,
    merged: bool = True,
    time_major: bool = True,
    cell_clip: float = 0.0,
    stored: str = "float32",
) -> list[int]:
    """``units`` and ``outputs``: of both layers; ``aux``: channels of a second input, or 0."""
    depth, batch = x[-1], x[1] if time_major else x[0]
    outputs = outputs or units
    gates = [i > 0 or "cifg" not in features for i in range(4)]
    peephole, projected = "peephole" in features, "projection" in features
    data = s.feed(x)
    second = s.feed((*x[:-1], aux)) if aux else NO_INPUT

    def some(shape: Dims, has: list[bool]) -> list[int]:
        return [matrix(s, shape, stored) if each else NO_INPUT for each in has]

    def layer(i: int, depth: int) -> list[int]:
        return [
            *some((units[i], depth), gates),
            *some((units[i], outputs[i]), gates),
            *some((units[i],), [peephole and gates[gate] for gate in (0, 1, 3)]),
            *(s.constant(s.normal((units[i],), 0.5)) if has else NO_INPUT for has in gates),
            matrix(s, (outputs[i], units[i]), stored) if projected else NO_INPUT,
            NO_INPUT,
        ]

    layers = [layer(0, depth), layer(1, aux if aux and not aux_weights else depth)]
    states = [s.variable((batch, n)) for i in range(2) for n in (outputs[i], units[i])]
    of_aux = [some((n, aux), gates) if aux_weights else [NO_INPUT] * 4 for n in units]
    nodes = [data, *layers[0], *layers[1], *states, second, *of_aux[0], *of_aux[1]]
    results = [s.tensor() for _ in range(1 if merged else 2)]
    s.op(
        op, nodes, results, merge_outputs=merged, time_major=time_major, cell_clip=cell_clip,
        fused_activation_function="TANH",
    )  # fmt: skip
    return results


def both_ways(of: Attributes) -> Iterator[Attributes]:
    """Options of a bidirectional layer: merged outputs, and uses of a second input."""
    for merged, time_major in itertools.product((False, True), repeat=2):
        # Otherwise LiteRT's LSTM looks for states as far apart as the merged outputs.
        x = (2, 3, 7) if time_major or not merged else (1, 3, 7)
        yield dict(x=x, merged=merged, time_major=time_major, **of)
        yield dict(x=x, aux=7, merged=merged, time_major=time_major, **of)
        yield dict(x=x, aux=7, aux_weights=True, merged=merged, time_major=time_major, **of)


def bidirectional_lstm_cases() -> Iterator[Attributes]:
    yield from both_ways({})
    yield dict(aux=6, aux_weights=True, features=("cifg", "peephole"))
    yield dict(features=("projection",), outputs=(3, 3), merged=False)
    yield dict(features=("projection", "peephole"), outputs=(3, 3), cell_clip=0.4)
    yield dict(x=(12, 2, 33), units=(40, 40))


def rnn(
    s: Sketch,
    op: str,
    x: Dims = (2, 3, 7),
    units: int = 5,
    act: str = "TANH",
    time_major: bool = False,
    stored: str = "float32",
) -> int:
    batch = x[1] if time_major else x[0]
    weights = [matrix(s, shape, stored) for shape in ((units, x[-1]), (units, units))]
    nodes = [s.feed(x), *weights, s.constant(s.normal((units,))), s.variable((batch, units))]
    options = {} if op == "RNN" else {"time_major": time_major}
    return s.op(op, nodes, [s.tensor()], fused_activation_function=act, **options)


def rnn_cases(shapes: tuple[Dims, ...]) -> Iterator[Attributes]:
    yield from each(x=shapes, units=(1, 4, 5, 8))
    yield from each(dict(x=shapes[0]), act=("NONE", *ACTIVATIONS))
    yield dict(x=(*shapes[-1][:-1], 65), units=130)


def sequence_rnn_cases() -> Iterator[Attributes]:
    yield from rnn_cases(((2, 3, 7), (1, 4, 4), (3, 1, 5)))
    for x in ((2, 3, 7), (5, 1, 4), (1, 3, 6)):
        yield dict(x=x, time_major=True)
    yield from each(x=((2, 0, 7), (0, 3, 7)))


def bidirectional_rnn(
    s: Sketch,
    op: str,
    x: Dims = (2, 3, 7),
    units: Dims = (5, 4),
    aux: int = 0,
    aux_weights: bool = False,
    act: str = "TANH",
    merged: bool = True,
    time_major: bool = False,
) -> list[int]:
    batch = x[1] if time_major else x[0]
    nodes = [s.feed(x)]
    for i, n in enumerate(units):
        depth = aux if i and aux and not aux_weights else x[-1]
        nodes += [matrix(s, (n, depth)), matrix(s, (n, n)), s.constant(s.normal((n,)))]
        nodes.append(s.variable((batch, n)))
    nodes.append(s.feed((*x[:-1], aux)) if aux else NO_INPUT)
    nodes += [matrix(s, (n, aux)) if aux_weights else NO_INPUT for n in units]
    results = [s.tensor() for _ in range(1 if merged else 2)]
    options = dict(merge_outputs=merged, time_major=time_major)
    s.op(op, nodes, results, fused_activation_function=act, **options)
    return results


def bidirectional_rnn_cases() -> Iterator[Attributes]:
    yield from both_ways({})
    yield dict(x=(3, 4, 7), merged=True)
    yield dict(aux=5, aux_weights=True)
    yield dict(x=(2, 9, 33), units=(40, 37), act="RELU")


def svdf(
    s: Sketch,
    op: str,
    x: Dims = (2, 7),
    units: int = 5,
    memory: int = 10,
    rank: int = 1,
    act: str = "NONE",
    bias: bool = True,
    stored: str = "float32",
) -> list[int]:
    """Three runs on one state, each with its own input."""
    filters = units * rank
    weights = [matrix(s, shape, stored) for shape in ((filters, x[-1]), (filters, memory))]
    weights.append(s.constant(s.normal((units,))) if bias else NO_INPUT)
    state = s.variable((x[0], memory * filters))
    return [
        s.op(
            op, [s.feed(x), *weights, state], [s.tensor()], rank=rank,
            fused_activation_function=act,
        )
        for _ in range(3)
    ]  # fmt: skip


def svdf_cases() -> Iterator[Attributes]:
    yield from each(units=(1, 4, 5), memory=(1, 3, 8), rank=(1, 2, 3))
    yield dict(x=(1, 4), bias=False)
    yield from each(act=("NONE", *ACTIVATIONS))
    yield dict(x=(3, 40), units=65, memory=9, rank=2)


def integer_svdf(
    s: Sketch, op: str, x: Dims = (2, 7), units: int = 5, memory: int = 10, rank: int = 1
) -> list[int]:
    limits, filters = np.iinfo("int8"), units * rank

    def drawn(shape: Dims, dtype: str, scale: float, most: int) -> int:
        values = s.rng.integers(-most, most, shape, endpoint=True).astype(dtype)
        return s.constant(values, quantization=quantization(scale))

    weights = [
        drawn((filters, x[-1]), "int8", 0.01, 127),
        drawn((filters, memory), "int16", 2e-5, 32767),
        drawn((units,), "int32", 2e-5 * 2e-4, 10**8),
    ]
    state = s.variable((x[0], memory * filters), "int16", quantization=quantization(2e-4))
    results = []
    for _ in range(3):
        s.feeds.append(s.rng.integers(limits.min, limits.max, x, "int8", endpoint=True))
        data = s.input(x, "int8", quantization=quantization(0.02, 5))
        result = s.tensor(None, "int8", quantization=quantization(0.05, -3))
        options = dict(rank=rank, fused_activation_function="RELU")
        results.append(s.op("SVDF", [data, *weights, state], [result], **options))
    return results


def with_projection(features: tuple[str, ...]) -> Attributes:
    outputs = 3 if "projection" in features else 0
    return dict(features=features, outputs=outputs)


def full_lstm_cases(shapes: tuple[Dims, ...]) -> Iterator[Attributes]:
    yield from each(x=shapes, units=(1, 4, 5, 8))
    for count in range(1, 6):
        for features in itertools.combinations(FEATURES[:5], count):
            if "projection bias" not in features or "projection" in features:
                yield dict(x=shapes[0], units=6, **with_projection(features))
    yield from each(dict(x=shapes[1]), act=ACTIVATIONS)
    clips = dict(cell_clip=0.3, proj_clip=0.2)
    yield dict(x=shapes[0], **clips)
    yield dict(x=shapes[0], **clips, **with_projection(("projection", "norm")))
    yield dict(x=shapes[0], inputs=20)
    yield dict(x=(*shapes[-1][:-1], 65), units=130)
    yield dict(x=(*shapes[-1][:-1], 64), units=128, outputs=96, features=("projection", "norm"))


def sequence_lstm_cases() -> Iterator[Attributes]:
    yield from full_lstm_cases(((2, 3, 7), (1, 4, 4), (3, 1, 5), (3, 2, 8)))
    for x in ((2, 3, 7), (5, 1, 4), (1, 3, 6), (4, 5, 3)):
        yield dict(x=x, time_major=True)
    yield dict(x=(3, 2, 7), time_major=True, **with_projection(("projection", "norm", "peephole")))
    for features in (("diagonal",), ("diagonal", "cifg"), ("diagonal", "norm", "peephole")):
        yield dict(features=features)
    yield dict(x=(1, 40, 6), units=9)
    yield from each(x=((2, 0, 7), (0, 3, 7)))


def lstm_random(rng: random.Random) -> Attributes:
    features = tuple(name for name in FEATURES[:4] if rng.random() < 0.4)
    units = rng.randint(1, 24)
    # LiteRT writes past its memory if there are more outputs than units.
    outputs = rng.randint(1, units) if "projection" in features else 0
    clips = dict(cell_clip=rng.choice((0.0, 0.5)), proj_clip=rng.choice((0.0, 0.5)))
    return dict(units=units, features=features, outputs=outputs, **clips)


OPS: dict[str, Op] = {
    "UNIDIRECTIONAL_SEQUENCE_LSTM": Op(
        full_lstm,
        sequence_lstm_cases,
        lambda rng: dict(lstm_random(rng), x=random_dims(rng, 3, 7), time_major=rng.random() < 0.5),
    ),
    "LSTM (full)": Op(
        lambda s, op, **rest: full_lstm(s, "LSTM", **rest),
        lambda: full_lstm_cases(((3, 7), (1, 4), (2, 5), (2, 8))),
        lambda rng: dict(lstm_random(rng), x=random_dims(rng, 2, 9)),
    ),
    "UNIDIRECTIONAL_SEQUENCE_LSTM (8-bit)": Op(
        integer_lstm,
        lambda: [
            *integer_cases(((2, 3, 7), (1, 4, 4), (3, 12, 5))),
            dict(x=(4, 2, 7), time_major=True),
        ],
    ),
    "BIDIRECTIONAL_SEQUENCE_LSTM": Op(bidirectional_lstm, bidirectional_lstm_cases),
    "RNN": Op(rnn, lambda: rnn_cases(((2, 7), (1, 4), (3, 5)))),
    "UNIDIRECTIONAL_SEQUENCE_RNN": Op(rnn, sequence_rnn_cases),
    "BIDIRECTIONAL_SEQUENCE_RNN": Op(bidirectional_rnn, bidirectional_rnn_cases),
    "SVDF": Op(svdf, svdf_cases),
    "SVDF (8-bit)": Op(
        integer_svdf,
        lambda: (dict(units=n, memory=m, rank=r) for n in (1, 5) for m in (1, 8) for r in (1, 3)),
    ),
    "LSTM (8-bit)": Op(integer_lstm, lambda: integer_cases(((2, 7), (1, 4), (3, 5)))),
}

# LiteRT's kernels skip the activation NONE, and leave what was in the memory before.
LEFT_TO_LITERT: Cases = (
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", dict(act="NONE")),
    ("LSTM (full)", dict(x=(2, 7), act="NONE")),
    ("RNN", dict(x=(2, 7), act="SIGN_BIT")),
)
LITERT_REFUSES: Cases = (
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", dict(x=(2, 7))),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", dict(features=("norm",), inputs=20 + 1)),
)
