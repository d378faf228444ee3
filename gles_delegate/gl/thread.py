"""A context together with the thread that uses it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import NoReturn, TypeVar

from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext

T = TypeVar("T")


class NotPickled:
    """Base of what holds a GL context."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds a GL context and cannot be pickled: send the options and "
            "the model's path, and make the delegate there"
        )


class GlThread(NotPickled):
    """Calls functions on the thread of a context, with the context current.

    Args:
        make: Makes the context; called on the thread it will belong to.
        own: Keep a thread for it, so that any thread may call; otherwise it is the caller's.
    """

    def __init__(self, make: Callable[[], GpuContext], own: bool) -> None:
        self._worker = ThreadPoolExecutor(1, "gles_delegate") if own else None
        self._closed = False
        self._ident: int | None = None
        try:
            if own:
                self._ident = self._call(threading.get_ident)
            self.gpu = self._call(make)
        except BaseException:
            self._stop()
            raise

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on the own thread, on behalf of a thread that waits for it."""
        return self._ident == threading.get_ident()

    def run(self, function: Callable[[], T]) -> T:
        """Call `function` there.

        Raises:
            DelegateError: It is closed.
            ContextError: See `GpuContext.guard`.
        """
        if self._closed:
            raise DelegateError("the delegate is closed: make a new one")
        self.gpu.refuse_fork()  # the own thread is not there to do it

        def guarded() -> T:
            with self.gpu.guard():
                return function()

        return self._call(guarded)

    def close(self, release: Callable[[], None]) -> None:
        """Call `release` there, then destroy the context if it is not the app's."""

        def release_all() -> None:
            release()
            self.gpu.release()

        self.run(release_all)
        self._closed = True
        self._stop()

    def _call(self, function: Callable[[], T]) -> T:
        return function() if self._worker is None else self._worker.submit(function).result()

    def _stop(self) -> None:
        if self._worker is not None:
            self._worker.shutdown()


class ThreadLock:
    """A re-entrant lock for sequences of calls.

    Code on the delegate's own thread passes it: whoever waits for that code may hold it.
    """

    def __init__(self, thread: GlThread) -> None:
        self._thread = thread
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if not self._thread.is_here:
            self._lock.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if not self._thread.is_here:
            self._lock.release()
