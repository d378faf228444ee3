"""libEGL through ctypes: checked calls, initialized displays, and the current context.

The library is loaded at first use, so this module imports on machines without it.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from ctypes import POINTER, c_char_p, c_int32, c_size_t, c_uint32
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from gles_delegate.errors import ContextError, ContextLostError, GLError
from gles_delegate.gl.libglx import GlxBinding, OsmesaBinding
from gles_delegate.gl.tensorflow import load_mesa_apart, watch_imports
from gles_delegate.support.closing import leave_exit_handlers_out
from gles_delegate.support.undisturbed import Undisturbed, unforked, was_busy_at_fork

DEBIAN_PACKAGES = "libegl1 libegl-mesa0 libgl1 libgl1-mesa-dri libgles2"  # libgl1: for moderngl
MAKE_ANOTHER = "make a new one, and give it to Interpreter.modify_graph_with_delegate"
WAS_RESET = (
    "the driver reset the context, and its objects are gone: close the delegate, " + MAKE_ANOTHER
)

SUCCESS, NOT_INITIALIZED, BAD_ACCESS, BAD_CONTEXT = 0x3000, 0x3001, 0x3002, 0x3006
BAD_DISPLAY, BAD_MATCH, CONTEXT_LOST = 0x3008, 0x3009, 0x300E
BAD_NATIVE_WINDOW, BAD_SURFACE = 0x300B, 0x300D
DESTROYED = {NOT_INITIALIZED, BAD_CONTEXT, BAD_DISPLAY}
"""Errors of a call with a context that no longer exists, or whose display was terminated."""
_ERROR_NAMES = """
SUCCESS NOT_INITIALIZED BAD_ACCESS BAD_ALLOC BAD_ATTRIBUTE BAD_CONFIG BAD_CONTEXT
BAD_CURRENT_SURFACE BAD_DISPLAY BAD_MATCH BAD_NATIVE_PIXMAP BAD_NATIVE_WINDOW BAD_PARAMETER
BAD_SURFACE CONTEXT_LOST
""".split()  # noqa: SIM905
_HINTS = {
    ("eglGetDisplay", SUCCESS): "there is no display server",
    ("eglMakeCurrent", CONTEXT_LOST): WAS_RESET,
    ("eglMakeCurrent", BAD_ACCESS): (
        "the context is current on another thread: leave its with block there first"
    ),
}

EXTENSIONS, DEVICE_EXT, _DRAW, _READ, _NONE = 0x3055, 0x322C, 0x3059, 0x305A, 0x3038
_CONFIG_ID = 0x3028

_Bool, _Enum, _Int, _Ints = c_uint32, c_uint32, c_int32, POINTER(c_int32)
Handle = c_size_t  # an opaque pointer; unlike c_void_p, ctypes gives a null as 0, not as None

_PROTOTYPES: dict[str, tuple[Any, ...]] = {  # name: (result, *arguments)
    "eglGetError": (_Int,),
    "eglGetProcAddress": (Handle, c_char_p),
    "eglQueryString": (c_char_p, Handle, _Int),
    "eglGetDisplay": (Handle, Handle),
    "eglGetPlatformDisplay": (Handle, _Enum, Handle, POINTER(Handle)),
    "eglGetPlatformDisplayEXT": (Handle, _Enum, Handle, _Ints),
    "eglInitialize": (_Bool, Handle, _Ints, _Ints),
    "eglQueryDevicesEXT": (_Bool, _Int, POINTER(Handle), _Ints),
    "eglQueryDisplayAttribEXT": (_Bool, Handle, _Int, POINTER(Handle)),
    "eglBindAPI": (_Bool, _Enum),
    "eglQueryAPI": (_Enum,),
    "eglChooseConfig": (_Bool, Handle, _Ints, POINTER(Handle), _Int, _Ints),
    "eglCreateContext": (Handle, Handle, Handle, Handle, _Ints),
    "eglDestroyContext": (_Bool, Handle, Handle),
    "eglQueryContext": (_Bool, Handle, Handle, _Int, _Ints),
    "eglCreatePbufferSurface": (Handle, Handle, Handle, _Ints),
    "eglDestroySurface": (_Bool, Handle, Handle),
    "eglMakeCurrent": (_Bool, Handle, Handle, Handle, Handle),
    "eglGetCurrentContext": (Handle,),
    "eglGetCurrentDisplay": (Handle,),
    "eglGetCurrentSurface": (Handle, _Int),
    "eglCreateImageKHR": (Handle, Handle, Handle, _Enum, Handle, _Ints),
    "eglDestroyImageKHR": (_Bool, Handle, Handle),
    "eglReleaseThread": (_Bool,),
}
_MAY_RETURN_ZERO = {
    "eglGetError",
    "eglGetProcAddress",
    "eglQueryAPI",
    *(f"eglGetCurrent{kind}" for kind in ("Context", "Display", "Surface")),
}


class EglError(GLError):
    """A `function` of EGL returned its failure value; ``code`` is eglGetError's."""

    def __init__(self, function: str, code: int) -> None:
        is_named = 0 <= code - SUCCESS < len(_ERROR_NAMES)
        constant = f"EGL_{_ERROR_NAMES[code - SUCCESS]}" if is_named else hex(code)
        hint = _HINTS.get((function, code))
        super().__init__(f"{function}: {constant}" + (f" ({hint})" if hint else ""))
        self.function = function
        self.code = code

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.code), vars(self)


class DestroyedError(ContextLostError):
    """The app, or another library's eglTerminate, destroyed the context and its objects.

    Its address, in EGL and GLX, may be another context's now.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"{found} (the context was destroyed, by the app or by another library's "
            f"eglTerminate, and its objects are gone: close the delegate, {MAKE_ANOTHER})"
        )
        self._found = found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._found,), vars(self)


@dataclass(frozen=True)
class Display:
    """An initialized EGLDisplay; ``device`` is its EGLDeviceEXT, 0 if EGL does not say."""

    platform: str
    handle: int
    extensions: frozenset[str]
    device: int
    version: tuple[int, int] = (1, 4)


class LibEgl:
    """libEGL: each function of ``_PROTOTYPES`` is an attribute that checks its own result.

    A function that fails raises `EglError`, one that this EGL lacks raises `GLError`.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        # A display is process-wide: eglTerminate would invalidate every context on it, the app's
        # included. So none is terminated here, and each is initialized at every use, because other
        # libraries do terminate them.
        self._pid = 0  # of the process that initialized a display
        os.register_at_fork(before=self._note_current, after_in_child=self._begin_in_child)
        self._displays: set[int] = set()  # that were initialized here
        self._devices: dict[int, int] = {}  # of displays
        self.generation = 0
        """How many forks ago the first display was initialized."""
        self._inherited: set[int] = set()
        """Displays that were initialized before a fork, and whose threads do not exist here."""
        self._parent = 0  # the process that initialized the last of them
        self._was_current = False  # a context, as the process was forked
        self.has_hardware = False
        """Whether a context was created on another device than a software rasterizer."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in _PROTOTYPES:
            raise AttributeError(f"no prototype of {name} is declared")
        result, *arguments = _PROTOTYPES[name]
        function: Any
        try:
            function = self._library[name]
            function.restype = result
            function.argtypes = arguments
        except AttributeError:
            address = self.eglGetProcAddress(name.encode())
            if not address:
                raise GLError(f"{name}: this libEGL does not have it") from None
            function = ctypes.CFUNCTYPE(result, *arguments)(address)

        def check(result: Any, function: Any, arguments: Any) -> Any:
            if not result:
                raise EglError(name, self.eglGetError())
            return result

        if name not in _MAY_RETURN_ZERO:
            function.errcheck = check
        setattr(self, name, function)
        return function  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        return str(self._library._name)

    @property
    def client_extensions(self) -> frozenset[str]:
        """The extensions that do not depend on a display."""
        try:
            return frozenset(self.eglQueryString(0, EXTENSIONS).decode().split())
        except EglError:  # an EGL 1.4 without EGL_EXT_client_extensions
            return frozenset()

    @property
    def is_started(self) -> bool:
        """Whether a display was initialized here."""
        return self._pid != 0

    def begin_after_fork(self) -> None:
        """In a child of the process that initialized a display, leave its displays alone.

        Another display of a software rasterizer has threads of its own, and shares nothing with
        those. Raises ContextError for drivers of hardware, if a thread was inside the driver, or if
        a context was current, which the driver would use once more as another becomes current.
        """
        if self._pid in (0, os.getpid()):
            return
        if self.has_hardware or self._was_current or was_busy_at_fork():
            raise forked(self._pid)
        self._parent = self._pid
        self._pid = os.getpid()
        self.generation += 1
        self._inherited |= self._displays
        self._displays.clear()

    def _note_current(self) -> None:
        is_current = self.is_started and bool(self.eglGetCurrentContext())
        is_here = self._pid == os.getpid()
        self._was_current = is_current or (self._was_current and not is_here)

    def is_inherited(self, display: int) -> bool:
        """In a child, after `begin_after_fork`: whether a display may be the parent's.

        One that is initialized, and not by this object, may be another library's from before.
        """
        if self.generation and display not in self._displays | self._inherited:
            with suppress(EglError):
                self.eglQueryString(display, EXTENSIONS)
                self._inherited.add(display)
        return display in self._inherited

    def refuse_inherited(self, display: int) -> None:
        """Raise ContextError for a display that was initialized here before a fork."""
        if self._pid != os.getpid() and display in self._displays:
            raise forked(self._pid)
        if display in self._inherited:
            raise forked(self._parent)

    def _begin_in_child(self) -> None:
        if self.is_started:
            # They would wait for the parent's threads, or free what those left half freed, also in
            # a child that does not use EGL.
            leave_exit_handlers_out()

    def initialized(self, platform: str, handle: int) -> Display:
        """The display of an EGLDisplay, initialized; raises GLError if that fails."""
        major = _Int()
        minor = _Int()
        if not self.is_started:
            load_mesa_apart()
        self.eglInitialize(handle, ctypes.byref(major), ctypes.byref(minor))
        if not self.is_started:
            watch_imports()
        self._pid = self._pid or os.getpid()
        self._displays.add(handle)
        device = Handle()
        with suppress(GLError):
            self.eglQueryDisplayAttribEXT(handle, DEVICE_EXT, ctypes.byref(device))
        if device.value:  # Mesa 25.0 forgets that of a display which is asked for again
            self._devices[handle] = device.value
        return Display(
            platform=platform,
            handle=handle,
            extensions=frozenset(self.eglQueryString(handle, EXTENSIONS).decode().split()),
            device=self._devices.get(handle, 0),
            version=(major.value, minor.value),
        )

    def has_context(self, display: int, context: int) -> bool:
        """Whether a context still exists."""
        try:
            self.eglQueryContext(display, context, _CONFIG_ID, ctypes.byref(_Int()))
        except EglError as error:
            return error.code not in DESTROYED
        return True

    def devices(self) -> list[int]:
        """Every EGLDeviceEXT; raises GLError if EGL cannot list them."""
        count = _Int()
        self.eglQueryDevicesEXT(0, None, ctypes.byref(count))
        devices = (Handle * count.value)()
        self.eglQueryDevicesEXT(count, devices, ctypes.byref(count))
        return devices[: count.value]

    @contextmanager
    def restored(self) -> Iterator[None]:
        """Restore what was current on this thread, in EGL and GLX.

        Inside, nothing is current in GLX, so EGL contexts can be. Neither the collector nor
        handlers of signals run.
        """
        with Undisturbed():
            before = EglBinding.of_this_thread(self).without_glx()
            try:
                yield
            finally:
                before.restore()

    def replaced(self, make_current: Callable[[], None]) -> EglBinding:
        """Make a context current; return the previous state, which is restored on an error."""
        before = EglBinding.of_this_thread(self)
        try:
            try:
                make_current()
            except EglError as error:
                # libglvnd lets a thread have a context of either EGL or GLX. Querying GLX first
                # would add a library lookup to every call.
                before = before.without_glx()
                if error.code != BAD_ACCESS or before.glx is None:
                    raise
                make_current()
        except EglError:
            with suppress(EglError):
                before.restore()
            raise
        return before


@dataclass(frozen=True)
class EglBinding:
    """A thread's state that eglMakeCurrent and eglBindAPI set.

    `glx` is GLX's state, if its context was released, and `osmesa` is OSMesa's.
    """

    egl: LibEgl
    api: int
    display: int
    draw: int
    read: int
    context: int
    glx: GlxBinding | None = None
    osmesa: OsmesaBinding | None = None

    @classmethod
    def of_this_thread(cls, egl: LibEgl) -> EglBinding:
        context = egl.eglGetCurrentContext()
        return cls(
            egl=egl,
            api=egl.eglQueryAPI(),
            display=egl.eglGetCurrentDisplay(),
            draw=egl.eglGetCurrentSurface(_DRAW),
            read=egl.eglGetCurrentSurface(_READ),
            context=context,
            osmesa=None if context else OsmesaBinding.of_this_thread(),
        )

    def without_glx(self) -> EglBinding:
        """Release GLX's current context, for `restore` to put back."""
        glx = GlxBinding.of_this_thread()
        if glx is not None:
            glx.release()
        return replace(self, glx=glx)

    def restore(self) -> None:
        """Make it current on this thread again, or nothing if its context no longer exists.

        An app may have destroyed the context, or its surfaces, while they were current, which ended
        them as soon as another one was. Without surfaces, the context is current alone.

        Raises EglError if EGL fails in another way, and GLError if GLX does. Nothing is current
        then.
        """
        present = self.egl.eglGetCurrentDisplay()
        try:
            if self.display or present:  # else nothing was current, and nothing is
                display = self.display or present
                self._make_current(display)
        except EglError:
            if present:
                with suppress(EglError):
                    self.egl.eglMakeCurrent(present, 0, 0, 0)
            if not self.context or self.egl.has_context(self.display, self.context):
                raise
        finally:
            self.egl.eglBindAPI(self.api)
        for other in (self.glx, self.osmesa):
            if other is not None:
                other.restore()

    def _make_current(self, display: int) -> None:
        try:
            self.egl.eglMakeCurrent(display, self.draw, self.read, self.context)
        except EglError as error:
            if error.code not in (BAD_SURFACE, BAD_NATIVE_WINDOW) or not self.context:
                raise
            self.egl.eglMakeCurrent(display, 0, 0, self.context)


def release_thread() -> None:
    """Free what EGL keeps for this thread; call it last in each thread that used EGL.

    The C library frees it after Python has joined the thread, and so does glvnd when the process
    ends: twice, if both happen at once.
    """
    with suppress(ContextError, GLError), unforked():
        libegl().eglReleaseThread()


@cache
def libegl() -> LibEgl:
    """The library; raises ContextError if there is none.

    The environment variable GLES_DELEGATE_EGL selects another one, such as ANGLE's.
    """
    load_mesa_apart()  # Mesa's EGL may load its drivers at any call
    chosen = os.environ.get("GLES_DELEGATE_EGL")
    if chosen:
        try:
            library = ctypes.CDLL(chosen)
        except OSError as error:
            raise ContextError(f"GLES_DELEGATE_EGL={chosen} cannot be loaded: {error}") from error
        if not hasattr(library, "eglGetProcAddress"):
            raise ContextError(
                f"GLES_DELEGATE_EGL={chosen} is another library: expected a libEGL, with "
                "eglGetProcAddress"
            )
        return LibEgl(library)
    with suppress(OSError):
        return LibEgl(ctypes.CDLL("libEGL.so.1"))
    from ctypes.util import find_library  # which imports much for a rare case

    with suppress(OSError):
        name = find_library("EGL")
        if name:
            return LibEgl(ctypes.CDLL(name))
    raise ContextError(f"libEGL.so.1 was not found: apt install {DEBIAN_PACKAGES}")


def forked(pid: int) -> ContextError:
    """The error for what does not survive a fork of process ``pid``, which used EGL before."""
    return ContextError(
        f"EGL was in use in process {pid} before it was forked into {os.getpid()}, and does not "
        'survive that: start workers with multiprocessing.get_context("spawn")'
    )


def attributes(*values: int) -> ctypes.Array[c_int32]:
    """An EGLint attribute list with its terminator."""
    return (_Int * (len(values) + 1))(*values, _NONE)


def wide_attributes(*values: int) -> ctypes.Array[c_size_t]:
    """An EGLAttrib attribute list with its terminator, which may hold handles."""
    return (Handle * (len(values) + 1))(*values, _NONE)
