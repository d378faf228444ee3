"""Memory planning: values whose live ranges do not overlap share bytes of an arena."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from math import ceil
from typing import TypeAlias

from gles_delegate.dispatch import Value

LiveRanges: TypeAlias = Mapping[Value, tuple[int, int]]
"""The first and the last dispatch that touches each value; -1 is before the run."""
ALIGNMENT = 256
"""Alignment of offsets. OpenGL ES allows no device to require more, for blocks or textures."""


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

    def overlaps(self, other: object) -> bool:
        """Whether another allocation has some of the same bytes."""
        return (
            isinstance(other, Allocation)
            and other.buffer == self.buffer
            and other.offset < self.end
            and self.offset < other.end
        )

    def __str__(self) -> str:
        return f"bytes {self.offset} to {self.end} of buffer {self.buffer}"


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
    live = live_bytes(ranges)
    always = (-1, len(live) - 2)
    own = [value for value, live_range in ranges.items() if live_range == always]
    allocations = {value: Allocation(i, 0, _size(value)) for i, value in enumerate(own)}
    shared = [value for value in ranges if value not in allocations]

    def breadth(value: Value) -> tuple[int, int]:
        first, last = ranges[value]
        return -max(live[first + 1 : last + 2]), -value.nbytes

    orders = sorted(shared, key=breadth), sorted(shared, key=ranges.__getitem__)
    arenas = (_pack(order, ranges, len(own)) for order in orders)
    size, packed = min(arenas, key=lambda arena: arena[0])
    return (*map(_size, own), *([size] if shared else [])), allocations | packed


def _pack(
    values: Iterable[Value], ranges: LiveRanges, buffer: int
) -> tuple[int, dict[Value, Allocation]]:
    """The size of an arena, and its allocations: each value in the first gap that is free."""
    packed: dict[Value, Allocation] = {}
    placed: list[tuple[int, int, Allocation]] = []
    for value in values:
        first, last = ranges[value]
        allocation = Allocation(buffer, 0, _size(value))
        live = (a for begin, end, a in placed if begin <= last and first <= end)
        for other in sorted(live, key=lambda other: other.offset):
            if allocation.overlaps(other):
                offset = ceil(other.end / ALIGNMENT) * ALIGNMENT
                allocation = replace(allocation, offset=offset)
        packed[value] = allocation
        placed.append((first, last, allocation))
    return max((allocation.end for allocation in packed.values()), default=0), packed


def _size(value: Value) -> int:
    """Bytes of its allocation: GL has no empty buffers."""
    return max(value.nbytes, 16)
