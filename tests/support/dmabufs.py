"""An EGL that imports dma-bufs: files stand for them, and are read when they are imported."""

import os
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.gl import dmabuf
from gles_delegate.gl.libegl import attributes, libegl
from gles_delegate.image.transform import Yuv
from tests.support.app import App

_WIDTH, _HEIGHT, _FOURCC, _FD, _OFFSET, _PITCH = 0x3057, 0x3056, 0x3271, 0x3272, 0x3273, 0x3274
_TEXTURE_2D = 0x30B1
_BYTES = {"R8  ": 1, "GR88": 2, "XR24": 4, "AR24": 4, "XB24": 4, "AB24": 4}


class Dmabufs:
    """Counts what is imported into an app's context, and what is freed.

    Attributes:
        alive: The EGLImages.
        imports: How many there were.
        textures: The textures that stand for them.
    """

    def __init__(self, app: App, patch: pytest.MonkeyPatch) -> None:
        self._app = app
        self.alive: set[int] = set()
        self.imports = 0
        self.textures: list[Any] = []
        egl = libegl()
        self._create, self._destroy = egl.eglCreateImageKHR, egl.eglDestroyImageKHR
        query: Callable[..., bytes] = egl.eglQueryString
        names = f" {dmabuf.EXTENSION} {dmabuf.WITH_MODIFIERS}".encode()
        patch.setattr(egl, "eglQueryString", lambda *a: query(*a) + names)
        patch.setattr(egl, "eglCreateImageKHR", self._import)
        patch.setattr(egl, "eglDestroyImageKHR", self._free)
        patch.setattr(dmabuf, "_is_dmabuf", lambda *_: True)

    def _import(self, display: int, context: int, target: int, buffer: int, wanted: Any) -> int:
        words = list(wanted)
        asked = dict(zip(words[0:-1:2], words[1::2], strict=True))
        fourcc = asked[_FOURCC].to_bytes(4, "little").decode()
        is_whole = fourcc == "NV12"
        plane = self._converted(asked) if is_whole else self._read(asked, _BYTES[fourcc])
        if fourcc in ("XR24", "AR24"):
            plane = plane[..., [2, 1, 0, 3]]
        texture = self._app.texture(np.ascontiguousarray(plane))
        self.textures.append(texture)
        handle = self._app.egl.handle
        image = int(self._create(display, handle, _TEXTURE_2D, texture.glo, attributes()))
        self.alive.add(image)
        self.imports += 1
        return image

    def _read(self, asked: dict[int, int], size: int) -> NDArray[np.uint8]:
        pitch, rows = asked[_PITCH], asked[_HEIGHT]
        data = np.frombuffer(os.pread(asked[_FD], pitch * rows, asked[_OFFSET]), np.uint8)
        wide = np.resize(np.concatenate([data, np.zeros(-len(data) % pitch, "u1")]), (rows, pitch))
        return wide[:, : asked[_WIDTH] * size].reshape(rows, asked[_WIDTH], size)

    def _converted(self, asked: dict[int, int]) -> NDArray[np.uint8]:
        """The colors of NV12, as EGL is asked to make them."""
        size = asked[_HEIGHT], asked[_WIDTH]
        half = {_HEIGHT: -(-size[0] // 2), _WIDTH: -(-size[1] // 2)}
        second = {_FD: asked[_FD + 3], _OFFSET: asked[_OFFSET + 3], _PITCH: asked[_PITCH + 3]}
        planes = [self._read(asked, 1), self._read({**half, **second}, 2)]
        full = asked[0x327C] == 0x3282
        yuv = get_args(Yuv)[asked[0x327B] - 0x327F]
        transform = gd.ImageTransform(yuv=yuv, full_range=full, mean=0, std=1)
        colors = transform.apply(planes, size).reshape(*size, 3)
        opaque = np.full((*size, 1), 255.0)
        return np.concatenate([colors, opaque], 2).round().astype(np.uint8)

    def _free(self, display: int, image: int) -> int:
        self.alive.remove(image)
        return int(self._destroy(display, image))
