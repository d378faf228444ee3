"""A segment: nodes of a model that run on the GPU as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import permutations
from weakref import WeakSet

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.errors import DelegateError
from gles_delegate.gl.sync import Fence, wait_on_gpu
from gles_delegate.gl.thread import GlThread
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.graph import Array
from gles_delegate.planning.boundary import results_of
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.ports import Edge, Port
from gles_delegate.runtime.async_runs import AsyncRuns
from gles_delegate.runtime.binding import (
    Binding,
    BoundBuffer,
    Resource,
    SampledTextures,
    TextureBinding,
    changes,
)
from gles_delegate.runtime.invocation import Invocation, QueuedInvocation
from gles_delegate.runtime.planner import Planner
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.tuning import Tuner
from gles_delegate.runtime.upgrade import Faster, Upgrade
from gles_delegate.runtime.variables import Variables
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.support.arrays import ArrayPool
from gles_delegate.support.closing import in_any_case


@dataclass(frozen=True)
class SegmentContext:
    """The data that the segments of a subgraph share.

    Attributes:
        half: Whether tensors are stored as float16.
        bindings: Bound buffers and textures by tensor index; they may change later.
        limits: The limits that its first session is planned for.
        final_limits: The limits of its later sessions; None: the same.
        tuner: Chooses register tiles by measurement; None: the cost model chooses.
        segments: All segments of the subgraph.
    """

    thread: GlThread
    lowerings: Lowerings
    half: bool
    bindings: dict[int, Binding]
    variables: Variables
    shared: Shared
    limits: Limits
    final_limits: Limits | None = None
    tuner: Tuner | None = None
    segments: WeakSet[Segment] = field(default_factory=WeakSet)


class Segment:
    """Nodes of a model that run on the GPU as one; `computed` has the tensors that they compute.

    `sized_by` has tensors, computed elsewhere, whose shapes decide constants that it reads.
    """

    def __init__(self, context: SegmentContext, nodes: Sequence[int]) -> None:
        self._context = context
        self._thread = context.thread
        self._nodes = nodes
        lowerings, limits = context.lowerings, context.final_limits
        self._planner = Planner(lowerings, nodes, context.limits, context.half, context.tuner)
        self._upgrade = Upgrade(context.shared, self._planner, limits)
        self._async_runs = AsyncRuns(context.thread)
        self._session: Session | None = None
        self._lowered: Lowered | None = None
        self._ports: Mapping[int, Port] = {}
        self._constants: dict[int, Array] = {}
        self._names: set[str] = set()
        self._bound_again: dict[int, TextureBinding] = {}  # since the last run
        self._pool = ArrayPool()
        context.segments.add(self)
        own = [lowerings.graph.nodes[index] for index in nodes]
        origins = lowerings.default.origins
        self.computed = {t for node in own for t in node.outputs}
        self.sized_by = {
            t for n in own for i in n.inputs for t in origins.get(i, ())
        } - self.computed

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tensors that a run takes; empty before `prepare`, like the next three."""
        return self._session.inputs if self._session else ()

    @property
    def outputs(self) -> tuple[int, ...]:
        """Tensors that a run returns."""
        return (*self._session.outputs, *self._constants) if self._session else ()

    @property
    def bound_outputs(self) -> tuple[int, ...]:
        """Tensors that a run writes to bound buffers and textures; see `read_result`."""
        return self._session.bound_outputs if self._session else ()

    @property
    def variables(self) -> tuple[int, ...]:
        """Tensors that last from one run to the next, of the model's own."""
        return self._session.variables if self._session else ()

    @property
    def states(self) -> tuple[int, ...]:
        """Inputs to which a run assigns, and that the CPU fills and reads."""
        return self._session.states if self._session else ()

    @property
    def is_prepared(self) -> bool:
        return self._session is not None

    @property
    def is_final(self) -> bool:
        """Whether no faster programs are to come."""
        return self._upgrade.is_final

    @property
    def session(self) -> Session:
        """The GL objects of the present plan; raises DelegateError if it is not prepared."""
        if self._session is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._session

    @property
    def deciding(self) -> Collection[int]:
        """Inputs of the model whose values determine sizes of tensors."""
        return self._context.lowerings.deciding

    def fits(self, values: Mapping[int, Array]) -> bool:
        """Whether it is prepared for these values of `deciding`."""
        planned = self._lowered.values if self._lowered and self._session else None
        return planned is not None and all(
            planned[index].tobytes() == value.tobytes() for index, value in values.items()
        )

    def prepare(
        self, shapes: Mapping[int, Shape], values: Mapping[int, Array] | None = None
    ) -> Mapping[int, Shape]:
        """Plan and compile for these input shapes; return every tensor's shape.

        If the inputs `deciding` do not have `values` yet, it only releases its session, and returns
        shapes for example values. Raises `UnsupportedModelError` if a node cannot run with these,
        and `ValueError` if a binding does not fit its tensor's shape.
        """
        if self.deciding and values is None:
            self._thread.run(self._retire)
            return {**self._context.lowerings.default.shapes, **shapes}
        lowered = self._planner.lower(shapes, values)
        self._thread.run(lambda: self._replace_session(lowered))
        return lowered.shapes

    def invoke(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Run once, on arrays by tensor index, of the tensors' types and prepared shapes."""
        self._thread.run(lambda: self._run(inputs, outputs))

    def invoke_on(self, arrays: Mapping[int, Array]) -> None:
        """Run once for a host that owns the variables: read and write them in `arrays`."""

        def run() -> None:
            session = self.session
            for index in self.variables:
                session.write_variable(index, arrays[index])
            session = self._run(arrays, arrays)
            for index in self.variables:
                session.read_variable(index, arrays[index])

        self._thread.run(run)

    def submit(self, inputs: Mapping[int, Array], wait_for: Fence | int | None) -> Invocation:
        """Start a run, on arrays as for `invoke`, after a fence; see `Interpreter.invoke_async`."""
        thread = self._thread

        def submit() -> Invocation:
            if wait_for is not None:
                wait_on_gpu(thread.gpu.gl, wait_for)
            session, lowered = self._run_session(inputs), self._require_lowered()
            empty, others = partial(self._empty, lowered), self._not_computed(lowered)
            return self._async_runs.stage(session, empty, others)

        if not thread.is_own:
            return thread.run(submit)
        # The caller may refill the arrays before it starts.
        inputs = {index: inputs[index].copy() for index in self.inputs}
        return QueuedInvocation(thread, submit)

    def resolve(
        self, bindings: Mapping[int, Binding], lowered: Lowered | None = None
    ) -> tuple[dict[int, Port], dict[int, Resource]]:
        """The ports and GL objects of the bindings of its tensors; inside the guard.

        The present shapes count unless nodes `lowered` for new ones are given. Raises ValueError if
        a binding does not fit its tensor.
        """
        graph, gpu = self._context.lowerings.graph, self._thread.gpu
        lowered = lowered or self._require_lowered()
        read = {t for index in self._nodes for t in graph.nodes[index].inputs}
        ports: dict[int, Port] = {}
        resources: dict[int, Resource] = {}
        for index in bindings.keys() & (read | self.computed):
            edge, is_input = self._edge(lowered, index), index not in self.computed
            if edge.tensor.is_constant:
                raise ValueError(
                    f"cannot bind tensor {index}: it is a constant, which no run computes"
                )
            ports[index], resources[index] = bindings[index].resolve(edge, is_input, gpu)
        for index, name in self._variables(lowered).items():
            resources[index] = self._context.variables.buffer(name, self._edge(lowered, index))
        return ports, resources

    def _variables(self, lowered: Lowered) -> dict[int, str]:
        """The resource variables that its nodes use, by the tensors that stand for them."""
        used = {t for index in self._nodes for t in lowered.graph.nodes[index].inputs}
        return {i: name for i, name in lowered.uses.tensors.items() if i in used}

    def resolve_with(
        self, index: int, binding: Binding | None
    ) -> tuple[dict[int, Port], dict[int, Resource]]:
        """The present ports and resources, with another binding of one tensor; see `resolve`.

        Of the others, only `_require_apart` is checked: an app may release several, and rebind one
        after the other.
        """
        ports, resources = self.resolve({} if binding is None else {index: binding})
        others = {i: bound for i, bound in self.session.resources.items() if i != index}
        if binding is not None:
            self._require_apart(others | resources, {*self._context.bindings, index})
        return (
            {i: port for i, port in self._ports.items() if i != index} | ports,
            others | resources,
        )

    def _require_apart(self, resources: Mapping[int, Resource], bound: Collection[int]) -> None:
        """Raise ValueError if a run with these resources would lose a bound output, or overwrite a
        bound input that a later segment reads.

        A segment reads its inputs before it writes results to what overlaps them.
        """
        every = {each: each.session.resources for each in self._context.segments if each._session}
        every[self] = resources
        uses = [(each, i) for each, those in every.items() for i in sorted(those.keys() & bound)]
        tensors = self._context.lowerings.graph.tensors
        for (writer, i), (user, j) in permutations(uses, 2):
            is_output, is_later = j in user.computed, user._nodes[0] > writer._nodes[0]
            if i == j or i not in writer.computed or not (is_output or is_later):
                continue
            written = every[writer][i]
            if changes(written, every[user][j]):
                kind = "bytes of a buffer" if isinstance(written, BoundBuffer) else "texture"
                why = "a run would lose one of the results"
                if not is_output:
                    why = f"node {user._nodes[0]} reads the input after the output is written"
                raise ValueError(
                    f"cannot bind the output {i} {tensors[i].name!r} and the "
                    f"{'output' if is_output else 'input'} {j} {tensors[j].name!r} to the same "
                    f"{kind}: {why}; unbind one, or bind it elsewhere"
                )

    def set_transform(self, index: int, binding: TextureBinding) -> None:
        """Sample the same textures by another transform from the next run on, if it has them."""
        resource = self._session.resources.get(index) if self._session else None
        if isinstance(resource, SampledTextures):
            transform = binding.transform or ImageTransform()
            assert isinstance(transform, ImageTransform)
            resource = replace(resource, parameters=resource.parameters_of(transform))
            self.session.set_parameters(index, resource)
            self._bound_again[index] = binding

    def replan(
        self, ports: Mapping[int, Port], resources: Mapping[int, Resource], undo: ExitStack
    ) -> Callable[[], None]:
        """Make a new session if the ports are others, else record; inside the guard.

        Takes what `resolve` returned. See `Session.record` for `undo` and the result.
        """
        session = self.session
        if ports == self._ports:
            return session.record(resources, undo)
        replacement = self._new_session(self._require_lowered(), ports, resources)
        undo.callback(self._thread.disown, replacement)
        undo.callback(replacement.release)
        replacement.continue_from(session)

        def commit() -> None:
            try:
                self._retire()
            finally:
                self._session, self._ports = replacement, ports

        return commit

    def read_output(self, index: int) -> Array:
        """Wait for the last run, and read one of `outputs`."""
        if index in self._constants:
            return np.array(self._constants[index])
        array = self.empty(index)
        self._thread.run(lambda: self.session.read(index, array))
        return array

    def read_result(self, index: int) -> Array | None:
        """The last result of a bound output; None if it does not compute the tensor."""
        texels = self._thread.run(lambda: self.session.read_result(index))
        edge = self._edge(self._require_lowered(), index)
        return edge.elements(texels) if texels is not None else None

    def read_variable(self, index: int, array: Array) -> None:
        """Fill `array` with a variable tensor, if the GPU has it."""
        session = self._session
        if session is not None:
            self._thread.run(lambda: session.read_variable(index, array))

    def write_variable(self, index: int, array: Array) -> None:
        """Copy `array` into a variable tensor, if the GPU has it."""
        session = self._session
        if session is not None:
            self._thread.run(lambda: session.write_variable(index, array))

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        in_any_case([self._async_runs.release, self._retire])

    def _retire(self) -> None:
        """Delete the session, but not the results of asynchronous runs; as `release`."""
        releases = [self._upgrade.drop, self._async_runs.keep]
        session, self._session = self._session, None
        if session is not None:
            self._thread.disown(session)
            releases.append(session.release)
        in_any_case(releases)

    def _run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> Session:
        session = self._run_session(inputs)
        for index in session.outputs:
            if index in outputs:
                session.read(index, outputs[index])
        for index, array in self._constants.items():
            if index in outputs:
                np.copyto(outputs[index], array)
        return session

    def _run_session(self, inputs: Mapping[int, Array]) -> Session:
        variables = self._context.variables
        if self._names:
            variables.require(self._names & self._require_lowered().uses.read_first)
        while self._bound_again:
            index, binding = self._bound_again.popitem()
            with self._thread.gpu.textures():
                changes = [w.change() for w in self.session.resources[index].watches]
            if any(changes):  # the app's texture has another size or name by now
                with ExitStack() as undo:
                    commit = self.replan(*self.resolve_with(index, binding), undo)
                    undo.pop_all()
                commit()
        faster = self._upgrade.step(self.session, self._require_lowered(), self._ports)
        if faster is not None:
            self._continue_with(faster)
        self.session.run(inputs)
        variables.mark(self._names)
        return self.session

    def _continue_with(self, faster: Faster) -> None:
        """Replace the session by one of faster programs, which has its state."""
        present, session = self.session, faster.session
        assert session is not None
        self._async_runs.continue_with(session, present)
        self._thread.own(session)
        self._thread.disown(present)
        self._session, self._planner, self._lowered = session, faster.planner, faster.lowered
        present.release()

    def shape_of(self, index: int) -> Shape:
        """The present shape of a tensor."""
        return self._require_lowered().shapes[index]

    def empty(self, index: int) -> Array:
        """An array for a tensor, whose content is undefined."""
        return self._empty(self._require_lowered(), index)

    def _empty(self, lowered: Lowered, index: int) -> Array:
        return self._pool.empty(lowered.shapes[index], lowered.graph.tensors[index].dtype)

    def _not_computed(self, lowered: Lowered) -> dict[int, Array]:
        """The outputs that are constants, and those that no node computes, which are zeros."""
        tensors, shapes = lowered.graph.tensors, lowered.shapes
        unwritten = {*lowered.graph.outputs}.difference(self.computed, lowered.graph.inputs)
        zeros = {index: np.zeros(shapes[index], tensors[index].dtype) for index in unwritten}
        return zeros | self._constants

    def _require_lowered(self) -> Lowered:
        if self._lowered is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._lowered

    def _edge(self, lowered: Lowered, index: int) -> Edge:
        limits, half = self._thread.gpu.limits, self._context.half
        return Edge(lowered.graph.tensors[index], lowered.shapes[index], limits, half)

    def _replace_session(self, lowered: Lowered) -> None:
        ports, resources = self.resolve(self._context.bindings, lowered)
        self._require_apart(resources, self._context.bindings)
        self._retire()
        self._session = self._new_session(lowered, ports, resources)
        self._lowered, self._ports = lowered, ports
        self._pool.clear()
        graph, self._names = lowered.graph, {*self._variables(lowered).values()}
        self._constants = {
            index: graph.tensors[index].array()
            for index in results_of(graph, self._nodes).difference(ports)
            if graph.tensors[index].is_constant
        }

    def _new_session(
        self, lowered: Lowered, ports: Mapping[int, Port], resources: Mapping[int, Resource]
    ) -> Session:
        plan = self._planner.plan(lowered, ports)
        session = Session(plan, lowered.graph, self._context.shared, resources)
        self._thread.own(session)
        return session
