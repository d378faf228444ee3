"""A plan on a context: compiled programs, filled buffers, and the command list of a run."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.plan import Plan
from gles_delegate.report import MemoryReport
from gles_delegate.runtime.binding import Resource, SampledTextures
from gles_delegate.runtime.buffers import Buffers
from gles_delegate.runtime.commands import Recorder
from gles_delegate.runtime.naming import name_dispatch, name_program, name_tensor
from gles_delegate.runtime.sanitizer import Sanitizer, StrayAccess
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.assembly import DESKTOP_HEADER, ES_HEADER, ShaderSource
from gles_delegate.shaders.dispatch import Dispatch
from gles_delegate.support.closing import in_any_case, on_error, release_all

_SYNC_SLOT = 2
"""The slot of copies that are read at once; asynchronous runs have slots 0 and 1."""


@dataclass(frozen=True)
class SessionState:
    """What a session's next run depends on, besides its inputs.

    Attributes:
        variables: The bytes of each of `Session.variables`, by tensor index.
    """

    variables: Mapping[int, Array]
    runs: int
    random_words: Array


class Session:
    """The GL objects of one plan. Every method runs inside the context's guard.

    Args:
        resources: Bound buffers and textures of inputs and outputs with their own port.
        sources: The shaders of the plan, if they are assembled already.
        loads: Whether to `load` all programs.

    Attributes:
        resources: The present bound buffers and textures, by tensor index.
        states: The `inputs` that a run assigns to.
        runs: The number of runs.
        random_words: Two words for `SessionInput.content`.
    """

    def __init__(
        self,
        plan: Plan,
        graph: Graph,
        shared: Shared,
        resources: Mapping[int, Resource] | None = None,
        sources: Sequence[ShaderSource] = (),
        loads: bool = True,
    ) -> None:
        self.runs = 0
        self.random_words = np.frombuffer(os.urandom(8), np.uint32)
        gpu = shared.gpu
        self._shared = shared
        self.plan = plan
        self._own_inputs = plan.session_inputs
        self._gpu = gpu
        self._graph = graph
        self._copies: dict[tuple[int, int], Buffer] = {}  # by slot and tensor index
        sources = self.sources = sources or sources_of(plan, gpu)
        self._new_parameters: dict[int, Array] = {}
        programs = shared.programs.take(sources, shared.store)
        names = [name_dispatch(_joined(group), graph) for group in plan.groups]
        with on_error(partial(shared.programs.give_back, sources)):
            self._buffers = Buffers(plan, graph, shared)
        groups = names if gpu.driver.debug_groups else None
        self._recorder = Recorder(plan, gpu, sources, programs, groups)
        with on_error(self.release):
            self.use(resources or {})
            self.states = tuple(index for index in self.inputs if index in plan.outputs)
            for program in set(programs):
                users = [i for i, other in enumerate(programs) if other == program]
                text = name_program([names[i] for i in users], sources[users[0]].name)
                gpu.gl.label(gl_names.PROGRAM_OBJECT, program, text)
            if loads:
                self.load(sources)
                if shared.store is not None:
                    shared.store.save()

    def load(self, sources: Sequence[ShaderSource]) -> None:
        """Wait until the programs of some of its `sources` are compiled; raises ShaderError."""
        gl = self._gpu.gl
        shared = self._shared
        texts = {source.text for source in sources}
        before = gl.integer(gl_names.DISPATCH_INDIRECT_BUFFER_BINDING)
        no_groups = Buffer(gl, bytes(12))
        textures = self._gpu.textures() if self.plan.has_textures else nullcontext()
        try:
            trials = self._recorder.trials(self._buffers.storage, no_groups.name, texts)
            with textures:
                shared.programs.compile(sources, trials, shared.store, shared.progress)
        finally:
            before = gl.existing("Buffer", before)
            gl.unchecked("glBindBuffer")(gl_names.DISPATCH_INDIRECT_BUFFER, before)
            no_groups.release()

    def use(self, resources: Mapping[int, Resource]) -> None:
        """Switch to other bound buffers and textures, whose ports must be the same."""
        with ExitStack() as undo:
            self.record(resources, undo)()
            undo.pop_all()

    def record(self, resources: Mapping[int, Resource], undo: ExitStack) -> Callable[[], None]:
        """Record the commands of a run with other buffers and textures; see `use`.

        Returns a function that switches to them from the next run on, and allocates no GPU memory.
        Closing `undo` frees the new objects. After an OutOfGpuMemoryError nothing has changed.
        """
        storage = self._buffers.bind(resources, undo)
        commands = self._recorder.record(storage)

        def commit() -> None:
            self.resources = resources
            self._commands = commands
            self._new_parameters = {
                index: resource.parameters
                for index, resource in resources.items()
                if isinstance(resource, SampledTextures) and index in self.plan.inputs
            }
            self._upload_parameters()
            self._buffers.use(storage)

        return commit

    def set_parameters(self, index: int, resource: SampledTextures) -> None:
        """Sample a bound texture with other parameters, from the next run on."""
        self.resources = {**self.resources, index: resource}
        if index in self.plan.inputs:
            self._new_parameters[index] = resource.parameters

    def _upload_parameters(self) -> None:
        while self._new_parameters:
            index, parameters = self._new_parameters.popitem()
            self._buffers.upload(self.plan.inputs[index], parameters)

    @property
    def inputs(self) -> tuple[int, ...]:
        """The tensors that the CPU fills before a run."""
        return tuple(index for index in self.plan.inputs if index not in self.resources)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that the CPU reads after it."""
        return tuple(index for index in self.plan.outputs if index not in self.resources)

    @property
    def bound_outputs(self) -> tuple[int, ...]:
        """The tensors that a run leaves in bound buffers and textures."""
        return tuple(index for index in self.plan.outputs if index in self.resources)

    @property
    def variables(self) -> tuple[int, ...]:
        """The tensors that last from one run to the next, in its own buffers."""
        return tuple(index for index in self.plan.variables if index not in self.resources)

    def memory(self) -> MemoryReport:
        """Its memory without constants and programs, and a description of what is bound."""
        copies = sum(buffer.size for buffer in self._copies.values())
        return replace(self._buffers.memory, readback=copies)

    def run(self, inputs: Mapping[int, Array]) -> None:
        """Upload `inputs`, by tensor index, and run. Bound tensors are not copied.

        Arrays must be contiguous, of the types and sizes of the plan's tensors. Nothing runs, and
        ValueError is raised, if something bound was released or resized, or an int64 input has a
        number outside int32. After a GLError or ContextLostError the outputs are invalid.
        """
        self._upload_parameters()
        for index in self.inputs:
            _require_32_bits(index, inputs[index])
            self._buffers.upload(self.plan.inputs[index], inputs[index])
        for value in self._own_inputs:
            self._buffers.upload(value, value.content(self.runs, self.random_words))
        self.runs += 1
        self._commands.run()
        self._gpu.gl.check_reset("invoke")

    def sanitize(self) -> list[StrayAccess]:
        """Run once more on the present inputs, each dispatch separately; see `Sanitizer`.

        Returns what dispatches do to bytes that are not theirs. Results stay as they are.
        """
        storage = self._buffers.storage
        sanitizer = Sanitizer(self.plan, self._gpu, self._recorder, storage)
        try:
            return [*sanitizer.run(self._buffers.contents())]
        finally:
            sanitizer.release()

    def measure(self) -> float:
        """Run once more on the present inputs; return the seconds of the whole run."""
        self._upload_parameters()
        return self._commands.measure()

    def profile(self) -> list[tuple[Dispatch, float]]:
        """Run each dispatch once more on the present inputs; return it and its own seconds."""
        self._upload_parameters()
        seconds = self._commands.profile()
        return list(zip(map(_joined, self.plan.groups), seconds, strict=True))

    def idle(self) -> AbstractContextManager[None]:
        return self._commands.idle()

    def read(self, index: int, array: Array) -> None:
        """Wait for the last run, and read one of `outputs` into `array`."""
        if self._gpu.driver.reads_copies:
            self._copy_output(_SYNC_SLOT, index)
            self._gpu.gl.check("glCopyBufferSubData")
            self.read_staged(_SYNC_SLOT, index, array)
        else:
            self._buffers.download(self.plan.outputs[index], array)

    def read_result(self, index: int) -> Array | None:
        """Wait for the last run, and read a bound output; None if the plan does not have it.

        Returns its lanes [slices, pixels, 4]; real numbers for a quantized tensor.
        """
        value = self.plan.results.get(index)
        return None if value is None else self._buffers.texels(value)

    def stage(self, slot: int) -> None:
        """Have the GPU copy `outputs` to the buffers of a slot, 0 or 1, for `read_staged`."""
        for index in self.outputs:
            self._copy_output(slot, index)
        self._gpu.gl.check("invoke_async")

    def _copy_output(self, slot: int, index: int) -> None:
        """Copy an output on the GPU; the buffers of slots 0 and 1 are created together."""
        value = self.plan.outputs[index]
        gl = self._gpu.gl
        if not value.nbytes:
            return
        for created in (slot,) if slot == _SYNC_SLOT else (0, 1):
            if (created, index) not in self._copies:
                copy = self._copies[created, index] = Buffer(gl, value.nbytes)
                text = f"copy {created} of {name_tensor(index, self._graph)}"
                gl.label(gl_names.BUFFER_OBJECT, copy.name, text)
        source = self._buffers.storage.view(value)
        target = self._copies[slot, index]
        end = (target.name, 0, target.size)
        for function, arguments in self._recorder.copy(source.name, source.offset, *end):
            function(*arguments)

    def read_staged(self, slot: int, index: int, array: Array) -> None:
        """Wait for the copies of a slot, and read one of them into `array`."""
        if array.nbytes:
            self._copies[slot, index].read_into(array, array.nbytes)

    def read_variable(self, index: int, array: Array) -> None:
        """Read a variable tensor into `array`; nothing happens if the plan does not use it."""
        value = self.plan.variables.get(index)
        if value is not None:
            self._buffers.download(value, array)

    def write_variable(self, index: int, array: Array) -> None:
        """Give a variable tensor these values; nothing happens if the plan does not use it."""
        value = self.plan.variables.get(index)
        if value is not None:
            self._buffers.upload(value, array)

    def state(self) -> SessionState:
        """Wait for the last run, and read what the next one depends on."""
        variables: dict[int, Array] = {}
        for index in self.variables:
            value = self.plan.variables[index]
            variables[index] = np.empty(value.nbytes, np.uint8)
            self._buffers.download(value, variables[index])
        return SessionState(variables, self.runs, self.random_words)

    def continue_from(self, state: SessionState) -> None:
        """Take over the state of another session of the same shapes."""
        for index, content in state.variables.items():
            self._buffers.upload(self.plan.variables[index], content)
        self.runs = state.runs
        self.random_words = state.random_words

    def take_staged(self, other: Session) -> None:
        """Take over the copies of `stage`, for `read_staged`."""
        self._copies, other._copies = other._copies, {}

    def release(self) -> None:
        sources = self.sources
        copies = self._copies
        self.sources = ()
        self._copies = {}
        give_back = partial(self._shared.programs.give_back, sources)
        release_copies = partial(release_all, copies.values())
        in_any_case((self._buffers.release, give_back, self._recorder.release, release_copies))


def sources_of(plan: Plan, gpu: GpuContext) -> Sequence[ShaderSource]:
    """The shaders of a plan, in the version of GLSL that the context has."""
    return plan.sources(gpu.limits, ES_HEADER if gpu.driver.is_es else DESKTOP_HEADER)


def _joined(group: tuple[Dispatch, ...]) -> Dispatch:
    """For reports, a chain as one dispatch, which computes the last output."""
    *others, last = group
    if not others:
        return last
    flops = sum(dispatch.flops for dispatch in group)
    return replace(last.joined(*others), shader="chain", reads=(), epilogue=(), flops=flops)


def _require_32_bits(index: int, array: Array) -> None:
    """Raise ValueError if an array of int64 has a number outside int32."""
    if array.dtype == np.int64 and array.size:
        low = int(array.min())
        high = int(array.max())
        if low < -(2**31) or high >= 2**31:
            raise ValueError(
                f"expected int64 numbers of -2**31 to 2**31 - 1 in tensor {index}, which the GPU "
                f"computes as int32, found {low if low < -(2**31) else high}"
            )
