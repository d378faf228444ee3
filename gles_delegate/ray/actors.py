"""What an actor of Ray's has of its machine: processors, a GPU, a folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from tempfile import gettempdir, mkdtemp
from typing import IO, Any

import ray

from gles_delegate.gl.egl import list_devices

_held: list[IO[bytes]] = []
"""The lock files of this process's processors; closed when it ends."""


def cache_folder() -> Path:
    """The folder of this user's compiled programs on this machine."""
    folder = Path(gettempdir(), f"gles_delegate-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if folder.stat().st_uid == os.getuid() else Path(mkdtemp())


def _is_actor() -> bool:
    return ray.is_initialized() and ray.get_runtime_context().get_actor_id() is not None


def device_of_actor() -> int | None:
    """The index of the device that Ray gives the actor; None: the best of any.

    GPUs are numbered as EGL lists hardware devices. An actor without a GPU takes the CPU.
    """
    if not _is_actor():
        return None
    given = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
    nodes = (*Path("/dev").glob("dri/renderD*"), *Path("/dev").glob("nvidia[0-9]*"))
    if not given and not nodes:  # there is the CPU alone
        return None
    devices = list_devices()
    wanted = [device for device in devices if device.software != bool(given)]
    if given and int(given[0]) < len(wanted):
        return wanted[int(given[0])].index
    return wanted[0].index if wanted and not given else None


def take_processors() -> None:
    """Hold llvmpipe to the processors of the actor, which no other actor of this machine has.

    Mesa reads LP_NUM_THREADS once, before its first context, and its threads may run where the
    thread that starts them may.
    """
    if not _is_actor() or _held:
        return
    context: Any = ray.get_runtime_context()
    given = context.get_assigned_resources().get("CPU", 1)
    count = max(int(given), 1)
    os.environ.setdefault("LP_NUM_THREADS", str(count))
    free: list[int] = []
    for processor in sorted(os.sched_getaffinity(0)):
        file = (cache_folder() / f"processor-{processor}").open("wb")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # another actor's
            file.close()
            continue
        _held.append(file)
        free.append(processor)
        if len(free) == count:
            os.sched_setaffinity(0, free)
            return
    while _held:  # not enough of its own: the kernel chooses
        _held.pop().close()
