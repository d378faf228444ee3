"""Windowless EGL contexts.

`EglContext` has glcontext's protocol (``load``, ``with``, ``release``), so moderngl can use it:

```python
with EglContext() as egl_context:
    ctx = moderngl.create_context(context=egl_context, require=310)
```
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from gles_delegate.errors import ContextError, ContextLostError, GLError, WrongThreadError
from gles_delegate.gl.devices import (
    Device,
    NativeContext,
    best_context,
    contexts_of_all,
    create_context,
    nth_context,
)
from gles_delegate.gl.libegl import (
    BAD_ACCESS,
    CONTEXT_LOST,
    DESTROYED,
    DestroyedError,
    EglBinding,
    EglError,
    forked,
    libegl,
)
from gles_delegate.gl.libglx import HOW_TO_USE_EGL, GlxBinding
from gles_delegate.support.closing import in_any_case
from gles_delegate.support.undisturbed import Undisturbed, unforked


def list_devices() -> list[Device]:
    """Every device with a usable context, hardware first.

    ``EglContext()`` takes the first. Devices that do not work are left out.

    Raises:
        ContextError: There is no libEGL, or it was used before this process was forked.

    Examples:
        >>> len(gd.list_devices()) > 0
        True
    """
    natives = contexts_of_all()
    for native in natives:
        native.destroy()
    return [native.device(index) for index, native in enumerate(natives)]


def current_context() -> int:
    """The EGLContext that is current on this thread; 0 if there is none, or no libEGL."""
    try:
        return int(libegl().eglGetCurrentContext())
    except ContextError:
        return 0


def _sharing_with_current(robust: bool) -> NativeContext:
    handle = current_context()
    if not handle:
        glx = GlxBinding.of_this_thread()
        raise ContextError(
            "expected a current EGL context to share with, found "
            + (f"a GLX context, which cannot: {HOW_TO_USE_EGL}" if glx else "none")
        )
    egl = libegl()
    current = egl.eglGetCurrentDisplay()
    egl.refuse_inherited(current)
    with unforked():
        return create_context(egl, egl.initialized("default", current), handle, robust)


class EglContext:
    """An OpenGL ES context of 3.1 or later, current only inside ``with``.

    ``with`` nests, and costs almost nothing if the context is already current. It restores what was
    current before: display, context, surfaces and the API of ``eglBindAPI``, or a GLX context. If a
    device has only desktop OpenGL, version 4.5 or later is used: it compiles the same shaders.

    Args:
        device_index: Index in `list_devices`. None: the first hardware device, or a software one
            if there is no other.
        share: A context to share buffers, textures and programs with, on the same device.
            "current": the current EGL context, such as that of an app's window, whatever library
            created it. A delegate with this context and `own_thread` computes in parallel to the
            window, which never waits for it.
        robust: With robust access and notification of resets, if EGL has them. A library that
            shares with this context may ask EGL for one without them, as GStreamer does, and EGL
            refuses to share between the two kinds: set False for such a library.

    Attributes:
        device: The `Device` it runs on.
        share: The context that it shares objects with, or None.

    Raises:
        ContextError: There is no libEGL, no such device, or no device with OpenGL ES 3.1; or no
            EGL context is current to share with, or its driver cannot create another one.
        ContextLostError: Another library has destroyed the context to share with.
        ValueError: `device_index` is negative, or is given together with `share`.
        TypeError: `share` is not an `EglContext`.

    Examples:
        >>> egl = gd.EglContext()
        >>> with gd.GpuDelegate(context=egl) as delegate:
        ...     interpreter = gd.Interpreter("segmenter.tflite", experimental_delegates=[delegate])
        >>> with egl:  # current in this block
        ...     fence = gd.Fence.of_current_context()
        >>> egl.release()
    """

    def __init__(
        self,
        device_index: int | None = None,
        *,
        share: EglContext | Literal["current"] | None = None,
        robust: bool = True,
    ) -> None:
        if device_index is not None and share is not None:
            raise ValueError("device_index cannot be chosen with share: leave one of them out")
        if device_index is not None and device_index < 0:
            raise ValueError(f"device_index must be 0 or more, not {device_index}")
        if share != "current" and not isinstance(share, EglContext | None):
            raise TypeError(
                'share must be an EglContext or "current", not '
                f"{type(share).__name__}; a GLX context cannot "
                "share with EGL: adopt the app's context, with GpuDelegate(context=ctx)"
            )
        self._entered: list[EglBinding | None] = []
        self._pid = os.getpid()
        self._is_destroyed = False
        self._native: NativeContext | None
        if share == "current":
            self._native = _sharing_with_current(robust)
        elif share is not None:
            display = share._usable().display
            handle = share.handle
            if not libegl().has_context(display.handle, handle):
                raise share._destroyed("expected an EglContext to share with, found none")
            self._native = create_context(libegl(), display, handle, robust)
        else:
            self._native = best_context() if device_index is None else nth_context(device_index)
            if not robust:
                found = self._native
                try:
                    self._native = create_context(libegl(), found.display, robust=False)
                finally:
                    found.destroy()
        self.share = None if share == "current" else share
        self.device: Device = (
            self.share.device if self.share else self._native.device(device_index or 0)
        )

    def __repr__(self) -> str:
        state = f"on {self.device}" if self._native else "released"
        return f"<{type(self).__name__} {state}>"

    @property
    def handle(self) -> int:
        """The EGLContext."""
        return self._usable().handle

    @property
    def display(self) -> int:
        """The EGLDisplay."""
        return self._usable().display.handle

    @property
    def is_current(self) -> bool:
        """True if it is current on this thread; False once released, or after a fork."""
        native = self._native
        return native is not None and self._pid == os.getpid() and native.is_current

    def load(self, name: str) -> int:
        """The address of a GL function; 0 if the driver lacks it."""
        return self._usable().load(name)

    def __enter__(self) -> EglContext:
        """Make it current.

        Raises:
            WrongThreadError: It is current on another thread.
            ContextLostError: The driver has reset it, or another library has destroyed it.
            ContextError: It is released or inherited by a fork.
        """
        native = self._usable()
        before: EglBinding | None = None
        try:
            if not native.is_current:
                with unforked():
                    before = native.egl.replaced(native.make_current)
        except EglError as error:
            if error.code == CONTEXT_LOST:
                raise ContextLostError(str(error)) from error
            if error.code in DESTROYED:
                raise self._destroyed(str(error)) from error
            if error.code == BAD_ACCESS and self._entered:
                raise WrongThreadError(str(error)) from error
            raise ContextError(str(error)) from error
        if native.mark is not None and not native.mark.is_here():
            if before is not None:
                before.restore()
            raise self._destroyed("expected the EglContext, found another context at its address")
        self._entered.append(before)
        return self

    def __exit__(
        self, kind: object = None, error: BaseException | None = None, traceback: object = None
    ) -> None:
        """Restore what was current at the matching ``__enter__``.

        Raises:
            GLError: EGL failed. Nothing is current then.
        """
        if not self._entered:
            raise ContextError("the EglContext was exited more often than it was entered")
        before = self._entered.pop()
        if before is not None and self._pid == os.getpid():
            try:
                with unforked():
                    before.restore()
            except GLError:
                if error is None:
                    raise

    @contextmanager
    def away(self) -> Iterator[None]:
        """Inside ``with``: what was current before it, until the end of this block.

        Raises what ``with`` raises if it cannot be made current again; what was current stays then.
        """
        self.__exit__()
        try:
            yield
        finally:
            try:
                self.__enter__()
            except BaseException:
                self._entered.append(None)  # for the exit of the block around this one
                raise

    def release(self) -> None:
        """Destroy the context and its objects; later use raises `ContextError`.

        A second call does nothing, nor does a call in a forked child, which does not own it.
        """
        native = self._native
        try:
            if native is not None and self._pid == os.getpid():
                in_any_case((self._unmark, self._destroy))
        finally:
            self._native = None

    def _unmark(self) -> None:
        """Delete the mark, which a context that shares keeps; find out if this was destroyed."""
        with Undisturbed(), suppress(ContextError), self:
            mark = self._usable().mark
            assert mark is not None
            mark.release()

    def _destroy(self) -> None:
        if self._native is not None:  # else another context may have its address
            self._native.destroy()

    def _usable(self) -> NativeContext:
        if self._is_destroyed:
            raise DestroyedError("expected the EglContext, found none")
        if self._native is None:
            raise ContextError("the EglContext is released: make a new one")
        if self._pid != os.getpid():
            raise forked(self._pid)
        return self._native

    def _destroyed(self, found: str) -> DestroyedError:
        self._is_destroyed = True
        self._native = None
        return DestroyedError(found)
