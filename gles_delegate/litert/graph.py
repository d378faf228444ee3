"""The graph that LiteRT's interpreter holds, as a delegate sees it."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import (
    POINTER,
    byref,
    c_int,
    c_ubyte,
    cast,
)
from typing import Any

import numpy as np

from gles_delegate.errors import LiteRtError
from gles_delegate.litert.abi import (
    IntArray,
    TfLiteNode,
    TfLiteRegistration,
    allocated_ints,
    ints,
    require_ok,
    type_name,
)
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.model.schema import BUILTIN_OPERATORS


class NativeGraph:
    """The graph that LiteRT's interpreter holds; valid during a callback only."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def shape(self, index: int) -> tuple[int, ...]:
        """The current shape of a tensor."""
        return ints(self._tensor(index).dims)

    def array(self, index: int) -> Array:
        """A tensor's memory, which LiteRT may move before the next callback."""
        tensor = self._tensor(index)
        shape, dtype = ints(tensor.dims), type_name(tensor.type)
        array: Array = np.ndarray(shape, dtype, self._memory(index))
        return array

    def resize(self, index: int, shape: tuple[int, ...]) -> None:
        """Resize a tensor; LiteRT allocates it afterwards."""
        sizes = allocated_ints(shape)
        tensor = byref(self._tensor(index))
        require_ok(
            self._context.contents.resize_tensor(self._context, tensor, sizes), "ResizeTensor"
        )

    def report(self, message: str) -> None:
        """Report a message, which LiteRT quotes in its interpreter's next error."""
        self._context.contents.report_error(self._context, b"%s", message.encode())

    def replace(
        self, nodes: Sequence[int], registration: TfLiteRegistration, delegate: Any
    ) -> None:
        """Replace the nodes by kernels of the delegate."""
        array = (c_int * (1 + len(nodes)))(len(nodes), *nodes)
        pointer = cast(array, POINTER(IntArray))
        status = self._context.contents.replace_node_subsets(
            self._context, registration, pointer, delegate
        )
        require_ok(status, "ReplaceNodeSubsetsWithDelegateKernels")

    def require_same(self, graph: Graph, nodes: Sequence[int], resized: bool = False) -> None:
        """Check that this graph is the one that the delegate read.

        Args:
            nodes: Compare these nodes and their tensors; constants byte by byte.
            resized: Inputs may have been resized since the model was loaded.

        Raises:
            LiteRtError: They differ, or another delegate has taken a node.
        """
        taken = set(nodes).difference(self._execution_plan())
        if taken:
            raise LiteRtError(
                f"LiteRT does not run node {min(taken)}: it has another model, or another delegate "
                "took the node; give the GpuDelegate the same file, and put it first"
            )
        for node in (graph.nodes[index] for index in nodes):
            found, registration = self._node(node.index)
            code = registration.builtin_code
            op = BUILTIN_OPERATORS[code] if 0 <= code < len(BUILTIN_OPERATORS) else f"op {code}"
            if op == "CUSTOM":
                op = (registration.custom_name or b"").decode()
            expected = node.op, node.version
            self._compare(f"node {node.index}", expected, (op, registration.version))
            tensors = ints(found.inputs), ints(found.outputs)
            self._compare(f"node {node.index}'s tensors", (node.inputs, node.outputs), tensors)
            for tensor in (graph.tensors[i] for i in {*node.inputs, *node.outputs} - {-1}):
                self._compare_tensor(tensor, tensor.is_constant or not resized)

    def _compare_tensor(self, tensor: Tensor, with_shape: bool) -> None:
        index = tensor.index
        found = self._tensor(index)
        self._compare(f"tensor {index}'s type", tensor.dtype, type_name(found.type))
        if with_shape:
            self._compare(f"tensor {index}'s shape", tensor.shape, self.shape(index))
        if tensor.data is not None:
            self._compare(f"tensor {index}'s bytes", tensor.data.nbytes, found.bytes)
            values = np.ndarray(found.bytes, np.uint8, self._memory(index))
            if not np.array_equal(tensor.data, values):
                self._compare(f"tensor {index}'s values", "those of the file", "others")

    def _compare(self, what: str, expected: object, found: object) -> None:
        if expected != found:
            raise LiteRtError(
                f"LiteRT has another model than the delegate: expected {what} to be {expected}, "
                f"found {found}; give both the same file"
            )

    def _execution_plan(self) -> tuple[int, ...]:
        plan = POINTER(IntArray)()
        status = self._context.contents.get_execution_plan(self._context, byref(plan))
        require_ok(status, "GetExecutionPlan")
        return ints(plan)

    def _node(self, index: int) -> tuple[Any, Any]:
        node, registration = POINTER(TfLiteNode)(), POINTER(TfLiteRegistration)()
        get = self._context.contents.get_node_and_registration
        status = get(self._context, index, byref(node), byref(registration))
        require_ok(status, "GetNodeAndRegistration")
        return node.contents, registration.contents

    def _memory(self, index: int) -> Any:
        """The bytes of a tensor."""
        tensor = self._tensor(index)
        if not tensor.data and tensor.bytes:
            raise LiteRtError(f"LiteRT has allocated no memory for tensor {index}")
        return (c_ubyte * tensor.bytes).from_address(tensor.data or 0)

    def _tensor(self, index: int) -> Any:
        size = self._context.contents.tensors_size
        if not 0 <= index < size:
            raise LiteRtError(f"LiteRT has {size} tensors; expected one of index {index}")
        return self._context.contents.tensors[index]
