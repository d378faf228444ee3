"""The context of a delegate: its limits, and the guard around every use."""

from __future__ import annotations

import logging
import os
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from copy import copy
from ctypes import c_int
from typing import TYPE_CHECKING, Literal

from gles_delegate.closing import on_error
from gles_delegate.errors import ContextError, WrongContextError, WrongThreadError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl import llvmpipe
from gles_delegate.gl.current import current_handle, current_loader, is_current
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import libegl
from gles_delegate.gl.mesa import environment
from gles_delegate.limits import Limits
from gles_delegate.profiles import profile_of

if TYPE_CHECKING:
    import moderngl

log = logging.getLogger("gles_delegate")

MAX_READS = 5
"""Inputs that glsl/lib/tensor.glsl has names for: image units 0 ff. or storage blocks 1 ff."""

_UNCHECKED = "at the end of the call"
"""Where errors are found of calls that are not checked one by one."""

_DEBUG_GROUPS = "GLES_DELEGATE_DEBUG_GROUPS"
"""Set to 1, it has each dispatch of a run be a group in graphics debuggers."""

_BITS = re.compile(r"llvmpipe.*\b(\d+) bits")
"""The width of a vector, in the name of llvmpipe: ``llvmpipe (LLVM 15.0.6, 256 bits)``."""

OUTPUT_BLOCK = 0
"""The storage block of a shader's output."""

MAX_TEXTURES = 3
"""Textures that glsl/image_in.glsl samples: the planes of a picture."""


class GpuContext:
    """A context, owned or adopted, with the thread that uses it.

    Args:
        context: None: make an own context. Or an `EglContext` of the app. Or a context to adopt: a
            `moderngl.Context` that is current now, or "current" for whatever context is.
        device_index: Device of `list_devices` for an own context.
        pin_workers: On llvmpipe, pin each of its threads to a processor, unless the context is
            adopted.
        driver: Environment variables for the driver, for an own context; see `gl.mesa`.

    Attributes:
        gl: The functions of the context.
        limits: The limits of its compute shaders.
        is_es: Whether it is OpenGL ES; otherwise it is desktop OpenGL.
        renderer: The driver's name of the device.
        is_llvmpipe: Whether it is Mesa's software rasterizer.
        timers: Whether the GPU has usable timer queries.
        debug_groups: Whether the environment asks for a debug group around each dispatch.
        identity: Vendor, renderer and version; they change with the device and the driver.
        offset_alignment: Required alignment, in bytes, of a texel range's offset.

    Raises:
        ContextError: No context is available, or the one to adopt is not current.
    """

    def __init__(
        self,
        context: EglContext | moderngl.Context | Literal["current"] | None = None,
        device_index: int | None = None,
        pin_workers: bool = True,
        driver: Mapping[str, str] | None = None,
    ) -> None:
        self._thread = threading.get_ident()
        self._pid = os.getpid()
        self._owned = context is None
        self._egl: EglContext | None = None
        self._adopted: int = 0
        if isinstance(context, EglContext | None):
            with environment(driver or {}, libegl().is_started):
                self._egl = context or EglContext(device_index)
            self.gl = Functions(self._egl.load)
        else:
            self._adopted = _adopt(context)
            self.gl = Functions(current_loader())
        with on_error(self.release), self._current():
            self._read_limits()
            self.gl.watch_resets(self.is_es)
            if pin_workers and self.is_llvmpipe and self._egl is not None:
                llvmpipe.pin_workers()

    @property
    def is_private(self) -> bool:
        """Whether it is an own context, which shares nothing with others."""
        return self._owned

    def release(self) -> None:
        """Destroy the context if it is the delegate's own."""
        if self._owned and self._egl is not None:
            self._egl.release()

    def with_limits(self, limits: Limits) -> GpuContext:
        """The same context, for sessions of plans that were made for other limits."""
        other = copy(self)
        other.limits = limits
        return other

    def guard(self, only_deletes: bool = False) -> AbstractContextManager[None]:
        """Make the context current inside ``with``, and restore everything afterwards.

        Args:
            only_deletes: The calls inside only delete objects, which changes no state of an app.

        Raises, before any GL call:
            WrongThreadError: This is not the thread it was bound to.
            WrongContextError: It is adopted, and another context is current.
            ContextError: The process was forked since.
            ContextLostError: The driver has reset it.
        """
        self.refuse_fork()
        if threading.get_ident() != self._thread:
            raise WrongThreadError(
                f"the delegate is bound to the thread {self._thread} (modify_graph_with_delegate "
                f"ran there) and was called from {threading.get_ident()}; call it from that "
                "thread, or make it with GpuDelegateOptions(own_thread=True)"
            )
        if self._adopted:
            current = current_handle()
            if current != self._adopted:
                raise WrongContextError(
                    f"the adopted context {self._adopted:#x} must be current, found "
                    f"{current:#x}: make it current before the call"
                )
        self.gl.refuse_lost()
        return self._current(only_deletes)

    @contextmanager
    def left(self) -> Iterator[None]:
        """Inside the guard: have current what was before it, and then this context again."""
        if self._egl is None:
            yield
            return
        self._egl.__exit__()
        try:
            yield
        finally:
            self._egl.__enter__()

    def run_trials(
        self, uses: Sequence[Callable[[], object]], progress: Callable[[int], None]
    ) -> None:
        """Use each program once, which makes llvmpipe compile it; see `llvmpipe.compile_by`."""
        llvmpipe.compile_by(uses, self.gl, self._egl, progress)

    def textures(self) -> AbstractContextManager[None]:
        """Inside the guard: save and restore texture and pixel-unpack state."""
        return nullcontext() if self._owned else _textures_restored(self.gl)

    def refuse_fork(self) -> None:
        """Raise ContextError in a child of the process that made the context."""
        if os.getpid() != self._pid:
            raise ContextError(
                f"the delegate was made in process {self._pid} and does not survive a fork: make "
                "a new one here, or start processes by 'spawn'"
            )

    @contextmanager
    def _current(self, only_deletes: bool = False) -> Iterator[None]:
        guard = _checked if self._owned or only_deletes else _restored
        with self._egl or nullcontext(), guard(self.gl):
            yield

    def _read_limits(self) -> None:
        gl = self.gl
        version = gl.string(gl_names.VERSION)
        self.renderer = gl.string(gl_names.RENDERER)
        self.identity = (gl.string(gl_names.VENDOR), self.renderer, version)
        match = re.search(r"(\d+)\.(\d+)", version)
        number = (int(match[1]), int(match[2])) if match else (0, 0)
        self.is_es = "OpenGL ES" in version
        if number < ((3, 1) if self.is_es else (4, 3)):
            raise ContextError(
                f"expected OpenGL ES 3.1 or OpenGL 4.3, found {version!r} on {self.renderer!r}"
            )
        extensions = gl.extensions()
        textures = number >= (3, 2) or bool(
            {"GL_EXT_texture_buffer", "GL_OES_texture_buffer"} & extensions
        )
        if number >= (3, 2) or "GL_KHR_debug" in extensions:  # OpenGL is 4.3 at least
            suffix = "" if number >= (3, 2) else "KHR"
            with suppress(ContextError):  # labels are not worth a failure
                gl.unchecked(f"glObjectLabel{suffix}")
                gl.debug_suffix = suffix
        self.debug_groups = os.environ.get(_DEBUG_GROUPS, "0") not in ("", "0")
        if self.debug_groups and gl.debug_suffix is None:
            self.debug_groups = False
            log.warning("%s is set, but %s has no GL_KHR_debug", _DEBUG_GROUPS, self.renderer)
        self.is_llvmpipe = is_llvmpipe = "llvmpipe" in self.renderer
        # llvmpipe's own timer does not see its worker threads.
        self.timers = not is_llvmpipe and (
            "GL_EXT_disjoint_timer_query" in extensions or not self.is_es
        )
        if self.timers:  # a driver may have the functions, and no timer
            counted = c_int()
            gl.glGetQueryiv(gl_names.TIME_ELAPSED, gl_names.QUERY_COUNTER_BITS, counted)
            self.timers = counted.value > 0
        self.offset_alignment = gl.integer(gl_names.SHADER_STORAGE_BUFFER_OFFSET_ALIGNMENT)
        if textures:
            of_textures = gl.integer(gl_names.TEXTURE_BUFFER_OFFSET_ALIGNMENT)
            self.offset_alignment = max(self.offset_alignment, of_textures)
        sizes = [gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_SIZE, i) for i in range(3)]
        counts = [gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_COUNT, i) for i in range(3)]
        profile = profile_of(*self.identity[:2])
        texels = gl.integer(gl_names.MAX_TEXTURE_BUFFER_SIZE) if textures else 0
        self.limits = Limits(
            storage_blocks=min(
                gl.integer(gl_names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS), MAX_READS + 1
            ),
            image_units=min(gl.integer(gl_names.MAX_COMPUTE_IMAGE_UNIFORMS), MAX_READS),
            invocations=gl.integer(gl_names.MAX_COMPUTE_WORK_GROUP_INVOCATIONS),
            local_size=(sizes[0], sizes[1], sizes[2]),
            groups=(counts[0], counts[1], counts[2]),
            shared_bytes=gl.integer(gl_names.MAX_COMPUTE_SHARED_MEMORY_SIZE),
            block_bytes=gl.integer64(gl_names.MAX_SHADER_STORAGE_BLOCK_SIZE),
            large_texels=texels,
            buffer_texels=texels if profile.image_reads else 0,
            texture_size=gl.integer(gl_names.MAX_TEXTURE_SIZE),
            # On a software rasterizer zink makes constants of uniforms, and may run a program with
            # constants of an earlier dispatch (Mesa 22.3).
            size_uniforms=not (is_llvmpipe and "zink" in self.renderer),
            profile=profile,
            simd_lanes=int(bits[1]) // 32 if (bits := _BITS.search(self.renderer)) else 8,
            # 25.0.7: 0.10 instead of 0.37 s for 32 texels, 24.0.5: 0.14 for 0.19; others: slower.
            store_loops=is_llvmpipe and (24, 0) <= _mesa_version(version) < (25, 2),
            # Mesa's LP_MAX_TGSI_LOOP_ITERATIONS.
            loop_passes=65535 if is_llvmpipe else Limits.loop_passes,
        )


def _adopt(context: moderngl.Context | Literal["current"]) -> int:
    """The handle of the current context, which must be this one."""
    handle = current_handle()
    if not handle:
        raise WrongContextError(
            "expected the context to adopt to be current on this thread, found that it is not "
            "current, and no other either: make it current, and then bind the model on this thread"
        )
    if context != "current" and not is_current(context):
        raise WrongContextError(
            "expected the moderngl.Context to adopt to be current on this thread, found that it "
            "is not current, and another context is: make it current, and then bind the model"
        )
    return handle


def _mesa_version(version: str) -> tuple[int, int]:
    """Version of Mesa from GL's version string; (0, 0) for another driver."""
    match = re.search(r"Mesa (\d+)\.(\d+)", version)
    return (int(match[1]), int(match[2])) if match else (0, 0)


@contextmanager
def _checked(gl: Functions) -> Iterator[None]:
    """Forget earlier errors, and raise the errors of calls inside that check none."""
    gl.forget_errors()
    yield
    gl.check(_UNCHECKED)


@contextmanager
def _restored(gl: Functions) -> Iterator[None]:
    """Save and restore the state that a run changes."""
    gl.forget_errors()
    program = gl.integer(gl_names.CURRENT_PROGRAM)
    array_buffer = gl.integer(gl_names.ARRAY_BUFFER_BINDING)
    storage = gl.integer(gl_names.SHADER_STORAGE_BUFFER_BINDING)
    blocks = [
        (
            i,
            gl.integer(gl_names.SHADER_STORAGE_BUFFER_BINDING, i),
            gl.integer64(gl_names.SHADER_STORAGE_BUFFER_START, i),
            gl.integer64(gl_names.SHADER_STORAGE_BUFFER_SIZE, i),
        )
        for i in range(min(MAX_READS + 1, gl.integer(gl_names.MAX_COMPUTE_SHADER_STORAGE_BLOCKS)))
    ]
    units = min(MAX_READS, gl.integer(gl_names.MAX_COMPUTE_IMAGE_UNIFORMS))
    images = [(i, *(gl.integer(name, i) for name in gl_names.IMAGE_BINDING)) for i in range(units)]

    def restore() -> None:
        # If the app deleted the program while it was in use, it is gone now.
        gl.unchecked("glUseProgram")(program if gl.unchecked("glIsProgram")(program) else 0)
        gl.unchecked("glBindBuffer")(gl_names.ARRAY_BUFFER, array_buffer)
        for i, buffer, start, size in blocks:
            block = (gl_names.SHADER_STORAGE_BUFFER, i, buffer)
            if size:
                gl.unchecked("glBindBufferRange")(*block, start, size)
            else:
                gl.unchecked("glBindBufferBase")(*block)
        gl.unchecked("glBindBuffer")(gl_names.SHADER_STORAGE_BUFFER, storage)
        for image in images:
            gl.unchecked("glBindImageTexture")(*image)

    with _afterwards(gl, restore):
        yield


@contextmanager
def _textures_restored(gl: Functions) -> Iterator[None]:
    """Save and restore texture and pixel-unpack state."""
    active = gl.integer(gl_names.ACTIVE_TEXTURE)
    unpack = [(name, gl.integer(name)) for name in gl_names.UNPACK_STATE]
    buffer = gl.integer(gl_names.PIXEL_UNPACK_BUFFER_BINDING)
    units: list[tuple[int, int, int]] = []

    def restore() -> None:
        for unit, texture, sampler in units:
            gl.unchecked("glActiveTexture")(unit)
            gl.unchecked("glBindTexture")(gl_names.TEXTURE_2D, texture)
            gl.unchecked("glBindSampler")(unit - gl_names.TEXTURE0, sampler)
        gl.unchecked("glActiveTexture")(active)
        for name, value in unpack:
            gl.unchecked("glPixelStorei")(name, value)
        gl.unchecked("glBindBuffer")(gl_names.PIXEL_UNPACK_BUFFER, buffer)

    with _afterwards(gl, restore):
        for unit in range(gl_names.TEXTURE0, gl_names.TEXTURE0 + MAX_TEXTURES):
            gl.glActiveTexture(unit)
            texture = gl.integer(gl_names.TEXTURE_BINDING_2D)
            units.append((unit, texture, gl.integer(gl_names.SAMPLER_BINDING)))
        yield


@contextmanager
def _afterwards(gl: Functions, restore: Callable[[], None]) -> Iterator[None]:
    """Call `restore`, whose calls check no error, at the end of ``with``.

    Raises:
        GLError: Some of them failed, and nothing did before; or a call inside that checks no error.
    """
    try:
        yield
        gl.check(_UNCHECKED)
    except BaseException:
        restore()
        gl.forget_errors()
        raise
    restore()
    gl.check("to restore the state of the app's context")
