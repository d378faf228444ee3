"""GL objects, with an explicit release."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from time import perf_counter
from typing import Any, Protocol

from gles_delegate.closing import Closing
from gles_delegate.errors import ShaderError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.buffers import Buffer
from gles_delegate.gl.functions import Functions


class ProgramSource(Protocol):
    """A shader's name and text, and how to explain a compiler's log about it."""

    @property
    def name(self) -> str: ...
    @property
    def text(self) -> str: ...

    def explain(self, log: str) -> str: ...


class Program:
    """A compute program, which `start` compiles; the driver may do it in the background.

    Args:
        binary: What `binary` returned for the same source on the same driver. One that the
            driver does not take any more is passed over.
    """

    def __init__(
        self, gl: Functions, source: ProgramSource, binary: bytes | memoryview = b""
    ) -> None:
        self._gl = gl
        self._source = source
        self._shader = 0
        self.name = gl.glCreateProgram()
        self.is_from_binary = bool(binary) and self._take(binary)
        self._started = self.is_from_binary

    def finish(self) -> None:
        """Wait until the program can be used; starts it if need be.

        Raises:
            ShaderError: It did not compile or link; the message quotes our files.
        """
        self.start()
        if not self._shader:
            return
        try:
            self._require("Shader", self._shader, gl_names.COMPILE_STATUS, "compile")
            self._require("Program", self.name, gl_names.LINK_STATUS, "link")
        finally:
            self._gl.glDeleteShader(self._shader)
            self._shader = 0

    def binary(self) -> bytes:
        """The linked program in the driver's own format; empty if the driver has none."""
        size = self._get("Program", self.name, gl_names.PROGRAM_BINARY_LENGTH)
        if not self._gl.integer(gl_names.NUM_PROGRAM_BINARY_FORMATS) or not size:
            return b""
        kind, data = ctypes.c_uint(), ctypes.create_string_buffer(size)
        self._gl.glGetProgramBinary(self.name, size, None, kind, data)
        return _KIND.pack(kind.value) + data.raw

    def release(self) -> None:
        self._gl.glDeleteShader(self._shader)
        self._gl.glDeleteProgram(self.name)

    def start(self) -> None:
        """Begin to compile, unless that has been done."""
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

    def _take(self, binary: bytes | memoryview) -> bool:
        data = bytes(binary[_KIND.size :])
        (kind,) = _KIND.unpack_from(binary)
        self._gl.unchecked("glProgramBinary")(self.name, kind, data, len(data))
        self._gl.forget_errors()
        return bool(self._get("Program", self.name, gl_names.LINK_STATUS))

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


_KIND = struct.Struct("<I")
"""The number of a program binary's format, in front of it."""


class TexelView:
    """A range of a buffer, as vec4 texels: a storage block to write, a block or image to read.

    Args:
        name: The buffer's, which stays its owner's.
        image: Whether a buffer texture is made for reading.
    """

    def __init__(self, gl: Functions, name: int, offset: int, size: int, image: bool) -> None:
        self._gl = gl
        self.name, self.offset, self.size = name, offset, size
        self.texture = 0
        if image:
            texture = ctypes.c_uint()
            gl.glGenTextures(1, texture)
            self.texture = texture.value
            try:
                self._attach()
            except BaseException:
                self.release()
                raise

    def _attach(self) -> None:
        gl, target, texels = self._gl, gl_names.TEXTURE_BUFFER, gl_names.RGBA32F
        bound = gl.integer(gl_names.TEXTURE_BINDING_BUFFER)
        gl.glBindTexture(target, self.texture)
        try:
            gl.glTexBufferRange(target, texels, self.name, self.offset, self.size)
        finally:
            gl.glBindTexture(target, bound)

    def release(self) -> None:
        if self.texture:
            self._gl.glDeleteTextures(1, ctypes.c_uint(self.texture))


class TexelBuffer(TexelView):
    """A buffer of its own.

    Args:
        data: Its bytes, or the number of bytes of an uninitialized one.
        image: Whether a buffer texture is made for reading.

    Raises:
        OutOfGpuMemoryError: The driver has no room for it.
    """

    def __init__(self, gl: Functions, data: bytes | memoryview | int, image: bool) -> None:
        self.buffer = Buffer(gl, data)
        try:
            super().__init__(gl, self.buffer.name, 0, self.buffer.size, image)
        except BaseException:
            self.buffer.release()
            raise

    def release(self) -> None:
        super().release()
        self.buffer.release()


class Stopwatch:
    """Measures what the GPU spends on some calls.

    Args:
        queries: Use the GPU's own timer; otherwise the CPU's, and wait for the GPU before and
            after, which counts the way to it and back as well.
    """

    def __init__(self, gl: Functions, queries: bool) -> None:
        self._gl = gl
        self._query = ctypes.c_uint()
        if queries:
            gl.glGenQueries(1, self._query)

    def measure(self, function: Callable[[], object]) -> float:
        """Call it; the seconds that it took on the GPU."""
        gl = self._gl
        if not self._query:
            gl.glFinish()
            begin = perf_counter()
            function()
            gl.glFinish()
            return perf_counter() - begin
        nanoseconds = ctypes.c_uint64()
        gl.glBeginQuery(gl_names.TIME_ELAPSED, self._query)
        function()
        gl.glEndQuery(gl_names.TIME_ELAPSED)
        gl.glGetQueryObjectui64v(self._query, gl_names.QUERY_RESULT, nanoseconds)
        return nanoseconds.value / 1e9

    def release(self) -> None:
        if self._query:
            self._gl.glDeleteQueries(1, self._query)


class Sampler:
    """A sampler object that has textures read as they are, whatever their own filters say."""

    def __init__(self, gl: Functions) -> None:
        self._gl = gl
        name = ctypes.c_uint()
        gl.glGenSamplers(1, name)
        self.name = name.value
        for parameter in (gl_names.TEXTURE_MIN_FILTER, gl_names.TEXTURE_MAG_FILTER):
            gl.glSamplerParameteri(self.name, parameter, gl_names.NEAREST)

    def release(self) -> None:
        self._gl.glDeleteSamplers(1, ctypes.c_uint(self.name))


class Fence(Closing):
    """A point in the GPU's work: when it is reached, everything submitted before is done.

    Once it is known to be reached it frees itself; `release` frees it before that.

    Args:
        run: Calls a function where the context is current.
    """

    def __init__(self, gl: Functions, run: Callable[[Callable[[], Any]], Any]) -> None:
        self._gl, self._run = gl, run
        self._sync: int | None = gl.glFenceSync(gl_names.SYNC_GPU_COMMANDS_COMPLETE, 0)
        gl.glFlush()  # another context, or nobody, may wait for it

    def done(self) -> bool:
        """Whether the GPU has reached it; does not wait."""
        return self.wait(0)

    def wait(self, timeout: float | None = None) -> bool:
        """Have the CPU wait, for `timeout` seconds at most, and say whether it is reached.

        Raises:
            WrongThreadError, WrongContextError, ContextLostError: See `GpuDelegate`.
        """
        return self._sync is None or bool(self._run(lambda: self._wait(timeout)))

    def wait_on_gpu(self) -> None:
        """Have the GPU wait before what the context current now submits next; returns at once.

        That context is the delegate's or shares with it.
        """
        if self._sync is not None:
            self._gl.glWaitSync(self._sync, 0, gl_names.TIMEOUT_IGNORED)

    def release(self) -> None:
        """Free it; it counts as reached afterwards."""
        if self._sync is not None:
            self._run(self.delete)

    def close(self) -> None:
        """`release`, for ``with``."""
        self.release()

    def _wait(self, timeout: float | None) -> bool:
        limit = gl_names.TIMEOUT_IGNORED if timeout is None else max(int(timeout * 1e9), 0)
        flags = gl_names.SYNC_FLUSH_COMMANDS
        reached = self._gl.glClientWaitSync(self._sync, flags, limit)
        if reached == gl_names.TIMEOUT_EXPIRED:
            return False
        self.delete()
        return True

    def delete(self) -> None:
        """`release`, where the context is current already."""
        if self._sync is not None:
            self._gl.glDeleteSync(self._sync)
            self._sync = None


def wait_on_gpu(gl: Functions, fence: Fence | int) -> None:
    """Have the GPU wait for a fence, ours or an app's GLsync, before what is submitted next.

    Raises:
        TypeError: It is something else.
        ValueError: It is none of this context.
    """
    expected = f"expected a Fence or a GLsync of the delegate's context, found {fence!r}"
    if isinstance(fence, Fence):
        fence.wait_on_gpu()
    elif not isinstance(fence, int):
        raise TypeError(expected)
    elif not gl.glIsSync(fence):
        raise ValueError(expected)
    else:
        gl.glWaitSync(fence, 0, gl_names.TIMEOUT_IGNORED)
