"""Sessions of faster programs, which a thread compiles while a model runs with simpler ones."""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from time import perf_counter
from typing import TypeAlias
from weakref import WeakSet

from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.libegl import release_thread
from gles_delegate.runtime.programs import Progress
from gles_delegate.runtime.session import Session
from gles_delegate.threads import Lock, Thread

log = logging.getLogger("gles_delegate")

_BUDGET = 5e-3
"""Seconds that a run spends on the programs of the next session, or on one of them."""
_NICE = 10
"""The priority of the thread: a tenth of a processor that the runs want, too."""

Build: TypeAlias = "Callable[[Upgrade], Session | None]"


class _Stopped(Exception):
    """The thread was asked to end."""


class Upgrades:
    """The upgrades of a delegate: one at a time compiles, and none while the delegate does."""

    def __init__(self, gpu: GpuContext, progress: Progress | None) -> None:
        self._gpu = gpu
        self.progress = progress
        self.lock = Lock()
        self._active: WeakSet[Upgrade] = WeakSet()

    def start(self, build: Build) -> Upgrade:
        upgrade = Upgrade(self, build, self._gpu)
        self._active.add(upgrade)
        return upgrade

    def stop(self) -> None:
        """Stop those that still compile, and wait for the program that they compile."""
        for upgrade in list(self._active):
            upgrade.stop()


class Upgrade:
    """A session that a thread of low priority builds in a context that shares objects.

    Args:
        build: Called on that thread with the upgrade; returns None if the present session is the
            best. It calls `check` between steps, which raises an error to stop it.

    Attributes:
        built: Its session, once there is one.
    """

    def __init__(self, upgrades: Upgrades, build: Build, gpu: GpuContext) -> None:
        self._upgrades = upgrades
        self._is_stopped = False
        self.built: Session | None = None
        self._warming: Generator[None, None, None] | None = None
        self._compiled, self._reported = (0, 0), (0, 0)
        self._thread = Thread(self._work, "gles_delegate upgrade", (build, gpu))
        _every.add(self)
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

    def stop(self) -> None:
        """End the thread, after the program that it compiles."""
        if self._thread.is_alive() and not self._thread.is_here:
            self._is_stopped = True
            self._thread.join()

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
            log.info("the faster programs are left out: %s", error)
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
        context = EglContext(share=gpu.egl)
        try:
            with context:
                built = build(self)
                gpu.gl.glFinish()
            self.built = built
        finally:
            context.release()


_every: WeakSet[Upgrade] = WeakSet()


@atexit.register
def _stop_all() -> None:
    """Drivers may crash if the process ends while a thread compiles."""
    upgrades = list(_every)
    for upgrade in upgrades:
        upgrade._is_stopped = True
    for upgrade in upgrades:
        upgrade.stop()
