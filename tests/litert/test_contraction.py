"""Functions that converters write in pieces join the convolution that they read several times."""

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LLVMPIPE, MIDGARD, NVIDIA
from tests.support.force import force_profile
from tests.support.oracle import assert_close, complete, run_delegated, run_gles, run_litert
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization
from tests.unit.test_plan import plan_of

pytestmark = pytest.mark.usefixtures("floor")

PROFILES = {"llvmpipe": LLVMPIPE, "midgard": MIDGARD, "nvidia": NVIDIA}
SHAPE = (1, 4, 6, 8)
SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 1e-42])


class Net(Sketch):
    """A convolution of an input, to whose result `number` and `row` broadcast."""

    def __init__(self, special: bool = False) -> None:
        super().__init__(np.random.default_rng(0))
        values = np.broadcast_to(SPECIAL, SHAPE) if special else self.normal(SHAPE, 3)
        weights = np.eye(8) if special else self.normal((8, 8))
        self.x = self.feed(values=values)
        if not special:
            inputs = [self.x, self.constant(np.float32(weights).reshape(8, 1, 1, 8))]
            inputs.append(self.constant(self.normal((8,))))
            self.x = self.op("CONV_2D", inputs, stride_h=1, stride_w=1)

    def number(self, value: float) -> int:
        return self.constant(np.float32(value))

    def row(self) -> int:
        return self.constant(self.normal((1, 1, 8)))

    def of(self, op: str, *inputs: int) -> int:
        return self.op(op, list(inputs))

    def condition(self, op: str, *inputs: int) -> int:
        return self.op(op, inputs, [self.tensor(SHAPE, np.bool_)])

    def select(self, *inputs: int) -> int:
        return self.op("SELECT_V2", inputs, [self.tensor(SHAPE)])


def silu(net: Net) -> int:
    return net.of("MUL", net.x, net.of("LOGISTIC", net.x))


def silu_swapped(net: Net) -> int:
    return net.of("MUL", net.of("LOGISTIC", net.x), net.x)


def hard_swish(net: Net) -> int:
    sixth = net.of("MUL", net.of("RELU6", net.of("ADD", net.x, net.number(3))), net.number(1 / 6))
    return net.of("MUL", net.x, sixth)


def gelu(net: Net) -> int:
    x = net.x
    cube = net.of("MUL", net.of("MUL", x, x), x)
    inner = net.of("ADD", x, net.of("MUL", cube, net.number(0.044715)))
    tanh = net.of("TANH", net.of("MUL", inner, net.number(0.7978846)))
    factor = net.of("ADD", tanh, net.number(1))
    return net.of("MUL", net.of("MUL", x, factor), net.number(0.5))


def prelu_by_select(net: Net) -> int:
    above = net.condition("GREATER", net.x, net.number(0))
    return net.select(above, net.x, net.of("MUL", net.x, net.row()))


def prelu_by_relu(net: Net) -> int:
    below = net.of("NEG", net.of("RELU", net.of("NEG", net.x)))
    return net.of("ADD", net.of("RELU", net.x), net.of("MUL", net.row(), below))


def clamped(net: Net) -> int:
    return net.of("MINIMUM", net.of("MAXIMUM", net.x, net.number(-1.5)), net.number(1.25))


def within(net: Net) -> int:
    above = net.condition("GREATER", net.x, net.number(-1))
    below = net.condition("LESS", net.x, net.number(1))
    both = net.condition("LOGICAL_AND", above, below)
    return net.select(both, net.of("TANH", net.x), net.of("SQUARE", net.x))


def silu_of_silu(net: Net) -> int:
    once = silu(net)
    return net.of("MUL", once, net.of("LOGISTIC", once))


PIECES = [
    silu, silu_swapped, hard_swish, gelu, prelu_by_select, prelu_by_relu, clamped, within,
    silu_of_silu,
]  # fmt: skip

CONVERSIONS = ("view", "pack_integers", "unpack_integers")


def shaders(content: bytes) -> list[str]:
    """The shaders of a model, without those that read its inputs and write its outputs."""
    plan = plan_of(content, Limits())
    return [d.shader for d in plan.dispatches if d.shader not in CONVERSIONS]


@pytest.mark.parametrize("make", PIECES)
def test_one_dispatch(make: Callable[[Net], int]) -> None:
    net = Net()
    content = complete(net, [make(net)])
    assert shaders(content) == ["conv_2d"]
    expected = run_litert(content, net.feeds)
    assert_close(run_gles(content, net.feeds), expected)
    assert_close(run_delegated(content, net.feeds), expected)


# LiteRT's MUL makes the largest float of infinity, and GELU halves it.
@pytest.mark.parametrize("make", [make for make in PIECES if make is not gelu])
def test_special_numbers(make: Callable[[Net], int]) -> None:
    net = Net(special=True)
    content = complete(net, [make(net)])
    assert not shaders(content)
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds), special=True)


def read_elsewhere(net: Net) -> list[int]:
    sigmoid = net.of("LOGISTIC", net.x)
    return [net.of("MUL", net.x, sigmoid), net.of("NEG", sigmoid)]


def an_output(net: Net) -> list[int]:
    sigmoid = net.of("LOGISTIC", net.x)
    return [net.of("MUL", net.x, sigmoid), sigmoid]


def of_two_tensors(net: Net) -> list[int]:
    other = net.feed(SHAPE)
    return [net.of("MUL", net.of("ADD", net.x, other), net.of("LOGISTIC", net.of("NEG", net.x)))]


def of_all_pixels(net: Net) -> list[int]:
    mean = net.op("MEAN", [net.x, net.constant(np.int32([1, 2]))], keep_dims=True)
    return [net.of("MUL", net.x, net.of("LOGISTIC", mean))]


@pytest.mark.parametrize("make", [read_elsewhere, an_output, of_two_tensors, of_all_pixels])
def test_others(make: Callable[[Net], list[int]]) -> None:
    net = Net()
    content = complete(net, make(net))
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_eight_bits(dtype: str) -> None:
    """The pieces are rounded as they are in LiteRT."""
    rng = np.random.default_rng(0)
    s, zero = Sketch(rng), 128 if dtype == "uint8" else 0
    s.feeds = [rng.integers(zero - 128, zero + 128, SHAPE).astype(dtype)]
    x = s.input(SHAPE, dtype, quantization=quantization(0.05, zero))
    sigmoid = s.tensor(SHAPE, dtype, quantization=quantization(1 / 256, zero - 128))
    s.op("LOGISTIC", [x], [sigmoid])
    silu = s.tensor(SHAPE, dtype, quantization=quantization(0.03, zero))
    s.op("MUL", [x, sigmoid], [silu])
    content = s.build([silu])
    assert not shaders(content)
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("calls", [(), ("TANH",), ("NEG", "ABS")], ids=str)
@pytest.mark.parametrize("op", ["SUB", "ADD", "MUL", "SQUARED_DIFFERENCE", "MAXIMUM", "GREATER"])
def test_each_pair_of_rows(op: str, calls: tuple[str, ...]) -> None:
    """x[:, None] and x[None], also after functions; then what two ops make of two such pairs."""
    s = Sketch(np.random.default_rng(0))
    x = s.feed((5, 3))
    for call in calls:
        x = s.op(call, [x], [(5, 3)])
    rows, columns = (
        s.op("RESHAPE", [x, s.constant(np.int32(shape))], [shape])
        for shape in ((5, 1, 3), (1, 5, 3))
    )
    kind = np.bool_ if op == "GREATER" else np.float32
    pairs = [
        s.op(op, list(operands), [s.tensor((5, 5, 3), kind)])
        for operands in ((rows, columns), (columns, rows))
    ]
    if op != "GREATER":
        pairs.append(s.op("MUL", pairs, [(5, 5, 3)]))
    content = s.build(pairs)
    expected = run_litert(content, s.feeds)
    for run in (run_gles, run_delegated):
        assert_close(run(content, s.feeds), expected, inputs=s.feeds)


@pytest.mark.parametrize("op", ["SUB", "MUL", "MAXIMUM"])
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("profile", PROFILES)
def test_operands_that_are_spread(
    profile: str, constant: bool, op: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In every way, for results and operands of as many channels, of one, and of several slices."""
    force_profile(monkeypatch, PROFILES[profile])
    limits = Limits(profile=PROFILES[profile])
    for channels in (1, 3, 9):
        s = Sketch(np.random.default_rng(1))
        shape = (3, 2, 5, channels)
        outputs, fused = [], 0
        for dims in product((0, 1), repeat=4):
            sizes = tuple(n if has else 1 for n, has in zip(shape, dims, strict=True))
            x = s.op("SOFTMAX", [s.feed(shape)], [s.tensor(shape)], beta=1.0)
            operands = [x, s.operand(sizes, constant=constant)]
            y = s.op(op, operands[:: 1 if sum(dims) % 2 else -1], [s.tensor(shape)])
            outputs.append(s.op("TANH", [y], [s.tensor(shape)]))
        content = complete(s, outputs)
        for dispatch in plan_of(content, limits).dispatches:
            fused += dispatch.shader == "softmax" and len(dispatch.epilogue) == 2
        # One that has only the second of the first three axes takes p / a % b.
        assert fused >= 12
        assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("op", ["SUB", "SQUARED_DIFFERENCE"])
@pytest.mark.parametrize("before", [None, "NEG"])
def test_a_number_less_itself_is_nan_where_it_is_not_finite(op: str, before: str | None) -> None:
    """Compilers make 0 of x - x."""
    s = Sketch(np.random.default_rng(0))
    x = s.feed(values=SPECIAL)
    y = x if before is None else s.op(before, [x], [SPECIAL.shape])
    content = s.build([s.op("MUL", [s.op(op, [y, y], [SPECIAL.shape]), x], [SPECIAL.shape])])
    for run in (run_gles, run_delegated):
        assert_close(run(content, s.feeds), run_litert(content, s.feeds), special=True)
