"""A model bound to a delegate: which nodes run on the GPU, and how its hosts feed them."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from functools import cached_property

import numpy as np

from gles_delegate.dispatch import Shape
from gles_delegate.errors import DelegateError, UnsupportedModelError
from gles_delegate.gl.thread import GlThread
from gles_delegate.graph import Array, Graph
from gles_delegate.litert import NativeDelegate, NativeGraph
from gles_delegate.options import GpuDelegateOptions
from gles_delegate.partition import Lowered, choose_segments, lower_graph
from gles_delegate.plan import Plan, make_plan
from gles_delegate.report import DelegationReport, NodeReport, count
from gles_delegate.session import Progress, Session
from gles_delegate.store import Store, fingerprint
from gles_delegate.version import __version__

log = logging.getLogger("gles_delegate")


class Delegation:
    """A model and the segments of it that run on the GPU.

    Raises:
        UnsupportedModelError: `require_full_delegation` is set, and not every node runs there.
    """

    def __init__(
        self,
        graph: Graph,
        thread: GlThread,
        options: GpuDelegateOptions,
        progress: Progress | None = None,
    ) -> None:
        self.graph = graph
        self.progress = progress
        self.thread = thread
        self.options = options
        self._lowered = self.lower({})
        self._partition = choose_segments(
            self._lowered,
            options.max_delegated_partitions,
            options.first_delegate_node_index,
            options.last_delegate_node_index,
        )
        self._segments: list[Segment] = []
        self._claimed = False
        if options.require_full_delegation:
            self.require_all("require_full_delegation is set")

    @property
    def half(self) -> bool:
        """Whether tensors are stored as float16."""
        return self.options.half_allowed and self.thread.gpu.limits.half_storage

    @property
    def report(self) -> DelegationReport:
        """Which nodes run on the GPU."""
        reasons = self._partition.reasons
        nodes = (
            NodeReport(n.index, n.op, n.version, n.index not in reasons, reasons.get(n.index, ""))
            for n in self.graph.nodes
        )
        storage = "float16" if self.half else "float32"
        return DelegationReport(tuple(nodes), storage, len(self._partition.segments))

    @cached_property
    def store(self) -> Store | None:
        """The file of what this model needs on this device, if the options name one."""
        folder, gpu = self.options.serialization_dir, self.thread.gpu
        if folder is None:
            return None
        device = (gpu.identity, gpu.limits, gpu.header)
        name = fingerprint(self.options.model_token, __version__, *device, self.half)
        return Store(folder, name, fingerprint(self.graph.content))

    def require_all(self, why: str) -> None:
        """Raise `UnsupportedModelError`, with `why`, if some node does not run on the GPU."""
        report = self.report
        if report.left:
            raise UnsupportedModelError(
                f"{len(report.left)} of {len(report.nodes)} nodes cannot run on the GPU, and "
                f"{why}:\n{report.describe_left()}",
                report.left,
            )

    def warn_of_split(self) -> None:
        """Log which nodes stay on the CPU, if some do."""
        report = self.report
        if report.left:
            log.warning(
                "%d of %d nodes run on the GPU in %s; these run on the CPU, and a split graph can "
                "be slower than the CPU alone:\n%s",
                len(report.nodes) - len(report.left),
                len(report.nodes),
                count(report.segments),
                report.describe_left(),
            )

    def segment(self, nodes: Sequence[int]) -> Segment:
        """Nodes that run on the GPU as one."""
        segment = Segment(self, nodes)
        self._segments.append(segment)
        return segment

    def lower(self, shapes: Mapping[int, Shape], only: Sequence[int] | None = None) -> Lowered:
        """The graph lowered for tensors of these shapes."""
        limits, quantized = self.thread.gpu.limits, self.options.quantized_models_allowed
        return lower_graph(self.graph, limits, shapes, quantized, only)

    def lowered_for(self, shapes: Mapping[int, Shape], nodes: Sequence[int]) -> Lowered:
        """The nodes `nodes` lowered for these shapes.

        Raises:
            UnsupportedModelError: One of them cannot run with these shapes.
        """
        if all(self._lowered.shapes[index] == shape for index, shape in shapes.items()):
            return self._lowered
        lowered = self.lower(shapes, nodes)
        if lowered.reasons:
            left = [(i, self.graph.nodes[i].op, why) for i, why in lowered.reasons.items()]
            lines = "\n".join(f"  node {index} {op}: {reason}" for index, op, reason in left)
            raise UnsupportedModelError(
                f"{len(left)} nodes cannot run on the GPU with the present input shapes:\n{lines}",
                left,
            )
        return lowered

    @cached_property
    def native(self) -> NativeDelegate:
        """The delegate as LiteRT's interpreter knows it.

        Raises:
            LiteRtError: The installed LiteRT has another binary interface.
        """
        return NativeDelegate(self)

    def _get_native_delegate_pointer(self) -> int:
        """LiteRT's interpreter asks for it."""
        return self.native.address

    def claim(self, graph: NativeGraph) -> list[int]:
        """The nodes that LiteRT is to leave to the GPU.

        Raises:
            LiteRtError: The interpreter's model is not this one.
        """
        nodes = [index for segment in self._partition.segments for index in segment]
        graph.require_same(self.graph, nodes, resized=self._claimed)
        if not self._claimed:
            self.warn_of_split()
        self._claimed = True
        return nodes

    def forget(self, segment: Segment) -> None:
        """Release a segment that is not needed any more."""
        if segment in self._segments:
            self.thread.run(segment.release)
            self._segments.remove(segment)

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        for segment in self._segments:
            segment.release()
        self._segments = []


class Segment:
    """Nodes of a model that run on the GPU as one.

    Attributes:
        inputs, outputs, variables: Indices of the tensors that it reads, computes, and keeps from
            one run to the next; known once it is prepared.
    """

    def __init__(self, delegation: Delegation, nodes: Sequence[int]) -> None:
        self._delegation = delegation
        self._nodes = nodes
        self._session: Session | None = None
        self._constants: dict[int, Array] = {}
        self.inputs: tuple[int, ...] = ()
        self.outputs: tuple[int, ...] = ()
        self.variables: tuple[int, ...] = ()

    def prepare(self, shapes: Mapping[int, Shape]) -> Mapping[int, Shape]:
        """Plan and compile for tensors of these shapes; returns every tensor's shape.

        Raises:
            UnsupportedModelError: A node cannot run with these shapes.
            ShaderError, OutOfGpuMemoryError: The driver cannot run it.
        """
        delegation = self._delegation
        lowered = delegation.lowered_for(shapes, self._nodes)
        plan = make_plan(lowered, self._nodes, delegation.thread.gpu.limits, delegation.half)
        delegation.thread.run(lambda: self._replace_session(plan, lowered.graph))
        made = {t for index in self._nodes for t in lowered.graph.nodes[index].outputs}
        folded = made.intersection(lowered.graph.outputs).difference(plan.outputs)
        self._constants = {index: lowered.graph.tensors[index].array() for index in folded}
        self.inputs, self.variables = tuple(plan.inputs), tuple(plan.variables)
        self.outputs = (*plan.outputs, *self._constants)
        return lowered.shapes

    def invoke(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Run once: arrays by tensor index, of the tensors' types and the prepared shapes."""
        self._delegation.thread.run(lambda: self._require_session().run(inputs, outputs))
        self._fill_constants(outputs)

    def invoke_on(self, arrays: Mapping[int, Array]) -> None:
        """Run once on a host that keeps the variables: reads and writes them among `arrays`."""

        def run() -> None:
            session = self._require_session()
            for index in self.variables:
                session.write_variable(index, arrays[index])
            session.run(arrays, arrays)
            for index in self.variables:
                session.read_variable(index, arrays[index])

        self._delegation.thread.run(run)
        self._fill_constants(arrays)

    def read_variable(self, index: int, array: Array) -> None:
        """Fill `array` with a variable tensor, if the GPU has it."""
        self._delegation.thread.run(lambda: self._require_session().read_variable(index, array))

    def write_variable(self, index: int, array: Array) -> None:
        """Copy `array` into a variable tensor, if the GPU has it."""
        self._delegation.thread.run(lambda: self._require_session().write_variable(index, array))

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        if self._session is not None:
            self._session.release()
            self._session = None

    def close(self) -> None:
        """Delete the GL objects, unless the delegate has done so already."""
        self._delegation.forget(self)

    def _fill_constants(self, outputs: Mapping[int, Array]) -> None:
        for index, array in self._constants.items():
            np.copyto(outputs[index], array)

    def _require_session(self) -> Session:
        if self._session is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._session

    def _replace_session(self, plan: Plan, graph: Graph) -> None:
        self.release()
        delegation = self._delegation
        self._session = Session(
            plan, graph, delegation.thread.gpu, delegation.store, delegation.progress
        )
