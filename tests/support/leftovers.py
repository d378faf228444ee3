"""Processes that tests started, and that outlive a run which was killed."""

import os
import signal
import sys
import time
from pathlib import Path

MARK = "GLES_DELEGATE_TESTS"
"""The environment variable by which a process tells the run that started it."""


def kill_after_this_process() -> None:
    """Start a process that waits for the end of this one, and kills what it has left behind."""
    os.environ.pop(MARK, None)
    mark = f"{os.getpid()}-{time.time_ns()}"
    command = [sys.executable, "-S", __file__, mark]
    nowhere = [(os.POSIX_SPAWN_OPEN, stream, os.devnull, os.O_RDWR, 0) for stream in range(3)]
    # Not by subprocess, which warns of a child that it has not seen end.
    os.posix_spawn(sys.executable, command, os.environ, file_actions=nowhere, setpgroup=0)
    os.environ[MARK] = mark


def _of_run(mark: str) -> list[int]:
    """The processes whose environment has the mark."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            variables = (process / "environ").read_bytes().split(b"\0")
        except OSError:  # another user's, or it has ended
            continue
        if f"{MARK}={mark}".encode() in variables:
            found.append(int(process.name))
    return found


def main(mark: str) -> None:
    parent = int(mark.partition("-")[0])
    while os.getppid() == parent:
        time.sleep(0.5)
    for process in _of_run(mark):
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue


if __name__ == "__main__":
    main(sys.argv[1])
