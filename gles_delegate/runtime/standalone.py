"""The host of models that run entirely on the GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakMethod

import numpy as np

from gles_delegate.gl.sync import Fence
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.runtime.delegation import Delegation
from gles_delegate.runtime.invocation import Invocation
from gles_delegate.shaders.dispatch import Shape
from gles_delegate.support.arrays import MANY_BYTES


class StandAlone:
    """Runs a subgraph entirely on the GPU, without LiteRT. `Interpreter` documents the methods."""

    def __init__(self, delegation: Delegation) -> None:
        self.delegation = delegation
        self._graph: Graph = delegation.graph
        self._segment = delegation.segment([node.index for node in self._graph.nodes])
        self._shapes: dict[int, Shape] = {t.index: t.shape for t in self._graph.tensors}
        self._arrays: dict[int, Array] = {}
        # Since the last run: large outputs whose array `get_tensor` returned; tensors that it
        # copies, because there is a view of them, or the GPU does not have them as they are.
        self._given: set[int] = set()
        self._kept: set[int] = set()
        self._pending: Invocation | None = None
        self._ready = False
        delegation.before_binding = WeakMethod(self._keep)

    @property
    def is_ready(self) -> bool:
        """Whether tensors are allocated for the present shapes."""
        return self._ready

    def shape_of(self, index: int) -> Shape:
        """The present shape of an input."""
        return self._shapes[index]

    def held(self, index: int) -> Array | None:
        """The value of an input or output in CPU memory, if it is there, without a GL call."""
        return self._arrays.get(index)

    def allocate_tensors(self) -> None:
        if self._ready:
            return
        self._pending = None
        self._prepare()
        self.reset_all_variables()

    def _prepare(self, values: Mapping[int, Array] | None = None) -> None:
        """Plan for the present shapes, and for these values of inputs that determine sizes."""
        inputs = {i: self._shapes[i] for i in self._graph.inputs}
        shapes = self._segment.prepare(inputs, values)
        self._ready = False  # an array may find no memory
        old = self._arrays
        arrays: dict[int, Array] = {}
        for tensor in filter(self._is_on_host, self._graph.tensors):
            index = tensor.index
            if tensor.is_constant:
                arrays[index] = tensor.array()
            elif index in old and old[index].shape == shapes[index] and not tensor.is_variable:
                arrays[index] = old[index]
            else:
                arrays[index] = np.zeros(shapes[index], tensor.type.array)
        self._shapes.update(shapes)
        self._arrays = arrays
        self._forget()
        self._ready = True

    def invoke(self, targets: Mapping[int, Array] | None = None) -> None:
        self._make_ready()
        self._pending = None
        targets = targets or {}
        for index, array in targets.items():
            require_shape(self._graph.tensors[index], array, self._shapes[index])
        # A result is read into memory without gaps; an input or a constant is not computed.
        computed = {*self._outputs}.difference(self._graph.inputs)
        direct = {i: array for i, array in targets.items() if i in computed and _is_plain(array)}
        lacking = self._given - direct.keys()
        arrays = self._arrays | {index: self._segment.empty(index) for index in lacking}
        self._segment.invoke(arrays, arrays | direct)
        self._arrays = {i: array for i, array in arrays.items() if i not in direct}
        self._forget()
        self._given.update(direct)  # the caller may change what is in its arrays
        for index, array in targets.items():
            if index not in direct:
                np.copyto(array, self._array(index))

    def invoke_async(self, wait_for: Fence | int | None = None) -> Invocation:
        self._make_ready()
        self._pending = self._segment.submit(self._arrays, wait_for)
        self._kept.clear()
        return self._pending

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        try:
            tensor = tensor_at(self._graph, input_index)
        except ValueError as error:
            raise RuntimeError(str(error)) from None
        shape = tuple(int(size) for size in tensor_size)
        if any(size < 0 for size in shape):
            raise RuntimeError(f"expected sizes of 0 or more, found {list(shape)}")
        signature = tensor.shape_signature or self._shapes[tensor.index]
        if strict and (
            len(shape) != len(signature)
            or any(free not in (-1, size) for free, size in zip(signature, shape, strict=True))
        ):
            raise RuntimeError(
                f"cannot resize input {input_index} to {list(shape)} in strict mode: its "
                f"shape_signature is {list(signature)}"
            )
        if self._shapes[tensor.index] == shape:
            return
        if tensor.is_constant:
            raise RuntimeError(
                f"Attempting to resize a fixed-size tensor: tensor {input_index} is a constant"
            )
        self._ready = False
        if input_index in self._graph.inputs:  # as in LiteRT, other sizes follow from the inputs'
            self._shapes[tensor.index] = shape

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        tensor = settable(self.delegation, tensor_index)
        array = np.asarray(value)
        if array.dtype != tensor.type.array:
            raise ValueError(
                f"Cannot set tensor: Got value of type {str(array.dtype).upper()} but expected "
                f"type {tensor.dtype.upper()} for input {tensor_index}, name: {tensor.name}"
            )
        if array.shape != self._shapes[tensor.index]:
            raise ValueError(
                f"Cannot set tensor: Dimension mismatch. Got {list(array.shape)} but expected "
                f"{list(self._shapes[tensor.index])} for input {tensor_index}, name: {tensor.name}"
            )
        np.copyto(self._array(tensor.index), array)
        self._kept.add(tensor.index)
        if tensor.is_variable:
            self._segment.write_variable(tensor.index, self._arrays[tensor.index])

    def get_tensor(self, tensor_index: int) -> Array:
        array = self._array(tensor_index)
        is_output = tensor_index in self._outputs
        is_kept = tensor_index in {*self._graph.inputs, *self._kept}
        if array.nbytes < MANY_BYTES or is_kept or not is_output:
            return np.array(array)
        self._given.add(tensor_index)  # `_array` reads it from the GPU if it is asked for again
        return self._arrays.pop(tensor_index, array)

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        tensor_at(self._graph, tensor_index)

        def view() -> Array:
            self._kept.add(tensor_index)
            return self._array(tensor_index)

        return view

    def get_input_details(self) -> list[dict[str, Any]]:
        return [self._details(self._graph.tensors[i]) for i in self._graph.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        return [self._details(self._graph.tensors[i]) for i in self._graph.outputs]

    def get_tensor_details(self) -> list[dict[str, Any]]:
        return [self._details(tensor) for tensor in self._graph.tensors if tensor.type.array]

    def reset_all_variables(self) -> None:
        for index, array in self._arrays.items():
            tensor = self._graph.tensors[index]
            if tensor.is_variable:
                array.fill(tensor.reset_value)
                self._segment.write_variable(index, array)

    def _make_ready(self) -> None:
        """Read the inputs that the pending run assigns to; plan again for new `shape_inputs`."""
        if not self._ready:
            raise RuntimeError(
                "Invoke called on model that is not ready: call allocate_tensors() first"
            )
        current = self._segment.current
        for index in current.session.states if current is not None else ():
            self._array(index)
        values = {index: self._arrays[index].copy() for index in self._segment.shape_inputs}
        if not values or self._segment.is_planned_for(values):
            return
        states = {t.index: self._array(t.index) for t in self._graph.tensors if t.is_variable}
        self._prepare(values)
        for index, array in states.items():
            self._arrays[index][...] = array
            self._segment.write_variable(index, array)

    def _array(self, index: int) -> Array:
        tensor = tensor_at(self._graph, index)
        if tensor.is_constant:
            return tensor.array()
        if not self._is_on_host(tensor):
            result = self.delegation.read_result(index)
            if result is not None:
                return result
            raise ValueError(
                f"tensor {index} {tensor.name!r} stays on the GPU: only the inputs "
                f"{list(self._graph.inputs)}, the outputs {list(self._graph.outputs)} and "
                "constants can be read; with experimental_preserve_all_tensors=True, all that "
                "nodes compute"
            )
        if not self._ready or index not in {*self._arrays, *self._given}:
            call = "call its signature's runner" if self._graph.index else "call allocate_tensors()"
            raise ValueError(f"the interpreter is not ready: {call} first")
        if tensor.is_variable:
            self._segment.read_variable(index, self._arrays[index])
        elif index in self.delegation.bindings:
            result = self.delegation.read_result(index)
            if result is None:
                raise bound(tensor)
            self._arrays[index][...] = result
        elif self._pending is not None and index in self._outputs:
            for output in {*self._arrays, *self._given} & {*self._outputs}:
                self._arrays[output] = self._pending.get_tensor(output)
            self._pending = None
            self._given.clear()
        elif index in self._given:
            self._arrays[index] = self._segment.read_output(index)
            self._given.remove(index)
        return self._arrays[index]

    @property
    def _outputs(self) -> tuple[int, ...]:
        """The tensors that a run returns."""
        current = self._segment.current
        return current.outputs if current is not None else ()

    def _keep(self) -> None:
        """Have every output here, before the GPU may lose it."""
        for index in (*self._given,):
            self._array(index)
        self._kept.update(self._graph.outputs)

    def _forget(self) -> None:
        self._given.clear()
        self._kept.clear()

    def _is_on_host(self, tensor: Tensor) -> bool:
        return tensor.index in (*self._graph.inputs, *self._graph.outputs) or tensor.is_variable

    def _details(self, tensor: Tensor) -> dict[str, Any]:
        return describe(tensor, self._shapes[tensor.index])


def tensor_at(graph: Graph, index: int) -> Tensor:
    """A tensor by its index; raises TypeError or ValueError if there is no such tensor."""
    if not hasattr(index, "__index__"):
        raise TypeError(
            f"expected the index of a tensor, found {index!r}: get_input_details() and "
            "get_output_details() list them, and run() takes names"
        )
    if not 0 <= index < len(graph.tensors):
        raise ValueError(
            f"Invalid tensor index {index} exceeds max tensor index {len(graph.tensors)}"
        )
    return graph.tensors[index]


def settable(delegation: Delegation, index: int) -> Tensor:
    """A tensor that the host may set; raises ValueError for any other."""
    graph = delegation.graph
    tensor = tensor_at(graph, index)
    if not (tensor.is_variable or index in (*graph.inputs, *graph.outputs)):
        raise ValueError(
            f"tensor {index} {tensor.name!r} is not an input: the inputs are {list(graph.inputs)}"
        )
    if index in delegation.bindings:
        raise bound(tensor)
    return tensor


def bound(tensor: Tensor) -> ValueError:
    """The error for the value of a bound tensor, which the host does not have."""
    return ValueError(
        f"tensor {tensor.index} {tensor.name!r} is bound to a buffer or texture: "
        f"fill that, or unbind({tensor.index}) first"
    )


def _is_plain(array: Array) -> bool:
    return array.flags.c_contiguous and array.flags.aligned


def require_shape(tensor: Tensor, array: Array, shape: Shape) -> None:
    """Raise ValueError if an array of the caller's cannot take an output."""
    if array.shape != shape:
        raise ValueError(
            f"expected an array of {list(shape)} for output {tensor.index} {tensor.name!r}, found "
            f"{list(array.shape)}"
        )


def describe(tensor: Tensor, shape: Shape) -> dict[str, Any]:
    """A tensor of this present shape, as LiteRT describes it."""
    quantization = tensor.quantization
    pairs = list(zip(quantization.scales, quantization.zero_points, strict=False))
    return {
        "name": tensor.name,
        "index": tensor.index,
        "shape": np.array(shape, np.int32),
        "shape_signature": np.array(tensor.shape_signature or shape, np.int32),
        "dtype": tensor.type.array,
        "quantization": pairs[0] if len(pairs) == 1 else (0.0, 0),
        "quantization_parameters": {
            "scales": np.array(
                quantization.scales, np.float16 if quantization.block else np.float32
            ),
            "zero_points": np.array(quantization.zero_points, np.int32),
            "quantized_dimension": quantization.axis,
            "block_size": quantization.block,
        },
        "sparsity_parameters": {},
    }


def dequantize(array: Array, quantization: tuple[float, int]) -> Array:
    """The real values of a tensor: float32 if it is quantized, otherwise the array itself.

    Args:
        quantization: Scale and zero point, as in `get_output_details`; scale 0: not quantized.

    Examples:
        >>> dequantize(np.array([0, 128, 255], np.uint8), (0.5, 128)).tolist()
        [-64.0, 0.0, 63.5]
    """
    scale, zero_point = quantization
    return (array.astype(np.float32) - zero_point) * np.float32(scale) if scale else array
