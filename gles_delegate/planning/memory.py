"""Where the values of a plan lie: ranges of few buffers, shared by what never lives together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from gles_delegate.dispatch import Value

Lifetimes: TypeAlias = Mapping[Value, tuple[int, int]]
"""The first and the last dispatch that has each value; -1 is before the run."""

ALIGNMENT = 256
"""Offsets are multiples of it: no OpenGL ES device may ask for more, of blocks or of textures."""


@dataclass(frozen=True)
class Place:
    """Bytes of a buffer."""

    buffer: int
    offset: int
    size: int

    @property
    def end(self) -> int:
        return self.offset + self.size

    def part(self, offset: int, size: int) -> Place:
        """Some of its bytes."""
        return Place(self.buffer, self.offset + offset, size)

    def overlaps(self, other: object) -> bool:
        """Whether another place has bytes of it too."""
        return (
            isinstance(other, Place)
            and other.buffer == self.buffer
            and other.offset < self.end
            and self.offset < other.end
        )

    def __str__(self) -> str:
        return f"bytes {self.offset} to {self.end} of buffer {self.buffer}"


def widths(lives: Lifetimes) -> list[int]:
    """Bytes of the values that live at once: before the run, at each dispatch, and after it."""
    end = max((last for _, last in lives.values()), default=-1)
    return [
        sum(value.nbytes for value, (first, last) in lives.items() if first <= i <= last)
        for i in range(-1, end + 1)
    ]


def assign_places(lives: Lifetimes) -> tuple[tuple[int, ...], dict[Value, Place]]:
    """The sizes of buffers, and a place in them for each value.

    What lives all the time has a buffer of its own, and all the rest share one. They are put
    there in the better of two orders: the widest moments first ("greedy by breadth" of Pisarchyk
    and Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020), or as they come.
    """
    wide = widths(lives)
    always = (-1, len(wide) - 2)
    own = [value for value, life in lives.items() if life == always]
    places = {value: Place(i, 0, _size(value)) for i, value in enumerate(own)}
    shared = [value for value in lives if value not in places]

    def breadth(value: Value) -> tuple[int, int]:
        first, last = lives[value]
        return -max(wide[first + 1 : last + 2]), -value.nbytes

    orders = sorted(shared, key=breadth), sorted(shared, key=lives.__getitem__)
    found = (_pack(order, lives, len(own)) for order in orders)
    size, packed = min(found, key=lambda pair: pair[0])
    return (*map(_size, own), *([size] if shared else [])), places | packed


def _pack(values: Iterable[Value], lives: Lifetimes, buffer: int) -> tuple[int, dict[Value, Place]]:
    """Each value in the first gap between those before it that live with it; the bytes in all."""
    places: dict[Value, Place] = {}
    for value in values:
        first, last = lives[value]
        place = Place(buffer, 0, _size(value))
        neighbours = (p for v, p in places.items() if lives[v][0] <= last and first <= lives[v][1])
        for other in sorted(neighbours, key=lambda other: other.offset):
            if place.overlaps(other):
                place = replace(place, offset=ceil(other.end / ALIGNMENT) * ALIGNMENT)
        places[value] = place
    return max((place.end for place in places.values()), default=0), places


def _size(value: Value) -> int:
    """Bytes of its place: GL has no empty ones."""
    return max(value.nbytes, 16)
