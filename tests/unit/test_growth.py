"""The graphs of tools/growth: calls and memory of planning grow with the nodes, and no faster."""

from __future__ import annotations

import runpy
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from gles_delegate.dispatch import Value
from gles_delegate.model.graph import Graph, Node, Tensor
from gles_delegate.planning.memory import ALIGNMENT, Allocation, LiveRanges, allocate
from gles_delegate.planning.partition import find_segments

TOOL = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "growth"))
SMALL, LARGE = 100, 400
DISPATCHES = {
    "convolutions": 400,
    "chain": 200,
    "residual": 200,
    "tree": 57,
    "concatenation": 400,
    "outputs": 400,
    "composites": 25,
    "alternating": 200,
}


@contextmanager
def counted() -> Iterator[list[int]]:
    """Counts the calls of functions, those in C too."""
    calls = [0]

    def note(frame: object, event: str, argument: object) -> None:
        calls[0] += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@pytest.mark.parametrize("graph", DISPATCHES)
def test_calls_grow_with_the_nodes(graph: str) -> None:
    build: Callable[[int], bytes] = TOOL["GRAPHS"][graph]
    models = build(SMALL), build(LARGE)
    TOOL["plan_of"](build(2))
    counts = []
    for model in models:
        with counted() as calls:
            dispatches = TOOL["plan_of"](model)
        counts.append(calls[0])
    assert dispatches == DISPATCHES[graph]
    assert counts[1] < 1.1 * LARGE / SMALL * counts[0]


def test_memory_grows_with_a_chain() -> None:
    peaks = []
    for nodes in (SMALL, LARGE):
        model = TOOL["GRAPHS"]["chain"](nodes)
        tracemalloc.start()
        TOOL["plan_of"](model)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * LARGE / SMALL * peaks[0]


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
        first = int(rng.integers(0, 30))
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


def sweeps(graph: Graph, on_cpu: set[int]) -> list[tuple[int, ...]]:
    """LiteRT's way: by turns, all nodes of one side whose inputs are ready, in one sweep."""
    pending, done = [*graph.nodes], set[int]()
    segments = []
    while pending:
        turn, taken = pending[0].index in on_cpu, list[Node]()
        for node in pending:
            if (node.index in on_cpu) == turn and done.issuperset(node.inputs):
                taken.append(node)
                done.update(node.outputs)
        pending = [node for node in pending if node not in taken]
        if not turn:
            segments.append(tuple(node.index for node in taken))
    return segments


@pytest.mark.parametrize("seed", range(40))
def test_segments_are_as_by_sweeps(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = []
    for i in range(50):
        inputs = rng.integers(max(0, i - 9), i, min(i, 2)) if i else ()
        nodes.append(Node(i, "ADD", 1, tuple(map(int, inputs)), (i,)))
    tensors = tuple(Tensor(i, "", "float32", (1,), ()) for i in range(50))
    graph = Graph(tensors, tuple(nodes), (), ())
    on_cpu = set(map(int, rng.choice(50, int(rng.integers(0, 50)), replace=False)))
    assert find_segments(graph, on_cpu) == sweeps(graph, on_cpu)
