"""LSTMs and GRUs in a WHILE, or unrolled, which become one recurrent layer."""

from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from tests.support.force import force_profile
from tests.support.keras import KerasLayer, keras_model, stacked_model, unrolled_model
from tests.support.oracle import (
    assert_close,
    delegated_interpreter,
    gles_interpreter,
    in_ours,
    run,
    run_gles,
    run_litert,
)
from tests.support.pairwise import pairwise

CELLS = ("lstm", "basic lstm", "gru", "gru, reset first")
HOSTS = (gles_interpreter, delegated_interpreter)
SIZES: tuple[dict[str, Any], ...] = (
    {},
    dict(batch=3, units=5, depth=3),
    dict(steps=1, units=4),
    dict(batch=2, steps=3, units=72),
    dict(all_results=False, units=6),
)


def unrolled(content: bytes) -> dict[int, str]:
    lowered = lower_graph(read_model(content), Limits())
    assert not lowered.reasons
    return dict(lowered.unrolled)


def check(host: Any, content: bytes, feeds: list[Any]) -> None:
    with host(content) as interpreter:
        for values in (feeds, [2 * array for array in feeds]):
            assert_close(run(interpreter, values), run_litert(content, values))


@pairwise(sizes=SIZES, cell=CELLS, host=HOSTS)
def test_as_litert(host: Any, cell: str, sizes: dict[str, Any]) -> None:
    s, content = keras_model(KerasLayer(cell, **sizes))
    assert not unrolled(content)
    check(host, content, s.feeds)


@pairwise(both_directions=[False, True], batch=[1, 3], cell=CELLS, host=HOSTS)
def test_stacked_layers(host: Any, cell: str, batch: int, both_directions: bool) -> None:
    s, content = stacked_model(cell, batch, both_directions)
    assert not unrolled(content)
    check(host, content, s.feeds)


@pairwise(units=[6, 16], model=[keras_model, unrolled_model], cell=CELLS)
def test_8_bit_weights(cell: str, model: Any, units: int) -> None:
    """Compared closely with the same layer in float, and loosely with LiteRT's hybrid kernel."""
    (s, content), (_, rounded) = (
        model(KerasLayer(cell, units=units, batch=2, dtype=dtype)) for dtype in ("int8", "rounded")
    )
    assert not unrolled(content)
    ours = run_gles(content, s.feeds)
    assert_close(ours, run_litert(rounded, s.feeds))
    for actual, theirs in zip(ours, run_litert(content, s.feeds), strict=True):
        assert np.abs(actual - theirs).max() <= 0.03


def check_layer(model: Any, layer: KerasLayer) -> None:
    """It is found in both forms, and computes what LiteRT does."""
    s, content = model(layer)
    lowered = lower_graph(read_model(content), Limits())
    assert not lowered.unrolled
    assert lowered.layers or model is keras_model
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("model", [keras_model, unrolled_model])
def test_weights_of_float16(cell: str, model: Any) -> None:
    check_layer(model, KerasLayer(cell, dtype="float16"))


@pytest.mark.usefixtures("floor")
@pairwise(name=profiles.NAMED, cell=CELLS, units=[64, 136])
def test_kernels_of_a_profile(
    name: str, cell: str, units: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With all steps in one dispatch, and with some for each step."""
    force_profile(monkeypatch, profiles.NAMED[name])
    s, content = keras_model(KerasLayer(cell, units=units))
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


@pytest.mark.parametrize("host", HOSTS)
def test_gates_in_another_order(host: Any) -> None:
    s, content = keras_model(KerasLayer(damage="order"))
    assert not unrolled(content)
    check(host, content, s.feeds)


@pairwise(damage=["", "columns"], model=[keras_model, unrolled_model], cell=CELLS)
def test_gates_that_strided_slices_cut(cell: str, model: Any, damage: str) -> None:
    check_layer(model, KerasLayer(cell, batch=2, units=5, strided=True, damage=damage))


@pairwise(damage=["a column", "a row"], model=[keras_model, unrolled_model], cell=CELLS[:3])
def test_a_gate_of_another_size(cell: str, model: Any, damage: str) -> None:
    s, content = model(KerasLayer(cell, batch=2, units=5, strided=True, damage=damage))
    lowered = lower_graph(read_model(content), Limits())
    assert lowered.unrolled or model is unrolled_model
    assert not lowered.layers
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


DAMAGED = (
    ("lstm", "turns"), ("lstm", "next input"), ("lstm", "list of cells"), ("lstm", "list position"),
    ("lstm", "activation"), ("lstm", "states"), ("lstm", "input twice"), ("lstm", "old cell"),
    ("lstm", "input axis"), ("gru", "one"), ("gru", "activation"), ("gru, reset first", "one"),
    ("gru", "ones"), ("gru, reset first", "ones"),
)  # fmt: skip


@pytest.mark.parametrize(("cell", "damage"), DAMAGED)
def test_any_other_body_is_unrolled(cell: str, damage: str) -> None:
    """Or refused, where LiteRT refuses it, too."""
    s, content = keras_model(KerasLayer(cell, damage=damage, batch=5))
    lowered = lower_graph(read_model(content), Limits())
    assert lowered.unrolled or lowered.reasons
    try:
        expected = run_litert(content, s.feeds)
    except RuntimeError:
        return
    with gd.GpuDelegate() as delegate:
        assert_close(run(in_ours(delegate, content), s.feeds), expected)


@pytest.mark.parametrize("cell", CELLS)
def test_weights_with_zero_points_are_no_layer(cell: str) -> None:
    """LiteRT's kernels of layers ignore them."""
    content = keras_model(KerasLayer(cell, dtype="int8", damage="zero points"))[1]
    lowered = lower_graph(read_model(content), Limits())
    assert lowered.unrolled or lowered.reasons


@pairwise(sizes=SIZES[:4], cell=CELLS, host=HOSTS)
def test_unrolled_cells(host: Any, cell: str, sizes: dict[str, Any]) -> None:
    s, content = unrolled_model(KerasLayer(cell, **sizes))
    (layer,) = lower_graph(read_model(content), Limits()).layers
    assert len(layer.replaced) == len(layer.node.outputs)
    check(host, content, s.feeds)


def test_dispatches_of_unrolled_cells_do_not_grow_with_steps() -> None:
    counts = []
    for steps in (4, 9):
        graph = read_model(unrolled_model(KerasLayer(steps=steps))[1])
        lowered = lower_graph(graph, Limits())
        counts.append(len(make_plan(lowered, lowered.steps, Limits()).dispatches))
    assert counts[0] == counts[1]


@pytest.mark.parametrize(
    ("cell", "damage"),
    [("lstm", "fed"), ("gru", "fed"), ("gru", "one"), ("lstm", "weights"), ("gru", "weights")],
)
def test_steps_of_another_form_stay_apart(cell: str, damage: str) -> None:
    s, content = unrolled_model(KerasLayer(cell, depth=8, damage=damage))
    assert all(
        len(layer.node.outputs) < 5 for layer in lower_graph(read_model(content), Limits()).layers
    )
    assert_close(run_gles(content, s.feeds), run_litert(content, s.feeds))


def test_an_unrolled_loop_writes_each_element_of_its_list_once() -> None:
    """Ten dispatches a turn: a gather, two products, a sum, four gates, the result, its copy."""
    counts = []
    for steps in (5, 9):
        content = keras_model(KerasLayer(damage="old cell", steps=steps))[1]
        lowered = lower_graph(read_model(content), Limits())
        assert lowered.unrolled
        plan = make_plan(lowered, lowered.steps, Limits())
        counts.append(len(plan.dispatches))
    assert counts[1] - counts[0] <= 4 * 10
