"""Handlers of signals, which Python runs between two bytecodes of the main thread.

A handler may draw or write a buffer, as a timer's does. While the delegate's context is current, or
an app's has the delegate's bindings, it would write the delegate's objects. So it waits for the end
of the call.
"""

from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Callable
from importlib import import_module
from types import FrameType

from gles_delegate.support.closing import in_any_case
from gles_delegate.support.unpatched import get_ident

Handler = Callable[[int, "FrameType | None"], object]

_ACTION = 256
"""Bytes that are enough for C's ``struct sigaction``; the handler's address is its first member."""

_getsignal = import_module("_signal").getsignal  # signal's own takes ten times as long
_numbers = [int(number) for number in signal.valid_signals()]
_libc = ctypes.CDLL(None)
_without_any: list[object] = []
"""The last handlers of `_numbers` of which none was deferred: a guard is entered at each call."""


class SignalsDeferred:
    """In a ``with`` block of the main thread, handlers of Python wait; they run at its end.

    A handler runs once, however often its signal came, as after a long call of C. Handlers of C
    libraries are left alone. An error of a handler is raised at the end.

    Args:
        interrupts: Whether Python's own handler of Ctrl-C waits, too. It raises KeyboardInterrupt,
            and does nothing else.
    """

    def __init__(self, interrupts: bool = False) -> None:
        self._at_once = () if interrupts else (signal.default_int_handler,)
        self._deferrals: list[_Deferral] = []

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *raised: object) -> None:
        self.end()

    @property
    def is_due(self) -> bool:
        """Whether a handler waits."""
        return any(deferral.call is not None for deferral in self._deferrals)

    def begin(self) -> None:
        global _without_any
        if get_ident() != threading.main_thread().ident:
            return
        handlers = [*map(_getsignal, _numbers)]
        if handlers == _without_any and self._at_once:
            return
        numbered = zip(_numbers, handlers, strict=True)
        found = [(n, f) for n, f in numbered if callable(f) and f not in self._at_once]
        if not found:
            _without_any = handlers
        for number, handler in found:
            if not isinstance(handler, _Deferral):  # of a block around this one
                deferral = _Deferral(number, handler)
                self._deferrals.append(deferral)  # before it can be interrupted
                deferral.install()

    def end(self) -> None:
        """Put the handlers back, and run those that wait; may be repeated."""
        deferrals, self._deferrals = self._deferrals, []
        for deferral in deferrals:
            deferral.remove()
        in_any_case(deferral.run for deferral in deferrals)

    __del__ = end


class _Deferral:
    """A handler that stands in for another one, and notes a call of it."""

    def __init__(self, number: int, handler: Handler) -> None:
        self._number = number
        self._handler = handler
        self._action = _action(number)
        self.call: tuple[int, FrameType | None] | None = None

    def install(self) -> None:
        signal.signal(self._number, self)  # with flags of Python's, until `remove`
        if _address(_action(self._number)) != _address(self._action):  # it was a C library's
            _libc.sigaction(self._number, self._action, None)

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.call = number, frame

    def remove(self) -> None:
        if _getsignal(self._number) is self:
            signal.signal(self._number, self._handler)
            _libc.sigaction(self._number, self._action, None)

    def run(self) -> None:
        call, self.call = self.call, None
        if call is not None:
            self._handler(*call)


def _action(number: int) -> ctypes.Array[ctypes.c_char]:
    action = ctypes.create_string_buffer(_ACTION)
    _libc.sigaction(number, None, action)
    return action


def _address(action: ctypes.Array[ctypes.c_char]) -> bytes:
    return action.raw[: ctypes.sizeof(ctypes.c_void_p)]
