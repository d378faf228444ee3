"""EGL contexts of our own, without a window.

`EglContext` has glcontext's protocol (``load``, ``with``, ``release``), so moderngl can use it::

    with EglContext() as egl_context:
        ctx = moderngl.create_context(context=egl_context, require=310)
"""

from __future__ import annotations

import os
from types import TracebackType
from typing import Literal

from gles_delegate.gl.devices import (
    Device,
    NativeContext,
    best_context,
    contexts_of_all,
    create_context,
    nth_context,
)

from ..errors import ContextError, ContextLostError, GLError, WrongThreadError
from .libegl import BAD_ACCESS, CONTEXT_LOST, EglBinding, EglError, forked, libegl
from .libglx import HOW_TO_USE_EGL, GlxBinding


def list_devices() -> list[Device]:
    """Every device with a usable context, hardware first.

    ``EglContext()`` takes the first. Devices that do not work are left out.

    Raises:
        ContextError: There is no libEGL, or it was used before this process was forked.
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


def _beside_current() -> NativeContext:
    """A context that shares with the one that is current on this thread."""
    handle = current_context()
    if not handle:
        glx = GlxBinding.of_this_thread()
        raise ContextError(
            "expected a current EGL context to share with, found "
            + (f"a GLX context, which cannot: {HOW_TO_USE_EGL}" if glx else "none")
        )
    egl = libegl()
    display = egl.initialized("default", egl.eglGetCurrentDisplay())
    return create_context(egl, display, handle)


class EglContext:
    """An OpenGL ES context of 3.1 or later, current only inside ``with``.

    ``with`` nests, and costs almost nothing if the context is already current. It restores what was
    current before: display, context, surfaces and the API of ``eglBindAPI``, or a GLX context. If a
    device has only desktop OpenGL, version 4.5 or later is used: it compiles the same shaders.

    Args:
        device_index: Index in `list_devices`. None: the first hardware device, or a software one
            if there is no other.
        share: A context to share buffers, textures and programs with, on the same device.
            "current": the EGL context that is current, such as that of an app's window, whatever
            library made it. A delegate with this context and `own_thread` computes beside the
            window, which never waits for it.

    Raises:
        ContextError: There is no libEGL, no such device, or no device with OpenGL ES 3.1; or no
            EGL context is current to share with, or its driver has no such one beside it.
        ValueError: `device_index` is negative, or is given together with `share`.
        TypeError: `share` is not an `EglContext`.
    """

    def __init__(
        self,
        device_index: int | None = None,
        *,
        share: EglContext | Literal["current"] | None = None,
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
        self._native: NativeContext | None
        if share == "current":
            self._native = _beside_current()
            self._device = self._native.device(0)
        elif share is not None:
            self._native = create_context(libegl(), share._usable().display, share.handle)
            self._device = share.device
        else:
            self._native = best_context() if device_index is None else nth_context(device_index)
            self._device = self._native.device(device_index or 0)
        self._share = None if share == "current" else share

    def __repr__(self) -> str:
        state = f"on {self._device}" if self._native else "released"
        return f"<{type(self).__name__} {state}>"

    @property
    def device(self) -> Device:
        """The device it runs on."""
        return self._device

    @property
    def share(self) -> EglContext | None:
        """The context that it shares objects with, or None."""
        return self._share

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
        """The address of a GL function, 0 if the driver has none of that name."""
        return int(self._usable().egl.eglGetProcAddress(name.encode()))

    def __enter__(self) -> EglContext:
        """Make it current.

        Raises:
            WrongThreadError: it is current on another thread.
            ContextLostError: the driver has reset it.
            ContextError: it is released or inherited over a fork.
        """
        native = self._usable()
        if native.is_current:
            self._entered.append(None)
            return self
        try:
            self._entered.append(native.egl.replaced(native.make_current))
        except EglError as error:
            raise self._refusal(error) from error
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        """Restore what was current at the matching ``__enter__``.

        Raises:
            GLError: That is gone. Nothing is current then.
        """
        if not self._entered:
            raise ContextError("the EglContext was left more often than it was entered")
        before = self._entered.pop()
        if before is not None and self._pid == os.getpid():
            try:
                before.restore()
            except GLError:
                if error is None:
                    raise

    def release(self) -> None:
        """Destroys the context and its objects; later use raises `ContextError`.

        A second call does nothing, nor does one in a forked child, where it is not ours.
        """
        native, self._native = self._native, None
        if native is not None and self._pid == os.getpid():
            native.destroy()

    def _usable(self) -> NativeContext:
        if self._native is None:
            raise ContextError("the EglContext is released: make a new one")
        if self._pid != os.getpid():
            raise forked(self._pid)
        return self._native

    def _refusal(self, error: EglError) -> ContextError:
        if error.code == CONTEXT_LOST:
            return ContextLostError(str(error))
        if error.code == BAD_ACCESS and self._entered:
            return WrongThreadError(str(error))
        return ContextError(str(error))
