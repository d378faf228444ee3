"""The processors and the folder that a process has to itself, or shares."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

_held: list[IO[bytes]] = []
"""The lock files of this process's processors; closed when it ends."""


def cache_folder() -> Path:
    """The folder of this user's compiled programs on this machine."""
    folder = Path(gettempdir(), f"gles_delegate-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if folder.stat().st_uid == os.getuid() else Path(mkdtemp())


def take_processors(count: int) -> None:
    """Pin llvmpipe to `count` processors, which no other worker of this machine has.

    Mesa reads LP_NUM_THREADS once, before its first context, and its threads may run where the
    thread that starts them may.
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
