"""The command list: a run of a plan as a flat list of prepared GL calls.

Recording walks the plan once. A state cache skips bindings that are already in place. Hazard
tracking inserts a barrier before each dispatch that reads what an earlier one wrote (RAW), or
writes what an earlier one read or wrote (WAR, WAW). A run only goes through the list.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from ctypes import c_int
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import TexelView
from gles_delegate.gl.context import OUTPUT_BLOCK, GpuContext
from gles_delegate.gl.functions import GlCall
from gles_delegate.gl.sync import Stopwatch
from gles_delegate.gl.texture import Sampler, TexelTexture
from gles_delegate.gl.watches import Watch
from gles_delegate.planning.memory import Allocation, Extents
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.binding import (
    REGION_BYTES,
    BoundBuffer,
    Resource,
    SampledTextures,
    WrittenTexture,
)
from gles_delegate.runtime.buffers import Storage
from gles_delegate.shaders.assembly import SIZES, ShaderSource
from gles_delegate.shaders.dispatch import Dispatch, Kind, Value, values_of

StateCache: TypeAlias = dict[object, object]  # the bindings after the calls recorded so far
_WEIGHTS = "weights"  # the key of the texture in unit 0, which is the active one
_READ_BARRIER = gl_names.SHADER_STORAGE_BARRIER | gl_names.SHADER_IMAGE_ACCESS_BARRIER
_EXIT_BARRIER = _READ_BARRIER | gl_names.BUFFER_UPDATE_BARRIER
_ENTRY_BARRIER = _EXIT_BARRIER | gl_names.TEXTURE_FETCH_BARRIER


@dataclass(eq=False)
class CommandList:
    """The prepared calls of a run, which change state that `_textures` restores."""

    _gpu: GpuContext
    _calls: Sequence[GlCall]
    _watches: Sequence[Watch]
    _textures: Callable[[], AbstractContextManager[None]]

    def run(self) -> None:
        """Make the calls; raises ValueError if something bound was released or resized."""
        with self._checked("invoke"):
            self._call()

    def _call(self) -> None:
        for function, arguments in self._calls:
            function(*arguments)

    def measure(self) -> float:
        """Run once; return the seconds of the whole run."""
        stopwatch = Stopwatch(self._gpu.gl, self._gpu.driver.timers, self._gpu.driver.is_es)
        with ExitStack() as stack:
            stack.callback(stopwatch.release)
            stack.enter_context(self._checked("profile"))
            return stopwatch.measure(self._call)

    def profile(self) -> list[float]:
        """Run once, timing each dispatch separately; return the seconds of each."""
        seconds: list[float] = []
        dispatch_compute, _ = self._gpu.gl.prepared("glDispatchCompute", 0, 0, 0)
        stopwatch = Stopwatch(self._gpu.gl, self._gpu.driver.timers, self._gpu.driver.is_es)
        with ExitStack() as stack:
            stack.callback(stopwatch.release)
            stack.enter_context(self._checked("profile"))
            for function, arguments in self._calls:
                if function is dispatch_compute:
                    seconds.append(stopwatch.measure(partial(function, *arguments)))
                else:
                    function(*arguments)
        return seconds

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Inside ``with``, dispatch no work groups, so a run takes only the CPU's time."""
        calls = self._calls
        nothing = self._gpu.gl.prepared("glDispatchCompute", 0, 0, 0)
        self._calls = [
            nothing if function is nothing[0] else (function, a) for function, a in calls
        ]
        try:
            yield
        finally:
            self._calls = calls

    @contextmanager
    def _checked(self, what: str) -> Iterator[None]:
        """Before the calls inside ``with``, check what is bound; after them, for a GL error."""
        with self._textures():
            for watch in self._watches:
                watch.require()
            yield
            self._gpu.gl.check(what)


class _Hazards:
    """The bytes that were read and written since the last barrier."""

    def __init__(self, allocations: Mapping[Value, Allocation]) -> None:
        self._allocations = allocations
        self._written = Extents()
        self._read = Extents()

    def found(self, group: Sequence[Dispatch]) -> bool:
        """Add what a dispatch, or a chain, reads and writes; whether it needs a barrier before."""
        outputs = {self._allocations[d.output] for d in group}
        values = {v for d in group for v in values_of(d.operands)}
        values |= {d.output for d in group if d.partial}
        reads = {self._allocations[value] for value in values}
        is_late = any(self._written.overlap(a) or self._read.overlap(a) for a in outputs)
        found = is_late or any(map(self._written.overlap, reads))
        if found:
            self._written = Extents()
            self._read = Extents()
        for allocation in outputs:
            self._written.add(allocation)
        for allocation in reads:
            self._read.add(allocation)
        return found


class Recorder:
    """Records a plan as GL calls, with the shader and GL program of each dispatch.

    `names` are the dispatches' debug groups; None for no groups.
    """

    def __init__(
        self,
        plan: Plan,
        gpu: GpuContext,
        sources: Sequence[ShaderSource],
        programs: Sequence[int],
        names: Sequence[str] | None = None,
    ) -> None:
        self._plan = plan
        self._gpu = gpu
        self._gl = gpu.gl
        self._call = gpu.gl.prepared
        self._prepared = list(zip(plan.groups, programs, sources, strict=True))
        self._names = names
        self._sampler: Sampler | None = None

    def record(self, storage: Storage) -> CommandList:
        calls = [*self._copy_in(storage), *self._dispatch(storage), *self._copy_out(storage)]
        return self._listed(calls, storage)

    def record_each(self, storage: Storage) -> list[CommandList]:
        """A list for each dispatch or chain, which runs it alone."""
        barrier = self._call("glMemoryBarrier", _EXIT_BARRIER)
        return [
            self._listed([*self._calls_of(i, storage, {}), barrier], storage)
            for i in range(len(self._prepared))
        ]

    def _listed(self, calls: Sequence[GlCall], storage: Storage) -> CommandList:
        targets = {resource.target for resource in storage.resources.values()}
        textures: Callable[[], AbstractContextManager[None]] = nullcontext
        if any(targets) or self._plan.has_textures:
            textures = partial(self._gpu.textures, gl_names.TEXTURE_EXTERNAL in targets)
        watches = [watch for r in storage.resources.values() for watch in r.watches]
        return CommandList(self._gpu, calls, watches, textures)

    def trials(
        self, storage: Storage, no_groups: int, texts: Container[str]
    ) -> dict[int, list[GlCall]]:
        """By program, calls that use it without running it; none for programs that sample textures.

        The programs are those of the shaders with these `texts`.
        `no_groups` names a buffer of three zeros, the numbers of work groups. OpenGL skips a
        `glDispatchCompute` of zero groups.
        """
        trials: dict[int, list[GlCall]] = {}
        for group, program, source in self._prepared:
            if source.text not in texts:
                continue
            if trials.get(program) or group[0].textures:
                trials.setdefault(program, [])
                continue
            trials[program] = [
                *self._use(program, source.sizes, {}),
                *self._bind_all(group, source, storage, {}),
                self._call("glBindBuffer", gl_names.DISPATCH_INDIRECT_BUFFER, no_groups),
                self._call("glDispatchComputeIndirect", 0),
            ]
        return trials

    def release(self) -> None:
        sampler, self._sampler = self._sampler, None
        if sampler is not None:
            sampler.release()

    def copy(self, source: int, start: int, target: int, at: int, size: int) -> Iterator[GlCall]:
        """Copy bytes between buffers, given by their GL names."""
        # The guard restores these two bindings in any case.
        read = gl_names.ARRAY_BUFFER
        write = gl_names.SHADER_STORAGE_BUFFER
        if size:
            yield self._call("glBindBuffer", read, source)
            yield self._call("glBindBuffer", write, target)
            yield self._call("glCopyBufferSubData", read, write, start, at, size)

    def _copy_in(self, storage: Storage) -> Iterator[GlCall]:
        """Wait for the app's writes to bound buffers and textures; copy from bound buffers."""
        resources = storage.resources
        inputs = {i: value for i, value in self._plan.inputs.items() if i in resources}
        if inputs:
            yield self._call("glMemoryBarrier", _ENTRY_BARRIER)
        for index, value in inputs.items():
            target = storage.view(value)
            match resources[index]:
                case BoundBuffer(name, offset, size) if not storage.is_in_place(value):
                    yield from self.copy(name, offset, target.name, target.offset, size)
                case SampledTextures(region=BoundBuffer(name, offset)):
                    row = REGION_BYTES // 2
                    for i in range(2):
                        at = target.offset + i * 16
                        yield from self.copy(name, offset + i * row, target.name, at, row)

    def _dispatch(self, storage: Storage) -> Iterator[GlCall]:
        cache: StateCache = {}
        hazards = _Hazards(self._plan.allocations)
        for number, (group, _, _) in enumerate(self._prepared):
            debug = self._gl.group(self._names[number]) if self._names else ()
            yield from debug[:1]
            if hazards.found(group):
                yield self._call("glMemoryBarrier", _READ_BARRIER)
            yield from self._calls_of(number, storage, cache)
            yield from debug[1:]

    def _calls_of(self, number: int, storage: Storage, cache: StateCache) -> Iterator[GlCall]:
        """Bind what a dispatch or a chain uses, and run it."""
        group, program, source = self._prepared[number]
        yield from self._use(program, source.sizes, cache)
        yield from self._bind_all(group, source, storage, cache)
        if group[0].textures:
            yield from self._sample(group[0], storage.resources)
            cache.pop(_WEIGHTS, None)
        groups = group[0].grid.groups if len(group) == 1 else (1, 1, 1)
        yield self._call("glDispatchCompute", *groups)

    def _copy_out(self, storage: Storage) -> Iterator[GlCall]:
        """Make the results visible, and copy them to bound buffers and textures."""
        resources = storage.resources
        outputs = {i: value for i, value in self._plan.outputs.items() if i in resources}
        yield self._call("glMemoryBarrier", gl_names.ALL_BARRIERS if outputs else _EXIT_BARRIER)
        for index, value in outputs.items():
            source = storage.view(value)
            match resources[index]:
                case WrittenTexture() as texture:
                    yield from self._write(source, texture)
                case BoundBuffer(name, offset, size) if not storage.is_in_place(value):
                    yield from self.copy(source.name, source.offset, name, offset, size)

    def _use(self, program: int, sizes: tuple[int, ...], cache: StateCache) -> Iterator[GlCall]:
        if cache.get("program") != program:
            cache["program"] = program
            yield self._call("glUseProgram", program)
        if cache.get(("sizes", program), ()) != sizes:
            cache["sizes", program] = sizes
            yield self._call("glUniform1iv", SIZES, len(sizes), (c_int * len(sizes))(*sizes))

    def _bind_all(
        self, group: tuple[Dispatch, ...], source: ShaderSource, storage: Storage, cache: StateCache
    ) -> Iterator[GlCall]:
        if len(group) > 1:
            chain = self._plan.chain(group)
            for i, (buffer, kind) in enumerate(chain.blocks):
                owner = self._plan.owners.get(buffer)
                block = storage.buffers[buffer] if owner is None else storage.view(owner)
                yield from self._bind(block, kind, i, False, cache)
            for i, const in enumerate(chain.images):
                texels = storage.constants[const]
                assert not isinstance(texels, TexelTexture)
                yield from self._bind(texels, const.kind, i, True, cache)
            return
        (dispatch,) = group
        images = source.image_reads
        for i, operand in enumerate(dispatch.operands):
            view = (
                storage.view(operand) if isinstance(operand, Value) else storage.constants[operand]
            )
            if isinstance(view, TexelTexture):
                if _WEIGHTS not in cache:
                    yield self._call("glActiveTexture", gl_names.TEXTURE0)
                    yield self._call("glBindSampler", 0, 0)
                if cache.get(_WEIGHTS) != view.name:
                    cache[_WEIGHTS] = view.name
                    yield self._call("glBindTexture", gl_names.TEXTURE_2D, view.name)
            else:
                yield from self._bind(view, operand.kind, i if images else i + 1, images, cache)
        output = storage.view(dispatch.output)
        kind = dispatch.output.kind
        if source.image_writes:
            unit = len(dispatch.operands)
            yield from self._bind(output, kind, unit, True, cache, gl_names.WRITE_ONLY)
            if dispatch.partial:
                yield from self._bind(output, kind, unit + 1, True, cache)
        else:
            yield from self._bind(output, kind, OUTPUT_BLOCK, False, cache)

    def _bind(
        self,
        target: TexelView,
        kind: Kind,
        unit: int,
        image: bool,
        cache: StateCache,
        access: int = gl_names.READ_ONLY,
    ) -> Iterator[GlCall]:
        # The texels of a buffer texture may be read in any format of their size.
        texels = gl_names.RGBA32F if kind == "float" else gl_names.RGBA32I
        block_state = target.name, target.offset, target.size
        state = (target.texture, texels, access) if image else block_state
        if cache.get((unit, image)) == state:
            return
        cache[unit, image] = state
        if image:
            yield self._call("glBindImageTexture", unit, target.texture, 0, 0, 0, access, texels)
        else:
            block = gl_names.SHADER_STORAGE_BUFFER
            yield self._call("glBindBufferRange", block, unit, *block_state)

    def _sample(self, dispatch: Dispatch, resources: Mapping[int, Resource]) -> Iterator[GlCall]:
        (parameters,) = values_of(dispatch.reads[:1])
        resource = resources[parameters.tensor]
        if not isinstance(resource, SampledTextures):
            raise TypeError(f"tensor {parameters.tensor} is sampled, but bound to {resource}")
        if self._sampler is None:
            self._sampler = Sampler(self._gl)
        for unit, name in enumerate(resource.names):
            yield self._call("glActiveTexture", gl_names.TEXTURE0 + unit)
            yield self._call("glBindTexture", resource.target, name)
            yield self._call("glBindSampler", unit, self._sampler.name)

    def _write(self, source: TexelView, texture: WrittenTexture) -> Iterator[GlCall]:
        for function, parameter, value in self._gl.unpack_state:
            yield self._call(function, parameter, value)
        yield self._call("glActiveTexture", gl_names.TEXTURE0)
        yield self._call("glBindTexture", texture.target, texture.name)
        yield self._call("glBindBuffer", gl_names.PIXEL_UNPACK_BUFFER, source.name)
        area = (texture.target, texture.level, 0, 0, texture.width, texture.height)
        yield self._call("glTexSubImage2D", *area, texture.format, texture.type, source.offset)
        yield self._call("glBindBuffer", gl_names.PIXEL_UNPACK_BUFFER, 0)
