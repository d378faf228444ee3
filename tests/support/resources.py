"""Resources of a process: descriptors, threads, memory."""

import ctypes
import gc
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

_TRIES = 3


def require_flat(cycle: Callable[[], object], cycles: int, most: int = 3 << 20) -> None:
    """Assert that `cycles` cycles leave no descriptor, no thread and at most `most` bytes.

    A leak shows each time; a heap that the allocator gives to another thread grows once.
    """
    for _ in range(20):  # the driver's caches fill
        cycle()
    grown = []
    while not grown or (grown[-1] >= most and len(grown) < _TRIES):
        before = _settled()
        for _ in range(cycles):
            cycle()
        files, threads, memory = np.subtract(_settled(before[1]), before)
        assert max(files, threads) < 10
        grown.append(int(memory))
    assert grown[-1] < most, grown


def _settled(threads: int = 0) -> tuple[int, int, int]:
    """File descriptors, threads, and bytes of memory of this process, without what is free.

    Waits until at most `threads` threads are left: one that ends may still hold objects.
    """
    gc.collect()
    for _ in range(100):
        if not threads or _count("task") <= threads:
            break
        time.sleep(0.05)
    ctypes.CDLL(None).malloc_trim(0)
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return _count("fd"), _count("task"), pages * os.sysconf("SC_PAGE_SIZE")


def _count(what: str) -> int:
    return len(os.listdir(f"/proc/self/{what}"))
