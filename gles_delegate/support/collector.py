"""Python's collector of reference cycles, which must not run in a context of the delegate.

It runs on whichever thread allocates, and with it the finalizers of an app's objects. Those delete
textures and buffers by name in the current context, where the names may be the delegate's objects.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable

from gles_delegate.support.unpatched import RLock, get_ident

_MOMENT = 1e-3  # seconds that other threads get to collect in `give_way`

_lock = RLock()
_holders: dict[int, int] = {}
"""The thread of each `CollectorOff` that is on, by the object's id."""
_was_enabled = False


class CollectorOff:
    """Automatic collection is off in the process while any thread is between `begin` and `end`.

    An app that has disabled the collector finds it disabled afterwards. An object that is dropped
    between the two ends, too, so an exception at any place leaves nothing behind.

    Args:
        on_app_thread: Whether the thread is the app's. There `end` collects what is due, if another
            thread still keeps the collector off. On a thread of the delegate, finalizers of the
            app's objects would miss their context.
    """

    def __init__(self, on_app_thread: bool = True) -> None:
        self._on_app_thread = on_app_thread

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *raised: object) -> None:
        self.end()

    def begin(self) -> None:
        # Neither this nor `_release` allocates an object that the collector tracks: that would
        # collect here. Handlers of signals may run in between, and call both.
        global _was_enabled
        _lock.acquire()
        try:
            _holders[id(self)] = get_ident()
            if gc.isenabled():
                gc.disable()
                _was_enabled = True
        finally:
            _lock.release()

    def end(self) -> None:
        """Let the collector run again, unless another holder keeps it off; may be repeated."""
        self._release()
        if self._on_app_thread:
            collect_if_due()

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        # Python ends threads wherever they are: one may have held the lock.
        if not is_finalizing():
            self.end()

    def _release(self) -> None:
        global _was_enabled
        _lock.acquire()
        try:
            _holders.pop(id(self), None)
            if _was_enabled and not _holders:
                _was_enabled = False
                gc.enable()
        finally:
            _lock.release()


def is_due() -> bool:
    """Whether Python would collect now if the collector were on."""
    threshold = gc.get_threshold()[0]
    return _was_enabled and 0 < threshold < gc.get_count()[0]


def give_way() -> None:
    """Let other threads collect for a moment, unless one of them keeps the collector off."""
    _lock.acquire()
    try:
        here = get_ident()
        if _was_enabled and all(thread == here for thread in _holders.values()):
            # No object is allocated until the end, so this thread does not collect.
            gc.enable()
            time.sleep(_MOMENT)
            gc.disable()
    finally:
        _lock.release()


def collect_if_due() -> None:
    """On a thread of the app: collect as Python would, if only other threads prevent that."""
    if not _was_enabled or get_ident() in _holders.values():
        return
    counts = zip(gc.get_count(), gc.get_threshold(), strict=True)
    due = [i for i, (count, threshold) in enumerate(counts) if 0 < threshold < count]
    # Older generations wait for the younger one.
    if due and due[0] == 0:
        gc.collect(max(due))


def hold() -> None:
    """Before a fork: no other thread holds the lock, which Python takes in the child before hooks.

    The parent calls `let_go` after it, the child `forget_others`.
    """
    _lock.acquire()


def let_go() -> None:
    _lock.release()


def holders() -> set[int]:
    """The threads that keep the collector off."""
    return {*_holders.values()}


def forget_others() -> None:
    """Forget the other threads, which the child of a fork does not have, and their locks."""
    global _lock
    _lock = RLock()
    here = get_ident()
    for holder, thread in list(_holders.items()):
        if thread != here:
            del _holders[holder]
    CollectorOff().end()
