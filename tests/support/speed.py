"""Limits of processor time that hold on slow and on emulated machines, too."""

import time
from functools import cache

SECONDS = 0.012
"""What `_work` takes on an AMD EPYC (Zen 5), for which the limits of tests are written."""


def scaled(limit: float) -> float:
    """A limit in seconds, multiplied by how much slower than that this machine is."""
    return limit * max(1.0, _measured() / SECONDS)


@cache
def _measured() -> float:
    return min(_work() for _ in range(3))


def _work() -> float:
    """The processor time of interpreted code that allocates, as readers and parsers do."""
    start = time.process_time()
    [hash((i, str(i))) for i in range(100_000)]
    return time.process_time() - start
