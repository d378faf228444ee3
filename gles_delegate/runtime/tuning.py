"""Autotuning: choose the fastest kernel of each product on a device by measurement."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice, pairwise
from statistics import median
from time import perf_counter
from typing import TypeAlias

from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Graph
from gles_delegate.ops.lib.product import Product
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan, make_plan, plan_alone, products_of, with_kernels
from gles_delegate.planning.rewriting import Scope
from gles_delegate.runtime.constants import ZeroConstants
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.session import Session, sources_of
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.store import fingerprint
from gles_delegate.shaders.assembly import ShaderSource
from gles_delegate.shaders.dispatch import Dispatch, every_call

Choices: TypeAlias = Mapping[int, int]
"""The number of the best choice of kernels, by node, if it is not 0; see `Profile.choices`."""
Times: TypeAlias = Mapping[int, float]
"""Seconds of groups, by their index."""

_RUNS, _MIN_RUNS, _SECONDS = 8, 3, 1.0  # rounds of a choice: fewer if they take longer
_WARM_UP = 0.3  # seconds
_STEADY = 1.1  # A round counts if the first choice's times before and after it differ by less
_WORTH = 0.97  # A choice must take less than this share of choice 0's time to replace it


class Tuner:
    """Tunes a model, once for each set of input shapes."""

    def __init__(self, shared: Shared, half: bool) -> None:
        self._shared = shared
        self._half = half
        self._choices: dict[str, Choices] = {}

    def choices(self, lowered: Lowered, nodes: Sequence[int]) -> Choices:
        """The fastest choice for each node; inside the guard."""
        index = lowered.graph.index
        key = fingerprint("choices", index, nodes, sorted(lowered.shapes.items()), lowered.values)
        choices = self._choices[key] if key in self._choices else self._stored(key, nodes)
        if choices is None:
            choices = tune(lowered, nodes, self._shared.gpu, self._half, self._shared.progress)
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


@dataclass
class Group:
    """Products that choose together, as their kernels are equal with every choice.

    Attributes:
        kernels: By choice, the dispatches of the products of one node; without choices whose
            kernels are those of an earlier one.
        nodes: The nodes with such products.
    """

    kernels: Mapping[int, Sequence[Dispatch]]
    nodes: list[int] = field(default_factory=list)


def groups_of(products: Sequence[Product], scope: Scope) -> list[Group]:
    """The products for which there is a choice."""
    by_node: defaultdict[int, list[Product]] = defaultdict(list)
    for product in products:
        by_node[product.node].append(product)
    groups: dict[tuple[str, ...], Group] = {}
    for node, own in by_node.items():
        numbers = range(scope.limits.profile.choices)
        kernels = [with_kernels(own, replace(scope, choices={node: n})) for n in numbers]
        texts = tuple("".join(map(_kernel, dispatches)) for dispatches in kernels)
        if texts not in groups:
            new = [n for n in numbers if texts.index(texts[n]) == n]
            groups[texts] = Group({n: kernels[n] for n in new})
        groups[texts].nodes.append(node)
    return [group for group in groups.values() if len(group.kernels) > 1]


def tune(
    lowered: Lowered,
    nodes: Sequence[int],
    gpu: GpuContext,
    half: bool,
    progress: Progress | None = None,
) -> Choices:
    """The fastest choice for each node that the driver can run; inside the guard.

    Each product is measured alone, with constants of zeros; then the network with all choices,
    which must be faster than without. `progress` is called as programs compile, for each choice.
    """
    limits = gpu.limits
    if limits.profile.choices == 1:
        return {}
    groups = groups_of(*products_of(lowered, nodes, limits, half))
    if not groups:
        return {}
    graph = lowered.graph
    shared = Shared(gpu, ZeroConstants(gpu), Programs(gpu), progress=progress)
    try:
        choices = _fastest_alone(groups, graph, shared)
        if not choices:
            return {}
        usual = make_plan(lowered, nodes, limits, half)
        chosen = make_plan(lowered, nodes, limits, half, choices=choices)
        with _session(usual, graph, shared) as first, _session(chosen, graph, shared) as best:
            is_faster = first is not None and best is not None and ratio_in_turn(best, first) < 1
        return choices if is_faster else {}
    finally:
        shared.programs.release()


def _fastest_alone(groups: Sequence[Group], graph: Graph, shared: Shared) -> Choices:
    """Each node's fastest choice. A GPU changes its clock, so all are measured in turn with 0."""
    best = [(_WORTH, 0) for _ in groups]
    choices = sorted(set().union(*(group.kernels for group in groups)))
    kernels = {choice: [g.kernels.get(choice, ()) for g in groups] for choice in choices}
    plans = {choice: plan_alone([*chain.from_iterable(own)]) for choice, own in kernels.items()}
    sources = {choice: sources_of(plan, shared.gpu) for choice, plan in plans.items()}
    with suppress(OutOfGpuMemoryError):  # a GPU's driver compiles all in the background
        shared.programs.take([*chain.from_iterable(sources.values())], None)
    with _session(plans[0], graph, shared, sources[0]) as first:
        if first is None:
            return {}
        for choice in choices[1:]:
            with _session(plans[choice], graph, shared, sources[choice]) as other:
                if other is None:
                    continue
                times = timed_in_turn(_Trial(first, groups, 0), _Trial(other, groups, choice))
                for i, (own, of_other) in times.items():
                    best[i] = min(best[i], (of_other / own, choice))
    chosen = zip(groups, best, strict=True)
    return {node: choice for group, (_, choice) in chosen if choice for node in group.nodes}


@contextmanager
def _session(
    plan: Plan, graph: Graph, shared: Shared, sources: Sequence[ShaderSource] = ()
) -> Iterator[Session | None]:
    """None if the driver cannot run it."""
    session = None
    with suppress(ShaderError, OutOfGpuMemoryError):
        session = Session(plan, graph, shared, sources=sources)
    try:
        yield session
    finally:
        if session is not None:
            session.release()


@dataclass
class _Trial:
    """A session of one choice's kernels, whose times are those of groups, by their index."""

    session: Session
    groups: Sequence[Group]
    choice: int

    def profile(self) -> Times:
        """The seconds of each group, after a whole run, for which the GPU raises its clock."""
        self.session.measure()
        seconds = iter([seconds for _, seconds in self.session.profile()])
        counts = {i: len(g.kernels.get(self.choice, ())) for i, g in enumerate(self.groups)}
        return {i: sum(islice(seconds, count)) for i, count in counts.items() if count}


def timed_in_turn(first: _Trial, other: _Trial) -> dict[int, tuple[float, float]]:
    """The times of the groups of `other`, with both choices, as shares of the first one's time in
    the same round.
    """
    _warm_up(first.session)
    firsts, others = [first.profile()], list[Times]()
    end = perf_counter() + _SECONDS
    while len(others) < _RUNS and (len(others) < _MIN_RUNS or perf_counter() < end):
        others.append(other.profile())
        firsts.append(first.profile())
    totals = [sum(times.values()) for times in firsts]
    rounds = [*zip(firsts, others, pairwise(totals), strict=False)]
    # The clock changed within the others.
    steady = [each for each in rounds if max(each[2]) < _STEADY * min(each[2])] or rounds
    return {
        i: (
            median(own[i] / before for own, _, (before, _) in steady),
            median(2 * times[i] / sum(around) for _, times, around in steady),
        )
        for i in others[0]
    }


def ratio_in_turn(session: Session, first: Session) -> float:
    """The time of a whole run of a session, by that of the first."""
    _warm_up(first)
    return median(session.measure() / first.measure() for _ in range(_RUNS))


def _warm_up(session: Session) -> None:
    """Run until two runs take equally long, but not for long."""
    before, end = session.measure(), perf_counter() + _WARM_UP
    while perf_counter() < end:
        now = session.measure()
        if abs(now - before) < 0.03 * before:
            return
        before = now


def _kernel(dispatch: Dispatch) -> str:
    """Everything that determines the speed of a dispatch, as text."""
    shapes = [operand.shape for operand in (*dispatch.operands, dispatch.output)]
    calls = [call.function for call in every_call((*dispatch.inner, *dispatch.epilogue))]
    defines = sorted({**dispatch.defines, **dispatch.sizes}.items())
    return f"{dispatch.shader} {shapes} {calls} {defines}; "
