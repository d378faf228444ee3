"""How many examples hypothesis draws, and which."""

import random
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st

from tests.support import sampling
from tests.support.random_graphs import Kind, described, random_graph
from tests.support.sketch import Sketch


def fuzz(examples: int) -> Callable[[Callable[..., None]], Any]:
    """Give a test its keyword ``choose``, a `random.Random` whose choices are shrunk on failure.

    The examples are the same in every run: ``examples`` with `pytest --all`, else about a quarter.
    With `pytest --fresh N` they are N new ones.
    """
    profile = settings(
        derandomize=not sampling.fresh,
        max_examples=sampling.fresh or (examples if sampling.everything else examples // 4 + 1),
        deadline=None,
        print_blob=sampling.fresh > 0,
        suppress_health_check=list(HealthCheck),
    )
    drawn = given(choose=st.randoms(use_true_random=False))
    return lambda test: profile(drawn(test))


def drawn_graph(
    choose: random.Random, most: int, kind: Kind = "float32"
) -> tuple[Sketch, list[int]]:
    """A random graph of at most `most` ops, and its outputs; printed when the test fails."""
    sketch, outputs = random_graph(choose, choose.randint(1, most), kind)
    note(described(sketch, outputs))
    return sketch, outputs
