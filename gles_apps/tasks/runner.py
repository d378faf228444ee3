"""What runs tasks: a thread with a context of OpenGL ES, the app's context, or LiteRT's CPU."""

from __future__ import annotations

import logging
import os
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakValueDictionary, finalize

from gles_apps.tasks.image import Image
from gles_apps.tasks.options import BaseOptions, Delegate
from gles_delegate import (
    ContextError,
    DelegateError,
    EglContext,
    WrongContextError,
    WrongThreadError,
)
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.drawing import read_texture
from gles_delegate.gl.sync import wait_on_gpu
from gles_delegate.gl.texture import PixelTexture
from gles_delegate.gl.thread import GlThread, NotPickled
from gles_delegate.gl.watches import texture_level
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import Closing, in_any_case, release_all

T = TypeVar("T")
log = logging.getLogger("gles_delegate")


class TaskRunner(NotPickled):
    """Serializes the calls of all tasks on one context.

    Attributes:
        context: The context for networks; None on the CPU.
        name: The device.
        is_apps: Functions run on the caller's thread, where the app's context is current.
        leases: Keys of the leases that have not ended.
    """

    def __init__(self, context: Any, delegate: Delegate) -> None:
        self.context = context
        self.is_apps = not isinstance(context, EglContext | None)
        self.leases: set[object] = set()
        self._lock = threading.RLock()
        self._thread: GlThread | None = None
        self._uploaded: weakref.ref[Image] | None = None
        self._textures: dict[int, PixelTexture] = {}
        self.name = "LiteRT's CPU"
        if delegate != Delegate.CPU:
            self._thread = GlThread(lambda: GpuContext(context), own=not self.is_apps)
            self._thread.need_not_be_closed()
            self.context = context or self._thread.gpu.egl
            self.name = self._thread.gpu.driver.renderer

    @property
    def is_on_gpu(self) -> bool:
        return self._thread is not None

    def run(self, function: Callable[[], T]) -> T:
        """Call a function there, and wait for it.

        Raises:
            WrongThreadError, WrongContextError, ContextLostError: See `GpuDelegate`.
            ContextError: In a fork of the process that made it.
        """
        if self._thread is not None and not self.is_apps:
            return self._thread.run(function)
        with self._lock:
            return function() if self._thread is None else self._thread.run(function)

    def fits(self, image: Image) -> bool:
        """Whether its planes fit into textures; the CPU scales others."""
        assert self._thread is not None
        most = self._thread.gpu.limits.texture_size
        return all(max(plane.shape[:2]) <= most for plane in image.planes.arrays)

    def textures(self, image: Image) -> tuple[Any, ...]:
        """A picture's planes as textures, inside `run`; arrays are uploaded once."""
        assert self._thread is not None
        gpu = self._thread.gpu
        planes = image.planes
        if planes.textures is not None:
            if planes.fence is not None:
                wait_on_gpu(gpu.gl, planes.fence)
            if not image.has_size:
                level = texture_level(gpu, planes.textures[0])
                image.note_size(level.height, level.width)
            return planes.textures
        if self._uploaded is None or self._uploaded() is not image:
            self._uploaded = None
            with gpu.textures():
                for i, plane in enumerate(planes.arrays):
                    self._texture(gpu, i, plane.shape).write(plane)
            self._uploaded = weakref.ref(image)
        return tuple(self._textures[i].glo for i in range(len(planes.arrays)))

    def _texture(self, gpu: GpuContext, i: int, shape: tuple[int, ...]) -> PixelTexture:
        texture = self._textures.get(i)
        if texture is None or texture.shape != shape:
            self._textures[i] = PixelTexture(gpu.gl, shape)
            if texture is not None:
                texture.release()
        return self._textures[i]

    def new_texture(self, shape: tuple[int, ...]) -> PixelTexture:
        """A texture of this height, width and number of channels, inside `run`."""
        assert self._thread is not None
        with self._thread.gpu.textures():
            return PixelTexture(self._thread.gpu.gl, shape)

    def read(self, texture: LeasedTexture) -> Array:
        """The pixels of such a texture of four channels, inside `run`."""
        assert self._thread is not None
        return read_texture(self._thread.gpu.gl, texture)

    def end(self, lease: object, free: Callable[[], None]) -> None:
        """Call `free`, which frees what a lease owns, and close the runner after the last one.

        Nothing changes if it raises WrongThreadError or WrongContextError.
        """
        try:
            free()
        except (WrongThreadError, WrongContextError):
            raise
        except BaseException:
            with suppress(DelegateError):
                self._leave(lease)
            raise
        self._leave(lease)

    def abandon(self, lease: object, owned: list[Callable[[], object]]) -> None:
        """Schedule the end of a lease; the garbage collector may call this on any thread."""
        if self._thread is None:
            self.leases.discard(lease)
            return
        guard = self._thread.gpu.guard

        def free() -> None:
            with guard():
                in_any_case(owned)

        self._thread.later(lambda: self.end(lease, free))

    def _leave(self, lease: object) -> None:
        with _lock:
            self.leases.discard(lease)
            if self.leases:
                return
            for key in [key for key, each in _runners.items() if each is self]:
                del _runners[key]
        self.close()

    def close(self) -> None:
        """Free its textures, its thread, and its context unless it is the caller's."""
        if self._thread is not None:
            self._thread.close(lambda: release_all(self._textures.values()))


class Lease(NotPickled, Closing):
    """A task's use of a runner, and what it owns there; copies of the task share it.

    The runner's thread closes one that is dropped.

    Attributes:
        runner: The runner.
        is_closed: Whether its objects are freed.
    """

    def __init__(self, runner: TaskRunner) -> None:
        self.runner = runner
        self.is_closed = False
        self._closing = threading.RLock()
        self._key = object()
        self._owned = list[Callable[[], object]]()
        runner.leases.add(self._key)
        self._dropped = finalize(self, runner.abandon, self._key, self._owned)
        self._dropped.atexit = False  # the end of the process frees everything

    def own(self, free: Callable[[], object]) -> None:
        """Have `free` called inside `TaskRunner.run` at the end."""
        self._owned.append(free)

    def close(self) -> None:
        """Free what it owns, and then the runner if it was the last. A second call does nothing.

        Raises:
            WrongThreadError, WrongContextError: See `GpuDelegate`; it stays open.
            ContextError: In a fork of the process that made it.
        """

        def free() -> None:
            self.is_closed = True
            in_any_case(self._owned)

        with self._closing:
            if self.is_closed:
                return
            try:
                self.runner.end(self._key, partial(self.runner.run, free))
            except (WrongThreadError, WrongContextError):
                raise
            except BaseException:
                self._end()
                raise
            self._end()

    def _end(self) -> None:
        self.is_closed = True
        self._dropped.detach()


class LeasedTexture(NotPickled):
    """A new texture of a task, which exists as long as this, or until the task is closed; it is
    made inside `TaskRunner.run`.

    Attributes:
        glo: Its GL name.
        size: Width and height.
    """

    def __init__(self, lease: Lease, shape: tuple[int, ...]) -> None:
        texture = lease.runner.new_texture(shape)
        lease.own(texture.release)  # nor may a network, which it owns, refer to this
        self.glo = texture.glo
        self.size = texture.size
        self._lease = lease


def lease_runner(options: BaseOptions) -> Lease:
    """The use of a runner for a task.

    Raises:
        ContextError: There is no usable context, and the delegate is GPU or a context is given.
        WrongContextError: The app's context is not current.
    """
    delegate = Delegate(options.delegate or Delegate.DEFAULT)
    context = None if delegate == Delegate.CPU else options.context
    if not isinstance(context, EglContext | None):
        return Lease(TaskRunner(context, delegate))
    key = (os.getpid(), delegate == Delegate.CPU, id(context))
    with _lock:
        runner = _runners.get(key)
        if runner is None:
            try:
                runner = TaskRunner(context, delegate)
            except ContextError as error:
                if context is not None or delegate == Delegate.GPU:
                    raise
                log.warning("tasks run on LiteRT's CPU: %s", error)
                runner = TaskRunner(None, Delegate.CPU)
            _runners[key] = runner
        return Lease(runner)


_lock = threading.Lock()
_runners: WeakValueDictionary[tuple[int, bool, int], TaskRunner] = WeakValueDictionary()
