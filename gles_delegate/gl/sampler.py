"""Sampler objects."""

from __future__ import annotations

import ctypes

from gles_delegate.closing import on_error
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions


class Sampler:
    """A sampler object that has textures read as they are, whatever their own filters say."""

    def __init__(self, gl: Functions) -> None:
        self._gl = gl
        self.name = gl.generate("Samplers")
        with on_error(self.release):
            for parameter in (gl_names.TEXTURE_MIN_FILTER, gl_names.TEXTURE_MAG_FILTER):
                gl.glSamplerParameteri(self.name, parameter, gl_names.NEAREST)

    def release(self) -> None:
        self._gl.glDeleteSamplers(1, ctypes.c_uint(self.name))
