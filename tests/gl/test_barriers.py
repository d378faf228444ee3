"""Barriers: where bytes are read that were written or written that are in use, and only there."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.sketch import Sketch
from tests.support.small import allocated
from tests.support.trace import traced

SMALL, LARGE = (1, 8, 8, 4), (1, 600, 600, 4)

STEPS = {"glDispatchCompute": "run", "glMemoryBarrier": "barrier"}


def pool(s: Sketch, x: int, size: int = 3) -> int:
    options: dict[str, Any] = {"filter_width": size, "filter_height": size}
    return s.op("MAX_POOL_2D", [x], stride_w=1, stride_h=1, padding="SAME", **options)


def apart(s: Sketch, x: int) -> list[int]:
    return [pool(s, x), pool(s, x, 5)]


def chain(s: Sketch, x: int) -> list[int]:
    return [pool(s, pool(s, x))]


def in_bytes_that_were_read(s: Sketch, x: int) -> list[int]:
    """The third result lies where the first one was."""
    return [pool(s, pool(s, x)), pool(s, x, 5)]


def in_the_place_of_both(s: Sketch, x: int) -> list[int]:
    """Two tensors that are joined where they are computed, and then read as one."""
    both = s.op("CONCATENATION", apart(s, x), axis=3)
    return [s.op("MEAN", [both, s.constant(np.array([1, 2], np.int32))])]


def around_a_chain(s: Sketch, x: int) -> list[int]:
    """A large tensor of which one pixel is read, pooled three times, and added to the tensor."""
    large = pool(s, x)
    starts, sizes = (s.constant(np.array(row, np.int32)) for row in ([0] * 4, [1, 1, 1, 4]))
    small = s.op("SLICE", [large, starts, sizes])
    for _ in range(3):
        small = pool(s, small)
    return [pool(s, s.op("ADD", [large, small]))]


@pytest.mark.usefixtures("no_chains")
@pytest.mark.parametrize(
    ("build", "steps"),
    [
        (apart, "run run"),
        (chain, "run barrier run"),
        (in_bytes_that_were_read, "run barrier run barrier run"),
        (in_the_place_of_both, "run run barrier run"),
    ],
)
def test_barriers(
    build: Callable[[Sketch, int], Sequence[int]], steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run_steps(build, SMALL, monkeypatch) == [*steps.split(), "barrier"]


@pytest.mark.mesa
@pytest.mark.parametrize(
    ("build", "shape", "steps"),
    [
        (in_the_place_of_both, SMALL, "run"),
        (around_a_chain, LARGE, "run barrier run barrier run barrier run"),
    ],
)
def test_barriers_around_chains(
    build: Callable[[Sketch, int], Sequence[int]],
    shape: tuple[int, ...],
    steps: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_steps(build, shape, monkeypatch) == [*steps.split(), "barrier"]


def run_steps(
    build: Callable[[Sketch, int], Sequence[int]],
    shape: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> list[str]:
    """The dispatches and barriers of a run."""
    sketch = Sketch(np.random.default_rng(0))
    content = sketch.build(build(sketch, sketch.feed(shape)))
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        interpreter = allocated(delegate, content)
        calls.clear()
        interpreter.invoke()
        return [STEPS[name] for name in calls if name in STEPS]
