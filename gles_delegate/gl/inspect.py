"""Sizes and formats of an app's buffers and textures, from GL."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

from gles_delegate.errors import GLError, WrongContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.current import is_moderngl_context

_SAMPLED = {gl_names.UNSIGNED_NORMALIZED, gl_names.SIGNED_NORMALIZED, gl_names.FLOAT}


@dataclass(frozen=True)
class TextureLevel:
    """Level 0 of a 2D texture.

    Attributes:
        format: The GL enum of the internal format.
        components: How many of red, green and blue it has.
        sampled: Whether shaders sample floats from it, not integers or depths.
    """

    name: int
    width: int
    height: int
    format: int
    components: int
    sampled: bool


def buffer_size(gpu: GpuContext, buffer: Any) -> tuple[int, int]:
    """The name and the size in bytes of a `moderngl.Buffer` or a buffer's name.

    Raises:
        ValueError: There is no such buffer in this context.
        WrongContextError: See `_name`.
    """
    gl, name = gpu.gl, _name(gpu, buffer, "buffer")
    if not gl.glIsBuffer(name):
        raise ValueError(f"expected a buffer of the delegate's context, found the name {name}")
    size = ctypes.c_int64()
    gl.glBindBuffer(gl_names.ARRAY_BUFFER, name)  # which the guard puts back
    gl.glGetBufferParameteri64v(gl_names.ARRAY_BUFFER, gl_names.BUFFER_SIZE, size)
    return name, size.value


def texture_level(gpu: GpuContext, texture: Any) -> TextureLevel:
    """What is in a `moderngl.Texture`, or another object with its name in ``glo``, or a name.

    Raises:
        ValueError: There is no such 2D texture in this context, or it is empty.
        WrongContextError: See `_name`.
    """
    gl, name = gpu.gl, _name(gpu, texture, "texture")
    if not gl.glIsTexture(name):
        raise ValueError(f"expected a texture of the delegate's context, found the name {name}")

    def get(parameter: int) -> int:
        value = ctypes.c_int()
        gl.glGetTexLevelParameteriv(gl_names.TEXTURE_2D, 0, parameter, value)
        return value.value

    bound = gl.integer(gl_names.TEXTURE_BINDING_2D)
    try:
        gl.glBindTexture(gl_names.TEXTURE_2D, name)
    except GLError:
        raise ValueError(f"expected a 2D texture, found the name {name} of another kind") from None
    try:
        has_green, has_blue = get(gl_names.TEXTURE_GREEN_SIZE), get(gl_names.TEXTURE_BLUE_SIZE)
        level = TextureLevel(
            name,
            get(gl_names.TEXTURE_WIDTH),
            get(gl_names.TEXTURE_HEIGHT),
            get(gl_names.TEXTURE_INTERNAL_FORMAT),
            1 + bool(has_green) + bool(has_blue),
            get(gl_names.TEXTURE_RED_TYPE) in _SAMPLED,
        )
    finally:
        gl.glBindTexture(gl_names.TEXTURE_2D, bound)
    if not level.width:
        raise ValueError(f"the texture {name} is empty: give it a size first")
    return level


def _name(gpu: GpuContext, thing: Any, kind: str) -> int:
    """GL's name of an object.

    Raises:
        TypeError: It is none.
        WrongContextError: It belongs to an app's context, and the delegate has its own.
    """
    name = getattr(thing, "glo", thing)
    if isinstance(name, bool) or not isinstance(name, int):
        raise TypeError(
            f"expected a moderngl.{kind.capitalize()} or a {kind}'s name, found {thing!r}"
        )
    owner = getattr(thing, "ctx", None)
    if gpu.is_private and is_moderngl_context(owner):
        raise WrongContextError(
            f"the {kind} belongs to another context than the delegate's own: make the delegate "
            "with GpuDelegate(context=ctx), in the app's context, or with an EglContext that "
            "shares with it; a GLX context cannot share with EGL, only be adopted"
        )
    return name
