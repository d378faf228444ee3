"""Everything that a GL context says of itself, and the objects that it holds."""

import ctypes
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from ctypes import POINTER, c_int, c_int64, c_ubyte, c_uint
from typing import Any

from gles_delegate.gl import functions as names

_SIZE = 1024  # more than a driver's longest list, such as of compressed formats
_UNTOUCHED = -0x5A5A5A5B
_BLANK = (c_int * _SIZE)(*[_UNTOUCHED] * _SIZE)
# Free memory changes at any time, and Mesa 25.2 answers with values that it never set.
_FREE_MEMORY = {*range(0x87FB, 0x87FE), *range(0x9047, 0x904C)}  # *_ATI, GPU_MEMORY_INFO_*_NVX
_QUERIES = tuple(sorted({*range(0x0B00, 0x0E00), *range(0x8000, 0x9400)} - _FREE_MEMORY))
_KINDS = ("Buffer", "Texture", "Program", "Shader", "Framebuffer", "VertexArray", "Sampler")
_INDEXED = {
    **dict.fromkeys(names.IMAGE_BINDING, names.MAX_COMPUTE_IMAGE_UNIFORMS),
    names.SHADER_STORAGE_BUFFER_BINDING: names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS,
    names.SHADER_STORAGE_BUFFER_START: names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS,
    names.SHADER_STORAGE_BUFFER_SIZE: names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS,
}
_ACTIVE_TEXTURE, _TEXTURE0, _UNITS = 0x84E0, 0x84C0, 4
_BOUND_TO_UNITS = (
    *(names.TEXTURE_BINDING_BUFFER, names.TEXTURE_BINDING_2D),
    *(names.TEXTURE_BINDING_EXTERNAL, names.SAMPLER_BINDING),
)


class State:
    """Queries of the context that is current.

    Args:
        load: Name to address of a GL function.
    """

    def __init__(self, load: Callable[[str], int]) -> None:
        def function(name: str, *types: Any) -> Callable[..., Any]:
            return ctypes.CFUNCTYPE(*types)(load(name))

        self._error = function("glGetError", c_uint)
        self._integers = function("glGetIntegerv", None, c_uint, POINTER(c_int * _SIZE))
        self._indexed = function("glGetInteger64i_v", None, c_uint, c_uint, POINTER(c_int64))
        self._enabled = function("glIsEnabled", c_ubyte, c_uint)
        self._active = function("glActiveTexture", None, c_uint)
        self._answered = self._flags = _QUERIES
        self._is = {k: function(f"glIs{k}", c_ubyte, c_uint) for k in _KINDS}

    def read(self) -> dict[Any, Any]:
        """The value of every query that the context answers."""
        self._clear()
        state: dict[Any, Any] = {}
        for query in self._answered:
            values = (c_int * _SIZE).from_buffer_copy(_BLANK)
            self._integers(query, ctypes.byref(values))
            if not self._clear():
                state[hex(query)] = [value for value in values if value != _UNTOUCHED]
        for query in self._flags:
            enabled = self._enabled(query)
            if not self._clear():
                state["enabled", hex(query)] = enabled
        # The context does not know the others, which takes it long to say.
        self._answered = tuple(query for query in self._answered if hex(query) in state)
        self._flags = tuple(query for query in self._flags if ("enabled", hex(query)) in state)
        for query, count in _INDEXED.items():
            for i in range(state[hex(count)][0]):
                value = c_int64()
                self._indexed(query, i, ctypes.byref(value))
                state[hex(query), i] = value.value
        active = state[hex(_ACTIVE_TEXTURE)][0]
        for unit in range(_UNITS):
            self._active(_TEXTURE0 + unit)
            for query in (query for query in _BOUND_TO_UNITS if hex(query) in state):
                bound = (c_int * _SIZE)()
                self._integers(query, ctypes.byref(bound))
                state["unit", unit, hex(query)] = bound[0]
        self._active(active)
        assert not self._clear()
        return state

    def objects(self) -> dict[str, set[int]]:
        """The names in use of every kind of object."""
        return {kind: {n for n in range(1, 2000) if exists(n)} for kind, exists in self._is.items()}

    def _clear(self) -> bool:
        """Whether an error was pending."""
        pending = bool(self._error())
        return bool(self._error()) or pending


def objects_in(context: AbstractContextManager[Any], state: State) -> Mapping[str, set[int]]:
    with context:
        return state.objects()
