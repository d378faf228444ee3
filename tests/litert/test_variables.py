"""Variable tensors: what an LSTM keeps from one run to the next."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.oracle import assert_close, complete, gles_interpreter, litert_interpreter, run
from tests.support.sketch import Sketch

pytestmark = pytest.mark.usefixtures("gl")


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
