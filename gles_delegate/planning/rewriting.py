"""Rules that rewrite dispatches, over one index of what writes and reads each tensor.

A rule says what to look for, and proposes what to run instead. Whether the tensors allow that is
asked here, of every tensor that an edit touches: see `Listing.take`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass
from types import UnionType
from typing import Any, TypeAlias

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.depthwise import Depthwise
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.product import Convolution
from gles_delegate.shaders.dispatch import Call, Dispatch, Operand, Value, every_call

MAX_CALLS = 16
"""Maximum calls of an epilogue: compile time grows faster than a shader's length. Published models
have up to 9."""


@dataclass(frozen=True)
class Scope:
    """The surroundings of the dispatches that are rewritten.

    Attributes:
        kept: Tensors that must exist after the run.
        tensors: The tensors of the graph.
        half: Tensors and weights will be stored as float16.
    """

    kept: Set[Value]
    tensors: Sequence[Tensor]
    limits: Limits
    half: bool = False


class Edit:
    """Dispatches that run instead of `old` ones, where the first of these was.

    The last of `made` has the result of one of `old`; the others compute tensors only for it.
    """

    def __init__(self, made: Dispatch | Sequence[Dispatch], *old: Dispatch) -> None:
        self.made = (made,) if isinstance(made, Dispatch) else tuple(made)
        self.old = old

    @property
    def result(self) -> Value:
        return self.made[-1].output

    @property
    def reads(self) -> set[Value]:
        """What `made` reads of the listing's tensors."""
        inner = {dispatch.output for dispatch in self.made[:-1]}
        return {o for d in self.made for o in d.operands if isinstance(o, Value)} - inner


@dataclass(frozen=True)
class Is:
    """A dispatch of a kind, whose first operand is computed as `source` says.

    Attributes:
        read_once: Only this pattern's reader reads its result, once, and not after the run.
        where: Another condition.
    """

    kind: type[Dispatch] | UnionType
    source: Is | None = None
    read_once: bool = False
    where: Callable[[Any], bool] = lambda dispatch: True

    def matches(self, listing: Listing, dispatch: Dispatch) -> Iterator[tuple[Dispatch, ...]]:
        """The dispatches that it stands for, the last one first."""
        if not self.suits(listing, dispatch):
            return
        if self.source is None:
            yield (dispatch,)
        elif dispatch.reads and (before := listing.maker(dispatch.reads[0], dispatch)):
            yield from ((dispatch, *more) for more in self.source.matches(listing, before))

    def suits(self, listing: Listing, dispatch: Dispatch) -> bool:
        return (
            isinstance(dispatch, self.kind)
            and self.where(dispatch)
            and (not self.read_once or listing.is_read_once(dispatch.output))
        )


@dataclass(frozen=True)
class Tree:
    """A dispatch and at most `MAX_CALLS` before it, whose results only these read.

    Attributes:
        each: What they all are. Their results have the size of the last one's.
    """

    each: Is

    def matches(self, listing: Listing, dispatch: Dispatch) -> Iterator[tuple[Dispatch, ...]]:
        if not self.each.suits(listing, dispatch):
            return
        found = [dispatch]
        for part in found:
            for read in part.operands:
                maker = listing.maker(read, part) if listing.is_read_once(read) else None
                fits = maker and len(found) <= MAX_CALLS and has_texels_of(read, dispatch.output)
                if maker and fits and self.each.suits(listing, maker):
                    found.append(maker)
        yield tuple(found)


@dataclass(frozen=True)
class Rule:
    """A pattern, and the edits to try: called with the listing and the dispatches that match."""

    pattern: Is | Tree
    edits: Callable[..., Iterable[Edit]]

    def __call__(self, listing: Listing) -> None:
        listing.rewrite(self)


class Listing:
    """Dispatches in order, with the places that write and read each tensor.

    A dispatch keeps its place while others come and go.
    """

    def __init__(self, dispatches: Iterable[Dispatch], scope: Scope) -> None:
        self.scope = scope
        self._slots: list[tuple[Dispatch, ...]] = []
        self._places: dict[int, int] = {}
        self._writers: defaultdict[Operand, list[int]] = defaultdict(list)
        self._readers: defaultdict[Operand, list[int]] = defaultdict(list)
        for place, dispatch in enumerate(dispatches):
            self._slots.append(())
            self._put(place, (dispatch,))

    @property
    def dispatches(self) -> list[Dispatch]:
        return [dispatch for slot in self._slots for dispatch in slot]

    def place(self, dispatch: Dispatch) -> int:
        return self._places[id(dispatch)]

    def maker(self, operand: Operand, before: Dispatch) -> Dispatch | None:
        """The dispatch that was the last to write a tensor before another dispatch."""
        writers = self._writers.get(operand, ())
        at = bisect_left(writers, self.place(before))
        return self._slots[writers[at - 1]][-1] if at else None

    def writers(self, operand: Operand) -> list[Dispatch]:
        """The dispatches that write a tensor, or parts of it, in order."""
        places = dict.fromkeys(self._writers.get(operand, ()))
        written = (dispatch for place in places for dispatch in self._slots[place])
        return [dispatch for dispatch in written if dispatch.output == operand]

    def readers(self, operand: Operand) -> list[Dispatch]:
        """The dispatches that read a tensor, in order."""
        places = sorted({*self._readers.get(operand, ())})
        read = (dispatch for place in places for dispatch in self._slots[place])
        return [dispatch for dispatch in read if operand in dispatch.operands]

    def reads(self, operand: Operand) -> int:
        """How often dispatches read a tensor."""
        return len(self._readers.get(operand, ()))

    def is_read_once(self, operand: Operand) -> bool:
        """Whether it is written by one dispatch, read once, and not needed after the run."""
        is_written_once = len(self._writers.get(operand, ())) == 1
        return is_written_once and self.reads(operand) == 1 and operand not in self.scope.kept

    def rewrite(self, *rules: Rule) -> None:
        """Apply rules, one after another, to each dispatch in order."""
        for place in range(len(self._slots)):
            for rule in rules:
                if len(self._slots[place]) == 1:
                    self._apply(rule, *self._slots[place])

    def _apply(self, rule: Rule, dispatch: Dispatch) -> None:
        for found in rule.pattern.matches(self, dispatch):
            if any(map(self.take, rule.edits(self, *found))):
                return

    def drop_unread(self) -> None:
        """Drop the dispatches whose results nothing reads."""
        for place in reversed(range(len(self._slots))):
            for dispatch in self._slots[place][-1:]:
                output = dispatch.output
                is_read = max(self._readers[output], default=-1) > place
                if not is_read and output not in self.scope.kept:
                    self._put(place, ())

    def take(self, edit: Edit) -> bool:
        """Make an edit, if it is sound; then drop the dispatches that it leaves without readers.

        It is if what is made keeps to the device's limits and reads each tensor with the size
        that it has; if each tensor still holds there what the old dispatches read; and if nothing
        else reads what is no longer computed, or the result earlier or later than before.
        """
        places = [self.place(dispatch) for dispatch in edit.old]
        gone = self._gone(edit, places)
        if gone is None or not (
            all(map(self._is_possible, edit.made)) and self._holds(edit, places)
        ):
            return False
        dropped = [dispatch for place in sorted(gone) for dispatch in self._slots[place]]
        for place in gone:
            self._put(place, ())
        *inner, last = edit.made
        self._put(places[0], (*inner, last.joined(*dropped)))
        return True

    def _gone(self, edit: Edit, places: Sequence[int]) -> set[int] | None:
        """The places that an edit empties, or None if others need what is computed there."""
        at, result = places[0], edit.result
        written_at = next(p for p in places if self._slots[p][-1].output == result)
        between = range(min(at, written_at), max(at, written_at) + 1)
        others = {*self._readers[result], *self._writers[result]} - {at, written_at}
        is_moved, is_read = at != written_at, result in edit.reads
        if (is_moved and (is_read or not others.isdisjoint(between))) or (
            is_read and written_at not in self._readers[result]  # it would write over what it reads
        ):
            return None
        gone = {at, written_at}
        for place in sorted({*places} - gone, reverse=True):
            output = self._slots[place][-1].output
            is_unread = self._readers[result] and min(self._readers[result]) > at
            is_overwritten = output == result and is_unread and not edit.made[-1].partial
            if is_overwritten or self._is_needless(output, edit, gone):
                gone.add(place)
        first = self._slots[at][-1].output
        is_single = all(len(self._slots[place]) == 1 for place in gone)
        return (
            gone if is_single and (not is_moved or self._is_needless(first, edit, gone)) else None
        )

    def _is_needless(self, output: Value, edit: Edit, gone: Set[int]) -> bool:
        is_kept = output in edit.reads or output in self.scope.kept
        return not is_kept and {*self._readers[output]} <= gone

    def _holds(self, edit: Edit, places: Sequence[int]) -> bool:
        """Whether each tensor holds what the old dispatches, or those just before them, read."""
        makers = {
            place
            for dispatch in edit.old
            for operand in dispatch.operands
            for place in self._writers.get(operand, ())
            if place < self.place(dispatch)
        }
        for operand in edit.reads:
            readers, writers = {*self._readers[operand]}, self._writers[operand]
            read_at = readers.intersection(places) or readers & makers
            span = {places[0], *read_at}
            if not read_at or bisect_left(writers, min(span)) < bisect_left(writers, max(span)):
                return False
        return True

    def _is_possible(self, dispatch: Dispatch) -> bool:
        limits = self.scope.limits
        return (
            len(dispatch.operands) <= limits.reads_for(dispatch.output.nbytes)
            and dispatch.passes <= limits.loop_passes
            and sum(1 for _ in every_call(dispatch.epilogue)) <= MAX_CALLS
            and reads_true_sizes(dispatch)
        )

    def _put(self, place: int, dispatches: Sequence[Dispatch]) -> None:
        for old in self._slots[place]:
            del self._places[id(old)]
            self._writers[old.output].remove(place)
            for operand in old.operands:
                self._readers[operand].remove(place)
        self._slots[place] = tuple(dispatches)
        for dispatch in dispatches:
            self._places[id(dispatch)] = place
            insort(self._writers[dispatch.output], place)
            for operand in dispatch.operands:
                insort(self._readers[operand], place)


Pass: TypeAlias = Callable[[Listing], None]
"""Rewrites a listing: a `Rule`, or several of them."""


def has_texels_of(a: Operand, b: Operand) -> bool:
    """Whether two tensors have the same numbers of channels and pixels."""
    return (a.channels, a.pixels) == (b.channels, b.pixels)


def reads_true_sizes(dispatch: Dispatch) -> bool:
    """Whether a dispatch reads tensors as of the sizes that they have, lanes of zeros included."""
    numbers, output, reads = dispatch.numbers, dispatch.output, dispatch.reads
    sizes: dict[str, tuple[int, ...]] = {}
    if isinstance(dispatch, Elementwise):
        for name, read in zip("ABC", reads, strict=False):
            sizes[f"{name}_PIXELS"] = (read.pixels,)
            sizes[f"{name}_ONE_CHANNEL"] = (int(read.channels != output.channels),)
    elif reads:
        channels = (reads[0].channels, max(4 * reads[0].slices, 1))
        sizes = {"IN_CHANNELS": channels, "IN_PIXELS": (reads[0].pixels,)}
        sizes["IN_ELEMENTS"] = tuple(count * reads[0].pixels for count in channels)
        sizes["M_PIXELS"] = (reads[-1].pixels,)
    window = dispatch.window if isinstance(dispatch, Convolution | Depthwise | Pooling) else None
    image = window and output.shape[0] * window.in_h * window.in_w
    return (
        image in (None, *(read.pixels for read in reads[:1]))
        and all(numbers.get(name, fitting[0]) in fitting for name, fitting in sizes.items())
        and all(_suits(call, output) for call in every_call(dispatch.epilogue))
    )


def _suits(call: Call, output: Value) -> bool:
    """Whether the operand of a call has one of the sizes that `Call` lists."""
    x, channels = call.operand, output.channels
    if x is None:
        return True
    if call.spread:
        a, b, c = call.spread
        return x.channels in (1, channels) and x.pixels == (output.pixels - 1) // a * b + c
    pixels = output.pixels * (4 if call.rows else 1)
    same_pixels = x.pixels == pixels and min(2, channels) <= x.channels <= channels
    return same_pixels or (x.pixels == 1 and x.channels in (1, channels))
