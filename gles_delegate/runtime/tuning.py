"""Autotuning: choose the fastest kernel of each product on a device by measurement."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from statistics import median
from time import perf_counter
from typing import TypeAlias

from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Graph
from gles_delegate.ops.lib.product import Product
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan, make_plan, plan_alone, products_of
from gles_delegate.planning.rewriting import Scope
from gles_delegate.runtime.constants import ZeroConstants
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.store import fingerprint
from gles_delegate.shaders.dispatch import Dispatch, every_call

Choices: TypeAlias = Mapping[int, int]
"""The number of the best choice of kernels, by node, if it is not 0; see `Profile.choices`."""

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
        products: Those of one node.
        nodes: All nodes with such products.
        plans: By choice, a plan of `products` alone; without those that have the kernels of an
            earlier one.
    """

    products: Sequence[Product]
    plans: Mapping[int, Plan]
    nodes: list[int] = field(default_factory=list)


def groups_of(products: Sequence[Product], scope: Scope) -> list[Group]:
    """The products for which there is a choice."""
    by_node: dict[int, list[Product]] = {}
    for product in products:
        by_node.setdefault(product.node, []).append(product)
    groups: dict[tuple[str, ...], Group] = {}
    for node, own in by_node.items():
        plans = [plan_alone(own, scope, n) for n in range(scope.limits.profile.choices)]
        texts = tuple("".join(map(_kernel, plan.dispatches)) for plan in plans)
        if texts not in groups:
            distinct = {text: choice for choice, text in reversed([*enumerate(texts)])}
            chosen = {choice: plans[choice] for choice in sorted(distinct.values())}
            groups[texts] = Group(own, chosen)
        groups[texts].nodes.append(node)
    return [group for group in groups.values() if len(group.plans) > 1]


def tune(
    lowered: Lowered,
    nodes: Sequence[int],
    gpu: GpuContext,
    half: bool,
    progress: Progress | None = None,
) -> Choices:
    """The fastest choice for each node that the driver can run; inside the guard.

    Each product is measured alone, with constants of zeros; then the network with all choices,
    which must be faster than without. `progress` is called for each choice.
    """
    limits = gpu.limits
    if limits.profile.choices == 1:
        return {}
    groups = groups_of(*products_of(lowered, nodes, limits, half))
    trials = _Trials(gpu, lowered.graph)
    total = sum(len(group.plans) for group in groups)
    choices: dict[int, int] = {}
    done = 0
    try:
        for group in groups:
            best = trials.fastest(group.plans, _SECONDS / len(groups))
            choices |= dict.fromkeys(group.nodes, best) if best else {}
            done += len(group.plans)
            if progress is not None:
                progress(done, total)
        if choices:
            plans = {0: make_plan(lowered, nodes, limits, half)}
            plans[1] = make_plan(lowered, nodes, limits, half, choices=choices)
            if not trials.fastest(plans, _SECONDS, worth=1):
                return {}
    finally:
        trials.release()
    return choices


class _Trials:
    """Measures plans of a graph, whose sessions share programs and have constants of zeros."""

    def __init__(self, gpu: GpuContext, graph: Graph) -> None:
        self._graph = graph
        self._programs = Programs(gpu)
        self._shared = Shared(gpu, ZeroConstants(gpu), self._programs)

    def release(self) -> None:
        self._programs.release()

    def fastest(self, plans: Mapping[int, Plan], seconds: float, worth: float = _WORTH) -> int:
        """The choice whose plan is fastest; 0 unless another takes less than `worth` of its time.

        A GPU changes its clock meanwhile, so each is measured in turn with the first.

        Args:
            plans: By choice; the driver may refuse them.
            seconds: About how long to measure each.
        """
        with self._session(plans[0]) as first:
            if first is None:
                return 0
            ratios = {0: worth}
            for choice, plan in plans.items():
                if choice:
                    with self._session(plan) as other:
                        if other is not None:
                            ratios[choice] = ratio_in_turn(other, first, seconds)
        return min(ratios, key=ratios.__getitem__)

    @contextmanager
    def _session(self, plan: Plan) -> Iterator[Session | None]:
        """None if the driver cannot run it."""
        session = None
        with suppress(ShaderError, OutOfGpuMemoryError):
            session = Session(plan, self._graph, self._shared)
        try:
            yield session
        finally:
            if session is not None:
                session.release()


def ratio_in_turn(other: Session, first: Session, seconds: float) -> float:
    """The time of a session, by that of the first in the same round."""
    _warm_up(first, seconds)
    _warm_up(other, seconds)
    before = first.measure()
    rounds: list[tuple[float, bool]] = []
    end = perf_counter() + seconds
    while len(rounds) < _RUNS and (len(rounds) < _MIN_RUNS or perf_counter() < end):
        time = other.measure()
        after = first.measure()
        is_steady = max(before, after) < _STEADY * min(before, after)
        rounds.append((2 * time / (before + after), is_steady))
        before = after
    # Of the others, the clock changed meanwhile.
    steady = [ratio for ratio, is_steady in rounds if is_steady]
    return median(steady or [ratio for ratio, _ in rounds])


def _warm_up(session: Session, seconds: float) -> None:
    """Run until two runs take equally long, but not for long."""
    before = session.measure()
    end = perf_counter() + min(_WARM_UP, seconds)
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
