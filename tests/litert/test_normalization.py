"""Normalizations, however a converter writes them, run as one dispatch."""

from collections.abc import Callable

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import AMD, LLVMPIPE, MIDGARD, Profile
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from tests.support.force import force_profile
from tests.support.oracle import assert_close, complete, run_gles, run_litert
from tests.support.sketch import Dims, Sketch

pytestmark = pytest.mark.usefixtures("floor")

PROFILES = {"amd": AMD, "midgard": MIDGARD, "llvmpipe": LLVMPIPE}


class Net(Sketch):
    """A network with an input of any shape, and its mean and scale."""

    def __init__(self, shape: Dims) -> None:
        super().__init__(np.random.default_rng(0))
        self.x = self.feed(values=3 + 2 * self.rng.standard_normal(shape))
        self.channels = shape[-1]
        self.gain = self.constant(self.normal((self.channels,)))
        self.offset = self.constant(self.normal((self.channels,)))

    def number(self, value: float) -> int:
        return self.constant(np.float32(value))

    def over_channels(self, op: str, x: int, keep: bool = True) -> int:
        return self.op(op, [x, self.constant(np.int32([-1]))], keep_dims=keep)

    def mean(self) -> int:
        return self.over_channels("MEAN", self.x)

    def scale(self, squares: int, epsilon: float = 1e-3) -> int:
        return self.op("RSQRT", [self.op("ADD", [squares, self.number(epsilon)])])


def as_torch(net: Net) -> int:
    less = net.op("SUB", [net.x, net.mean()])
    squares = net.over_channels("MEAN", net.op("MUL", [less, less]))
    y = net.op("MUL", [net.op("MUL", [less, net.scale(squares)]), net.gain])
    return net.op("ADD", [y, net.offset])


def as_keras(net: Net) -> int:
    mean = net.mean()
    squares = net.over_channels("MEAN", net.op("SQUARED_DIFFERENCE", [net.x, mean]))
    gain = net.op("MUL", [net.scale(squares), net.gain])
    y = net.op("MUL", [net.x, gain])
    return net.op("ADD", [y, net.op("SUB", [net.offset, net.op("MUL", [mean, gain])])])


def flat(net: Net) -> int:
    """Sums without their own dimension."""

    def shaped(x: int, *shape: int) -> int:
        return net.op("RESHAPE", [x, net.constant(np.int32(shape))])

    pixels = net.feeds[0].size // net.channels
    mean = shaped(net.over_channels("MEAN", net.x, keep=False), pixels)
    less = net.op("SQUARED_DIFFERENCE", [net.x, shaped(mean, *net.feeds[0].shape[:-1], 1)])
    squares = shaped(net.over_channels("MEAN", less, keep=False), pixels)
    scale = net.scale(squares)
    offset = net.op("SUB", [net.number(0), net.op("MUL", [mean, scale])])
    wide = [shaped(x, *net.feeds[0].shape[:-1], 1) for x in (scale, offset)]
    return net.op("ADD", [net.op("MUL", [net.x, wide[0]]), wide[1]])


def rms(net: Net) -> int:
    squares = net.over_channels("SUM", net.op("MUL", [net.x, net.x]))
    scale = net.scale(net.op("DIV", [squares, net.number(net.channels)]))
    return net.op("MUL", [net.gain, net.op("MUL", [net.x, scale])])


def l2(net: Net) -> int:
    squares = net.over_channels("SUM", net.op("SQUARE", [net.x]))
    larger = net.op("MAXIMUM", [squares, net.number(150)])
    y = net.op("MUL", [net.x, net.op("RSQRT", [larger])])
    return net.op("RELU", [net.op("MUL", [y, net.number(0.5)])])


def residual(net: Net) -> int:
    return net.op("RELU", [net.op("ADD", [rms(net), net.x])])


def of_another(net: Net) -> int:
    """The mean is that of another tensor."""
    other = net.op("TANH", [net.x])
    less = net.op("SUB", [net.x, net.over_channels("MEAN", other)])
    squares = net.over_channels("MEAN", net.op("SQUARE", [less]))
    return net.op("MUL", [less, net.scale(squares)])


def not_less_mean(net: Net) -> int:
    """The squares are those less the mean, the result is not."""
    less = net.op("SUB", [net.x, net.mean()])
    return net.op("MUL", [net.x, net.scale(net.over_channels("MEAN", net.op("SQUARE", [less])))])


def mean_added(net: Net) -> int:
    less = net.op("SUB", [net.x, net.mean()])
    scale = net.scale(net.over_channels("MEAN", net.op("SQUARE", [less])))
    return net.op("MUL", [net.op("ADD", [net.x, net.mean()]), scale])


def over_rows(net: Net) -> int:
    """The squares are summed up over rows."""
    squares = net.op("SQUARE", [net.x])
    squares = net.op("MEAN", [squares, net.constant(np.int32([-2]))], keep_dims=True)
    return net.op("MUL", [net.x, net.scale(squares)])


def scale_changed(net: Net) -> int:
    """The scale is not that of these squares alone."""
    less = net.op("SUB", [net.x, net.mean()])
    squares = net.over_channels("MEAN", net.op("SQUARE", [less]))
    return net.op("MUL", [less, net.scale(net.op("ADD", [squares, net.op("ABS", [net.mean()])]))])


NORMALIZATIONS = (as_torch, as_keras, flat, rms, l2, residual)
OTHERS = (of_another, not_less_mean, mean_added, over_rows, scale_changed)


def check(make: Callable[[Net], int], shape: Dims, profile: Profile, one: bool) -> None:
    net = Net(shape)
    content = complete(net, [make(net)])
    limits = Limits(profile=profile)
    lowered = lower_graph(read_model(content), limits)
    plan = make_plan(lowered, lowered.steps, limits)
    kernels = {d.shader for d in plan.dispatches} - {"view"}
    assert (kernels == {"normalize"}) == one
    assert ("normalize" in kernels) == one
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def check_whole(net: Net, *outputs: int) -> None:
    content = complete(net, outputs)
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@pytest.mark.parametrize("shape", [(2, 3, 5, 33), (1, 7, 64), (5, 2), (1, 300), (3, 2, 129)])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("make", NORMALIZATIONS)
def test_one_dispatch(
    make: Callable[[Net], int], profile: str, shape: Dims, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, PROFILES[profile])
    check(make, shape, PROFILES[profile], one=True)


@pytest.mark.parametrize("make", OTHERS)
def test_others_stay(make: Callable[[Net], int]) -> None:
    check(make, (2, 6, 5), LLVMPIPE, one=False)


def test_a_mean_that_others_read() -> None:
    net = Net((2, 3, 9))
    check_whole(net, as_keras(net), net.mean())


def test_long_chains() -> None:
    """Neither a polynomial nor the dispatches behind it grow without end."""
    net = Net((2, 3))
    double, power = net.x, net.op("TANH", [net.x])
    for _ in range(40):
        double = net.op("ADD", [double, double])
        power = net.op("MUL", [power, power])
    check_whole(net, double, power)
