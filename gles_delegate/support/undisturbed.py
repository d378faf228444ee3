"""Blocks in which Python runs nothing of an app's in between."""

from __future__ import annotations

import os
import time
from contextlib import AbstractContextManager, nullcontext

from gles_delegate.support import collector
from gles_delegate.support.collector import CollectorOff
from gles_delegate.support.signals import SignalsDeferred
from gles_delegate.support.unpatched import get_ident

_fork_waits = False
_was_busy = False
_paused: set[int] = set()
"""Threads that a waiting fork has stopped between two calls."""
_SECONDS = 5.0  # that a fork waits at most


class Undisturbed:
    """In a ``with`` block neither the collector nor handlers of signals run on this thread."""

    def __init__(self) -> None:
        self._off = CollectorOff()
        self._deferred = SignalsDeferred()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *raised: object) -> None:
        self.end()

    @property
    def is_due(self) -> bool:
        """Whether a handler, the collector or a fork waits for the end."""
        return self._deferred.is_due or collector.is_due() or _fork_waits

    def begin(self) -> None:
        _let_forks_go_first()
        self._deferred.begin()
        self._off.begin()

    def end(self) -> None:
        self._off.end()
        self._deferred.end()


def unforked() -> AbstractContextManager[None]:
    """Forks of other threads wait for the end of a ``with`` block, as of an `Undisturbed`.

    EGL has locks of the whole process, which a child could never take if they were held.
    """
    if get_ident() in collector.holders():
        return nullcontext()
    _let_forks_go_first()
    return CollectorOff(on_app_thread=False)


def give_way() -> None:
    """Between two calls of OpenGL: let the collector run, or a fork, if they wait."""
    collector.give_way()
    while _fork_waits:  # another fork may have begun before this thread was no longer paused
        _paused.add(get_ident())
        while _fork_waits:
            time.sleep(0.001)
        _paused.discard(get_ident())


def _let_forks_go_first() -> None:
    """Threads that call OpenGL all the time would leave a fork no moment."""
    if _fork_waits and get_ident() not in collector.holders():
        while _fork_waits:
            time.sleep(0.001)


def was_busy_at_fork() -> bool:
    """Whether threads of the parent called OpenGL as this process was forked from it.

    They may have held locks of the driver, which nobody releases here.
    """
    return _was_busy


def _others_work() -> bool:
    return bool(collector.holders() - _paused - {get_ident()})


def _wait_for_others() -> None:
    global _fork_waits
    limit = time.monotonic() + _SECONDS
    while True:
        collector.hold()  # so none begins after the look
        _fork_waits = True  # the end of another thread's fork may have reset it
        if not _others_work() or time.monotonic() > limit:
            return
        collector.let_go()
        time.sleep(0.001)


def _go_on() -> None:
    global _fork_waits
    _fork_waits = False
    collector.let_go()


def _begin_in_child() -> None:
    global _fork_waits, _was_busy
    _was_busy = _was_busy or _others_work()
    _paused.clear()
    _fork_waits = False
    collector.forget_others()


os.register_at_fork(before=_wait_for_others, after_in_parent=_go_on, after_in_child=_begin_in_child)
