"""An app's context that a delegate works in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from gles_delegate.errors import WrongContextError
from gles_delegate.gl.current import current_handle, current_loader, is_current
from gles_delegate.gl.driver import require_version
from gles_delegate.gl.egl import current_context
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import DestroyedError, libegl
from gles_delegate.gl.mark import Mark

if TYPE_CHECKING:
    import moderngl


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
