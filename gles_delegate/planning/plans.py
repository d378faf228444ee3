"""How the nodes of a segment are planned, for any shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Array
from gles_delegate.planning.lowering import Lowered, Lowerings, unsupported
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.ports import Port
from gles_delegate.planning.resizing import Resizing
from gles_delegate.shaders.dispatch import Shape

Choose: TypeAlias = Callable[[Lowered, Sequence[int]], Mapping[int, int]]
"""Returns the best choice of register tiles for nodes, by their index: `lower_graph`'s choices."""


MOST_SIZES = 4
"""How many sizes are remembered: a camera that turns has two."""


@dataclass(eq=False)
class _Size:
    """What is known of some shapes and values: the lowered graph, and its last plan by ports."""

    lowered: Lowered
    plan: tuple[Mapping[int, Port], Plan] | None = None


@dataclass(eq=False)
class Plans:
    """Plans nodes for any shapes of the inputs; later plans share programs of earlier ones.

    Attributes:
        half: See `make_plan`.
        limits: Of the device, with the profile that the plans are made for.
        choices: Measures register tiles, inside the context's guard; None: the profile's cost model
            chooses them.
    """

    lowerings: Lowerings
    nodes: Sequence[int]
    half: bool
    limits: Limits
    choices: Choose | None = None
    _resizing: Resizing = field(default_factory=Resizing)
    _sizes: dict[Hashable, _Size] = field(default_factory=dict)

    def within(self, limits: Limits) -> Plans:
        """The same for a device with other limits, without earlier plans."""
        lowerings = self.lowerings.with_limits(limits)
        return Plans(lowerings, self.nodes, self.half, limits, self.choices)

    def lower(
        self, shapes: Mapping[int, Shape], values: Mapping[int, Array] | None = None
    ) -> Lowered:
        """At least the nodes, lowered for these shapes and values of the `shape_inputs`.

        Raises `UnsupportedModelError` if one of them cannot run with these.
        """
        key = _key(shapes, values or {})
        size = self._sizes.pop(key, None) or _Size(self._lowered(shapes, values))
        self._sizes[key] = size  # the last one that was used
        if len(self._sizes) > MOST_SIZES:
            del self._sizes[next(iter(self._sizes))]
        return size.lowered

    def _lowered(self, shapes: Mapping[int, Shape], values: Mapping[int, Array] | None) -> Lowered:
        default = self.lowerings.default
        is_default = not values and shapes.items() <= default.shapes.items()
        if is_default and default.unfit.keys().isdisjoint(self.nodes):
            return default
        lowered = self.lowerings.lower(shapes, self.nodes, values=values)
        if lowered.reasons:
            inputs = f"and values of inputs {sorted(values)}" if values else "of inputs"
            problem = f"cannot run on the GPU with the present shapes {inputs}"
            raise unsupported(self.lowerings.graph, lowered.reasons, problem)
        return lowered

    def plan(self, lowered: Lowered, ports: Mapping[int, Port]) -> Plan:
        """The plan of what `lower` returned, with these ports of bound inputs and outputs."""
        size = next((size for size in self._sizes.values() if size.lowered is lowered), None)
        if size is not None and size.plan is not None and size.plan[0] == ports:
            plan = size.plan[1]
        else:
            choices = self.choices(lowered, self.nodes) if self.choices is not None else {}
            plan = make_plan(lowered, self.nodes, self.limits, self.half, ports, choices)
            if size is not None:
                size.plan = dict(ports), plan
        if self._resizing.is_new:  # later plans share the programs of this one, chains do not
            plan = plan.chained(self.limits)
        if self.choices is None and self.limits.size_uniforms:
            plan = self._resizing.generalized(plan, self.limits.profile)
        return plan


def _key(shapes: Mapping[int, Shape], values: Mapping[int, Array]) -> Hashable:
    contents = tuple((index, values[index].tobytes()) for index in sorted(values))
    return tuple(sorted(shapes.items())), contents
