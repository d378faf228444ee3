"""A plan on a context: compiled programs, filled buffers, and a flat list of GL calls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from gles_delegate.dispatch import Const, Operand, Value
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import OUTPUT_BLOCK, GpuContext
from gles_delegate.gl.objects import Program, TexelBuffer
from gles_delegate.graph import Array, Graph
from gles_delegate.plan import Plan
from gles_delegate.shaders import Source, assemble
from gles_delegate.store import Store, fingerprint

Progress: TypeAlias = Callable[[int, int], None]
_Call: TypeAlias = tuple[Callable[..., Any], tuple[int, ...]]

_DTYPES = {"float": np.float32, "int": np.int32, "half": np.float16}

_READ_BARRIER = gl_names.SHADER_STORAGE_BARRIER | gl_names.SHADER_IMAGE_ACCESS_BARRIER


class Session:
    """What one plan needs on the GPU. Every method runs inside the context's guard.

    Args:
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
        store: Store | None = None,
        progress: Progress | None = None,
    ) -> None:
        self._plan = plan
        self._gpu = gpu
        self._programs: dict[str, Program] = {}
        self._slots: list[TexelBuffer] = []
        self._constants: dict[Const, TexelBuffer] = {}
        try:
            sources = [assemble(d, gpu.limits, gpu.header) for d in plan.dispatches]
            self._start(sources, store)
            self._fill(plan, graph, store)
            self._finish(store, progress or (lambda done, total: None))
            self._calls = list(self._prepare(plan, sources))
            if store is not None:
                store.save()
        except BaseException:
            self.release()
            raise

    def run(self, inputs: Mapping[int, Array], outputs: Mapping[int, Array]) -> None:
        """Upload `inputs`, run, and read the results into `outputs`, all by tensor index.

        Arrays are contiguous, of the types and sizes of the plan's tensors.

        Raises:
            GLError: The driver refused a call; the outputs are not valid then.
        """
        for index, value in self._plan.inputs.items():
            if value.texels:
                self._buffer_of(value).buffer.write(inputs[index])
        for function, arguments in self._calls:
            function(*arguments)
        self._gpu.gl.check("invoke")
        for index, value in self._plan.outputs.items():
            if value.texels:
                array = outputs[index]
                self._buffer_of(value).buffer.read_into(array, array.nbytes)

    def read_variable(self, index: int, array: Array) -> None:
        """Read a variable tensor into `array`; nothing happens if the plan does not use it."""
        value = self._plan.variables.get(index)
        if value is not None and value.texels:
            self._buffer_of(value).buffer.read_into(array, array.nbytes)

    def write_variable(self, index: int, array: Array) -> None:
        """Give a variable tensor these values; nothing happens if the plan does not use it."""
        value = self._plan.variables.get(index)
        if value is not None and value.texels:
            self._buffer_of(value).buffer.write(array)

    def release(self) -> None:
        """Delete every GL object."""
        for buffer in (*self._slots, *self._constants.values()):
            buffer.release()
        for program in self._programs.values():
            program.release()
        self._programs, self._slots, self._constants, self._calls = {}, [], {}, []

    def _start(self, sources: Sequence[Source], store: Store | None) -> None:
        """Begin with all programs, before `_finish` waits for the first."""
        for source in sources:
            if source.text not in self._programs:
                binary = store.get(fingerprint(source.text)) if store else None
                self._programs[source.text] = Program(self._gpu.gl, source, binary or b"")

    def _finish(self, store: Store | None, progress: Progress) -> None:
        for done, (text, program) in enumerate(self._programs.items()):
            progress(done, len(self._programs))
            program.finish()
            binary = program.binary() if store and not program.is_from_binary else b""
            if store and binary:
                store.add(fingerprint(text), binary)
        progress(len(self._programs), len(self._programs))

    def _fill(self, plan: Plan, graph: Graph, store: Store | None) -> None:
        image = self._gpu.limits.buffer_texels > 0
        for size in plan.slots:
            # Zero: the last texel of a row-major input may have lanes past its elements.
            self._slots.append(TexelBuffer(self._gpu.ctx, self._gpu.gl, bytes(size), image))
        for const in plan.constants:
            key = fingerprint(
                const.pack.__module__,
                const.pack.__qualname__,
                const.tensors,
                const.shape,
                const.args,
                const.kind,
            )
            data = store.get(key) if store else None
            if data is None:
                data = _packed(const, graph)
                if store:
                    store.add(key, data)
            self._constants[const] = TexelBuffer(self._gpu.ctx, self._gpu.gl, data, image)

    def _prepare(self, plan: Plan, sources: Sequence[Source]) -> Iterator[_Call]:
        gl = self._gpu.gl
        use, dispatch_compute = gl.unchecked("glUseProgram"), gl.unchecked("glDispatchCompute")
        barrier = gl.unchecked("glMemoryBarrier")
        bound: dict[object, object] = {}
        written: set[int] = set()
        read: set[int] = set()
        for dispatch, source in zip(plan.dispatches, sources, strict=True):
            program, images = self._programs[source.text].name, source.image_reads
            if bound.get("program") != program:
                bound["program"] = program
                yield use, (program,)
            for i, operand in enumerate(dispatch.operands):
                yield from self._bind(i if images else i + 1, operand, images, bound)
            yield from self._bind(OUTPUT_BLOCK, dispatch.output, False, bound)
            reads = {plan.slot_of[v] for v in dispatch.operands if isinstance(v, Value)}
            output = plan.slot_of[dispatch.output]
            if dispatch.partial:
                reads.add(output)
            if reads & written or output in written | read:
                yield barrier, (_READ_BARRIER,)
                written, read = set(), set()
            written.add(output)
            read |= reads
            yield dispatch_compute, dispatch.grid.groups
        yield barrier, (gl_names.BUFFER_UPDATE_BARRIER | _READ_BARRIER,)

    def _bind(
        self, unit: int, operand: Operand, image: bool, bound: dict[object, object]
    ) -> Iterator[_Call]:
        gl = self._gpu.gl
        target = self._buffer_of(operand)
        name = target.texture if image else target.buffer.glo
        # The texels of a buffer texture may be read in any format of their size.
        texels = gl_names.RGBA32F if operand.kind == "float" else gl_names.RGBA32I
        state = (name, texels) if image else (name,)
        if bound.get((unit, image)) == state:
            return
        bound[unit, image] = state
        if image:
            arguments = (unit, name, 0, 0, 0, gl_names.READ_ONLY, texels)
            yield gl.unchecked("glBindImageTexture"), arguments
        else:
            yield gl.unchecked("glBindBufferBase"), (gl_names.SHADER_STORAGE_BUFFER, unit, name)

    def _buffer_of(self, operand: Operand) -> TexelBuffer:
        if isinstance(operand, Const):
            return self._constants[operand]
        return self._slots[self._plan.slot_of[operand]]


def _packed(const: Const, graph: Graph) -> bytes:
    arrays = [graph.tensors[t].values() if t >= 0 else None for t in const.tensors]
    packed = np.ascontiguousarray(const.pack(*arrays, *const.args), _DTYPES[const.kind])
    return packed.tobytes() or bytes(16)
