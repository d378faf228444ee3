"""Uniforms for numbers that differ between shapes of the inputs, which then share programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeAlias

from gles_delegate.dispatch import Dispatch, NumberKey
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.files import is_own, read_body

_Numbers: TypeAlias = Mapping[NumberKey, float]


class Resizing:
    """The plans so far of the same nodes, each for other shapes."""

    def __init__(self) -> None:
        self._first: dict[Hashable, _Numbers] = {}
        self._changed: defaultdict[Hashable, set[NumberKey]] = defaultdict(set)

    def generalized(self, plan: Plan) -> Plan:
        """The plan with uniforms for the numbers that differ from earlier plans.

        The first one stays as it is, so the programs for a model's only shapes have constants.
        """
        counts: Counter[Hashable] = Counter()
        dispatches: list[Dispatch] = []
        for dispatch in plan.dispatches:
            numbers = numbers_of(dispatch)
            value = dispatch.output
            kind = (dispatch.shader, dispatch.node, value.tensor, value.name, *numbers)
            counts[kind] += 1
            identity = counts[kind], kind
            first, changed = self._first.setdefault(identity, numbers), self._changed[identity]
            changed |= {key for key in numbers if numbers[key] != first[key]}
            dispatches.append(replace(dispatch, uniforms=frozenset(changed)))
        return replace(plan, dispatches=tuple(dispatches))


def numbers_of(dispatch: Dispatch) -> _Numbers:
    """The numbers in the text of a dispatch's program that GLSL allows to be uniforms."""
    if not is_own(dispatch.shader):
        return {}
    constants = read_body(f"{dispatch.shader}.glsl").constants
    numbers: dict[NumberKey, float] = {}
    for name, value in dispatch.numbers.items():
        if name not in constants and not isinstance(value, str):
            elements = value if isinstance(value, tuple) else (value,)
            numbers |= {(name, i): number for i, number in enumerate(elements)}
    return numbers
