"""The C structures of tflite/core/c/common.h (LiteRT 2.1 to 2.3), as far as they are used."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    addressof,
    c_bool,
    c_char_p,
    c_float,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
    sizeof,
)
from typing import Any

from gles_delegate.errors import LiteRtError
from gles_delegate.model.dtypes import LITERT_TYPES

OK, ERROR = 0, 1
MMAP_RO, DYNAMIC = 1, 4
"""Allocation types: of constants, and of tensors that a run sizes."""

ALLOW_DYNAMIC_TENSORS = 1


class IntArray(Structure):
    _fields_ = (("size", c_int), ("first", c_int * 0))


class TfLiteTensor(Structure):
    _fields_ = (
        ("type", c_int),
        ("data", c_void_p),
        ("dims", POINTER(IntArray)),
        ("scale", c_float),
        ("zero_point", c_int32),
        ("allocation_type", c_int),
        ("bytes", c_size_t),
        ("allocation", c_void_p),
        ("name", c_void_p),
        ("delegate", c_void_p),
        ("buffer_handle", c_int),
        ("data_is_stale", c_bool),
        ("is_variable", c_bool),
        ("quantization_type", c_int),
        ("quantization_params", c_void_p),
        ("sparsity", c_void_p),
        ("dims_signature", POINTER(IntArray)),
    )


class TfLiteNode(Structure):
    _fields_ = (
        ("inputs", POINTER(IntArray)),
        ("outputs", POINTER(IntArray)),
        ("intermediates", POINTER(IntArray)),
        ("temporaries", POINTER(IntArray)),
        ("user_data", c_void_p),
    )


class TfLiteContext(Structure):
    pass


class TfLiteDelegate(Structure):
    pass


class TfLiteDelegateParams(Structure):
    _fields_ = (
        ("delegate", POINTER(TfLiteDelegate)),
        ("nodes", POINTER(IntArray)),
        ("inputs", POINTER(IntArray)),
        ("outputs", POINTER(IntArray)),
    )


PrepareCallback = CFUNCTYPE(c_int, POINTER(TfLiteContext), POINTER(TfLiteDelegate))
InitCallback = CFUNCTYPE(c_void_p, POINTER(TfLiteContext), POINTER(TfLiteDelegateParams), c_size_t)
FreeCallback = CFUNCTYPE(None, POINTER(TfLiteContext), c_void_p)
KernelCallback = CFUNCTYPE(c_int, POINTER(TfLiteContext), POINTER(TfLiteNode))


class TfLiteRegistration(Structure):
    _fields_ = (
        ("init", InitCallback),
        ("free", FreeCallback),
        ("prepare", KernelCallback),
        ("invoke", KernelCallback),
        ("profiling_string", c_void_p),
        ("builtin_code", c_int32),
        ("custom_name", c_char_p),
        ("version", c_int),
        ("registration_external", c_void_p),
        ("async_kernel", c_void_p),
        ("inplace_operator", c_uint64),
    )


TfLiteDelegate._fields_ = (
    ("data", c_void_p),
    ("prepare", PrepareCallback),
    ("copy_from_buffer_handle", c_void_p),
    ("copy_to_buffer_handle", c_void_p),
    ("free_buffer_handle", c_void_p),
    ("flags", c_int64),
    ("opaque_delegate_builder", c_void_p),
)
TfLiteContext._fields_ = (
    ("tensors_size", c_size_t),
    ("get_execution_plan", CFUNCTYPE(c_int, POINTER(TfLiteContext), POINTER(POINTER(IntArray)))),
    ("tensors", POINTER(TfLiteTensor)),
    ("impl", c_void_p),
    ("resize_tensor", CFUNCTYPE(c_int, POINTER(TfLiteContext), POINTER(TfLiteTensor), c_void_p)),
    ("report_error", CFUNCTYPE(None, POINTER(TfLiteContext), c_char_p, c_char_p)),
    ("add_tensors", c_void_p),
    (
        "get_node_and_registration",
        CFUNCTYPE(
            c_int,
            POINTER(TfLiteContext),
            c_int,
            POINTER(POINTER(TfLiteNode)),
            POINTER(POINTER(TfLiteRegistration)),
        ),
    ),
    (
        "replace_node_subsets",
        CFUNCTYPE(
            c_int,
            POINTER(TfLiteContext),
            TfLiteRegistration,
            POINTER(IntArray),
            POINTER(TfLiteDelegate),
        ),
    ),
    ("recommended_num_threads", c_int),
    ("get_external_context", c_void_p),
    ("set_external_context", c_void_p),
    ("allow_fp32_relax_to_fp16", c_bool),
    ("profiler", c_void_p),
    ("allocate_persistent_buffer", c_void_p),
    ("allocate_buffer_for_eval", c_void_p),
    ("request_scratch_buffer_in_arena", c_void_p),
    ("get_scratch_buffer", c_void_p),
    ("resize_tensor_explicit", c_void_p),
    ("preview_delegate_partitioning", c_void_p),
    ("get_tensor", c_void_p),
    ("get_eval_tensor", c_void_p),
    ("get_model_metadata", c_void_p),
    (
        "acquire_subgraph_context",
        CFUNCTYPE(c_int, POINTER(TfLiteContext), c_int, POINTER(POINTER(TfLiteContext))),
    ),
    ("release_subgraph_context", CFUNCTYPE(c_int, POINTER(TfLiteContext), c_int)),
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
    malloc.restype, malloc.argtypes = c_void_p, [c_size_t]
    array = (c_int * (1 + len(ints)))(len(ints), *ints)
    address: int | None = malloc(sizeof(array))
    if not address:
        raise MemoryError(f"no room for {sizeof(array)} bytes")
    ctypes.memmove(address, array, sizeof(array))
    return address
