"""Compute programs."""

from __future__ import annotations

import ctypes
import struct
from typing import Protocol

from gles_delegate.errors import ShaderError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import in_any_case, on_error


class ProgramSource(Protocol):
    """A shader's name and text; `explain` translates a compiler's log."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...

    def explain(self, log: str) -> str: ...


class Program:
    """A compute program, which `start` compiles; the driver may do it in the background.

    `binary` may be an earlier result of the method for the same source and driver.
    """

    def __init__(
        self, gl: Functions, source: ProgramSource, binary: bytes | memoryview = b""
    ) -> None:
        self._gl = gl
        self._source = source
        self._shader = 0
        self.name = gl.glCreateProgram()
        self.is_from_binary = False
        with on_error(self.release):
            if len(binary) > _KIND.size:
                data = bytes(binary[_KIND.size :])
                (kind,) = _KIND.unpack_from(binary)
                gl.unchecked("glProgramBinary")(self.name, kind, data, len(data))
                gl.forget_errors()
                self.is_from_binary = bool(self._get("Program", self.name, gl_names.LINK_STATUS))
        self._started = self.is_from_binary

    def finish(self) -> None:
        """Wait until the program can be used; raises ShaderError if it does not compile or link."""
        self.start()
        if not self._shader:
            return
        try:
            self._require("Shader", self._shader, gl_names.COMPILE_STATUS, "compile")
            self._require("Program", self.name, gl_names.LINK_STATUS, "link")
        finally:
            self._gl.glDeleteShader(self._shader)
            self._shader = 0

    @property
    def binary_bytes(self) -> int:
        if not self._gl.integer(gl_names.NUM_PROGRAM_BINARY_FORMATS):
            return 0
        return self._get("Program", self.name, gl_names.PROGRAM_BINARY_LENGTH)

    def binary(self) -> bytes:
        """The linked program in the driver's own format; empty if the driver has none."""
        size = self.binary_bytes
        if not size:
            return b""
        kind = ctypes.c_uint()
        data = ctypes.create_string_buffer(size)
        self._gl.glGetProgramBinary(self.name, size, None, kind, data)
        return _KIND.pack(kind.value) + data.raw

    def release(self) -> None:
        shader, self._shader = self._shader, 0
        gl = self._gl
        name = self.name
        in_any_case((lambda: gl.glDeleteShader(shader), lambda: gl.glDeleteProgram(name)))

    def start(self) -> None:
        """Begin to compile, if that has not begun."""
        if self._started:
            return
        self._started = True
        gl = self._gl
        self._shader = gl.glCreateShader(gl_names.COMPUTE_SHADER)
        text = ctypes.c_char_p(self._source.text.encode())
        gl.glShaderSource(self._shader, 1, text, None)
        gl.glCompileShader(self._shader)
        gl.glAttachShader(self.name, self._shader)
        gl.glProgramParameteri(self.name, gl_names.PROGRAM_BINARY_RETRIEVABLE_HINT, 1)
        gl.glLinkProgram(self.name)

    def _get(self, kind: str, name: int, parameter: int) -> int:
        value = ctypes.c_int()
        getattr(self._gl, f"glGet{kind}iv")(name, parameter, value)
        return value.value

    def _require(self, kind: str, name: int, status: int, what: str) -> None:
        if self._get(kind, name, status):
            return
        size = max(self._get(kind, name, gl_names.INFO_LOG_LENGTH), 1)
        log = ctypes.create_string_buffer(size)
        getattr(self._gl, f"glGet{kind}InfoLog")(name, len(log), None, log)
        text = self._source.explain(log.value.decode("utf-8", "replace"))
        raise ShaderError(f"{self._source.name} did not {what}:\n{text}")


_KIND = struct.Struct("<I")  # the number of a program binary's format, in front of it
