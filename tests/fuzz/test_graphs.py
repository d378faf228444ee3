"""Random graphs against LiteRT's CPU kernels, each dispatch separately, too, and on any device."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.device import profiles
from gles_delegate.gl.context import GpuContext
from gles_delegate.verification.cases import VerificationCase
from gles_delegate.verification.check import every_form, verified
from tests.support.force import force_profile, limits_of
from tests.support.fuzz import drawn_graph, fuzz
from tests.support.hosts import HOSTS, run_resized
from tests.support.oracle import (
    assert_close,
    assert_sane,
    in_ours,
    litert_interpreter,
    run,
    run_gles,
    run_litert,
)
from tests.support.random_views import ROWS

pytestmark = pytest.mark.usefixtures("gl")


def check(choose: random.Random, egl: gd.EglContext) -> None:
    sketch, outputs = drawn_graph(choose, 20)
    content = sketch.build(outputs)
    reference = run_litert(content, sketch.feeds)
    assert_close(run_gles(content, sketch.feeds, egl), reference, inputs=sketch.feeds)


@fuzz(examples=8)
def test_graphs(choose: random.Random, egl: gd.EglContext) -> None:
    check(choose, egl)


@pytest.mark.usefixtures("floor")
@fuzz(examples=8)
def test_graphs_at_the_floor(choose: random.Random, egl: gd.EglContext) -> None:
    check(choose, egl)


@pytest.fixture
def winograd(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every convolution with a window of 3 x 3 goes through Winograd's transforms."""
    force_profile(monkeypatch, replace(profiles.LLVMPIPE, winograd=(1,), winograd_pixels=1))


@pytest.mark.usefixtures("winograd")
@fuzz(examples=8)
def test_graphs_by_winograd_s_algorithm(choose: random.Random, egl: gd.EglContext) -> None:
    check(choose, egl)


@fuzz(examples=60)
def test_one_tensor_in_several_places(choose: random.Random, egl: gd.EglContext) -> None:
    """In both hosts, with nodes on the CPU as well; then resized, and back."""
    sketch, outputs = drawn_graph(choose, 8, "views")
    content, feeds = sketch.build(outputs), sketch.feeds
    host, others = (choose.choice(HOSTS), choose.choice(((), (choose.choice(ROWS), 7))))
    theirs, first = litert_interpreter(content), choose.choice((0, 0, 1, 3))
    options = gd.GpuDelegateOptions(first_delegate_node_index=first, max_delegated_partitions=9)
    with gd.GpuDelegate(options, context=egl, model=content) as delegate:
        ours = host(delegate, content)
        assert_close(run(ours, feeds), run(theirs, feeds), inputs=feeds, tolerance=1e-4)
        for rows in (*others, *(feeds[0].shape[-2] for _ in others[:1])):
            inputs = [np.repeat(x, rows, axis=-2)[..., -rows:, :] for x in feeds]
            actual, expected = run_resized(ours, inputs), run_resized(theirs, inputs)
            assert_close(actual, expected, inputs=inputs, tolerance=1e-4)
        if host is in_ours and delegate.report.segments:
            assert_sane(delegate)


@pytest.mark.parametrize("name", ["", *profiles.NAMED])
@fuzz(examples=12)
def test_copies(choose: random.Random, name: str, gpu: GpuContext) -> None:
    """In every form of every profile; each dispatch writes its output, and nothing else."""
    sketch, outputs = drawn_graph(choose, 12, "copies")
    content, feeds = sketch.build(outputs), tuple(sketch.feeds)
    expected = tuple(run_litert(content, feeds))
    case = VerificationCase("GRAPH", "copies", True, True, 1, content, feeds, expected)
    limits = gpu.limits
    if name:
        limits = limits_of(limits, profiles.NAMED[name])
    with gpu.guard():
        results = [*verified(gpu, [case], every_form(limits))]
    assert [result for result in results if not result.passed] == []
