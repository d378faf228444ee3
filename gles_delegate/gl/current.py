"""This thread's current context, of EGL or GLX, and an app's that a delegate works in."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal, TypeGuard

from gles_delegate.errors import ContextError, WrongContextError
from gles_delegate.gl.driver import require_version
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import VERSION, Functions
from gles_delegate.gl.libegl import DestroyedError, libegl
from gles_delegate.gl.libglx import HOW_TO_USE_EGL, GlxBinding
from gles_delegate.gl.mark import Mark
from gles_delegate.support.undisturbed import Undisturbed

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
        _of_thread.version = _version(_of_thread.functions)
        _of_thread.handle = handle
    return _of_thread.functions


def _version(functions: Functions) -> bytes:
    return functions.unchecked("glGetString")(VERSION) or b""


class _OfThread(threading.local):
    """The functions of the context that was current last."""

    handle = 0
    version = b""
    functions: Functions


_of_thread = _OfThread()


def is_current(context: moderngl.Context) -> bool:
    """Whether this context is the current one; raises ContextError if it was released.

    moderngl cannot switch to a context from ``moderngl.get_context``, which counts as current.
    """
    handle = current_handle()
    if not handle:
        return False
    with Undisturbed(), _nothing_current(), context:
        return current_handle() in (handle, 0)


@contextmanager
def _nothing_current() -> Iterator[None]:
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


class Adopted:
    """A context that was current when it was adopted, and must be at every use.

    Attributes:
        gl: Its functions.
        mark: What it is recognized by besides its address, once it is marked.

    Raises:
        WrongContextError: It is not current.
        ContextError: It has neither OpenGL ES 3.1 nor OpenGL 4.3.
    """

    def __init__(self, context: moderngl.Context | Literal["current"]) -> None:
        self.handle = current_handle()
        if not self.handle:
            raise WrongContextError(
                "expected the context to adopt to be current on this thread, found no current "
                "context: make it current, and then bind the model on this thread"
            )
        if context != "current" and not is_current(context):
            raise WrongContextError(
                "expected the moderngl.Context to adopt to be current on this thread, found "
                "another context: make it current, and then bind the model"
            )
        self._display = libegl().eglGetCurrentDisplay() if current_context() else 0
        if self._display:
            libegl().refuse_inherited(self._display)
        self.gl = Functions(current_loader())
        require_version(self.gl)
        self.mark: Mark | None = None

    def require(self) -> None:
        """Raise WrongContextError if it is not current, DestroyedError if it no longer exists.

        GLX does not say whether a context exists: one that is not current may, then.
        """
        current = current_handle()
        expected = f"the adopted context {self.handle:#x} must be current, found "
        if current != self.handle:
            if self._display and not libegl().has_context(self._display, self.handle):
                raise DestroyedError(f"{expected}that EGL has no such context")
            raise WrongContextError(f"{expected}{current:#x}: make it current before the call")
        if self.mark is not None and not self.mark.is_here():
            raise DestroyedError(f"{expected}another one at its address")
