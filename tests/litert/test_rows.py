"""Rows that `planning.rows` calls independent are independent in LiteRT's kernels."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import read_model
from gles_delegate.ops import supported_ops
from gles_delegate.ops.lib.registry import _OPS
from gles_delegate.planning.lowering import Lowerings
from gles_delegate.planning.rows import rows_are_independent
from tests.op_table import CASES, Case, sample
from tests.support.oracle import litert_interpreter, run
from tests.support.sampling import choose

Arrays = list[NDArray[Any]]
SAMPLE = choose("by rows", CASES, sample(CASES, 600))
LIMITS = Limits(storage_blocks=16, invocations=1024)
NAMES = [name for name, op in _OPS.items() if op.rows]
UNCHECKED = {
    *("Convolution2DTransposeBias", "DEQUANTIZE", "LiteRtMaxUnpooling2D"),
    *("MaxPoolingWithArgmax2D", "MaxUnpooling2D", "QUANTIZE", "STABLEHLO_SORT"),
}
"""Ops that LiteRT does not run on their own, or that no case has alone."""


def batched(case: Case) -> tuple[bytes, Arrays] | None:
    """The case's model and inputs with two rows or more, or None if it cannot have them."""
    sketch, outputs = case.sketch()
    feeds = sketch.feeds
    if not feeds or any(array.ndim == 0 for array in feeds):
        return None
    sizes = {len(array) for array in feeds}
    if len(sizes) > 1 or sizes == {0}:
        return None
    if sizes == {1}:
        feeds = [np.concatenate([array, array[..., ::-1], array]) for array in feeds]
    return sketch.build(outputs), feeds


def independent(case: Case) -> tuple[Graph, bytes, Arrays] | None:
    """The case's graph, model and inputs with independent rows; None if it cannot have them."""
    actual = batched(case)
    if actual is None:
        return None
    content, feeds = actual
    graph = read_model(content)
    shapes = {i: array.shape for i, array in zip(graph.inputs, feeds, strict=True)}
    lowerings = Lowerings(graph, LIMITS)
    return (graph, content, feeds) if rows_are_independent(lowerings, shapes) else None


def results(interpreter: Any, feeds: Arrays) -> Arrays:
    return [array.copy() for array in run(interpreter, feeds)]


def assert_same(actual: NDArray[Any], expected: NDArray[Any], case: str) -> None:
    """The same but for rounding: LiteRT's kernels compute the last elements of a loop otherwise."""
    if actual.dtype.kind == "f":
        np.testing.assert_allclose(actual, expected, 1e-5, 1e-6, err_msg=case)
    else:
        np.testing.assert_array_equal(actual, expected, case)


@pytest.mark.parametrize("op", sorted({case.op for case in SAMPLE}))
def test_rows_that_are_called_independent_are(op: str) -> None:
    for case in (each for each in SAMPLE if each.op == op):
        actual = independent(case)
        if actual is None:
            continue
        graph, content, feeds = actual
        rows = len(feeds[0])
        try:
            interpreter = litert_interpreter(content)
        except (RuntimeError, ValueError):  # of ops that LiteRT lacks
            continue
        for index, array in zip(graph.inputs, feeds, strict=True):
            interpreter.resize_tensor_input(index, array.shape)
        interpreter.allocate_tensors()
        expected = results(interpreter, feeds)
        rolled = results(interpreter, [np.roll(array, 1, 0) for array in feeds])
        changed = results(interpreter, [np.concatenate([a[-1:], a[1:]]) for a in feeds])
        for before, after, without in zip(expected, rolled, changed, strict=True):
            assert len(before) == rows, case.id
            assert_same(after, np.roll(before, 1, 0), case.id)
            assert_same(without[1:], before[1:], case.id)


def test_every_op_with_a_rule_has_a_case_that_it_holds_for() -> None:
    assert {*NAMES} <= supported_ops().keys()
    unchecked = {*NAMES}
    for case in CASES:
        if case.op.partition(" ")[0] in unchecked and (actual := independent(case)):
            unchecked.difference_update(node.op for node in actual[0].nodes)
    assert unchecked == UNCHECKED
