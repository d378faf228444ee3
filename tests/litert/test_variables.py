"""Variable tensors: what an LSTM keeps from one run to the next."""

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.oracle import (
    assert_close,
    complete,
    delegated_interpreter,
    gles_interpreter,
    in_ours,
    litert_interpreter,
    run,
)
from tests.support.sketch import Sketch


def lstm(s: Sketch, x: int, depth: int, units: int, state: tuple[int, int]) -> int:
    return s.op(
        "LSTM",
        [
            x,
            state[0],
            s.constant(s.normal((4 * units, depth + units), 0.5)),
            s.constant(s.normal((4 * units,))),
            state[1],
        ],
        [s.tensor() for _ in range(4)],
        kernel_type="BASIC",
        fused_activation_function="TANH",
    )


def cells(batch: int, depth: int, units: int, nodes: int) -> tuple[Sketch, bytes, tuple[int, int]]:
    """A chain of `nodes` cells that share one state; the state's tensors."""
    s = Sketch(np.random.default_rng(0))
    state = (s.variable((batch, units)), s.variable((batch, units)))
    x = s.feed((batch, depth))
    for _ in range(nodes):
        x = lstm(s, x, depth, units, state)
        depth = units
    return s, complete(s, [x]), state


@pytest.mark.parametrize("nodes", [1, 2])
@pytest.mark.parametrize(
    ("batch", "depth", "units"), [(1, 4, 8), (1, 3, 5), (3, 5, 6), (2, 7, 4), (3, 33, 65)]
)
def test_state_lasts_and_can_be_set_and_reset(
    batch: int, depth: int, units: int, nodes: int
) -> None:
    s, content, state = cells(batch, depth, units, nodes)
    feeds = [s.normal((batch, depth)) for _ in range(4)]
    with gles_interpreter(content) as ours:
        theirs = litert_interpreter(content)

        def check() -> None:
            for feed in feeds:
                assert_close(run(ours, [feed]), run(theirs, [feed]))
                for index in state:
                    assert_close([ours.get_tensor(index)], [theirs.get_tensor(index)])

        check()
        check()
        for interpreter in (ours, theirs):
            interpreter.reset_all_variables()
        assert not ours.get_tensor(state[0]).any()
        check()
        value = s.normal((batch, units))
        for interpreter in (ours, theirs):
            interpreter.set_tensor(state[1], value)
        assert_close([ours.get_tensor(state[1])], [value])
        check()


@pytest.mark.parametrize("last", [None, 0])
def test_another_delegate_starts_at_zero(last: int | None) -> None:
    s, content, state = cells(2, 3, 5, 2)
    feed = s.normal((2, 3))
    options = gd.GpuDelegateOptions(last_delegate_node_index=last)
    with gd.GpuDelegate(options) as delegate:
        interpreter = in_ours(delegate, content)
        first = run(interpreter, [feed])
        assert (run(interpreter, [feed])[0] != first[0]).any()
    with gd.GpuDelegate(options) as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        interpreter.allocate_tensors()
        for index in state:
            assert not interpreter.get_tensor(index).any()
        np.testing.assert_array_equal(run(interpreter, [feed]), first)


def test_a_state_that_is_an_input_is_written() -> None:
    s = Sketch(np.random.default_rng(0))
    x, *state = (s.feed((1, units)) for units in (3, 5, 5))
    result = lstm(s, x, 3, 5, (state[0], state[1]))
    content, feeds = complete(s, [result, state[0]]), [s.normal((1, n)) for n in (3, 5, 5)]
    theirs = litert_interpreter(content)
    expected = [run(theirs, feeds)]
    for _ in range(3):
        theirs.invoke()
        expected.append([theirs.get_tensor(index) for index in (result, *state)])
    with gles_interpreter(content) as ours, delegated_interpreter(content) as delegated:
        for interpreter in (ours, delegated):
            assert_close(run(interpreter, feeds), expected[0])
            for results in expected[1:]:
                interpreter.invoke()
                actual = [interpreter.get_tensor(index) for index in (result, *state)]
                assert_close(actual, results)
        run(ours, feeds)
        for results in expected[1:]:
            assert_close([ours.invoke_async().get_tensor(result)], results[:1])
        ours.invoke_async()
        ours.invoke()
        theirs.invoke()
        theirs.invoke()
        assert_close([ours.get_tensor(state[1])], [theirs.get_tensor(state[1])])
