"""Uniforms for numbers that differ between dispatches, which then share programs.

Dispatches of a plan share one if they differ in numbers alone. Plans of the same nodes for other
shapes of the inputs do so, too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import TypeAlias

from gles_delegate.device.profiles import Profile
from gles_delegate.planning.plan import Plan
from gles_delegate.shaders.dispatch import Call, Dispatch, NumberKey, Value, every_call
from gles_delegate.shaders.files import is_own, read_body

_Numbers: TypeAlias = Mapping[NumberKey, float]

SHARED = frozenset({"view", "elementwise", "reduce", "normalize", "softmax", "batch_matmul"})
"""Shaders that a plan has many of."""
SWITCHES = ("_SAME_PIXELS", "_ONE_CHANNEL", "_IN_LINE")
"""Ends of the names of numbers that choose between ways to read, and stay constants."""


class Resizing:
    """The plans so far of the same nodes, each for other shapes."""

    def __init__(self) -> None:
        self._first: dict[Hashable, _Numbers] = {}
        self._changed: defaultdict[Hashable, set[NumberKey]] = defaultdict(set)

    @property
    def is_new(self) -> bool:
        """Whether no plan came before."""
        return not self._first

    def generalized(self, plan: Plan, profile: Profile) -> Plan:
        """The plan with uniforms for the numbers that differ from earlier plans, or between
        dispatches that can share a program; see `Profile.shared_texels`.
        """
        counts: Counter[Hashable] = Counter()
        identities: list[Hashable] = []
        groups: defaultdict[Hashable, list[int]] = defaultdict(list)
        chained = {position for chain in plan.chains for position in chain}
        for position, dispatch in enumerate(plan.dispatches):
            numbers = numbers_of(dispatch)
            value = dispatch.output
            kind = (dispatch.shader, dispatch.node, value.tensor, value.name, *numbers)
            counts[kind] += 1
            identity = counts[kind], kind
            identities.append(identity)
            first, changed = self._first.setdefault(identity, numbers), self._changed[identity]
            changed |= {key for key in numbers if numbers[key] != first[key]}
            if (
                position not in chained
                and dispatch.shader in SHARED
                and dispatch.most_texels <= profile.shared_texels
            ):
                groups[_program(dispatch, profile.general)].append(position)
        general = {
            position
            for position, dispatch in enumerate(plan.dispatches)
            if profile.general and dispatch.shader not in SHARED
        }
        for group in groups.values():
            if len({_flags(plan.dispatches[i]) for i in group}) > 1:
                general.update(group)
            shared = _differing([plan.dispatches[i] for i in group])
            shared = shared.union(*(self._changed[identities[i]] for i in group))
            for i in group:
                self._changed[identities[i]] |= shared
        pairs = zip(plan.dispatches, identities, strict=True)
        dispatches = tuple(
            replace(dispatch, uniforms=frozenset(self._changed[identity]), general=i in general)
            for i, (dispatch, identity) in enumerate(pairs)
        )
        return replace(plan, dispatches=dispatches)


def _flags(dispatch: Dispatch) -> Hashable:
    """What chooses between programs, unless these are general."""
    return dispatch.output.channels % 4 == 0, dispatch.partial


def _program(dispatch: Dispatch, general: bool) -> Hashable:
    """Equal for dispatches whose programs differ in numbers that may be uniforms alone."""
    constants = read_body(f"{dispatch.shader}.glsl").constants
    output = dispatch.output
    grid = dispatch.grid
    defines: list[tuple[str, object]] = []
    for name, value in dispatch.numbers.items():
        if name in constants or isinstance(value, str) or name.endswith(SWITCHES):
            defines.append((name, value))
        elif isinstance(value, tuple):
            defines.append((name, len(value)))
        else:
            defines.append((name, type(value)))
    kinds = tuple(operand.kind for operand in dispatch.operands)
    rows = grid.pixel_rows, grid.slice_rows
    lanes = (grid.local_size, grid.slices_in_x, grid.reduction_lanes, rows)
    calls = tuple(_form(call, output) for call in (*dispatch.inner, *dispatch.epilogue))
    flags = None if general else _flags(dispatch)
    return (
        dispatch.shader,
        (*defines,),
        kinds,
        output.kind,
        lanes,
        len(dispatch.inner),
        calls,
        flags,
    )


def _form(call: Call, output: Value) -> Hashable:
    operand = call.operand
    sizes = None
    if operand is not None:
        fits = operand.pixels == output.pixels
        channels = operand.channels == output.channels, operand.channels == 1
        sizes = (fits, *channels, bool(call.rows), len(call.spread))
    branches = tuple(tuple(_form(c, output) for c in branch) for branch in call.branches)
    flags = call.operand_first, call.number is None, call.kind
    return call.function, tuple(map(type, call.args)), flags, sizes, branches


def _differing(dispatches: list[Dispatch]) -> set[NumberKey]:
    """The numbers in which dispatches differ; one of them if only their epilogues differ."""
    first, *others = map(numbers_of, dispatches)
    keys = {key for key in first if any(numbers[key] != first[key] for numbers in others)}
    if keys or len({_epilogue(dispatch) for dispatch in dispatches}) == 1:
        return keys
    return {("OUT_PIXELS", 0)} & first.keys()


def _epilogue(dispatch: Dispatch) -> Hashable:
    return tuple(
        (call.args, call.number, call.rows, call.spread, call.operand and call.operand.shape)
        for call in every_call((*dispatch.inner, *dispatch.epilogue))
    )


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
