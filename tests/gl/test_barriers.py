"""Barriers: where bytes are read that were written or written that are in use, and only there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from tests.support.sketch import Sketch
from tests.support.trace import traced

pytestmark = pytest.mark.usefixtures("gl")

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


CASES: tuple[tuple[Callable[[Sketch, int], Sequence[int]], str], ...] = (
    (apart, "run run"),
    (chain, "run barrier run"),
    (in_bytes_that_were_read, "run barrier run barrier run"),
    (in_the_place_of_both, "run run barrier run"),
)


@pytest.mark.parametrize(("build", "steps"), CASES)
def test_barriers(
    build: Callable[[Sketch, int], Sequence[int]], steps: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sketch = Sketch(np.random.default_rng(0))
    content = sketch.build(build(sketch, sketch.feed((1, 8, 8, 4))))
    with traced(monkeypatch) as calls, gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        interpreter.allocate_tensors()
        calls.clear()
        interpreter.invoke()
        assert [STEPS[name] for name in calls if name in STEPS] == [*steps.split(), "barrier"]
