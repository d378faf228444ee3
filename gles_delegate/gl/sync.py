"""Fences, and timing of GPU work."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from time import perf_counter
from typing import Any, cast

from gles_delegate.errors import GLError, OutOfGpuMemoryError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import Closing, on_error
from gles_delegate.support.unpatched import Lock


class Stopwatch:
    """Measures the GPU's time for some calls.

    Args:
        queries: Use the GPU's timer; otherwise the CPU's, which includes the round trip.
        is_es: OpenGL ES reports when its timer was wrong, as after a change of the GPU's clock; the
            CPU's timer is used then.
    """

    def __init__(self, gl: Functions, queries: bool, is_es: bool) -> None:
        self._gl = gl
        self._is_es = is_es
        self._query = ctypes.c_uint(gl.generate("Queries") if queries else 0)

    def measure(self, function: Callable[[], object]) -> float:
        """Call it; return its seconds on the GPU."""
        gl = self._gl
        if not self._query:
            gl.glFinish()
            begin = perf_counter()
            function()
            gl.glFinish()
            return perf_counter() - begin
        nanoseconds = ctypes.c_uint64()
        self._was_wrong()  # resets the flag
        begin = perf_counter()
        gl.glBeginQuery(gl_names.TIME_ELAPSED, self._query)
        function()
        gl.glEndQuery(gl_names.TIME_ELAPSED)
        gl.glGetQueryObjectui64v(self._query, gl_names.QUERY_RESULT, nanoseconds)
        return perf_counter() - begin if self._was_wrong() else nanoseconds.value / 1e9

    def _was_wrong(self) -> bool:
        return self._is_es and self._gl.integer(gl_names.GPU_DISJOINT) != 0

    def release(self) -> None:
        if self._query:
            self._gl.glDeleteQueries(1, self._query)


class Fence(Closing):
    """A point in the GPU's work: when it is reached, everything submitted before is done.

    A fence frees itself once `wait` or `done` finds it reached; `close` frees it earlier. Several
    threads may wait for a fence of a delegate that has its own thread.

    Examples:
        >>> with gd.EglContext():
        ...     fence = gd.Fence.of_current_context()
        ...     fence.wait(timeout=1)
        True
    """

    def __init__(self, gl: Functions, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._gl = gl
        self._run = run
        self._lock = Lock()  # held while the GLsync is freed or waited for on the GPU
        self._sync: int | None = gl.glFenceSync(gl_names.SYNC_GPU_COMMANDS_COMPLETE, 0)
        if self._sync is None:
            raise OutOfGpuMemoryError("glFenceSync: expected a fence, found none")
        with on_error(lambda: delete_fence(self)):
            gl.glFlush()  # another context may wait for it

    @staticmethod
    def of_current_context() -> Fence:
        """A fence after the commands submitted to the current EGL or GLX context.

        For `Interpreter.invoke_async` of a delegate whose context shares with it, such as
        ``EglContext(share="current")``. Wait for it where that context is current.

        Raises:
            ContextError: None is current, or it cannot be loaded.
        """
        from gles_delegate.gl.current import current_functions

        functions = current_functions()

        def run(function: Callable[[], Any]) -> Any:
            functions.forget_app_errors()
            return function()

        return cast(Fence, run(lambda: Fence(functions, run)))

    def done(self) -> bool:
        """Whether the GPU has reached it; does not wait."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait on the CPU, for `timeout` seconds at most; return whether it is reached.

        Raises:
            WrongThreadError, WrongContextError, ContextLostError: See `GpuDelegate`.
            GLError: The driver could not wait.
        """
        return self._sync is None or bool(self._run(lambda: self._wait(timeout)))

    def wait_on_gpu(self) -> None:
        """Make the GPU wait before the current context's next commands; returns at once.

        Raises `ValueError` if that context neither is the fence's nor shares with it.
        """
        with self._lock:
            if self._sync is not None:
                if not self._gl.glIsSync(self._sync):
                    raise ValueError(
                        "expected the context of the fence, or one that shares with it, to be "
                        "current, found another: make the fence in such a context"
                    )
                self._gl.glWaitSync(self._sync, 0, gl_names.TIMEOUT_IGNORED)

    def close(self) -> None:
        """Free it; it counts as reached afterwards."""
        if self._sync is not None:
            self._run(lambda: delete_fence(self))

    def _wait(self, timeout: float | None) -> bool:
        limit = gl_names.TIMEOUT_IGNORED if timeout is None else max(int(timeout * 1e9), 0)
        flags = gl_names.SYNC_FLUSH_COMMANDS
        sync = self._sync
        if sync is None:  # another thread has waited for it
            return True
        state = self._gl.glClientWaitSync(sync, flags, limit)
        if state == gl_names.TIMEOUT_EXPIRED:
            return False
        if state not in (gl_names.ALREADY_SIGNALED, gl_names.CONDITION_SATISFIED):
            raise GLError(
                f"glClientWaitSync: expected the GPU to reach the fence, found {state:#x}, "
                "GL_WAIT_FAILED: it may not have reached it"
            )
        delete_fence(self)
        return True


def delete_fence(fence: Fence) -> None:
    """`Fence.close` if the context is already current."""
    with fence._lock:
        sync, fence._sync = fence._sync, None
        if sync is not None:
            fence._gl.glDeleteSync(sync)


def wait_on_gpu(gl: Functions, fence: Fence | int) -> None:
    """Make the GPU wait for a `Fence` or an app's GLsync before the next commands.

    Raises `TypeError` if it is neither, and `ValueError` if it does not belong to this context.
    """
    expected = f"expected a Fence or a GLsync of the delegate's context, found {fence!r}"
    if isinstance(fence, Fence):
        fence.wait_on_gpu()
    elif not isinstance(fence, int):
        raise TypeError(expected)
    elif not gl.glIsSync(fence):
        raise ValueError(expected)
    else:
        gl.glWaitSync(fence, 0, gl_names.TIMEOUT_IGNORED)
