"""Autotuning: choose the register tiles that are fastest on a device, by measurement."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeAlias

from gles_delegate.dispatch import Dispatch
from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl.context import GpuContext
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import make_plan
from gles_delegate.runtime.programs import Progress
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.store import fingerprint

Choices: TypeAlias = Mapping[int, int]
"""The fastest way to choose tiles, by node, where it is not the first; see `ops.lib.tiles`."""

Timed: TypeAlias = Sequence[tuple[Dispatch, float]]
"""Dispatches, and the seconds that each took."""

Part: TypeAlias = frozenset[int]
"""Nodes that choose together."""

_RUNS = 8
_WORTH = 0.97
"""The largest time, as a share of the first choice's, that is preferred to it."""


class Tuner:
    """Tunes a model, once for each set of input shapes.

    Args:
        half: Whether tensors are stored as float16.
    """

    def __init__(self, lowerings: Lowerings, shared: Shared, half: bool) -> None:
        self._lowerings = lowerings
        self._gpu = shared.gpu
        self._half = half
        self._store = shared.store
        self._progress = shared.progress
        self._choices: dict[str, Choices] = {}

    def tuned(self, lowered: Lowered, nodes: Sequence[int]) -> Lowered:
        """Lower the nodes with the fastest tiles; inside the guard."""
        index = self._lowerings.graph.index
        key = fingerprint("choices", index, nodes, sorted(lowered.shapes.items()), lowered.values)
        choices = self._choices[key] if key in self._choices else self._known(key, nodes)
        if choices is None:
            lower = partial(self._lowerings.lower, lowered.shapes, nodes, values=lowered.values)
            choices = tune(lower, nodes, self._gpu, self._half, self._progress)
            if self._store:
                self._store.add(key, json.dumps([*choices.items()]).encode())
        self._choices[key] = choices
        return self._lowerings.lower(lowered.shapes, nodes, choices, lowered.values)

    def _known(self, key: str, nodes: Sequence[int]) -> Choices | None:
        """The choices of an earlier start."""
        data = self._store.get(key) if self._store else None
        if self._store is None or data is None:
            return None
        try:
            choices = {int(node): int(choice) for node, choice in json.loads(bytes(data))}
            ways = range(self._gpu.limits.profile.choices)
            if set(nodes).issuperset(choices) and set(ways).issuperset(choices.values()):
                return choices
        except (TypeError, ValueError, RecursionError):
            pass
        self._store.drop(key)
        return None


def tune(
    lower: Callable[[Choices], Lowered],
    nodes: Sequence[int],
    gpu: GpuContext,
    half: bool,
    progress: Progress | None = None,
) -> Choices:
    """The fastest choice for each node, among those that the driver can run; inside the guard.

    Args:
        lower: Lowers the graph with given choices.
        half: Whether tensors are stored as float16.
        progress: Called as shaders compile, for each choice.
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
    """The choice with which each node's dispatches are fastest, from their times with each.

    Nodes that some choice fuses into one dispatch choose together, and so do equal kernels.
    """
    parts = _parts(_nodes(dispatch) for times in timed.values() for dispatch, _ in times)
    measured = [_by_part(times, parts) for times in timed.values()]
    seconds = dict(zip(timed, (of_choice for of_choice, _ in measured), strict=True))
    kernels = dict(zip(timed, (of_choice for _, of_choice in measured), strict=True))
    equal: dict[tuple[str, ...], list[Part]] = defaultdict(list)
    for part in parts:
        equal[tuple(of_choice[part] for of_choice in kernels.values())].append(part)
    choices: dict[int, int] = {}
    for texts, group in equal.items():
        totals = {choice: sum(seconds[choice][part] for part in group) for choice in timed}
        best = _best(totals, dict(zip(timed, texts, strict=True)))
        if best:
            choices |= {node: best for part in group for node in part}
    return choices


def _by_part(times: Timed, parts: Sequence[Part]) -> tuple[dict[Part, float], dict[Part, str]]:
    """The seconds and the kernels of each part."""
    part_of = {node: part for part in parts for node in part}
    seconds, kernels = dict.fromkeys(parts, 0.0), dict.fromkeys(parts, "")
    for dispatch, time in times:
        for part in {part_of[node] for node in _nodes(dispatch)}:
            seconds[part] += time
            kernels[part] += _kernel(dispatch)
    return seconds, kernels


def _best(seconds: Mapping[int, float], kernels: Mapping[int, str]) -> int:
    """The fastest choice, or 0 if it has the same kernel or saves too little."""
    best = min(seconds, key=lambda choice: seconds[choice])
    pays = kernels[best] != kernels[0] and seconds[best] < _WORTH * seconds[0]
    return best if pays else 0


def _parts(sets: Iterable[Part]) -> list[Part]:
    """Merge sets that have a member in common."""
    parts: list[Part] = []
    for members in sets:
        joined = [part for part in parts if part & members]
        parts = [part for part in parts if not part & members]
        parts.append(members.union(*joined))
    return [part for part in parts if part]


def _nodes(dispatch: Dispatch) -> Part:
    return frozenset((dispatch.node, *dispatch.fused)) - {-1}


def _kernel(dispatch: Dispatch) -> str:
    """Everything on which the speed of a dispatch depends, as text."""
    shapes = [operand.shape for operand in (*dispatch.operands, dispatch.output)]
    calls = [call.function for call in (*dispatch.inner, *dispatch.epilogue)]
    defines = sorted({**dispatch.defines, **dispatch.sizes}.items())
    return f"{dispatch.shader} {shapes} {calls} {defines}; "
