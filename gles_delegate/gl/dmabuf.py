"""Frames of a camera or decoder in a dma-buf, as textures."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

from gles_delegate.closing import Closing, in_any_case, on_error
from gles_delegate.errors import ContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EXTENSIONS, EglError, attributes, libegl

EXTENSION, WITH_MODIFIERS = "EGL_EXT_image_dma_buf_import", "EGL_EXT_image_dma_buf_import_modifiers"

_LINUX_DMA_BUF = 0x3270
_WIDTH, _HEIGHT, _FOURCC = 0x3057, 0x3056, 0x3271
_FD, _OFFSET, _PITCH, _MODIFIER_LOW, _MODIFIER_HIGH = 0x3272, 0x3273, 0x3274, 0x3443, 0x3444


class ImportedTexture(Closing):
    """A texture on a dma-buf, for `GpuDelegate.bind_texture_to_tensor`; from `import_dmabuf`.

    Attributes:
        glo: Its GL name.
        size: Width and height in pixels.
    """

    def __init__(self, gl: Functions, image: int, display: int, size: tuple[int, int]) -> None:
        self._gl, self._image, self._display = gl, image, display
        self.size = size
        self.glo = 0
        bound = gl.integer(gl_names.TEXTURE_BINDING_2D)
        try:
            with on_error(self.close):
                self.glo = gl.generate("Textures")
                gl.glBindTexture(gl_names.TEXTURE_2D, self.glo)
                gl.glEGLImageTargetTexture2DOES(gl_names.TEXTURE_2D, image)
        finally:
            gl.glBindTexture(gl_names.TEXTURE_2D, bound)

    def close(self) -> None:
        """Free the texture; its context must be current. The dma-buf stays the caller's."""
        if self._image:
            image, name = self._image, ctypes.c_uint(self.glo)
            self._image = self.glo = 0
            in_any_case(
                (
                    lambda: self._gl.glDeleteTextures(1, name),
                    lambda: libegl().eglDestroyImageKHR(self._display, image),
                )
            )


def import_dmabuf(
    fd: int,
    width: int,
    height: int,
    fourcc: str | int,
    stride: int,
    offset: int = 0,
    modifier: int | None = None,
) -> ImportedTexture:
    """Import a plane of a dma-buf as a texture of the current EGL context, without a copy.

    For NV12 and I420 import each plane by itself, as "R8  " and "GR88", or "R8  " three times.

    Args:
        fd: The file descriptor. EGL duplicates it, so it may be closed afterwards.
        width: In pixels.
        height: In pixels.
        fourcc: The DRM format of linux/drm_fourcc.h, such as "XR24" or "AB24".
        stride: Bytes from one row to the next.
        offset: Bytes to the first row.
        modifier: The DRM format modifier (tiling); None: implied by the driver that wrote it.

    Raises:
        ValueError: A size is invalid, `fd` is not a dma-buf, or EGL refuses the combination.
        ContextError: No EGL context is current, or its driver cannot import dma-bufs.
    """
    if min(width, height, stride) <= 0 or min(fd, offset) < 0:
        raise ValueError(
            "expected a positive width, height and stride and no negative fd or offset, found "
            f"{width}, {height}, {stride}, {fd} and {offset}"
        )
    if isinstance(fourcc, str):
        if len(fourcc) != 4 or not fourcc.isascii():
            raise ValueError(f"fourcc must be four ASCII characters, not {fourcc!r}")
        fourcc = int.from_bytes(fourcc.encode(), "little")
    _check_descriptor(fd)
    egl = libegl()
    display = egl.eglGetCurrentDisplay()
    if not display:
        raise ContextError("expected a current EGL context to import the dma-buf into, found none")
    extensions = egl.eglQueryString(display, EXTENSIONS).decode().split()
    needed = EXTENSION if modifier is None else WITH_MODIFIERS
    if needed not in extensions:
        raise ContextError(
            f"this EGL display cannot import the dma-buf: its driver has no {needed}, which takes "
            "a GPU's driver; copy the frame into a texture instead"
        )
    plane = [_FD, fd, _OFFSET, offset, _PITCH, stride]
    if modifier is not None:
        plane += [_MODIFIER_LOW, _signed(modifier), _MODIFIER_HIGH, _signed(modifier >> 32)]
    wanted = attributes(_WIDTH, width, _HEIGHT, height, _FOURCC, _signed(fourcc), *plane)
    try:
        image = egl.eglCreateImageKHR(display, 0, _LINUX_DMA_BUF, 0, wanted)
    except EglError as error:
        raise ValueError(
            f"EGL takes no dma-buf of {width}x{height}, fourcc {fourcc:#x}, stride {stride}, "
            f"offset {offset}, modifier {modifier}: {error}"
        ) from error
    gl = Functions(lambda name: int(egl.eglGetProcAddress(name.encode())))
    return ImportedTexture(gl, image, display, (width, height))


def _check_descriptor(fd: int) -> None:
    """Raise `ValueError` if the kernel says that `fd` is not a dma-buf.

    Not every driver checks: llvmpipe imports any file.
    """
    try:
        os.fstat(fd)
    except OSError as error:
        raise ValueError(f"expected the descriptor of a dma-buf, found {fd}: {error}") from error
    try:
        file = os.readlink(f"/proc/self/fd/{fd}")
        properties = Path(f"/proc/self/fdinfo/{fd}").read_bytes()
    except OSError:  # without /proc, the driver has to check
        return
    if not _is_dmabuf(file, properties):
        raise ValueError(f"expected the descriptor of a dma-buf, found {fd}, which is {file!r}")


def _is_dmabuf(file: str, properties: bytes) -> bool:
    """Whether a descriptor's link and fdinfo in /proc belong to a dma-buf.

    Since Linux 5.3, fdinfo names the exporter. Before, only the link identifies a dma-buf.
    """
    return b"\nexp_name:" in properties or file == "anon_inode:dmabuf"


def _signed(word: int) -> int:
    """The low 32 bits, as an EGLint."""
    return ctypes.c_int32(word & 0xFFFFFFFF).value
