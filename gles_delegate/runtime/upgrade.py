"""Background compilation: run quickly compiled programs until faster ones are ready."""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from dataclasses import replace
from time import perf_counter
from typing import TypeAlias
from weakref import WeakSet

from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.libegl import release_thread
from gles_delegate.gl.llvmpipe import threads_with_room
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Handover, Shared
from gles_delegate.support.threads import Lock, Thread

log = logging.getLogger("gles_delegate")

_BUDGET = 5e-3
"""Seconds that a run spends on the programs of the next session, or on one of them."""
_LEFT_OUT = "the faster programs are left out: %s"
_PATIENCE = 0.3
"""Seconds that others wait for a thread that is stopped; a program may compile for minutes."""
_NICE = 10
"""The priority of the thread: a tenth of a processor that the runs want, too."""

Build: TypeAlias = "Callable[[Upgrade], Session | None]"


class _Stopped(Exception):
    """The thread was asked to end."""


class Upgrades:
    """The upgrades of a delegate: one at a time compiles, and none while the delegate does."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self.progress = shared.progress
        self.lock = Lock()
        self.active: WeakSet[Upgrade] = WeakSet()
        self._parted: list[Handover] = []

    def start(self, build: Build) -> Upgrade | None:
        """Start one; None if the process may not have another thread."""
        try:
            return Upgrade(self, build, self._shared)
        except RuntimeError as error:
            log.info(_LEFT_OUT, error)
            return None

    def stop(self) -> None:
        """Stop those that still compile.

        One that has not ended after `_PATIENCE` ends alone, and keeps the objects that it shares
        with sessions until then; later sessions get others.
        """
        active = list(self.active)
        self.active.clear()
        _stop(active)
        parted = self._shared.part()
        if parted is not None:
            self._parted.append(parted)

    def free_left(self) -> None:
        """Free what sessions left to threads that have ended by now; inside the guard."""
        if self._parted:
            self._parted = [each for each in self._parted if not each.free_left()]


class Upgrade:
    """A session that a thread of low priority builds in a context that shares objects.

    Args:
        build: Called on that thread with the upgrade; returns None if the present session is the
            best. It calls `check` between steps, which raises an error to stop it.

    Attributes:
        shared: What its session shares with others.
        built: Its session, once there is one.
    """

    def __init__(self, upgrades: Upgrades, build: Build, shared: Shared) -> None:
        self._upgrades = upgrades
        self.shared = replace(shared, progress=self.progress, check=self.check)
        self._is_stopped = False
        self.built: Session | None = None
        self._warming: Generator[None, None, None] | None = None
        self._compiled = (0, 0)
        self._reported = (0, 0)
        self._thread = Thread(self._work, "gles_delegate upgrade", (build, shared.gpu))
        _every.add(self)
        upgrades.active.add(self)
        self._thread.start()

    @property
    def is_in_vain(self) -> bool:
        """Whether it has ended without a session."""
        return not self._thread.is_alive() and self.built is None

    @property
    def was_stopped(self) -> bool:
        return self._is_stopped

    def step(self) -> Session | None:
        """The session, once it can run without delay; on the delegate's thread, inside the guard.

        llvmpipe loads each program once in every context, so each call loads a few of them.
        """
        report, compiled = self._upgrades.progress, self._compiled
        if report is not None and compiled != self._reported:
            self._reported = compiled
            report(*compiled)
        if self._thread.is_alive() or self.built is None:
            return None
        if self._warming is None:
            self._warming = self.built.warming()
        end = perf_counter() + _BUDGET
        for _ in self._warming:
            if perf_counter() > end:
                return None
        return self.built

    def release(self) -> None:
        """Free all but `built`; on the delegate's thread, inside the guard."""
        if self._warming is not None:
            self._warming.close()

    def progress(self, done: int, total: int) -> None:
        """Report the number of ready programs, and the total."""
        self._compiled = done, total

    def check(self) -> None:
        """Raise an error if it is to end; on any thread."""
        if self._is_stopped:
            raise _Stopped
        if not threads_with_room():
            raise MemoryError("too little address space is left (ulimit -v)")

    def _work(self, build: Build, gpu: GpuContext) -> None:
        try:
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
            self._wait()
            try:
                self._build(build, gpu)
            finally:
                self._upgrades.lock.release()
        except _Stopped:
            pass
        except (DelegateError, MemoryError, OSError) as error:
            log.info(_LEFT_OUT, error)
        finally:
            release_thread()

    def _wait(self) -> None:
        """Acquire the lock; raises `_Stopped`."""
        while not self._upgrades.lock.acquire(timeout=0.02):
            self.check()
        if self._is_stopped:
            self._upgrades.lock.release()
            raise _Stopped

    def _build(self, build: Build, gpu: GpuContext) -> None:
        handover, built = self.shared.handover, None
        handover.begin(self.check)
        try:
            context = EglContext(share=gpu.egl)
            try:
                with context:
                    built = build(self)
                    gpu.gl.glFinish()
            finally:
                context.release()
        finally:
            if handover.end(built):
                self.built = built


_every: WeakSet[Upgrade] = WeakSet()


def _stop(upgrades: Iterable[Upgrade]) -> list[Upgrade]:
    """Stop upgrades, and wait for their threads; return those that have not ended in time."""
    running = [each for each in upgrades if each._thread.is_alive() and not each._thread.is_here]
    for each in running:
        each._is_stopped = True
    end = perf_counter() + _PATIENCE
    for each in running:
        each._thread.join(max(end - perf_counter(), 0))
    return [each for each in running if each._thread.is_alive()]


@atexit.register
def _stop_all() -> None:
    """Drivers may crash if the process ends while a thread compiles.

    After a while, the process therefore ends without the C library's exit functions, which free
    what such a thread uses.
    """
    late, libc = _stop(_every), ctypes.CDLL(None)
    if late and hasattr(libc, "on_exit"):
        for function in (libc._exit, libc.fcloseall):  # called in reverse order, the status first
            libc.on_exit(function, None)
    else:  # not glibc
        for each in late:
            each._thread.join()
