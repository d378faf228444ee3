"""Plans for a segment's nodes, within the limits that it runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Array
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.ports import Port
from gles_delegate.planning.resizing import Resizing
from gles_delegate.runtime.tuning import Tuner
from gles_delegate.shaders.dispatch import Shape


@dataclass(eq=False)
class Planner:
    """Plans the nodes of a segment for any shapes; later plans share programs of earlier ones.

    See `SegmentContext` for `_half` and `_tuner`.
    """

    _lowerings: Lowerings
    _nodes: Sequence[int]
    _limits: Limits
    _half: bool
    _tuner: Tuner | None = None
    _resizing: Resizing = field(default_factory=Resizing)

    def within(self, limits: Limits) -> Planner:
        """Plans the same nodes for a device with other limits; lowers the whole graph."""
        lowerings = self._lowerings.with_limits(limits)
        return Planner(lowerings, self._nodes, limits, self._half, self._tuner)

    def lower(
        self, shapes: Mapping[int, Shape], values: Mapping[int, Array] | None = None
    ) -> Lowered:
        """See `Lowerings.at`."""
        return self._lowerings.at(shapes, self._nodes, values)

    def plan(self, lowered: Lowered, ports: Mapping[int, Port]) -> Plan:
        """Plan what `lower` returned; a tuner needs the context's guard."""
        choices = self._tuner.choices(lowered, self._nodes) if self._tuner is not None else {}
        plan = make_plan(lowered, self._nodes, self._limits, self._half, ports, choices)
        if self._resizing.is_new:  # later plans share the programs of earlier ones
            plan = plan.chained(self._limits)
        if self._tuner is None and self._limits.size_uniforms:
            plan = self._resizing.generalized(plan, self._limits.profile.shared_texels)
        return plan
