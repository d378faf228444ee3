"""Rules that rewrite operations, over one index of what writes and reads each tensor.

A rule says what to look for, and proposes what to run instead. Whether the tensors allow that is
asked here, of every tensor that an edit touches: see `Listing.apply_if_sound`.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from types import UnionType
from typing import Any, TypeAlias

from gles_delegate.device.limits import Limits
from gles_delegate.kernels.setting import Setting
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.product import Convolution, Depthwise
from gles_delegate.shaders.dispatch import Call, Operand, Operation, Value, every_call, values_of

MAX_CALLS = 16
"""Maximum calls of an epilogue: compile time grows faster than a shader's length. Published models
have up to 9."""


@dataclass(frozen=True)
class Scope:
    """The surroundings of the operations that are rewritten.

    Attributes:
        kept: Tensors that must exist after the run.
        tensors: The tensors of the graph.
        half: Tensors and weights will be stored as float16.
        choices: By node index, which kernel products will have, if not 0; see `Profile.choices`.
        is_tuned: Which ones is measured later: all kernels stay possible.
    """

    kept: Set[Value]
    tensors: Sequence[Tensor]
    limits: Limits
    half: bool = False
    choices: Mapping[int, int] = field(default_factory=dict)
    is_tuned: bool = False

    def setting(self, node: int) -> Setting:
        """The facts that decide the kernels of a node's products."""
        return Setting(self.limits, self.tensors, self.half, self.choices.get(node, 0))


class Edit:
    """Dispatches that run instead of `old` ones, where the first of these was.

    The last of `made` has the result of one of `old`; the others compute tensors only for it.
    """

    def __init__(self, made: Operation | Sequence[Operation], *old: Operation) -> None:
        self.made = (made,) if isinstance(made, Operation) else tuple(made)
        self.old = old

    @property
    def result(self) -> Value:
        return self.made[-1].output

    @property
    def reads(self) -> set[Value]:
        """What `made` reads of the listing's tensors."""
        inner = {operation.output for operation in self.made[:-1]}
        return {o for d in self.made for o in values_of(d.operands)} - inner


@dataclass(frozen=True)
class Is:
    """An operation of a kind, whose first operand is computed as `source` says.

    Attributes:
        read_once: Only this pattern's reader reads its result, once, and not after the run.
        where: Another condition.
    """

    kind: type[Operation] | UnionType
    source: Is | None = None
    read_once: bool = False
    where: Callable[[Any], bool] = lambda operation: True

    def matches(self, listing: Listing, operation: Operation) -> Iterator[tuple[Operation, ...]]:
        """The operations that it stands for, the last one first."""
        if not self.accepts(listing, operation):
            return
        if self.source is None:
            yield (operation,)
        elif operation.reads and (before := listing.maker(operation.reads[0], operation)):
            yield from ((operation, *more) for more in self.source.matches(listing, before))

    def accepts(self, listing: Listing, operation: Operation) -> bool:
        return (
            isinstance(operation, self.kind)
            and self.where(operation)
            and (not self.read_once or listing.is_read_once(operation.output))
        )


@dataclass(frozen=True)
class Tree:
    """An operation and at most `MAX_CALLS` before it, whose results only these read.

    Attributes:
        each: What they all are. Their results have the size of the last one's.
    """

    each: Is

    def matches(self, listing: Listing, operation: Operation) -> Iterator[tuple[Operation, ...]]:
        if not self.each.accepts(listing, operation):
            return
        found = [operation]
        for part in found:
            for read in part.operands:
                maker = listing.maker(read, part) if listing.is_read_once(read) else None
                fits = maker and len(found) <= MAX_CALLS and has_texels_of(read, operation.output)
                if maker and fits and self.each.accepts(listing, maker):
                    found.append(maker)
        yield tuple(found)


@dataclass(frozen=True)
class Rule:
    """A pattern, and the edits to try: called with the listing and the operations that match."""

    pattern: Is | Tree
    edits: Callable[..., Iterable[Edit]]

    def __call__(self, listing: Listing) -> None:
        listing.rewrite(self)


def rule(pattern: Is | Tree) -> Callable[[Callable[..., Iterable[Edit]]], Rule]:
    """Make the decorated function the edits of a rule; its docstring says what the rule does."""
    return partial(Rule, pattern)


class Listing:
    """Dispatches in order, with the places that write and read each tensor.

    An operation keeps its place while others come and go.
    """

    def __init__(self, operations: Iterable[Operation], scope: Scope) -> None:
        self.scope = scope
        self._slots: list[tuple[Operation, ...]] = []
        self._places: dict[int, int] = {}
        self._writers: defaultdict[Operand, list[int]] = defaultdict(list)
        self._readers: defaultdict[Operand, list[int]] = defaultdict(list)
        for place, operation in enumerate(operations):
            self._slots.append(())
            self._replace_at(place, (operation,))

    @property
    def operations(self) -> list[Operation]:
        return [operation for slot in self._slots for operation in slot]

    @property
    def is_single(self) -> bool:
        """Whether each place has at most one operation; rules do not match others."""
        return all(len(slot) < 2 for slot in self._slots)

    def place(self, operation: Operation) -> int:
        return self._places[id(operation)]

    def maker(self, operand: Operand, before: Operation) -> Operation | None:
        """The operation that was the last to write a tensor before another operation."""
        writers = self._writers.get(operand, ())
        at = bisect_left(writers, self.place(before))
        return self._slots[writers[at - 1]][-1] if at else None

    def writers(self, operand: Operand) -> list[Operation]:
        """The operations that write a tensor, or parts of it, in order."""
        places = dict.fromkeys(self._writers.get(operand, ()))
        written = (operation for place in places for operation in self._slots[place])
        return [operation for operation in written if operation.output == operand]

    def readers(self, operand: Operand) -> list[Operation]:
        """The operations that read a tensor, in order."""
        places = sorted({*self._readers.get(operand, ())})
        read = (operation for place in places for operation in self._slots[place])
        return [operation for operation in read if operand in operation.operands]

    def reads(self, operand: Operand) -> int:
        """How often operations read a tensor."""
        return len(self._readers.get(operand, ()))

    def is_read_once(self, operand: Operand) -> bool:
        """Whether it is written by one operation, read once, and not needed after the run."""
        is_written_once = len(self._writers.get(operand, ())) == 1
        return is_written_once and self.reads(operand) == 1 and operand not in self.scope.kept

    def rewrite(self, *rules: Rule) -> None:
        """Apply rules, one after another, to each operation in order."""
        for place in range(len(self._slots)):
            for rule in rules:
                if len(self._slots[place]) == 1:
                    self._apply(rule, *self._slots[place])

    def _apply(self, rule: Rule, operation: Operation) -> None:
        for found in rule.pattern.matches(self, operation):
            if any(map(self.apply_if_sound, rule.edits(self, *found))):
                return

    def drop_unread(self) -> None:
        """Drop the operations whose results nothing reads."""
        for place in reversed(range(len(self._slots))):
            for operation in self._slots[place][-1:]:
                output = operation.output
                is_read = max(self._readers[output], default=-1) > place
                if not is_read and output not in self.scope.kept:
                    self._replace_at(place, ())

    def apply_if_sound(self, edit: Edit) -> bool:
        """Make an edit, if it is sound; then drop the operations that it leaves without readers.

        It is if what is made keeps to the device's limits and reads each tensor with the size
        that it has; if each tensor still holds there what the old operations read; and if nothing
        else reads what is no longer computed, or the result earlier or later than before.
        """
        places = [self.place(operation) for operation in edit.old]
        gone = self._emptied_places(edit, places)
        if gone is None or not (
            all(map(self._is_possible, edit.made)) and self._holds(edit, places)
        ):
            return False
        dropped = [operation for place in sorted(gone) for operation in self._slots[place]]
        for place in gone:
            self._replace_at(place, ())
        *inner, last = edit.made
        self._replace_at(places[0], (*inner, last.joined(*dropped)))
        return True

    def _emptied_places(self, edit: Edit, places: Sequence[int]) -> set[int] | None:
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
        """Whether each tensor holds what the old operations, or those just before them, read."""
        makers = {
            place
            for operation in edit.old
            for operand in operation.operands
            for place in self._writers.get(operand, ())
            if place < self.place(operation)
        }
        for operand in edit.reads:
            readers, writers = {*self._readers[operand]}, self._writers[operand]
            read_at = readers.intersection(places) or readers & makers
            span = {places[0], *read_at}
            if not read_at or bisect_left(writers, min(span)) < bisect_left(writers, max(span)):
                return False
        return True

    def _is_possible(self, operation: Operation) -> bool:
        limits = self.scope.limits
        return (
            operation.read_count <= limits.reads_for(operation.output.nbytes)
            and operation.passes <= limits.loop_passes
            and sum(1 for _ in every_call(operation.epilogue)) <= MAX_CALLS
            and reads_true_sizes(operation)
        )

    def _replace_at(self, place: int, operations: Sequence[Operation]) -> None:
        for old in self._slots[place]:
            del self._places[id(old)]
            self._writers[old.output].remove(place)
            for operand in old.operands:
                self._readers[operand].remove(place)
        self._slots[place] = tuple(operations)
        for operation in operations:
            self._places[id(operation)] = place
            insort(self._writers[operation.output], place)
            for operand in operation.operands:
                insort(self._readers[operand], place)


Pass: TypeAlias = Callable[[Listing], None]
"""Rewrites a listing: a `Rule`, or several of them."""


def has_texels_of(a: Operand, b: Operand) -> bool:
    """Whether two tensors have the same numbers of channels and pixels."""
    return (a.channels, a.pixels) == (b.channels, b.pixels)


def reads_true_sizes(operation: Operation) -> bool:
    """Whether it reads tensors as of the sizes that they have, lanes of zeros included."""
    output, reads = operation.output, operation.reads
    sizes: dict[str, tuple[int, ...]] = {}
    if isinstance(operation, Elementwise):
        for name, read in zip("ABC", reads, strict=False):
            sizes[f"{name}_PIXELS"] = (read.pixels,)
            sizes[f"{name}_ONE_CHANNEL"] = (int(read.channels != output.channels),)
    elif reads:
        channels = (reads[0].channels, max(4 * reads[0].slices, 1))
        sizes = {"IN_CHANNELS": channels, "IN_PIXELS": (reads[0].pixels,)}
        sizes["IN_ELEMENTS"] = tuple(count * reads[0].pixels for count in channels)
        sizes["M_PIXELS"] = (reads[-1].pixels,)
    numbers = operation.numbers
    if not all(numbers.get(name, fitting[0]) in fitting for name, fitting in sizes.items()):
        return False
    if isinstance(operation, Convolution | Depthwise | Pooling):
        window = operation.window
        in_pixels = window.in_pixels(output) if window else output.pixels
        if in_pixels != reads[0].pixels:
            return False
    return all(_fits_operand(call, output) for call in every_call(operation.epilogue))


def _fits_operand(call: Call, output: Value) -> bool:
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
