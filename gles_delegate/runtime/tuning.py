"""Autotuning: choose the fastest register tiles on a device by measurement."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from itertools import pairwise
from statistics import median
from time import perf_counter
from typing import TypeAlias

from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl.context import GpuContext
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import make_plan
from gles_delegate.runtime.programs import Progress
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.store import fingerprint
from gles_delegate.shaders.dispatch import Dispatch, every_call

Choices: TypeAlias = Mapping[int, int]
"""The number of the best choice of tiles, by node, if it is not 0; see `ops.lib.tiles`."""

Timed: TypeAlias = Sequence[tuple[Dispatch, float]]  # dispatches and their times
Group: TypeAlias = frozenset[int]  # nodes that share a choice
_RUNS, _MIN_RUNS, _SECONDS = 8, 3, 1.0  # rounds of a choice: fewer if they take longer
_WARM_UP = 0.3  # seconds
_STEADY = 1.1  # A round counts if the first choice's times before and after it differ by less
_WORTH = 0.97  # A choice must take less than this share of choice 0's time to replace it


class Tuner:
    """Tunes a model, once for each set of input shapes."""

    def __init__(self, lowerings: Lowerings, shared: Shared, half: bool) -> None:
        self._lowerings = lowerings
        self._shared = shared
        self._half = half
        self._choices: dict[str, Choices] = {}

    def choices(self, lowered: Lowered, nodes: Sequence[int]) -> Choices:
        """The fastest tiles for nodes, measured once for each set of shapes; inside the guard."""
        index = self._lowerings.graph.index
        key = fingerprint("choices", index, nodes, sorted(lowered.shapes.items()), lowered.values)
        choices = self._choices[key] if key in self._choices else self._stored(key, nodes)
        if choices is None:
            lower = partial(self._lowerings.lower, lowered.shapes, nodes, values=lowered.values)
            choices = tune(lower, nodes, self._shared.gpu, self._half, self._shared.progress)
            if self._shared.store:
                self._shared.store.add(key, json.dumps([*choices.items()]).encode())
        self._choices[key] = choices
        return choices

    def _stored(self, key: str, nodes: Sequence[int]) -> Choices | None:
        """The choices of an earlier process."""
        data = self._shared.store.get(key) if self._shared.store else None
        if self._shared.store is None or data is None:
            return None
        try:
            choices = {int(node): int(choice) for node, choice in json.loads(bytes(data))}
            numbers = range(self._shared.gpu.limits.profile.choices)
            if set(nodes).issuperset(choices) and set(numbers).issuperset(choices.values()):
                return choices
        except (TypeError, ValueError, RecursionError):
            pass
        self._shared.store.drop(key)
        return None


def tune(
    lower: Callable[[Choices], Lowered],
    nodes: Sequence[int],
    gpu: GpuContext,
    half: bool,
    progress: Progress | None = None,
) -> Choices:
    """The fastest choice for each node that the driver can run; inside the guard.

    `lower` lowers the graph with these choices. `progress` is called for each choice. A GPU changes
    its clock meanwhile, so each choice is measured in turn with the first.
    """
    known: set[tuple[str, ...]] = set()

    @contextmanager
    def session_of(choices: Choices) -> Iterator[Session | None]:
        """None if it cannot run, or has the kernels of an earlier one."""
        lowered, session = lower(choices), None
        if not lowered.reasons:
            plan = make_plan(lowered, nodes, gpu.limits, half)
            kernels = tuple(map(_kernel, plan.dispatches))
            if kernels not in known:
                known.add(kernels)
                with suppress(ShaderError, OutOfGpuMemoryError):
                    session = Session(plan, lowered.graph, Shared.by_one(gpu, progress))
        try:
            yield session
        finally:
            if session is not None:
                session.release()

    if gpu.limits.profile.choices == 1:
        return {}
    timed: dict[int, Timed] = {}
    with session_of({}) as first:
        if first is None:
            return {}
        for choice in range(1, gpu.limits.profile.choices):
            with session_of(dict.fromkeys(nodes, choice)) as other:
                if other is not None:
                    timed[0], timed[choice] = timed_in_turn(first, other)
        choices = fastest(timed) if timed else {}
        if not choices:
            return {}
        known.clear()
        with session_of(choices) as best:
            return choices if best is not None and ratio_in_turn(best, first) < 1 else {}


def timed_in_turn(first: Session, other: Session) -> tuple[Timed, Timed]:
    """The times of both sessions' dispatches, as shares of the first one's in the same round."""
    _warm_up(first)
    firsts, others = [_profile(first)], list[Timed]()
    end = perf_counter() + _SECONDS
    while len(others) < _RUNS and (len(others) < _MIN_RUNS or perf_counter() < end):
        others.append(_profile(other))
        firsts.append(_profile(first))
    totals = [sum(seconds for _, seconds in run) for run in firsts]
    rounds = [*zip(firsts, others, pairwise(totals), strict=False)]
    # The clock changed within the others.
    steady = [each for each in rounds if max(each[2]) < _STEADY * min(each[2])] or rounds
    own, of_other, around = zip(*steady, strict=True)
    return (
        _shares(own, [before for before, _ in around]),
        _shares(of_other, [(before + after) / 2 for before, after in around]),
    )


def _shares(runs: Sequence[Timed], units: Sequence[float]) -> Timed:
    """The median of each dispatch's times, each divided by its run's unit."""
    return [
        (times[0][0], median(time / unit for (_, time), unit in zip(times, units, strict=True)))
        for times in zip(*runs, strict=True)
    ]


def ratio_in_turn(session: Session, first: Session) -> float:
    """The time of a whole run of a session, by that of the first."""
    _warm_up(first)
    return median(session.measure() / first.measure() for _ in range(_RUNS))


def _profile(session: Session) -> Timed:
    """The times of the dispatches, after a whole run, for which the GPU raises its clock."""
    session.measure()
    return session.profile()


def _warm_up(session: Session) -> None:
    """Run until two runs take equally long, but not for long."""
    before, end = session.measure(), perf_counter() + _WARM_UP
    while perf_counter() < end:
        now = session.measure()
        if abs(now - before) < 0.03 * before:
            return
        before = now


def fastest(timed: Mapping[int, Timed]) -> Choices:
    """Each node's fastest choice, from the times of its dispatches with every choice.

    Nodes that any choice fuses into one dispatch share a choice, and so do equal kernels.
    """
    groups = _merged(_nodes(dispatch) for times in timed.values() for dispatch, _ in times)
    measured = {choice: _by_group(times, groups) for choice, times in timed.items()}
    equal: dict[tuple[str, ...], list[Group]] = defaultdict(list)
    for group in groups:
        equal[tuple(texts[group] for _, texts in measured.values())].append(group)
    choices: dict[int, int] = {}
    for texts, similar in equal.items():
        totals = {c: sum(seconds[g] for g in similar) for c, (seconds, _) in measured.items()}
        kernels = dict(zip(timed, texts, strict=True))
        best = min(totals, key=totals.__getitem__)
        if kernels[best] != kernels[0] and totals[best] < _WORTH * totals[0]:
            choices |= {node: best for group in similar for node in group}
    return choices


def _by_group(times: Timed, groups: Sequence[Group]) -> tuple[dict[Group, float], dict[Group, str]]:
    seconds, kernels = dict.fromkeys(groups, 0.0), dict.fromkeys(groups, "")
    for dispatch, time in times:
        nodes = _nodes(dispatch)
        for group in groups:
            if group & nodes:
                seconds[group] += time
                kernels[group] += _kernel(dispatch)
    return seconds, kernels


def _merged(sets: Iterable[Group]) -> list[Group]:
    """Unions of the sets that have members in common."""
    groups: list[Group] = []
    for members in sets:
        joined = [group for group in groups if group & members]
        groups = [group for group in groups if not group & members]
        groups.append(members.union(*joined))
    return [group for group in groups if group]


def _nodes(dispatch: Dispatch) -> Group:
    return frozenset((dispatch.node, *dispatch.fused)) - {-1}


def _kernel(dispatch: Dispatch) -> str:
    """Everything that determines the speed of a dispatch, as text."""
    shapes = [operand.shape for operand in (*dispatch.operands, dispatch.output)]
    calls = [call.function for call in every_call((*dispatch.inner, *dispatch.epilogue))]
    defines = sorted({**dispatch.defines, **dispatch.sizes}.items())
    return f"{dispatch.shader} {shapes} {calls} {defines}; "
