"""The GPU memory of a plan: its arena, constants, and bound buffers used in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import MappedBuffer, TexelBuffer, TexelView, read_into
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.memory import Allocation
from gles_delegate.planning.plan import Plan
from gles_delegate.report import MemoryReport
from gles_delegate.runtime.binding import BoundBuffer, Resource
from gles_delegate.runtime.constants import DTYPES, Packed
from gles_delegate.runtime.naming import name_buffer
from gles_delegate.runtime.shared import Shared
from gles_delegate.shaders.dispatch import Const, Value
from gles_delegate.support.closing import in_any_case, on_error, release_all

_MANY_BYTES = 1 << 14
"""From here on, a fence and a copy take less than what a mapped buffer saves."""


@dataclass(frozen=True)
class Storage:
    """The GL objects that hold the operands of a plan while some buffers and textures are bound.

    Attributes:
        resources: Bound buffers and textures, by tensor index.
        bound: Views of bound buffers that are used in place.
        own: Views of the plan's own buffers.
        buffers: The plan's own buffers, whole.
    """

    allocations: Mapping[Value, Allocation]
    constants: Mapping[Const, Packed]
    resources: Mapping[int, Resource]
    bound: Mapping[Allocation, TexelView]
    own: Mapping[Allocation, TexelView]
    buffers: Mapping[int, TexelView]

    def view(self, value: Value) -> TexelView:
        allocation = self.allocations[value]
        return self.bound.get(allocation) or self.own[allocation]

    def is_in_place(self, value: Value) -> bool:
        """Whether a bound buffer holds the value itself, without a copy."""
        return self.allocations[value] in self.bound


class Buffers:
    """The buffers of a plan's operands."""

    def __init__(self, plan: Plan, graph: Graph, shared: Shared) -> None:
        gpu = shared.gpu
        self._plan = plan
        self._graph = graph
        self._gpu = gpu
        self._with_images = gpu.limits.has_images
        self._arena: dict[int, TexelBuffer] = {}
        self._views: dict[Allocation, TexelView] = {}
        self._mapped: dict[Value, MappedBuffer] = {}  # what is uploaded
        self._shared = shared.constants
        self._constants: dict[Const, Packed] = {}
        self.storage = self._storage({}, {})
        textures = gpu.textures() if plan.has_textures else nullcontext()
        with on_error(self.release), textures:
            for const in plan.constants:
                self._constants[const] = shared.constants.take(const, graph, shared.store)

    def bind(self, resources: Mapping[int, Resource], undo: ExitStack) -> Storage:
        """New storage for `use`, with bound buffers used in place where their layout allows.

        Closing `undo` frees the new objects. Raises OutOfGpuMemoryError.
        """
        bound: dict[Allocation, TexelView] = {}
        for index, (value, resource) in self._in_place(resources).items():
            allocation = self._plan.allocations[value]
            if self.storage.resources.get(index) is resource and allocation in self.storage.bound:
                bound[allocation] = self.storage.bound[allocation]
            else:
                # A deleted buffer cannot have a texture; a run stops before it would use it.
                images = self._with_images and not any(w.change() for w in resource.watches)
                bound[allocation] = TexelView(
                    self._gpu.gl, resource.name, resource.offset, resource.size, images
                )
                undo.callback(bound[allocation].release)
        for allocation in self._plan.allocations.values():
            if allocation not in bound and allocation not in self._views:
                self._add_own_view(allocation, undo)
        return self._storage(resources, bound)

    def use(self, storage: Storage) -> None:
        """Switch to the storage that `bind` returned, and free the views that it lacks."""
        old, self.storage = self.storage, storage
        reused = list(storage.bound.values())
        release_all(view for view in old.bound.values() if view not in reused)

    @property
    def memory(self) -> MemoryReport:
        """The bytes of its buffers, without constants, and a description of bound ones."""
        owners = self._plan.owners
        resources = self.storage.resources.items()
        return MemoryReport(
            arena=sum(buffer.size for i, buffer in self._arena.items() if i not in owners),
            inputs=sum(buffer.size for i, buffer in self._arena.items() if i in owners)
            + sum(buffer.size for buffer in self._mapped.values()),
            bound={i: ", ".join(w.bound for w in r.watches) for i, r in resources if r.watches},
        )

    def upload(self, value: Value, array: Array) -> None:
        """Copy a contiguous array into a value."""
        allocation = self._plan.allocations[value]
        if not value.texels:
            return
        buffer = self._arena[allocation.buffer].buffer
        if not self._gpu.driver.writes_mapped or array.nbytes < _MANY_BYTES:
            buffer.write(array, offset=allocation.offset)
            return
        if value not in self._mapped:
            self._mapped[value] = MappedBuffer(self._gpu.gl, value.nbytes)
        self._mapped[value].copy_to(buffer.name, allocation.offset, array)

    def download(self, value: Value, array: Array) -> None:
        """Wait for the GPU, and copy a value's first bytes into a contiguous array."""
        allocation = self._plan.allocations[value]
        if value.texels:
            buffer = self._arena[allocation.buffer].buffer
            buffer.read_into(array, array.nbytes, offset=allocation.offset)

    def contents(self) -> list[Array]:
        """Wait for the GPU; the 16-bit words of each of the plan's buffers, or of what is bound."""
        words = [np.zeros(size // 2, np.uint16) for size in self._plan.buffers]
        views: list[tuple[int, TexelView]] = [*self._arena.items()]
        views += [(allocation.buffer, view) for allocation, view in self.storage.bound.items()]
        for number, view in views:
            read_into(self._gpu.gl, view.name, words[number], view.size, view.offset)
        return words

    def texels(self, value: Value) -> Array:
        """Wait for the GPU, and return a value's lanes [slices, pixels, 4]."""
        target = self.storage.view(value)
        array = np.empty((value.slices, value.pixels, 4), DTYPES[value.kind])
        read_into(self._gpu.gl, target.name, array, array.nbytes, target.offset)
        return array

    def release(self) -> None:
        views = (*self.storage.bound.values(), *self._views.values(), *self._arena.values())
        deletions: list[Callable[[], None]] = [view.release for view in views]
        deletions += [buffer.release for buffer in self._mapped.values()]
        deletions += [partial(self._shared.give_back, each) for each in self._constants.values()]
        self._views = {}
        self._arena = {}
        self._mapped = {}
        self._constants = {}
        self.storage = self._storage({}, {})
        in_any_case(deletions)

    def _storage(
        self, resources: Mapping[int, Resource], bound: Mapping[Allocation, TexelView]
    ) -> Storage:
        return Storage(
            self._plan.allocations, self._constants, resources, bound, self._views, self._arena
        )

    def _in_place(self, resources: Mapping[int, Resource]) -> dict[int, tuple[Value, BoundBuffer]]:
        """By tensor index, the values that a bound buffer can hold itself, and the buffer."""
        plan = self._plan
        boundary = (*plan.inputs.items(), *plan.outputs.items(), *plan.variables.items())
        uses = Counter(value for _, value in boundary)
        inputs = [resources.get(index) for index in plan.inputs]
        in_place: dict[int, tuple[Value, BoundBuffer]] = {}
        for index, value in boundary:
            resource = resources.get(index)
            if (
                isinstance(resource, BoundBuffer)
                and uses[value] == 1
                and resource.size == value.nbytes > 0
                and resource.offset % self._gpu.limits.offset_alignment == 0
                # Inputs are read throughout the run, so nothing may overwrite them.
                and (index in plan.inputs or not any(map(resource.overlaps, inputs)))
            ):
                in_place[index] = (value, resource)
        return in_place

    def _add_own_view(self, allocation: Allocation, undo: ExitStack) -> None:
        """Make the view of an allocation, and its buffer at the first use."""
        gl = self._gpu.gl
        if allocation.buffer not in self._arena:
            # Zeroed: the last texel of a row-major input may have lanes past its elements.
            data = bytes(self._plan.buffers[allocation.buffer])
            self._arena[allocation.buffer] = TexelBuffer(gl, data, False)
            undo.callback(lambda: self._arena.pop(allocation.buffer).release())
            text = name_buffer(allocation.buffer, self._plan, self._graph)
            gl.label(gl_names.BUFFER_OBJECT, self._arena[allocation.buffer].name, text)
        name = self._arena[allocation.buffer].name
        offset = allocation.offset
        size = allocation.size
        view = TexelView(gl, name, offset, size, self._with_images, is_own=True)
        self._views[allocation] = view
        undo.callback(lambda: self._views.pop(allocation).release())
