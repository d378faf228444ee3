"""The C structures of tflite/core/c/common.h (LiteRT 2.1 to 2.3), as far as they are used."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, Structure, addressof, c_int, c_size_t, c_void_p, sizeof
from typing import Any

from gles_delegate.errors import LiteRtError
from gles_delegate.model.dtypes import LITERT_TYPES

OK, ERROR = 0, 1
MMAP_RO, DYNAMIC = 1, 4  # allocation types of constants, and of tensors that are sized during a run
ALLOW_DYNAMIC_TENSORS = 1


def _pointers(*names: str) -> tuple[tuple[str, Any], ...]:
    """Fields that hold addresses; most of them are never read."""
    return tuple((name, c_void_p) for name in names)


class IntArray(Structure):
    _fields_ = (("size", c_int), ("first", c_int * 0))


_Ints = POINTER(IntArray)


class TfLiteTensor(Structure):
    _fields_ = (
        ("type", c_int),
        ("data", c_void_p),
        ("dims", _Ints),
        ("scale", ctypes.c_float),
        ("zero_point", ctypes.c_int32),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        *_pointers("allocation", "name", "delegate"),
        ("buffer_handle", c_int),
        ("data_is_stale", ctypes.c_bool),
        ("is_variable", ctypes.c_bool),
        ("quantization_type", c_int),
        *_pointers("quantization_params", "sparsity"),
        ("dims_signature", _Ints),
    )


class TfLiteNode(Structure):
    _fields_ = (
        *((name, _Ints) for name in ("inputs", "outputs", "intermediates", "temporaries")),
        ("user_data", c_void_p),
    )


class TfLiteContext(Structure):
    pass


class TfLiteDelegate(Structure):
    pass


_Context, _Delegate, _Node = POINTER(TfLiteContext), POINTER(TfLiteDelegate), POINTER(TfLiteNode)


class TfLiteDelegateParams(Structure):
    _fields_ = (("delegate", _Delegate), ("nodes", _Ints), ("inputs", _Ints), ("outputs", _Ints))


PrepareCallback = CFUNCTYPE(c_int, _Context, _Delegate)
InitCallback = CFUNCTYPE(c_void_p, _Context, POINTER(TfLiteDelegateParams), c_size_t)
FreeCallback = CFUNCTYPE(None, _Context, c_void_p)
KernelCallback = CFUNCTYPE(c_int, _Context, _Node)


class TfLiteRegistration(Structure):
    _fields_ = (
        ("init", InitCallback),
        ("free", FreeCallback),
        ("prepare", KernelCallback),
        ("invoke", KernelCallback),
        ("profiling_string", c_void_p),
        ("builtin_code", ctypes.c_int32),
        ("custom_name", ctypes.c_char_p),
        ("version", c_int),
        *_pointers("registration_external", "async_kernel"),
        ("inplace_operator", ctypes.c_uint64),
    )


TfLiteDelegate._fields_ = (
    ("data", c_void_p),
    ("prepare", PrepareCallback),
    *_pointers("copy_from_buffer_handle", "copy_to_buffer_handle", "free_buffer_handle"),
    ("flags", ctypes.c_int64),
    ("opaque_delegate_builder", c_void_p),
)
TfLiteContext._fields_ = (
    ("tensors_size", c_size_t),
    ("get_execution_plan", CFUNCTYPE(c_int, _Context, POINTER(_Ints))),
    ("tensors", POINTER(TfLiteTensor)),
    ("impl", c_void_p),
    ("resize_tensor", CFUNCTYPE(c_int, _Context, POINTER(TfLiteTensor), c_void_p)),
    ("report_error", CFUNCTYPE(None, _Context, ctypes.c_char_p, ctypes.c_char_p)),
    *_pointers("add_tensors", "get_node_and_registration"),
    ("replace_node_subsets", CFUNCTYPE(c_int, _Context, TfLiteRegistration, _Ints, _Delegate)),
    ("recommended_num_threads", c_int),
    *_pointers("get_external_context", "set_external_context"),
    ("allow_fp32_relax_to_fp16", ctypes.c_bool),
    *_pointers("profiler", "allocate_persistent_buffer", "allocate_buffer_for_eval"),
    *_pointers("request_scratch_buffer_in_arena", "get_scratch_buffer", "resize_tensor_explicit"),
    *_pointers("preview_delegate_partitioning", "get_tensor", "get_eval_tensor"),
    ("get_model_metadata", c_void_p),
    ("acquire_subgraph_context", CFUNCTYPE(c_int, _Context, c_int, POINTER(_Context))),
    ("release_subgraph_context", CFUNCTYPE(c_int, _Context, c_int)),
)


def require_ok(status: int, what: str) -> None:
    if status != OK:
        raise LiteRtError(f"LiteRT refused {what}")


def type_name(number: int) -> str:
    return LITERT_TYPES.get(number, f"type {number}")


def ints(array: Any) -> tuple[int, ...]:
    """The elements of a TfLiteIntArray."""
    if not array:
        return ()
    size = array.contents.size
    return tuple((c_int * size).from_address(addressof(array.contents) + sizeof(c_int)))


def allocated_ints(ints: Sequence[int]) -> int:
    """A TfLiteIntArray that LiteRT frees with the C library's free()."""
    malloc = ctypes.CDLL(None).malloc
    malloc.restype = c_void_p
    malloc.argtypes = [c_size_t]
    array = (c_int * (1 + len(ints)))(len(ints), *ints)
    address: int | None = malloc(sizeof(array))
    if not address:
        raise MemoryError(f"no room for {sizeof(array)} bytes")
    ctypes.memmove(address, array, sizeof(array))
    return address
