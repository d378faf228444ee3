"""A worker's processors, and the cache folder that workers share."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

_held: list[IO[bytes]] = []
"""The lock files of this process's processors; closed when it ends."""


def cache_folder() -> Path:
    """The folder for this user's compiled programs on this machine."""
    folder = Path(gettempdir(), f"gles_delegate-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if folder.stat().st_uid == os.getuid() else Path(mkdtemp())


def take_processors(count: int) -> None:
    """Pin llvmpipe to `count` processors that no other worker on this machine uses.

    Mesa reads LP_NUM_THREADS once, before its first context, and its threads inherit the CPU
    affinity of the thread that starts them.
    """
    if _held:
        return
    os.environ.setdefault("LP_NUM_THREADS", str(count))
    free: list[int] = []
    for processor in sorted(os.sched_getaffinity(0)):
        file = (cache_folder() / f"processor-{processor}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another worker's
            file.close()
            continue
        _held.append(file)
        free.append(processor)
        if len(free) == count:
            os.sched_setaffinity(0, free)
            return
    while _held:  # too few are free: the kernel chooses
        _held.pop().close()
