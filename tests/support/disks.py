"""Disks that are small, full or read-only."""

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_MOST_KILOBYTES = 1 << 16


class NoMount(Exception):
    """Mounting a file system is not permitted here."""


@contextmanager
def small_disk(folder: Path, kilobytes: int) -> Iterator[Path]:
    """A file system in memory, mounted at `folder`.

    Args:
        kilobytes: From 4 to 65536.

    Raises:
        NoMount: It takes privileges that this process lacks.
    """
    assert 4 <= kilobytes <= _MOST_KILOBYTES  # 0 stands for no limit
    folder.mkdir(exist_ok=True)
    options = f"size={kilobytes}k,mode=700"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoMount from error
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def make_read_only(folder: Path) -> None:
    """Have a `small_disk` refuse every write from now on."""
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """As a disk that is full from there on: Python ignores the signal, and a write fails."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def fill(folder: Path) -> None:
    """Leave no room on a `small_disk`."""
    with suppress(OSError), open(folder / "filling", "wb", buffering=0) as file:
        for _ in range(_MOST_KILOBYTES // 4):
            file.write(bytes(4096))
