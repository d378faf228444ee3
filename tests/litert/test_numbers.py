"""Numbers at the edges of their types, against LiteRT's CPU kernels."""

from collections.abc import Callable
from itertools import product
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.op_table import CASES
from tests.support.oracle import assert_close, complete, run_delegated, run_gles, run_litert
from tests.support.pairwise import pairwise
from tests.support.sketch import Sketch

NORMAL = np.geomspace(1.2e-38, 3e38, 4001)
"""From the smallest normal float32 to about the largest."""


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def both(s: Sketch, *outputs: int) -> tuple[list[NDArray[Any]], list[NDArray[Any]]]:
    """The outputs on the delegate and on LiteRT."""
    content = complete(s, outputs)
    return run_gles(content, s.feeds), run_litert(content, s.feeds)


@pytest.mark.parametrize("op", ["TANH", "ELU", "LOGISTIC", "HARD_SWISH", "EXP"])
def test_functions_are_right_at_every_magnitude(op: str) -> None:
    s = sketch()
    y = s.op(op, [s.feed(values=[*NORMAL, *-NORMAL, 0])], [s.tensor()])
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1.2e-38)


def test_recurrent_layers_are_right_at_every_magnitude() -> None:
    units = 64
    s = sketch()
    x = s.feed(values=np.geomspace(1.2e-38, 10, units).reshape(1, 1, units))
    weights = s.constant(np.eye(units, dtype=np.float32))
    zeros = [s.constant(np.zeros(shape, np.float32)) for shape in ((units, units), units)]
    operands = [x, weights, *zeros, s.variable((1, units))]
    options = dict(time_major=False, fused_activation_function="TANH")
    y = s.op("UNIDIRECTIONAL_SEQUENCE_RNN", operands, [s.tensor()], **options)
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0, -0.0, 1, -2.5, 1e30, 3.4e38])


@pairwise(
    number=[0, -0.0, 1, -1, 0.3, 1e-40, 3.4e38, np.inf, np.nan],
    shape=[(2, 3, 9), (1, 2, 2, 8)],
    run=[run_gles, run_delegated],
)
def test_functions_of_a_constant_number(
    run: Callable[..., Any], shape: tuple[int, ...], number: float
) -> None:
    """Compilers simplify some, such as x * 0, as if no number were infinite or NaN."""
    s = sketch()
    ops = ["ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE", "MAXIMUM", "MINIMUM", "POW"]
    outputs = []
    for op, first in [*product(ops, (False, True)), ("PRELU", False), ("FLOOR_MOD", False)]:
        # Its only reader, so that the two are one dispatch.
        x = s.op("ABS", [s.feed(values=np.resize(SPECIAL, shape))])
        operands = [x, s.constant(np.float32(number))]
        outputs.append(s.op(op, operands[::-1] if first else operands))
    content = complete(s, outputs)
    assert_close(run(content, s.feeds), run_litert(content, s.feeds), special=True)


@pytest.mark.parametrize("alpha", [0, -0.0, 0.3, -1])
def test_a_slope_of_infinity(alpha: float) -> None:
    s = sketch()
    y = s.op("LEAKY_RELU", [s.feed(values=np.resize(SPECIAL, (2, 3, 9)))], alpha=alpha)
    ours, theirs = both(s, y)
    assert_close(ours, theirs, special=True)


@pytest.mark.parametrize("op", ["ADD", "SUB", "MUL", "DIV", "SQUARED_DIFFERENCE", "FLOOR_MOD"])
@pytest.mark.parametrize("sign", ["same", "NEG"])
def test_functions_of_a_number_and_itself(op: str, sign: str) -> None:
    s = sketch()
    x = s.feed(values=np.resize(SPECIAL, (2, 3, 9)))
    ours, theirs = both(s, s.op(op, [x, x if sign == "same" else s.op("NEG", [x])]))
    assert_close(ours, theirs, special=True)


@pytest.mark.parametrize(
    ("groups", "inputs", "outputs", "kernel"),
    [(2, 4, 4, 3), (3, 4, 8, 1), (2, 64, 64, 1), (4, 16, 8, 3)],
)
def test_nan_stays_in_its_group(groups: int, inputs: int, outputs: int, kernel: int) -> None:
    s = sketch()
    values = s.normal((2, 5, 7, groups * inputs))
    values[:, 2, 3, inputs * groups - 4] = np.nan
    weights = s.constant(s.normal((groups * outputs, kernel, kernel, inputs)))
    biases = s.constant(s.normal((groups * outputs,)))
    window = dict(stride_h=1, stride_w=1, padding="SAME")
    y = s.op("CONV_2D", [s.feed(values=values), weights, biases], [s.tensor()], **window)
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("op", ["LOG", "RSQRT"])
@pytest.mark.parametrize("channels", [3, 6, 8])
def test_a_fused_depthwise_result_is_zero_past_its_channels(op: str, channels: int) -> None:
    """These functions are infinite at zero."""
    s = sketch()
    x = s.feed(values=s.rng.uniform(1, 2, (1, 64, 64, channels)))
    taps, weights = (s.rng.uniform(0.5, 1, n).astype("f") for n in (9 * channels, 8 * channels))
    inputs = [x, s.constant(taps.reshape(1, 3, 3, channels)), s.constant(taps[:channels])]
    window = dict(stride_h=1, stride_w=1, padding="SAME")
    seen = s.op("DEPTHWISE_CONV_2D", inputs, [s.tensor()], depth_multiplier=1, **window)
    bias = s.constant(np.zeros(8, np.float32))
    inputs = [s.op(op, [seen], [s.tensor()]), s.constant(weights.reshape(8, 1, 1, channels))]
    (ours,), (theirs,) = both(s, s.op("CONV_2D", [*inputs, bias], [s.tensor()], **window))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5)


@pairwise(place=[0, 0.4, 1], channels=[1, 2, 5, 300, 2900, 17003], op=["SOFTMAX", "LOG_SOFTMAX"])
def test_softmax_of_nan_and_infinity(op: str, channels: int, place: float) -> None:
    """A row with each, in the first, another and the last element; and rows of nothing else."""
    values = np.zeros((5, channels), np.float32)
    values[(0, 1, 2), int(place * (channels - 1))] = np.nan, np.inf, -np.inf
    values[3], values[4] = -np.inf, -3e38
    s = sketch()
    options = {"beta": 1.0} if op == "SOFTMAX" else {}
    (ours,), (theirs,) = both(s, s.op(op, [s.feed(values=values)], [s.tensor()], **options))
    np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("op", ["RELU", "RELU6", "RELU_N1_TO_1", "RELU_0_TO_1"])
def test_activations_keep_the_sign_of_zero_and_nan(op: str) -> None:
    s = sketch()
    values = [0.0, -0.0, np.nan, np.inf, -np.inf, 1.0, -1.0, 1.0000001, 6.0, 6.0000005, 7.0, -1e-37]
    y = s.op(op, [s.feed(values=values)], [s.tensor()])
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_array_equal(ours, theirs)
    np.testing.assert_array_equal(np.signbit(ours[:2]), np.signbit(theirs[:2]))


def test_quotients_of_huge_numbers_are_rounded_down() -> None:
    largest = float(np.finfo(np.float32).max)
    s = sketch()
    a, b = (
        s.feed(values=[largest, -largest, largest, 0.2, 7e37]),
        s.feed(values=[-3e38, 3e38, 2e38, 0.5, -1e37]),
    )
    y = s.op("FLOOR_DIV", [a, b], [s.tensor()])
    (ours,), (theirs,) = both(s, y)
    np.testing.assert_array_equal(ours, theirs)


def test_a_cell_s_limit_takes_the_place_of_nan() -> None:
    id = "LSTM (full) x=3x7 cell_clip=0.3 proj_clip=0.2"
    (case,) = (case for case in CASES if case.id == id)
    content, (x,) = case.build()
    x[:, :2] = np.inf, -np.inf
    (ours,), (theirs,) = run_gles(content, [x]), run_litert(content, [x])
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-5)
