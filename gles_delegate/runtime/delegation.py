"""A model bound to a delegate: which nodes run on the GPU, and how its hosts feed them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cached_property, partial
from typing import Any

import numpy as np

from gles_delegate.dispatch import Dispatch, Shape
from gles_delegate.errors import DelegateError, UnsupportedModelError
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.objects import Fence, wait_on_gpu
from gles_delegate.gl.thread import GlThread
from gles_delegate.litert.native import NativeDelegate, NativeGraph
from gles_delegate.model.graph import Array, Graph
from gles_delegate.options import GpuDelegateOptions, InferencePreference
from gles_delegate.planning.lowering import Lowered, lower_graph
from gles_delegate.planning.partition import choose_segments
from gles_delegate.planning.plan import make_plan
from gles_delegate.planning.ports import Edge, Port
from gles_delegate.report import DelegationReport, DispatchTime, count, list_nodes
from gles_delegate.runtime.binding import Binding, Resource
from gles_delegate.runtime.session import Progress, Session
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.runtime.tuning import Choices, tune
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
        bindings: Mapping[int, Binding] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.graph = graph
        self.progress = progress
        self.thread = thread
        self.options = options
        self.bindings: dict[int, Binding] = {}
        self._lowered = self.lower({})
        self._partition = choose_segments(
            self._lowered,
            options.max_delegated_partitions,
            options.first_delegate_node_index,
            options.last_delegate_node_index,
        )
        self._segments: list[Segment] = []
        self._choices: dict[str, Choices] = {}
        self._claimed = False
        if options.require_full_delegation:
            self.require_all("require_full_delegation is set")
        for index, binding in (bindings or {}).items():
            self.rebind(index, binding)

    @property
    def half(self) -> bool:
        """Whether tensors are stored as float16."""
        return self.options.half_allowed and self.thread.gpu.limits.half_storage

    @property
    def report(self) -> DelegationReport:
        """Which nodes run on the GPU."""
        return self._partition.report(self.graph, "float16" if self.half else "float32")

    @cached_property
    def store(self) -> Store | None:
        """The file of what this model needs on this device, if the options name one."""
        folder, gpu = self.options.serialization_dir, self.thread.gpu
        if folder is None:
            return None
        device = (gpu.identity, gpu.limits, gpu.header)
        content = fingerprint(self.graph.content)
        name = fingerprint(self.options.model_token or content, __version__, *device, self.half)
        return Store(folder, name, content)

    def require_all(self, why: str) -> None:
        """Raise `UnsupportedModelError`, with `why`, if some node does not run on the GPU."""
        # Nodes that cannot run there are the cause, before those that only go with them.
        reasons = self._lowered.reasons or self._partition.reasons
        if reasons:
            raise _unsupported(self.graph, reasons, f"cannot run on the GPU, and {why}")

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
                list_nodes(report.left),
            )

    def segment(self, nodes: Sequence[int]) -> Segment:
        """Nodes that run on the GPU as one."""
        segment = Segment(self, nodes)
        self._segments.append(segment)
        return segment

    def lower(
        self,
        shapes: Mapping[int, Shape],
        only: Sequence[int] | None = None,
        choices: Choices | None = None,
    ) -> Lowered:
        """The graph lowered for tensors of these shapes."""
        limits, quantized = self.thread.gpu.limits, self.options.quantized_models_allowed
        return lower_graph(self.graph, limits, shapes, quantized, only, choices)

    def tuned(self, lowered: Lowered, nodes: Sequence[int]) -> Lowered:
        """The same, with the tiles that are fastest on the device; inside the guard."""
        key = fingerprint("choices", nodes, sorted(lowered.shapes.items()))
        known = self.store.get(key) if self.store else None
        choices: Choices | None = self._choices.get(key)
        if choices is None and known is not None:
            choices = dict(json.loads(bytes(known)))
        elif choices is None:
            lower = partial(self.lower, lowered.shapes, nodes)
            choices = tune(lower, nodes, self.thread.gpu, self.half, self.progress)
            if self.store:
                self.store.add(key, json.dumps([*choices.items()]).encode())
        self._choices[key] = choices
        return self.lower(lowered.shapes, nodes, choices)

    def lowered_for(self, shapes: Mapping[int, Shape], nodes: Sequence[int]) -> Lowered:
        """The nodes `nodes` lowered for these shapes.

        Raises:
            UnsupportedModelError: One of them cannot run with these shapes.
        """
        if all(self._lowered.shapes[index] == shape for index, shape in shapes.items()):
            return self._lowered
        lowered = self.lower(shapes, nodes)
        if lowered.reasons:
            what = "cannot run on the GPU with the present input shapes"
            raise _unsupported(self.graph, lowered.reasons, what)
        return lowered

    def rebind(self, index: int, binding: Binding | None) -> None:
        """Bind a buffer or textures to an input or output, or None again.

        Raises:
            ValueError: The tensor cannot be bound, or not to this; what was bound stays.
        """
        bindings = {i: bound for i, bound in self.bindings.items() if i != index}
        if binding is not None:
            self._require_bindable(index)
            bindings[index] = binding

        def rebind() -> None:
            # All is checked before anything is changed.
            prepared = [segment for segment in self._segments if segment.is_prepared]
            attached = [segment.attached(bindings) for segment in prepared]
            for segment, (ports, resources) in zip(prepared, attached, strict=True):
                segment.attach(ports, resources)

        self.thread.run(rebind)
        self.bindings = bindings

    def _require_bindable(self, index: int) -> None:
        graph, segments = self.graph, self._partition.segments
        if index not in (*graph.inputs, *graph.outputs):
            raise ValueError(
                f"cannot bind tensor {index}: expected an input, one of {list(graph.inputs)}, or "
                f"an output, one of {list(graph.outputs)}"
            )
        users = {n.index for n in graph.nodes if index in (*n.inputs, *n.outputs)}
        makers = {n.index for n in graph.nodes if index in n.outputs}
        # What a segment computes into a buffer of the app's, no other segment is given.
        places = [set(nodes) for nodes in segments] if makers else [{*sum(segments, ())}]
        if not users or not any(users <= place for place in places):
            raise ValueError(
                f"cannot bind tensor {index}: nodes {sorted(users)} use it, and the GPU runs "
                f"{[list(nodes) for nodes in segments]}"
            )

    def profile(self) -> list[DispatchTime]:
        """Run every prepared segment once more, each dispatch by itself."""
        ops = {node.index: node.op for node in self.graph.nodes}
        return [
            DispatchTime(d.node, ops.get(d.node, ""), d.shader, str(d), seconds, d.flops)
            for segment in self._segments
            for d, seconds in self.thread.run(segment.profile)
        ]

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of GPU memory for activations and for constants."""
        sizes = [segment.nbytes for segment in self._segments]
        return sum(a for a, _ in sizes), sum(c for _, c in sizes)

    @contextmanager
    def idle(self) -> Iterator[None]:
        """See `Session.idle`."""
        with ExitStack() as stack:
            for segment in self._segments:
                stack.enter_context(segment.idle())
            yield

    def read_result(self, index: int) -> Array | None:
        """What the last run left in an output that is bound; None for any other tensor."""
        for segment in self._segments:
            if index in self.bindings and index in segment.made:
                return segment.read_result(index)
        return None

    def finished(self, read: Callable[[int], Array]) -> Invocation:
        """The invocation that has just come to its end; `read` reads its outputs."""
        return self.thread.run(lambda: Invocation(self.thread.gpu.gl, self.thread.run, read))

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


def _unsupported(graph: Graph, reasons: Mapping[int, str], what: str) -> UnsupportedModelError:
    nodes = [(index, graph.nodes[index].op, why) for index, why in sorted(reasons.items())]
    message = f"{len(nodes)} of {len(graph.nodes)} nodes {what}:\n{list_nodes(nodes)}"
    return UnsupportedModelError(message, nodes)


class Invocation(Fence):
    """A run that `Interpreter.invoke_async` has started: a fence behind it, and its outputs.

    Args:
        read: Returns an output, by tensor index, once the run is done.
    """

    def __init__(
        self,
        gl: Functions,
        run: Callable[[Callable[[], Any]], Any],
        read: Callable[[int], Array],
    ) -> None:
        super().__init__(gl, run)
        self._read = read

    def get_tensor(self, tensor_index: int) -> Array:
        """Wait for this run, not for later ones, and return an output of it.

        Raises:
            ValueError: It is no output or is bound, or two runs were started after this one: the
                results of the last two are kept.
        """
        self.wait()
        return self._read(tensor_index)


class Segment:
    """Nodes of a model that run on the GPU as one.

    Attributes:
        made: Indices of the tensors that its nodes compute.
    """

    def __init__(self, delegation: Delegation, nodes: Sequence[int]) -> None:
        self._delegation = delegation
        self._nodes = nodes
        self._session: Session | None = None
        self._lowered: Lowered | None = None
        self._ports: Mapping[int, Port] = {}
        self._constants: dict[int, Array] = {}
        self._invocations: list[Invocation] = []
        self._started = 0
        self.made = {t for index in nodes for t in delegation.graph.nodes[index].outputs}

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tensors that a run is given; known once it is prepared, as are the next two."""
        return self._session.inputs if self._session else ()

    @property
    def outputs(self) -> tuple[int, ...]:
        """Tensors that a run returns."""
        return (*self._session.outputs, *self._constants) if self._session else ()

    @property
    def variables(self) -> tuple[int, ...]:
        """Tensors that last from one run to the next."""
        return self._session.variables if self._session else ()

    def prepare(self, shapes: Mapping[int, Shape]) -> Mapping[int, Shape]:
        """Plan and compile for tensors of these shapes; returns every tensor's shape.

        Raises:
            UnsupportedModelError: A node cannot run with these shapes.
            ValueError: What is bound to a tensor does not fit its shape.
            ShaderError, OutOfGpuMemoryError: The driver cannot run it.
        """
        lowered = self._delegation.lowered_for(shapes, self._nodes)
        self._delegation.thread.run(lambda: self._replace_session(lowered))
        return lowered.shapes

    @property
    def is_prepared(self) -> bool:
        """Whether it can run."""
        return self._session is not None

    def attached(
        self, bindings: Mapping[int, Binding], lowered: Lowered | None = None
    ) -> tuple[dict[int, Port], dict[int, Resource]]:
        """The ports and the GL objects of what is bound to its tensors; inside the guard.

        Args:
            lowered: The nodes for other shapes than the present ones.

        Raises:
            ValueError: What is bound to a tensor does not fit.
        """
        delegation, lowered = self._delegation, lowered or self._require_lowered()
        read = {t for index in self._nodes for t in delegation.graph.nodes[index].inputs}
        ports: dict[int, Port] = {}
        resources: dict[int, Resource] = {}
        for index in bindings.keys() & (read | self.made):
            edge, is_input = self._edge(lowered, index), index not in self.made
            if edge.tensor.is_constant:
                raise ValueError(f"cannot bind tensor {index}: no run computes it, a constant")
            gpu = delegation.thread.gpu
            ports[index], resources[index] = bindings[index].attach(edge, is_input, gpu)
        return ports, resources

    def attach(self, ports: Mapping[int, Port], resources: Mapping[int, Resource]) -> None:
        """Run with what `attached` returned from now on; inside the guard."""
        session = self._require_session()
        if ports == self._ports:
            session.attach(resources)
        else:
            replacement = self._new_session(self._require_lowered(), ports, resources)
            replacement.restore_variables(session.save_variables())
            self.release()
            self._session, self._ports = replacement, ports

    def invoke(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Run once: arrays by tensor index, of the tensors' types and the prepared shapes."""
        self._delegation.thread.run(lambda: self._run(inputs, outputs))

    def invoke_on(self, arrays: Mapping[int, Array]) -> None:
        """Run once on a host that keeps the variables: reads and writes them among `arrays`."""

        def run() -> None:
            session = self._require_session()
            for index in self.variables:
                session.write_variable(index, arrays[index])
            self._run(arrays, arrays)
            for index in self.variables:
                session.read_variable(index, arrays[index])

        self._delegation.thread.run(run)

    def submit(self, inputs: Mapping[int, Array], wait_for: Fence | int | None) -> Invocation:
        """Start a run, on arrays as for `invoke`, after a fence; see `Interpreter.invoke_async`."""
        # The GPU reaches them in order, so these are the oldest: their fences free themselves.
        self._invocations = [i for i in self._invocations if not i.done()]
        thread, number = self._delegation.thread, self._started + 1

        def submit() -> Invocation:
            if wait_for is not None:
                wait_on_gpu(thread.gpu.gl, wait_for)
            session = self._require_session()
            session.run(inputs)
            session.stage(number % 2)
            return Invocation(thread.gpu.gl, thread.run, lambda i: self._read_staged(number, i))

        invocation = thread.run(submit)
        self._started = number
        self._invocations.append(invocation)
        return invocation

    def read_result(self, index: int) -> Array | None:
        """What the last run left in an output that is bound; None if it has no such tensor."""
        texels = self._delegation.thread.run(lambda: self._require_session().read_result(index))
        edge = self._edge(self._require_lowered(), index)
        return edge.elements(texels) if texels is not None else None

    def profile(self) -> list[tuple[Dispatch, float]]:
        """See `Session.profile`; on the delegate's thread, inside the guard."""
        return self._require_session().profile()

    def idle(self) -> AbstractContextManager[None]:
        """See `Session.idle`."""
        return self._require_session().idle()

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of GPU memory for activations and for constants."""
        return self._session.nbytes if self._session else (0, 0)

    def read_variable(self, index: int, array: Array) -> None:
        """Fill `array` with a variable tensor, if the GPU has it."""
        self._delegation.thread.run(lambda: self._require_session().read_variable(index, array))

    def write_variable(self, index: int, array: Array) -> None:
        """Copy `array` into a variable tensor, if the GPU has it."""
        self._delegation.thread.run(lambda: self._require_session().write_variable(index, array))

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        for invocation in self._invocations:
            invocation.delete()
        self._invocations = []
        self._started += 2  # what was started cannot be read any more
        if self._session is not None:
            self._session.release()
            self._session = None

    def close(self) -> None:
        """Delete the GL objects, unless the delegate has done so already."""
        self._delegation.forget(self)

    def _read_staged(self, number: int, index: int) -> Array:
        if index in self._constants:
            return np.array(self._constants[index])
        if index not in self.outputs or number < self._started - 1:
            raise ValueError(
                f"cannot read tensor {index} of this run: expected one of {list(self.outputs)} "
                "that is not bound, of the last two runs"
            )
        lowered = self._require_lowered()
        array = np.empty(lowered.shapes[index], lowered.graph.tensors[index].dtype)
        self._delegation.thread.run(
            lambda: self._require_session().read_staged(number % 2, index, array)
        )
        return array

    def _run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        session = self._require_session()
        session.run(inputs)
        for index in session.outputs:
            session.read(index, outputs[index])
        for index, array in self._constants.items():
            np.copyto(outputs[index], array)

    def _require_lowered(self) -> Lowered:
        if self._lowered is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._lowered

    def _require_session(self) -> Session:
        if self._session is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._session

    def _edge(self, lowered: Lowered, index: int) -> Edge:
        limits, half = self._delegation.thread.gpu.limits, self._delegation.half
        return Edge(lowered.graph.tensors[index], lowered.shapes[index], limits, half)

    def _replace_session(self, lowered: Lowered) -> None:
        ports, resources = self.attached(self._delegation.bindings, lowered)
        self.release()
        self._session = self._new_session(lowered, ports, resources)
        self._lowered, self._ports = lowered, ports
        folded = self.made.intersection(lowered.graph.outputs).difference(self._session.outputs)
        self._constants = {
            index: lowered.graph.tensors[index].array() for index in folded.difference(ports)
        }

    def _new_session(
        self, lowered: Lowered, ports: Mapping[int, Port], resources: Mapping[int, Resource]
    ) -> Session:
        delegation = self._delegation
        gpu = delegation.thread.gpu
        if delegation.options.inference_preference == InferencePreference.SUSTAINED_SPEED:
            lowered = delegation.tuned(lowered, self._nodes)
        plan = make_plan(lowered, self._nodes, gpu.limits, delegation.half, ports)
        return Session(plan, lowered.graph, gpu, resources, delegation.store, delegation.progress)
