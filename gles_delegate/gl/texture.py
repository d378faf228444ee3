"""Textures of constants, and the sampler for an app's textures."""

from __future__ import annotations

import ctypes

import numpy as np

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import explaining
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import on_error

_FILTERS = (gl_names.TEXTURE_MIN_FILTER, gl_names.TEXTURE_MAG_FILTER)


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
