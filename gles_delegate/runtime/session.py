"""A plan on a context: compiled programs, filled buffers, and a flat list of GL calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from ctypes import c_int
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from gles_delegate.dispatch import Const, Dispatch, Operand, Value
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import Buffer, read_into
from gles_delegate.gl.context import OUTPUT_BLOCK, GpuContext
from gles_delegate.gl.objects import Program, Sampler, Stopwatch, TexelBuffer, TexelView
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.memory import Place
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.binding import BoundBuffer, Resource, SampledTextures, WrittenTexture
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.shaders import SIZES, assemble

Progress: TypeAlias = Callable[[int, int], None]
_Call: TypeAlias = tuple[Callable[..., Any], tuple[Any, ...]]

_DTYPES = {"float": np.float32, "int": np.int32, "half": np.float16}

_READ_BARRIER = gl_names.SHADER_STORAGE_BARRIER | gl_names.SHADER_IMAGE_ACCESS_BARRIER
_EXIT_BARRIER = _READ_BARRIER | gl_names.BUFFER_UPDATE_BARRIER
_ENTRY_BARRIER = _EXIT_BARRIER | gl_names.TEXTURE_FETCH_BARRIER


class Session:
    """What one plan needs on the GPU. Every method runs inside the context's guard.

    Args:
        resources: What is bound to inputs and outputs that have a port of their own.
        store: Where programs and packed constants are taken from, and new ones kept.
        progress: Called with the number of programs that are ready, and of all.

    Raises:
        ShaderError, OutOfGpuMemoryError: The plan does not fit the driver.
    """

    def __init__(
        self,
        plan: Plan,
        graph: Graph,
        gpu: GpuContext,
        resources: Mapping[int, Resource] | None = None,
        store: Store | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._plan = plan
        self._gpu = gpu
        self._programs: dict[str, Program] = {}
        self._buffers: dict[int, TexelBuffer] = {}
        self._views: dict[Place, TexelView] = {}
        self._bound: dict[Place, TexelView] = {}
        self._constants: dict[Const, TexelBuffer] = {}
        self._staging: list[dict[int, Buffer]] = []
        self._sampler: Sampler | None = None
        try:
            sources = [assemble(d, gpu.limits, gpu.header) for d in plan.dispatches]
            for source in sources:
                if source.text not in self._programs:
                    binary = store.get(fingerprint(source.text)) if store else None
                    self._programs[source.text] = Program(gpu.gl, source, binary or b"")
            if not gpu.limits.cpu:  # in the background, while the rest is prepared
                for program in self._programs.values():
                    program.start()
            self._fill(plan, graph, store)
            self._prepared = [(self._programs[s.text].name, s) for s in sources]
            self.bind(resources or {})
            self._compile(progress or (lambda done, total: None))
            if store is not None:
                self._keep_programs(store)
                store.save()
        except BaseException:
            self.release()
            raise

    def bind(self, resources: Mapping[int, Resource]) -> None:
        """Run on these buffers and textures from now on; those before had the same ports."""
        for view in self._bound.values():
            view.release()
        self._bound, self._resources = {}, resources
        self._bind_in_place()
        for place in self._plan.places.values():
            if place not in self._bound and place not in self._views:
                self._views[place] = self._own_view(place)
        for index, resource in resources.items():
            if isinstance(resource, SampledTextures) and index in self._plan.inputs:
                self._upload(self._plan.inputs[index], resource.parameters)
        self._has_textures = any(not isinstance(r, BoundBuffer) for r in resources.values())
        self._calls = [*self._before(), *self._dispatches(), *self._after()]

    @property
    def inputs(self) -> tuple[int, ...]:
        """The tensors that the CPU fills before a run."""
        return tuple(index for index in self._plan.inputs if index not in self._resources)

    @property
    def outputs(self) -> tuple[int, ...]:
        """The tensors that the CPU reads after it."""
        return tuple(index for index in self._plan.outputs if index not in self._resources)

    @property
    def variables(self) -> tuple[int, ...]:
        """The tensors that last from one run to the next."""
        return tuple(self._plan.variables)

    def run(self, inputs: Mapping[int, Array]) -> None:
        """Upload `inputs`, by tensor index, and run; what is bound is neither up- nor downloaded.

        Arrays are contiguous, of the types and sizes of the plan's tensors.

        Raises:
            GLError: The driver refused a call; the outputs are not valid then.
        """
        for index in self.inputs:
            self._upload(self._plan.inputs[index], inputs[index])
        with self._gpu.textures() if self._has_textures else nullcontext():
            for function, arguments in self._calls:
                function(*arguments)
        self._gpu.gl.check("invoke")

    def profile(self) -> list[tuple[Dispatch, float]]:
        """Run once more on what is there; each dispatch and the seconds it took.

        Each is measured by itself, so together they take longer than in a run.
        """
        dispatch_compute = self._gpu.gl.unchecked("glDispatchCompute")
        seconds: list[float] = []
        watch = Stopwatch(self._gpu.gl, self._gpu.timers)
        with self._gpu.textures() if self._has_textures else nullcontext():
            for function, arguments in self._calls:
                if function is dispatch_compute:
                    seconds.append(watch.measure(partial(function, *arguments)))
                else:
                    function(*arguments)
        watch.release()
        self._gpu.gl.check("profile")
        return list(zip(self._plan.dispatches, seconds, strict=True))

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Inside ``with``, runs ask the GPU for no work: what they take is the CPU's part."""
        dispatch_compute = self._gpu.gl.unchecked("glDispatchCompute")
        calls = self._calls
        self._calls = [
            (function, (0, 0, 0) if function is dispatch_compute else arguments)
            for function, arguments in calls
        ]
        try:
            yield
        finally:
            self._calls = calls

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes of its own buffers for activations, and for constants."""
        activations = sum(buffer.size for buffer in self._buffers.values())
        return activations, sum(constant.nbytes for constant in self._constants)

    def read(self, index: int, array: Array) -> None:
        """Wait for the last run, and read one of `outputs` into `array`."""
        self._download(self._plan.outputs[index], array)

    def stage(self, turn: int) -> None:
        """Have the GPU copy `outputs` aside, to buffers for each `turn`, for `read_staged`."""
        while len(self._staging) <= turn:
            sizes = {index: self._plan.outputs[index].nbytes for index in self.outputs}
            self._staging.append(
                {i: Buffer(self._gpu.gl, size) for i, size in sizes.items() if size}
            )
        for index, buffer in self._staging[turn].items():
            source = self._target(self._plan.outputs[index])
            copy = self._copy(source.name, source.offset, buffer.name, 0, buffer.size)
            for function, arguments in copy:
                function(*arguments)

    def read_staged(self, turn: int, index: int, array: Array) -> None:
        """Wait for the copy of a turn, and read one output of it into `array`."""
        if array.nbytes:
            self._staging[turn][index].read_into(array, array.nbytes)

    def read_result(self, index: int) -> Array | None:
        """Wait for the last run, and read a bound output; None if the plan does not have it.

        Returns:
            The numbers [slices, pixels, 4] that are computed with, of an 8-bit tensor those it
            stands for.
        """
        value = self._plan.results.get(index)
        if value is None:
            return None
        target = self._target(value)
        array = np.empty((value.slices, value.pixels, 4), _DTYPES[value.kind])
        read_into(self._gpu.gl, target.name, array, array.nbytes, target.offset)
        return array

    def read_variable(self, index: int, array: Array) -> None:
        """Read a variable tensor into `array`; nothing happens if the plan does not use it."""
        value = self._plan.variables.get(index)
        if value is not None:
            self._download(value, array)

    def write_variable(self, index: int, array: Array) -> None:
        """Give a variable tensor these values; nothing happens if the plan does not use it."""
        value = self._plan.variables.get(index)
        if value is not None:
            self._upload(value, array)

    def save_variables(self) -> dict[int, Array]:
        """The variables, for `restore_variables` of a session that takes over."""
        saved: dict[int, Array] = {}
        for index, value in self._plan.variables.items():
            saved[index] = np.empty(value.nbytes, np.uint8)
            self._download(value, saved[index])
        return saved

    def restore_variables(self, saved: Mapping[int, Array]) -> None:
        """Go on with what another session of the same shapes saved."""
        for index, array in saved.items():
            self._upload(self._plan.variables[index], array)

    def release(self) -> None:
        """Delete every GL object, and none of the app's."""
        for views in (self._bound, self._views, self._buffers, self._constants):
            for view in views.values():
                view.release()
        for program in self._programs.values():
            program.release()
        for copies in self._staging:
            for copy in copies.values():
                copy.release()
        if self._sampler is not None:
            self._sampler.release()
        self._bound, self._views, self._buffers, self._constants = {}, {}, {}, {}
        self._sampler, self._programs, self._staging, self._calls = None, {}, [], []

    def _keep_programs(self, store: Store) -> None:
        for text, program in self._programs.items():
            binary = b"" if program.is_from_binary else program.binary()
            if binary:
                store.add(fingerprint(text), binary)

    def _compile(self, progress: Progress) -> None:
        """Wait for the compilation of every program.

        llvmpipe compiles machine code at the first dispatch of a program, so each runs one work
        group there, on whatever the inputs hold, and writes nowhere.
        """
        gl, total = self._gpu.gl, len(self._programs)
        if not self._gpu.limits.cpu:
            for done, program in enumerate(self._programs.values()):
                progress(done, total)
                program.finish()
            progress(total, total)
            return
        uses: dict[int, list[_Call]] = {}
        for dispatch, (name, source) in zip(self._plan.dispatches, self._prepared, strict=True):
            if uses.get(name) or dispatch.textures:
                uses.setdefault(name, [])
                continue
            calls: list[_Call] = [
                *self._use(name, source.sizes, {}),
                (
                    gl.unchecked("glBindBufferBase"),
                    (gl_names.SHADER_STORAGE_BUFFER, OUTPUT_BLOCK, 0),
                ),
            ]
            for i, operand in enumerate(dispatch.operands if source.image_reads else ()):
                calls += self._bind(i, operand, True, {})
            uses[name] = [*calls, (gl.unchecked("glDispatchCompute"), (1, 1, 1))]

        def use(program: Program) -> None:
            program.finish()
            for function, arguments in uses[program.name]:
                function(*arguments)

        jobs = [partial(use, program) for program in self._programs.values()]
        self._gpu.compile(jobs, lambda done: progress(done, total))
        gl.check("compile")

    def _fill(self, plan: Plan, graph: Graph, store: Store | None) -> None:
        for const in plan.constants:
            data = store.get(_key(const)) if store else None
            if data is None:
                data = _packed(const, graph)
                if store:
                    store.add(_key(const), data)
            self._constants[const] = TexelBuffer(self._gpu.gl, data, self._image)

    def _bind_in_place(self) -> None:
        """Have bound buffers take the place of the plan's where their texels are the same."""
        plan, gpu = self._plan, self._gpu
        boundary = (*plan.inputs.items(), *plan.outputs.items(), *plan.variables.items())
        uses = Counter(value for _, value in boundary)
        bound_inputs = [self._resources.get(index) for index in plan.inputs]
        for index, value in boundary:
            resource = self._resources.get(index)
            if (
                isinstance(resource, BoundBuffer)
                and uses[value] == 1
                and resource.size == value.nbytes > 0
                and resource.offset % gpu.offset_alignment == 0
                # What is read all through the run must not be written before its end.
                and (index in plan.inputs or not any(map(resource.overlaps, bound_inputs)))
            ):
                self._bound[plan.places[value]] = TexelView(
                    gpu.gl, resource.buffer, resource.offset, resource.size, self._image
                )

    def _own_view(self, place: Place) -> TexelView:
        """A range of a buffer of the session's, which is made at the first of them."""
        gl = self._gpu.gl
        if place.buffer not in self._buffers:
            # Zero: the last texel of a row-major input may have lanes past its elements.
            data = bytes(self._plan.buffers[place.buffer])
            self._buffers[place.buffer] = TexelBuffer(gl, data, False)
        buffer = self._buffers[place.buffer]
        return TexelView(gl, buffer.name, place.offset, place.size, self._image)

    def _upload(self, value: Value, array: Array) -> None:
        place = self._plan.places[value]
        if value.texels:
            self._buffers[place.buffer].buffer.write(array, offset=place.offset)

    def _download(self, value: Value, array: Array) -> None:
        place = self._plan.places[value]
        if value.texels:
            buffer = self._buffers[place.buffer].buffer
            buffer.read_into(array, array.nbytes, offset=place.offset)

    def _before(self) -> Iterator[_Call]:
        """What must have happened to the app's buffers and textures, and copies of buffers."""
        gl = self._gpu.gl
        bound = [i for i in self._plan.inputs if i in self._resources]
        if bound:
            yield gl.unchecked("glMemoryBarrier"), (_ENTRY_BARRIER,)
        for index in bound:
            resource, value = self._resources[index], self._plan.inputs[index]
            if isinstance(resource, BoundBuffer) and self._plan.places[value] not in self._bound:
                source, target = (resource.buffer, resource.offset), self._target(value)
                yield from self._copy(*source, target.name, target.offset, resource.size)

    def _after(self) -> Iterator[_Call]:
        """Make the results visible, and copy them into the app's buffers and textures."""
        gl = self._gpu.gl
        bound = [i for i in self._plan.outputs if i in self._resources]
        barriers = gl_names.ALL_BARRIERS if bound else _EXIT_BARRIER
        yield gl.unchecked("glMemoryBarrier"), (barriers,)
        for index in bound:
            resource, value = self._resources[index], self._plan.outputs[index]
            source = self._target(value)
            if isinstance(resource, WrittenTexture):
                yield from self._write(source, resource)
            elif isinstance(resource, BoundBuffer) and self._plan.places[value] not in self._bound:
                target = (resource.buffer, resource.offset, resource.size)
                yield from self._copy(source.name, source.offset, *target)

    def _copy(self, source: int, start: int, target: int, at: int, size: int) -> Iterator[_Call]:
        # The guard puts these two bindings back in any case.
        read, write = gl_names.ARRAY_BUFFER, gl_names.SHADER_STORAGE_BUFFER
        gl = self._gpu.gl
        if size:
            yield gl.unchecked("glBindBuffer"), (read, source)
            yield gl.unchecked("glBindBuffer"), (write, target)
            yield gl.unchecked("glCopyBufferSubData"), (read, write, start, at, size)

    def _write(self, source: TexelView, texture: WrittenTexture) -> Iterator[_Call]:
        gl, target = self._gpu.gl, gl_names.TEXTURE_2D
        for name, value in gl_names.UNPACK_STATE.items():
            yield gl.unchecked("glPixelStorei"), (name, value)
        yield gl.unchecked("glActiveTexture"), (gl_names.TEXTURE0,)
        yield gl.unchecked("glBindTexture"), (target, texture.name)
        yield gl.unchecked("glBindBuffer"), (gl_names.PIXEL_UNPACK_BUFFER, source.name)
        area = (target, 0, 0, 0, texture.width, texture.height)
        arguments = (*area, texture.format, texture.type, source.offset)
        yield gl.unchecked("glTexSubImage2D"), arguments
        yield gl.unchecked("glBindBuffer"), (gl_names.PIXEL_UNPACK_BUFFER, 0)

    def _sample(self, dispatch: Dispatch) -> Iterator[_Call]:
        (parameters,) = (v for v in dispatch.reads[:1] if isinstance(v, Value))
        resource = self._resources[parameters.tensor]
        if not isinstance(resource, SampledTextures):
            raise TypeError(f"tensor {parameters.tensor} is sampled, but bound to {resource}")
        if self._sampler is None:
            self._sampler = Sampler(self._gpu.gl)
        gl = self._gpu.gl
        for unit, name in enumerate(resource.names):
            yield gl.unchecked("glActiveTexture"), (gl_names.TEXTURE0 + unit,)
            yield gl.unchecked("glBindTexture"), (gl_names.TEXTURE_2D, name)
            yield gl.unchecked("glBindSampler"), (unit, self._sampler.name)

    def _dispatches(self) -> Iterator[_Call]:
        plan, gl = self._plan, self._gpu.gl
        dispatch_compute = gl.unchecked("glDispatchCompute")
        barrier = gl.unchecked("glMemoryBarrier")
        bound: dict[object, object] = {}
        written: set[Place] = set()
        read: set[Place] = set()
        for dispatch, (program, source) in zip(plan.dispatches, self._prepared, strict=True):
            yield from self._use(program, source.sizes, bound)
            images = source.image_reads
            for i, operand in enumerate(dispatch.operands):
                yield from self._bind(i if images else i + 1, operand, images, bound)
            yield from self._bind(OUTPUT_BLOCK, dispatch.output, False, bound)
            if dispatch.textures:
                yield from self._sample(dispatch)
            reads = {plan.places[v] for v in dispatch.operands if isinstance(v, Value)}
            output = plan.places[dispatch.output]
            if dispatch.partial:
                reads.add(output)
            if _overlap(reads, written) or _overlap({output}, written | read):
                yield barrier, (_READ_BARRIER,)
                written, read = set(), set()
            written.add(output)
            read |= reads
            yield dispatch_compute, dispatch.grid.groups

    def _use(
        self, program: int, sizes: tuple[int, ...], bound: dict[object, object]
    ) -> Iterator[_Call]:
        gl = self._gpu.gl
        if bound.get("program") != program:
            bound["program"] = program
            yield gl.unchecked("glUseProgram"), (program,)
        if bound.get(("sizes", program), ()) != sizes:
            bound["sizes", program] = sizes
            values = (c_int * len(sizes))(*sizes)
            yield gl.unchecked("glUniform1iv"), (SIZES, len(sizes), values)

    def _bind(
        self, unit: int, operand: Operand, image: bool, bound: dict[object, object]
    ) -> Iterator[_Call]:
        gl = self._gpu.gl
        target = self._target(operand)
        # The texels of a buffer texture may be read in any format of their size.
        texels = gl_names.RGBA32F if operand.kind == "float" else gl_names.RGBA32I
        state = (target.texture, texels) if image else (target.name, target.offset, target.size)
        if bound.get((unit, image)) == state:
            return
        bound[unit, image] = state
        if image:
            arguments = (unit, target.texture, 0, 0, 0, gl_names.READ_ONLY, texels)
            yield gl.unchecked("glBindImageTexture"), arguments
        else:
            arguments = (gl_names.SHADER_STORAGE_BUFFER, unit, *state)
            yield gl.unchecked("glBindBufferRange"), arguments

    @property
    def _image(self) -> bool:
        return self._gpu.limits.buffer_texels > 0

    def _target(self, operand: Operand) -> TexelView:
        if isinstance(operand, Const):
            return self._constants[operand]
        place = self._plan.places[operand]
        return self._bound.get(place) or self._views[place]


def _overlap(places: Iterable[Place], others: Iterable[Place]) -> bool:
    return any(place.overlaps(other) for place in places for other in others)


def _packed(const: Const, graph: Graph) -> bytes:
    arrays = [graph.tensors[t].values() if t >= 0 else None for t in const.tensors]
    packed = np.ascontiguousarray(const.pack(*arrays, *const.args), _DTYPES[const.kind])
    return packed.tobytes() or bytes(16)


def _key(const: Const) -> str:
    """By which a store knows a packed constant of a model."""
    function = (const.pack.__module__, const.pack.__qualname__)
    return fingerprint(*function, const.tensors, const.shape, const.args, const.kind)
