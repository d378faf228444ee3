"""Asynchronous runs."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from time import monotonic
from typing import Any

from gles_delegate.errors import DelegateError
from gles_delegate.gl.sync import Fence
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Array


class Invocation(Fence):
    """A run that `Interpreter.invoke_async` started: a fence, and the run's outputs.

    ``await invocation`` waits for it, and returns it.

    Examples:
        >>> with gd.Interpreter("segmenter.tflite") as interpreter:
        ...     interpreter.allocate_tensors()
        ...     invocation = interpreter.invoke_async()
        ...     invocation.wait(timeout=60)
        ...     ball = invocation.get_tensor(interpreter.get_output_details()[0]["index"])
        True
        >>> ball.shape
        (1, 144, 256, 1)
    """

    def __init__(self, thread: GlThread, read: Callable[[int], Array]) -> None:
        super().__init__(thread.gpu.gl, thread.run)
        self._thread = thread
        self._read = read

    def wait_on_gpu(self) -> None:
        self._thread.gpu.refuse_fork()
        super().wait_on_gpu()

    def get_tensor(self, tensor_index: int) -> Array:
        """Wait for this run, not for later ones, and return one of its outputs.

        It has the shape of this run, also if inputs were resized or bound since.

        Raises:
            ValueError: It is not an output, or was bound, or two later runs were started: only the
                results of the last two runs are kept.
        """
        self.wait()
        return self._read(tensor_index)

    def add_done_callback(self, function: Callable[[Invocation], object]) -> None:
        """Call `function` with this invocation once it is done, or has failed.

        The delegate's own thread makes the call, and does nothing else in the meantime. Exceptions
        are logged.

        Raises:
            DelegateError: The delegate does not have its own thread.
        """
        raise DelegateError(
            "a callback needs a thread that waits: make the delegate with "
            "GpuDelegateOptions(own_thread=True)"
        )

    def __await__(self) -> Generator[Any, None, Invocation]:
        return self._reached().__await__()

    async def _reached(self) -> Invocation:
        import asyncio  # which takes a tenth of the time that importing this package does

        while not self.done():
            await asyncio.sleep(5e-4)
        return self


def not_kept(index: int, outputs: Iterable[int]) -> ValueError:
    """The error for a tensor that `Invocation.get_tensor` does not have."""
    return ValueError(
        f"cannot read tensor {index} of this run: expected one of {sorted(outputs)} "
        "that is not bound, of the last two runs"
    )


class QueuedInvocation(Invocation):
    """An `Invocation` that a delegate's own thread starts, after the calls queued before.

    Methods that wait for it raise the error if it fails to start.
    """

    def __init__(self, thread: GlThread, start: Callable[[], Invocation]) -> None:
        self._thread = thread
        self._started: Future[Invocation] = thread.start(start)

    def _start(self, timeout: float | None = None) -> Invocation:
        self._thread.gpu.refuse_fork()  # nothing would ever start it
        return self._started.result(timeout)

    def wait(self, timeout: float | None = None) -> bool:
        end = None if timeout is None else monotonic() + timeout
        try:
            started = self._start(timeout)
        except FutureTimeoutError:
            return False
        return started.wait(None if end is None else max(end - monotonic(), 0))

    def wait_on_gpu(self) -> None:
        self._start().wait_on_gpu()

    def close(self) -> None:
        self._start().close()

    def get_tensor(self, tensor_index: int) -> Array:
        return self._start().get_tensor(tensor_index)

    def add_done_callback(self, function: Callable[[Invocation], object]) -> None:
        self._in_turn(lambda _: function(self))

    async def _reached(self) -> Invocation:
        import asyncio

        # Cancellation of the coroutine cancels this job, which only waits, and not the run.
        await asyncio.wrap_future(self._in_turn())
        return self

    def _in_turn(self, when_done: Callable[[Future[bool]], object] | None = None) -> Future[bool]:
        """Queue a wait for it on the delegate's thread."""
        return self._thread.start(lambda: self._started.result().wait(), when_done)
