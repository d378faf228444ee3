"""GL objects that the delegates of one context share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar, cast
from weakref import WeakKeyDictionary

from gles_delegate.gl.egl import EglContext
from gles_delegate.support.closing import Releasable
from gles_delegate.support.unpatched import Lock

ObjectT = TypeVar("ObjectT", bound=Releasable)


@dataclass
class _Pooled:
    owner: Releasable
    users: int = 0


class ObjectPool:
    """GL objects by what they were made from; each lives as long as its users.

    `take` and `give_back` are never called by two threads at a time: the context is current. If it
    `is_shared`, other delegates may use it.
    """

    def __init__(self, is_shared: bool = False) -> None:
        self.is_shared = is_shared
        self._entries: dict[Hashable, _Pooled] = {}

    @staticmethod
    def of(context: EglContext) -> ObjectPool:
        """The pool of an app's context, the same for all of its delegates."""
        with _lock:
            return _pools.setdefault(context, ObjectPool(is_shared=True))

    def take(self, key: Hashable, make: Callable[[], ObjectT]) -> ObjectT:
        """The object of a key, which `make` makes unless there is one.

        Call `give_back` once for each call. Objects of equal keys have the same type.
        """
        if key not in self._entries:
            self._entries[key] = _Pooled(make())
        entry = self._entries[key]
        entry.users += 1
        return cast(ObjectT, entry.owner)

    def give_back(self, key: Hashable) -> None:
        """Free the object of a key unless it has other users."""
        entry = self._entries[key]
        entry.users -= 1
        if not entry.users:
            del self._entries[key]
            entry.owner.release()


_pools: WeakKeyDictionary[EglContext, ObjectPool] = WeakKeyDictionary()
_lock = Lock()
