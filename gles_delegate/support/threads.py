"""Threads of the operating system, also where gevent or eventlet replace Python's.

A greenlet would share its OpenGL context with all others of its thread. Futures, and the locks of
interpreters, stay Python's: a greenlet that waits for them lets others run. But eventlet's cannot
be set by another thread, so there a future blocks all greenlets of the thread that waits.

Also the processors on which threads run.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from gles_delegate.support.closing import on_error
from gles_delegate.support.collector import CollectorOff
from gles_delegate.support.unpatched import Lock, get_ident, original

T = TypeVar("T")
_FOREVER = 1e8  # seconds
_STACK = 8 << 20
"""Bytes of a thread's stack: compilers of shaders need more than servers of many threads set."""


_starting = Lock()
_here = original("_thread", "_local")()  # has the CollectorOff of a `Thread`


class Awaited(Future[T]):
    """A future whose result another thread sets."""

    def __init__(self) -> None:
        super().__init__()
        if "eventlet.patcher" in sys.modules:
            self._condition = original("threading", "Condition")()

    def result(self, timeout: float | None = None) -> T:
        # gevent takes a wait without a timeout for a deadlock if no greenlet can end it.
        return super().result(_FOREVER if timeout is None else timeout)


class Thread(threading.Thread):
    """A daemon: Python joins other threads before `atexit` functions can stop them.

    The collector does not run on it: finalizers of the app's objects would miss their context. So
    it is off as long as the thread lives, except in `idle`.
    """

    def __init__(self, target: Callable[..., object], name: str, args: Iterable[Any] = ()) -> None:
        super().__init__(target=target, name=name, args=args, daemon=True)
        self._off: CollectorOff | None = CollectorOff(on_app_thread=False)
        self._ended: Any = None  # a lock that is free once it has ended, if it is not Python's

    @property
    def is_here(self) -> bool:
        """Whether this is the thread that runs."""
        return self.ident == get_ident() and self.is_alive()  # the next thread may have its ident

    def start(self) -> None:
        """Start it; raises RuntimeError if there is no thread to be had, as when Python ends."""
        if sys.is_finalizing():  # until Python 3.11 a thread would be waited for that never runs
            raise RuntimeError("can't start a thread while Python is ending")
        assert self._off is not None
        with _starting, on_error(self._off.end):
            self._off.begin()
            others = threading.stack_size()
            threading.stack_size(max(others, _STACK) if others else 0)
            try:
                self._start()
            finally:
                threading.stack_size(others)

    def run(self) -> None:
        off, self._off = self._off, None
        assert off is not None
        off.begin()
        _here.off = off  # it ends with what Python keeps for this thread, after all else
        del off
        super().run()

    def _start(self) -> None:
        if get_ident is threading.get_ident:
            super().start()
            return
        self._ended = Lock()
        self._ended.acquire()
        try:
            self._ident = original("_thread", "start_new_thread")(self._work, ())
        except BaseException:
            self._ended.release()
            raise

    def is_alive(self) -> bool:
        return super().is_alive() if self._ended is None else self._ended.locked()

    def join(self, timeout: float | None = None) -> None:
        if self._ended is None:
            super().join(timeout)
        elif self._ended.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            self._ended.release()

    def _work(self) -> None:
        self._ident = get_ident()
        try:
            with suppress(SystemExit):
                self.run()
        finally:
            self._ended.release()


def idle(wait: Callable[[], T]) -> T:
    """On a `Thread`: call a function of C that waits; meanwhile other threads may collect."""
    # No object is allocated in between, so this thread does not collect.
    _here.off.end()
    try:
        return wait()
    finally:
        _here.off.begin()


def processors() -> list[int]:
    """The numbers of the processors that this process may use; none if the system refuses to say,
    as some sandboxes do.
    """
    try:
        return sorted(os.sched_getaffinity(0))
    except OSError:
        return []


def processor_count() -> int:
    """The number of processors that this process may use."""
    return len(processors()) or os.cpu_count() or 1
