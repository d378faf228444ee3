"""The resource variables of a model on the GPU, which the segments of all its subgraphs share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from gles_delegate.errors import DelegateError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.thread import GlThread
from gles_delegate.model.graph import Graph
from gles_delegate.planning.ports import Edge, Elements
from gles_delegate.planning.variables import Variable, find_variables
from gles_delegate.runtime.binding import BoundBuffer
from gles_delegate.support.closing import release_all


class Variables:
    """A buffer for each variable, in row-major order, made when a segment first uses it."""

    def __init__(self, graph: Graph, thread: GlThread) -> None:
        self._graph = graph
        self._thread = thread
        self._buffers: dict[str, tuple[Buffer, BoundBuffer]] = {}
        self._assigned: set[str] = set()

    @cached_property
    def _variables(self) -> Mapping[str, Variable]:
        return find_variables(self._graph)

    def buffer(self, name: str, edge: Edge) -> BoundBuffer:
        """The buffer of a variable, whose tensor is `edge`; called inside the context's guard."""
        if name not in self._buffers:
            size = Elements().outside(edge).nbytes
            initial = self._variables[name].initial
            if initial is not None:
                self._assigned.add(name)
            first = b"" if initial is None else initial.tobytes()
            gl = self._thread.gpu.gl
            buffer = Buffer(gl, first.ljust(size, b"\0"))
            self._thread.own(buffer)
            self._buffers[name] = buffer, BoundBuffer(buffer.name, 0, size, ())
            gl.label(gl_names.BUFFER_OBJECT, buffer.name, f"variable {name}")
        return self._buffers[name][1]

    def require(self, names: Iterable[str]) -> None:
        """Raise `DelegateError` if nothing was assigned to one of these, which a run reads."""
        missing = sorted({*names} - self._assigned)
        if missing:
            raise DelegateError(
                f"the variable {missing[0]!r} is read before anything is assigned to it: run the "
                "signature that assigns to it first"
            )

    def mark(self, names: Iterable[str]) -> None:
        """Record that a run has assigned to these."""
        self._assigned.update(names)

    @property
    def nbytes(self) -> int:
        return sum(buffer.size for buffer, _ in self._buffers.values())

    def release(self) -> None:
        """Delete the buffers; on the delegate's thread, inside the guard."""
        buffers = [buffer for buffer, _ in self._buffers.values()]
        self._buffers = {}
        for buffer in buffers:
            self._thread.disown(buffer)
        release_all(buffers)
