"""Tensors that lie inside others, instead of copies to them or from them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence, Set
from dataclasses import dataclass
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
    all_copied = {i: c for i, d in enumerate(dispatches) if (c := _copied(d)) is not None}
    computed = {d.output for d in dispatches}
    movable, hosts = computed - kept, computed - no_hosts
    joined = hosts - {d.output for d in dispatches if not d.partial}
    writers = Counter(d.output for d in dispatches)
    last_writers = {d.output: i for i, d in enumerate(dispatches)}
    places: dict[Value, Place] = {}
    dropped: set[int] = set()

    def outermost(value: Value) -> Place:
        offset = 0
        while value in places:
            value, more = places[value]
            offset += more
        return value, offset

    def target_of(copied: _Copied) -> Place:
        """The holder of the source, and the byte of the output where it would begin."""
        holder, begin = outermost(copied.source)
        return holder, copied.to - begin - copied.begin

    for i, copied in all_copied.items():
        source, output = copied.source, copied.output
        # Put the output inside the source, unless that is written again.
        if (
            source in hosts
            and output in movable
            and copied.is_range(alignment)
            and writers[output] == 1
            and last_writers[source] <= i
        ):
            places[output] = source, copied.begin
            dropped.add(i)
    rest = {i: copied for i, copied in all_copied.items() if i not in dropped}
    sizes: Counter[tuple[Value, Place]] = Counter()
    for copied in rest.values():
        sizes[copied.output, target_of(copied)] += copied.size
    for i, copied in rest.items():
        output = copied.output
        outer, to = outermost(output)
        holder, begin = target = target_of(copied)
        is_there = holder == outer and to + begin == 0
        # Put what holds the source inside the output, if all of it goes there.
        fits = (
            output in joined
            and holder in movable
            and sizes[output, target] == holder.nbytes
            and begin % alignment == 0
            and outer != holder
        )
        if fits:
            places[holder] = output, begin
        if fits or is_there:
            dropped.add(i)

    made_needless: defaultdict[Value, list[Dispatch]] = defaultdict(list)
    for i in dropped:
        made_needless[all_copied[i].source].append(dispatches[i])

    def attributed(dispatch: Dispatch) -> Dispatch:
        copies = [*made_needless[dispatch.output]]
        for copy in copies:
            copies += made_needless[copy.output]
        return dispatch.joined(*copies) if copies else dispatch

    result = [attributed(d) for i, d in enumerate(dispatches) if i not in dropped]
    return result, {value: outermost(value) for value in places}


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
