"""Random graphs, each the same for the same seed, with sizes of zero, one and primes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tests.attack.trial import Trial
from tests.support.random_graphs import Kind, described, random_graph

SIZES = ((5, 3), (1, 1), (7, 13), (1, 31), (2, 11), (0, 3))
CHANNELS = (1, 3, 4, 5, 6, 17, 0)
BATCHES = (1, 2, 3, 0)
MOST_OPS = 20
ALLOWED: Mapping[str, Any] = {"steps": 5, "tolerance": 1e-5}
"""An 8-bit number that LiteRT rounds up and the delegate down may differ more in later ops."""


def drawn(kinds: Sequence[Kind], seed: int, most: int = MOST_OPS) -> Trial:
    """A random graph of one of these kinds; smaller ones have fewer of its ops."""
    choose = random.Random(seed)
    kind, ops = choose.choice(kinds), min(choose.randint(1, MOST_OPS), most)
    of_ops = choose.getrandbits(32)

    def build(twin: bool) -> tuple[str, bytes]:
        sizes = {"sizes": SIZES, "channels": CHANNELS, "batches": BATCHES}
        sketch, outputs = random_graph(random.Random(of_ops), ops, kind, **sizes, twin=twin)
        return f"{kind}\n{described(sketch, outputs)}", sketch.build(outputs)

    def smaller() -> Iterator[Trial]:
        for fewer in sorted({ops // 2, ops - 1} - {0}):
            yield drawn(kinds, seed, fewer)

    name, content = build(twin=False)
    reference = build(twin=True)[1] if kind == "dynamic range" else None
    return Trial(seed, name, content, smaller, reference, **ALLOWED)
