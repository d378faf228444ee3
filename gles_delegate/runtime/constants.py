"""Packed constants on the GPU."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import TexelBuffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.texture import TexelTexture
from gles_delegate.model.graph import Array, Graph, Tensor
from gles_delegate.runtime.naming import name_constant
from gles_delegate.runtime.store import Store, fingerprint
from gles_delegate.shaders.dispatch import TEXTURE_WIDTH, Const, Kind

DTYPES: dict[Kind, type[np.generic]] = {"float": np.float32, "int": np.int32, "half": np.float16}
"""numpy's type of a lane, by kind."""

Packed: TypeAlias = TexelBuffer | TexelTexture


@dataclass
class _PooledConstant:
    """A packed constant, and the data it was packed from, which keeps its address unique."""

    packed: Packed
    data: tuple[Array | None, ...]

    def release(self) -> None:
        self.packed.release()


class Constants:
    """The packed constants that the sessions of a model share; each lives as long as its users.

    Subgraphs that share weights have separate tensors with the same bytes of the file. Models in
    one `EglContext` share constants of equal bytes. Every method runs on the delegate's thread,
    inside the guard.
    """

    def __init__(self, gpu: GpuContext) -> None:
        self._gpu = gpu
        self._pool = gpu.pool
        self._with_images = gpu.limits.has_images
        self._keys: dict[Packed, Hashable] = {}
        self._users: Counter[Packed] = Counter()
        self._digests: dict[tuple[int, int], tuple[Array, str]] = {}

    @property
    def nbytes(self) -> int:
        return sum(packed.size for packed in self._keys)

    def take(self, const: Const, graph: Graph, store: Store | None) -> Packed:
        """The constant, from the store if it has it; call `give_back` once for each call."""
        key = self._key(const, graph)
        packed = self._pool.take(key, lambda: self._made(const, graph, store)).packed
        self._keys[packed] = key
        self._users[packed] += 1
        return packed

    def give_back(self, packed: Packed) -> None:
        """Free it unless it has other users."""
        key = self._keys[packed]
        self._users[packed] -= 1
        if not self._users[packed]:
            del self._keys[packed], self._users[packed]
        self._pool.give_back(key)

    def _made(self, const: Const, graph: Graph, store: Store | None) -> _PooledConstant:
        gl = self._gpu.gl
        data = self._data(const, graph, store)
        packed: Packed
        if const.texture:
            packed = TexelTexture(gl, data, const.kind == "half", TEXTURE_WIDTH)
        else:
            packed = TexelBuffer(gl, data, self._with_images)
        kind = gl_names.TEXTURE_OBJECT if const.texture else gl_names.BUFFER_OBJECT
        gl.label(kind, packed.name, name_constant(const, graph))
        return _PooledConstant(
            packed, tuple(graph.tensors[t].data for t in const.tensors if t >= 0)
        )

    def _data(self, const: Const, graph: Graph, store: Store | None) -> bytes | memoryview:
        function = (const.pack.__module__, const.pack.__qualname__)
        tensors = [graph.tensors[t] for t in const.tensors if t >= 0]
        # Data that planning computed depends on shapes and values.
        derived = [bytes(t.data) for t in tensors if t.is_derived and t.data is not None]
        layout = const.tensors, const.shape, const.args, const.kind
        key = fingerprint(*function, graph.index, *layout, *derived)
        data = store.get(key, const.nbytes or 16) if store else None
        if data is None:
            data = _packed(const, graph)
            if store:
                store.add(key, data)
        return data

    def _key(self, const: Const, graph: Graph) -> Hashable:
        """Everything that determines the packed bytes."""
        tensors: list[Hashable] = []
        for index in const.tensors:
            tensor = graph.tensors[index] if index >= 0 else None
            if tensor is None or tensor.data is None:
                tensors.append(None)
            else:
                content = self._content(tensor, tensor.data, graph)
                tensors.append((content, tensor.dtype, tensor.shape, tensor.quantization))
        return replace(const, tensors=()), tuple(tensors), self._with_images

    def _content(self, tensor: Tensor, data: Array, graph: Graph) -> Hashable:
        """The address of a constant's bytes, or their digest if other models may have the same."""
        span = data.ctypes.data, data.nbytes
        if tensor.sparsity is not None:
            return *span, graph.index, tensor.index
        if tensor.is_derived or not self._pool.is_shared:
            return span
        if span not in self._digests:
            self._digests[span] = data, fingerprint(data.data)
        return self._digests[span][1]


class ZeroConstants(Constants):
    """Constants without content, for which programs compile alike and take as long."""

    def _data(self, const: Const, graph: Graph, store: Store | None) -> bytes:
        return bytes(const.nbytes or 16)

    def _key(self, const: Const, graph: Graph) -> Hashable:
        return "zeros", const.nbytes, const.texture, const.kind, self._with_images


def _packed(const: Const, graph: Graph) -> bytes:
    arrays = [graph.tensors[t].values() if t >= 0 else None for t in const.tensors]
    packed = np.ascontiguousarray(const.pack(*arrays, *const.args), DTYPES[const.kind])
    return packed.tobytes() or bytes(16)
