"""Sizes and formats of an app's buffers and textures, queried from GL."""

from __future__ import annotations

import ctypes
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from operator import index
from typing import Any

import numpy as np

from gles_delegate.errors import GLError, WrongContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.current import is_moderngl_context
from gles_delegate.gl.functions import Functions

_LEVEL = (gl_names.TEXTURE_WIDTH, gl_names.TEXTURE_HEIGHT, gl_names.TEXTURE_INTERNAL_FORMAT)
_SAMPLED = {gl_names.UNSIGNED_NORMALIZED, gl_names.SIGNED_NORMALIZED, gl_names.FLOAT}


@dataclass(frozen=True)
class TextureLevel:
    """The level of a 2D texture that shaders sample: 0 unless the app has set another base level.

    Attributes:
        level: Its number.
        format: The GL enum of the internal format.
        components: The number of its channels.
        sampled: Whether shaders sample floats from it, not integers or depths.
        is_rgba8: Whether it has RGBA of 8 bits, also in the format GL_RGBA without sizes.
        external: It is an external texture, whose format GL does not return.
    """

    name: int
    level: int
    width: int
    height: int
    format: int
    components: int
    sampled: bool
    is_rgba8: bool = False
    external: bool = False

    def __str__(self) -> str:
        if self.external:
            return f"{self.width}x{self.height}, external"
        level = f", level {self.level}" if self.level else ""
        return f"{self.width}x{self.height} of the GL format {self.format:#x}{level}"


class Watch(ABC):
    """Detects, within microseconds, whether an app's object has changed since it was bound.

    `handle` is the object or its name; `bound` and `to` describe it and the tensor it is bound to.
    """

    def __init__(self, gl: Functions, handle: Any, name: int, bound: str, to: str) -> None:
        self._gl = gl
        self._handle = handle
        self._name = name
        self.bound = bound
        self._to = to

    def require(self) -> None:
        """Raise ValueError if it was released, or has another size or format; inside the guard.

        It changes the bindings of ARRAY_BUFFER or texture unit 0.
        """
        difference = self.change()
        if difference:
            self._gl.check(self._to)
            self._gl.check_reset(self._to)
            raise ValueError(
                f"{self._to} is bound to {self.bound}, found {difference}: bind it again, or "
                "unbind it before it is released or resized"
            )

    def change(self) -> str:
        """Description of what the object has become; empty if unchanged. See `require`."""
        handle = self._handle
        name = self._name
        if handle is not name:
            # A released moderngl object keeps its name, which GL may have reused.
            is_released = type(getattr(handle, "mglo", None)).__name__ == "InvalidObject"
            present = plain_name(getattr(handle, "glo", name))
            if is_released or present != name:
                return "that it was released" if is_released else f"the name {present}"
        return self._change()

    @abstractmethod
    def _change(self) -> str: ...


class BufferWatch(Watch):
    """Watches a buffer, which must have `size` bytes or more."""

    def __init__(self, gpu: GpuContext, handle: Any, name: int, size: int, to: str) -> None:
        super().__init__(gpu.gl, handle, name, f"{size} bytes of the buffer {name}", to)
        self._size = size

    def _change(self) -> str:
        call = self._gl.unchecked
        size = ctypes.c_int64()
        if not call("glIsBuffer")(self._name):
            return "that it was released"
        call("glBindBuffer")(gl_names.ARRAY_BUFFER, self._name)  # the guard restores it
        call("glGetBufferParameteri64v")(gl_names.ARRAY_BUFFER, gl_names.BUFFER_SIZE, size)
        return f"{size.value} bytes" if size.value < self._size else ""


class TextureWatch(Watch):
    """Watches a texture's size and format; use it inside `GpuContext.textures`."""

    def __init__(self, gpu: GpuContext, handle: Any, level: TextureLevel, to: str) -> None:
        super().__init__(gpu.gl, handle, level.name, f"the texture {level.name}, {level}", to)
        self._level = level

    def _change(self) -> str:
        call = self._gl.unchecked
        value = ctypes.c_int()
        target = gl_names.TEXTURE_2D
        if not call("glIsTexture")(self._name):
            return "that it was released"
        if self._level.external:
            size = self._handle.size
            fits = size == (self._level.width, self._level.height)
            return "" if fits else f"{size[0]}x{size[1]}"
        call("glActiveTexture")(gl_names.TEXTURE0)
        # If the name belongs to another kind of texture, the empty default texture stays bound.
        call("glBindTexture")(target, 0)
        call("glBindTexture")(target, self._name)
        found = [_base_level(self._gl)]
        for parameter in _LEVEL:
            call("glGetTexLevelParameteriv")(target, found[0], parameter, value)
            found.append(value.value)
        bound = self._level
        if found == [bound.level, bound.width, bound.height, bound.format]:
            return ""
        _is_of_another_kind(self._gl)
        level, width, height, internal = found
        return str(replace(bound, level=level, width=width, height=height, format=internal))


def _base_level(gl: Functions) -> int:
    """The level from which shaders sample the bound 2D texture; does not check errors."""
    value = ctypes.c_int()
    get = gl.unchecked("glGetTexParameteriv")
    get(gl_names.TEXTURE_2D, gl_names.TEXTURE_BASE_LEVEL, value)
    base = value.value
    if base:
        get(gl_names.TEXTURE_2D, gl_names.TEXTURE_IMMUTABLE_LEVELS, value)
    return min(base, value.value - 1) if base and value.value else base


def _is_of_another_kind(gl: Functions) -> bool:
    """Whether binding failed because the texture is not 2D; raises other errors."""
    try:
        gl.check("glBindTexture")
    except GLError as error:
        if "GL_INVALID_OPERATION" not in str(error):
            raise
        return True
    return False


def buffer_size(gpu: GpuContext, buffer: Any) -> tuple[int, int]:
    """The name, and the size in bytes, of a `moderngl.Buffer` or a buffer's name.

    Raises ValueError if there is no such buffer in this context; see also `_name`.
    """
    gl = gpu.gl
    name = _name(gpu, buffer, "buffer")
    if not gl.glIsBuffer(name):
        raise ValueError(_no_such("buffer", name))
    size = ctypes.c_int64()
    gl.glBindBuffer(gl_names.ARRAY_BUFFER, name)  # the guard restores it
    gl.glGetBufferParameteri64v(gl_names.ARRAY_BUFFER, gl_names.BUFFER_SIZE, size)
    return name, size.value


def _no_such(kind: str, name: int) -> str:
    found = f"found the name {name}" + (", which means none" if name == 0 else "")
    return f"expected a {kind} of the delegate's context, {found}"


def texture_level(gpu: GpuContext, texture: Any) -> TextureLevel:
    """The base level of a `moderngl.Texture`, another object with a name in ``glo``, or a name.

    An external texture is an object with its ``size``, whose ``external`` is True.

    Raises ValueError if there is no such 2D texture, or it is empty; see also `_name`.
    """
    gl = gpu.gl
    name = _name(gpu, texture, "texture")
    if not gl.glIsTexture(name):
        raise ValueError(_no_such("texture", name))

    if getattr(texture, "external", False):
        width, height = texture.size
        return TextureLevel(name, 0, width, height, 0, 4, True, external=True)

    def get(parameter: int) -> int:
        value = ctypes.c_int()
        gl.glGetTexLevelParameteriv(gl_names.TEXTURE_2D, base, parameter, value)
        return value.value

    with gpu.textures():
        gl.unchecked("glBindTexture")(gl_names.TEXTURE_2D, name)
        if _is_of_another_kind(gl):
            raise ValueError(
                f"expected a 2D texture, found the name {name} of another kind (an external one "
                "needs an object with glo, size and external = True)"
            )
        base = _base_level(gl)
        last = ctypes.c_int()
        gl.unchecked("glGetTexParameteriv")(gl_names.TEXTURE_2D, gl_names.TEXTURE_MAX_LEVEL, last)
        if base > last.value:
            raise ValueError(
                f"expected a complete texture, found that the base level of {name} is {base} and "
                f"its maximum level {last.value}: shaders would see black"
            )
        form = get(gl_names.TEXTURE_INTERNAL_FORMAT)
        sizes = [get(size) for size in gl_names.TEXTURE_SIZES]
        level = TextureLevel(
            name,
            base,
            get(gl_names.TEXTURE_WIDTH),
            get(gl_names.TEXTURE_HEIGHT),
            form,
            1 + sum(bits > 0 for bits in sizes[1:]),
            get(gl_names.TEXTURE_RED_TYPE) in _SAMPLED or form in gl_names.LUMINANCE_FORMATS,
            form == gl_names.RGBA8 or (form == gl_names.RGBA and sizes == [8, 8, 8, 8]),
        )
    if not level.width:
        raise ValueError(f"the texture {name} is empty: give it a size first")
    return level


def plain_name(handle: Any) -> Any:
    """GL's name as an int: of an integer of numpy or ctypes, as PyOpenGL's and pyglet's names are.

    Anything else is returned as it is.
    """
    if isinstance(handle, ctypes._SimpleCData):
        handle = handle.value
    is_bool = isinstance(handle, bool | np.bool_)
    return index(handle) if hasattr(handle, "__index__") and not is_bool else handle


def _name(gpu: GpuContext, handle: Any, kind: str) -> int:
    """GL's name of an object; raises TypeError if it is of another kind.

    Raises WrongContextError if it belongs to an app's context, and the delegate has its own.
    """
    name = plain_name(getattr(handle, "glo", handle))
    if isinstance(name, bool) or not isinstance(name, int):
        raise TypeError(
            f"expected a moderngl.{kind.capitalize()} or a {kind}'s name, found {handle!r}"
        )
    if gpu.is_private and is_moderngl_context(getattr(handle, "ctx", None)):
        raise WrongContextError(
            f"the {kind} belongs to another context than the delegate's own: make the delegate "
            "with GpuDelegate(context=ctx), in the app's context, or with an EglContext that "
            "shares with it; a GLX context cannot share with EGL, only be adopted"
        )
    return name
