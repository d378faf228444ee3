"""A real TfLiteDelegate, with which LiteRT's own interpreter runs nodes on the GPU.

The structures are those of tflite/core/c/common.h (LiteRT 2.1 to 2.3), as far as they are used.
If a callback raises, it keeps the exception in `NativeDelegate.failure`, reports the message, which
LiteRT quotes in its interpreter's RuntimeError, and returns kTfLiteError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    byref,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_ubyte,
    c_uint64,
    c_void_p,
    cast,
    sizeof,
)
from itertools import count
from typing import Any, Protocol, TypeVar
from weakref import WeakValueDictionary

import numpy as np

from gles_delegate.dispatch import Shape
from gles_delegate.errors import LiteRtError
from gles_delegate.model.dtypes import LITERT_TYPES
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.model.schema import BUILTIN_OPERATORS

NAME = b"GlesDelegate"

_OK, _ERROR = 0, 1
_ALLOW_DYNAMIC_TENSORS = 1
_DELEGATE_OP = BUILTIN_OPERATORS.index("DELEGATE")


class Kernel(Protocol):
    """What runs on the GPU in the place of some nodes.

    Attributes:
        inputs: Indices of the tensors that it reads; known once it is prepared.
        outputs: Indices of the tensors that it writes; likewise.
        variables: Indices of the tensors that it reads and writes; likewise.
    """

    @property
    def inputs(self) -> tuple[int, ...]: ...
    @property
    def outputs(self) -> tuple[int, ...]: ...
    @property
    def variables(self) -> tuple[int, ...]: ...

    def prepare(self, shapes: Mapping[int, Shape]) -> Mapping[int, Shape]: ...
    def invoke_on(self, arrays: Mapping[int, Array]) -> None: ...


K = TypeVar("K", bound=Kernel)


class Model(Protocol[K]):
    """A model that a delegate has read, and the nodes that the GPU runs."""

    @property
    def graph(self) -> Graph: ...
    @property
    def delegated(self) -> Sequence[int]: ...

    def warn_of_split(self) -> None: ...
    def segment(self, nodes: Sequence[int]) -> K: ...
    def drop(self, segment: K) -> None: ...


class _IntArray(Structure):
    _fields_ = (("size", c_int), ("first", c_int * 0))


class _Tensor(Structure):
    _fields_ = (
        ("type", c_int),
        ("data", c_void_p),
        ("dims", POINTER(_IntArray)),
        ("scale", c_float),
        ("zero_point", c_int32),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_char_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization_type", c_int),
        ("quantization_params", c_void_p),
        ("sparsity", c_void_p),
        ("dims_signature", POINTER(_IntArray)),
    )


class _Node(Structure):
    _fields_ = (
        ("inputs", POINTER(_IntArray)),
        ("outputs", POINTER(_IntArray)),
        ("intermediates", POINTER(_IntArray)),
        ("temporaries", POINTER(_IntArray)),
        ("user_data", c_void_p),
    )


class _Context(Structure):
    pass


class _Delegate(Structure):
    pass


class _Params(Structure):
    _fields_ = (
        ("delegate", POINTER(_Delegate)),
        ("nodes", POINTER(_IntArray)),
        ("inputs", POINTER(_IntArray)),
        ("outputs", POINTER(_IntArray)),
    )


_Prepare = CFUNCTYPE(c_int, POINTER(_Context), POINTER(_Delegate))
_KernelInit = CFUNCTYPE(c_void_p, POINTER(_Context), POINTER(_Params), c_size_t)
_KernelFree = CFUNCTYPE(None, POINTER(_Context), c_void_p)
_KernelCall = CFUNCTYPE(c_int, POINTER(_Context), POINTER(_Node))


class _Registration(Structure):
    _fields_ = (
        ("init", _KernelInit),
        ("free", _KernelFree),
        ("prepare", _KernelCall),
        ("invoke", _KernelCall),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
    )


_Delegate._fields_ = (
    ("data", c_void_p),
    ("prepare", _Prepare),
    ("copy_from_buffer_handle", c_void_p),
    ("copy_to_buffer_handle", c_void_p),
    ("free_buffer_handle", c_void_p),
    ("flags", c_int64),
    ("opaque_delegate_builder", c_void_p),
)
_Context._fields_ = (
    ("tensors_size", c_size_t),
    ("get_execution_plan", CFUNCTYPE(c_int, POINTER(_Context), POINTER(POINTER(_IntArray)))),
    ("tensors", POINTER(_Tensor)),
    ("impl", c_void_p),
    ("resize_tensor", CFUNCTYPE(c_int, POINTER(_Context), POINTER(_Tensor), c_void_p)),
    ("report_error", CFUNCTYPE(None, POINTER(_Context), c_char_p, c_char_p)),
    ("add_tensors", c_void_p),
    (
        "get_node_and_registration",
        CFUNCTYPE(
            c_int,
            POINTER(_Context),
            c_int,
            POINTER(POINTER(_Node)),
            POINTER(POINTER(_Registration)),
        ),
    ),
    (
        "replace_node_subsets",
        CFUNCTYPE(c_int, POINTER(_Context), _Registration, POINTER(_IntArray), POINTER(_Delegate)),
    ),
)


class NativeGraph:
    """The graph that LiteRT's interpreter holds; valid during a callback only."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def shape(self, index: int) -> Shape:
        """The current shape of a tensor."""
        return _ints(self._tensor(index).dims)

    def array(self, index: int) -> Array:
        """A tensor's memory, which LiteRT may move before the next callback."""
        tensor = self._tensor(index)
        shape, dtype = _ints(tensor.dims), _type_name(tensor.type)
        array: Array = np.ndarray(shape, dtype, self._memory(index))
        return array

    def resize(self, index: int, shape: Shape) -> None:
        """Resize a tensor; LiteRT allocates it afterwards."""
        sizes = _allocated(shape)
        tensor = byref(self._tensor(index))
        _require(self._context.contents.resize_tensor(self._context, tensor, sizes), "ResizeTensor")

    def report(self, message: str) -> None:
        """Report a message, which LiteRT quotes in its interpreter's next error."""
        self._context.contents.report_error(self._context, b"%s", message.encode())

    def replace(self, nodes: Sequence[int], delegate: Any) -> None:
        """Replace the nodes by kernels of the delegate."""
        array = (c_int * (1 + len(nodes)))(len(nodes), *nodes)
        registration = _Registration(
            init=_KERNEL_INIT,
            free=_KERNEL_FREE,
            prepare=_KERNEL_PREPARE,
            invoke=_KERNEL_INVOKE,
            builtin_code=_DELEGATE_OP,
            custom_name=NAME,
            version=1,
        )
        pointer = cast(array, POINTER(_IntArray))
        status = self._context.contents.replace_node_subsets(
            self._context, registration, pointer, delegate
        )
        _require(status, "ReplaceNodeSubsetsWithDelegateKernels")

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
            tensors = _ints(found.inputs), _ints(found.outputs)
            self._compare(f"node {node.index}'s tensors", (node.inputs, node.outputs), tensors)
            for tensor in (graph.tensors[i] for i in {*node.inputs, *node.outputs} - {-1}):
                self._compare_tensor(tensor, tensor.is_constant or not resized)

    def _compare_tensor(self, tensor: Tensor, with_shape: bool) -> None:
        index = tensor.index
        found = self._tensor(index)
        self._compare(f"tensor {index}'s type", tensor.dtype, _type_name(found.type))
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

    def _execution_plan(self) -> Shape:
        plan = POINTER(_IntArray)()
        status = self._context.contents.get_execution_plan(self._context, byref(plan))
        _require(status, "GetExecutionPlan")
        return _ints(plan)

    def _node(self, index: int) -> tuple[Any, Any]:
        node, registration = POINTER(_Node)(), POINTER(_Registration)()
        get = self._context.contents.get_node_and_registration
        status = get(self._context, index, byref(node), byref(registration))
        _require(status, "GetNodeAndRegistration")
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


class NativeDelegate:
    """A TfLiteDelegate whose nodes the GPU runs; LiteRT's interpreter takes it as a delegate.

    Attributes:
        failure: What the last failed callback raised.

    Raises:
        LiteRtError: The installed LiteRT has another binary interface.
    """

    def __init__(self, model: Model[Any]) -> None:
        self.model = model
        self.failure: BaseException | None = None
        self._main: int | None = None
        self._was_claimed = False
        key = next(_keys)
        _delegates[key] = self
        self._struct = _Delegate(data=key, prepare=_PREPARE, flags=_ALLOW_DYNAMIC_TENSORS)

    def _get_native_delegate_pointer(self) -> int:
        """The address of the structure, which lives as long as this object or a kernel of it."""
        return addressof(self._struct)

    def claim(self, context: Any, pointer: Any) -> None:
        """Take those nodes of the first subgraph that the GPU runs.

        Raises:
            LiteRtError: The interpreter's model is not this one.
        """
        address = addressof(context.contents)
        if self._main is None:  # LiteRT begins with the first subgraph
            self._main = address
        if address != self._main:
            return
        graph, nodes = NativeGraph(context), self.model.delegated
        graph.require_same(self.model.graph, nodes, resized=self._was_claimed)
        if not self._was_claimed:
            self.model.warn_of_split()
        self._was_claimed = True
        if nodes:
            graph.replace(nodes, pointer)

    def answer(self, context: Any, function: Callable[[], None]) -> int:
        """Call a function, and return the status for LiteRT."""
        try:
            function()
        except BaseException as error:  # LiteRT knows statuses only
            self.failure = error
            NativeGraph(context).report(f"{type(error).__name__}: {error}\n")
            return _ERROR
        return _OK


class _NativeKernel:
    """A kernel as LiteRT calls it."""

    def __init__(self, owner: NativeDelegate, nodes: Sequence[int]) -> None:
        self.owner = owner
        self._kernel: Kernel = owner.model.segment(nodes)
        self._shapes: dict[int, Shape] | None = None

    def prepare(self, graph: NativeGraph, node: Any) -> None:
        shapes = {i: graph.shape(i) for i in _ints(node.inputs)}
        if shapes != self._shapes:
            self._found = self._kernel.prepare(shapes)
            self._shapes = shapes
        for index in _ints(node.outputs):
            if graph.shape(index) != self._found[index]:
                graph.resize(index, self._found[index])

    def invoke(self, graph: NativeGraph) -> None:
        kernel = self._kernel
        indices = (*kernel.inputs, *kernel.outputs, *kernel.variables)
        kernel.invoke_on({index: graph.array(index) for index in indices})

    def close(self) -> None:
        self.owner.model.drop(self._kernel)


# Keyed by the number in `data` and `user_data`: an address could outlive its object.
_keys = count(1)
_delegates: WeakValueDictionary[int, NativeDelegate] = WeakValueDictionary()
_kernels: dict[int, _NativeKernel] = {}


def _prepare(context: Any, pointer: Any) -> int:
    delegate = _delegates[pointer.contents.data]
    return delegate.answer(context, lambda: delegate.claim(context, pointer))


def _kernel_init(context: Any, params: Any, length: int) -> int | None:
    owner = _delegates[params.contents.delegate.contents.data]
    key = next(_keys)

    def init() -> None:
        _kernels[key] = _NativeKernel(owner, _ints(params.contents.nodes))

    return None if owner.answer(context, init) else key


def _kernel_free(context: Any, key: int | None) -> None:
    kernel = _kernels.pop(key or 0, None)
    if kernel is not None:
        # On the wrong thread, its GL objects stay until the delegate is closed.
        with suppress(Exception):
            kernel.close()


def _kernel_prepare(context: Any, node: Any) -> int:
    kernel = _kernels.get(node.contents.user_data or 0)
    if kernel is None:
        return _ERROR
    return kernel.owner.answer(context, lambda: kernel.prepare(NativeGraph(context), node.contents))


def _kernel_invoke(context: Any, node: Any) -> int:
    kernel = _kernels[node.contents.user_data]
    return kernel.owner.answer(context, lambda: kernel.invoke(NativeGraph(context)))


# Never freed: LiteRT may call them for as long as an interpreter lives.
_PREPARE = _Prepare(_prepare)
_KERNEL_INIT = _KernelInit(_kernel_init)
_KERNEL_FREE = _KernelFree(_kernel_free)
_KERNEL_PREPARE = _KernelCall(_kernel_prepare)
_KERNEL_INVOKE = _KernelCall(_kernel_invoke)


def _require(status: int, what: str) -> None:
    if status != _OK:
        raise LiteRtError(f"LiteRT refused {what}")


def _type_name(number: int) -> str:
    return LITERT_TYPES.get(number, f"type {number}")


def _ints(array: Any) -> Shape:
    """The elements of a TfLiteIntArray."""
    if not array:
        return ()
    size = array.contents.size
    return tuple((c_int * size).from_address(addressof(array.contents) + sizeof(c_int)))


def _allocated(ints: Sequence[int]) -> int:
    """A TfLiteIntArray that LiteRT frees with the C library's free()."""
    malloc = ctypes.CDLL(None).malloc
    malloc.restype, malloc.argtypes = c_void_p, [c_size_t]
    array = (c_int * (1 + len(ints)))(len(ints), *ints)
    address: int | None = malloc(sizeof(array))
    if not address:
        raise MemoryError(f"no room for {sizeof(array)} bytes")
    ctypes.memmove(address, array, sizeof(array))
    return address
