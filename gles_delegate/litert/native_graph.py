"""The graph in LiteRT's interpreter, as a delegate sees it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from ctypes import POINTER, addressof, byref, c_int, c_ubyte, cast
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import unpack
from typing import Any

import numpy as np

from gles_delegate.errors import LiteRtError
from gles_delegate.litert.abi import (
    DYNAMIC,
    MMAP_RO,
    IntArray,
    TfLiteContext,
    TfLiteRegistration,
    allocated_ints,
    ints,
    require_ok,
    type_name,
)
from gles_delegate.model.flatbuffer import Content
from gles_delegate.model.graph import Array, Graph
from gles_delegate.model.reader import landmarks, read_content, read_model
from gles_delegate.model.schema import FILE_IDENTIFIER

_CHUNK = 1 << 20
_ALIGNMENT = 16  # alignment of constants in a model's file, in bytes


class NativeGraph:
    """The graph in LiteRT's interpreter; valid only during a callback."""

    def __init__(self, context: Any) -> None:
        self._context = context

    def shape(self, index: int) -> tuple[int, ...]:
        return ints(self._tensor(index).dims)

    def array(self, index: int) -> Array:
        """A tensor's memory, which LiteRT may move before the next callback."""
        tensor = self._tensor(index)
        if not tensor.data and tensor.bytes:
            raise LiteRtError(f"LiteRT has allocated no memory for tensor {index}")
        memory: Any = (c_ubyte * tensor.bytes).from_address(tensor.data or 0)
        array: Array = np.ndarray(ints(tensor.dims), type_name(tensor.type), memory)
        return array

    def resize(self, index: int, shape: tuple[int, ...]) -> None:
        """Resize a tensor; LiteRT allocates it afterwards."""
        tensor = byref(self._tensor(index))
        sizes = allocated_ints(shape)
        status = self._context.contents.resize_tensor(self._context, tensor, sizes)
        require_ok(status, "ResizeTensor")

    def make_dynamic(self, index: int) -> None:
        """Make LiteRT allocate a tensor when a run resizes it."""
        tensor = self._tensor(index)
        if tensor.allocation_type != DYNAMIC:
            tensor.allocation_type = DYNAMIC
            tensor.data = None

    def report(self, message: str) -> None:
        """Report a message, which LiteRT quotes in its next error."""
        self._context.contents.report_error(self._context, b"%s", message.encode())

    def replace(self, nodes: Sequence[int], kernel: TfLiteRegistration, delegate: Any) -> None:
        array = (c_int * (1 + len(nodes)))(len(nodes), *nodes)
        pointer = cast(array, POINTER(IntArray))
        context = self._context
        status = context.contents.replace_node_subsets(context, kernel, pointer, delegate)
        require_ok(status, "ReplaceNodeSubsetsWithDelegateKernels")

    def subgraphs(self, count: int) -> list[NativeGraph]:
        """The first `count` subgraphs of the model; this must be the first one."""
        context = self._context.contents
        graphs = [self]
        for index in range(1, count):
            pointer = POINTER(TfLiteContext)()
            status = context.acquire_subgraph_context(self._context, index, byref(pointer))
            require_ok(status, "AcquireSubgraphContext")
            graphs.append(NativeGraph(pointer))
            status = context.release_subgraph_context(self._context, index)
            require_ok(status, "ReleaseSubgraphContext")
        return graphs

    @property
    def address(self) -> int:
        return addressof(self._context.contents)

    def set_weights(self, graph: Graph) -> list[Array]:
        """Pass external weights to LiteRT, whose interpreter does not read them itself.

        Returns:
            Memory that must live as long as the interpreter.
        """
        arrays: list[Array] = []
        for constant in graph.tensors:
            if constant.data is not None and constant.is_external:
                data = constant.data
                if data.ctypes.data % _ALIGNMENT:
                    data = data.copy()
                tensor = self._tensor(constant.index)
                tensor.data = data.ctypes.data
                tensor.bytes = data.nbytes
                tensor.allocation_type = MMAP_RO
                arrays.append(data)
        return arrays

    def require_same(self, graph: Graph) -> None:
        """Raise LiteRtError if LiteRT has not loaded the same bytes as the delegate.

        LiteRT's tensors point to names and constants in its copy of the file, so one of these
        addresses locates that copy.
        """
        different = self._first_difference(graph)
        if different is not None:
            raise LiteRtError(
                "LiteRT has another model than the delegate: their files differ from byte "
                f"{different} on; give both the same file"
            )

    def read(self, address: int) -> Graph:
        """The model whose first subgraph this is, from its bytes at an address."""
        mapping = _mapping_of(address)
        if mapping is None or _memory_at(address, 8)[4:] != FILE_IDENTIFIER:
            raise LiteRtError("expected a model at the address that LiteRT gave, found none")
        mapped = _mapped_content(mapping, address)
        if mapped:
            return read_model(*mapped)
        # Without constants the size is unknown; extra bytes after the model are harmless.
        sizes = (size for word, size in self._allocations() if word == address)
        size = next(sizes, 0) or min(mapping.end - address, _CHUNK)
        return read_model(_memory_at(address, size))

    def address_of_model(self) -> int:
        """The address of the model's bytes; raises LiteRtError if they are not found."""
        for word, _ in self._allocations():
            if _memory_at(word, 8)[4:] == FILE_IDENTIFIER:
                return word
        names = (self._tensor(i).name for i in range(self._context.contents.tensors_size))
        for name in filter(None, names):
            if found := _identifier_before(name):
                return found
        raise LiteRtError(
            "cannot find the model in LiteRT's memory, since it has neither constants nor names of "
            "tensors"
        )

    def _allocations(self) -> Iterator[tuple[int, int]]:
        """Words that follow each other where the constants' tflite::Allocations are.

        Each constant points to one, which holds its address and size side by side.
        """
        tensors = (self._tensor(i) for i in range(self._context.contents.tensors_size))
        for allocation in {tensor.allocation for tensor in tensors if tensor.allocation}:
            yield from pairwise(unpack("8Q", _memory_at(allocation, 64).ljust(64, b"\0")))

    def require_nodes(self, nodes: Sequence[int]) -> None:
        """Raise LiteRtError if another delegate has taken any of these nodes."""
        taken = set(nodes).difference(self._execution_plan())
        if taken:
            raise LiteRtError(
                f"LiteRT does not run node {min(taken)}: another delegate took it; put the "
                "GpuDelegate first"
            )

    def _first_difference(self, graph: Graph) -> int | None:
        """The first byte where LiteRT's file differs from the graph's; None if they are equal."""
        landmark = next(landmarks(graph), None)
        if landmark is None:
            raise LiteRtError(
                "cannot compare LiteRT's model with the delegate's: it has neither constants nor "
                "names of tensors"
            )
        index, field, position = landmark
        if index >= self._context.contents.tensors_size:
            return 0
        base = (getattr(self._tensor(index), field) or 0) - position
        content = graph.content
        if isinstance(content, memoryview):
            file = _mapped_file(np.frombuffer(content, np.uint8).ctypes.data)
            if file is not None and file == _mapped_file(base):
                return None
        # If LiteRT has another model, the address may be invalid.
        for start in range(0, len(content), _CHUNK):
            expected = bytes(content[start : start + _CHUNK])
            loaded = _memory_at(base + start, len(expected))
            if loaded != expected:
                pairs = zip(loaded, expected, strict=False)
                return start + next((i for i, (a, b) in enumerate(pairs) if a != b), len(loaded))
        return None

    def _execution_plan(self) -> tuple[int, ...]:
        plan = POINTER(IntArray)()
        status = self._context.contents.get_execution_plan(self._context, byref(plan))
        require_ok(status, "GetExecutionPlan")
        return ints(plan)

    def _tensor(self, index: int) -> Any:
        size = self._context.contents.tensors_size
        if not 0 <= index < size:
            raise LiteRtError(f"LiteRT has {size} tensors; expected one of index {index}")
        return self._context.contents.tensors[index]


def _memory_at(address: int, size: int) -> bytes:
    """Bytes of this process's memory: fewer where it ends, none at an invalid address."""
    with open("/proc/self/mem", "rb", 0) as memory:
        try:
            return os.pread(memory.fileno(), size, address)
        except (OSError, OverflowError, ValueError):
            return b""


@dataclass(frozen=True)
class _Mapping:
    """A mapping in this process's memory; `file` is its device and inode, or None."""

    start: int
    end: int
    offset: int
    file: tuple[str, str] | None
    path: str


def _mapping_of(address: int) -> _Mapping | None:
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, offset, device, inode, *path = line.split(maxsplit=5)
        start, end = (int(number, 16) for number in span.split("-"))
        if start <= address < end:
            file = None if inode == "0" else (device, inode)
            return _Mapping(start, end, int(offset, 16), file, "".join(path))
    return None


def _identifier_before(address: int) -> int:
    """The last address before another where a model's file may begin; 0 if there is none."""
    mapping = _mapping_of(address)
    if mapping is None:
        return 0
    end = address
    while end > mapping.start:
        start = max(mapping.start, end - _CHUNK)
        overlap = len(FILE_IDENTIFIER) - 1  # the identifier may lie in two chunks
        found = _memory_at(start, end + overlap - start).rfind(FILE_IDENTIFIER)
        if found >= 4:
            return start + found - 4
        end = start
    return 0


def _mapped_content(mapping: _Mapping, address: int) -> tuple[Content, Path] | None:
    """Bytes and folder of the file that is mapped from this address on."""
    if not mapping.file or (mapping.start, mapping.offset) != (address, 0):
        return None
    with suppress(OSError):
        file = Path(mapping.path)
        content = read_content(file)
        if content[:_CHUNK] == _memory_at(address, len(content[:_CHUNK])):  # it is still that file
            return content, file.parent
    return None


def _mapped_file(address: int) -> tuple[tuple[str, str], int] | None:
    """The file that is mapped at an address, and the offset of that byte."""
    mapping = _mapping_of(address)
    if mapping is None or mapping.file is None:
        return None
    return mapping.file, mapping.offset + address - mapping.start
