"""Faster programs for a segment, compiled in the background while it runs with simpler ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial

from gles_delegate.device.limits import Limits
from gles_delegate.gl.thread import GlThread
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.ports import Port
from gles_delegate.runtime.binding import Resource
from gles_delegate.runtime.planner import Planner
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.upgrade import Upgrade, Upgrades
from gles_delegate.support.closing import in_any_case

_TWICE, _OFTEN = 2, 20
"""Runs after which faster programs are compiled, and after which chains alone are."""


class Takeover:
    """Builds a session of faster programs, once a segment has run a few times.

    Methods run on the delegate's thread, inside the guard.

    Args:
        planner: Plans the segment's first sessions.
        limits: The limits to plan the final session for; None: the first one stays.

    Attributes:
        is_settled: Whether no faster programs are to come.
    """

    def __init__(
        self, thread: GlThread, upgrades: Upgrades, planner: Planner, limits: Limits | None
    ) -> None:
        self._thread = thread
        self._upgrades = upgrades
        self._planner = planner
        self._limits = limits
        self._runs = 0
        self._start_at = _TWICE
        self._tried_at = 0
        self._upgrade: Upgrade | None = None
        self._final: tuple[Planner, Lowered] | None = None
        self._retired: list[Session] = []
        self.is_settled = limits is None

    def step(self, present: Session, lowered: Lowered, ports: Mapping[int, Port]) -> Session | None:
        """Count a run; return the session that is ready to continue from the present one."""
        if self.is_settled:
            return None
        self._runs += 1
        if self._upgrade is None and self._runs >= self._start_at:
            self._tried_at = self._start_at
            arguments = present.plan, lowered, ports, present.resources
            self._upgrade = self._upgrades.start(partial(self._build, *arguments))
            self.is_settled = self._upgrade is None
        if self._upgrade is None:
            return None
        session = self._upgrade.step()
        if session is None:
            if self._upgrade.is_in_vain:
                waits = self._upgrade.was_stopped or self._tried_at < self._start_at
                self._upgrade, self.is_settled = None, not waits
            return None
        if session.resources is not present.resources:
            session.use(present.resources)
        session.continue_from(present)
        return session

    def finish(self, earlier: Session) -> tuple[Planner, Lowered]:
        """Settle, once the session of `step` has run; return how it was planned."""
        assert self._final is not None
        self._upgrade, self.is_settled = None, True
        self._retired.append(earlier)
        return self._final

    def free_retired(self, in_use: Collection[Session]) -> None:
        """Release earlier sessions, unless they are in use.

        They stay while a thread uses what the delegate's sessions share.
        """
        self._upgrades.free_left()
        if not self._retired or not self._upgrades.lock.acquire(blocking=False):
            return
        try:
            for session in [each for each in self._retired if each not in in_use]:
                self._retired.remove(session)
                self._thread.disown(session)
                session.release()
        finally:
            self._upgrades.lock.release()

    def stop(self) -> None:
        """Stop the thread that compiles, before this one uses what the sessions share."""
        self._upgrades.stop()
        self._upgrades.free_left()

    def release(self) -> None:
        """Release earlier sessions, and a final one that has not run; `stop` comes before."""
        upgrade, self._upgrade = self._upgrade, None
        sessions, self._retired = self._retired, []
        if upgrade is not None and upgrade.built is not None:
            sessions.append(upgrade.built)
        for session in sessions:
            self._thread.disown(session)
        in_any_case(each.release for each in (upgrade, *sessions) if each is not None)

    def _build(
        self,
        present: Plan,
        lowered: Lowered,
        ports: Mapping[int, Port],
        resources: Mapping[int, Resource],
        upgrade: Upgrade,
    ) -> Session | None:
        """The session for the final limits, or None if it is the same; on the upgrade's thread."""
        assert self._limits is not None
        planner = self._planner.within(self._limits)
        upgrade.check()
        lowered = planner.lower(lowered.shapes, lowered.values)
        plan = planner.plan(lowered, ports)
        upgrade.check()
        if plan.dispatches == present.dispatches:
            if not plan.chains:
                return None
            if self._start_at < _OFTEN:
                self._start_at = _OFTEN
                return None
        session = Session(plan, lowered.graph, upgrade.shared, resources)
        self._final = planner, lowered
        return session
