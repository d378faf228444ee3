"""A context together with the thread that uses it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import threading
import warnings
from _queue import Empty, SimpleQueue  # not gevent's, whose getters are greenlets
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn, ParamSpec, TypeAlias, TypeVar
from weakref import WeakMethod, WeakSet, finalize, ref

from gles_delegate.errors import (
    ContextError,
    ContextLostError,
    DelegateError,
    WrongContextError,
    WrongThreadError,
)
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.libegl import DestroyedError, release_thread
from gles_delegate.support import collector
from gles_delegate.support.closing import Releasable, in_any_case, on_error, release_all
from gles_delegate.support.threads import Awaited, Thread, idle
from gles_delegate.support.unpatched import Lock, RLock, get_ident

P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("gles_delegate")

CLOSED = (
    "the delegate is closed: make a new interpreter, or give a new delegate to "
    "Interpreter.modify_graph_with_delegate"
)
_Job: TypeAlias = "tuple[Future[Any], Callable[[], Any]] | None"


def start(thread: threading.Thread) -> None:
    """Start a thread that a caller asked for; raises ContextError if there can be no more."""
    if sys.is_finalizing():
        raise ContextError(
            f"expected to start the thread {thread.name!r}, found that Python is ending: make the "
            "delegate earlier"
        )
    try:
        thread.start()
    except RuntimeError as error:
        raise ContextError(
            f"expected to start the thread {thread.name!r}, found that the system allows no more "
            f"({error}): raise the limit (ulimit -u, a container's pids limit)"
        ) from error


class NotPickled:
    """Base of what holds a GL context."""

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} holds a GL context and cannot be pickled: send the options and "
            "the model's path, and make the delegate there"
        )


class GlThread(NotPickled):
    """Calls functions on the thread of a context, which `make` creates there, with it current.

    The thread is the caller's, or an `own` one, which any thread may call. If the context is for
    `any_thread`, callers take turns with it instead.
    """

    def __init__(self, make: Callable[[], GpuContext], own: bool, any_thread: bool = False) -> None:
        self._worker = _Worker() if own else None
        self._turn: AbstractContextManager[object] = RLock() if any_thread else nullcontext()
        self.is_closed = False
        self._in_callback: int | None = None
        if not own:
            _release_left()
        made: list[GpuContext] = []
        with on_error(partial(self._undo, made)):
            self._call(lambda: made.append(make()))
            (self.gpu,) = made
            self._held = _Held(self.gpu, self._worker, None if any_thread else get_ident())
            self._unclosed = finalize(self, self._held.abandon)
            self._unclosed.atexit = False  # the end of the process frees everything

    def _undo(self, made: list[GpuContext]) -> None:
        """Release what an interrupted call of `make` made, or still makes."""
        if self._worker is None:
            release_all(made)
        else:
            self._worker.end_with(lambda: release_all(made))
            self._worker.stop()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on its own thread, on behalf of a waiting thread."""
        return self._worker is not None and self._worker.is_here

    @property
    def may_call(self) -> bool:
        """Whether `run` accepts calls from this thread."""
        own = self._worker is not None or self._held.thread in (None, get_ident())
        return own and not self.is_closed and self._in_callback != get_ident()

    def run(self, function: Callable[[], T]) -> T:
        """Call `function` there, inside `GpuContext.guard`.

        Raises `DelegateError` if it is closed, or if the caller is a function of `callback`.
        """
        return self._call(self._guarded(function))

    def start(
        self, function: Callable[[], T], when_done: Callable[[Future[T]], object] | None = None
    ) -> Future[T]:
        """Queue a call of `function` on its own thread; raises what `run` raises before its call.

        `when_done` is called on that thread with the finished future; its errors are logged.
        """
        assert self._worker is not None
        return self._worker.start(self._guarded(function), when_done)

    def require(self) -> None:
        """Raise what `run` would raise before its call, without waiting for its own thread."""
        guarded = self._guarded(lambda: None)
        if self._worker is None:
            self._call(guarded)

    @property
    def is_own(self) -> bool:
        """Whether the thread was started for it."""
        return self._worker is not None

    def _guarded(self, function: Callable[[], T]) -> Callable[[], T]:
        self._require_open()
        self.gpu.refuse_fork()  # a child lacks the thread that would check it
        self._refuse_callbacks()
        if self._worker is None:
            _release_left()

        def guarded() -> T:
            self._require_open()  # it may have been closed since the call was queued
            with self.gpu.guard():
                return function()

        return guarded

    def callback(self, function: Callable[P, T]) -> Callable[P, T]:
        """Wrap an app's function for calls from functions of `run`; it may not call `run`.

        While it runs, the context that was current before `run` is current.
        """

        def call(*arguments: P.args, **named: P.kwargs) -> T:
            self._in_callback = get_ident()
            try:
                with self.gpu.suspended():
                    return function(*arguments, **named)
            finally:
                self._in_callback = None

        return call

    def later(self, function: Callable[[], None]) -> None:
        """Schedule a call there, outside the guard; the garbage collector may call this.

        On a thread of the app, the next call of a delegate makes it, and repeats it while it raises
        ContextError.
        """
        if self._worker is not None:
            self._worker.later(function)
        else:
            _left.append((self._held.thread, function))

    def own(self, resource: Releasable) -> None:
        """Release `resource` if this is never closed, unless it is disowned before."""
        self._held.objects.add(resource)

    def disown(self, resource: Releasable) -> None:
        self._held.objects.discard(resource)

    def need_not_be_closed(self) -> None:
        """Disable the warning if it is never closed."""
        self._held.warns = False

    def close(self, release: Callable[[], None]) -> None:
        """Call `release` there, then destroy the context unless it is the app's.

        Objects that can no longer be deleted are abandoned. A second call does nothing. It stays
        open after `WrongThreadError` and `WrongContextError`; any other error closes it.
        """

        def release_here() -> None:
            if self.is_closed:  # by another thread
                return
            try:
                with self.gpu.guard(only_deletes=True):
                    if self.gpu.is_private:
                        self.gpu.gl.leave_objects()
                    in_any_case((release, self.gpu.leave))
            except (WrongThreadError, WrongContextError):
                raise
            except BaseException as error:
                self._end()
                with suppress(DelegateError):
                    self.gpu.release()
                if isinstance(error, DestroyedError):  # with its objects
                    return
                raise
            self._end()
            self.gpu.release()

        if self.is_closed:
            return
        self._refuse_callbacks()
        try:
            self.gpu.refuse_fork()
        except ContextError:
            self._end()
            self._worker = None  # it exists only in the parent
            raise
        try:
            self._call(release_here)
        except DelegateError:
            if self._worker is None or not self._worker.is_stopped:
                raise
            self._end()  # nothing can be released without its thread
        finally:
            if self.is_closed and self._worker is not None:
                self._worker.stop()

    def _end(self) -> None:
        self.is_closed = True
        self._unclosed.detach()

    def _require_open(self) -> None:
        if self.is_closed:
            raise DelegateError(CLOSED)

    def _refuse_callbacks(self) -> None:
        if self._in_callback == get_ident():
            raise DelegateError(
                "expected the progress callback to return, found a call of the delegate or its "
                "interpreter, which are waiting for it: call them after allocate_tensors()"
            )

    def _call(self, function: Callable[[], T]) -> T:
        if self._worker is not None:
            return self._worker.call(function)
        with self._turn:
            return function()


@dataclass(eq=False)
class _Held:
    """The context and objects that a `GlThread` leaves behind if it is never closed."""

    gpu: GpuContext
    worker: _Worker | None
    thread: int | None  # None: any
    objects: set[Releasable] = field(default_factory=set)
    warns: bool = True

    def abandon(self) -> None:
        """Schedule its release on its thread. The garbage collector may call this on any thread."""
        if self.worker is not None:
            self.worker.end_with(self.release)
        else:
            _left.append((self.thread, self.release))
        if self.warns:
            warnings.warn(
                "a GpuDelegate was not closed; expected delegate.close(), or a with block of it "
                "or of its interpreter",
                ResourceWarning,
                stacklevel=2,
            )

    def release(self) -> None:
        """Release what is left of it; raises ContextError if it cannot be released now."""
        with suppress(ContextLostError), self.gpu.guard():  # objects are lost with it
            in_any_case((partial(release_all, self.objects), self.gpu.leave))
        self.gpu.release()


_left: list[tuple[int | None, Callable[[], None]]] = []
"""Releases of what was never closed; the next call on their thread, or on any, makes them."""


def _release_left() -> None:
    here = get_ident() if _left else 0
    for left in [left for left in _left if left[0] in (None, here)]:
        try:
            _left.remove(left)
        except ValueError:  # another thread makes it
            continue
        try:
            left[1]()
        except ContextError:  # an adopted context that is not current, or a fork
            _left.append(left)
        except DelegateError as error:
            log.warning("a delegate that was not closed could not be freed: %s", error)


class _Worker:
    """A thread that calls functions in sequence. It ends when this object is dropped, too."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[_Job] = SimpleQueue()
        self.is_stopped = False
        self._lock = Lock()
        self._thread = Thread(self._work, "gles_delegate", (self._jobs, ref(self)))
        finalize(self, self._jobs.put, None).atexit = False
        start(self._thread)
        _workers.add(self)

    @property
    def is_here(self) -> bool:
        return self._thread.is_here

    def call(self, function: Callable[[], T]) -> T:
        """Call a function there, and wait for it."""
        if self.is_here:
            return function()
        future = self.start(function)
        try:
            return future.result()
        finally:
            del future  # avoids a reference cycle with its exception

    def start(
        self, function: Callable[[], T], when_done: Callable[[Future[T]], object] | None = None
    ) -> Future[T]:
        """Queue a call; see `GlThread.start`."""
        collector.collect_if_due()  # a busy thread would keep the collector off for ever
        if sys.is_finalizing():  # the thread has stopped with the interpreter
            raise DelegateError(CLOSED)
        future: Future[T] = Awaited()
        if when_done is not None:
            future.add_done_callback(when_done)
        with self._lock:
            if self.is_stopped:
                raise DelegateError(CLOSED)
            self._jobs.put((future, function))
        return future

    def end_with(self, function: Callable[[], None]) -> None:
        """Queue a last call, then end the thread; does not lock, as the collector may call this."""
        self.later(function)
        self._jobs.put(None)
        self.is_stopped = True

    def later(self, function: Callable[[], None]) -> None:
        """Queue a call; does not lock, as the collector may call this."""
        self._jobs.put((Future(), function))

    def stop(self) -> None:
        """End the thread after the queued calls."""
        with self._lock:
            if not self.is_stopped:
                self._jobs.put(None)
            self.is_stopped = True
        if not self.is_here:
            self._thread.join()

    def wait(self) -> None:
        if not self.is_stopped and self._thread.is_alive():  # forks do not copy threads
            self.call(lambda: None)

    @staticmethod
    def _work(jobs: SimpleQueue[_Job], worker: ref[_Worker]) -> None:
        try:
            get = jobs.get
            while (job := idle(get)) is not None:
                _do(*job)
                del job  # its objects must not live until the next call
        finally:
            owner = worker()
            if owner is not None:
                owner._fail_queued()
            release_thread()

    def _fail_queued(self) -> None:
        with self._lock:
            self.is_stopped = True
        with suppress(Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None and job[0].set_running_or_notify_cancel():
                    _settle(job[0].set_exception, DelegateError(CLOSED))


def _do(future: Future[T], function: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = function()
    except BaseException as error:
        _settle(future.set_exception, error)
    else:
        _settle(future.set_result, result)
    finally:
        del future, function  # an exception's traceback would keep them alive


def _settle(settle: Callable[[Any], None], outcome: object) -> None:
    """Set the result or exception of a future, which runs the app's callbacks."""
    try:
        settle(outcome)
    except BaseException:  # futures do not catch SystemExit, for example
        log.exception("a function that is called when a run is done failed")


_workers: WeakSet[_Worker] = WeakSet()


@atexit.register
def _wait_for_workers() -> None:
    """Drivers may crash if the process ends during a call, such as one abandoned by Ctrl-C."""
    for worker in list(_workers):
        worker.wait()


class ThreadLock:
    """A re-entrant lock for sequences of calls.

    Code on the delegate's own `thread`, which only the holder of the lock may change, ignores it,
    because a thread that holds it may be waiting.

    Args:
        renew: Called with the lock held by the first call in a child of a fork, where what the
            parent made does not work; None: such calls raise ContextError.
    """

    def __init__(self, renew: WeakMethod[Callable[[], None]] | None = None) -> None:
        self.thread: GlThread | None = None
        self._renew = renew
        self.free()
        _locks.add(self)

    def free(self) -> None:
        """In a child of a fork, where the thread that held it does not exist."""
        self._lock = threading.RLock()

    def __enter__(self) -> None:
        if self._renew is None and self.thread and not self.thread.is_closed:
            self.thread.gpu.refuse_fork()
        if not (self.thread and self.thread.is_here):
            self._lock.acquire()
        if self._renew and self.thread and self.thread.gpu.is_inherited:
            with on_error(self._lock.release):
                renew = self._renew()
                assert renew is not None  # its object makes the call
                renew()

    def __exit__(self, *raised: object) -> None:
        if not (self.thread and self.thread.is_here):
            self._lock.release()


_locks: WeakSet[ThreadLock] = WeakSet()
os.register_at_fork(after_in_child=lambda: [*map(ThreadLock.free, _locks)])
