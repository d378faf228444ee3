"""The asynchronous runs of a segment."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gles_delegate.gl.sync import delete_fence
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Array
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.runtime.session import Session
from gles_delegate.support.closing import in_any_case


class AsyncRuns:
    """Asynchronous runs, which copy their outputs alternately to two sets of a session's buffers.

    The results of the last two runs can be read.
    """

    def __init__(self, thread: GlThread) -> None:
        self._thread = thread
        self._started = 0
        self._staged: dict[int, Session] = {}  # by turn
        self._invocations: list[Invocation] = []

    def next(self) -> int:
        """The number of a run that starts."""
        self._started += 1
        return self._started

    def stage(self, number: int, session: Session, read: Callable[[int], Array]) -> Invocation:
        """Keep the outputs of the run that a session has just started; inside the guard."""
        self._invocations = [each for each in self._invocations if not each.done()]
        self._staged[number % 2] = session
        session.stage(number % 2)
        self._invocations.append(Invocation(self._thread, read))
        return self._invocations[-1]

    def continue_with(self, session: Session, earlier: Session) -> None:
        """Read the results of an earlier session from one of the same shapes."""
        session.take_staged(earlier)
        self._staged = dict.fromkeys(self._staged, session)

    def has(self, number: int) -> bool:
        """Whether it still has the results of a run."""
        return number >= self._started - 1

    def read(self, number: int, index: int, array: Array) -> None:
        """Wait for a run that it `has`, and read an output into `array`; inside the guard."""
        self._staged[number % 2].read_staged(number % 2, index, array)

    def release(self) -> None:
        """Forget all runs so far; inside the guard."""
        invocations, self._invocations = self._invocations, []
        self._staged = {}
        self._started += 2  # it does not have results of earlier runs
        in_any_case(partial(delete_fence, each) for each in invocations)
