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
from gles_delegate.errors import DelegateError, OutOfGpuMemoryError
from gles_delegate.gl.sync import Fence, wait_on_gpu
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Array
from gles_delegate.planning.lowering import Lowered, Lowerings
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.plans import Choose, Plans
from gles_delegate.planning.ports import Edge, Port
from gles_delegate.runtime.async_runs import AsyncRuns
from gles_delegate.runtime.binding import (
    Binding,
    Resource,
    SampledTextures,
    TextureBinding,
    changes,
)
from gles_delegate.runtime.invocation import Invocation, QueuedInvocation
from gles_delegate.runtime.prepared import Prepared, variables_of
from gles_delegate.runtime.session import Session
from gles_delegate.runtime.shared import Shared
from gles_delegate.runtime.upgrade import Upgrade
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
        choices: See `Plans`.
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
    choices: Choose | None = None
    segments: WeakSet[Segment] = field(default_factory=WeakSet)


class Segment:
    """Nodes of a model that run on the GPU as one.

    Attributes:
        current: What it runs with; None before `prepare`. Only whole values replace it.
        upgrade: Its change to faster programs, which decides how it is planned.
        computed: The tensors that its nodes compute.
        shape_inputs: Inputs of the model whose values decide sizes of tensors.
        sized_by: Tensors, computed elsewhere, whose shapes decide constants that it reads.
    """

    def __init__(self, context: SegmentContext, nodes: Sequence[int]) -> None:
        self._context = context
        self._thread = context.thread
        self._nodes = nodes
        lowerings = context.lowerings
        plans = Plans(lowerings, nodes, context.half, context.limits, context.choices)
        self.current: Prepared | None = None
        self.upgrade = Upgrade(context.shared, plans, context.final_limits)
        self._async_runs = AsyncRuns(context.thread)
        self._bound_again: set[int] = set()  # textures with another transform since the last run
        self._pool = ArrayPool()
        context.segments.add(self)
        own = [lowerings.graph.nodes[index] for index in nodes]
        origins = lowerings.default.origins
        self.computed = {t for node in own for t in node.outputs}
        self.shape_inputs: Collection[int] = lowerings.shape_inputs
        read = (i for node in own for i in node.inputs)
        self.sized_by = {t for i in read for t in origins.get(i, ())} - self.computed

    def require(self) -> Prepared:
        """What it runs with; raises DelegateError before `prepare`, and once it is closed."""
        if self.current is None:
            self._thread.require()
            raise DelegateError("the model is not prepared: call allocate_tensors() first")
        return self.current

    def is_planned_for(self, values: Mapping[int, Array]) -> bool:
        """Whether it is prepared for these values of `shape_inputs`."""
        planned = self.current.lowered.values if self.current is not None else None
        return planned is not None and all(
            planned[index].tobytes() == value.tobytes() for index, value in values.items()
        )

    def prepare(
        self, shapes: Mapping[int, Shape], values: Mapping[int, Array] | None = None
    ) -> Mapping[int, Shape]:
        """Plan and compile for these input shapes; return every tensor's shape.

        If the `shape_inputs` do not have `values` yet, it only releases its session, and returns
        shapes for example values. After an error it is prepared as before. Raises
        `UnsupportedModelError` if a node cannot run with these, `ValueError` if a binding does not
        fit its tensor's shape, and `OutOfGpuMemoryError`.
        """
        if self.shape_inputs and values is None:
            self._thread.run(self._retire)
            return {**self._context.lowerings.default.shapes, **shapes}
        lowered = self.upgrade.plans.lower(shapes, values)
        self._thread.run(lambda: self._resize(lowered))
        return lowered.shapes

    def invoke(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Run once, on arrays by tensor index, of the tensors' types and prepared shapes."""
        self._thread.run(lambda: self._run(inputs, outputs))

    def invoke_on(
        self, array: Callable[[int], Array], allocated: Collection[int], reads_bound: bool
    ) -> None:
        """Run once for a host that owns the tensors, the variables included.

        Args:
            array: A tensor of the host, by its index; called on the caller's thread.
            allocated: The outputs that the host has; others stay on the GPU.
            reads_bound: Also copy outputs in bound buffers and textures into the host's.
        """
        current = self.require()
        session = current.session
        outputs = [index for index in current.outputs if index in allocated]
        arrays = {i: array(i) for i in (*session.inputs, *outputs, *session.variables)}

        def run() -> None:
            before = self.require().session
            for index in before.variables:
                before.write_variable(index, arrays[index])
            after = self._run(arrays, arrays).session
            for index in after.variables:
                after.read_variable(index, arrays[index])

        self._thread.run(run)
        for index in session.bound_outputs if reads_bound else ():
            result = self.read_result(index)
            if result is not None:
                np.copyto(array(index), result)

    def submit(self, inputs: Mapping[int, Array], wait_for: Fence | int | None) -> Invocation:
        """Start a run, on arrays as for `invoke`, after a fence; see `Interpreter.invoke_async`."""
        thread = self._thread

        def submit() -> Invocation:
            if wait_for is not None:
                wait_on_gpu(thread.gpu.gl, wait_for)
            current = self._start(inputs)
            lowered = current.lowered
            tensors = lowered.graph.tensors
            # The outputs that no node computes, and those that are constants.
            unwritten = {*lowered.graph.outputs}.difference(self.computed, lowered.graph.inputs)
            others: dict[int, Array] = {
                i: np.zeros(lowered.shapes[i], tensors[i].dtype) for i in unwritten
            }
            others.update(current.constants)
            return self._async_runs.stage(current.session, partial(self._empty, lowered), others)

        if not thread.is_own:
            return thread.run(submit)
        # The caller may refill the arrays before it starts.
        taken = self.current.session.inputs if self.current is not None else ()
        inputs = {index: inputs[index].copy() for index in taken}
        return QueuedInvocation(thread, submit)

    def resolve(
        self, bindings: Mapping[int, Binding], lowered: Lowered | None = None
    ) -> tuple[dict[int, Port], dict[int, Resource]]:
        """The ports and GL objects of the bindings of its tensors; inside the guard.

        The present shapes count unless nodes `lowered` for new ones are given. Raises ValueError if
        a binding does not fit its tensor.
        """
        graph = self._context.lowerings.graph
        gpu = self._thread.gpu
        lowered = lowered or self.require().lowered
        read = {t for index in self._nodes for t in graph.nodes[index].inputs}
        ports: dict[int, Port] = {}
        resources: dict[int, Resource] = {}
        for index in bindings.keys() & (read | self.computed):
            edge = self._edge(lowered, index)
            is_input = index not in self.computed
            if edge.tensor.is_constant:
                raise ValueError(
                    f"cannot bind tensor {index}: it is a constant, which no run computes"
                )
            ports[index], resources[index] = bindings[index].resolve(edge, is_input, gpu)
        for index, name in variables_of(self._nodes, lowered).items():
            resources[index] = self._context.variables.buffer(name, self._edge(lowered, index))
        return ports, resources

    def resolve_with(
        self, index: int, binding: Binding | None
    ) -> tuple[dict[int, Port], dict[int, Resource]]:
        """The present ports and resources, with another binding of one tensor; see `resolve`.

        Of the others, only `_require_apart` is checked: an app may release several, and rebind one
        after the other.
        """
        current = self.require()
        ports, resources = self.resolve({} if binding is None else {index: binding})
        others = {i: bound for i, bound in current.session.resources.items() if i != index}
        if binding is not None:
            self._require_apart(others | resources, {*self._context.bindings, index})
        return (
            {i: port for i, port in current.ports.items() if i != index} | ports,
            others | resources,
        )

    def _require_apart(self, resources: Mapping[int, Resource], bound: Collection[int]) -> None:
        """Raise ValueError if a run with these resources would lose a bound output, or overwrite a
        bound input that a later segment reads.

        A segment reads its inputs before it writes results to what overlaps them.
        """
        every: dict[Segment, Mapping[int, Resource]] = {}
        for segment in self._context.segments:
            if segment.current is not None:
                every[segment] = segment.current.session.resources
        every[self] = resources
        uses = [(each, i) for each, those in every.items() for i in sorted(those.keys() & bound)]
        tensors = self._context.lowerings.graph.tensors
        for (writer, i), (user, j) in permutations(uses, 2):
            is_output = j in user.computed
            is_later = user._nodes[0] > writer._nodes[0]
            if i == j or i not in writer.computed or not (is_output or is_later):
                continue
            written = every[writer][i]
            if changes(written, every[user][j]):
                why = "a run would lose one of the results"
                if not is_output:
                    why = f"node {user._nodes[0]} reads the input after the output is written"
                raise ValueError(
                    f"cannot bind the output {i} {tensors[i].name!r} and the "
                    f"{'output' if is_output else 'input'} {j} {tensors[j].name!r} to the same "
                    f"{written.kind}: {why}; unbind one, or bind it elsewhere"
                )

    def set_transform(self, index: int, binding: TextureBinding) -> None:
        """Sample the same textures by another transform from the next run on, if it has them."""
        if self.current is None:
            return
        session = self.current.session
        resource = session.resources.get(index)
        if isinstance(resource, SampledTextures):
            resource = replace(resource, parameters=resource.parameters_of(binding.sampling))
            session.set_parameters(index, resource)
            self._bound_again.add(index)

    def replan(
        self, ports: Mapping[int, Port], resources: Mapping[int, Resource], undo: ExitStack
    ) -> Callable[[], None]:
        """Make a new session if the ports are others, else record; inside the guard.

        Takes what `resolve` returned. See `Session.record` for `undo` and the result.
        """
        current = self.require()
        if ports == current.ports:
            return current.session.record(resources, undo)
        plan = self.upgrade.plans.plan(current.lowered, ports)
        replacement = self._made(plan, current.lowered, ports, resources, undo)
        replacement.session.continue_from(current.session.state())
        self._async_runs.keep()
        return partial(self._swap, replacement)

    def read_output(self, index: int) -> Array:
        """Wait for the last run, and read one of `Prepared.outputs`."""
        current = self.require()
        if index in current.constants:
            return np.array(current.constants[index])
        array = self.empty(index)
        self._thread.run(lambda: self.require().session.read(index, array))
        return array

    def read_result(self, index: int) -> Array | None:
        """The last result of a bound output; None if it does not compute the tensor."""
        texels = self._thread.run(lambda: self.require().session.read_result(index))
        edge = self._edge(self.require().lowered, index)
        return edge.elements(texels) if texels is not None else None

    def read_variable(self, index: int, array: Array) -> None:
        """Fill `array` with a variable tensor, if the GPU has it."""
        if self.current is not None:
            session = self.current.session
            self._thread.run(lambda: session.read_variable(index, array))

    def write_variable(self, index: int, array: Array) -> None:
        """Copy `array` into a variable tensor, if the GPU has it."""
        if self.current is not None:
            session = self.current.session
            self._thread.run(lambda: session.write_variable(index, array))

    def shape_of(self, index: int) -> Shape:
        """The present shape of a tensor."""
        return self.require().lowered.shapes[index]

    def empty(self, index: int) -> Array:
        """An array for a tensor, whose content is undefined."""
        return self._empty(self.require().lowered, index)

    def release(self) -> None:
        """Delete the GL objects; on the delegate's thread, inside the guard."""
        in_any_case([self._async_runs.release, partial(self._swap, None)])

    def _run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> Prepared:
        """Run on these arrays, and return what it ran with."""
        current = self._start(inputs)
        for index in current.session.outputs:
            if index in outputs:
                current.session.read(index, outputs[index])
        for index, array in current.constants.items():
            if index in outputs:
                np.copyto(outputs[index], array)
        return current

    def _start(self, inputs: Mapping[int, Array]) -> Prepared:
        """Start a run, and return what runs: faster programs may take over just before."""
        variables = self._context.variables
        before = self.require()
        variables.require(before.names & before.lowered.uses.read_first)
        while self._bound_again:
            index = self._bound_again.pop()
            binding = self._context.bindings.get(index)
            if not isinstance(binding, TextureBinding):  # something else was bound since
                continue
            with self._thread.gpu.textures():
                resource = self.require().session.resources[index]
                changes = [watch.change() for watch in resource.watches]
            if any(changes):  # the app's texture has another size or name by now
                with ExitStack() as undo:
                    commit = self.replan(*self.resolve_with(index, binding), undo)
                    undo.pop_all()
                commit()
        faster = self.upgrade.step(self.require())
        if faster is not None:
            self._continue_with(faster)
        current = self.require()
        current.session.run(inputs)
        variables.mark(current.names)
        return current

    def _continue_with(self, faster: Prepared) -> None:
        """Run with faster programs, whose session has the state of the present one."""
        session = self.require().session
        self._thread.own(faster.session)
        self._async_runs.continue_with(faster.session, session)
        self.current = faster
        self._thread.disown(session)
        session.release()

    def _resize(self, lowered: Lowered) -> None:
        """Run with the present bindings for other shapes from now on; inside the guard."""
        ports, resources = self.resolve(self._context.bindings, lowered)
        self._require_apart(resources, self._context.bindings)
        plan = self.upgrade.plans.plan(lowered, ports)
        with ExitStack() as undo:
            make = partial(self._made, plan, lowered, ports, resources, undo)
            try:
                replacement = make()
            except OutOfGpuMemoryError:
                if self.current is None:
                    raise
                replacement = self._made_in_place_of(self.current, make)
            self._async_runs.keep()
            undo.pop_all()
        self._swap(replacement)
        self._pool.clear()

    def _made_in_place_of(self, before: Prepared, make: Callable[[], Prepared]) -> Prepared:
        """What `make` returns with the memory of the session before.

        After an error that session is made again, with its variables, but without the outputs of
        its last run.
        """
        resources = before.session.resources
        state = before.session.state()
        self._retire()
        try:
            return make()
        except BaseException:
            with ExitStack() as undo:
                again = self._made(before.plan, before.lowered, before.ports, resources, undo)
                again.session.continue_from(state)
                undo.pop_all()
            self.current = again
            raise

    def _made(
        self,
        plan: Plan,
        lowered: Lowered,
        ports: Mapping[int, Port],
        resources: Mapping[int, Resource],
        undo: ExitStack,
    ) -> Prepared:
        """A new session and what belongs to it, for `_swap`; closing `undo` frees it."""
        session = Session(plan, lowered.graph, self._context.shared, resources)
        self._thread.own(session)
        undo.callback(self._thread.disown, session)
        undo.callback(session.release)
        return Prepared.of(self._nodes, lowered, ports, session)

    def _retire(self) -> None:
        """Delete the session, but not the results of asynchronous runs; inside the guard."""
        self._async_runs.keep()
        self._swap(None)

    def _swap(self, replacement: Prepared | None) -> None:
        """Run with `replacement` from now on, and delete the session before; inside the guard.

        `AsyncRuns.keep` comes first: it may fail, and then nothing has changed.
        """
        before = self.current
        self.current = replacement
        releases: list[Callable[[], None]] = [self.upgrade.drop]
        if before is not None:
            self._thread.disown(before.session)
            releases.append(before.session.release)
        in_any_case(releases)

    def _empty(self, lowered: Lowered, index: int) -> Array:
        return self._pool.empty(lowered.shapes[index], lowered.graph.tensors[index].dtype)

    def _edge(self, lowered: Lowered, index: int) -> Edge:
        limits = self._thread.gpu.limits
        return Edge(lowered.graph.tensors[index], lowered.shapes[index], limits, self._context.half)
