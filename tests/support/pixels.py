"""Textures read back through OpenGL ES itself: moderngl's way crashes on ANGLE."""

import ctypes
from collections.abc import Callable
from ctypes import c_int, c_uint, c_void_p
from typing import Any

import moderngl
import numpy as np
from numpy.typing import NDArray

_FRAMEBUFFER, _BINDING, _COLOR, _TEXTURE_2D = 0x8D40, 0x8CA6, 0x8CE0, 0x0DE1
_RGBA, _UNSIGNED_BYTE, _FLOAT, _PACK_ALIGNMENT = 0x1908, 0x1401, 0x1406, 0x0D05


def read_texture(load: Callable[[str], int], texture: moderngl.Texture) -> NDArray[Any]:
    """[height, width, components] of uint8, float16 or float32; its context is current."""

    def call(name: str, *arguments: Any) -> None:
        kinds = (c_void_p if isinstance(a, ctypes.Array) else c_uint for a in arguments)
        ctypes.CFUNCTYPE(None, *kinds)(load(name))(*arguments)

    framebuffer, bound = (c_uint * 1)(), (c_int * 1)()
    call("glGetIntegerv", _BINDING, bound)
    call("glGenFramebuffers", 1, framebuffer)
    call("glBindFramebuffer", _FRAMEBUFFER, framebuffer[0])
    call("glFramebufferTexture2D", _FRAMEBUFFER, _COLOR, _TEXTURE_2D, texture.glo, 0)
    call("glPixelStorei", _PACK_ALIGNMENT, 4)
    is_float = texture.dtype != "f1"
    # Four channels of these two types can be read of every format.
    pixels = np.zeros((texture.height, texture.width, 4), np.float32 if is_float else np.uint8)
    target = (ctypes.c_ubyte * pixels.nbytes).from_buffer(pixels)
    kind = _FLOAT if is_float else _UNSIGNED_BYTE
    call("glReadPixels", 0, 0, texture.width, texture.height, _RGBA, kind, target)
    call("glBindFramebuffer", _FRAMEBUFFER, bound[0])
    call("glDeleteFramebuffers", 1, framebuffer)
    dtype = {"f1": np.uint8, "f2": np.float16, "f4": np.float32}[texture.dtype]
    return pixels[..., : texture.components].astype(dtype)
