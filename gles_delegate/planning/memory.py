"""Memory planning: values whose live ranges do not overlap share bytes of an arena."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from gles_delegate.shaders.dispatch import Value

LiveRanges: TypeAlias = Mapping[Value, tuple[int, int]]
"""The first and the last dispatch that touches each value; -1 is before the run."""
ALIGNMENT = 256
"""Alignment of offsets. OpenGL ES allows no device to require more, for blocks or textures."""
_NO_END = np.iinfo(np.int64).max


@dataclass(frozen=True)
class Allocation:
    """A range of bytes of a buffer."""

    buffer: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    def slice(self, offset: int, size: int) -> Allocation:
        """A range inside this one."""
        return Allocation(self.buffer, self.offset + offset, size)

    def __str__(self) -> str:
        return f"bytes {self.offset} to {self.end} of buffer {self.buffer}"


class Extents:
    """Bytes of buffers, as ranges that do not meet each other."""

    def __init__(self) -> None:
        self._ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)

    def add(self, allocation: Allocation) -> None:
        ranges, begin, end = self._ranges[allocation.buffer], allocation.offset, allocation.end
        first = bisect_left(ranges, begin, key=itemgetter(1))
        last = bisect_right(ranges, end, key=itemgetter(0))
        met = ranges[first:last]
        ranges[first:last] = [
            (min([begin, *(a for a, _ in met)]), max([end, *(b for _, b in met)]))
        ]

    def overlap(self, allocation: Allocation) -> bool:
        """Whether an allocation has some of these bytes."""
        ranges = self._ranges[allocation.buffer]
        at = bisect_left(ranges, allocation.end, key=itemgetter(0))
        return at > 0 and ranges[at - 1][1] > allocation.offset


def live_bytes(ranges: LiveRanges) -> list[int]:
    """Bytes of the live values: before the run, at each dispatch, and after the run."""
    end = max((last for _, last in ranges.values()), default=-1)
    changes = [0] * (end + 3)
    for value, (first, last) in ranges.items():
        changes[first + 1] += value.nbytes
        changes[last + 2] -= value.nbytes
    return list(accumulate(changes[:-1]))


def allocate(ranges: LiveRanges) -> tuple[tuple[int, ...], dict[Value, Allocation]]:
    """Return the sizes of the buffers, and an allocation in them for each value.

    A value that lives all through the run has its own buffer. All others share one, the arena, in
    the better of two orders: largest live set first ("greedy by breadth" of Pisarchyk and Lee,
    "Efficient Memory Management for Deep Neural Net Inference", 2020), or by live ranges.
    """
    live = np.array(live_bytes(ranges))
    always = (-1, live.size - 2)
    own = [value for value, live_range in ranges.items() if live_range == always]
    allocations = {value: Allocation(i, 0, _size(value)) for i, value in enumerate(own)}
    shared = [value for value in ranges if value not in allocations]

    def breadth(value: Value) -> tuple[int, int]:
        first, last = ranges[value]
        return -int(live[first + 1 : last + 2].max()), -value.nbytes

    orders = sorted(shared, key=breadth), sorted(shared, key=ranges.__getitem__)
    arenas = (_pack(order, ranges, len(own)) for order in orders)
    size, packed = min(arenas, key=lambda arena: arena[0])
    return (*map(_size, own), *([size] if shared else [])), allocations | packed


def _pack(
    values: Sequence[Value], ranges: LiveRanges, buffer: int
) -> tuple[int, dict[Value, Allocation]]:
    """The size of an arena, and its allocations: each value in the first gap that is free."""
    packed: dict[Value, Allocation] = {}
    # A column for each allocation, by offset: first and last dispatch, offset, end.
    placed = np.zeros((4, len(values)), np.int64)
    for count, value in enumerate(values):
        (first, last), size = ranges[value], _size(value)
        firsts, lasts, offsets, ends = placed[:, :count]
        live = (firsts <= last) & (lasts >= first)
        # The gaps between the live ones: from the end of all before, to the offset of the next.
        after = np.maximum.accumulate(np.append(0, ends[live]))
        starts = -(-after // ALIGNMENT) * ALIGNMENT
        room = np.append(offsets[live], _NO_END) - starts
        offset = int(starts[np.argmax(room >= size)])
        at = offsets.searchsorted(offset)
        placed[:, at + 1 : count + 1] = placed[:, at:count]
        placed[:, at] = first, last, offset, offset + size
        packed[value] = Allocation(buffer, offset, size)
    return int(placed[3].max(initial=0)), packed


def _size(value: Value) -> int:
    """Bytes of its allocation; GL does not support empty buffers."""
    return max(value.nbytes, 16)
