"""Lists of tensors, as the recurrent layers of Keras use them; LiteRT does not run these."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.partition import choose_segments
from tests.support.oracle import assert_close, in_litert, in_ours, run
from tests.support.tflite_builder import ModelBuilder

pytestmark = pytest.mark.usefixtures("gl")

STEPS, SHAPE = 5, (2, 6)
SEQUENCE = (STEPS, *SHAPE)
Host = Callable[..., Any]
Build = Callable[[ModelBuilder], list[int]]
both_hosts = pytest.mark.parametrize("host", [in_ours, in_litert])


def number(b: ModelBuilder, value: Any) -> int:
    return b.constant(np.array(value, np.int32))


def listed(b: ModelBuilder, name: str, inputs: Sequence[int]) -> int:
    """An op that returns a list."""
    return b.op(f"FlexTensorList{name}", inputs, [b.tensor((), "variant")])


def reserved(b: ModelBuilder, count: int) -> int:
    return listed(b, "Reserve", [number(b, (-1, SHAPE[1])), number(b, count)])


def stacked(b: ModelBuilder, values: int, count: int = STEPS) -> int:
    inputs = [values, number(b, (-1, SHAPE[1]))]
    return b.op("FlexTensorListStack", inputs, [b.tensor((count, *SHAPE))])


def below(b: ModelBuilder) -> list[int]:
    count, _, _, _ = carried(b)
    return [b.op("LESS", [count, number(b, STEPS)], [b.tensor((), np.bool_)])]


def carried(b: ModelBuilder) -> list[int]:
    return [
        b.input((), np.int32),
        b.input((), "variant"),
        b.input(SHAPE),
        b.input(SEQUENCE),
    ]


def keep(last: bool) -> Build:
    """A step of a recurrent layer, which keeps all its states, or the last one."""

    def step(b: ModelBuilder) -> list[int]:
        count, states, state, x = carried(b)
        now = b.op("GATHER", [x, count], [SHAPE])
        state = b.op("TANH", [b.op("ADD", [now, state], [SHAPE])], [SHAPE])
        states = listed(b, "SetItem", [states, number(b, 0) if last else count, state])
        return [b.op("ADD", [count, number(b, 1)], [()]), states, state, x]

    return step


def layer(last: bool = False) -> bytes:
    """Of the input: the states, and twice the last one."""
    b = ModelBuilder()
    x = b.input(SEQUENCE)
    kept = 1 if last else STEPS
    first = b.op("GATHER", [x, number(b, 0)], [SHAPE])
    zeros = b.op("SUB", [first, first], [SHAPE])
    values = [number(b, 0), reserved(b, kept), zeros, x]
    results = [b.tensor((), np.int32), b.tensor((), "variant"), b.tensor(SHAPE), b.tensor(SEQUENCE)]
    how = {"cond_subgraph_index": b.subgraph(below), "body_subgraph_index": b.subgraph(keep(last))}
    b.op("WHILE", values, results, **how)
    final = b.op("ADD", [results[2], results[2]], [SHAPE])
    return b.build([stacked(b, results[1], kept), final])


def states(x: NDArray[np.float32]) -> NDArray[np.float32]:
    made = [np.zeros(x.shape[1:], np.float32)]
    for now in x:
        made.append(np.tanh(now + made[-1]))
    return np.stack(made[1:])


def drawn(shape: Sequence[int] = SEQUENCE) -> NDArray[np.float32]:
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@both_hosts
@pytest.mark.parametrize("last", [False, True])
def test_a_loop_fills_a_list(host: Host, last: bool) -> None:
    content = layer(last)
    options = gd.GpuDelegateOptions(require_full_delegation=True)
    with gd.GpuDelegate(options, model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        for x in (drawn(), -2 * drawn()):
            every = states(x)
            assert_close(run(interpreter, [x]), [every[-1:] if last else every, 2 * every[-1]])


def test_another_batch() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, layer())
        x = drawn((STEPS, 3, 6))
        interpreter.resize_tensor_input(0, x.shape)
        interpreter.allocate_tensors()
        assert_close(run(interpreter, [x])[:1], [states(x)])


@both_hosts
def test_elements_are_values(host: Host) -> None:
    """A list from a tensor, one of its elements set, and both read."""
    b = ModelBuilder()
    x, y = b.input((3, *SHAPE)), b.input(SHAPE)
    first = listed(b, "FromTensor", [x, number(b, SHAPE)])
    second = listed(b, "SetItem", [first, number(b, 1), y])
    element = b.op(
        "FlexTensorListGetItem", [first, number(b, 1), number(b, SHAPE)], [b.tensor(SHAPE)]
    )
    content = b.build([stacked(b, second, 3), stacked(b, first, 3), element])
    feeds = [drawn((3, *SHAPE)), 3 * drawn(SHAPE)]
    expected = np.stack([feeds[0][0], feeds[1], feeds[0][2]])
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        assert_close(run(interpreter, feeds), [expected, feeds[0], feeds[0][1]])


@pytest.mark.parametrize(
    ("index", "expected"),
    [(0, "element 1 of the list is not set"), (2, "input 1 is int32 [2]; expected 0 to 1")],
)
def test_elements_that_are_missing(index: int, expected: str) -> None:
    b = ModelBuilder()
    x = b.input(SHAPE)
    values = listed(b, "SetItem", [reserved(b, 2), number(b, index), x])
    reasons = lower_graph(read_model(b.build([stacked(b, values, 2)])), Limits()).reasons
    assert expected in reasons.values()


@pytest.mark.parametrize("name", ["Reserve", "SetItem", "GetItem", "Stack", "FromTensor"])
def test_ops_without_inputs(name: str) -> None:
    b = ModelBuilder()
    values = listed(b, name, [])
    (reason,) = lower_graph(read_model(b.build([values])), Limits()).reasons.values()
    assert reason.startswith("0 inputs and 1 outputs")


def test_a_list_as_an_output() -> None:
    b = ModelBuilder()
    values = listed(b, "SetItem", [reserved(b, 1), number(b, 0), b.input(SHAPE)])
    lowered = lower_graph(read_model(b.build([values])), Limits())
    assert lowered.reasons == {1: "a list of tensors as an output of the graph"}
    assert {*choose_segments(lowered).reasons} == {0, 1}


def test_an_index_that_a_run_decides() -> None:
    b = ModelBuilder()
    x, index = b.input(SHAPE), b.input((), np.int32)
    values = listed(b, "SetItem", [reserved(b, 1), index, x])
    reasons = lower_graph(read_model(b.build([stacked(b, values, 1)])), Limits()).reasons
    assert "input 1 is computed at run time; expected a constant" in reasons.values()


def test_nodes_of_a_list_run_together() -> None:
    lowered = lower_graph(read_model(layer()), Limits())
    assert not lowered.reasons
    partition = choose_segments(lowered, first=3)
    assert {*partition.reasons} == {0, 1, 2, 3, 5}
    assert "list of tensors 2" in partition.reasons[3]
