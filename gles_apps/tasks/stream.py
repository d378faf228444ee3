"""Threads that answer the pictures or sounds of a stream, in order."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeAlias

from gles_delegate.gl.thread import start as start_thread
from gles_delegate.support.closing import on_error

Answer: TypeAlias = "Callable[[], Callable[[], object]]"
"""Answers an item; returns the call of the app's callback."""
log = logging.getLogger("gles_delegate")

NOT_RUNNING = "Task runner is currently not running."
"""The error of calls of a task that is closed, or is being closed."""


class Stream:
    """A thread that answers items. It refers to their task only while items wait.

    Errors of answers and callbacks are logged, and the stream continues.

    Args:
        newest_only: An item that waits is dropped when a newer one comes.
    """

    def __init__(self, *, newest_only: bool) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[Answer] = deque(maxlen=1 if newest_only else None)
        self._is_closing = False
        self._thread = threading.Thread(target=self._work, name="gles_delegate stream", daemon=True)
        with on_error(self.end):
            start_thread(self._thread)

    def send(self, *answers: Answer) -> None:
        """Let items wait; raises ValueError once the end has begun."""
        if not (self._is_closing or self._thread.is_alive()):  # who holds the lock is gone, too
            raise ValueError(f"{NOT_RUNNING} It was started before a fork: make the task here.")
        with self._changed:
            if self._is_closing:
                raise ValueError(NOT_RUNNING)
            self._waiting.extend(answers)
            self._changed.notify()

    def end(self) -> None:
        """End the thread after the waiting items, without waiting for it."""
        if self._thread.is_alive():
            with self._changed:
                self._is_closing = True
                self._changed.notify()
        self._is_closing = True

    def close(self) -> None:
        """End the thread after the waiting items; in a callback, without them."""
        self.end()
        if self._thread is threading.current_thread():
            self._waiting.clear()
        else:
            self._thread.join()

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_closing)
                if not self._waiting:
                    return
                answer = self._waiting.popleft()
            callback = None
            try:
                callback = answer()
            except Exception:
                log.exception("an item of a stream failed")
            try:
                if callback is not None:
                    callback()
            except BaseException:  # SystemExit, too, must not end the stream
                log.exception("result_callback failed")
            del answer, callback  # they refer to the task
