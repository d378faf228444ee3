"""EGL devices: finding them, and creating contexts on them."""

from __future__ import annotations

import ctypes
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from ctypes import c_char_p, c_int32, c_uint32
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import TypeAlias

from gles_delegate.errors import ContextError, DelegateError, GLError
from gles_delegate.gl.functions import RENDERER, VENDOR, VERSION, Functions
from gles_delegate.gl.hindrances import hindrances
from gles_delegate.gl.libegl import (
    BAD_MATCH,
    DEBIAN_PACKAGES,
    DEVICE_EXT,
    Display,
    EglError,
    Handle,
    LibEgl,
    attributes,
    libegl,
    wide_attributes,
)
from gles_delegate.gl.mark import Mark
from gles_delegate.support.closing import in_any_case, on_error
from gles_delegate.support.undisturbed import unforked

_PLATFORM_SURFACELESS_MESA, _PLATFORM_DEVICE_EXT, _PLATFORM_GBM = 0x31DD, 0x313F, 0x31D7
_ANGLE = "EGL_ANGLE_platform_angle"
_PLATFORM_ANGLE, _ANGLE_TYPE, _ANGLE_VULKAN = 0x3202, 0x3203, 0x3450
_ANGLE_DEVICE_TYPE, _ANGLE_HARDWARE, _ANGLE_SWIFTSHADER = 0x3209, 0x320A, 0x3487
_OPENGL_ES_API, _OPENGL_API = 0x30A0, 0x30A2
_OPENGL_ES3_BIT, _OPENGL_BIT = 0x40, 0x8
_MAJOR, _MINOR = 0x3098, 0x30FB
_ROBUSTNESS, _ROBUSTNESS_EXT = (0x31B2, 0x31BD), (0x30BF, 0x3138)
"""Attributes for robust access and reset notification: EGL 1.5's, and the extension's."""
_LOSE_CONTEXT_ON_RESET = 0x31BF
_NO_ERROR = 0x31B3
_SURFACE_TYPE, _PBUFFER_BIT, _RENDERABLE_TYPE = 0x3033, 0x1, 0x3040
_HEIGHT, _WIDTH = 0x3056, 0x3057

_SOFTWARE = re.compile(
    "llvmpipe|softpipe|swrast|swiftshader|lavapipe|software|basic render", re.IGNORECASE
)

_Refusal: TypeAlias = tuple[str, str]
"""The name of a device or API that was tried, and the reason why it failed."""


@dataclass(frozen=True)
class Device:
    """A device with OpenGL ES 3.1 compute; ``str()`` is one readable line.

    Attributes:
        index: Index in `list_devices`, and `device_index` of `EglContext`.
        platform: The EGL platform that lists it: surfaceless, device, gbm or default.
        vendor: The driver's GL_VENDOR.
        renderer: The driver's GL_RENDERER.
        version: The driver's GL_VERSION.
        software: True for a software rasterizer (llvmpipe, SwiftShader, ...).

    Examples:
        >>> device = gd.list_devices()[0]
        >>> print(device)  # doctest: +SKIP
        0: llvmpipe (LLVM 15.0.6, 256 bits), OpenGL ES 3.2 Mesa 22.3.6 (software, EGL surfaceless)
        >>> device.index
        0
    """

    index: int
    platform: str
    vendor: str
    renderer: str
    version: str
    software: bool

    def __str__(self) -> str:
        version = self.version if self.version.startswith("OpenGL") else f"OpenGL {self.version}"
        kind = "software" if self.software else "hardware"
        return f"{self.index}: {self.renderer}, {version} ({kind}, EGL {self.platform})"


@dataclass(frozen=True)
class NativeContext:
    """An EGL context, the strings of its driver, and a mark in it if it is sufficient."""

    egl: LibEgl = field(repr=False)
    display: Display
    handle: int
    surface: int  # a 1x1 pbuffer where contexts cannot be current without a surface, else 0
    api: int
    vendor: str = ""
    renderer: str = ""
    version: str = ""
    mark: Mark | None = field(default=None, repr=False)

    def device(self, index: int) -> Device:
        strings = self.vendor, self.renderer, self.version
        return Device(index, self.display.platform, *strings, self.software)

    @property
    def software(self) -> bool:
        return bool(_SOFTWARE.search(self.renderer))

    @property
    def is_sufficient(self) -> bool:
        """True for OpenGL ES 3.1, or desktop OpenGL 4.5 (GL_ARB_ES3_1_compatibility is core)."""
        match = re.match(r"(OpenGL ES )?(\d+)\.(\d+)", self.version)
        if not match:
            return False
        es, major, minor = match.groups()
        return (int(major), int(minor)) >= ((3, 1) if es else (4, 5))

    @property
    def is_current(self) -> bool:
        return bool(self.egl.eglGetCurrentContext() == self.handle)

    def make_current(self) -> None:
        self.egl.eglBindAPI(self.api)
        self.egl.eglMakeCurrent(self.display.handle, self.surface, self.surface, self.handle)

    def destroy(self) -> None:
        with unforked():
            self._destroy()

    def _destroy(self) -> None:
        egl = self.egl
        display = self.display.handle
        steps = [partial(egl.eglDestroyContext, display, self.handle)]
        if self.is_current:  # a context that is current outlives eglDestroyContext
            steps.insert(0, partial(egl.eglMakeCurrent, display, 0, 0, 0))
        if self.surface:
            steps.append(partial(egl.eglDestroySurface, display, self.surface))
        in_any_case(steps)

    def load(self, name: str) -> int:
        """The address of a GL function; 0 if the driver lacks it."""
        return int(self.egl.eglGetProcAddress(name.encode()))

    def described(self) -> NativeContext:
        """A copy with vendor, renderer and version filled in; the context must be current."""
        address = self.load("glGetString")
        if not address:
            raise GLError("eglGetProcAddress: no glGetString (EGL_KHR_get_all_proc_addresses)")
        get_string = ctypes.CFUNCTYPE(c_char_p, c_uint32)(address)
        vendor, renderer, version = (
            (get_string(name) or b"").decode(errors="replace")
            for name in (VENDOR, RENDERER, VERSION)
        )
        described = replace(self, vendor=vendor, renderer=renderer, version=version)
        self.egl.has_hardware |= not described.software
        return described


@dataclass(frozen=True)
class _Request:
    name: str
    api: int
    renderable: int
    attributes: tuple[int, ...]


# EGL 1.4 without EGL_KHR_create_context ignores minor versions: plain 3 gives its highest.
_REQUESTS = (
    _Request("OpenGL ES 3.2", _OPENGL_ES_API, _OPENGL_ES3_BIT, (_MAJOR, 3, _MINOR, 2)),
    _Request("OpenGL ES 3.1", _OPENGL_ES_API, _OPENGL_ES3_BIT, (_MAJOR, 3, _MINOR, 1)),
    _Request("OpenGL ES 3", _OPENGL_ES_API, _OPENGL_ES3_BIT, (_MAJOR, 3)),
    _Request("OpenGL 4.5", _OPENGL_API, _OPENGL_BIT, (_MAJOR, 4, _MINOR, 5)),
)


def create_context(
    egl: LibEgl, display: Display, share: int = 0, robust: bool = True
) -> NativeContext:
    """Create a context on the display, not current. Raises `ContextError` that lists the tries.

    Args:
        share: The handle of a context to share with.
        robust: With robust access and notification of resets, if EGL has them.
    """
    native: NativeContext | None = None
    try:
        with egl.restored():
            native = _sufficient_context(egl, display, share, robust)
    except BaseException:
        if native is not None:
            native.destroy()
        raise
    return native


def _sufficient_context(egl: LibEgl, display: Display, share: int, robust: bool) -> NativeContext:
    refusals: list[_Refusal] = []
    for request in _REQUESTS:
        try:
            native = (_robust_or_plain if robust else _plain)(egl, display, share, request)
        except GLError as error:
            refusals.append((request.name, str(error)))
            continue
        if native.is_sufficient:
            with on_error(native.destroy):
                return replace(native, mark=Mark(Functions(native.load)))
        native.destroy()
        refusals.append((request.name, f"got only {native.version!r} on {native.renderer!r}"))
    raise ContextError("; ".join(_by_cause(refusals)))


def _by_cause(refusals: Iterable[_Refusal]) -> list[str]:
    """One line per distinct cause, with the names that it affected."""
    names: dict[str, dict[str, None]] = {}
    for name, cause in refusals:
        names.setdefault(cause, {})[name] = None
    return [f"{', '.join(names[cause])}: {cause}" for cause in names]


def _robust_or_plain(egl: LibEgl, display: Display, share: int, request: _Request) -> NativeContext:
    """The requested context, with robust access and reset notification if EGL has them."""
    names = []
    if request.api == _OPENGL_ES_API and "EGL_EXT_create_context_robustness" in display.extensions:
        names.append(_ROBUSTNESS_EXT)
    if display.version >= (1, 5):
        names.append(_ROBUSTNESS)
    # With this strategy, ANGLE also loses contexts when memory runs out.
    is_angle = _ANGLE in egl.client_extensions
    for access, strategy in names:
        resets = () if is_angle else (strategy, _LOSE_CONTEXT_ON_RESET)
        robust = replace(request, attributes=(*request.attributes, access, 1, *resets))
        with suppress(GLError):
            return _created(egl, display, share, robust)
    return _plain(egl, display, share, request)


def _plain(egl: LibEgl, display: Display, share: int, request: _Request) -> NativeContext:
    """The requested context; one without errors if only such a one can share with `share`."""
    try:
        return _created(egl, display, share, request)
    except EglError as error:
        has_no_error = "EGL_KHR_create_context_no_error" in display.extensions
        if not (share and has_no_error and error.code == BAD_MATCH):
            raise
        silent = replace(request, attributes=(*request.attributes, _NO_ERROR, 1))
        with suppress(GLError):
            return _created(egl, display, share, silent)
        raise


def _created(egl: LibEgl, display: Display, share: int, request: _Request) -> NativeContext:
    surfaceless = "EGL_KHR_surfaceless_context" in display.extensions
    configless = surfaceless and "EGL_KHR_no_config_context" in display.extensions
    egl.eglBindAPI(request.api)
    config = Handle()
    count = c_int32()
    if not configless:
        surface_type = 0 if surfaceless else _PBUFFER_BIT
        wanted = attributes(_RENDERABLE_TYPE, request.renderable, _SURFACE_TYPE, surface_type)
        egl.eglChooseConfig(display.handle, wanted, ctypes.byref(config), 1, ctypes.byref(count))
        if not count.value:
            raise GLError(f"eglChooseConfig: no config for {request.name}")
    context = egl.eglCreateContext(display.handle, config, share, attributes(*request.attributes))
    native = NativeContext(egl, display, context, surface=0, api=request.api)
    try:
        if not surfaceless:
            one_pixel = attributes(_WIDTH, 1, _HEIGHT, 1)
            surface = egl.eglCreatePbufferSurface(display.handle, config, one_pixel)
            native = replace(native, surface=surface)
        native.make_current()
        return native.described()
    except GLError:
        native.destroy()
        raise


@dataclass(frozen=True)
class _Source:
    """A way to get an EGLDisplay; `device` is its EGLDeviceEXT if known beforehand."""

    platform: str
    open: Callable[[], int]
    device: int = 0
    last_resort: bool = False


def _sources(egl: LibEgl, refusals: list[_Refusal]) -> Iterator[_Source]:
    def display(platform: int, native: int = 0, *options: int) -> int:
        wanted = attributes(*options) if options else None
        return int(egl.eglGetPlatformDisplayEXT(platform, native, wanted))

    def display_apart(device: int) -> int:
        # Mesa has one display for each list of attributes.
        options = wide_attributes(*(DEVICE_EXT, device) * egl.generation)
        return int(egl.eglGetPlatformDisplay(_PLATFORM_SURFACELESS_MESA, 0, options))

    def gbm_display(path: str) -> int:
        return display(_PLATFORM_GBM, _gbm_device(path))

    if _ANGLE in egl.client_extensions:
        for device_type in (_ANGLE_HARDWARE, _ANGLE_SWIFTSHADER):
            options = (_ANGLE_TYPE, _ANGLE_VULKAN, _ANGLE_DEVICE_TYPE, device_type)
            yield _Source("angle", partial(display, _PLATFORM_ANGLE, 0, *options))
    yield _Source("surfaceless", partial(display, _PLATFORM_SURFACELESS_MESA))
    try:
        devices = egl.devices()
    except GLError as error:
        devices = []
        refusals.append(("device", str(error)))
    for device in devices:
        yield _Source("device", partial(display, _PLATFORM_DEVICE_EXT, device), device)
    if egl.generation and "EGL_EXT_explicit_device" in egl.client_extensions:
        for device in devices:
            yield _Source("surfaceless", partial(display_apart, device), device)
    for path in sorted(glob.glob("/dev/dri/renderD*")):
        yield _Source("gbm", partial(gbm_display, path), last_resort=True)
    yield _Source("default", lambda: int(egl.eglGetDisplay(0)), last_resort=True)


@cache
def _gbm_device(path: str) -> int:
    """A gbm_device of a render node. It stays open because its display is never terminated."""
    try:
        create = ctypes.CDLL("libgbm.so.1").gbm_create_device
        node = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise ContextError(f"{path}: {error}") from error
    create.restype = Handle
    create.argtypes = (c_int32,)
    device = int(create(node))
    if not device:
        os.close(node)
        raise ContextError(f"gbm_create_device: no driver for {path}")
    return device


def _working(refusals: list[_Refusal]) -> Iterator[NativeContext]:
    """A new context on each usable device, one after the other, for the caller to destroy.

    The reasons why other devices fail are appended to ``refusals``.
    """
    egl = libegl()
    egl.begin_after_fork()
    seen: set[int] = set()
    # Of displays whose device EGL does not tell: Mesa 25.0 forgets that of a display which is
    # initialized again, maybe by the app.
    unplaced: list[tuple[str, str, str]] = []
    for source in _sources(egl, refusals):
        if source.device in seen or (source.last_resort and (seen or unplaced or egl.generation)):
            continue
        try:
            display = source.open()
            if egl.is_inherited(display):
                refusals.append((source.platform, "it was in use before this process was forked"))
                continue
            native = create_context(egl, egl.initialized(source.platform, display))
        except DelegateError as error:
            refusals.append((source.platform, str(error)))
            continue
        device = native.display.device
        name = (native.vendor, native.renderer, native.version)
        is_listed = device in seen or name in unplaced
        if device:
            seen.add(device)
            if name in unplaced:  # another device of this name is one more
                unplaced.remove(name)
        elif not is_listed:
            unplaced.append(name)
        if is_listed:
            native.destroy()
        else:
            yield native


def best_context() -> NativeContext:
    """Create a context on the first hardware device, or else on the first that works."""
    with unforked():
        return _best_context()


def _best_context() -> NativeContext:
    refusals: list[_Refusal] = []
    software: NativeContext | None = None
    for native in _working(refusals):
        if not native.software:
            if software is not None:
                software.destroy()
            return native
        if software is None:
            software = native
        else:
            native.destroy()
    if software is not None:
        return software
    raise ContextError(
        "no device gave an OpenGL ES 3.1 context (nor desktop OpenGL 4.5); tried:\n"
        + "".join(f"  {line}\n" for line in _by_cause(refusals))
        + "".join(f"{line}\n" for line in hindrances(is_working=False))
        + f"Install Mesa (apt install {DEBIAN_PACKAGES}) or the GPU maker's driver, and "
        "let this user open /dev/dri/renderD* (group render)"
    )


def nth_context(index: int) -> NativeContext:
    """Create a context on the device with this index in `list_devices`."""
    natives = contexts_of_all()
    for native in natives[:index] + natives[index + 1 :]:
        native.destroy()
    if index >= len(natives):
        raise ContextError(f"no device {index}: gles_delegate.list_devices() has {len(natives)}")
    return natives[index]


def contexts_of_all() -> list[NativeContext]:
    with unforked():
        return sorted(_working([]), key=lambda native: native.software)
