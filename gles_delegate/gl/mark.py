"""An object by which a context is recognized."""

from __future__ import annotations

import ctypes
import os

from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import on_error


class Mark:
    """A sampler object with a random parameter in the current context.

    The context's address does not identify it: drivers give it to the next context once it is
    destroyed. Contexts that share objects with it also see the mark, as they see its other objects.
    """

    def __init__(self, gl: Functions) -> None:
        self._gl = gl
        self._is_sampler = gl.unchecked("glIsSampler")
        self._get = gl.unchecked("glGetSamplerParameterfv")
        self._found = ctypes.c_float()
        self._name = gl.generate("Samplers")
        with on_error(self.release):
            level = int.from_bytes(os.urandom(3), "little") / 2**14
            gl.glSamplerParameterf(self._name, gl_names.TEXTURE_MIN_LOD, level)
        self._level = self._read()

    def is_here(self) -> bool:
        """Whether the current context has it; takes a microsecond, and leaves no error."""
        if self._is_sampler(self._name) and self._read() == self._level:
            return True
        # A context that was reset answers no query.
        return bool(self._gl.unchecked("glGetError")() == gl_names.LOST)

    def release(self) -> None:
        self._gl.unchecked("glDeleteSamplers")(1, ctypes.c_uint(self._name))

    def _read(self) -> float:
        self._get(self._name, gl_names.TEXTURE_MIN_LOD, self._found)
        return self._found.value
