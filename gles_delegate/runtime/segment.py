"""A segment: nodes of a model that run on the GPU as one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from gles_delegate.closing import in_any_case
from gles_delegate.dispatch import Shape
from gles_delegate.errors import DelegateError
from gles_delegate.gl.sync import Fence, delete_fence, wait_on_gpu
from gles_delegate.gl.thread import GlThread
from gles_delegate.image.transform import ImageTransform
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Array
from gles_delegate.planning.boundary import results_of
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.ports import Edge, Port
from gles_delegate.planning.resizing import Resizing
from gles_delegate.runtime.binding import Binding, Resource, SampledTextures, TextureBinding
from gles_delegate.runtime.invocation import Invocation, QueuedInvocation
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.tuning import Tuner
from gles_delegate.runtime.upgrade import Upgrade, Upgrades
from gles_delegate.runtime.variables import Variables

_TWICE, _OFTEN = 2, 20
"""Runs after which faster programs are compiled, and after which chains alone are."""


@dataclass(frozen=True)
class SegmentContext:
    """The data that the segments of a subgraph share.

    Attributes:
        half: Whether tensors are stored as float16.
        bindings: Bound buffers and textures by tensor index; they may change later.
        limits: The limits that its first session is planned for.
        upgrades: Build the sessions for `final_limits`; None: the first session stays.
        tuner: Chooses register tiles by measurement; None: the cost model chooses.
    """

    thread: GlThread
    lowerings: Lowerings
    half: bool
    bindings: dict[int, Binding]
    variables: Variables
    shared: Shared
    limits: Limits
    final_limits: Limits | None = None
    upgrades: Upgrades | None = None
    tuner: Tuner | None = None


class Segment:
    """Nodes of a model that run on the GPU as one.

    Attributes:
        computed: The tensors that its nodes compute.
    """

    def __init__(self, context: SegmentContext, nodes: Sequence[int]) -> None:
        self._context = context
        self._thread = context.thread
        self._nodes = nodes
        self._session: Session | None = None
        self._lowered: Lowered | None = None
        self._ports: Mapping[int, Port] = {}
        self._constants: dict[int, Array] = {}
        self._names: set[str] = set()
        self._lowerings, self._limits = context.lowerings, context.limits
        self._resizing = Resizing()
        self._upgrade: Upgrade | None = None
        self._final: _Final | None = None
        self._is_settled = False
        self._runs, self._upgrade_at, self._tried_at = 0, _TWICE, 0
        self._staged: dict[int, Session] = {}  # by turn
        self._retired: list[Session] = []
        self._invocations: list[Invocation] = []
        self._bound_again: dict[int, TextureBinding] = {}  # since the last run
        self._started = 0
        self.computed = {t for index in nodes for t in context.lowerings.graph.nodes[index].outputs}

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
        return self._context.upgrades is None or self._is_settled

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

        If the inputs `deciding` have no `values` yet, it only releases its session, and returns
        shapes for example values. Raises `UnsupportedModelError` if a node cannot run with these,
        and `ValueError` if a binding does not fit its tensor's shape.
        """
        lowerings = self._lowerings
        if self.deciding and values is None:
            self._thread.run(self.release)
            return {**lowerings.default.shapes, **shapes}
        lowered = lowerings.at(shapes, self._nodes, values)
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
        thread, number = self._thread, self._started + 1
        self._started = number

        def submit() -> Invocation:
            self._invocations = [i for i in self._invocations if not i.done()]
            if wait_for is not None:
                wait_on_gpu(thread.gpu.gl, wait_for)
            session = self._staged[number % 2] = self._run_session(inputs)
            session.stage(number % 2)
            invocation = Invocation(
                thread.gpu.gl, thread.run, lambda i: self._read_staged(number, i)
            )
            self._invocations.append(invocation)
            return invocation

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

        The others are not checked: an app may release several, and rebind one after the other.
        """
        ports, resources = self.resolve({} if binding is None else {index: binding})
        return (
            {i: port for i, port in self._ports.items() if i != index} | ports,
            {i: bound for i, bound in self.session.resources.items() if i != index} | resources,
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

    def _bind_again(self) -> None:
        """Bind textures that an app bound again because they have another size or name by now."""
        while self._bound_again:
            index, binding = self._bound_again.popitem()
            with self._thread.gpu.textures():
                changes = [w.change() for w in self.session.resources[index].watches]
            if any(changes):
                with ExitStack() as undo:
                    commit = self.rebind(*self.resolve_with(index, binding), undo)
                    undo.pop_all()
                commit()

    def rebind(
        self, ports: Mapping[int, Port], resources: Mapping[int, Resource], undo: ExitStack
    ) -> Callable[[], None]:
        """Prepare for what `resolve` returned; inside the guard. See `Session.rebind`."""
        session = self.session
        if ports == self._ports:
            return session.rebind(resources, undo)
        replacement = self._new_session(self._require_lowered(), ports, resources)
        undo.callback(self._thread.disown, replacement)
        undo.callback(replacement.release)
        replacement.restore_variables(session.save_variables())
        replacement.runs, replacement.random_words = session.runs, session.random_words

        def commit() -> None:
            try:
                self.release()
            finally:
                self._session, self._ports = replacement, ports

        return commit

    def read_output(self, index: int) -> Array:
        """Wait for the last run, and read one of `outputs`."""
        if index in self._constants:
            return np.array(self._constants[index])
        array = self._empty(index)
        self._thread.run(lambda: self.session.read(index, array))
        return array

    def read_result(self, index: int) -> Array | None:
        """The last result of a bound output; None if it has no such tensor."""
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
        deletions: list[Callable[[], None]]
        deletions = [partial(delete_fence, each) for each in self._invocations]
        self._stop_upgrades()
        built = None
        if self._upgrade is not None:
            built = self._upgrade.built
            deletions.append(self._upgrade.release)
        for session in (*self._retired, self._session, built):
            if session is not None:
                self._thread.disown(session)
                deletions.append(session.release)
        self._invocations, self._session, self._upgrade = [], None, None
        self._staged, self._retired = {}, []
        self._started += 2  # earlier runs can no longer be read
        in_any_case(deletions)

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
        self._release_retired()
        self._bind_again()
        session = self._upgraded() or self.session
        session.run(inputs)
        if session is not self._session:
            self._adopt(session)
        variables.mark(self._names)
        return session

    def _upgraded(self) -> Session | None:
        """The session of the final programs, if it is ready to take over from the present one."""
        upgrades, present = self._context.upgrades, self.session
        if upgrades is None or self._is_settled:
            return None
        self._runs += 1
        if self._upgrade is None and self._runs >= self._upgrade_at:
            arguments = self._require_lowered(), self._ports, present.resources
            self._tried_at = self._upgrade_at
            self._upgrade = upgrades.start(partial(self._build_final, *arguments))
            self._is_settled = self._upgrade is None
        if self._upgrade is None:
            return None
        session = self._upgrade.step()
        if session is None:
            if self._upgrade.is_in_vain:
                waits = self._upgrade.was_stopped or self._tried_at < self._upgrade_at
                self._is_settled, self._upgrade = not waits, None
            return None
        if session.resources is not present.resources:
            with ExitStack() as undo:
                session.rebind(present.resources, undo)()
                undo.pop_all()
        session.restore_variables(present.save_variables())
        session.runs, session.random_words = present.runs, present.random_words
        return session

    def _build_final(
        self,
        lowered: Lowered,
        ports: Mapping[int, Port],
        resources: Mapping[int, Resource],
        upgrade: Upgrade,
    ) -> Session | None:
        """The session for the final limits, or None if it is the same; on the upgrade's thread."""
        context = self._context
        assert context.final_limits is not None
        lowerings = context.lowerings.with_limits(context.final_limits)
        upgrade.check()
        lowered = lowerings.at(lowered.shapes, self._nodes, lowered.values)
        final = _Final(lowerings, lowered, Resizing())
        plan = self._plan(lowered, ports, context.final_limits, final.resizing)
        upgrade.check()
        if plan.dispatches == self.session.plan.dispatches:
            if not plan.chains:
                return None
            if self._upgrade_at < _OFTEN:
                self._upgrade_at = _OFTEN
                return None
        session = Session(plan, lowered.graph, upgrade.shared, resources)
        self._final = final
        return session

    def _adopt(self, session: Session) -> None:
        """Continue with the final session, which has just run."""
        assert self._final is not None
        self._thread.own(session)
        self._retired.append(self.session)
        self._session, self._upgrade, self._is_settled = session, None, True
        self._lowerings, self._lowered, self._resizing = self._final
        self._limits = self._context.final_limits or self._limits
        self._release_retired()

    def _release_retired(self) -> None:
        """Release earlier sessions, unless results of the last two asynchronous runs are theirs.

        They stay while a thread uses what the delegate's sessions share.
        """
        upgrades = self._context.upgrades
        if upgrades is not None:
            upgrades.free_left()
        if not self._retired or upgrades is None or not upgrades.lock.acquire(blocking=False):
            return
        try:
            for session in [s for s in self._retired if s not in self._staged.values()]:
                self._retired.remove(session)
                self._thread.disown(session)
                session.release()
        finally:
            upgrades.lock.release()

    def _stop_upgrades(self) -> None:
        """Before this thread uses what the delegate's sessions share."""
        if self._context.upgrades is not None:
            self._context.upgrades.stop()
            self._context.upgrades.free_left()

    def _read_staged(self, number: int, index: int) -> Array:
        if index in self._constants:
            return np.array(self._constants[index])
        if index not in self.outputs or number < self._started - 1:
            raise ValueError(
                f"cannot read tensor {index} of this run: expected one of {list(self.outputs)} "
                "that is not bound, of the last two runs"
            )
        array = self._empty(index)
        session = self._staged[number % 2]
        self._thread.run(lambda: session.read_staged(number % 2, index, array))
        return array

    def _empty(self, index: int) -> Array:
        lowered = self._require_lowered()
        return np.empty(lowered.shapes[index], lowered.graph.tensors[index].dtype)

    def _require_lowered(self) -> Lowered:
        if self._lowered is None:
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self._lowered

    def _edge(self, lowered: Lowered, index: int) -> Edge:
        limits, half = self._thread.gpu.limits, self._context.half
        return Edge(lowered.graph.tensors[index], lowered.shapes[index], limits, half)

    def _replace_session(self, lowered: Lowered) -> None:
        ports, resources = self.resolve(self._context.bindings, lowered)
        self.release()
        self._session = self._new_session(lowered, ports, resources)
        self._lowered, self._ports = lowered, ports
        graph, self._names = lowered.graph, {*self._variables(lowered).values()}
        self._constants = {
            index: graph.tensors[index].array()
            for index in results_of(graph, self._nodes).difference(ports)
            if graph.tensors[index].is_constant
        }

    def _new_session(
        self, lowered: Lowered, ports: Mapping[int, Port], resources: Mapping[int, Resource]
    ) -> Session:
        self._stop_upgrades()
        context = self._context
        if context.tuner is not None:
            lowered = context.tuner.tuned(lowered, self._nodes)
        plan = self._plan(lowered, ports, self._limits, self._resizing)
        session = Session(plan, lowered.graph, context.shared, resources)
        self._thread.own(session)
        return session

    def _plan(
        self, lowered: Lowered, ports: Mapping[int, Port], limits: Limits, resizing: Resizing
    ) -> Plan:
        plan = make_plan(lowered, self._nodes, limits, self._context.half, ports)
        if resizing.is_new:  # later plans share the programs of earlier ones
            plan = plan.chained(limits)
        if self._context.tuner is None and limits.size_uniforms:
            plan = resizing.generalized(plan, limits.profile.shared_texels)
        return plan


class _Final(NamedTuple):
    """The parts of the session of the final programs."""

    lowerings: Lowerings
    lowered: Lowered
    resizing: Resizing
