"""Which nodes run on the GPU, and in which segments."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Graph, Node, Tensor
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.partition import Partition, choose_partitions, find_segments
from gles_delegate.planning.plan import make_plan
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 4)


def partition(b: ModelBuilder, outputs: Sequence[int], **options: int) -> Partition:
    lowered = lower_graph(read_model(b.build(outputs)), Limits())
    return choose_partitions([lowered], **options)[0]


def on_cpu(b: ModelBuilder, x: int) -> int:
    """A node of a type that the GPU lacks, and one that goes back."""
    wide = b.op("CAST", [x], [b.tensor(SHAPE, np.float64)])
    return b.op("CAST", [wide], [b.tensor(SHAPE)])


def chain(b: ModelBuilder, x: int, length: int) -> int:
    for _ in range(length):
        x = b.op("ABS", [x], [SHAPE])
    return x


def handle(b: ModelBuilder, name: str) -> int:
    return b.op("VAR_HANDLE", [], [b.tensor((), "resource")], shared_name=name)


def first_value(b: ModelBuilder, name: str) -> list[int]:
    b.op("ASSIGN_VARIABLE", [handle(b, name), b.constant(np.zeros(SHAPE, np.float32))], [])
    return []


def test_a_variable_on_the_cpu_takes_no_other_there() -> None:
    """One of two inputs is read before and after a node on the CPU."""
    b = ModelBuilder()
    for name in ("one", "other"):
        b.op(
            "CALL_ONCE", [], [], init_subgraph_index=b.subgraph(lambda s, n=name: first_value(s, n))
        )
    x = b.op("READ_VARIABLE", [handle(b, "one")], [b.tensor(SHAPE)])
    b.op("ASSIGN_VARIABLE", [handle(b, "one"), on_cpu(b, x)], [])
    y = b.op("READ_VARIABLE", [handle(b, "other")], [b.tensor(SHAPE)])
    y = b.op("ADD", [y, b.input(SHAPE)], [SHAPE])
    b.op("ASSIGN_VARIABLE", [handle(b, "other"), y], [])
    actual = partition(b, [y], most=9)
    ops = [node.op for node in read_model(b.build([y])).nodes]
    assert {i for i, op in enumerate(ops) if op == "CALL_ONCE"} - {*actual.reasons} == {1}
    assert actual.reasons[0] == "the variable 'one' is on the CPU"
    assert {*range(8, len(ops))} <= {i for segment in actual.segments for i in segment}


def test_a_first_value_that_is_computed_stays_on_the_cpu() -> None:
    def computed(b: ModelBuilder) -> list[int]:
        value = chain(b, b.constant(np.zeros(SHAPE, np.float32)), 1)
        b.op("ASSIGN_VARIABLE", [handle(b, "one"), value], [])
        return []

    b = ModelBuilder()
    b.op("CALL_ONCE", [], [], init_subgraph_index=b.subgraph(computed))
    y = b.op("READ_VARIABLE", [handle(b, "one")], [b.tensor(SHAPE)])
    reasons = partition(b, [y], most=9).reasons
    assert "its subgraph has ABS; expected only constants assigned" in reasons[0]


@pytest.mark.parametrize(("most", "taken"), [(0, []), (1, [1]), (2, [0, 1]), (None, [0, 1, 2])])
def test_the_largest_segments_are_taken(most: int | None, taken: list[int]) -> None:
    b = ModelBuilder()
    x = b.input(SHAPE)
    for length in (2, 3, 1):
        x = chain(b, on_cpu(b, x), length)
    segments = ((2, 3), (6, 7, 8), (11,))
    actual = partition(b, [x], most=most)
    assert actual.segments == tuple(segments[i] for i in taken)
    left = {i for k, segment in enumerate(segments) if k not in taken for i in segment}
    assert {i for i, why in actual.reasons.items() if "3 segments" in why} == left


def test_a_range_has_its_first_and_last_node() -> None:
    b = ModelBuilder()
    actual = partition(b, [chain(b, b.input(SHAPE), 5)], first=1, last=3)
    assert actual.segments == ((1, 2, 3),)
    assert [*actual.reasons] == [0, 4]


def test_a_folded_node_follows_the_node_that_reads_it() -> None:
    """To the CPU if one there reads its result, and only then."""
    b = ModelBuilder()
    x = b.input(SHAPE)
    constants = [b.op("NEG", [b.constant(np.ones(SHAPE, np.float32))], [SHAPE]) for _ in "ab"]
    custom = b.op("Mine", [constants[0]], [SHAPE])
    y = b.op("ADD", [x, constants[1]], [SHAPE])
    actual = partition(b, [custom, y])
    assert (actual.segments, actual.folded) == (((1, 3),), {1})
    assert actual.reasons[0] == "its result is a constant that a node on the CPU reads"


def test_a_segment_of_nothing_but_users_of_a_variable() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE)
    b.op("ASSIGN_VARIABLE", [handle(b, "state"), x], [])
    y = b.op("READ_VARIABLE", [handle(b, "state")], [b.tensor(SHAPE)])
    actual = partition(b, [y])
    assert (actual.segments, actual.reasons) == (((0, 1, 2, 3),), {})


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


def mixed(nodes: int) -> bytes:
    """Residual blocks with a node on the CPU between two, and a concatenation of all results."""
    b = ModelBuilder()
    x, parts = b.input((1, 4, 4, 4)), list[int]()
    weights, bias = b.constant(np.ones((4, 1, 1, 4), "f")), b.constant([0.5] * 4)
    for _ in range(nodes // 4):
        y = b.op("CONV_2D", (x, weights, bias), [(1, 4, 4, 4)], stride_w=1, stride_h=1)
        parts.append(b.op("LOGISTIC", [b.op("ADD", (x, y), [(1, 4, 4, 4)])], [(1, 4, 4, 4)]))
        x = b.op("Unknown", parts[-1:], [(1, 4, 4, 4)])
    return b.build([b.op("CONCATENATION", parts, [(1, 4 * len(parts), 4, 4)], axis=1)])


def planned(content: bytes) -> None:
    lowered = lower_graph(read_model(content), Limits())
    (partition,) = choose_partitions([lowered])
    for segment in partition.segments:
        make_plan(lowered, segment, Limits())


def test_calls_grow_with_the_nodes() -> None:
    models = mixed(100), mixed(400)
    planned(mixed(8))  # loads what is read at the first use
    counts = []
    for model in models:
        with counted() as calls:
            planned(model)
        counts.append(calls[0])
    assert counts[1] < 1.1 * 4 * counts[0]
