"""Threads that answer the pictures or sounds of a stream, in order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")
log = logging.getLogger("gles_delegate")


class Stream(Generic[T]):
    """A thread that answers items.

    Args:
        answer: Called with an item; returns the call of the app's callback. Errors of both are
            logged, and the stream continues.
        newest_only: An item that waits is dropped when a newer one comes.
    """

    def __init__(self, answer: Callable[[T], Callable[[], object]], *, newest_only: bool) -> None:
        self._answer = answer
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque(maxlen=1 if newest_only else None)
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="gles_delegate stream", daemon=True)
        self._thread.start()

    def send(self, item: T) -> None:
        """Let an item wait."""
        with self._changed:
            self._waiting.append(item)
            self._changed.notify()

    def close(self) -> None:
        """End the thread after the waiting items; in a callback, without them."""
        is_here = self._thread is threading.current_thread()
        with self._changed:
            self._is_closing = True
            if is_here:
                self._waiting.clear()
            self._changed.notify()
        if not is_here:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                item = self._waiting.popleft()
            try:
                callback = self._answer(item)
            except Exception:
                log.exception("an item of a stream failed")
                continue
            try:
                callback()
            except BaseException:  # SystemExit, too, must not end the stream
                log.exception("result_callback failed")
            del item, callback
