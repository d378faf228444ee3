"""Memory of numpy arrays."""

from __future__ import annotations

from collections import deque
from math import prod
from typing import Any
from weakref import finalize

import numpy as np
from numpy.typing import DTypeLike

MANY_BYTES = 1 << 20
"""From here on, a copy takes longer than what avoids it."""


class Memory:
    """The base of an array, which numpy keeps as long as the array or a slice of it exists."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array.reshape(-1).view(np.uint8)
        self.__array_interface__ = self._array.__array_interface__

    def as_array(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
        return np.asarray(self).view(dtype).reshape(shape)


class ArrayPool:
    """Makes arrays; the memory of a large one that nobody has any more is used again.

    The C library gets new pages for each large array, and touching them takes several times as long
    as copying.
    """

    def __init__(self) -> None:
        self._free: dict[int, deque[np.ndarray[Any, Any]]] = {}

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> np.ndarray[Any, Any]:
        size = prod(shape) * np.dtype(dtype).itemsize
        if size < MANY_BYTES:
            return np.empty(shape, dtype)
        # A loop has one result while it gets the next. Any thread may be the last to have an array.
        blocks = self._free.setdefault(size, deque(maxlen=2))
        try:
            block = blocks.pop()
        except IndexError:
            block = np.empty(size, np.uint8)
        memory = Memory(block)
        finalize(memory, blocks.append, block).atexit = False
        return memory.as_array(shape, dtype)

    def clear(self) -> None:
        self._free = {}
