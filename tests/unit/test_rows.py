"""Which graphs compute each row of a batch independently, without LiteRT."""

from collections.abc import Sequence

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import Lowerings
from gles_delegate.planning.rows import rows_are_independent
from tests.support.tflite_builder import ModelBuilder

SHAPE = (1, 3, 4)


def are_independent(b: ModelBuilder, y: int) -> bool:
    graph = read_model(b.build([y]))
    return rows_are_independent(Lowerings(graph, Limits()), dict.fromkeys(graph.inputs, (5, 3, 4)))


@pytest.mark.parametrize("op", ["ADD", "MAXIMUM", "SUB"])
def test_elements_of_two_inputs(op: str) -> None:
    b = ModelBuilder()
    assert are_independent(b, b.op(op, [b.input(SHAPE), b.input(SHAPE)], [SHAPE]))


@pytest.mark.parametrize(
    ("shape", "expected"), [((4,), True), ((3, 1), True), (SHAPE, True), ((5, 3, 4), False)]
)
def test_elements_of_an_input_and_a_constant(shape: Sequence[int], expected: bool) -> None:
    b = ModelBuilder()
    constant = b.constant(np.arange(np.prod(shape), dtype=np.float32).reshape(shape))
    assert are_independent(b, b.op("ADD", [constant, b.input(SHAPE)], [SHAPE])) == expected


@pytest.mark.parametrize(("axis", "expected"), [(0, False), (-3, False), (1, True), (-1, True)])
def test_a_reduction(axis: int, expected: bool) -> None:
    b = ModelBuilder()
    axes = b.constant(np.int32([axis]))
    y = b.op("SUM", [b.input(SHAPE), axes], [SHAPE], keep_dims=True)
    assert are_independent(b, y) == expected


@pytest.mark.parametrize(("axis", "expected"), [(0, False), (1, True), (-1, True)])
@pytest.mark.parametrize("rows_differ", [False, True])
def test_sorted_operands(axis: int, expected: bool, rows_differ: bool) -> None:
    """The second operand is a constant, which may differ among the rows."""
    b = ModelBuilder()

    def compare(inner: ModelBuilder) -> list[int]:
        elements = [inner.input(()) for _ in range(4)]
        return [inner.op("LESS", elements[:2], [inner.tensor((), np.bool_)])]

    places = np.broadcast_to(np.arange(4, dtype=np.float32), (5, 3, 4)).copy()
    places[0] += rows_differ
    x = b.input((5, 3, 4))
    results = [b.tensor((5, 3, 4)), b.tensor((5, 3, 4))]
    index = b.subgraph(compare)
    operands = [x, b.constant(places)]
    b.op("STABLEHLO_SORT", operands, results, dimension=axis, comparator_subgraph_index=index)
    assert are_independent(b, results[0]) == (expected and not rows_differ)
