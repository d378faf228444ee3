"""GL objects that moderngl has no class for, with an explicit release."""

from __future__ import annotations

import ctypes

import moderngl

from gles_delegate.errors import OutOfGpuMemoryError, ShaderError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.shaders import Source


class Program:
    """A compute program.

    Raises:
        ShaderError: It did not compile or link; the message quotes our files.
    """

    def __init__(self, gl: Functions, source: Source) -> None:
        self._gl = gl
        shader = gl.glCreateShader(gl_names.COMPUTE_SHADER)
        self.name = 0
        try:
            self.name = gl.glCreateProgram()
            text = ctypes.c_char_p(source.text.encode())
            gl.glShaderSource(shader, 1, text, None)
            gl.glCompileShader(shader)
            self._require(source, "Shader", shader, gl_names.COMPILE_STATUS, "compile")
            gl.glAttachShader(self.name, shader)
            gl.glLinkProgram(self.name)
            self._require(source, "Program", self.name, gl_names.LINK_STATUS, "link")
        except BaseException:
            self.release()
            raise
        finally:
            gl.glDeleteShader(shader)

    def release(self) -> None:
        self._gl.glDeleteProgram(self.name)

    def _require(self, source: Source, kind: str, name: int, status: int, what: str) -> None:
        def get(parameter: int) -> int:
            value = ctypes.c_int()
            getattr(self._gl, f"glGet{kind}iv")(name, parameter, value)
            return value.value

        if get(status):
            return
        log = ctypes.create_string_buffer(max(get(gl_names.INFO_LOG_LENGTH), 1))
        getattr(self._gl, f"glGet{kind}InfoLog")(name, len(log), None, log)
        text = source.explain(log.value.decode("utf-8", "replace"))
        raise ShaderError(f"{source.name} did not {what}:\n{text}")


class TexelBuffer:
    """A buffer of vec4 texels that shaders write as storage block and read as block or image.

    Args:
        data: Its bytes, or the number of bytes of an uninitialised one.
        image: Whether a buffer texture is made for reading.

    Raises:
        OutOfGpuMemoryError: The driver has no room for it.
    """

    def __init__(
        self, ctx: moderngl.Context, gl: Functions, data: bytes | memoryview | int, image: bool
    ) -> None:
        self._gl = gl
        size = data if isinstance(data, int) else len(data)
        gl.forget_errors()
        try:
            self.buffer = ctx.buffer(reserve=data) if isinstance(data, int) else ctx.buffer(data)
            gl.check("glBufferData")
        except (moderngl.Error, OutOfGpuMemoryError) as error:
            raise OutOfGpuMemoryError(f"no room for a buffer of {size} bytes: {error}") from error
        self.texture = 0
        try:
            if image:
                self._make_texture()
        except BaseException:
            self.release()
            raise

    def _make_texture(self) -> None:
        gl = self._gl
        texture = ctypes.c_uint()
        gl.glGenTextures(1, texture)
        self.texture = texture.value
        bound = gl.integer(gl_names.TEXTURE_BINDING_BUFFER)
        gl.glBindTexture(gl_names.TEXTURE_BUFFER, self.texture)
        try:
            gl.glTexBuffer(gl_names.TEXTURE_BUFFER, gl_names.RGBA32F, self.buffer.glo)
        finally:
            gl.glBindTexture(gl_names.TEXTURE_BUFFER, bound)

    def release(self) -> None:
        if self.texture:
            self._gl.glDeleteTextures(1, ctypes.c_uint(self.texture))
        self.buffer.release()
