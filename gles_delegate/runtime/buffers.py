"""The GPU memory of a plan: its arena, constants, and bound buffers used in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from gles_delegate.closing import Releasable, in_any_case, on_error, release_all
from gles_delegate.dispatch import Const, Operand, Value
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import TexelBuffer, TexelView, read_into
from gles_delegate.gl.texture import TexelTexture
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.memory import Allocation
from gles_delegate.planning.plan import Plan
from gles_delegate.report import MemoryReport
from gles_delegate.runtime.binding import BoundBuffer, Resource
from gles_delegate.runtime.constants import DTYPES, Packed
from gles_delegate.runtime.naming import name_buffer
from gles_delegate.runtime.shared import Shared


@dataclass(frozen=True)
class Places:
    """Where the operands of a plan are while some buffers and textures are bound.

    Attributes:
        textures: Constants that are read through textures.
        resources: What is bound, by tensor index.
        bound: The views of bound buffers that are used in place.
        own: The views of our own buffers.
    """

    allocations: Mapping[Value, Allocation]
    constants: Mapping[Const, TexelBuffer]
    textures: Mapping[Const, TexelTexture]
    resources: Mapping[int, Resource]
    bound: Mapping[Allocation, TexelView]
    own: Mapping[Allocation, TexelView]

    def view(self, operand: Operand) -> TexelView:
        """The texels of an operand."""
        if isinstance(operand, Const):
            return self.constants[operand]
        allocation = self.allocations[operand]
        return self.bound.get(allocation) or self.own[allocation]

    def is_in_place(self, value: Value) -> bool:
        """Whether a bound buffer holds the value itself, so that nothing is copied."""
        return self.allocations[value] in self.bound


class Buffers:
    """Buffers for the operands of a plan's dispatches.

    Raises:
        OutOfGpuMemoryError: The driver has no room for the constants.
    """

    def __init__(self, plan: Plan, graph: Graph, shared: Shared) -> None:
        gpu = shared.gpu
        self._plan = plan
        self._graph = graph
        self._gpu = gpu
        self._with_images = max(gpu.limits.buffer_texels, gpu.limits.large_texels) > 0
        self._arena: dict[int, TexelBuffer] = {}
        self._views: dict[Allocation, TexelView] = {}
        self._shared = shared.constants
        self._constants: dict[Const, TexelBuffer] = {}
        self._textures: dict[Const, TexelTexture] = {}
        self.places = self._places({}, {})
        textures = gpu.textures() if plan.has_textures else nullcontext()
        with on_error(self.release), textures:
            for const in plan.constants:
                packed = shared.constants.take(const, graph, shared.store)
                if isinstance(packed, TexelTexture):
                    self._textures[const] = packed
                else:
                    self._constants[const] = packed

    def place(self, resources: Mapping[int, Resource], undo: ExitStack) -> Places:
        """Places with these resources: bound buffers are used in place where their layout allows.

        The present ones stay as they are; `replace` takes the new ones.

        Args:
            undo: Frees what is made here, when it is closed.

        Raises:
            OutOfGpuMemoryError: The driver has no room for them.
        """
        bound: dict[Allocation, TexelView] = {}
        for index, value in self._in_place(resources).items():
            allocation, resource = self._plan.allocations[value], resources[index]
            assert isinstance(resource, BoundBuffer)
            if self.places.resources.get(index) is resource and allocation in self.places.bound:
                bound[allocation] = self.places.bound[allocation]
            else:
                # No texture can be had of a buffer that is gone, nor does a run get that far.
                images = self._with_images and not any(w.change() for w in resource.watches)
                bound[allocation] = TexelView(
                    self._gpu.gl, resource.name, resource.offset, resource.size, images
                )
                undo.callback(bound[allocation].release)
        for allocation in self._plan.allocations.values():
            if allocation not in bound and allocation not in self._views:
                self._add_own_view(allocation, undo)
        return self._places(resources, bound)

    def replace(self, places: Places) -> None:
        """Take what `place` returned, and free the views that it no longer has."""
        old, self.places = self.places, places
        kept = list(places.bound.values())
        release_all(view for view in old.bound.values() if view not in kept)

    @property
    def memory(self) -> MemoryReport:
        """The bytes of its buffers, without constants, and of bound ones."""
        owners = self._plan.owners
        resources = self.places.resources.items()
        return MemoryReport(
            arena=sum(buffer.size for i, buffer in self._arena.items() if i not in owners),
            inputs=sum(buffer.size for i, buffer in self._arena.items() if i in owners),
            bound={i: ", ".join(w.bound for w in r.watches) for i, r in resources if r.watches},
        )

    def upload(self, value: Value, array: Array) -> None:
        """Copy a contiguous array into a value."""
        allocation = self._plan.allocations[value]
        if value.texels:
            self._arena[allocation.buffer].buffer.write(array, offset=allocation.offset)

    def download(self, value: Value, array: Array) -> None:
        """Wait for the GPU, and copy a value's first bytes into a contiguous array."""
        allocation = self._plan.allocations[value]
        if value.texels:
            buffer = self._arena[allocation.buffer].buffer
            buffer.read_into(array, array.nbytes, offset=allocation.offset)

    def texels(self, value: Value) -> Array:
        """Wait for the GPU, and return a value's lanes [slices, pixels, 4]."""
        target = self.places.view(value)
        array = np.empty((value.slices, value.pixels, 4), DTYPES[value.kind])
        read_into(self._gpu.gl, target.name, array, array.nbytes, target.offset)
        return array

    def release(self) -> None:
        """Delete our GL objects."""
        owned: tuple[Mapping[Any, Releasable], ...] = (
            self.places.bound, self._views, self._arena,
        )  # fmt: skip
        objects = [made for some in owned for made in some.values()]
        constants: list[Packed] = [*self._constants.values(), *self._textures.values()]
        self._views, self._arena, self._constants, self._textures = {}, {}, {}, {}
        self.places = self._places({}, {})
        deletions = [made.release for made in objects]
        deletions += [partial(self._shared.give_back, packed) for packed in constants]
        in_any_case(deletions)

    def _places(
        self, resources: Mapping[int, Resource], bound: Mapping[Allocation, TexelView]
    ) -> Places:
        constants = self._constants, self._textures
        return Places(self._plan.allocations, *constants, resources, bound, self._views)

    def _in_place(self, resources: Mapping[int, Resource]) -> dict[int, Value]:
        """By tensor index, the values that bound buffers can hold themselves."""
        plan = self._plan
        boundary = (*plan.inputs.items(), *plan.outputs.items(), *plan.variables.items())
        uses = Counter(value for _, value in boundary)
        inputs = [resources.get(index) for index in plan.inputs]
        found: dict[int, Value] = {}
        for index, value in boundary:
            resource = resources.get(index)
            if (
                isinstance(resource, BoundBuffer)
                and uses[value] == 1
                and resource.size == value.nbytes > 0
                and resource.offset % self._gpu.driver.offset_alignment == 0
                # Inputs are read all through the run, so nothing may overwrite them.
                and (index in plan.inputs or not any(map(resource.overlaps, inputs)))
            ):
                found[index] = value
        return found

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
        view = TexelView(gl, name, allocation.offset, allocation.size, self._with_images)
        self._views[allocation] = view
        undo.callback(lambda: self._views.pop(allocation).release())
