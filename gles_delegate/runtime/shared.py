"""The GL objects and files that the sessions of a model share."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field

from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.egl import EglContext
from gles_delegate.runtime.constants import Constants
from gles_delegate.runtime.programs import Programs, Progress
from gles_delegate.runtime.store import Store
from gles_delegate.support.closing import Releasable, in_any_case
from gles_delegate.support.threads import RLock


def _go_on() -> None:
    pass


class Handover:
    """Lets a second thread, which builds with objects that sessions share, end alone.

    One thread at a time takes and gives back shared objects. What others give back after `leave`
    is freed in the delegate's context, where drivers expect it, once that thread has ended: by the
    delegate's thread, or by that thread if the delegate has been closed.
    """

    def __init__(self) -> None:
        self._lock = RLock()
        self._is_building = False
        self._left: list[Callable[[], None]] | None = None
        self._context: EglContext | None = None

    def begin(self, check: Callable[[], None]) -> None:
        """Begin to build, unless `check` raises an error."""
        with self._lock:
            check()
            self._is_building = True

    def end(self, built: Releasable | None) -> bool:
        """End that, when its context is gone; False if nobody wants `built`."""
        with self._lock:
            self._is_building = False
            if self._left is None:
                return True
            if built is not None:
                built.release()
            if self._context is not None:
                with ExitStack() as stack:
                    stack.callback(self._context.release)
                    stack.enter_context(self._context)
                    self.free_left()
            return False

    def leave(self) -> bool:
        """Wait no longer for the thread that builds; False if there is none."""
        with self._lock:
            if self._is_building:
                self._left = []
            return self._is_building

    def free(self, release: Callable[[], None]) -> None:
        """Call `release`, which gives objects back, now or later."""
        with self._lock:
            if self._left is not None:
                self._left.append(release)
                return
        release()

    def free_left(self) -> bool:
        """Free what was left, inside the guard; False while the thread builds."""
        with self._lock:
            if self._is_building:
                return False
            left, self._left = self._left or [], None
        in_any_case(left)
        return True

    def destroy(self, context: EglContext) -> None:
        """Destroy the delegate's context, now or later."""
        with self._lock:
            if self._is_building:
                self._context = context
                return
        context.release()


@dataclass
class Shared:
    """The resources that the sessions of a model share.

    Attributes:
        progress: Called as shaders compile.
        check: Called before each step of building a session, on any thread; an error stops it.
        handover: Who frees the constants and programs.
    """

    gpu: GpuContext
    constants: Constants
    programs: Programs
    store: Store | None = None
    progress: Progress | None = None
    check: Callable[[], None] = _go_on
    handover: Handover = field(default_factory=Handover)

    def part(self) -> Handover | None:
        """Leave the constants and programs to the thread that builds with them, if there is one.

        Later sessions get new ones. Returns the handover of the earlier ones.
        """
        earlier = self.handover
        if not earlier.leave():
            return None
        earlier.free(self.programs.keep_no_unused)
        self.gpu.destroy = earlier.destroy
        self.constants, self.programs = Constants(self.gpu), Programs(self.gpu)
        self.handover = Handover()
        return earlier

    @staticmethod
    def by_one(gpu: GpuContext, progress: Progress | None = None) -> Shared:
        """Resources of a single session, freed with it."""
        return Shared(gpu, Constants(gpu), Programs(gpu, unused=0), progress=progress)
