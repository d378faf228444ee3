"""Faster programs for llvmpipe, compiled in the background while quickly compiled ones run.

One thread compiles, in contexts that share nothing, and so fills Mesa's shader cache. A segment
makes its next session of programs from there, a few milliseconds in each run. ARCHITECTURE.md has
the states of an `Upgrade`.
"""

from __future__ import annotations

import atexit
import ctypes
import logging
import os
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from time import perf_counter
from weakref import ref

from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.libegl import release_thread
from gles_delegate.gl.llvmpipe import threads_with_room
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.ports import Port
from gles_delegate.runtime.binding import Resource
from gles_delegate.runtime.constants import ZeroConstants
from gles_delegate.runtime.planner import Planner
from gles_delegate.runtime.programs import Programs
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.support import collector
from gles_delegate.support.threads import Thread
from gles_delegate.support.unpatched import Lock

log = logging.getLogger("gles_delegate")
_TWICE, _OFTEN = 2, 20  # runs after which faster programs are compiled, and chains alone
_EXIT_TIMEOUT = 0.3  # seconds that the end of the process waits for a program
_NICE = 10  # the thread's priority: a tenth of a processor that the runs want, too
_BUDGET = 5e-3  # seconds of a run in which programs are loaded, or one of them
_LEFT_OUT = "the faster programs are left out: %s"


@dataclass
class Faster:
    """How a session of faster programs is made, and the session once they are loaded."""

    planner: Planner
    lowered: Lowered
    plan: Plan
    sources: Sequence[ShaderSource]
    session: Session | None = None


class Upgrade:
    """A segment's change to the programs of `limits`; on the delegate's thread, inside the guard.

    `is_final` tells that no faster ones are to come. A job ends when it is not the `job` any more.
    """

    def __init__(self, shared: Shared, planner: Planner, limits: Limits | None) -> None:
        self._shared = shared
        self._planner = planner
        self._limits = limits
        self._runs = 0
        self._start_at = _TWICE
        self._reported = (0, 0)
        self._loading: Iterator[None] | None = None
        self._taken = ExitStack()
        self._session: Session | None = None
        self.job: _Job | None = None
        self.is_final = limits is None

    def step(self, present: Session, lowered: Lowered, ports: Mapping[int, Port]) -> Faster | None:
        """Count a run; return, once, what to continue with."""
        if self.is_final or self._limits is None:
            return None
        self._runs += 1
        if (job := self.job) is None:
            if self._runs >= self._start_at:
                wanted, early = (self._planner, lowered, ports), self._start_at < _OFTEN
                gpu, plan = self._shared.gpu, present.plan
                self.job = _Job(ref(self), gpu, wanted, self._limits, plan, early)
                self.is_final = not _compiler.add(self.job)
            return None
        if self._shared.progress is not None and job.compiled != self._reported:
            self._shared.progress(*job.compiled)
            self._reported = job.compiled
        if not job.is_done:
            return None
        if job.faster is not None:
            self._loading = self._loading or self._load(job.faster, present)
            end = perf_counter() + _BUDGET
            try:
                for _ in self._loading:
                    if perf_counter() > end:
                        return None
            except (DelegateError, MemoryError, OSError) as error:
                log.info(_LEFT_OUT, error)
        self.drop()
        self._start_at, self.is_final = _OFTEN, not job.waits
        return job.faster if job.faster and job.faster.session else None

    def drop(self) -> None:
        """Forget what is compiled, for other shapes or at the end."""
        session, self._session = self._session, None
        self.job = self._loading = None
        with self._taken:
            if session is not None:
                session.release()

    def _load(self, faster: Faster, present: Session) -> Iterator[None]:
        """Make a session that continues from the present one; a constant or program each step."""
        shared, graph = replace(self._shared, progress=None), faster.lowered.graph
        for const in faster.plan.constants:
            packed = shared.constants.take(const, graph, shared.store)
            self._taken.callback(shared.constants.give_back, packed)
            yield
        session = self._session = Session(
            faster.plan, graph, shared, present.resources, faster.sources, loads=False
        )
        for source in {source.text: source for source in faster.sources}.values():
            yield
            session.load([source])
        if shared.store is not None:
            shared.store.save()
        if session.resources is not present.resources:
            session.use(present.resources)
        session.continue_from(present)
        faster.session, self._session = session, None


@dataclass(eq=False)
class _Job:
    """The compiler's thread writes it, `is_done` last; it `waits` if chains alone are too early."""

    owner: ref[Upgrade]
    gpu: GpuContext
    wanted: tuple[Planner, Lowered, Mapping[int, Port]]
    limits: Limits
    present: Plan
    is_early: bool
    waits: bool = False
    compiled: tuple[int, int] = (0, 0)
    faster: Faster | None = None
    is_done: bool = False

    def run(self) -> None:
        planner, earlier, ports = self.wanted
        try:
            self.check(0, 0)
            planner = planner.within(self.limits)
            lowered = planner.lower(earlier.shapes, earlier.values)
            plan = planner.plan(lowered, ports)
            is_same = plan.dispatches == self.present.dispatches
            self.waits = is_same and bool(plan.chains) and self.is_early
            if not is_same or (plan.chains and not self.is_early):
                assert self.gpu.egl is not None
                gpu = GpuContext(device_index=self.gpu.egl.device.index, pin_workers=False)
                try:
                    with gpu.guard():
                        programs = Programs(gpu, unused=0)
                        shared = Shared(gpu, ZeroConstants(gpu), programs, progress=self.check)
                        trial = _Trial(plan, lowered.graph, shared)
                        self.faster = Faster(planner, lowered, plan, trial.sources)
                        trial.release()
                finally:
                    gpu.release()
        except (DelegateError, MemoryError, OSError) as error:
            log.info(_LEFT_OUT, error)
        finally:
            release_thread()
            self.is_done = True

    def check(self, done: int, total: int) -> None:
        """Note the progress; raise an error if it is to end."""
        collector.give_way()
        self.compiled = done, total
        owner = self.owner()
        if owner is None or owner.job is not self or _compiler.is_ending:
            raise DelegateError(
                "the model was closed, resized or bound before they were compiled, or the process "
                "ends"
            )
        if not threads_with_room():
            raise MemoryError("too little address space is left (ulimit -v)")


class _Trial(Session):
    """A session that compiles its programs, and cannot run: nothing is bound."""

    def use(self, resources: Mapping[int, Resource]) -> None:
        self.resources = resources
        self._buffers.use(self._buffers.bind(resources, ExitStack()))


class _Compiler:
    """The jobs of a process, and the thread that does them, which ends with the last one."""

    def __init__(self) -> None:
        self.is_ending = False
        self.forget()

    def forget(self) -> None:
        """Begin without jobs, as in a child process, which has no other thread of its parent."""
        self._lock = Lock()  # of the next two
        self._jobs: deque[_Job] = deque()
        self._thread: Thread | None = None

    def add(self, job: _Job) -> bool:
        """Queue a job; False if the process may not have another thread."""
        with self._lock:
            if self._thread is None or not self._thread.is_alive():
                thread = Thread(self._work, "gles_delegate upgrade")
                try:
                    thread.start()
                except RuntimeError as error:
                    log.info(_LEFT_OUT, error)
                    return False
                self._thread = thread
            self._jobs.append(job)
            return True

    def _work(self) -> None:
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
        while True:
            with self._lock:
                if not self._jobs:
                    self._thread = None
                    return
                job = self._jobs.popleft()
            job.run()

    def end(self) -> None:
        """End soon, or let the process end without C's exit functions, which free what it uses."""
        self.is_ending = True
        thread, libc = self._thread, ctypes.CDLL(None)
        if thread is not None:
            thread.join(_EXIT_TIMEOUT if hasattr(libc, "on_exit") else None)
            if thread.is_alive():
                libc.on_exit(libc._exit, None)  # these are called in reverse
                libc.on_exit(libc.fcloseall, None)


_compiler = _Compiler()
atexit.register(_compiler.end)
os.register_at_fork(after_in_child=_compiler.forget)
