"""The asynchronous runs of a segment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from weakref import ref

import numpy as np

from gles_delegate.gl.sync import delete_fence
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Array
from gles_delegate.runtime.invocation import Invocation, not_kept
from gles_delegate.runtime.session import Session
from gles_delegate.support.closing import in_any_case


class Results:
    """The outputs of an asynchronous run: copies on the GPU, and arrays once the session ends.

    Args:
        session: Has the copies, in the buffers of a slot.
        empty: Makes an array for a tensor, of its shape in this run.
        others: Outputs that the session does not compute.
    """

    def __init__(
        self,
        session: Session,
        slot: int,
        empty: Callable[[int], Array],
        others: Mapping[int, Array],
    ) -> None:
        self.session: Session | None = session
        self._slot = slot
        self._empty = empty
        self._arrays = dict(others)
        self._outputs = (*session.outputs, *others)

    def read(self, index: int) -> Array:
        """Wait for the run, and return an output; inside the guard.

        Raises ValueError if there is no such output, or after `forget`.
        """
        if index in self._arrays:
            return np.array(self._arrays[index])
        if self.session is None or index not in self._outputs:
            raise not_kept(index, self._outputs)
        return self._read(self.session, index)

    def _read(self, session: Session, index: int) -> Array:
        array = self._empty(index)
        session.read_staged(self._slot, index, array)
        return array

    def keep(self) -> None:
        """Read all outputs before the session ends; inside the guard."""
        session = self.session
        if session is not None:
            self._arrays.update({index: self._read(session, index) for index in session.outputs})
            self.session = None

    def forget(self) -> None:
        self.session = None
        self._arrays = {}


class AsyncRuns:
    """Asynchronous runs, which copy their outputs alternately to two slots of a session's buffers.

    The results of the last two runs can be read.
    """

    def __init__(self, thread: GlThread) -> None:
        self._thread = thread
        self._slot = 0
        self._results: dict[int, ref[Results]] = {}  # of the last two runs, by slot
        self._invocations: list[Invocation] = []

    def stage(
        self, session: Session, empty: Callable[[int], Array], others: Mapping[int, Array]
    ) -> Invocation:
        """Keep the outputs of the run that a session has just started; inside the guard.

        See `Results`.
        """
        self._invocations = [each for each in self._invocations if not each.done()]
        self._slot = 1 - self._slot
        for earlier in self._living(self._slot):
            earlier.forget()
        session.stage(self._slot)
        thread = self._thread
        results = Results(session, self._slot, empty, others)
        self._results[self._slot] = ref(results)
        invocation = Invocation(thread, lambda i: thread.run(lambda: results.read(i)))
        self._invocations.append(invocation)
        return invocation

    def _living(self, *slots: int) -> list[Results]:
        """The results in these slots that an invocation still has."""
        found = (self._results[slot]() for slot in slots if slot in self._results)
        return [results for results in found if results is not None]

    def continue_with(self, session: Session, earlier: Session) -> None:
        """Read the results of an earlier session from one of the same shapes."""
        session.take_staged(earlier)
        for results in self._living(0, 1):
            if results.session is earlier:
                results.session = session

    def keep(self) -> None:
        """Read results that an invocation still has, before the session ends; inside the guard.

        Results that an error keeps from being read stay in the session.
        """
        in_any_case(results.keep for results in self._living(0, 1))

    def release(self) -> None:
        """Forget all runs so far; inside the guard."""
        invocations = self._invocations
        self._invocations = []
        for results in self._living(0, 1):
            results.forget()
        in_any_case(partial(delete_fence, each) for each in invocations)
