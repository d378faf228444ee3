"""Random graphs against LiteRT's CPU kernels: whole, in parts, on any device, with guard words."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

import gles_delegate as gd
from gles_delegate.model.reader import read_model
from tests.support.fuzz import drawn_graph, fuzz
from tests.support.guards import assert_stays_inside
from tests.support.oracle import (
    assert_close,
    complete,
    delegated_interpreter,
    run,
    run_gles,
    run_litert,
)

pytestmark = pytest.mark.usefixtures("gl")


@pytest.fixture
def context(gl: None) -> Iterator[gd.EglContext]:
    context = gd.EglContext()
    yield context
    context.release()


@fuzz(examples=8)
def test_graphs(choose: random.Random, context: gd.EglContext) -> None:
    sketch, outputs = drawn_graph(choose, 20)
    content = sketch.build(outputs)
    reference = run_litert(content, sketch.feeds)
    assert_close(run_gles(content, sketch.feeds, context), reference)


@pytest.mark.usefixtures("floor")
@fuzz(examples=8)
def test_graphs_at_the_floor(choose: random.Random, context: gd.EglContext) -> None:
    sketch, outputs = drawn_graph(choose, 20)
    content = sketch.build(outputs)
    reference = run_litert(content, sketch.feeds)
    assert_close(run_gles(content, sketch.feeds, context), reference)


@pytest.mark.parametrize("floor_or_device", ["floor", "device"])
@fuzz(examples=6)
def test_nothing_is_written_or_read_past_a_tensor(
    choose: random.Random,
    floor_or_device: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if floor_or_device == "floor":
        request.getfixturevalue("floor")
    sketch, outputs = drawn_graph(choose, 20)
    assert_stays_inside(sketch.build(outputs), sketch.feeds, monkeypatch)


@fuzz(examples=8)
def test_splits(choose: random.Random, context: gd.EglContext) -> None:
    """The nodes before and behind some in the middle are left to the CPU."""
    sketch, outputs = drawn_graph(choose, 16)
    content = complete(sketch, outputs)
    ops = len(read_model(content).nodes)
    first, last = sorted(choose.randrange(ops) for _ in range(2))
    options = gd.GpuDelegateOptions(
        first_delegate_node_index=first, last_delegate_node_index=last, max_delegated_partitions=ops
    )
    with delegated_interpreter(content, context, options) as interpreter:
        assert_close(run(interpreter, sketch.feeds), run_litert(content, sketch.feeds))
