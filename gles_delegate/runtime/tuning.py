"""Autotuning: choose the fastest register tiles on a device by measurement."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
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

Timed: TypeAlias = Sequence[tuple[Dispatch, float]]  # dispatches and their times in seconds
Group: TypeAlias = frozenset[int]  # nodes that share a choice
_RUNS = 8
_WORTH = 0.97  # A choice must take less than this share of choice 0's time to replace it


class Tuner:
    """Tunes a model, once for each set of input shapes."""

    def __init__(self, lowerings: Lowerings, shared: Shared, half: bool) -> None:
        self._lowerings = lowerings
        self._shared = shared
        self._half = half
        self._choices: dict[str, Choices] = {}

    def tuned(self, lowered: Lowered, nodes: Sequence[int]) -> Lowered:
        """Lower the nodes with the fastest tiles; inside the guard."""
        index = self._lowerings.graph.index
        key = fingerprint("choices", index, nodes, sorted(lowered.shapes.items()), lowered.values)
        choices = self._choices[key] if key in self._choices else self._stored(key, nodes)
        if choices is None:
            lower = partial(self._lowerings.lower, lowered.shapes, nodes, values=lowered.values)
            choices = tune(lower, nodes, self._shared.gpu, self._half, self._shared.progress)
            if self._shared.store:
                self._shared.store.add(key, json.dumps([*choices.items()]).encode())
        self._choices[key] = choices
        return self._lowerings.lower(lowered.shapes, nodes, choices, lowered.values)

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

    `lower` lowers the graph with these choices. `progress` is called for each choice.
    """
    timed: dict[int, Timed] = {}
    choices = gpu.limits.profile.choices
    for choice in range(choices if choices > 1 else 0):
        lowered = lower(dict.fromkeys(nodes, choice))
        if not lowered.reasons:
            plan = make_plan(lowered, nodes, gpu.limits, half)
            with suppress(ShaderError, OutOfGpuMemoryError):
                timed[choice] = _timed(Session(plan, lowered.graph, Shared.by_one(gpu, progress)))
    return fastest(timed) if 0 in timed else {}


def _timed(session: Session) -> Timed:
    try:
        runs = [session.profile() for _ in range(_RUNS)]
    finally:
        session.release()
    return [min(times, key=lambda time: time[1]) for times in zip(*runs, strict=True)]


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
