"""llvmpipe's worker threads, each kept on a processor of its own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path

_TASKS = Path("/proc/self/task")


def pin_workers() -> None:
    """Give each of llvmpipe's compute threads one of the processors this process may use.

    The kernel often wakes two of them on one processor, where they take turns; a dispatch
    then takes up to twice as long. Does nothing where there is no such thread.
    """
    processors = sorted(os.sched_getaffinity(0))
    for i, thread in enumerate(_workers()):
        try:
            os.sched_setaffinity(thread, {processors[i % len(processors)]})
        except OSError:  # it ended meanwhile
            continue


def _workers() -> Iterator[int]:
    """The compute threads of every llvmpipe screen of this process.

    Mesa creates, one after the other, N rasteriser threads that it names ``llvmpipe-<i>`` and
    N compute threads that it leaves unnamed.
    """
    try:
        threads = sorted(int(task.name) for task in _TASKS.iterdir())
        names = {thread: (_TASKS / str(thread) / "comm").read_text() for thread in threads}
    except OSError:
        return
    runs = [
        (rasterisers, list(group))
        for rasterisers, group in groupby(threads, lambda t: names[t].startswith("llvmpipe-"))
    ]
    for (rasterisers, first), (_, second) in pairwise(runs):
        if rasterisers:
            yield from second[: len(first)]
