"""LSTMs and GRUs as PyTorch's models have them, which become one recurrent layer."""

from typing import Any

import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from tests.support.oracle import assert_close, run_delegated, run_gles, run_litert
from tests.support.pytorch import TorchLayer

BOTH = ("lstm", "gru")
CELLS = pytest.mark.parametrize("cell", BOTH)
SIZES: tuple[dict[str, Any], ...] = (
    {},
    dict(batch=3, units=5, depth=3),
    dict(batch=2, steps=3, units=72),
    dict(steps=2, units=4),
    dict(batch=2, steps=4, given=True),
    dict(steps=1, units=6, given=True),
    dict(batch=2, units=6, backward=True),
)


def steps_of_layers(content: bytes) -> list[int]:
    """The number of results of each layer that is found."""
    lowered = lower_graph(read_model(content), Limits())
    assert not lowered.reasons
    shapes = (
        step.output.shape for layer in lowered.layers for step in layer.steps
        if step.output.name == "sums"
    )  # fmt: skip
    return [pixels for pixels, _ in shapes]


@CELLS
@pytest.mark.parametrize("sizes", SIZES)
def test_as_litert(cell: str, sizes: dict[str, Any]) -> None:
    layer = TorchLayer(cell, **sizes)
    s, content = layer.model()
    assert steps_of_layers(content) == [layer.steps * layer.batch]
    for feeds in (s.feeds, [2 * array for array in s.feeds]):
        expected = run_litert(content, feeds)
        assert_close(run_gles(content, feeds), expected)
        assert_close(run_delegated(content, feeds), expected)


@CELLS
@pytest.mark.parametrize("backward", [False, True])
def test_dispatches_do_not_grow_with_steps(cell: str, backward: bool) -> None:
    counts = []
    for steps in (4, 9):
        content = TorchLayer(cell, steps, backward=backward).model()[1]
        lowered = lower_graph(read_model(content), Limits())
        counts.append(len(make_plan(lowered, lowered.steps, Limits()).dispatches))
    assert counts[0] == counts[1] <= 12


@pytest.mark.parametrize(
    ("cell", "options", "steps"),
    [
        *((cell, dict(damage="elements"), [5]) for cell in BOTH),
        *((cell, dict(damage="results"), [5]) for cell in BOTH),
        *((cell, dict(damage="weights"), [2, 1, 2]) for cell in BOTH),
        *((cell, dict(damage="gates"), [2, 1, 2]) for cell in BOTH),
        *((cell, dict(damage="activation"), [2, 2]) for cell in BOTH),
        *((cell, dict(damage="first biases"), [4]) for cell in BOTH),
        *((cell, dict(damage="first biases", batch=2), [8]) for cell in BOTH),
        *((cell, dict(damage="first gates"), [4]) for cell in BOTH),
        *((cell, dict(damage="a row", batch=2), [4, 4]) for cell in BOTH),
        *((cell, dict(shown=shown, batch=2), [10]) for cell in BOTH for shown in ((0, 2), (1, 3))),
        ("lstm", dict(damage="input twice"), [2, 2]),
        ("lstm", dict(damage="no weights", given=True), []),
        ("lstm", dict(damage="broadcast", batch=2), [4, 4]),
        ("gru", dict(damage="zero"), [4]),
        ("gru", dict(damage="difference"), [2, 2]),
    ],
    ids=str,
)
def test_a_step_that_differs(cell: str, options: dict[str, Any], steps: list[int]) -> None:
    s, content = TorchLayer(cell, **options).model()
    assert steps_of_layers(content) == steps
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))
