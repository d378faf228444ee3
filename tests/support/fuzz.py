"""How many examples hypothesis draws, and which."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.support.random_graphs import random_graph
from tests.support.sketch import Sketch

COUNT = int(os.environ.get("GLES_DELEGATE_FUZZ", "0"))


def fuzz(examples: int) -> Callable[[Callable[..., None]], Any]:
    """Give a test its keyword ``choose``, a `random.Random` whose choices are shrunk on failure.

    The examples are the same in every run, and ``examples`` in number; if the environment variable
    GLES_DELEGATE_FUZZ is a number above 0, so many new ones.
    """
    fresh = COUNT > 0
    profile = settings(
        derandomize=not fresh,
        max_examples=COUNT or examples,
        deadline=None,
        print_blob=fresh,
        suppress_health_check=list(HealthCheck),
    )
    drawn = given(choose=st.randoms(use_true_random=False))
    return lambda test: profile(drawn(test))


def drawn_graph(choose: random.Random, most: int) -> tuple[Sketch, list[int]]:
    """A random graph of at most so many ops, and its outputs; shown where the test fails."""
    sketch, outputs = random_graph(choose, ops=choose.randint(1, most))
    shapes = [tensor.get("shape") for tensor in sketch.tensors]
    note(f"{sketch}\noutputs {outputs}, shapes {shapes}")
    return sketch, outputs
