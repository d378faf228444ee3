"""The GPU memory of a plan: its arena, its constants, and bound buffers used in place."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from gles_delegate.dispatch import Const, Kind, Operand, Value
from gles_delegate.gl.buffers import TexelBuffer, TexelView, read_into
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.memory import Allocation
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.binding import BoundBuffer, Resource
from gles_delegate.runtime.store import Store, fingerprint

_DTYPES: dict[Kind, type[np.generic]] = {
    "float": np.float32,
    "int": np.int32,
    "half": np.float16,
}
"""numpy's type of a lane."""


class Buffers:
    """Buffers for the operands of a plan's dispatches.

    Args:
        store: Packed constants are loaded from it, and new ones added.

    Raises:
        OutOfGpuMemoryError: The driver has no room for the constants.
    """

    def __init__(self, plan: Plan, graph: Graph, gpu: GpuContext, store: Store | None) -> None:
        self._plan = plan
        self._gpu = gpu
        self._with_images = gpu.limits.buffer_texels > 0
        self._arena: dict[int, TexelBuffer] = {}
        self._views: dict[Allocation, TexelView] = {}
        self._bound: dict[Allocation, TexelView] = {}
        self._constants: dict[Const, TexelBuffer] = {}
        try:
            for const in plan.constants:
                data = _stored_or_packed(const, graph, store)
                self._constants[const] = TexelBuffer(gpu.gl, data, self._with_images)
        except BaseException:
            self.release()
            raise

    def bind(self, resources: Mapping[int, Resource]) -> None:
        """Use bound buffers in place where their layout allows, and allocate the others.

        Raises:
            OutOfGpuMemoryError: The driver has no room for them.
        """
        for view in self._bound.values():
            view.release()
        self._bound = {}
        for index, value in self._in_place(resources).items():
            resource = resources[index]
            assert isinstance(resource, BoundBuffer)
            self._bound[self._plan.allocations[value]] = TexelView(
                self._gpu.gl, resource.buffer, resource.offset, resource.size, self._with_images
            )
        for allocation in self._plan.allocations.values():
            if allocation not in self._bound and allocation not in self._views:
                self._views[allocation] = self._own_view(allocation)

    def view(self, operand: Operand) -> TexelView:
        """The texels of an operand."""
        if isinstance(operand, Const):
            return self._constants[operand]
        allocation = self._plan.allocations[operand]
        return self._bound.get(allocation) or self._views[allocation]

    def is_in_place(self, value: Value) -> bool:
        """Whether a bound buffer holds the value itself, so that nothing is copied."""
        return self._plan.allocations[value] in self._bound

    @property
    def nbytes(self) -> tuple[int, int]:
        """Bytes for activations, and for constants."""
        activations = sum(buffer.size for buffer in self._arena.values())
        return activations, sum(constant.nbytes for constant in self._constants)

    def upload(self, value: Value, array: Array) -> None:
        """Replace the bytes of a value by those of a contiguous array."""
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
        target = self.view(value)
        array = np.empty((value.slices, value.pixels, 4), _DTYPES[value.kind])
        read_into(self._gpu.gl, target.name, array, array.nbytes, target.offset)
        return array

    def release(self) -> None:
        """Delete every GL object of ours."""
        for views in (self._bound, self._views, self._arena, self._constants):
            for view in views.values():
                view.release()
        self._bound, self._views, self._arena, self._constants = {}, {}, {}, {}

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
                and resource.offset % self._gpu.offset_alignment == 0
                # Inputs are read all through the run, so nothing may overwrite them.
                and (index in plan.inputs or not any(map(resource.overlaps, inputs)))
            ):
                found[index] = value
        return found

    def _own_view(self, allocation: Allocation) -> TexelView:
        """Make the view of an allocation, and its buffer at the first use."""
        gl = self._gpu.gl
        if allocation.buffer not in self._arena:
            # Zeroed: the last texel of a row-major input may have lanes past its elements.
            data = bytes(self._plan.buffers[allocation.buffer])
            self._arena[allocation.buffer] = TexelBuffer(gl, data, False)
        name = self._arena[allocation.buffer].name
        return TexelView(gl, name, allocation.offset, allocation.size, self._with_images)


def _stored_or_packed(const: Const, graph: Graph, store: Store | None) -> bytes | memoryview:
    """The bytes of a constant, from the store if it has them."""
    function = (const.pack.__module__, const.pack.__qualname__)
    key = fingerprint(*function, const.tensors, const.shape, const.args, const.kind)
    known = store.get(key, const.nbytes or 16) if store else None
    if known is not None:
        return known
    data = _packed(const, graph)
    if store:
        store.add(key, data)
    return data


def _packed(const: Const, graph: Graph) -> bytes:
    arrays = [graph.tensors[t].values() if t >= 0 else None for t in const.tensors]
    packed = np.ascontiguousarray(const.pack(*arrays, *const.args), _DTYPES[const.kind])
    return packed.tobytes() or bytes(16)
