"""Models near those of the op table: refused, or as LiteRT has them."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import prod

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.graph import Graph
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import Lowered, lower_graph
from gles_delegate.shaders.dispatch import Shape
from tests.attack.ways import feeds, run_litert
from tests.attack.workers import Outcome, Worker
from tests.op_table import CASES, OPS, Case, some_of_each
from tests.support.oracle import assert_close, complete, in_ours, litert_interpreter, run
from tests.support.sampling import choose
from tests.support.schema import TABLES
from tests.support.tflite_builder import quantization

Shapes = list[Shape | None]

LITERT_KEEPS_SIZES = {"SLICE"}
"""Its shape of a result with constant corners is that of the first size."""
OF_JAX = {"TRANSPOSE_CONV"}
"""JAX's converters write sizes of the result that LiteRT's kernel without XNNPACK refuses."""

SAID_TWICE = {
    *("in_data_type", "num", "num_splits", "out_data_type", "quantized_bias_type", "values_count"),
    *("new_shape", "squeeze_dims"),
}
"""Options that only repeat what a node's tensors are, with which LiteRT compares them."""
OF_STABLEHLO = {"index_vector_dim"}
"""LiteRT takes the last axis even if this one is past it, against StableHLO's definition."""
AS_IT_IS = -1
"""Instead of the number that draws another size."""


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


def shapes_in_litert(content: bytes, seed: int) -> Outcome:
    """The shapes of LiteRT's results, None for those that only a run knows; see `resized`."""
    change = resized(content, seed) if seed != AS_IT_IS else None
    try:
        interpreter = litert_interpreter(content)
        if change:
            interpreter.resize_tensor_input(*change[1:])
            interpreter.allocate_tensors()
    except (RuntimeError, ValueError) as error:
        return Outcome("refused", text=str(error))
    shapes: Shapes = []
    for detail in interpreter.get_output_details():
        try:
            shapes.append(interpreter.get_tensor(detail["index"]).shape)
        except ValueError:  # it has no memory yet
            shapes.append(None)
    return Outcome("result", tuple(shapes))


@pytest.fixture(scope="module")
def shapes() -> Iterator[Worker]:
    """LiteRT in a process of its own: some sizes crash it."""
    worker = Worker(shapes_in_litert)
    yield worker
    worker.stop()


@pytest.fixture(scope="module")
def results() -> Iterator[Worker]:
    """Likewise: some scales crash it."""
    worker = Worker(run_litert)
    yield worker
    worker.stop()


def some_of_each_op(cases: Iterable[Case], most: int) -> list[Case]:
    return some_of_each(cases, lambda case: case.op, most)


CHOSEN = choose("sizes of inputs", CASES, some_of_each_op(CASES, 6))
INTEGERS = {SCHEMA_NUMBERS[name] for name in ("int8", "uint8", "int16", "int32", "int64")}


@pytest.mark.parametrize("op", OPS)
def test_another_size_of_an_input(op: str, shapes: Worker) -> None:
    for case in (case for case in CHOSEN if case.op == op):
        try:
            content = case.build()[0]
        except (RuntimeError, ValueError):
            continue
        change = resized(content, case.hash)
        if change is None or lower_graph(change[0], Limits()).reasons:
            continue
        graph, index, shape = change
        expected = shapes(content, case.hash)
        where = f"{case.id}, input {index} of {list(shape)}: {expected.text}"
        try:
            lowered = lower_graph(graph, Limits(), {index: shape}, range(len(graph.nodes)))
        except DelegateError:
            continue
        check_shapes(op, lowered, expected, where)


def check_shapes(op: str, lowered: Lowered, expected: Outcome, where: str) -> None:
    """They are LiteRT's, and what it refuses is refused, but for two ops."""
    reasons = [*lowered.reasons.values(), *lowered.unfit.values()]
    assert " object at 0x" not in str(reasons)
    if expected.kind == "refused":
        assert reasons or op in LITERT_KEEPS_SIZES | OF_JAX, where
    elif expected.kind == "result" and not reasons:
        for output, known in zip(lowered.graph.outputs, expected.arrays, strict=True):
            assert known is None or lowered.shapes[output] == known, where


def with_another_option(case: Case, rng: random.Random) -> tuple[bytes, str] | None:
    """A model whose last op with options has another value of one, and that value."""
    sketch, outputs = case.sketch()
    for operator in reversed(sketch._operators):
        for key in ("builtin_options", "builtin_options_2"):
            table, values = operator[key] or ("", {})
            names = [
                name
                for name in TABLES.get(table, {})
                if np.isscalar(values.get(name, 0)) and name not in SAID_TWICE | OF_STABLEHLO
            ]
            if names:
                name = rng.choice(names)
                old = int(values.get(name, 0))
                values = {**values, name: rng.choice([n for n in range(-1, 6) if n != old])}
                operator[key] = table, values
                return sketch.build(outputs), f"{name} {values[name]}"
    return None


OTHER_OPTIONS = choose("options", CASES, some_of_each_op(CASES, 4))


@pytest.mark.parametrize("op", OPS)
def test_another_option(op: str, shapes: Worker) -> None:
    for case in (case for case in OTHER_OPTIONS if case.op == op):
        try:
            changed = with_another_option(case, random.Random(case.hash))
        except (TypeError, ValueError, OverflowError, struct.error):  # no such value in a file
            continue
        if changed is None:
            continue
        content, option = changed
        expected = shapes(content, AS_IT_IS)
        try:
            lowered = lower_graph(read_model(content), Limits())
        except DelegateError:
            continue
        check_shapes(op, lowered, expected, f"{case.id}, {option}: {expected.text}")


@pytest.mark.parametrize("op", OPS)
def test_one_more_output(op: str) -> None:
    """It is refused, unless the op has it."""
    (case,) = some_of_each_op((case for case in CASES if case.op == op), 1)
    sketch, outputs = case.sketch()
    operator = sketch._operators[-1]
    more = sketch.tensor((1,))
    operator["outputs"] = [*operator["outputs"], more]
    with suppress(DelegateError):
        lowered = lower_graph(read_model(sketch.build([*outputs, more])), Limits())
        steps = [step for steps in lowered.steps.values() for step in steps]
        assert lowered.reasons or lowered.unfit or more in {s.output.tensor for s in steps}


CONSTANTS = choose("shapes of constants", CASES, some_of_each_op(CASES, 2))


@pytest.mark.parametrize("op", OPS)
def test_another_rank_of_a_constant(op: str) -> None:
    """It is refused with a reason, unless it means the same."""
    for case in (case for case in CONSTANTS if case.op == op):
        sketch, outputs = case.sketch()
        with suppress(RuntimeError, ValueError):
            complete(sketch, outputs)
        for tensor in sketch.tensors:
            shape = tensor["shape"]
            if not tensor["buffer"]:
                continue
            for other in ([], [prod(shape)], [1, *shape], [*shape, 1]):
                if prod(other) == prod(shape):
                    tensor["shape"] = np.array(other, np.int32)
                    with suppress(DelegateError):
                        lower_graph(read_model(sketch.build(outputs)), Limits())
            tensor["shape"] = shape


def rescaled(case: Case) -> bytes | None:
    """A model with another scale or zero point of one tensor, with one more, or with one less."""
    sketch, outputs = case.sketch()
    try:
        complete(sketch, outputs)
    except (RuntimeError, ValueError):
        return None
    tensors = [t for t in sketch.tensors if t["type"] in INTEGERS]
    rng = random.Random(case.hash)
    # Constants without a scale are sizes, axes and indices.
    tensors = [t for t in tensors if "scale" in (t["quantization"] or {}) or not t["buffer"]]
    if not tensors:
        return None
    tensor = rng.choice(tensors)
    known = tensor["quantization"]
    if not known:
        tensor["quantization"] = quantization(0.5, 3 if rng.random() < 0.5 else 0)
    else:
        changes = {
            "scale": 2 * known["scale"],
            "zero_point": known["zero_point"] + 1,
            "quantized_dimension": known["quantized_dimension"] + 1,
        }
        name = rng.choice([*changes, ""])
        tensor["quantization"] = {**known, name: changes[name]} if name else None
    return sketch.build(outputs)


OVERFLOWS = {"DIV (8-bit)", "SVDF (8-bit)"}
"""Inputs of the whole range divide by 0, or sum up to more than LiteRT's 32 bits."""
QUANTIZED = [
    case for case in CASES if case.op not in OVERFLOWS and ("int" in case.id or "bit" in case.id)
]
"""As their names tell; making all models would take longer than the tests."""
OTHER_SCALES = choose("scales of tensors", QUANTIZED, some_of_each_op(QUANTIZED, 1))


@pytest.mark.parametrize("case", OTHER_SCALES, ids=lambda case: case.id)
def test_another_scale(case: Case, results: Worker, context: gd.EglContext) -> None:
    content = rescaled(case)
    if content is None:
        return
    lowered = lower_graph(read_model(content), Limits())
    if lowered.reasons or lowered.unfit:
        return
    expected = results(content, 0)
    if expected.kind != "result":
        return
    with gd.GpuDelegate(context=context) as delegate:
        interpreter = in_ours(delegate, content)
        arrays = feeds(interpreter, 0)
        ours = run(interpreter, arrays)
    assert_close(ours, expected.arrays, special=case.special, steps=case.steps, inputs=arrays)
