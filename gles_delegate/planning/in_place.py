"""Tensors that lie inside others, instead of copies to them or from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from gles_delegate.ops.lib.views import Copy
from gles_delegate.shaders.dispatch import Dispatch, Operation, Value

Place: TypeAlias = tuple[Value, int]
"""A tensor that holds another, and the byte offset in it."""


def drop_copies(
    dispatches: Sequence[Dispatch], kept: Set[Value], no_hosts: Set[Value], alignment: int
) -> tuple[list[Dispatch], dict[Value, Place]]:
    """Write concatenation inputs directly into the output; read slices as views.

    Args:
        kept: Tensors that do not lie inside others, since they have their own buffers.
        no_hosts: Tensors that no others lie inside.
        alignment: Of the offsets in other tensors, in bytes.

    Returns:
        The dispatches without copies that are not needed; and for each tensor that lies inside
        another: its place in the outermost such tensor.
    """
    computed = {dispatch.output for dispatch in dispatches}
    nesting = _Nesting(dispatches, computed - kept, computed - no_hosts, alignment)
    nesting.put_outputs_inside_sources()
    nesting.put_sources_inside_outputs()
    places = {value: nesting.outermost(value) for value in nesting.places}
    return nesting.remaining(), places


@dataclass
class _Nesting:
    """Which tensors lie inside others, so that copies between them are not needed.

    Attributes:
        movable: Tensors that may lie inside others.
        hosts: Tensors that others may lie inside.
        alignment: See `drop_copies`.
        places: For each tensor that lies inside another: its place in that one.
        dropped: The indices of the copies that are not needed.
    """

    dispatches: Sequence[Dispatch]
    movable: Set[Value]
    hosts: Set[Value]
    alignment: int
    places: dict[Value, Place] = field(default_factory=dict)
    dropped: set[int] = field(default_factory=set)

    @cached_property
    def copies(self) -> dict[int, _Copied]:
        """The copies of ranges of bytes, by their indices."""
        found = {i: _copied(dispatch) for i, dispatch in enumerate(self.dispatches)}
        return {i: copied for i, copied in found.items() if copied is not None}

    def put_outputs_inside_sources(self) -> None:
        """Let slices be views, unless a source is written again after them."""
        writers = Counter(dispatch.output for dispatch in self.dispatches)
        last_writers = {dispatch.output: i for i, dispatch in enumerate(self.dispatches)}
        for i, copied in self.copies.items():
            if (
                copied.source in self.hosts
                and copied.output in self.movable
                and copied.is_range(self.alignment)
                and writers[copied.output] == 1
                and last_writers[copied.source] <= i
            ):
                self.places[copied.output] = copied.source, copied.begin
                self.dropped.add(i)

    def put_sources_inside_outputs(self) -> None:
        """Let what holds a source lie in the tensor that joins it to others, if all goes there."""
        rest = {i: copied for i, copied in self.copies.items() if i not in self.dropped}
        joined = self.hosts - {each.output for each in self.dispatches if not each.partial}
        sizes: Counter[tuple[Value, Place]] = Counter()
        for copied in rest.values():
            sizes[copied.output, self._target(copied)] += copied.size
        for i, copied in rest.items():
            output = copied.output
            outer, to = self.outermost(output)
            holder, begin = target = self._target(copied)
            is_there = holder == outer and to + begin == 0
            fits = (
                output in joined
                and holder in self.movable
                and sizes[output, target] == holder.nbytes
                and begin % self.alignment == 0
                and outer != holder
            )
            if fits:
                self.places[holder] = output, begin
            if fits or is_there:
                self.dropped.add(i)

    def outermost(self, value: Value) -> Place:
        """The place of a tensor in the outermost one around it."""
        offset = 0
        while value in self.places:
            value, more = self.places[value]
            offset += more
        return value, offset

    def _target(self, copied: _Copied) -> Place:
        """The holder of the source, and the byte of the output where it would begin."""
        holder, begin = self.outermost(copied.source)
        return holder, copied.to - begin - copied.begin

    def remaining(self) -> list[Dispatch]:
        """The dispatches that are needed, which stand for the nodes of dropped copies, too."""
        needless: defaultdict[Value, list[Dispatch]] = defaultdict(list)
        for i in self.dropped:
            needless[self.copies[i].source].append(self.dispatches[i])
        result: list[Dispatch] = []
        for i, dispatch in enumerate(self.dispatches):
            if i in self.dropped:
                continue
            copies = [*needless[dispatch.output]]
            for copy in copies:
                copies += needless[copy.output]
            result.append(dispatch.joined(*copies) if copies else dispatch)
        return result


@dataclass(frozen=True)
class _Copied:
    """Bytes of `source` from `begin` on that go to `output` from `to` on."""

    source: Value
    begin: int
    output: Value
    to: int
    size: int

    def is_range(self, alignment: int) -> bool:
        """Whether they are all of the output, and can be bound as a range of the source."""
        is_all = (self.to, self.size) == (0, self.output.nbytes)
        return is_all and self.begin % alignment == 0


def is_range(operation: Operation, alignment: int) -> bool:
    """Whether all that it writes are bytes of one tensor, which can be bound as a range."""
    copied = _copied(operation)
    return copied is not None and copied.is_range(alignment)


def _copied(operation: Operation) -> _Copied | None:
    if not isinstance(operation, Copy) or not isinstance(source := operation.reads[0], Value):
        return None
    begin, to, size = operation.range_of_bytes or (0, 0, 0)
    return _Copied(source, begin, operation.output, to, size) if size else None
