"""Models run in separate processes, which may crash, hang or exhaust memory."""

from __future__ import annotations

import logging
import multiprocessing
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

SECONDS = 20
IDLE = 0.02
"""Share of the time in which a process that hangs computes at most."""
BYTES = 12 << 30


@dataclass(frozen=True)
class Outcome:
    """The outcome of a model.

    Attributes:
        kind: "result", "refused", "refused by LiteRT", "foreign error", "crash" or "hang".
        arrays: The outputs of a result.
        text: The message of an error.
        delegated: The number of nodes that the GPU ran.
    """

    kind: str
    arrays: tuple[Any, ...] = ()
    text: str = ""
    delegated: int = 1


class Worker:
    """A process that runs models one after the other, and is restarted when it dies.

    Args:
        fill: See `fresh_memory`.
    """

    def __init__(
        self, run: Callable[[bytes, int], Outcome], seconds: float = SECONDS, fill: int = 0
    ) -> None:
        self._run, self._seconds, self._fill = run, seconds, fill
        self._process: Any = None

    def __call__(self, content: bytes, seed: int) -> Outcome:
        self.start(content, seed)
        return self.outcome()

    def start(self, content: bytes, seed: int) -> None:
        """Begin with a model; `outcome` waits for its end."""
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, other = context.Pipe()
            self._process = context.Process(target=_serve, args=(other, self._run), daemon=True)
            with fresh_memory(self._fill):
                self._process.start()
            other.close()
            self._pipe.recv()  # its imports do not count
        with suppress(BrokenPipeError, ConnectionResetError):  # `outcome` sees them too
            self._pipe.send((content, seed))

    def outcome(self) -> Outcome:
        """The outcome of the model.

        It hangs if it computes for too long, by the processor's time, or if it has long stopped
        computing: on a busy machine, it only takes longer.
        """
        try:
            begin = before = self._computed()
            while True:
                if self._pipe.poll(self._seconds):
                    outcome: Outcome = self._pipe.recv()
                    return outcome
                now = self._computed()
                if now - begin > self._seconds or now - before < IDLE * self._seconds:
                    break
                before = now
            kind = "hang"
        except (EOFError, BrokenPipeError, ConnectionResetError):
            kind = "crash"
        self.stop()
        return Outcome(kind)

    def _computed(self) -> float:
        """Seconds of the processor that the process has used."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        """End the process; the next model gets a new one."""
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


@contextmanager
def fresh_memory(fill: int) -> Iterator[None]:
    """Processes that start meanwhile find memory filled with the complement of a byte; 0: any."""
    if fill:
        os.environ["MALLOC_PERTURB_"] = str(fill)  # of glibc
    try:
        yield
    finally:
        os.environ.pop("MALLOC_PERTURB_", None)


def _serve(pipe: Connection, run: Callable[[bytes, int], Outcome]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    logging.disable()
    with suppress(EOFError, BrokenPipeError):  # nobody is left to ask
        pipe.send("ready")
        while True:
            pipe.send(run(*pipe.recv()))
