"""An op whose inputs get other sizes: refused where LiteRT refuses them, or with its shapes."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator

import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.shaders.dispatch import Shape
from tests.attack.workers import Outcome, Worker
from tests.op_table import CASES, OPS, Case
from tests.support.oracle import litert_interpreter
from tests.support.sampling import choose, rank

Shapes = list[Shape | None]

LITERT_KEEPS_SIZES = {"SLICE"}
"""Its shape of a result with constant corners is that of the first size."""
OF_JAX = {"TRANSPOSE_CONV"}
"""JAX's converters write sizes of the result that LiteRT's kernel without XNNPACK refuses."""
_EACH = 6
"""Cases of an op in a sample."""


def resized(content: bytes, seed: int) -> tuple[Graph, int, Shape] | None:
    """A model's graph, one of its inputs, and another shape for it; None if it has none."""
    graph, rng = read_model(content), random.Random(seed)
    inputs = [i for i in graph.inputs if graph.tensors[i].shape]
    if not inputs:
        return None
    index = rng.choice(inputs)
    shape = list(graph.tensors[index].shape)
    axis = rng.randrange(len(shape))
    way = rng.choice(("one more", "one", "twice", "another axis"))
    if way == "another axis":
        shape.insert(axis, 2)
    else:
        shape[axis] = {"one more": shape[axis] + 1, "one": 1, "twice": 2 * shape[axis]}[way]
    return graph, index, tuple(shape)


def in_litert(content: bytes, seed: int) -> Outcome:
    """The shapes of LiteRT's results; None for those that only a run knows."""
    change = resized(content, seed)
    assert change
    _, index, shape = change
    interpreter = litert_interpreter(content)
    interpreter.resize_tensor_input(index, shape)
    try:
        interpreter.allocate_tensors()
    except RuntimeError as error:
        return Outcome("refused", text=str(error))
    shapes: Shapes = []
    for detail in interpreter.get_output_details():
        try:
            shapes.append(interpreter.get_tensor(detail["index"]).shape)
        except ValueError:  # it has no memory yet
            shapes.append(None)
    return Outcome("result", tuple(shapes))


@pytest.fixture(scope="module")
def litert() -> Iterator[Worker]:
    """In a process of its own: some sizes crash LiteRT."""
    worker = Worker(in_litert)
    yield worker
    worker.stop()


def some_of_each_op() -> list[Case]:
    cases = defaultdict[str, list[Case]](list)
    for case in sorted(CASES, key=lambda case: rank(case.id)):
        cases[case.op].append(case)
    return [case for of_op in cases.values() for case in of_op[:_EACH]]


CHOSEN = choose("sizes of inputs", CASES, some_of_each_op())


@pytest.mark.parametrize("op", OPS)
def test_another_size_of_an_input(op: str, litert: Worker) -> None:
    for case in (case for case in CHOSEN if case.op == op):
        try:
            content = case.build()[0]
        except (RuntimeError, ValueError):
            continue
        change = resized(content, case.hash)
        if change is None or lower_graph(change[0], Limits()).reasons:
            continue
        graph, index, shape = change
        expected = litert(content, case.hash)
        where = f"{case.id}, input {index} of {list(shape)}: {expected.text}"
        try:
            lowered = lower_graph(graph, Limits(), {index: shape}, range(len(graph.nodes)))
        except DelegateError:
            continue
        reasons = [*lowered.reasons.values(), *lowered.unfit.values()]
        assert " object at 0x" not in str(reasons)
        is_refused = bool(reasons)
        if expected.kind == "refused":
            assert is_refused or op in LITERT_KEEPS_SIZES | OF_JAX, where
        elif expected.kind == "result" and not is_refused:
            for output, known in zip(graph.outputs, expected.arrays, strict=True):
                assert known is None or lowered.shapes[output] == known, where
