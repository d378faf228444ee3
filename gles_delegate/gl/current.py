"""This thread's current context, of EGL or GLX."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeGuard

from gles_delegate.errors import ContextError
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import VERSION, Functions
from gles_delegate.gl.libegl import libegl
from gles_delegate.gl.libglx import HOW_TO_USE_EGL, GlxBinding

if TYPE_CHECKING:
    import moderngl


def is_moderngl_context(context: object) -> TypeGuard[moderngl.Context]:
    """Whether it is a `moderngl.Context`, without importing moderngl."""
    return isinstance(context, getattr(sys.modules.get("moderngl"), "Context", ()))


def current_handle() -> int:
    """This thread's current EGLContext or GLXContext; 0 if there is none."""
    handle = current_context()
    if handle:
        return handle
    glx = GlxBinding.of_this_thread()
    return glx.context if glx else 0


def current_loader() -> Callable[[str], int]:
    """The current context's loader: name to address, 0 for a missing function.

    Raises ContextError for a GLX context if glcontext is not installed.
    """
    if current_context():
        return lambda name: int(libegl().eglGetProcAddress(name.encode()))
    try:
        import glcontext
    except ImportError as error:
        raise ContextError(
            "expected an EGL context, found a GLX context, which only glcontext can load: pip "
            f"install glcontext (Debian: apt install python3-glcontext), or {HOW_TO_USE_EGL}"
        ) from error
    glx = GlxBinding.of_this_thread()
    detected = glcontext.default_backend()(mode="detect", libgl=glx.library if glx else None)
    return detected.load  # type: ignore[no-any-return]


def current_functions() -> Functions:
    """The current context's functions; raises ContextError if there are none."""
    handle = current_handle()
    if not handle:
        raise ContextError("expected a current EGL or GLX context, found none")
    # The other context may no longer exist, and this one of another kind have its address.
    if _of_thread.handle != handle or _of_thread.version != _version(_of_thread.functions):
        _of_thread.functions = Functions(current_loader())
        _of_thread.handle, _of_thread.version = handle, _version(_of_thread.functions)
    return _of_thread.functions


def _version(functions: Functions) -> bytes:
    return functions.unchecked("glGetString")(VERSION) or b""


class _OfThread(threading.local):
    """The functions of the context that was current last."""

    handle, version = 0, b""
    functions: Functions


_of_thread = _OfThread()


def is_current(context: moderngl.Context) -> bool:
    """Whether this context is the current one; raises ContextError if it was released.

    moderngl cannot switch to a context from ``moderngl.get_context``, which counts as current.
    """
    handle = current_handle()
    if not handle:
        return False
    with _nothing_current(), context:
        return current_handle() in (handle, 0)


@contextmanager
def _nothing_current() -> Iterator[None]:
    """Release the current context, and make it current again afterwards."""
    glx = None if current_context() else GlxBinding.of_this_thread()
    if glx is not None:
        glx.release()
        try:
            yield
        finally:
            glx.restore()
        return
    egl = libegl()
    with egl.restored():
        egl.eglMakeCurrent(egl.eglGetCurrentDisplay(), 0, 0, 0)
        yield
