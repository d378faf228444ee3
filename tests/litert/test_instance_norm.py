"""Instance normalizations, whose squares are summed where they are computed."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.hosts import both_hosts
from tests.support.oracle import assert_close, assert_sane, complete, in_ours, run, run_litert
from tests.support.sketch import Sketch

AXES = {"pixels": [1, 2], "rows": [1], "columns": [2], "images": [0], "images, rows": [0, 1]}


def summed(delegate: gd.GpuDelegate) -> int:
    """How many dispatches sum squares of differences."""
    segments = delegate.bound.first.prepared
    return sum(d.defines.get("SQUARES") == 1 for s in segments for d in s.require().plan.dispatches)


def check(net: Sketch, outputs: list[int], count: int, host: Any = in_ours, **options: Any) -> None:
    content = complete(net, outputs)
    with gd.GpuDelegate(gd.GpuDelegateOptions(**options), model=content) as delegate:
        results = run(host(delegate, content), net.feeds)
        assert_sane(delegate)
        if host is in_ours:
            assert summed(delegate) == count
    assert_close(results, run_litert(content, net.feeds), inputs=net.feeds)


def moments(net: Sketch, x: int, axes: list[int], swapped: bool = False) -> tuple[int, int]:
    """The mean, and the mean of the squares of the differences from it."""
    along = net.constant(np.array(axes, np.int32))
    mean = net.op("MEAN", [x, along], keep_dims=True)
    squares = net.op("SQUARED_DIFFERENCE", [mean, x] if swapped else [x, mean])
    return mean, net.op("MEAN", [squares, along], keep_dims=True)


@both_hosts
@pytest.mark.parametrize(
    "shape", [(1, 6, 7, 5), (3, 9, 4, 8), (1, 31, 29, 6), (2, 33, 18, 3), (2, 5, 4, 1)], ids=str
)
def test_squares_are_summed_where_they_are_computed(shape: tuple[int, ...], host: Any) -> None:
    net = Sketch(np.random.default_rng(0))
    x = net.feed(shape, scale=3)
    mean, variance = moments(net, x, [1, 2], swapped=shape[0] == 2)
    epsilon = net.constant(np.float32(1e-3).reshape(()))
    scale = net.op("RSQRT", [net.op("ADD", [variance, epsilon])])
    scale = net.op("MUL", [scale, net.constant(net.normal(shape[-1:]))])
    offset = net.op("SUB", [net.constant(net.normal(shape[-1:])), net.op("MUL", [mean, scale])])
    y = net.op("RELU", [net.op("ADD", [net.op("MUL", [x, scale]), offset])])
    check(net, [y], 1, host)


@pytest.mark.parametrize("of", AXES)
@pytest.mark.parametrize("over", AXES)
@pytest.mark.parametrize("shape", [(2, 6, 5, 7), (4, 4, 4, 4), (1, 4, 4, 8)], ids=str)
def test_along_any_axes(shape: tuple[int, ...], of: str, over: str) -> None:
    """Of a mean along some axes, the squares along others."""
    net = Sketch(np.random.default_rng(0))
    x = net.feed(shape)
    mean = net.op("MEAN", [x, net.constant(np.array(AXES[of], np.int32))], keep_dims=True)
    squares = net.op("SQUARED_DIFFERENCE", [x, mean])
    along = net.constant(np.array(AXES[over], np.int32))
    content = complete(net, [net.op("SUM", [squares, along], keep_dims=True)])
    with gd.GpuDelegate(model=content) as delegate:
        results = run(in_ours(delegate, content), net.feeds)
        assert_sane(delegate)
    assert_close(results, run_litert(content, net.feeds), inputs=net.feeds)


def test_not_where_the_squares_are_read_elsewhere() -> None:
    net = Sketch(np.random.default_rng(0))
    x, along = net.feed((1, 6, 7, 5)), net.constant(np.array([1, 2], np.int32))
    mean = net.op("MEAN", [x, along], keep_dims=True)
    squares = net.op("SQUARED_DIFFERENCE", [x, mean])
    check(net, [net.op("MEAN", [squares, along]), squares], 0)


@pytest.mark.parametrize("case", ["largest", "after a function", "of one channel", "of itself"])
def test_not_of_these(case: str) -> None:
    net = Sketch(np.random.default_rng(0))
    x, along = net.feed((1, 6, 7, 5)), net.constant(np.array([1, 2], np.int32))
    mean = x if case == "of itself" else net.op("MEAN", [x, along], keep_dims=True)
    if case == "of one channel":
        mean = net.feed((1, 1, 1, 1))
    squares = net.op("SQUARED_DIFFERENCE", [x, mean])
    if case == "after a function":
        squares = net.op("TANH", [squares])
    kind = "REDUCE_MAX" if case == "largest" else "MEAN"
    check(net, [net.op(kind, [squares, along])], 0)


def test_of_a_float16_tensor() -> None:
    net = Sketch(np.random.default_rng(0))
    _, variance = moments(net, net.feed((2, 33, 18, 8)), [1, 2])
    content = complete(net, [variance])
    with gd.GpuDelegate(gd.GpuDelegateOptions(precision_loss_allowed=True)) as delegate:
        (result,) = run(in_ours(delegate, content), net.feeds)
        assert_sane(delegate)
    (expected,) = run_litert(content, net.feeds)
    np.testing.assert_allclose(result, expected, rtol=5e-3)
