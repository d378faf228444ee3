"""A worker's processors, and the cache folder that workers share."""

from __future__ import annotations

import fcntl
import logging
import os
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO

from gles_delegate.errors import reason_of
from gles_delegate.support.threads import processors

log = logging.getLogger("gles_delegate")
_held: list[IO[bytes]] = []
"""The lock files of this process's processors; closed when it ends."""


@cache
def cache_folder() -> Path | None:
    """The folder for this user's compiled programs on this machine; None: it has no place for one,
    which is logged.
    """
    try:
        folder = Path(gettempdir(), f"gles_delegate-{os.getuid()}")
        folder.mkdir(mode=0o700, exist_ok=True)
        is_ours = folder.stat().st_uid == os.getuid() and os.access(folder, os.W_OK)
        return folder if is_ours else Path(mkdtemp())
    except OSError as error:
        log.warning("no programs are kept for the next start: %s", reason_of(error))
        return None


def take_processors(count: int) -> None:
    """Pin llvmpipe to `count` processors that no other worker on this machine uses.

    Mesa reads LP_NUM_THREADS once, before its first context, and its threads inherit the CPU
    affinity of the thread that starts them.
    """
    if _held:
        return
    os.environ.setdefault("LP_NUM_THREADS", str(count))
    folder = cache_folder()
    if folder is None:
        return
    free: list[int] = []
    for processor in processors():
        file = (folder / f"processor-{processor}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another worker's
            file.close()
            continue
        _held.append(file)
        free.append(processor)
        if len(free) == count:
            with suppress(OSError):  # a sandbox refuses: the kernel chooses
                os.sched_setaffinity(0, free)
            return
    while _held:  # too few are free: the kernel chooses
        _held.pop().close()
