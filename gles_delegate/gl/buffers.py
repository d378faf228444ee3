"""Buffer objects and ranges of them, with an explicit release."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from gles_delegate.errors import GLError, OutOfGpuMemoryError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.support.closing import in_any_case, on_error

_PIECE = 8 << 20
"""Bytes that are copied at once: a driver gets new pages for more than its allocator keeps."""


@contextmanager
def explaining(message: str) -> Iterator[None]:
    """Prefix the text of an OutOfGpuMemoryError in the ``with`` block."""
    try:
        yield
    except OutOfGpuMemoryError as error:
        raise OutOfGpuMemoryError(f"{message}{error}") from error


class Buffer:
    """A buffer object; raises OutOfGpuMemoryError if the driver has no room.

    Its methods leave it bound to ARRAY_BUFFER, which the guard restores. `data` is its content, or
    the number of bytes of an uninitialized one; `name` its GL name; `size` its bytes, which `spare`
    others follow.
    """

    def __init__(self, gl: Functions, data: bytes | memoryview | int, spare: int = 0) -> None:
        self._gl = gl
        view = memoryview(b"" if isinstance(data, int) else data)
        self.size = data if isinstance(data, int) else view.nbytes
        start = _address(view) if view.nbytes else None
        self.name = gl.generate("Buffers")
        with on_error(self.release), explaining(f"no room for a buffer of {self.size} bytes: "):
            gl.glBindBuffer(gl_names.ARRAY_BUFFER, self.name)
            first = None if spare else start
            gl.glBufferData(gl_names.ARRAY_BUFFER, self.size + spare, first, gl_names.STATIC_DRAW)
            if spare:
                self.write(view)

    def write(self, data: Any, offset: int = 0) -> None:
        """Overwrite bytes from `offset` on with a contiguous array; does not check for errors."""
        view = memoryview(data)
        target = gl_names.ARRAY_BUFFER
        if view.nbytes:
            start = _address(view)
            self._gl.unchecked("glBindBuffer")(target, self.name)
            for i, size in _pieces(view.nbytes):
                self._gl.unchecked("glBufferSubData")(target, offset + i, size, start + i)

    def read_into(self, target: Any, size: int, offset: int = 0) -> None:
        read_into(self._gl, self.name, target, size, offset)

    def read(self, offset: int = 0) -> bytes:
        target = bytearray(self.size - offset)
        self.read_into(target, len(target), offset)
        return bytes(target)

    def release(self) -> None:
        self._gl.glDeleteBuffers(1, ctypes.c_uint(self.name))


class MappedBuffer(Buffer):
    """A buffer that stays mapped, from which the GPU copies what the processor writes.

    Needs OpenGL 4.4 or GL_EXT_buffer_storage.
    """

    def __init__(self, gl: Functions, size: int) -> None:
        self._gl = gl
        self.size = size
        self.name = gl.generate("Buffers")
        self._copied: int | None = None  # a GLsync after the last copy
        target = gl_names.ARRAY_BUFFER
        flags = gl_names.MAP_WRITE | gl_names.MAP_PERSISTENT | gl_names.MAP_COHERENT
        with on_error(self.release), explaining(f"no room for a buffer of {size} bytes: "):
            gl.glBindBuffer(target, self.name)
            gl.glBufferStorage(target, size, None, flags)
            self._start = gl.glMapBufferRange(target, 0, size, flags)
            if not self._start:
                raise OutOfGpuMemoryError("glMapBufferRange: expected memory, found none")

    def copy_to(self, name: int, offset: int, data: Any) -> None:
        """Have a buffer's bytes from `offset` on overwritten by a contiguous array."""
        gl = self._gl
        view = memoryview(data)
        source = gl_names.ARRAY_BUFFER
        target = gl_names.SHADER_STORAGE_BUFFER
        if self._copied is not None:
            flags = gl_names.SYNC_FLUSH_COMMANDS
            forever = gl_names.TIMEOUT_IGNORED
            gl.unchecked("glClientWaitSync")(self._copied, flags, forever)
            gl.unchecked("glDeleteSync")(self._copied)
        ctypes.memmove(self._start, _address(view), view.nbytes)
        gl.unchecked("glBindBuffer")(source, self.name)
        gl.unchecked("glBindBuffer")(target, name)
        gl.unchecked("glCopyBufferSubData")(source, target, 0, offset, view.nbytes)
        self._copied = gl.unchecked("glFenceSync")(gl_names.SYNC_GPU_COMMANDS_COMPLETE, 0)
        if self._copied is None:
            gl.unchecked("glFinish")()

    def release(self) -> None:
        copied, self._copied = self._copied, None
        if copied is not None:
            self._gl.glDeleteSync(copied)
        super().release()


def read_into(gl: Functions, name: int, target: Any, size: int, offset: int) -> None:
    """Wait for the GPU, and copy `size` bytes of a buffer from `offset` on to a contiguous array.

    Raises `ValueError` if `target` is smaller, and `TypeError` if it is read-only.
    """
    if not size:
        return
    destination = ctypes.addressof((ctypes.c_char * size).from_buffer(target))
    gl.unchecked("glBindBuffer")(gl_names.ARRAY_BUFFER, name)
    for i, length in _pieces(size):
        # OpenGL ES does not have glGetBufferSubData.
        piece = (gl_names.ARRAY_BUFFER, offset + i, length, gl_names.MAP_READ)
        start = gl.unchecked("glMapBufferRange")(*piece)
        if not start:
            gl.check("glMapBufferRange")
            gl.check_reset("glMapBufferRange")
            raise OutOfGpuMemoryError(f"glMapBufferRange: no room to read {length} bytes")
        ctypes.memmove(destination + i, start, length)
        is_intact = gl.unchecked("glUnmapBuffer")(gl_names.ARRAY_BUFFER)
        gl.check_reset("glMapBufferRange")
        if not is_intact:
            raise GLError(
                "glUnmapBuffer: expected the buffer's bytes, found that the driver lost them"
            )


def _pieces(size: int) -> Iterator[tuple[int, int]]:
    """Starts and lengths."""
    return ((i, min(size - i, _PIECE)) for i in range(0, size, _PIECE))


def _address(view: memoryview) -> int:
    """Of contiguous memory of at least one byte."""
    address: int = np.frombuffer(view, np.uint8).__array_interface__["data"][0]
    return address


_TEXEL = 16
"""Bytes of a texel."""


class TexelView:
    """A range of a buffer as vec4 texels: a storage block, and a buffer texture if `image` is set.

    It does not own the buffer, whose GL name is `name`. A `TexelBuffer` has a spare texel behind
    it: llvmpipe of Mesa 25 compiles a program twice if the size of one of its buffer textures is a
    multiple of 256 bytes and that of another is not, so such a texture gets one texel more.
    """

    def __init__(
        self, gl: Functions, name: int, offset: int, size: int, image: bool, is_own: bool = False
    ) -> None:
        self._gl = gl
        self.name = name
        self.offset = offset
        self.size = size
        self._image = image
        self._texels = size + _TEXEL if is_own and size % 256 == 0 else size
        self._texture = 0

    @property
    def texture(self) -> int:
        """The GL name of its buffer texture, created at the first use; 0 if it may have none."""
        if self._image and not self._texture:
            gl = self._gl
            target = gl_names.TEXTURE_BUFFER
            texels = gl_names.RGBA32F
            self._texture = gl.generate("Textures")
            with on_error(partial(TexelView.release, self)):
                bound = gl.integer(gl_names.TEXTURE_BINDING_BUFFER)
                gl.glBindTexture(target, self._texture)
                try:
                    gl.glTexBufferRange(target, texels, self.name, self.offset, self._texels)
                finally:
                    gl.glBindTexture(target, gl.existing("Texture", bound))
        return self._texture

    def release(self) -> None:
        texture, self._texture = self._texture, 0
        if texture:
            self._gl.glDeleteTextures(1, ctypes.c_uint(texture))


class TexelBuffer(TexelView):
    """A buffer, as for `Buffer`, with a view of all its texels."""

    def __init__(self, gl: Functions, data: bytes | memoryview | int, image: bool) -> None:
        size = data if isinstance(data, int) else memoryview(data).nbytes
        # Nor is the buffer's size a power of two, for the same reason.
        is_power = (size + _TEXEL).bit_count() == 1
        self.buffer = Buffer(gl, data, 2 * _TEXEL if is_power else _TEXEL)
        with on_error(self.buffer.release):
            super().__init__(gl, self.buffer.name, 0, size, image, is_own=True)

    def release(self) -> None:
        in_any_case((super().release, self.buffer.release))
