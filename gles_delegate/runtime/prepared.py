"""What a segment runs with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from gles_delegate.model.graph import Array
from gles_delegate.planning.boundary import results_of
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.ports import Port
from gles_delegate.runtime.session import Session


@dataclass(frozen=True, eq=False)
class Prepared:
    """What a segment runs with; binding, resizing and an upgrade each replace all of it at once.

    Attributes:
        lowered: The graph for the present shapes.
        ports: Of bound inputs and outputs, by tensor index.
        session: The GL objects of the plan, with what is bound now.
        constants: By tensor index, the outputs that no run computes because they are constants.
        names: The resource variables that the nodes use.
    """

    lowered: Lowered
    ports: Mapping[int, Port]
    session: Session
    constants: Mapping[int, Array]
    names: Set[str]

    @staticmethod
    def of(
        nodes: Sequence[int], lowered: Lowered, ports: Mapping[int, Port], session: Session
    ) -> Prepared:
        """For a session of a plan of these nodes, lowered so, with these ports."""
        graph = lowered.graph
        constants = {
            index: graph.tensors[index].array()
            for index in results_of(graph, nodes)
            if graph.tensors[index].is_constant
        }
        names = {*variables_of(nodes, lowered).values()}
        return Prepared(lowered, ports, session, constants, names)

    @property
    def plan(self) -> Plan:
        return self.session.plan

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that a run returns."""
        return (*self.session.outputs, *self.constants)


def variables_of(nodes: Sequence[int], lowered: Lowered) -> dict[int, str]:
    """The resource variables that nodes use, by the tensors that stand for them."""
    used = {t for index in nodes for t in lowered.graph.nodes[index].inputs}
    return {i: name for i, name in lowered.uses.tensors.items() if i in used}
