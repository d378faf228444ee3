"""Frames of a camera or decoder in a dma-buf, as textures."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from gles_delegate.errors import ContextError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import EXTENSIONS, EglError, attributes, libegl
from gles_delegate.support.closing import Closing, in_any_case, on_error

EXTENSION, WITH_MODIFIERS = "EGL_EXT_image_dma_buf_import", "EGL_EXT_image_dma_buf_import_modifiers"

EXTERNAL = "GL_OES_EGL_image_external_essl3"

_LINUX_DMA_BUF = 0x3270
_WIDTH, _HEIGHT, _FOURCC = 0x3057, 0x3056, 0x3271
# The first plane's; the numbers of the next ones follow.
_FD, _OFFSET, _PITCH, _MODIFIER_LOW, _MODIFIER_HIGH = 0x3272, 0x3273, 0x3274, 0x3443, 0x3444
_YUV_COLOR_SPACE, _SAMPLE_RANGE, _FULL, _NARROW = 0x327B, 0x327C, 0x3282, 0x3283
_STANDARDS = {"bt601": 0x327F, "bt709": 0x3280, "bt2020": 0x3281}


External: TypeAlias = Literal["bt601", "bt709", "bt2020", "bt601-full", "bt709-full", "bt2020-full"]
"""How an external texture's YUV is converted to colors."""


class ImportedTexture(Closing):
    """A texture on a dma-buf, for `GpuDelegate.bind_texture_to_tensor`; from `import_dmabuf`.

    Attributes:
        glo: Its GL name.
        size: Width and height in pixels.
        external: Its target is GL_TEXTURE_EXTERNAL_OES, not GL_TEXTURE_2D.

    Examples:
        >>> with gd.EglContext():
        ...     texture = gd.import_dmabuf(fd, 640, 480, "XR24", stride=2560)  # doctest: +SKIP
        ...     texture.size  # doctest: +SKIP
        (640, 480)
    """

    def __init__(
        self, gl: Functions, image: int, display: int, size: tuple[int, int], external: bool
    ) -> None:
        self._gl = gl
        self._image = image
        self._display = display
        self.size = size
        self.external = external
        self.glo = 0
        target = gl_names.TEXTURE_EXTERNAL if external else gl_names.TEXTURE_2D
        binding = gl_names.TEXTURE_BINDING_EXTERNAL if external else gl_names.TEXTURE_BINDING_2D
        bound = gl.integer(binding)
        try:
            with on_error(self.close):
                self.glo = gl.generate("Textures")
                gl.glBindTexture(target, self.glo)
                gl.glEGLImageTargetTexture2DOES(target, image)
        finally:
            gl.glBindTexture(target, bound)

    def close(self) -> None:
        """Free the texture; its context must be current. The dma-buf stays the caller's."""
        if self._image:
            image = self._image
            name = ctypes.c_uint(self.glo)
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

    `import_picture` imports all planes of a picture.

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

    Examples:
        >>> with gd.EglContext():
        ...     texture = gd.import_dmabuf(fd, 640, 480, "XR24", stride=2560)  # doctest: +SKIP
    """
    return _imported(fd, (width, height), fourcc, [(offset, stride)], modifier)


def _imported(
    fd: int,
    size: tuple[int, int],
    fourcc: str | int,
    planes: Sequence[tuple[int, int]],
    modifier: int | None,
    external: str | None = None,
) -> ImportedTexture:
    """A texture on planes, each with its offset and stride; see `import_picture`."""
    width, height = size
    offset, stride = (min(numbers) for numbers in zip(*planes, strict=True))
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
    display = _display(EXTENSION if modifier is None else WITH_MODIFIERS)
    gl = Functions(lambda name: int(egl.eglGetProcAddress(name.encode())))
    if external is not None and EXTERNAL not in gl.extensions():
        raise ContextError(
            f"this context cannot sample external textures: it does not support {EXTERNAL}"
        )
    words = [_WIDTH, width, _HEIGHT, height, _FOURCC, _signed(fourcc)]
    for i, (begin, pitch) in enumerate(planes):
        words += [_FD + 3 * i, fd, _OFFSET + 3 * i, begin, _PITCH + 3 * i, pitch]
        if modifier is not None:
            words += [_MODIFIER_LOW + 2 * i, _signed(modifier)]
            words += [_MODIFIER_HIGH + 2 * i, _signed(modifier >> 32)]
    if external is not None:
        standard, _, full = external.partition("-")
        words += [_YUV_COLOR_SPACE, _STANDARDS[standard], _SAMPLE_RANGE, _FULL if full else _NARROW]
    try:
        image = egl.eglCreateImageKHR(display, 0, _LINUX_DMA_BUF, 0, attributes(*words))
    except EglError as error:
        raise ValueError(
            f"EGL cannot import a {width}x{height} dma-buf, fourcc {fourcc:#x}, stride {stride}, "
            f"offset {offset}, modifier {modifier}: {error}"
        ) from error
    return ImportedTexture(gl, image, display, size, external is not None)


def _display(extension: str) -> int:
    """The current context's display, which must have an extension."""
    egl = libegl()
    display = egl.eglGetCurrentDisplay()
    if not display:
        raise ContextError("expected a current EGL context to import the dma-buf into, found none")
    if extension not in egl.eglQueryString(display, EXTENSIONS).decode().split():
        raise ContextError(
            f"this EGL display cannot import the dma-buf: its driver does not support "
            f"{extension}, as GPUs' drivers do; copy the frame into a texture instead"
        )
    return int(display)


@dataclass(frozen=True)
class _Plane:
    """A plane: its DRM format, and a pixel's bytes, width and height in the picture."""

    fourcc: str
    size: int = 4
    across: int = 1
    down: int = 1


_WHOLE = {"YUY2": "YUYV", "I420": "YU12", "YUV420": "YU12"}
"""DRM's names of whole-picture formats, where they differ."""
_I420 = (_Plane("R8  ", 1), _Plane("R8  ", 1, 2, 2), _Plane("R8  ", 1, 2, 2))
_LAYOUTS: Mapping[str, tuple[_Plane, ...]] = {
    "NV12": (_Plane("R8  ", 1), _Plane("GR88", 2, 2, 2)),
    "NV16": (_Plane("R8  ", 1), _Plane("GR88", 2, 2)),
    **dict.fromkeys(("YUYV", "YUY2", "UYVY"), (_Plane("AB24", 4, 2),)),
    **dict.fromkeys(("I420", "YU12", "YUV420"), _I420),
    **dict.fromkeys(("XR24", "XRGB8888"), (_Plane("XR24"),)),
    **dict.fromkeys(("AR24", "ARGB8888"), (_Plane("AR24"),)),
    **dict.fromkeys(("XB24", "XBGR8888"), (_Plane("XB24"),)),
    **dict.fromkeys(("AB24", "ABGR8888"), (_Plane("AB24"),)),
}
"""The planes of pictures, by the names of DRM, V4L2 and libcamera."""


def import_picture(
    fd: int,
    width: int,
    height: int,
    format: str,
    stride: int,
    modifier: int | None = None,
    offsets: Sequence[int] = (),
    external: External | None = None,
) -> tuple[ImportedTexture, ...]:
    """Import a picture in one dma-buf as textures, one for each plane, without a copy.

    Args:
        fd: See `import_dmabuf`.
        width: In pixels.
        height: In pixels.
        format: "NV12", "NV16", "I420" ("YU12", "YUV420"), or 32-bit pixels: "XRGB8888", "ARGB8888",
            "XBGR8888" or "ABGR8888" ("XR24", "AR24", "XB24", "AB24"). "YUYV" ("YUY2") and "UYVY"
            are a texture of half the width, for `ImageTransform.packed`.
        stride: Bytes from one row of the first plane to the next; of I420's chroma planes half.
        modifier: See `import_dmabuf`.
        offsets: Bytes to the first row of each plane. By default each plane follows the one before.
        external: Import all planes as one external texture. The driver converts YUV to colors by
            this standard; "-full": YUV ranges from 0 to 255. Some drivers accept their own tiled
            formats only this way.

    Returns:
        The planes, as `GpuDelegate.bind_texture_to_tensor` takes them.

    Raises:
        ValueError: The format is unknown; or see `import_dmabuf`.
        ContextError: See `import_dmabuf`; or the context cannot sample external textures.

    Examples:
        >>> with gd.EglContext():
        ...     y, uv = gd.import_picture(fd, 1920, 1080, "NV12", stride=1920)  # doctest: +SKIP
    """
    if external not in (None, *get_args(External)):
        raise ValueError(f"external must be one of {get_args(External)} or None, not {external!r}")
    layout = _LAYOUTS.get(format)
    if layout is None:
        raise ValueError(f"expected a format of {', '.join(_LAYOUTS)}, found {format!r}")
    if len(offsets) not in (0, len(layout)):
        raise ValueError(f"expected {len(layout)} offsets for {format}, found {[*offsets]}")
    places: list[tuple[int, int]] = []
    start = 0
    for i, plane in enumerate(layout):
        pitch = stride * plane.size * layout[0].across // (layout[0].size * plane.across)
        places.append((offsets[i] if offsets else start, pitch))
        start += pitch * -(-height // plane.down)
    if external is not None:
        fourcc = layout[0].fourcc if format.startswith(("X", "A")) else _WHOLE.get(format, format)
        return (_imported(fd, (width, height), fourcc, places, modifier, external),)
    planes: list[ImportedTexture] = []
    with on_error(lambda: in_any_case(plane.close for plane in planes)):
        for plane, place in zip(layout, places, strict=True):
            size = -(-width // plane.across), -(-height // plane.down)
            planes.append(_imported(fd, size, plane.fourcc, [place], modifier))
    return tuple(planes)


class DmabufPictures(Closing):
    """The pictures of a camera or decoder, which cycles through a few buffers.

    Each buffer is imported once. `close` frees the textures, in their context, when the camera
    stops or is configured again.

    Args:
        width: In pixels.
        height: In pixels.
        format: See `import_picture`.
        stride: See `import_picture`.
        modifier: See `import_picture`.
        offsets: See `import_picture`.
        external: See `import_picture`.

    Examples:
        >>> pictures = gd.DmabufPictures(1920, 1080, "NV12", stride=1920)
        >>> planes = pictures.textures(buffer.index, buffer.fd)  # doctest: +SKIP
        >>> delegate.bind_texture_to_tensor(0, planes)  # doctest: +SKIP
    """

    def __init__(
        self,
        width: int,
        height: int,
        format: str,
        stride: int,
        modifier: int | None = None,
        offsets: Sequence[int] = (),
        external: External | None = None,
    ) -> None:
        self._layout = (width, height, format, stride, modifier, offsets, external)
        self._known: dict[Hashable, tuple[ImportedTexture, ...]] = {}

    def textures(self, key: Hashable, fd: int) -> tuple[ImportedTexture, ...]:
        """The planes of a buffer; for a new buffer, raises the errors of `import_picture`.

        Args:
            key: An identifier of the buffer, such as its index. A descriptor is not one: once it is
                closed, the kernel gives its number to another file.
            fd: The buffer's descriptor.
        """
        if key not in self._known:
            self._known[key] = import_picture(fd, *self._layout)
        return self._known[key]

    def close(self) -> None:
        """Free all textures; their context must be current. A second call does nothing."""
        known, self._known = self._known, {}
        in_any_case(plane.close for planes in known.values() for plane in planes)


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
