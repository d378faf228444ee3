"""Blocks in which Python runs nothing of an app's in between."""

from __future__ import annotations

import os
import time

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
        self._deferred.begin()
        self._off.begin()

    def end(self) -> None:
        self._off.end()
        self._deferred.end()


def give_way() -> None:
    """Between two calls of OpenGL: let the collector run, or a fork, if they wait."""
    collector.give_way()
    if _fork_waits:
        _paused.add(get_ident())
        while _fork_waits:
            time.sleep(0.001)
        _paused.discard(get_ident())


def was_busy_at_fork() -> bool:
    """Whether threads of the parent called OpenGL as this process was forked from it.

    They may have held locks of the driver, which nobody releases here.
    """
    return _was_busy


def _others_work() -> bool:
    return bool(collector.holders() - _paused - {get_ident()})


def _wait_for_others() -> None:
    global _fork_waits
    _fork_waits = True
    limit = time.monotonic() + _SECONDS
    while _others_work() and time.monotonic() < limit:
        time.sleep(0.001)
    collector.hold()


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
