"""Every op, in every shape and with every attribute of the table, against LiteRT's CPU kernels."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.gl.driver import Driver
from tests.op_table import CASES, LEFT_TO_LITERT, LEFT_TO_THE_DRIVER, LITERT_REFUSES, Case, sample
from tests.op_table.cover import places
from tests.support.oracle import (
    assert_close,
    complete,
    gles_interpreter,
    run,
    run_delegated,
    run_gles,
    run_litert,
)
from tests.support.sampling import choose, drawn
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization

Run = Callable[[bytes, Sequence[NDArray[Any]], gd.EglContext], list[NDArray[Any]]]
SAMPLE = choose("op table", CASES, sample(CASES, 500))
COVER = [case for case in CASES if case.id in places()]
"""Cases with all types and kernels of the table."""
INSIDE = choose("inside LiteRT", COVER, drawn(COVER, 150))
IN_A_CHAIN = choose("in a chain", COVER, drawn(COVER, 150))
GRAPH_CASES = [case for case in CASES if case.op == "GRAPH"]


def as_param(case: Case) -> Any:
    marks = [pytest.mark.mesa] if case.id in LEFT_TO_THE_DRIVER else []
    return pytest.param(case, id=case.id, marks=marks)


def check(case: Case, context: gd.EglContext, run_in_host: Run = run_gles) -> None:
    content, inputs = case.build()
    reference = run_litert(content, inputs)
    ours = run_in_host(content, inputs, context)
    assert_close(ours, reference, special=case.special, steps=case.steps, inputs=inputs)


@pytest.mark.parametrize("case", list(map(as_param, SAMPLE)))
def test_op(case: Case, context: gd.EglContext) -> None:
    check(case, context)


@pytest.mark.parametrize("case", list(map(as_param, INSIDE)))
def test_op_inside_litert(case: Case, context: gd.EglContext) -> None:
    """The host knows types, states and sizes, but not ops."""
    check(case, context, run_delegated)


@pytest.fixture
def chains(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plans have chains, as in a context that is the delegate's alone."""
    read = Driver.read
    monkeypatch.setattr(Driver, "read", lambda gl, is_private: read(gl, is_private=True))


@pytest.mark.usefixtures("chains")
@pytest.mark.parametrize("case", list(map(as_param, IN_A_CHAIN)))
def test_op_in_a_chain(case: Case, context: gd.EglContext) -> None:
    check(case, context)


@pytest.mark.parametrize("case", GRAPH_CASES, ids=lambda case: case.id)
def test_runs_leave_nothing_behind(case: Case, context: gd.EglContext) -> None:
    content, inputs = case.build()
    others = [np.flip(array) * 2 + 1 for array in inputs]
    with gles_interpreter(content, context) as interpreter:
        for feed in (inputs, others, inputs):
            assert_close(run(interpreter, feed), run_litert(content, feed), inputs=feed)


@pytest.mark.parametrize("case", LEFT_TO_LITERT, ids=lambda case: case.id)
def test_left_to_litert(case: Case, context: gd.EglContext) -> None:
    content, inputs = case.build()
    run_litert(content, inputs)
    with pytest.raises(gd.UnsupportedModelError):
        run_gles(content, inputs, context)


@pytest.mark.parametrize("case", LITERT_REFUSES, ids=lambda case: case.id)
def test_litert_refuses(case: Case) -> None:
    """Cases that the table leaves out because there is no reference for them."""
    with pytest.raises((RuntimeError, ValueError)):
        case.build()


@pytest.mark.parametrize("op", ["ABS", "ADD", "SUM", "REDUCE_MAX", "RESHAPE"])
def test_int32_numbers_have_no_scale(op: str, context: gd.EglContext) -> None:
    """LiteRT's kernels ignore what the file says of it."""
    s = Sketch(np.random.default_rng(0))
    x = s.input((2, 5), "int32", quantization=quantization(0.5, 3))
    s.feeds.append(np.arange(-5, 5, dtype=np.int32).reshape(2, 5))
    operands = {
        "ABS": [x],
        "ADD": [x, x],
        "RESHAPE": [x, s.constant(np.array([5, 2], np.int32))],
    }.get(op, [x, s.constant(np.array([1], np.int32))])
    result = s.tensor(None, "int32", quantization=quantization(0.25, 1))
    s.op(op, operands, [result])
    complete(s, [result])
    content = s.build([result])
    assert_close(run_gles(content, s.feeds, context), run_litert(content, s.feeds))
