"""GLX's and OSMesa's current contexts on this thread, from libraries that the app has loaded."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping
from contextlib import suppress
from ctypes import byref, c_char_p, c_int, c_ubyte, c_uint, c_ulong, c_void_p
from dataclasses import dataclass
from functools import cache
from typing import Any

from gles_delegate.errors import GLError

HOW_TO_USE_EGL = (
    "have the app create its context with EGL (GLFW: the hint CONTEXT_CREATION_API = "
    "EGL_CONTEXT_API; Qt: QT_XCB_GL_INTEGRATION=xcb_egl; SDL: SDL_VIDEO_X11_FORCE_EGL=1)"
)

_GLX_PROTOTYPES = {  # see `with_prototypes`
    "glXGetCurrentContext": (c_void_p,),
    "glXGetCurrentDisplay": (c_void_p,),
    "glXGetCurrentDrawable": (c_ulong,),
    "glXGetCurrentReadDrawable": (c_ulong,),
    "glXGetProcAddress": (c_void_p, c_char_p),
    "glXMakeContextCurrent": (c_int, c_void_p, c_ulong, c_ulong, c_void_p),
}
_OSMESA_TYPE = 0x23
_OSMESA_PROTOTYPES = {  # see `with_prototypes`
    "OSMesaGetCurrentContext": (c_void_p,),
    "OSMesaGetIntegerv": (None, c_int, c_void_p),
    "OSMesaGetColorBuffer": (c_ubyte, c_void_p, *[c_void_p] * 4),
    "OSMesaMakeCurrent": (c_ubyte, c_void_p, c_void_p, c_uint, c_int, c_int),
}


@dataclass(frozen=True)
class GlxBinding:
    """A thread's state that glXMakeContextCurrent sets.

    `exists` is False if the app has destroyed the context, which lives on while it is current.
    """

    glx: ctypes.CDLL
    display: int
    draw: int
    read: int
    context: int
    exists: bool

    @classmethod
    def of_this_thread(cls) -> GlxBinding | None:
        """None if no GLX context is current."""
        glx = _loaded()
        context = glx.glXGetCurrentContext() if glx is not None else None
        if glx is None or not context:
            return None
        # Mesa has no XID for a context that was destroyed while it is current.
        get_id = glx.glXGetProcAddress(b"glXGetContextIDEXT")
        return cls(
            glx=glx,
            display=glx.glXGetCurrentDisplay(),
            draw=glx.glXGetCurrentDrawable(),
            read=glx.glXGetCurrentReadDrawable(),
            context=context,
            exists=not get_id or bool(ctypes.CFUNCTYPE(c_ulong, c_void_p)(get_id)(context)),
        )

    @property
    def library(self) -> str:
        return str(self.glx._name)

    def release(self) -> None:
        """Make no GLX context current on this thread."""
        self.glx.glXMakeContextCurrent(self.display, 0, 0, None)

    def restore(self) -> None:
        """Make it current on this thread again, where EGL must have none: X ends the program.

        X does so for a context that no longer exists, too: none stays current then.
        """
        if self.exists and not self.glx.glXMakeContextCurrent(
            self.display, self.draw, self.read, self.context
        ):
            raise GLError("glXMakeContextCurrent: the app's GLX context cannot be made current")


def _loaded() -> ctypes.CDLL | None:
    """The library with GLX; None if this process has not loaded it."""
    for name in ("libGL.so.1", "libGLX.so.0"):
        with suppress(OSError, AttributeError):
            return _library(name)
    return None


@cache
def _library(name: str) -> ctypes.CDLL:
    return with_prototypes(ctypes.CDLL(name, os.RTLD_NOLOAD), _GLX_PROTOTYPES)


def with_prototypes(library: ctypes.CDLL, prototypes: Mapping[str, tuple[Any, ...]]) -> ctypes.CDLL:
    """Declare functions of a library: by name the result's type, then the arguments'.

    Raises AttributeError if it lacks one.
    """
    for function, (result, *arguments) in prototypes.items():
        getattr(library, function).restype = result
        getattr(library, function).argtypes = arguments
    return library


@dataclass(frozen=True)
class OsmesaBinding:
    """A thread's state that OSMesaMakeCurrent sets: a context, and the memory it draws to.

    Mesa's EGL takes its place.
    """

    osmesa: ctypes.CDLL
    context: int
    buffer: int
    type: int
    width: int
    height: int

    @classmethod
    def of_this_thread(cls) -> OsmesaBinding | None:
        """None if no OSMesa context is current, where EGL has none."""
        glapi = _glapi()
        if glapi is None or not glapi._glapi_get_context() or GlxBinding.of_this_thread():
            return None
        osmesa = _loaded_osmesa()
        context = osmesa.OSMesaGetCurrentContext() if osmesa is not None else None
        if osmesa is None or not context:
            return None
        kind = c_int()
        width = c_int()
        height = c_int()
        form = c_int()
        buffer = c_void_p()
        osmesa.OSMesaGetIntegerv(_OSMESA_TYPE, byref(kind))
        sizes = byref(width), byref(height), byref(form)
        osmesa.OSMesaGetColorBuffer(context, *sizes, byref(buffer))
        return cls(osmesa, context, buffer.value or 0, kind.value, width.value, height.value)

    def restore(self) -> None:
        """Make it current on this thread again, where EGL must have none."""
        area = self.type, self.width, self.height
        if not self.osmesa.OSMesaMakeCurrent(self.context, self.buffer, *area):
            raise GLError("OSMesaMakeCurrent: the app's context cannot be made current")


@cache
def _glapi() -> ctypes.CDLL | None:
    """Mesa's library of current contexts, which EGL and OSMesa share before Mesa 25.1.

    It is loaded with EGL's driver.
    """
    with suppress(OSError, AttributeError):
        glapi = ctypes.CDLL("libglapi.so.0", os.RTLD_NOLOAD)
        glapi._glapi_get_context.restype = c_void_p
        return glapi
    return None


def _loaded_osmesa() -> ctypes.CDLL | None:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6"):
        with suppress(OSError, AttributeError):
            return with_prototypes(ctypes.CDLL(name, os.RTLD_NOLOAD), _OSMESA_PROTOTYPES)
    return None
