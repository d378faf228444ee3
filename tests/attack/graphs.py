"""Random graphs: real, 8-bit and with 8-bit weights, with sizes of zero, one and primes."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from typing import Any

from tests.attack.trial import Trial
from tests.support.random_copies import random_copies
from tests.support.random_graphs import KINDS, random_graph
from tests.support.random_types import random_types

SIZES = ((5, 3), (1, 1), (7, 13), (1, 31), (2, 11), (0, 3))
CHANNELS = (1, 3, 4, 5, 6, 17, 0)
BATCHES = (1, 2, 3, 0)
MOST_OPS = 20
ALLOWED: Mapping[str, Any] = {"steps": 5, "tolerance": 1e-5}
"""An 8-bit number that LiteRT rounds up and the delegate down may differ more in later ops."""


def drawn(seed: int, ops: int | None = None) -> Trial:
    """A random graph, the same for the same seed; smaller ones have fewer of its ops."""
    choose = random.Random(seed)
    kind = choose.choice((*KINDS, "types"))
    ops = ops or choose.randint(1, MOST_OPS)
    of_ops = choose.getrandbits(32)

    def build(twin: bool) -> tuple[str, bytes]:
        if kind == "types":
            sketch, outputs = random_types(random.Random(of_ops), ops)
            return f"{kind}\n{sketch}\noutputs {outputs}", sketch.build(outputs)
        sizes = {"sizes": SIZES, "channels": CHANNELS, "batches": BATCHES}
        sketch, outputs = random_graph(random.Random(of_ops), ops, kind, **sizes, twin=twin)
        shapes = [tensor.get("shape") for tensor in sketch.tensors]
        return f"{kind}\n{sketch}\noutputs {outputs}, shapes {shapes}", sketch.build(outputs)

    def smaller() -> Iterator[Trial]:
        for fewer in sorted({ops // 2, ops - 1} - {0}):
            yield drawn(seed, fewer)

    name, content = build(twin=False)
    reference = build(twin=True)[1] if kind == "dynamic range" else None
    return Trial(seed, name, content, smaller, reference, **ALLOWED)


def copied(seed: int, ops: int | None = None) -> Trial:
    """A random graph of ops that move elements; see `drawn`."""
    choose = random.Random(seed)
    ops = ops or choose.randint(1, MOST_OPS)
    sketch, outputs = random_copies(choose, ops)

    def smaller() -> Iterator[Trial]:
        for fewer in sorted({ops // 2, ops - 1} - {0}):
            yield copied(seed, fewer)

    shapes = [tensor.get("shape") for tensor in sketch.tensors]
    name = f"copies\n{sketch}\noutputs {outputs}, shapes {shapes}"
    return Trial(seed, name, sketch.build(outputs), smaller, **ALLOWED)
