"""Faster programs for llvmpipe, compiled in the background while quickly compiled ones run.

One thread compiles, in contexts that share nothing, and so fills Mesa's shader cache. A segment
makes its next session of programs from there, a few milliseconds in each run. ARCHITECTURE.md has
the states of an `Upgrade`.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections import deque
from collections.abc import Generator, Mapping, Sequence
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
from gles_delegate.planning.plans import Plans
from gles_delegate.planning.ports import Port
from gles_delegate.runtime.binding import Resource
from gles_delegate.runtime.constants import ZeroConstants
from gles_delegate.runtime.prepared import Prepared
from gles_delegate.runtime.programs import Programs
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.support.closing import CAN_LEAVE_OUT, leave_exit_handlers_out
from gles_delegate.support.threads import Thread
from gles_delegate.support.undisturbed import give_way
from gles_delegate.support.unpatched import Lock

log = logging.getLogger("gles_delegate")
_RUNS_BEFORE_COMPILING = 2
_EXIT_TIMEOUT = 0.3  # seconds that the end of the process waits for a program
_NICE = 10  # the thread's priority: a tenth of a processor that the runs want, too
_BUDGET = 5e-3  # seconds of a run in which programs are loaded, or one of them
_LEFT_OUT = "the faster programs are left out: %s"


@dataclass(frozen=True)
class UpgradedPlan:
    """A plan of faster programs, which are in Mesa's shader cache."""

    plans: Plans
    lowered: Lowered
    plan: Plan
    sources: Sequence[ShaderSource]


class Upgrade:
    """A segment's change to the programs of `limits`; on the delegate's thread, inside the guard.

    Attributes:
        plans: How the segment is planned: for programs that compile soon, later for faster ones.
        job: What the background compiles for it; another job ends soon.
        is_final: Whether no faster programs are to come.
    """

    def __init__(self, shared: Shared, plans: Plans, limits: Limits | None) -> None:
        self._shared = shared
        self._limits = limits
        self._runs = 0
        self._reported = (0, 0)
        self._loading: Generator[None, None, Prepared] | None = None
        self._taken = ExitStack()
        self._session: Session | None = None
        self.plans = plans
        self.job: _Job | None = None
        self.is_final = limits is None

    def step(self, present: Prepared) -> Prepared | None:
        """Count a run; return, once, what to continue with, which has the state of `present`."""
        if self.is_final or self._limits is None:
            return None
        self._runs += 1
        job = self.job
        if job is None:
            if self._runs >= _RUNS_BEFORE_COMPILING:
                self._start(present, self._limits)
            return None
        if self._shared.progress is not None and job.compiled != self._reported:
            self._shared.progress(*job.compiled)
            self._reported = job.compiled
        if not job.is_done:
            return None
        faster: Prepared | None = None
        if job.upgraded is not None:
            self._loading = self._loading or self._load(job.upgraded, present)
            end = perf_counter() + _BUDGET
            try:
                while perf_counter() <= end:
                    next(self._loading)
                return None
            except StopIteration as loaded:
                faster = loaded.value
            except (DelegateError, MemoryError, OSError) as error:
                log.info(_LEFT_OUT, error)
            if faster is not None:
                self._session = None  # the segment's from now on
                self.plans = job.upgraded.plans
        self.drop()
        self.is_final = True
        return faster

    def drop(self) -> None:
        """Forget what is compiled, for other shapes or at the end."""
        session = self._session
        self._session = None
        self.job = None
        self._loading = None
        with self._taken:
            if session is not None:
                session.release()

    def _start(self, present: Prepared, limits: Limits) -> None:
        self.job = _Job(
            owner=ref(self),
            gpu=self._shared.gpu,
            plans=self.plans,
            lowered=present.lowered,
            ports=present.ports,
            present=present.plan,
            limits=limits,
        )
        self.is_final = not _compiler.add(self.job)

    def _load(self, upgraded: UpgradedPlan, present: Prepared) -> Generator[None, None, Prepared]:
        """Make a session that continues from the present one; a constant or program each step."""
        shared = replace(self._shared, progress=None)
        graph = upgraded.lowered.graph
        for const in upgraded.plan.constants:
            packed = shared.constants.take(const, graph, shared.store)
            self._taken.callback(shared.constants.give_back, packed)
            yield
        resources = present.session.resources
        session = self._session = Session(
            upgraded.plan, graph, shared, resources, upgraded.sources, loads=False
        )
        for source in {source.text: source for source in upgraded.sources}.values():
            yield
            session.load([source])
        if shared.store is not None:
            shared.store.save()
        if present.session.resources is not session.resources:
            session.use(present.session.resources)
        session.continue_from(present.session.state())
        return Prepared.of(self.plans.nodes, upgraded.lowered, present.ports, session)


@dataclass(eq=False)
class _Job:
    """What the compiler's thread does for an `Upgrade`, and writes; `is_done` last.

    Attributes:
        present: The plan that runs meanwhile.
        compiled: The programs so far, and all of them.
    """

    owner: ref[Upgrade]
    gpu: GpuContext
    plans: Plans
    lowered: Lowered
    ports: Mapping[int, Port]
    present: Plan
    limits: Limits
    compiled: tuple[int, int] = (0, 0)
    upgraded: UpgradedPlan | None = None
    is_done: bool = False

    def run(self) -> None:
        try:
            self.check(0, 0)
            plans = self.plans.within(self.limits)
            lowered = plans.lower(self.lowered.shapes, self.lowered.values)
            plan = plans.plan(lowered, self.ports)
            if plan.chains or plan.dispatches != self.present.dispatches:
                self.upgraded = self._compiled(plans, lowered, plan)
        except (DelegateError, MemoryError, OSError) as error:
            log.info(_LEFT_OUT, error)
        finally:
            release_thread()
            self.is_done = True

    def _compiled(self, plans: Plans, lowered: Lowered, plan: Plan) -> UpgradedPlan:
        """The plan, after its programs were compiled in a context of its own."""
        assert self.gpu.egl is not None
        gpu = GpuContext(device_index=self.gpu.egl.device.index, pin_workers=False)
        try:
            with gpu.guard():
                programs = Programs(gpu, unused=0)
                shared = Shared(gpu, ZeroConstants(gpu), programs, progress=self.check)
                trial = _Trial(plan, lowered.graph, shared)
                upgraded = UpgradedPlan(plans, lowered, plan, trial.sources)
                trial.release()
                return upgraded
        finally:
            gpu.release()

    def check(self, done: int, total: int) -> None:
        """Note the progress; raise an error if it is to end."""
        give_way()
        self.compiled = (done, total)
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
        thread = self._thread
        if thread is not None:
            thread.join(_EXIT_TIMEOUT if CAN_LEAVE_OUT else None)
            if thread.is_alive():
                leave_exit_handlers_out()


_compiler = _Compiler()
atexit.register(_compiler.end)
os.register_at_fork(after_in_child=_compiler.forget)
