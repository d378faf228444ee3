"""Recurrent layers: the state that lasts, 8-bit weights, and 8-bit activations."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gles_delegate.model.reader import read_model
from tests.op_table import OPS
from tests.support.oracle import (
    assert_close,
    complete,
    delegated_interpreter,
    gles_interpreter,
    litert_interpreter,
    run,
    run_gles,
    run_litert,
)
from tests.support.sketch import Sketch

LAYERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", dict(x=(2, 3, 7), units=5)),
    ("UNIDIRECTIONAL_SEQUENCE_LSTM", dict(x=(4, 2, 7), units=8, time_major=True)),
    (
        "UNIDIRECTIONAL_SEQUENCE_LSTM",
        dict(x=(2, 3, 4), units=6, outputs=3, features=("projection", "norm", "peephole")),
    ),
    ("LSTM (full)", dict(x=(2, 7), units=5)),
    ("BIDIRECTIONAL_SEQUENCE_LSTM", dict(x=(3, 2, 7), aux=4, aux_weights=True)),
    ("RNN", dict(x=(2, 7), units=5)),
    ("UNIDIRECTIONAL_SEQUENCE_RNN", dict(x=(2, 3, 7), units=8)),
    ("SVDF", dict(x=(2, 7), units=5, rank=2)),
)


def layer(op: str, attributes: dict[str, Any]) -> tuple[Sketch, list[int]]:
    s = Sketch(np.random.default_rng(0))
    outputs = OPS[op].model(s, op, **attributes)
    return s, [outputs] if isinstance(outputs, int) else list(outputs)


@pytest.mark.parametrize(("op", "attributes"), LAYERS)
@pytest.mark.parametrize("host", [gles_interpreter, delegated_interpreter])
def test_state_lasts_and_can_be_reset(
    op: str, attributes: dict[str, Any], host: Callable[..., Any]
) -> None:
    s, outputs = layer(op, attributes)
    content = complete(s, outputs)
    states = [i for i, tensor in enumerate(s.tensors) if tensor["is_variable"]]
    feeds = [s.normal(feed.shape) for feed in s.feeds * 3]
    with host(content) as ours:
        theirs = litert_interpreter(content)
        for _ in range(2):
            for i in range(3):
                feed = feeds[i * len(s.feeds) : (i + 1) * len(s.feeds)]
                assert_close(run(ours, feed), run(theirs, feed))
                for index in states:
                    assert_close([ours.get_tensor(index)], [theirs.get_tensor(index)], steps=1)
            for interpreter in (ours, theirs):
                interpreter.reset_all_variables()
            assert not any(ours.get_tensor(index).any() for index in states)


@pytest.mark.parametrize(("op", "attributes"), LAYERS)
def test_8_bit_weights_are_the_numbers_they_stand_for(op: str, attributes: dict[str, Any]) -> None:
    """Compared closely with the same layer in float, and loosely with LiteRT's hybrid kernel."""
    hybrid, rounded = (
        complete(*layer(op, dict(attributes, stored=stored))) for stored in ("int8", "rounded")
    )
    feeds = layer(op, attributes)[0].feeds
    ours = run_gles(hybrid, feeds)
    assert_close(ours, run_litert(rounded, feeds))
    for actual, theirs in zip(ours, run_litert(hybrid, feeds), strict=True):
        assert np.abs(actual - theirs).max() < 0.03 * np.abs(theirs).max()


def test_scales_in_the_first_tensors() -> None:
    """Tensor 0 is none of the inputs, but the first of those that only give scales."""
    op = "UNIDIRECTIONAL_SEQUENCE_LSTM (8-bit)"
    s, outputs = layer(op, dict(x=(2, 3, 7), scales_first=True))
    content = complete(s, outputs)
    (node,) = read_model(content).nodes
    assert node.intermediates == (0, 1, 2, 3, 4)
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("op", ["UNIDIRECTIONAL_SEQUENCE_RNN", "UNIDIRECTIONAL_SEQUENCE_LSTM"])
def test_a_layer_makes_no_step_after_its_last(op: str) -> None:
    s, outputs = layer(op, dict(x=(2, 6, 7), units=5))
    content = complete(s, outputs)
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))
