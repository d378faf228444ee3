"""Cleanup that continues past errors, and at the end of ``with`` blocks."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar

T = TypeVar("T", bound="Closing")


def in_any_case(actions: Iterable[Callable[[], object]]) -> None:
    """Call each one, even after errors, and raise the first error at the end."""
    first: BaseException | None = None
    for action in actions:
        try:
            action()
        except BaseException as error:  # raised below
            first = first or error
    if first is not None:
        raise first


@contextmanager
def on_error(undo: Callable[[], object]) -> Iterator[None]:
    """Call `undo` if the ``with`` block raises."""
    try:
        yield
    except BaseException:
        undo()
        raise


class Releasable(Protocol):
    """An owner of GL objects."""

    def release(self) -> None: ...


def release_all(owners: Iterable[Releasable]) -> None:
    """Release each one, even after errors, and raise the first error at the end."""
    in_any_case(owner.release for owner in owners)


class Closing:
    """Base of objects that a ``with`` block closes."""

    def close(self) -> None:
        """Free its resources. A second call does nothing."""
        raise NotImplementedError

    def __enter__(self: T) -> T:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()


CAN_LEAVE_OUT = hasattr(ctypes.CDLL(None), "on_exit")
"""Whether the C library has what `leave_exit_handlers_out` calls; musl does not."""


def leave_exit_handlers_out() -> None:
    """Have the process end without the functions that libraries have given to C's atexit.

    They wait for threads, or free what threads use. Python's own functions come before, and C's
    open files are written.
    """
    if CAN_LEAVE_OUT:
        libc = ctypes.CDLL(None)
        libc.on_exit(libc._exit, None)  # the last one is called first, each with the status
        libc.on_exit(libc.fcloseall, None)
