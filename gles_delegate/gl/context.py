"""The context of a delegate: its limits, and the guard around every use."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from gles_delegate.device.limits import Limits
from gles_delegate.errors import ContextError, WrongThreadError
from gles_delegate.gl import functions as gl_names
from gles_delegate.gl import llvmpipe
from gles_delegate.gl.current import Adopted
from gles_delegate.gl.driver import MAX_READS, Driver
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from gles_delegate.gl.libegl import libegl
from gles_delegate.gl.mark import Mark
from gles_delegate.gl.mesa import environment
from gles_delegate.gl.pool import ObjectPool
from gles_delegate.support.closing import on_error
from gles_delegate.support.undisturbed import Undisturbed, give_way
from gles_delegate.support.unpatched import get_ident

if TYPE_CHECKING:
    import moderngl

_UNCHECKED = "at the end of the call"  # for messages: where errors of unchecked calls show
OUTPUT_BLOCK = 0  # the storage block of a shader's output
MAX_TEXTURES = 3  # textures that glsl/image_in.glsl samples: the planes of a picture


class GpuContext:
    """A context, owned or adopted, with the thread that uses it.

    Args:
        context: None for a new one; an app's `EglContext`; or a current context to adopt: a
            `moderngl.Context`, or "current" for any.
        device_index: Device of `list_devices` for a new context.
        pin_workers: On llvmpipe, pin each of its threads to a processor, unless the context is
            adopted.
        variables: The driver's environment variables for a new context; see `gl.mesa`.
        any_thread: Any thread may use a private context, one at a time.

    Attributes:
        gl: The functions of the context.
        egl: The context, unless it is adopted.
        driver: The driver, and the limits of its compute shaders.
        is_private: Whether the context is a new one, which shares nothing with others.
    """

    def __init__(
        self,
        context: EglContext | moderngl.Context | Literal["current"] | None = None,
        device_index: int | None = None,
        pin_workers: bool = True,
        variables: Mapping[str, str] | None = None,
        any_thread: bool = False,
    ) -> None:
        self._thread = None if any_thread else get_ident()
        self._pid = os.getpid()
        self.is_private = context is None
        self.egl: EglContext | None = None
        self._adopted: Adopted | None = None
        self._undisturbed: list[Undisturbed] = []  # of the guards that are entered
        self._pool = ObjectPool.of(context) if isinstance(context, EglContext) else None
        if isinstance(context, EglContext | None):
            with environment(variables or {}, libegl().is_started):
                self.egl = context or EglContext(device_index)
            self.gl = Functions(self.egl.load)
        else:
            self._adopted = Adopted(context)
            self.gl = self._adopted.gl
        with on_error(self.release), on_error(self.leave), self._current():
            self.driver = Driver.read(self.gl, self.is_private)
            self.gl.watch_resets(self.driver.is_es)
            if self.driver.is_llvmpipe:
                llvmpipe.require_executable_memory()
            if pin_workers and self.driver.is_llvmpipe and self.egl is not None:
                llvmpipe.pin_workers()
            if self._adopted is not None:
                self._adopted.mark = Mark(self.gl)

    @property
    def pool(self) -> ObjectPool:
        """The pool of the delegates of one `EglContext`; a new one for any other context."""
        return self._pool or ObjectPool()

    @property
    def limits(self) -> Limits:
        return self.driver.limits

    def leave(self) -> None:
        """Delete what an adopted context, which is current, is recognized by."""
        if self._adopted is not None and self._adopted.mark is not None:
            self._adopted.mark.release()

    def release(self) -> None:
        """Destroy the context if it is private."""
        if self.is_private and self.egl is not None:
            self.egl.release()

    def refuse(self, ops: Mapping[str, str]) -> None:
        """Have planning leave these ops to the CPU, each with a reason."""
        limits = replace(self.driver.limits, wrong_ops=tuple(ops.items()))
        self.driver = replace(self.driver, limits=limits)

    def with_limits(self, limits: Limits) -> GpuContext:
        """The same context, for sessions of plans with other limits."""
        other = copy(self)
        other.driver = replace(self.driver, limits=limits)
        return other

    def guard(self, only_deletes: bool = False) -> AbstractContextManager[None]:
        """Make the context current inside ``with``, and restore everything afterwards.

        Inside, neither the collector nor handlers of signals run, which may call OpenGL.

        If the calls inside are `only_deletes`, the app's state does not need restoring.

        Raises, before any GL call:
            WrongThreadError: This is not the thread it was bound to.
            WrongContextError: It is adopted, and another context is current.
            ContextError: This is a forked child.
            ContextLostError: The driver has reset it, or it was destroyed.
        """
        self.refuse_fork()
        if self._thread not in (None, get_ident()):
            shared = ' and, as its context, EglContext(share="current")' if self._adopted else ""
            raise WrongThreadError(
                f"the delegate is bound to the thread {self._thread} (modify_graph_with_delegate "
                f"ran there) and was called from {get_ident()}; call it from that "
                f"thread, or make it with GpuDelegateOptions(own_thread=True){shared}"
            )
        if self._adopted is not None:
            self._adopted.require()
        self.gl.refuse_lost()
        return self._current(only_deletes)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """Inside the guard: make the previous context current, then this one again.

        In between, the collector and handlers of signals run.
        """
        undisturbed = self._undisturbed[-1]
        with self.egl.away() if self.egl else nullcontext():
            try:
                undisturbed.end()
                yield
            finally:
                undisturbed.begin()

    def give_way(self) -> None:
        """Inside the guard: run handlers of signals, or the collector, if they wait for its end.

        An adopted context has bindings of the delegate, so there they wait.
        """
        if self.egl is not None and self._undisturbed[-1].is_due:
            with self.suspended():
                give_way()

    def run_trials(
        self, uses: Sequence[Callable[[], object]], progress: Callable[[int], None]
    ) -> None:
        """Use each program once, so llvmpipe compiles it; see `llvmpipe.compile_by`."""
        llvmpipe.compile_by(uses, self.gl, self.egl, progress)

    def textures(self, external: bool = False) -> AbstractContextManager[None]:
        """Inside the guard: save and restore texture and pixel-unpack state.

        With `external`, also the bindings of external textures.
        """
        return nullcontext() if self.is_private else textures_restored(self.gl, external)

    @property
    def is_inherited(self) -> bool:
        """Whether this is a child of the process that made the context."""
        return os.getpid() != self._pid

    def refuse_fork(self) -> None:
        """Raise ContextError in a child of the process that made the context."""
        if self.is_inherited:
            raise ContextError(
                f"the delegate was made in process {self._pid} and does not survive a fork: make "
                "a new one here, or start processes by 'spawn'"
            )

    @contextmanager
    def _current(self, only_deletes: bool = False) -> Iterator[None]:
        is_plain = self.is_private or only_deletes
        undisturbed = Undisturbed()
        with undisturbed:
            self._undisturbed.append(undisturbed)
            try:
                with (
                    self.egl or nullcontext(),
                    _checked(self.gl) if is_plain else _restored(self.gl, self.egl),
                ):
                    yield
            finally:
                self._undisturbed.pop()


@contextmanager
def _checked(gl: Functions) -> Iterator[None]:
    """Discard earlier errors, and raise the errors of unchecked calls inside."""
    gl.forget_app_errors()
    yield
    gl.check(_UNCHECKED)


@contextmanager
def _restored(gl: Functions, egl: EglContext | None) -> Iterator[None]:
    """Save and restore the state of a context: `egl`, or an adopted one."""
    gl.forget_app_errors()
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
        if egl is not None and not egl.is_current:  # `suspended` could not come back
            return
        # What the app, or a context that shares with its, deleted while it was in use is gone.
        gl.unchecked("glUseProgram")(gl.existing("Program", program))
        gl.unchecked("glBindBuffer")(gl_names.ARRAY_BUFFER, gl.existing("Buffer", array_buffer))
        for i, name, start, size in blocks:
            block = (gl_names.SHADER_STORAGE_BUFFER, i, gl.existing("Buffer", name))
            if size and block[-1]:
                gl.unchecked("glBindBufferRange")(*block, start, size)
            else:
                gl.unchecked("glBindBufferBase")(*block)
        gl.unchecked("glBindBuffer")(gl_names.SHADER_STORAGE_BUFFER, gl.existing("Buffer", storage))
        for i, name, *rest in images:
            gl.unchecked("glBindImageTexture")(i, gl.existing("Texture", name), *rest)

    with afterwards(gl, restore):
        yield


@contextmanager
def textures_restored(gl: Functions, external: bool = False) -> Iterator[None]:
    """Save and restore texture and pixel-unpack state; see `GpuContext.textures`."""
    active = gl.integer(gl_names.ACTIVE_TEXTURE)
    unpack = gl.saved(gl.unpack_state)
    buffer = gl.integer(gl_names.PIXEL_UNPACK_BUFFER_BINDING)
    targets = {gl_names.TEXTURE_2D: gl_names.TEXTURE_BINDING_2D}
    if external:
        targets[gl_names.TEXTURE_EXTERNAL] = gl_names.TEXTURE_BINDING_EXTERNAL
    units: list[tuple[int, list[int], int]] = []

    def restore() -> None:
        for unit, textures, sampler in units:
            gl.unchecked("glActiveTexture")(unit)
            for target, texture in zip(targets, textures, strict=True):
                gl.unchecked("glBindTexture")(target, gl.existing("Texture", texture))
            gl.unchecked("glBindSampler")(unit - gl_names.TEXTURE0, gl.existing("Sampler", sampler))
        gl.unchecked("glActiveTexture")(active)
        gl.set_pixel_state(unpack)
        gl.unchecked("glBindBuffer")(gl_names.PIXEL_UNPACK_BUFFER, gl.existing("Buffer", buffer))

    with afterwards(gl, restore):
        for unit in range(gl_names.TEXTURE0, gl_names.TEXTURE0 + MAX_TEXTURES):
            gl.glActiveTexture(unit)
            textures = [gl.integer(binding) for binding in targets.values()]
            units.append((unit, textures, gl.integer(gl_names.SAMPLER_BINDING)))
        yield


@contextmanager
def afterwards(gl: Functions, restore: Callable[[], None]) -> Iterator[None]:
    """Call `restore` at the end of ``with``; raise GLError for unchecked calls that failed."""
    try:
        yield
        gl.check(_UNCHECKED)
    except BaseException:
        restore()
        gl.forget_errors()
        raise
    restore()
    gl.check("to restore the state of the app's context")
