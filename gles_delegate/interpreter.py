"""Host 1: a stand-alone interpreter with the methods of LiteRT's."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from gles_delegate.delegate import Delegation, GpuDelegate
from gles_delegate.dispatch import Shape
from gles_delegate.graph import Array, Graph, Signature, Tensor
from gles_delegate.model import load_model, read_model


class Interpreter:
    """Runs a .tflite model on the GPU, with the methods of `ai_edge_litert.interpreter`.

    Args:
        model_path: A .tflite file.
        model_content: Or its bytes.
        experimental_delegates: One `GpuDelegate`; left out, the interpreter makes its own and
            closes it in `close`.
        num_threads: Taken for compatibility; the GPU has its own.

    Raises:
        ValueError: Not exactly one of `model_path` and `model_content` is given, or not one
            delegate.
        ModelError: The model cannot be read (also a ValueError).
        UnsupportedModelError: Some nodes do not run on the GPU.
        ContextError: There is no usable OpenGL ES context.
    """

    def __init__(
        self,
        model_path: str | bytes | os.PathLike[str] | None = None,
        model_content: bytes | bytearray | memoryview | None = None,
        experimental_delegates: Sequence[GpuDelegate] | None = None,
        num_threads: int | None = None,
    ) -> None:
        if (model_path is None) == (model_content is None):
            raise ValueError("give either model_path or model_content")
        if num_threads is not None and (not isinstance(num_threads, int) or num_threads < 1):
            raise ValueError(f"num_threads must be a positive int, not {num_threads!r}")
        self._graph: Graph = (
            read_model(model_content) if model_content is not None else load_model(model_path or "")
        )
        self._shapes: dict[int, Shape] = {t.index: t.shape for t in self._graph.tensors}
        self._arrays: dict[int, Array] = {}
        self._delegation: Delegation | None = None
        self._own: GpuDelegate | None = None
        self._ready = False
        delegates = list(experimental_delegates or ())
        if not delegates:
            self._own = GpuDelegate()
            delegates = [self._own]
        if len(delegates) > 1:
            raise ValueError(f"expected one delegate, found {len(delegates)}")
        try:
            self.modify_graph_with_delegate(delegates[0])
        except BaseException:
            self.close()
            raise

    def modify_graph_with_delegate(self, delegate: GpuDelegate) -> None:
        """Bind the model to a delegate; this thread, and its context, serve it from now on.

        Raises:
            TypeError: `delegate` is no `GpuDelegate`.
            ValueError: The interpreter has a delegate already.
            UnsupportedModelError, ContextError: See the class.
        """
        if not isinstance(delegate, GpuDelegate):
            raise TypeError(f"expected a gles_delegate.GpuDelegate, found {delegate!r}")
        if self._delegation is not None:
            raise ValueError("the interpreter has a delegate already")
        self._delegation = delegate.bind(self._graph)

    def close(self) -> None:
        """Close the delegate that the interpreter made for itself; others stay open."""
        if self._own is not None:
            self._own.close()

    def __enter__(self) -> Interpreter:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def allocate_tensors(self) -> None:
        """Plan, compile and allocate for the present input shapes; does nothing if unchanged.

        Raises:
            UnsupportedModelError: A node cannot run with these shapes.
            WrongThreadError, WrongContextError, GLError: See `GpuDelegate`.
        """
        if self._ready:
            return
        delegation = self._require_delegation()
        inputs = {i: self._shapes[i] for i in self._graph.inputs}
        self._shapes.update(delegation.prepare(inputs))
        old, self._arrays = self._arrays, {}
        for tensor in self._graph.tensors:
            index, shape = tensor.index, self._shapes[tensor.index]
            if not self._is_on_host(tensor):
                continue
            if tensor.is_constant:
                self._arrays[index] = tensor.array()
            elif index in old and old[index].shape == shape and not tensor.is_variable:
                self._arrays[index] = old[index]
            else:
                self._arrays[index] = np.zeros(shape, _dtype(tensor))
        self._ready = True

    def invoke(self) -> None:
        """Run the model on what `set_tensor` left in the inputs.

        Raises:
            RuntimeError: `allocate_tensors` was not called since the start or a resize.
            WrongThreadError, WrongContextError, GLError: See `GpuDelegate`.
        """
        if not self._ready:
            raise RuntimeError("the interpreter is not ready: call allocate_tensors() first")
        self._require_delegation().invoke(self._arrays, self._arrays)

    def resize_tensor_input(
        self, input_index: int, tensor_size: Sequence[int], strict: bool = False
    ) -> None:
        """Give an input another shape; `allocate_tensors` must be called afterwards.

        Args:
            strict: Refuse to change sizes that `shape_signature` does not leave free.

        Raises:
            ValueError: No such input, a negative size, or a fixed size in strict mode. It is a
                RuntimeError as well: LiteRT documents the one and raises the other.
        """
        try:
            tensor = self._input(input_index)
        except ValueError as error:
            raise _ResizeError(str(error)) from None
        shape = tuple(int(size) for size in tensor_size)
        if any(size < 0 for size in shape):
            raise _ResizeError(f"expected sizes of 0 or more, found {list(shape)}")
        signature = self._signature(tensor)
        if strict and (
            len(shape) != len(signature)
            or any(free not in (-1, size) for free, size in zip(signature, shape, strict=True))
        ):
            raise _ResizeError(
                f"cannot resize input {input_index} to {list(shape)} in strict mode: its "
                f"shape_signature is {list(signature)}"
            )
        if self._shapes[tensor.index] != shape:
            self._shapes[tensor.index] = shape
            self._ready = False

    def set_tensor(self, tensor_index: int, value: Any) -> None:
        """Copy `value` into an input or a variable tensor.

        Raises:
            ValueError: No such input, another dtype or shape than the input's, or
                `allocate_tensors` was not called.
        """
        tensor = self._tensor(tensor_index)
        if not tensor.is_variable:
            self._input(tensor_index)
        array = np.asarray(value)
        if array.dtype != _dtype(tensor):
            raise ValueError(
                f"cannot set tensor {tensor_index} {tensor.name!r}: expected the dtype "
                f"{tensor.dtype}, found {array.dtype}"
            )
        if array.shape != self._shapes[tensor.index]:
            raise ValueError(
                f"cannot set tensor {tensor_index} {tensor.name!r}: expected the shape "
                f"{list(self._shapes[tensor.index])}, found {list(array.shape)}"
            )
        np.copyto(self._array(tensor.index), array)
        if tensor.is_variable:
            self._require_delegation().write_variable(tensor.index, self._arrays[tensor.index])

    def get_tensor(self, tensor_index: int, subgraph_index: int = 0) -> Array:
        """A copy of an input, an output, a constant or a variable.

        Raises:
            ValueError: No such tensor, one that lives on the GPU only, or `allocate_tensors` was
                not called.
        """
        _require_first(subgraph_index)
        return np.array(self._array(tensor_index))

    def tensor(self, tensor_index: int) -> Callable[[], Array]:
        """A function that returns a view of an input or output, without a copy.

        The view is valid until the next `allocate_tensors` with other shapes.
        """
        self._tensor(tensor_index)
        return lambda: self._array(tensor_index)

    def get_input_details(self) -> list[dict[str, Any]]:
        """The inputs, as LiteRT describes them."""
        return [self._details(self._graph.tensors[i]) for i in self._graph.inputs]

    def get_output_details(self) -> list[dict[str, Any]]:
        """The outputs, as LiteRT describes them."""
        return [self._details(self._graph.tensors[i]) for i in self._graph.outputs]

    def get_tensor_details(self, subgraph_index: int = 0) -> list[dict[str, Any]]:
        """Every tensor of a type that numpy knows, as LiteRT describes it."""
        _require_first(subgraph_index)
        return [self._details(tensor) for tensor in self._graph.tensors if _dtype(tensor)]

    def num_subgraphs(self) -> int:
        """1: the GPU runs the first subgraph."""
        return 1

    def reset_all_variables(self) -> None:
        """Set the variable tensors to zero."""
        for index, array in self._arrays.items():
            if self._graph.tensors[index].is_variable:
                array.fill(0)
                self._require_delegation().write_variable(index, array)

    def get_signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of the inputs and outputs of each signature, by its key."""
        return {
            s.key: {"inputs": sorted(s.inputs), "outputs": sorted(s.outputs)}
            for s in self._graph.signatures
        }

    def get_signature_runner(self, signature_key: str | None = None) -> SignatureRunner:
        """A function that takes and returns arrays by name.

        Raises:
            ValueError: No such signature, or no key and not exactly one signature.
        """
        signatures = {s.key: s for s in self._graph.signatures}
        if signature_key is None and len(signatures) != 1:
            raise ValueError(
                f"the model has {len(signatures)} signatures; give one of {sorted(signatures)}"
            )
        key = next(iter(signatures)) if signature_key is None else signature_key
        if key not in signatures:
            raise ValueError(f"no signature {key!r}; the model has {sorted(signatures)}")
        return SignatureRunner(self, signatures[key])

    def _require_delegation(self) -> Delegation:
        if self._delegation is None:
            raise RuntimeError("the interpreter has no delegate")
        return self._delegation

    def _tensor(self, index: int) -> Tensor:
        if not 0 <= index < len(self._graph.tensors):
            raise ValueError(f"no tensor {index}: there are {len(self._graph.tensors)} tensors")
        return self._graph.tensors[index]

    def _input(self, index: int) -> Tensor:
        tensor = self._tensor(index)
        if index not in self._graph.inputs:
            raise ValueError(
                f"tensor {index} {tensor.name!r} is no input: the inputs are "
                f"{list(self._graph.inputs)}"
            )
        return tensor

    def _array(self, index: int) -> Array:
        tensor = self._tensor(index)
        if tensor.is_constant:
            return tensor.array()
        if not self._is_on_host(tensor):
            raise ValueError(
                f"tensor {index} {tensor.name!r} stays on the GPU: only the inputs "
                f"{list(self._graph.inputs)}, the outputs {list(self._graph.outputs)} and "
                "constants can be read"
            )
        if index not in self._arrays or not self._ready:
            raise ValueError("the interpreter is not ready: call allocate_tensors() first")
        if tensor.is_variable:
            self._require_delegation().read_variable(index, self._arrays[index])
        return self._arrays[index]

    def _is_on_host(self, tensor: Tensor) -> bool:
        """Whether the CPU has an array for it."""
        boundary = (*self._graph.inputs, *self._graph.outputs)
        return tensor.index in boundary or tensor.is_variable

    def _signature(self, tensor: Tensor) -> Shape:
        return tensor.shape_signature or self._shapes[tensor.index]

    def _details(self, tensor: Tensor) -> dict[str, Any]:
        quantization = tensor.quantization
        pairs = list(zip(quantization.scales, quantization.zero_points, strict=False))
        return {
            "name": tensor.name,
            "index": tensor.index,
            "shape": np.array(self._shapes[tensor.index], np.int32),
            "shape_signature": np.array(self._signature(tensor), np.int32),
            "dtype": _dtype(tensor),
            "quantization": pairs[0] if len(pairs) == 1 else (0.0, 0),
            "quantization_parameters": {
                "scales": np.array(quantization.scales, np.float32),
                "zero_points": np.array(quantization.zero_points, np.int32),
                "quantized_dimension": quantization.axis,
                "block_size": 0,
            },
            "sparsity_parameters": {},
        }


class SignatureRunner:
    """Calls a model by the names of its signature; from `Interpreter.get_signature_runner`."""

    def __init__(self, interpreter: Interpreter, signature: Signature) -> None:
        self._interpreter = interpreter
        self._signature = signature

    def __call__(self, **inputs: Any) -> dict[str, Array]:
        """Run on named arrays; inputs are resized to the arrays' shapes.

        Returns:
            The outputs by name.

        Raises:
            ValueError: Names are missing or unknown, or a dtype is wrong.
        """
        wanted = self._signature.inputs
        if inputs.keys() != wanted.keys():
            raise ValueError(f"expected the inputs {sorted(wanted)}, found {sorted(inputs)}")
        arrays = {index: np.asarray(inputs[name]) for name, index in wanted.items()}
        for index, array in arrays.items():
            self._interpreter.resize_tensor_input(index, array.shape)
        self._interpreter.allocate_tensors()
        for index, array in arrays.items():
            self._interpreter.set_tensor(index, array)
        self._interpreter.invoke()
        outputs = self._signature.outputs
        return {name: self._interpreter.get_tensor(index) for name, index in outputs.items()}

    def get_input_details(self) -> dict[str, dict[str, Any]]:
        """The signature's inputs by name, as LiteRT describes them."""
        return self._named(self._signature.inputs)

    def get_output_details(self) -> dict[str, dict[str, Any]]:
        """The signature's outputs by name, as LiteRT describes them."""
        return self._named(self._signature.outputs)

    def _named(self, names: Mapping[str, int]) -> dict[str, dict[str, Any]]:
        details = {d["index"]: d for d in self._interpreter.get_tensor_details()}
        return {name: details[index] for name, index in names.items()}


class _ResizeError(ValueError, RuntimeError):
    """Both, as `Interpreter.resize_tensor_input` explains."""


_STAND_INS: dict[str, type[Any]] = {
    "string": np.bytes_,
    "resource": np.object_,
    "variant": np.object_,
    "int4": np.int8,
}


def _dtype(tensor: Tensor) -> Any:
    """The numpy type that LiteRT shows for a tensor's type; None if it shows none."""
    return _STAND_INS.get(tensor.dtype) or np.sctypeDict.get(tensor.dtype)


def _require_first(subgraph_index: int) -> None:
    if subgraph_index != 0:
        raise ValueError(f"expected subgraph 0, found {subgraph_index}: only the first one runs")
