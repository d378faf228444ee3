"""Textures of pixels and of constants, and the sampler for an app's textures."""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import explaining
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import on_error

Pixels: TypeAlias = "np.ndarray[Any, np.dtype[np.uint8]]"

FORMATS = {
    1: (gl_names.R8, gl_names.RED),
    2: (gl_names.RG8, gl_names.RG),
    3: (gl_names.RGB8, gl_names.RGB),
    4: (gl_names.RGBA8, gl_names.RGBA),
}
"""Internal format and format of 8-bit pixels, by their channels."""

_FILTERS = (gl_names.TEXTURE_MIN_FILTER, gl_names.TEXTURE_MAG_FILTER)


class PixelTexture:
    """A texture of 8-bit pixels, first row first.

    Its calls change texture and pixel-unpack state, which `GpuContext.textures` restores.

    Attributes:
        glo: Its GL name.
        shape: Height, width and channels.
        size: Width and height, as of a `moderngl.Texture`.

    Raises:
        ValueError: The device's textures are smaller.
        OutOfGpuMemoryError: There is no room.
    """

    def __init__(self, gl: Functions, shape: tuple[int, ...]) -> None:
        self._gl = gl
        self.shape = shape
        height, width, channels = shape
        self.size = (width, height)
        most = gl.integer(gl_names.MAX_TEXTURE_SIZE)
        if max(self.size) > most:
            raise ValueError(
                f"expected a picture of at most {most}x{most} pixels, the limit of this device's "
                f"textures, found {width}x{height}: make it smaller"
            )
        self.glo = gl.generate("Textures")
        with on_error(self.release), explaining(f"no room for a texture of {width}x{height}: "):
            self._bind()
            internal, _ = FORMATS[channels]
            gl.glTexStorage2D(gl_names.TEXTURE_2D, 1, internal, width, height)

    def write(self, pixels: Pixels, left: int = 0, top: int = 0) -> None:
        """Upload uint8 [height, width, channels] to a part, or to all of it."""
        gl, (height, width, channels) = self._gl, pixels.shape
        rows = np.ascontiguousarray(pixels)
        self._bind()
        gl.glBindBuffer(gl_names.PIXEL_UNPACK_BUFFER, 0)
        gl.set_pixel_state(gl.unpack_state)
        gl.glPixelStorei(gl_names.UNPACK_ALIGNMENT, 1)
        area = (gl_names.TEXTURE_2D, 0, left, top, width, height)
        data = rows.ctypes.data
        gl.glTexSubImage2D(*area, FORMATS[channels][1], gl_names.UNSIGNED_BYTE, data)

    def release(self) -> None:
        self._gl.glDeleteTextures(1, ctypes.c_uint(self.glo))

    def _bind(self) -> None:
        self._gl.glActiveTexture(gl_names.TEXTURE0)
        self._gl.glBindTexture(gl_names.TEXTURE_2D, self.glo)


class TexelTexture:
    """Texels of four numbers, in the rows of a 2D texture that shaders read by ``texelFetch``.

    Its constructor changes texture and pixel-unpack state, which `GpuContext.textures` restores.
    Rows have `width` texels of float32 or float16 `data`; zeros fill up the last one.
    """

    def __init__(self, gl: Functions, data: bytes | memoryview, half: bool, width: int) -> None:
        self._gl = gl
        row = width * (8 if half else 16)
        height = -(-len(data) // row)
        self.size = height * row
        padded = bytes(data) + bytes(self.size - len(data))
        texels = gl_names.RGBA16F if half else gl_names.RGBA32F
        kind = gl_names.HALF_FLOAT if half else gl_names.FLOAT
        pixels = np.frombuffer(padded, np.uint8).ctypes.data
        target = gl_names.TEXTURE_2D
        self.name = gl.generate("Textures")
        with on_error(self.release), explaining(f"no room for a texture of {self.size} bytes: "):
            gl.glActiveTexture(gl_names.TEXTURE0)
            gl.glBindTexture(target, self.name)
            gl.glBindBuffer(gl_names.PIXEL_UNPACK_BUFFER, 0)
            gl.set_pixel_state(gl.unpack_state)
            for parameter in _FILTERS:
                gl.glTexParameteri(target, parameter, gl_names.NEAREST)
            gl.glTexStorage2D(target, 1, texels, width, height)
            area = (target, 0, 0, 0, width, height)
            gl.glTexSubImage2D(*area, gl_names.RGBA, kind, pixels)

    def release(self) -> None:
        self._gl.glDeleteTextures(1, ctypes.c_uint(self.name))


class Sampler:
    """A sampler object `name` that overrides the filters of textures, and repeats their edges."""

    def __init__(self, gl: Functions, linear: bool = False) -> None:
        self._gl = gl
        self.name = gl.generate("Samplers")
        with on_error(self.release):
            for parameter in _FILTERS:
                value = gl_names.LINEAR if linear else gl_names.NEAREST
                gl.glSamplerParameteri(self.name, parameter, value)
            for parameter in (gl_names.TEXTURE_WRAP_S, gl_names.TEXTURE_WRAP_T):
                gl.glSamplerParameteri(self.name, parameter, gl_names.CLAMP_TO_EDGE)

    def release(self) -> None:
        self._gl.glDeleteSamplers(1, ctypes.c_uint(self.name))
