"""Pixels that are moved before or after products of single pixels, as in attention in windows."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LLVMPIPE, MIDGARD, NVIDIA
from gles_delegate.ops.lib.views import Copy
from tests.support.force import force_profile
from tests.support.oracle import assert_close, complete, run_gles, run_litert
from tests.support.sketch import Dims, Sketch
from tests.unit.test_plan import plan_of

pytestmark = pytest.mark.usefixtures("floor")


BLOCKS = replace(NVIDIA, blocks=(((4, 1, 8, 16),),))
PROFILES = {"llvmpipe": LLVMPIPE, "midgard": MIDGARD, "blocks": BLOCKS}


class Net(Sketch):
    """A network of reshapes, transpositions and products of single pixels."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(np.random.default_rng(seed))

    def seen(self, shape: Dims) -> int:
        """A tensor that another dispatch computes."""
        return self.op("TANH", [self.feed(shape)])

    def of(self, op: str, x: int, numbers: Sequence[int]) -> int:
        return self.op(op, [x, self.constant(np.int32(numbers))])

    def moved(self, x: int, cut: Dims, order: Sequence[int], shape: Dims) -> int:
        """`x` cut into dimensions, which are put in another order and joined again."""
        return self.of("RESHAPE", self.of("TRANSPOSE", self.of("RESHAPE", x, cut), order), shape)

    def product(self, x: int, channels: int, outputs: int, **options: str) -> int:
        weights = self.constant(self.normal((outputs, channels), 0.3))
        inputs = [x, weights, self.constant(self.normal((outputs,)))]
        return self.op("FULLY_CONNECTED", inputs, keep_num_dims=True, **options)


def attention(net: Net, x: int, heads: int, channels: int, windows: Dims) -> int:
    """Of each window of an image [1, 4, 6, channels], and the image."""
    down, across = windows
    count, inside, each = down * across, 24 // (down * across), channels // heads
    cut = (down, 4 // down, across, 6 // across, channels)
    seen = net.moved(x, cut, (0, 2, 1, 3, 4), (count, inside, channels))
    qkv = net.product(seen, channels, 3 * channels)
    turned = net.of("RESHAPE", qkv, (count, inside, 3, heads, each))
    turned = net.of("TRANSPOSE", turned, (2, 0, 3, 1, 4))
    q, k, v = (
        net.of("RESHAPE", net.op("SLICE", [turned, *map(net.constant, part)]), size)
        for part, size in zip(
            [np.int32(((i, 0, 0, 0, 0), (1, count, heads, inside, each))) for i in range(3)],
            [(count, heads, inside, each)] * 3,
            strict=True,
        )
    )
    scores = net.op("BATCH_MATMUL", [q, net.of("TRANSPOSE", k, (0, 1, 3, 2))])
    y = net.op("BATCH_MATMUL", [net.op("SOFTMAX", [scores], beta=1.0), v])
    y = net.moved(y, (count, heads, inside, each), (0, 2, 1, 3), (count, inside, channels))
    y = net.product(y, channels, channels)
    cut = (down, across, 4 // down, 6 // across, channels)
    return net.op("ADD", [net.moved(y, cut, (0, 2, 1, 3, 4), (1, 4, 6, channels)), x])


@pytest.mark.parametrize("windows", [(1, 1), (2, 1), (1, 3), (2, 3)], ids=str)
@pytest.mark.parametrize(("heads", "channels"), [(2, 8), (3, 24), (2, 6)])
def test_attention_in_windows(heads: int, channels: int, windows: Dims) -> None:
    """Products read heads of whole slices in place, and one copy joins them."""
    net = Net()
    y = attention(net, net.feed((1, 4, 6, channels)), heads, channels, windows)
    content = complete(net, [y])
    limits = Limits(profile=LLVMPIPE)
    shaders = [d.shader for d in plan_of(content, limits).dispatches]
    assert shaders.count("view") == 3 or channels <= 4 * heads  # two are of the ends
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def test_a_product_of_pixels_in_reverse() -> None:
    """The copy before it begins with the last pixel, and moves behind it."""
    net = Net()
    x = net.product(net.feed((3, 5, 8)), 8, 8)
    turned = net.of("REVERSE_V2", net.op("ADD", [x, net.seen((3, 5, 8))]), [0])
    y = net.of("TRANSPOSE", net.product(turned, 8, 12), (1, 0, 2))
    content = complete(net, [y])
    plan = plan_of(content, Limits(profile=LLVMPIPE))
    assert any(d.output.name == "of all pixels" for d in plan.dispatches)
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@pytest.mark.parametrize("seed", range(60))
def test_random_products_of_parts(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of tensors that are cut, turned, spread over images and scaled, or not."""
    force_profile(monkeypatch, [*PROFILES.values()][seed % len(PROFILES)])
    choose, net = random.Random(seed), Net(seed)
    heads, each = choose.choice((1, 2, 3)), choose.choice((4, 8, 8, 3, 6))
    images, down, across = choose.choice((1, 2)), choose.choice((1, 2)), choose.choice((3, 5))
    rows = down * across

    def part(adjoint: bool, turned: bool, spread: bool) -> int:
        """[images, heads, rows, each], or the transposed matrices."""
        channels = heads * each * choose.choice((1, 2))
        shape = (1 if spread else images, across, down, channels)
        if choose.random() < 0.3:
            x = net.of("TRANSPOSE", net.seen((shape[0], channels, across, down)), (0, 2, 3, 1))
        else:
            x = choose.choice((net.feed, net.seen, net.seen))(shape)
        if channels > heads * each:
            begin = (0, 0, 0, choose.choice((0, heads * each, 1)))
            size = (1 if spread else images, across, down, heads * each)
            x = net.op("SLICE", [x, *(net.constant(np.int32(n)) for n in (begin, size))])
        order = choose.choice(((0, 3, 2, 1, 4), (0, 3, 1, 2, 4)))
        if turned != adjoint:
            order = (*order[:2], 4, *order[2:4])
        cut = (1 if spread else images, across, down, heads, each)
        matrix = (each, rows) if turned != adjoint else (rows, each)
        x = net.moved(x, cut, order, (cut[0], heads, *matrix))
        scale = net.constant(np.float32(choose.choice((0.25, -3.0))))
        match choose.choice(("", "MUL", "DIV", "ADD", "RELU6")):
            case "":
                return x
            case "RELU6":
                return net.op("RELU6", [x])
            case op:
                return net.op(op, [x, scale])

    first, second = choose.random() < 0.3, choose.random() < 0.5
    a = part(first, False, False)
    b = part(second, True, choose.random() < 0.3)
    y = net.op("BATCH_MATMUL", [a, b], adj_x=first, adj_y=second)
    kept = [a] if choose.random() < 0.2 else []
    y = net.op("RELU", [y]) if choose.random() < 0.5 else y
    content = complete(net, [y, *kept])
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def lanes_of_another(net: Net) -> list[int]:
    """Six of twelve channels, whose last slice has two others."""
    sliced = [np.int32(n) for n in ((0, 0, 0), (2, 5, 6))]
    return [net.op("SLICE", [net.seen((2, 5, 12)), *map(net.constant, sliced)]) for _ in "ab"]


def rows_of_three(net: Net) -> list[int]:
    """Rows in an order that takes three dimensions."""
    cut = (2, 2, 3, 4, 8)
    return [net.moved(net.seen((2, 24, 8)), cut, (0, 3, 2, 1, 4), (2, 24, 8)) for _ in "ab"]


def rows_across(net: Net) -> list[int]:
    """Rows that begin in the middle of another's elements."""
    sliced = [np.int32(n) for n in ((0, 0, 0), (2, 4, 12))]
    a, b = (net.op("SLICE", [net.seen((2, 4, 16)), *map(net.constant, sliced)]) for _ in "ab")
    return [net.of("RESHAPE", each, (2, 6, 8)) for each in (a, b)]


def padded(net: Net) -> list[int]:
    pads = net.constant(np.int32(((0, 0), (1, 2), (0, 0))))
    return [net.op("PAD", [net.seen((2, 3, 4)), pads]) for _ in "ab"]


def divided(net: Net) -> list[int]:
    """Numbers divided by the elements."""
    one = net.constant(np.float32(1))
    positive = [net.op("EXP", [net.seen((5, 2, 8))]) for _ in "ab"]
    return [net.op("DIV", [one, net.of("TRANSPOSE", x, (1, 0, 2))]) for x in positive]


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("make", [lanes_of_another, rows_of_three, rows_across, padded, divided])
def test_parts_that_are_no_matrices(make: Callable[[Net], list[int]], adjoint: bool) -> None:
    net = Net()
    a, b = make(net)
    if not adjoint:
        b = net.of("TRANSPOSE", b, (0, 2, 1))
    content = complete(net, [net.op("BATCH_MATMUL", [a, b], adj_y=adjoint)])
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


def rolled(net: Net, x: int, shape: Dims, axis: int, by: int, kind: str) -> tuple[int, Dims]:
    """Two parts along an axis that change places; or nearly so."""

    def part(x: int, begin: int, size: int) -> int:
        starts = [begin if i == axis else 0 for i in range(4)]
        sizes = [size if i == axis else n for i, n in enumerate(shape)]
        return net.op("SLICE", [x, *(net.constant(np.int32(n)) for n in (starts, sizes))])

    length = shape[axis]
    first, second = part(x, by, length - by), part(x, 0, by)
    if kind == "of two":
        second = part(net.seen(shape), 0, by)
    elif kind == "in place":
        first, second = part(x, 0, length - by), part(x, length - by, by)
    elif kind == "apart":
        ends = [2 * by if i == axis else n for i, n in enumerate(shape)]
        steps = [1 + (i == axis) for i in range(4)]
        places = (net.constant(np.int32(n)) for n in ([0] * 4, ends, steps))
        second = net.op("STRIDED_SLICE", [x, *places])
    elif kind == "twice":
        second = part(x, length - by, by)
    elif kind == "changed":
        second = net.op("NEG", [second])
    elif kind == "longer":
        first = part(x, by - 1, length - by + 1)
    result = net.op("CONCATENATION", [first, second], axis=axis)
    return result, tuple(n + (kind == "longer" and i == axis) for i, n in enumerate(shape))


KINDS = ("", "of two", "in place", "apart", "twice", "changed", "longer")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("channels", [8, 3])
def test_rolls(kind: str, channels: int) -> None:
    """Of rows, columns, images and channels, and of rows and columns after each other."""
    net = Net()
    shape: Dims = (2, 5, 4, channels)
    outputs = []
    for axis in (0, 1, 2, 3, 1):
        x, size = rolled(net, net.seen(shape), shape, axis, 1 if axis == 0 else 2, kind)
        if len(outputs) > 3:
            x, size = rolled(net, x, size, 2, 2, kind)
        outputs.append(net.op("ADD", [x, net.constant(net.normal(size))]))
    content = complete(net, outputs)
    if not kind and channels == 8:
        limits = Limits(profile=LLVMPIPE)
        dispatches = plan_of(content, limits).dispatches
        copies = [d for d in dispatches if isinstance(d, Copy) and d.layout.mirror == "WRAP"]
        assert len(copies) == 5
        assert sum(d.epilogue[0].function == "ADD" for d in copies if d.epilogue) == 4
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))


@dataclass
class Draw:
    """A tensor of four dimensions, and what is done to it."""

    net: Net
    choose: random.Random
    x: int
    shape: Dims

    def copy(self) -> Draw:
        """Whole pixels, some of them, or channels, in another order."""
        net, (a, b, c, d) = self.net, self.shape
        match self.choose.choice(
            ("turned", "turned", "cut", "channels", "part", "some channels", "shifted")
        ):
            case "turned":
                return self.turned(self.choose.choice(((1, 0, 2, 3), (0, 2, 1, 3), (2, 1, 0, 3))))
            case "cut" if b % 2 == 0:
                x = net.moved(self.x, (a, 2, b // 2, c, d), (0, 2, 3, 1, 4), self.shape)
                return replace(self, x=x)
            case "part" if b > 1:
                return self.part((0, 1, 0, 0), (a, b - 1, c, d))
            case "some channels" if d > 4:
                return self.part((0, 0, 0, 4), (a, b, c, d - 4))
            case "shifted" if count := a * b * c - 1:
                x = Draw(net, self.choose, net.of("RESHAPE", self.x, (count * d + d,)), ())
                x = x.part((d // 2,), (count * d,))
                return replace(
                    self, x=net.of("RESHAPE", x.x, shape := (1, 1, count, d)), shape=shape
                )
            case "channels":
                return self.turned(self.choose.choice(((0, 1, 3, 2), (0, 3, 2, 1))))
        return self

    def turned(self, order: Sequence[int]) -> Draw:
        x = self.net.of("TRANSPOSE", self.x, order)
        return replace(self, x=x, shape=tuple(self.shape[i] for i in order))

    def part(self, begin: Dims, size: Dims) -> Draw:
        numbers = (self.net.constant(np.int32(each)) for each in (begin, size))
        return replace(self, x=self.net.op("SLICE", [self.x, *numbers]), shape=size)

    def product(self) -> Draw:
        outputs = self.choose.choice((8, 12, 6))
        x = self.net.product(self.x, self.shape[-1], outputs)
        return replace(self, x=x, shape=(*self.shape[:-1], outputs))

    def after(self) -> Draw:
        """Nothing, an activation, or the sum with a tensor of some of its dimensions."""
        net, kind = self.net, self.choose.choice(("", "", "RELU", "row", "whole", "pixels"))
        _, b, c, d = self.shape
        sizes = {"row": (d,), "whole": self.shape, "pixels": (1, b, c, 1)}
        if kind in sizes:
            operand = net.operand(sizes[kind], constant=self.choose.random() < 0.5)
            return replace(self, x=net.op("ADD", [self.x, operand]))
        return replace(self, x=net.op(kind, [self.x])) if kind else self


@pytest.mark.parametrize("seed", range(150))
def test_random_moves_around_products(seed: int) -> None:
    """A copy, a product and one copy or two, then a product and a copy, some of them read twice."""
    choose, net = random.Random(seed), Net(seed)
    shape: Dims = (2, 4, 3, 8)
    x = Draw(net, choose, net.feed(shape), shape)
    alone = x.copy().after().product().after().copy().after()
    first = x.copy().after()
    product = first.product().after()
    second = product.copy().after()
    ends = [second.copy(), product.copy().after(), second.product().after().copy().after()]
    more = choose.choice(([], [first], [product], [second]))
    content = complete(net, [*dict.fromkeys(draw.x for draw in (alone, *ends, *more))])
    assert_close(run_gles(content, net.feeds), run_litert(content, net.feeds))
