"""Tensors inside others: where copies are not needed, and where they are."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gles_delegate.ops.lib.views import Copy
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Value
from tests.support.soundness import check_buffers
from tests.unit.test_fusion import Net, shaders

SLICE = 8 * 8 * 16
"""Bytes of a slice of 8 x 8 pixels: a multiple of what allocations are aligned to."""


@pytest.fixture
def net() -> Net:
    return Net()


@pytest.fixture
def even(net: Net) -> Net:
    net.x = net.feed((1, 8, 8, 4))
    return net


def joined(net: Net, *parts: int, axis: int = 3) -> Plan:
    """The plan of a graph that continues with the inputs joined."""
    axes = net.constant(np.array([1, 2], np.int32))
    return net.plan(net.op("MEAN", [net.op("CONCATENATION", parts, axis=axis), axes]))


def test_what_is_joined_is_computed_in_its_place(even: Net) -> None:
    plan = joined(even, *(even.conv(depth=depth) for depth in (8, 4, 3)))
    assert shaders(plan) == ["conv_2d"] * 3 + ["reduce"]
    (outer,) = plan.dispatches[-1].reads
    parts = [dispatch.output for dispatch in plan.dispatches[:3]]
    assert [plan.inside[part] for part in parts] == [(outer, at * SLICE) for at in (0, 2, 3)]
    assert [(d.node, d.fused) for d in plan.dispatches[:3]] == [(i, (3,)) for i in range(3)]
    assert isinstance(outer, Value)
    assert plan.allocations[parts[1]] == plan.allocations[outer].slice(2 * SLICE, SLICE)


def test_what_is_joined_again_lies_in_the_outermost(even: Net) -> None:
    x, y, z = (even.conv() for _ in range(3))
    plan = joined(even, z, even.op("CONCATENATION", [x, y], axis=3))
    assert shaders(plan) == ["conv_2d"] * 3 + ["reduce"]
    assert {outer for outer, _ in plan.inside.values()} == {*plan.dispatches[-1].reads}
    assert sorted(at for _, at in plan.inside.values()) == [0, SLICE, SLICE, 2 * SLICE]


def test_what_is_read_elsewhere_may_lie_in_another_as_well(even: Net) -> None:
    x = even.conv()
    plan = joined(even, x, even.conv(x))
    assert shaders(plan) == ["conv_2d"] * 2 + ["reduce"]


COPIED: dict[str, tuple[int, Callable[[Net], Plan]]] = {
    "inputs": (2, lambda net: joined(net, net.x, net.x)),
    "a second time": (1, lambda net: joined(net, y := net.conv(), y)),
    "into another": (
        1,
        lambda net: net.plan(
            net.op("TANH", [net.op("CONCATENATION", [y := net.conv(), net.conv()], axis=3)]),
            net.op("TANH", [net.op("CONCATENATION", [y, net.conv()], axis=3)]),
        ),
    ),
    "where a texel is shared": (2, lambda net: joined(net, net.conv(depth=3), net.conv(depth=5))),
    "along rows": (2, lambda net: joined(net, *(net.conv(depth=8) for _ in "ab"), axis=1)),
    "outputs": (2, lambda net: net.plan(y := net.conv(), net.op("CONCATENATION", [y, y], axis=3))),
}


@pytest.mark.parametrize(("copies", "build"), COPIED.values(), ids=COPIED)
def test_not_in_its_place(even: Net, copies: int, build: Callable[[Net], Plan]) -> None:
    assert sum(dispatch.partial for dispatch in build(even).dispatches) == copies


def test_not_where_bytes_are_not_aligned(net: Net) -> None:
    plan = joined(net, net.conv(), net.conv())  # 6 x 6 pixels: 576 bytes
    assert [at for _, at in plan.inside.values()] == [0]
    assert sum(dispatch.partial for dispatch in plan.dispatches) == 1


def parts_of(net: Net, x: int, *sizes: int, axis: int = 3) -> range:
    """The parts of a tensor, which is split along an axis."""
    lengths = net.constant(np.array(sizes, np.int32))
    inputs = [x, lengths, net.constant(np.array(axis, np.int32))]
    first = net.op("SPLIT_V", inputs, [None] * len(sizes), num_splits=len(sizes))
    return range(first, first + len(sizes))


def test_ranges_of_channels_are_read_in_place(even: Net) -> None:
    parts = parts_of(even, even.conv(depth=14), 4, 8, 2)
    plan = even.plan(*(even.conv(part, of=of) for part, of in zip(parts, (4, 8, 2), strict=True)))
    assert shaders(plan) == ["conv_2d"] * 4
    first, *others = plan.dispatches
    assert [plan.inside[d.reads[0]] for d in others] == [
        (first.output, at * SLICE) for at in (0, 1, 3)
    ]
    assert (first.node, first.fused) == (0, (1,))


def test_ranges_of_rows_are_read_in_place(even: Net) -> None:
    plan = even.plan(*map(even.conv, parts_of(even, even.conv(), 2, 6, axis=1)))
    assert shaders(plan) == ["conv_2d"] * 3
    assert [at for _, at in plan.inside.values()] == [0, 2 * 8 * 16]


def test_parts_that_are_joined_again_stay_where_they_are(even: Net) -> None:
    """A block of YOLOv8: the last part goes through layers, whose results are appended."""
    first, second = parts_of(even, even.conv(depth=8), 4, 4)
    plan = joined(even, first, second, even.conv(second))
    assert shaders(plan) == ["conv_2d"] * 2 + ["reduce"]
    assert sorted(at for _, at in plan.inside.values()) == [0, SLICE, 2 * SLICE]


def test_parts_in_another_order_are_copied(even: Net) -> None:
    first, second = parts_of(even, even.conv(depth=8), 4, 4)
    assert shaders(joined(even, second, first)).count("view") == 2


def test_an_output_is_joined_in_place(even: Net) -> None:
    plan = even.plan(even.op("CONCATENATION", [even.conv(), even.conv()], axis=3))
    assert [d.partial for d in plan.dispatches if d.node >= 0] == [False] * 2


RANGES_COPIED: dict[str, tuple[int, Callable[[Net], Plan]]] = {
    "within texels": (
        2,
        lambda net: net.plan(
            *(net.conv(part, of=5) for part in parts_of(net, net.conv(depth=10), 5, 5))
        ),
    ),
    "rows of several slices": (
        2,
        lambda net: net.plan(
            *(net.conv(part, of=8) for part in parts_of(net, net.conv(depth=8), 2, 6, axis=1))
        ),
    ),
    "columns": (2, lambda net: net.plan(*map(net.conv, parts_of(net, net.conv(), 2, 6, axis=2)))),
    "inputs": (2, lambda net: net.plan(*map(net.conv, parts_of(net, net.x, 2, 6, axis=1)))),
    "where bytes are not aligned": (
        1,
        lambda net: net.plan(*map(net.conv, parts_of(net, net.conv(), 1, 7, axis=1))),
    ),
}


@pytest.mark.parametrize(("copies", "build"), RANGES_COPIED.values(), ids=RANGES_COPIED)
def test_ranges_that_are_copied(even: Net, copies: int, build: Callable[[Net], Plan]) -> None:
    assert shaders(build(even)).count("view") == copies


def test_memory_decides_for_each_tensor(even: Net) -> None:
    """One concatenation would keep bytes while a large tensor lives, the other does not."""
    first, large = even.conv(), even.conv(depth=80)
    second = even.conv(even.conv(large, of=80), depth=60)
    wide = even.op("CONCATENATION", [first, second], axis=3)
    axes = even.constant(np.array([1, 2], np.int32))
    mean = even.op("MEAN", [wide, axes], keep_dims=True)
    small = even.conv(mean, of=64)
    plan = joined(even, even.op("ADD", [even.conv(), small]), even.conv())
    assert sum(d.partial for d in plan.dispatches) == 2
    assert {outer for outer, _ in plan.inside.values()} == {*plan.dispatches[-1].reads}


def test_functions_read_ranges_in_place(even: Net) -> None:
    first, second = parts_of(even, even.conv(depth=8), 4, 4)
    plan = even.plan(even.op("MUL", [even.op("LOGISTIC", [first]), even.op("TANH", [second])]))
    assert shaders(plan) == ["conv_2d", "elementwise", "elementwise"]


@pytest.mark.parametrize(
    ("indices", "shader"),
    [
        (3, "view"),
        ([2], "view"),
        ([0, 3, 6], "view"),
        ([[7, 6], [5, 4]], "view"),
        ([2, 2], "gather"),
        ([0, 1, 3], "gather"),
    ],
)
def test_evenly_spaced_elements_are_a_view(even: Net, indices: object, shader: str) -> None:
    y = even.op("GATHER", [even.x, even.constant(np.array(indices, np.int32))], axis=2)
    assert shader in shaders(even.plan(y))


def copied_and_computed(net: Net) -> Plan:
    """An input is copied into a tensor, and another part of it is computed there."""
    y = net.conv(depth=8)
    return net.plan(net.op("CONCATENATION", [net.x, y], axis=3))


def test_a_copy_over_another_part_is_unsound(even: Net) -> None:
    plan = copied_and_computed(even)
    dispatches = [
        replace(d, target=replace(d.target, channels=8)) if isinstance(d, Copy) and d.target else d
        for d in plan.dispatches
    ]
    with pytest.raises(AssertionError, match="writes to another part"):
        check_buffers(replace(plan, dispatches=tuple(dispatches)))


def test_memory_that_is_shared_too_early_is_unsound(even: Net) -> None:
    plan = even.plan(even.op("ADD", [even.conv(), even.conv(depth=4)]))
    first, second = (d.output for d in plan.dispatches if d.shader == "conv_2d")
    allocations = {**plan.allocations, second: plan.allocations[first]}
    with pytest.raises(AssertionError, match="overwrites"):
        check_buffers(replace(plan, allocations=allocations))
