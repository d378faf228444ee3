"""A context together with the thread that uses it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn, TypeVar

from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext

T = TypeVar("T")


class NotPickled:
    """Base of what holds a GL context."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"a {type(self).__name__} holds a GL context and cannot be pickled: send the options "
            "and the model's path, and make the delegate there"
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
        try:
            self.gpu = self._call(make)
        except BaseException:
            self._stop()
            raise

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
