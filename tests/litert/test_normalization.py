"""Normalizations, however a converter writes them, run as one dispatch."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import AMD, LLVMPIPE, MIDGARD, Profile
from tests.support.force import force_profile
from tests.support.oracle import assert_close, complete, run_gles, run_litert
from tests.support.sketch import Dims, Sketch
from tests.unit.test_plan import plan_of

pytestmark = pytest.mark.usefixtures("floor")

PROFILES = {"amd": AMD, "midgard": MIDGARD, "llvmpipe": LLVMPIPE}
SHAPES = ((2, 3, 5, 33), (1, 7, 64), (5, 2), (1, 300), (3, 2, 129))


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

    def scale(self, squares: int) -> int:
        return self.op("RSQRT", [self.op("ADD", [squares, self.number(1e-3)])])


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


def as_keras_3(net: Net) -> int:
    """The mean is subtracted by adding its negative."""
    mean = net.mean()
    squares = net.over_channels("MEAN", net.op("SQUARED_DIFFERENCE", [net.x, mean]))
    gain = net.op("MUL", [net.scale(squares), net.gain])
    less = net.op("MUL", [net.op("NEG", [mean]), gain])
    y = net.op("MUL", [net.x, gain])
    return net.op("ADD", [y, net.op("ADD", [less, net.offset])])


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


def grouped(net: Net, choose: random.Random, usual: bool = False) -> int:
    """Blocks of elements, cut in three, as litert-torch writes groups of channels; or nearly so.

    `usual`: Blocks that follow each other; only these are normalizations.
    """
    shape = net.feeds[0].shape
    elements = net.feeds[0].size // shape[0]
    counts = [n for n in (1, 2, 3, 6) if elements // shape[-1] % n == 0]
    narrow = [] if usual or shape[-1] % 2 else [elements // shape[-1] * 2]
    groups = choose.choice([*counts, *narrow])
    inner = choose.choice([n for n in (1, 2, 5) if elements // groups % n == 0])
    cut = (shape[0], groups, inner, elements // groups // inner)

    def op(name: str, x: int, numbers: Sequence[int], **options: int) -> int:
        return net.op(name, [x, net.constant(np.int32(numbers))], **options)

    x = op("RESHAPE", net.x, cut)
    axes = [(2, 3)] * 2 if usual else [choose.choice(((2, 3), (3,), (2,), (1, 3))) for _ in "ab"]
    keep = [tuple(1 if i in each else n for i, n in enumerate(cut)) for each in axes]
    mean = op("MEAN", x, axes[0], keep_dims=True)
    less = net.op("SUB", [x, mean])
    scale = net.scale(op("MEAN", net.op("MUL", [less, less]), axes[1], keep_dims=True))
    if choose.random() < 0.5 or keep[0] != keep[1]:
        y = op("RESHAPE", net.op("MUL", [less, scale]), shape)
    else:
        offset = net.op("SUB", [net.number(0), net.op("MUL", [mean, scale])])
        wide = (*cut[:3], 1) if usual else choose.choice((keep[0], cut))
        scale, offset = (op("BROADCAST_TO", each, wide, version=2) for each in (scale, offset))
        y = op("RESHAPE", net.op("ADD", [net.op("MUL", [x, scale]), offset]), shape)
    return net.op("MUL", [y, net.gain]) if choose.random() < 0.5 else y


def of_sum(net: Net) -> int:
    """Of two tensors, or of a normalized one, which others read, too."""
    net.x = net.op("ADD", [net.op("TANH", [net.x]), net.op("ABS", [net.x])])
    net.x = flat(net)
    return net.op("ADD", [as_torch(net), net.x])


def placed(net: Net, axes: tuple[int, int], *turned: int, shape: Dims = (2, 6, 1, 1)) -> int:
    """Means of axes of [2, 6, 6, 4], as they stand or transposed, in a shape that broadcasts."""

    def mean(x: int) -> int:
        found = net.op("MEAN", [x, net.constant(np.int32(axes))], keep_dims=True)
        if turned:
            found = net.op("TRANSPOSE", [found, net.constant(np.int32(turned))])
        return net.op("RESHAPE", [found, net.constant(np.int32(shape))])

    less = net.op("SUB", [net.x, mean(net.x)])
    return net.op("MUL", [less, net.scale(mean(net.op("SQUARE", [less])))])


def in_columns(net: Net) -> int:
    return placed(net, (2, 3), shape=(2, 1, 6, 1))


def of_columns(net: Net) -> int:
    return placed(net, (1, 3))


def transposed(net: Net) -> int:
    return placed(net, (3, 3), 0, 2, 1, 3, shape=(2, 6, 6, 1))


def repeated(net: Net) -> int:
    """Each mean is added up three times, not that of the next pixels."""

    def mean(x: int) -> int:
        found = net.over_channels("MEAN", x)
        found = net.op("BROADCAST_TO", [found, net.constant(np.int32((2, 6, 6, 3)))], version=2)
        return net.over_channels("MEAN", found)

    less = net.op("SUB", [net.x, mean(net.x)])
    return net.op("MUL", [less, net.scale(mean(net.op("SQUARE", [less])))])


def of_half_pixels(net: Net) -> int:
    """Two means in each pixel of [2, 6, 6, 4]."""

    def op(name: str, x: int, *numbers: int, **options: int) -> int:
        return net.op(name, [x, net.constant(np.int32(numbers))], **options)

    def wide(x: int) -> int:
        return op("RESHAPE", op("BROADCAST_TO", x, 2, 6, 12, 2, version=2), 2, 6, 6, 4)

    mean = net.over_channels("MEAN", x := op("RESHAPE", net.x, 2, 6, 12, 2))
    scale = net.scale(net.over_channels("MEAN", net.op("SQUARED_DIFFERENCE", [x, mean])))
    y = net.op("MUL", [net.x, wide(scale)])
    return net.op("SUB", [y, wide(net.op("MUL", [mean, scale]))])


def rms_of_sum(net: Net) -> int:
    net.x = net.op("ADD", [net.feed(net.feeds[0].shape), net.x])
    return net.op("ADD", [rms(net), net.op("NEG", [net.x])])


NORMALIZATIONS = (as_torch, as_keras, as_keras_3, flat, rms, l2, residual)
OTHERS = (of_another, not_less_mean, mean_added, over_rows, scale_changed)
MISPLACED = (in_columns, of_columns, transposed, repeated, of_half_pixels)


def check(
    make: Callable[[Net], int], shape: Dims, profile: Profile, one: bool, shader: str = "normalize"
) -> None:
    net = Net(shape)
    content = complete(net, [make(net)])
    kernels = {d.shader for d in plan_of(content, Limits(profile=profile)).dispatches} - {"view"}
    assert (kernels == {shader}) == one
    assert (shader in kernels) == one
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def check_whole(net: Net, *outputs: int) -> None:
    content = complete(net, outputs)
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@pytest.mark.parametrize("shape", SHAPES)
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


@pytest.mark.parametrize("make", MISPLACED)
def test_means_of_other_elements(make: Callable[[Net], int]) -> None:
    net = Net((2, 6, 6, 4))
    check_whole(net, make(net))


@pytest.mark.parametrize("shape", [(2, 6, 5, 8), (1, 30, 7), (3, 12, 2, 129)])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("seed", range(4))
def test_groups_in_one_dispatch(
    seed: int, profile: str, shape: Dims, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, PROFILES[profile])
    normalized = partial(grouped, choose=random.Random(seed), usual=True)
    check(normalized, shape, PROFILES[profile], one=True)


@pytest.mark.parametrize("seed", range(40))
def test_groups_and_what_is_nearly_so(seed: int) -> None:
    choose = random.Random(seed)
    net = Net(choose.choice([(2, 6, 5, 8), (1, 30, 7), (2, 12, 3, 6)]))
    check_whole(net, grouped(net, choose))


@pytest.mark.parametrize("shape", [(2, 3, 5, 33), (1, 7, 64)])
@pytest.mark.parametrize(("make", "count"), [(of_sum, 2), (rms_of_sum, 1)])
def test_sums_of_tensors(make: Callable[[Net], int], count: int, shape: Dims) -> None:
    net = Net(shape)
    content = complete(net, [make(net)])
    plan = plan_of(content, Limits(profile=LLVMPIPE))
    assert sum(d.shader == "normalize" for d in plan.dispatches) == count
    assert "reduce" not in {d.shader for d in plan.dispatches}
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def test_a_mean_that_others_read() -> None:
    net = Net((2, 3, 9))
    check_whole(net, as_keras(net), net.mean())


@dataclass
class Powers:
    """A softmax as exporters of JAX write it, or nearly so.

    Attributes:
        axis: That of the maximum.
        along: That of the sum.
        keep: The sums have a dimension of their own; else a RESHAPE adds it.
        least: What the maximum is compared with; None: nothing.
        peak_of: Calls between the tensor and the maximum.
        power: The function of the differences.
        total: The op that adds up.
        logarithm: Its logarithm, by the difference from that of the sum.
    """

    axis: int = -1
    along: int = -1
    keep: bool = True
    least: float | None = None
    peak_of: tuple[str, ...] = ()
    power: str = "EXP"
    total: str = "SUM"
    logarithm: bool = False

    def __call__(self, net: Net) -> int:
        peak = net.x
        for name in self.peak_of:
            peak = net.op(name, [peak])
        peak = self._over(net, "REDUCE_MAX", peak, self.axis)
        if self.least is not None:
            peak = net.op("MAXIMUM", [net.number(self.least), peak])
        less = net.op("SUB", [net.x, self._wide(net, peak, self.axis)])
        power = net.op(self.power, [less])
        total = self._over(net, self.total, power, self.along)
        if self.logarithm:
            total = net.op("LOG", [total])
        y = (less, "SUB") if self.logarithm else (power, "DIV")
        return net.op(y[1], [y[0], self._wide(net, total, self.along)])

    def _over(self, net: Net, op: str, x: int, axis: int) -> int:
        return net.op(op, [x, net.constant(np.int32([axis]))], keep_dims=self.keep)

    def _wide(self, net: Net, x: int, axis: int) -> int:
        if self.keep:
            return x
        shape = np.int32(net.feeds[0].shape)
        shape[axis] = 1
        return net.op("RESHAPE", [x, net.constant(shape)])


def scaled_powers(net: Net) -> int:
    """As of attention: scaled before, and changed after."""
    net.x = net.op("MUL", [net.x, net.number(0.25)])
    y = Powers(keep=False, least=-np.inf)(net)
    return net.op("MUL", [net.op("ADD", [y, net.number(1)]), net.gain])


SOFTMAXES = {
    "kept": Powers(),
    "flat": Powers(keep=False, least=-np.inf),
    "lowest": Powers(least=float(np.finfo(np.float32).min)),
    "logarithm": Powers(logarithm=True),
    "flat logarithm": Powers(keep=False, logarithm=True),
}
NO_SOFTMAXES = {
    "of another": Powers(peak_of=("TANH",)),
    "over rows": Powers(axis=-2, along=-2),
    "peak over rows": Powers(axis=-2),
    "sum over rows": Powers(along=-2),
    "not less than 0": Powers(least=0.0),
    "mean": Powers(total="MEAN"),
    "largest": Powers(total="REDUCE_MAX"),
    "sine": Powers(power="SIN"),
    "logarithm of a mean": Powers(total="MEAN", logarithm=True),
    "logarithm over rows": Powers(along=-2, logarithm=True),
}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("form", SOFTMAXES)
def test_softmax_in_one_dispatch(
    form: str, profile: str, shape: Dims, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_profile(monkeypatch, PROFILES[profile])
    check(SOFTMAXES[form], shape, PROFILES[profile], one=True, shader="softmax")


@pytest.mark.parametrize("form", NO_SOFTMAXES)
def test_what_is_nearly_a_softmax(form: str) -> None:
    check(NO_SOFTMAXES[form], (2, 6, 5), LLVMPIPE, one=False, shader="softmax")


def test_softmax_within_a_chain() -> None:
    net = Net((2, 6, 5))
    content = complete(net, [scaled_powers(net)])
    kernels = [d.shader for d in plan_of(content, Limits(profile=LLVMPIPE)).dispatches]
    assert "reduce" not in kernels
    assert kernels.count("softmax") == 1
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@pytest.mark.parametrize("form", ["kept", "flat"])
def test_a_softmax_of_masked_rows(form: str) -> None:
    """Of -inf alone, of some, of NaN, of inf."""
    net = Net((5, 6))
    x = np.float32([[1, -np.inf, 2, 3, -np.inf, 4], [-np.inf] * 6, *[[0] * 6] * 3])
    x[2, 3], x[3, 5] = np.nan, np.inf
    net.feeds[0][:] = x
    check_whole(net, SOFTMAXES[form](net))


def test_powers_that_others_read() -> None:
    net = Net((2, 3, 9))
    y = Powers()(net)
    less = net.op("SUB", [net.x, net.over_channels("REDUCE_MAX", net.x)])
    power = net.op("EXP", [less])
    rows = net.op("REDUCE_MAX", [net.x, net.constant(np.int32([-2]))], keep_dims=True)
    largest = net.over_channels("REDUCE_MAX", rows)
    check_whole(net, y, power, net.over_channels("MEAN", power), largest)


def test_a_quotient_by_zero() -> None:
    net = Net((1, 2, 3, 4))
    content = complete(net, [net.op("DIV", [net.x, net.number(0)])])
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds), special=True)


def test_long_chains() -> None:
    """Neither a polynomial nor the dispatches behind it grow without end."""
    net = Net((2, 3))
    double, power = net.x, net.op("TANH", [net.x])
    for _ in range(40):
        double = net.op("ADD", [double, double])
        power = net.op("MUL", [power, power])
    check_whole(net, double, power)
