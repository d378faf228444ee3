"""OSMesa's current context on this thread, which Mesa's EGL takes the place of."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from ctypes import byref, c_int, c_ubyte, c_uint, c_void_p
from dataclasses import dataclass
from functools import cache

from gles_delegate.errors import GLError
from gles_delegate.gl.libglx import GlxBinding, with_prototypes

_TYPE = 0x23
_PROTOTYPES = {  # see `with_prototypes`
    "OSMesaGetCurrentContext": (c_void_p,),
    "OSMesaGetIntegerv": (None, c_int, c_void_p),
    "OSMesaGetColorBuffer": (c_ubyte, c_void_p, *[c_void_p] * 4),
    "OSMesaMakeCurrent": (c_ubyte, c_void_p, c_void_p, c_uint, c_int, c_int),
}


@dataclass(frozen=True)
class OsmesaBinding:
    """A thread's state that OSMesaMakeCurrent sets: a context, and the memory it draws to."""

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
        osmesa = _loaded()
        context = osmesa.OSMesaGetCurrentContext() if osmesa is not None else None
        if osmesa is None or not context:
            return None
        kind, width, height, form, buffer = c_int(), c_int(), c_int(), c_int(), c_void_p()
        osmesa.OSMesaGetIntegerv(_TYPE, byref(kind))
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


def _loaded() -> ctypes.CDLL | None:
    for name in ("libOSMesa.so.8", "libOSMesa.so.6"):
        with suppress(OSError, AttributeError):
            return with_prototypes(ctypes.CDLL(name, os.RTLD_NOLOAD), _PROTOTYPES)
    return None
