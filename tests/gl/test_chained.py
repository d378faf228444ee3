"""Dispatches that one work group computes in sequence."""

from collections.abc import Callable
from time import monotonic
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.planning import plan as plans
from tests.op_table.graphs import GRAPHS
from tests.support.convolutions import network
from tests.support.oracle import in_litert, in_ours, run
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

pytestmark = pytest.mark.mesa


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """From its call on, every dispatch is for itself."""
    return lambda: monkeypatch.setattr(plans, "find_chains", lambda *_: ())


def groups(delegate: gd.GpuDelegate) -> list[int]:
    bound = delegate.bound
    prepared = [segment for each in bound.subgraphs.values() for segment in each.prepared]
    return [len(group) for segment in prepared for group in segment.require().plan.groups]


def results(content: bytes, feeds: list[Any]) -> tuple[list[Any], list[int]]:
    with gd.GpuDelegate() as delegate:
        return run(in_ours(delegate, content), feeds), groups(delegate)


@pytest.mark.parametrize("name", GRAPHS)
def test_the_results_are_the_same(name: str, apart: Callable[[], None]) -> None:
    sketch = Sketch(np.random.default_rng(0))
    outputs = GRAPHS[name](sketch)
    content = sketch.build([outputs] if isinstance(outputs, int) else outputs)
    chained, lengths = results(content, sketch.feeds)
    apart()
    expected, ones = results(content, sketch.feeds)
    assert sum(lengths) == len(ones)
    for ours, other in zip(chained, expected, strict=True):
        np.testing.assert_array_equal(ours, other)


def tiny(height: int = 4) -> bytes:
    """-max(x) of each 2x2 pixels, and its rows reversed."""
    b = ModelBuilder()
    x = b.input((1, height, 4, 4))
    pooled = b.op(
        "MAX_POOL_2D", [x], [(1, height - 1, 3, 4)],
        filter_width=2, filter_height=2, stride_w=1, stride_h=1, padding="VALID",
    )  # fmt: skip
    axis = b.constant(np.array([1], np.int32))
    return b.build([b.op("REVERSE_V2", [pooled, axis], [(1, height - 1, 3, 4)])])


def pooled(x: Any) -> Any:
    rows = np.maximum(x[:, :-1], x[:, 1:])
    return np.maximum(rows[:, :, :-1], rows[:, :, 1:])[:, ::-1]


@pytest.mark.parametrize("host", [in_ours, in_litert])
def test_later_shapes_have_none(host: Callable[..., Any]) -> None:
    """They share the programs of the first."""
    rng = np.random.default_rng(0)
    content = tiny()
    model = content if host is in_litert else None
    with gd.GpuDelegate(model=model) as delegate:
        interpreter = host(delegate, content)
        for height, chained in ((4, True), (7, False), (4, False)):
            x = rng.random((1, height, 4, 4), np.float32)
            interpreter.resize_tensor_input(0, x.shape)
            interpreter.allocate_tensors()
            (y,) = run(interpreter, [x])
            np.testing.assert_array_equal(y, pooled(x))
            assert (max(groups(delegate)) > 1) == chained


def test_not_in_an_app_s_context() -> None:
    with gd.EglContext() as context, gd.GpuDelegate(context=context) as delegate:
        x = np.random.default_rng(0).random((1, 4, 4, 4), np.float32)
        (y,) = run(in_ours(delegate, tiny()), [x])
        np.testing.assert_array_equal(y, pooled(x))
        assert max(groups(delegate)) == 1


def test_an_element_wise_member_computes_one_pixel_an_invocation() -> None:
    """The compiler unrolls a loop over pixels: grid_sample's 105 nodes compiled for 21 s."""
    b = ModelBuilder()
    x, shape = b.input((1, 5, 6, 9)), (1, 5, 6, 9)
    axis = b.constant(np.array([1], np.int32))
    y, z = b.op("MUL", [x, x], [shape]), b.op("REVERSE_V2", [x, axis], [shape])
    with gd.GpuDelegate() as delegate:
        values = np.random.default_rng(0).random(shape, np.float32)
        products, _ = run(in_ours(delegate, b.build([y, z])), [values])
        (segment,) = delegate.bound.first.prepared
        plan = segment.require().plan
        (chain,) = map(plan.chain, plan.groups)
        (member,) = (m for m in chain.members if m.shader == "elementwise")
    np.testing.assert_array_equal(products, values * values)
    assert member.defines["PER_LANE"] == 1
    assert member.grid.pixels == 30


def test_a_profile_has_a_row_for_a_chain() -> None:
    with gd.GpuDelegate() as delegate:
        run(in_ours(delegate, tiny()), [np.zeros((1, 4, 4, 4), np.float32)])
        (row,) = delegate.profile()
        assert row.shader == "chain"
        assert "MAX_POOL_2D" in row.name
        assert "REVERSE_V2" in row.name


def test_a_profile_names_the_shaders_outside_chains(apart: Callable[[], None]) -> None:
    apart()
    with gd.GpuDelegate() as delegate:
        run(in_ours(delegate, tiny()), [np.zeros((1, 4, 4, 4), np.float32)])
        shaders = [row.shader for row in delegate.profile()]
        assert len(shaders) > 1
        assert "chain" not in shaders


@pytest.mark.background
def test_a_model_that_runs_often_gets_them() -> None:
    """One whose faster programs differ in chains alone."""
    b, shape = ModelBuilder(), (1, 8, 8, 4)
    y = b.op("SOFTMAX", [b.input(shape)], [shape], beta=1.0)
    content = b.build([b.op("SOFTMAX", [y], [shape], beta=1.0)])
    x = np.random.default_rng(0).random(shape, np.float32)
    powers = np.exp(x)
    powers = np.exp(powers / powers.sum(-1, keepdims=True))
    expected = powers / powers.sum(-1, keepdims=True)
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        assert max(groups(delegate)) == 1
        end = monotonic() + 60
        while not delegate.bound.is_final:
            (result,) = run(interpreter, [x])
            np.testing.assert_allclose(result, expected, rtol=1e-5)
            assert monotonic() < end
        assert max(groups(delegate)) > 1


def test_states_continue(apart: Callable[[], None]) -> None:
    def runs() -> list[Any]:
        with gd.GpuDelegate() as delegate:
            interpreter = in_ours(delegate, network(with_state=True))
            x = np.random.default_rng(0).random((1, 24, 20, 8), np.float32)
            return [run(interpreter, [x])[0] for _ in range(3)]

    chained = runs()
    apart()
    for ours, other in zip(chained, runs(), strict=True):
        np.testing.assert_array_equal(ours, other)
    assert not np.array_equal(chained[0], chained[1])
