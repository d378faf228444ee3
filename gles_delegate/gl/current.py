"""The context that is current on this thread, of EGL or GLX."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes.util import find_library
from functools import cache
from typing import TYPE_CHECKING, TypeGuard

from gles_delegate.errors import ContextError
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.libegl import libegl

if TYPE_CHECKING:
    import moderngl


def is_moderngl_context(thing: object) -> TypeGuard[moderngl.Context]:
    """Whether it is a `moderngl.Context`, without importing moderngl."""
    return isinstance(thing, getattr(sys.modules.get("moderngl"), "Context", ()))


def current_handle() -> int:
    """The EGLContext or GLXContext that is current on this thread; 0 if there is none."""
    handle = current_context()
    if handle:
        return handle
    glx = _libgl()
    return (glx.glXGetCurrentContext() or 0) if glx else 0


def current_loader() -> Callable[[str], int]:
    """The function loader of the current context: name to address, 0 if there is none.

    Raises:
        ContextError: It is a GLX context, and glcontext is not installed.
    """
    if current_context():
        return lambda name: int(libegl().eglGetProcAddress(name.encode()))
    try:
        import glcontext
    except ImportError as error:
        raise ContextError(
            "expected an EGL context, found a GLX context, which only glcontext can load: pip "
            "install glcontext (Debian: apt install python3-glcontext), or have the app create "
            "its context with EGL (GLFW: the hint CONTEXT_CREATION_API = EGL_CONTEXT_API; "
            "Qt: QT_XCB_GL_INTEGRATION=xcb_egl; SDL: SDL_VIDEO_X11_FORCE_EGL=1)"
        ) from error
    glx = _libgl()
    detected = glcontext.default_backend()(mode="detect", libgl=glx._name if glx else None)
    return detected.load  # type: ignore[no-any-return]


def is_current(context: moderngl.Context) -> bool:
    """Whether this very context is the current one.

    moderngl cannot switch to a context that ``moderngl.get_context`` found: such a context counts
    as the current one.
    """
    handle = current_handle()
    if not handle:
        return False
    with _nothing_current():
        try:
            with context:
                return current_handle() in (handle, 0)
        except ContextError:  # an EglContext of ours, released or current on another thread
            return False


@contextmanager
def _nothing_current() -> Iterator[None]:
    """Release the current context, and make it current again afterwards."""
    glx = _libgl()
    if current_context() or not glx:
        egl = libegl()
        with egl.restored():
            egl.eglMakeCurrent(egl.eglGetCurrentDisplay(), 0, 0, 0)
            yield
        return
    display, context = glx.glXGetCurrentDisplay(), glx.glXGetCurrentContext()
    draw, read = glx.glXGetCurrentDrawable(), glx.glXGetCurrentReadDrawable()
    glx.glXMakeContextCurrent(display, 0, 0, None)
    try:
        yield
    finally:
        glx.glXMakeContextCurrent(display, draw, read, context)


_XID = ctypes.c_ulong
_GLX_PROTOTYPES = {  # the result's type, then the arguments'
    "glXGetCurrentContext": (ctypes.c_void_p,),
    "glXGetCurrentDisplay": (ctypes.c_void_p,),
    "glXGetCurrentDrawable": (_XID,),
    "glXGetCurrentReadDrawable": (_XID,),
    "glXMakeContextCurrent": (ctypes.c_int, ctypes.c_void_p, _XID, _XID, ctypes.c_void_p),
}


@cache
def _libgl() -> ctypes.CDLL | None:
    """The library with GLX, if there is one."""
    for candidate in ("libGL.so.1", find_library("GL")):
        try:
            if not candidate:
                continue
            library = ctypes.CDLL(candidate)
            for name, (result, *arguments) in _GLX_PROTOTYPES.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return library
    return None
