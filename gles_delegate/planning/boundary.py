"""The inputs and outputs of a plan: the tensors that enter and leave, and their steps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Graph
from gles_delegate.planning.lowering import Lowered
from gles_delegate.planning.ports import Edge, Elements, Port, entrance, exit_of
from gles_delegate.shaders.dispatch import Operand, Step, Value, stored_in_half, values_of


@dataclass(frozen=True)
class SegmentBoundary:
    """The values on the boundary of a segment's plan, by tensor index.

    Attributes:
        inputs: The values that are filled before a run, in the layouts of their ports.
        outputs: The values that hold the results, in the layouts of their ports.
        variables: The row-major values that last from one run to the next.
        results: The tensors themselves, for outputs that have their own port.
    """

    inputs: Mapping[int, Value]
    outputs: Mapping[int, Value]
    variables: Mapping[int, Value]
    results: Mapping[int, Value]

    @property
    def values(self) -> Set[Value]:
        """All of them; they must exist after the run."""
        ends = (self.inputs, self.variables, self.outputs, self.results)
        return {value for values in ends for value in values.values()}

    def in_half(self) -> SegmentBoundary:
        """The same with float16 for the tensors inside the plan."""
        outputs, results = (
            {tensor: stored_in_half(value) for tensor, value in values.items()}
            for values in (self.outputs, self.results)
        )
        return replace(self, outputs=outputs, results=results)


@dataclass(frozen=True)
class PortedNodes:
    """Nodes of a graph, and the tensors that enter and leave them through ports.

    Attributes:
        inner: The steps of the nodes.
        bound: The tensors with their own ports.
    """

    entering: Sequence[tuple[Port, Edge]]
    leaving: Sequence[tuple[Port, Edge]]
    inner: Sequence[Step]
    bound: Set[int]

    @classmethod
    def of(
        cls,
        lowered: Lowered,
        nodes: Iterable[int],
        limits: Limits,
        half: bool,
        ports: Mapping[int, Port],
    ) -> PortedNodes:
        graph, wanted = lowered.graph, set(nodes)

        def with_port(index: int) -> tuple[Port, Edge]:
            edge = Edge(graph.tensors[index], lowered.shapes[index], limits, half)
            return ports.get(index, Elements()), edge

        chosen = [graph.in_order[i] for i in sorted(map(graph.positions.__getitem__, wanted))]
        reads = {tensor for node in chosen for tensor in node.inputs}
        entering = reads.difference(*(node.outputs for node in chosen))
        inner = lowered.chosen_steps(wanted)
        used = {x.tensor for step in inner for x in values_of(step.reads)}
        used |= {s.output.tensor for s in inner if s.output.tensor in lowered.uses.tensors}
        results = results_of(graph, wanted)
        leaving = (index for index in results if not graph.tensors[index].is_constant)
        inputs, outputs = sorted(used & entering), sorted(leaving)
        return cls([*map(with_port, inputs)], [*map(with_port, outputs)], inner, ports.keys())

    @cached_property
    def assigned(self) -> Set[int]:
        """The inputs that the nodes assign to."""
        computed = {step.output for step in self.inner}
        return {edge.tensor.index for _, edge in self.entering if edge.value in computed}

    @property
    def steps(self) -> list[Step]:
        """The steps of the nodes, between the steps of the ports."""
        assigned = self.assigned
        states = [(port, edge) for port, edge in self.entering if edge.tensor.index in assigned]
        return [
            *(entrance(port).enter(edge) for port, edge in self.entering),
            *self.inner,
            *(exit_of(port).exit(edge) for port, edge in self.leaving),
            *(exit_of(port).write_back(edge) for port, edge in states),
        ]

    def ends(self, roots: Mapping[Operand, Value]) -> SegmentBoundary:
        """The values at the ends, with aliases replaced by their `roots`."""
        inputs: dict[int, Value] = {}
        variables: dict[int, Value] = {}
        for port, edge in self.entering:
            values = variables if edge.tensor.is_variable else inputs
            values[edge.tensor.index] = port.outside(edge)
        outside = {edge.tensor.index: port.outside(edge) for port, edge in self.leaving}
        outputs = {index: roots.get(value, value) for index, value in outside.items()}
        states = (self.assigned & inputs.keys()) - self.bound
        outputs |= {index: inputs[index] for index in inputs if index in states}
        results = {
            edge.tensor.index: roots.get(edge.value, edge.value)
            for _, edge in self.leaving
            if edge.tensor.index in self.bound
        }
        return SegmentBoundary(inputs, outputs, variables, results)


def results_of(graph: Graph, nodes: Iterable[int]) -> set[int]:
    """The tensors that nodes compute and that the graph returns or another node reads."""
    inside = set(nodes)
    computed = {t for index in inside for t in graph.nodes[index].outputs}
    read = {t for t in computed if not graph.readers.get(t, inside) <= inside}
    return read | computed.intersection(graph.outputs)
