"""Where values lie: what lives together lies apart, and little more memory than that is taken."""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.memory import (
    ALIGNMENT,
    Allocation,
    Extents,
    LiveRanges,
    allocate,
    live_bytes,
)
from gles_delegate.planning.partition import choose_partitions
from gles_delegate.planning.plan import make_plan
from gles_delegate.shaders.dispatch import Value
from tests.support.models import OTHER_MODELS, REAL_MODELS
from tests.unit.test_plan import FLOOR, ROOMY

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/models/*.tflite"))


def lives_of(*rows: tuple[int, int, int]) -> dict[Value, tuple[int, int]]:
    """Values of some texels, each with its first and its last dispatch."""
    return {Value(i, (texels, 4)): (begin, end) for i, (texels, begin, end) in enumerate(rows)}


def overlap(one: Allocation, other: Allocation) -> bool:
    same = one.buffer == other.buffer
    return same and one.offset < other.end and other.offset < one.end


def check(lives: LiveRanges) -> int:
    """Bytes taken, after a look at every allocation."""
    buffers, allocations = allocate(lives)
    assert allocations.keys() == lives.keys()
    for value, allocation in allocations.items():
        assert allocation.offset % ALIGNMENT == 0
        assert allocation.size == max(value.nbytes, 16)
        assert allocation.end <= buffers[allocation.buffer]
    for value, other in combinations(lives, 2):
        (first, last), (begin, end) = lives[value], lives[other]
        if first <= end and begin <= last:
            assert not overlap(allocations[value], allocations[other])
    return sum(buffers)


def test_values_that_never_live_together_share_bytes() -> None:
    lives = lives_of((64, 0, 1), (32, 1, 2), (64, 2, 3), (16, 3, 4))
    assert check(lives) == max(live_bytes(lives)) == 96 * 16


def test_small_values_lie_side_by_side_where_a_large_one_was() -> None:
    lives = lives_of((64, 0, 1), (32, 1, 3), (32, 2, 3), (32, 2, 3))
    assert check(lives) == max(live_bytes(lives)) == 96 * 16


def test_what_lives_all_the_time_has_a_buffer_of_its_own() -> None:
    lives = lives_of((1, -1, 3), (64, 0, 1), (3, -1, 3), (64, 1, 2))
    buffers, allocations = allocate(lives)
    assert buffers == (16, 48, 2 * 64 * 16)
    assert [allocations[value].buffer for value in lives] == [0, 2, 1, 2]
    check(lives)


def test_no_place_is_empty() -> None:
    assert check(lives_of((0, 0, 0))) == 16
    assert allocate({}) == ((), {})


@pytest.mark.parametrize("seed", range(20))
def test_extents_overlap_what_an_allocation_in_them_does(seed: int) -> None:
    rng = np.random.default_rng(seed)
    extents, added = Extents(), list[Allocation]()
    for _ in range(60):
        buffer, offset, size = map(int, rng.integers((0, 0, 1), (2, 400, 20)))
        one = Allocation(buffer, offset, size)
        assert extents.overlap(one) == any(overlap(one, other) for other in added)
        if rng.random() < 0.5:
            extents.add(one)
            added.append(one)


def check_model(content: bytes, limits: Limits) -> None:
    lowered = lower_graph(read_model(content), limits)
    for segment in choose_partitions([lowered], 9)[0].segments:
        plan = make_plan(lowered, segment, limits)
        assert plan.peak_bytes <= sum(plan.buffers) <= 1.1 * plan.peak_bytes
        check(plan.live_ranges)


@pytest.mark.parametrize("limits", [FLOOR, ROOMY], ids=["floor", "roomy"])
@pytest.mark.parametrize("name", [*REAL_MODELS, *OTHER_MODELS])
def test_models_take_little_more_than_lives_at_once(
    name: str, limits: Limits, real_model: Callable[[str], bytes]
) -> None:
    check_model(real_model(name), limits)


@pytest.mark.parametrize("limits", [FLOOR, ROOMY], ids=["floor", "roomy"])
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_example_models_take_little_more_than_lives_at_once(file: Path, limits: Limits) -> None:
    check_model(file.read_bytes(), limits)


def first_fit(values: list[Value], lives: LiveRanges) -> dict[Value, Allocation]:
    """Each value at the lowest aligned offset where it meets no other, one after the other."""
    placed: dict[Value, Allocation] = {}
    for value in values:
        first, last = lives[value]
        near = [a for v, a in placed.items() if lives[v][0] <= last and first <= lives[v][1]]
        ends = sorted(-(-a.end // ALIGNMENT) * ALIGNMENT for a in near)
        candidates = (Allocation(0, offset, max(value.nbytes, 16)) for offset in (0, *ends))
        placed[value] = next(
            c for c in candidates if all(c.end <= a.offset or a.end <= c.offset for a in near)
        )
    return placed


@pytest.mark.parametrize("seed", range(40))
def test_each_value_lies_in_the_first_gap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    lives: dict[Value, tuple[int, int]] = {}
    for i in range(60):
        first = int(rng.integers(-1, 30))
        lives[Value(i, (int(rng.integers(0, 90)), 4))] = first, first + int(rng.integers(0, 12))
    end = max(last for _, last in lives.values())

    def breadth(value: Value) -> tuple[int, int]:
        first, last = lives[value]
        at = (
            sum(v.nbytes for v, (a, b) in lives.items() if a <= i <= b)
            for i in range(first, min(last, end) + 1)
        )
        return -max(at), -value.nbytes

    orders = sorted(lives, key=breadth), sorted(lives, key=lambda value: lives[value])
    expected = min(
        (first_fit(order, lives) for order in orders),
        key=lambda placed: max(allocation.end for allocation in placed.values()),
    )
    assert allocate(lives)[1] == expected
    assert check(lives) >= max(live_bytes(lives))
