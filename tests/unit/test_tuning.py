"""Products that choose kernels together, and what is measured of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, cycle, repeat
from typing import Any, cast

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import NVIDIA, Profile
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import plan_alone, products_of
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.tuning import Group, _Trial, groups_of, timed_in_turn
from gles_delegate.shaders.dispatch import Dispatch, Grid, Value
from tests.support.sketch import Sketch

PROFILE = replace(NVIDIA, blocks=((),), window_blocks=((),), winograd=(0,))


class Network(Sketch):
    """Convolutions of images of 12 x 12 pixels after each other."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.last = self.input((1, 12, 12, 8))

    def convolve(self, outputs: int, size: int = 1, depthwise: bool = False) -> Network:
        channels = self.tensors[self.last]["shape"][-1]
        shape = (1, size, size, channels) if depthwise else (outputs, size, size, channels)
        self.last = self.op(
            "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D",
            [self.last, self.constant(self.normal(shape)), self.constant(self.normal((outputs,)))],
            [(1, 12, 12, outputs)], stride_h=1, stride_w=1,
        )  # fmt: skip
        return self

    def groups(self, profile: Profile = PROFILE) -> list[Group]:
        limits = Limits(profile=profile, invocations=1024, shared_bytes=49152)
        lowered = lower_graph(read_model(self.build([self.last])), limits)
        return groups_of(*products_of(lowered, lowered.steps, limits, half=False))


def test_equal_products_choose_together() -> None:
    groups = Network().convolve(8).convolve(8).convolve(24).convolve(8).groups()
    assert [group.nodes for group in groups] == [[0, 1], [2], [3]]


def test_what_is_the_same_kernel_is_no_choice() -> None:
    (group,) = Network().convolve(8, 3).groups(replace(PROFILE, windows=((4, 1), (2, 1), (4, 1))))
    assert [*group.kernels] == [0, 1]
    one = replace(PROFILE, windows=((4, 1),), shared_sums=(True,))
    assert not Network().convolve(8, 3).groups(one)


def test_products_that_one_dispatch_may_compute_choose_together() -> None:
    """The first choice has one for each, and the second for both."""
    profile = replace(PROFILE, blocks=((), ((4, 1, 8, 16),)))
    (group,) = Network().convolve(8, 3, depthwise=True).convolve(64).groups(profile)
    assert group.nodes == [1]
    shaders = [[dispatch.shader for dispatch in kernel] for kernel in group.kernels.values()]
    assert shaders[:2] == [["depthwise_conv_2d", "conv_2d"], ["block_product"]]


def test_a_plan_of_kernels_has_nothing_else() -> None:
    (group, _) = Network().convolve(8).convolve(12, 3).groups()
    for kernel in group.kernels.values():
        plan = plan_alone(kernel)
        assert [dispatch.node for dispatch in plan.dispatches] == [0]
        assert not plan.inputs
        assert {*plan.allocations} >= {plan.dispatches[0].reads[0], plan.dispatches[0].output}


OUTPUT = Value(0, (1, 8, 8, 4))


def dispatch(node: int, tile: int) -> Dispatch:
    return Dispatch(node, "any", (), OUTPUT, Grid(1, 1, 1, 1), {"TILE": tile})


class Clocked:
    """A session whose dispatches take so many cycles each, and the clock that several have."""

    def __init__(self, clock: Iterator[float], *cycles: float) -> None:
        self.cycles = cycles
        self.clock = clock

    def measure(self) -> float:
        return sum(self.cycles) / next(self.clock)

    def profile(self) -> list[tuple[None, float]]:
        frequency = next(self.clock)
        return [(None, cycles / frequency) for cycles in self.cycles]


CLOCKS: dict[str, Callable[[], Iterator[float]]] = {
    "steady": lambda: repeat(1000.0),
    "low at first": lambda: chain(repeat(345.0, 6), repeat(1980.0)),
    "falling": lambda: chain((1335.0 - 9 * call for call in range(50)), repeat(885.0)),
    "jumping": lambda: cycle([1980.0] * 9 + [885.0] * 6),
}


@pytest.mark.parametrize("clock", CLOCKS)
def test_times_are_of_one_clock(clock: str) -> None:
    """Of the second and third group: the first has no other kernel."""
    ticks = CLOCKS[clock]()
    kernels = [{0: [1]}, {0: [1, 2], 1: [1]}, {0: [1], 1: [1, 2]}]
    groups = [
        Group({c: [dispatch(i, t) for t in tiles] for c, tiles in each.items()})
        for i, each in enumerate(kernels)
    ]
    sessions = Clocked(ticks, 5, 30, 20, 10), Clocked(ticks, 40, 5, 10)
    first, other = (
        _Trial(cast(Session, cast(Any, session)), groups, choice)
        for choice, session in enumerate(sessions)
    )
    times = timed_in_turn(first, other)
    ratios = {i: after / before for i, (before, after) in times.items()}
    assert ratios == pytest.approx({1: 0.8, 2: 1.5}, rel=0.01)
