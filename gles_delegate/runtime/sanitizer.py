"""Running each dispatch of a plan separately, to see which bytes it writes and reads.

Before a dispatch, buffers hold the bytes that it may read, and a pattern everywhere else.
Afterwards every byte outside `Dispatch.written` must be as before, and every byte inside must have
been written. A second run over another pattern distinguishes written bytes from the pattern, and
must have the same results: otherwise the dispatch reads more than its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_delegate.gl.buffers import TexelBuffer, TexelView
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import Functions
from gles_delegate.model.graph import Array
from gles_delegate.planning.memory import Allocation
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.buffers import Storage
from gles_delegate.runtime.commands import Recorder
from gles_delegate.shaders.dispatch import Dispatch, Value
from gles_delegate.support.closing import in_any_case, on_error, release_all

_PATTERNS = (0x7FC0DEC0, 0x3E4C3E4C)
"""A NaN, so that numbers which are read but count for nothing show; and a number of any type."""
_GUARD = 4096
"""Bytes of the pattern behind each buffer."""
_WORD = 2
"""Bytes of the smallest lane."""


@dataclass(frozen=True)
class Trespass:
    """An access of a dispatch, or a chain, to bytes that the plan does not give it.

    Attributes:
        dispatches: The dispatch, or the members of a chain.
        deed: What it does to them, such as "writes elsewhere".
        nbytes: Their number.
        buffer, offset: The first of them.
    """

    dispatches: tuple[Dispatch, ...]
    deed: str
    nbytes: int
    buffer: int
    offset: int

    def __str__(self) -> str:
        *others, last = self.dispatches
        chain = f"a chain of {len(others) + 1} dispatches, which ends with " if others else ""
        where = f"the first is byte {self.offset} of buffer {self.buffer}"
        return f"{chain}{last} {self.deed}: {self.nbytes} bytes, {where}"


class Sanitizer:
    """The buffers of a plan for each pattern, and the calls that run its dispatches there."""

    def __init__(self, plan: Plan, gpu: GpuContext, recorder: Recorder, storage: Storage) -> None:
        self._plan = plan
        self._grounds: list[_Ground] = []
        with on_error(self.release):
            for pattern in _PATTERNS:
                self._grounds.append(_Ground(plan, gpu, recorder, storage, pattern))

    def release(self) -> None:
        grounds, self._grounds = self._grounds, []
        in_any_case([ground.release for ground in grounds])

    def run(self, truth: Sequence[Array]) -> Iterator[Trespass]:
        """Run the dispatches in order; they update `truth`, the 16-bit words of each buffer."""
        for number, group in enumerate(self._plan.groups):
            extents = _extents(self._plan, group)
            befores = [[e.before(truth, g.words) for e in extents] for g in self._grounds]
            results = [
                ground.run(number, extents, before)
                for ground, before in zip(self._grounds, befores, strict=True)
            ]
            found = [beyond for _, beyond in results]
            deeds = [("writes elsewhere", *each) for each in found[0] or found[1]]
            for i, extent in enumerate(extents):
                afters = [after[i] for after, _ in results]
                deeds += extent.deeds([before[i] for before in befores], afters)
                extent.take(truth, afters[0])
            for deed, buffer, words in deeds:
                nbytes, first = words.size * _WORD, int(words[0]) * _WORD
                yield Trespass(group, deed, nbytes, buffer, first)


class _Ground:
    """A plan's buffers, which hold a pattern, `words`, between runs."""

    def __init__(
        self, plan: Plan, gpu: GpuContext, recorder: Recorder, storage: Storage, pattern: int
    ) -> None:
        self.words = np.array([pattern], np.uint32).view(np.uint16)
        self._buffers: dict[int, TexelBuffer] = {}
        self._views: dict[Allocation, TexelView] = {}
        with on_error(self.release):
            for number, size in enumerate(plan.buffers):
                content = _repeated(self.words, (size + _GUARD) // _WORD)
                self._buffers[number] = TexelBuffer(gpu.gl, content.data, False)
            for allocation in plan.allocations.values():
                if allocation not in self._views:
                    self._views[allocation] = self._view(allocation, gpu)
            own = replace(storage, bound={}, own=self._views, buffers=self._buffers)
            self._steps = recorder.record_each(own)

    def _view(self, allocation: Allocation, gpu: GpuContext) -> TexelView:
        buffer, is_image = self._buffers[allocation.buffer], gpu.limits.has_images
        exact = TexelView(gpu.gl, buffer.name, allocation.offset, allocation.size, is_image)
        room = min(buffer.size - allocation.offset, gpu.limits.block_bytes)
        return _OpenView(gpu.gl, exact, max(room, allocation.size))

    def release(self) -> None:
        views, self._views = self._views, {}
        buffers, self._buffers = self._buffers, {}
        release_all((*views.values(), *buffers.values()))

    def run(
        self, number: int, extents: Sequence[_Extent], before: Sequence[Array]
    ) -> tuple[list[Array], list[tuple[int, Array]]]:
        """Run a dispatch, or a chain, over these words of its extents.

        Returns the words after it; and other words that it changed, by buffer.
        """
        for extent, words in zip(extents, before, strict=True):
            self._buffers[extent.buffer].buffer.write(words, extent.begin)
        self._steps[number].run()
        contents = {i: np.empty(b.size // _WORD, np.uint16) for i, b in self._buffers.items()}
        for i, buffer in self._buffers.items():
            buffer.buffer.read_into(contents[i], buffer.size)
        after: list[Array] = []
        for extent in extents:
            words = contents[extent.buffer][extent.words]
            after.append(words.copy())
            words[:] = _repeated(self.words, words.size)
            self._buffers[extent.buffer].buffer.write(words, extent.begin)
        beyond: list[tuple[int, Array]] = []
        for i, words in contents.items():
            changed = words.view(np.uint32) != self.words.view(np.uint32)
            if changed.any():
                beyond.append((i, changed.nonzero()[0] * 2))
                self._buffers[i].buffer.write(_repeated(self.words, words.size))
        return after, beyond


class _OpenView(TexelView):
    """A view whose storage block reaches on, so that what is written behind it shows."""

    def __init__(self, gl: Functions, exact: TexelView, size: int) -> None:
        super().__init__(gl, exact.name, exact.offset, size, False)
        self._exact = exact

    @property
    def texture(self) -> int:
        return self._exact.texture

    def release(self) -> None:
        self._exact.release()


def _repeated(pattern: Array, count: int) -> Array:
    """This many words of a pattern, over and over; `numpy.resize` takes 100 times as long."""
    result: Array = np.tile(pattern, -(-count // pattern.size))[:count]
    return result


class _Extent:
    """Consecutive words of a buffer that a dispatch, or a chain, uses, with masks of them.

    Attributes:
        begin: The offset in bytes.
        reads: Are read.
        kept: Belong to an output of which only a part is written.
        written: May be written.
        must: Are written in any case.
        padding: Are lanes past the last channel.
    """

    def __init__(self, buffer: int, begin: int, end: int) -> None:
        self.buffer = buffer
        self.begin = begin
        self.words = slice(begin // _WORD, end // _WORD)
        shape = 5, (end - begin) // _WORD
        self.reads, self.kept, self.written, self.must, self.padding = np.zeros(shape, np.bool_)

    def before(self, truth: Sequence[Array], pattern: Array) -> Array:
        """The words before a run: what is read or kept, and the pattern elsewhere."""
        words = _repeated(pattern, self.reads.size)
        known = self.reads | self.kept & ~self.must
        np.copyto(words, truth[self.buffer][self.words], where=known)
        return words

    def take(self, truth: Sequence[Array], after: Array) -> None:
        """Update the contents by what was written."""
        np.copyto(truth[self.buffer][self.words], after, where=self.written)

    def deeds(
        self, befores: Sequence[Array], afters: Sequence[Array]
    ) -> Iterator[tuple[str, int, Array]]:
        """The accesses of two runs against the plan: the deed, the buffer, and its words."""
        (before, other), (after, twin) = befores, afters
        unwritten = self.must & (before == after) & (other == twin)
        found = {
            "writes elsewhere": ~self.written & ((before != after) | (other != twin)),
            "leaves bytes of its output unwritten": unwritten,
            "reads more than its operands": self.written & (after != twin) & ~unwritten,
            "fills lanes past the last channel": self.padding & (after != 0) & ~unwritten,
        }
        for deed, mask in found.items():
            if mask.any():
                yield deed, self.buffer, mask.nonzero()[0] + self.words.start


def _extents(plan: Plan, group: tuple[Dispatch, ...]) -> list[_Extent]:
    """The bytes that a dispatch, or a chain, may read and write by the plan."""
    values = {v for d in group for v in (*d.operands, d.output) if isinstance(v, Value)}
    ranges: list[tuple[int, int, int]] = []  # of a buffer each; those that meet are united
    for a in sorted({plan.allocations[v] for v in values}, key=lambda a: (a.buffer, a.offset)):
        if ranges and ranges[-1][0] == a.buffer and a.offset <= ranges[-1][2]:
            ranges[-1] = *ranges[-1][:2], max(a.end, ranges[-1][2])
        else:
            ranges.append((a.buffer, a.offset, a.end))
    extents = [_Extent(*each) for each in ranges]

    def part(value: Value) -> tuple[_Extent, slice]:
        a = plan.allocations[value]
        extent = next(e for e in reversed(extents) if (e.buffer, e.begin) <= (a.buffer, a.offset))
        first = (a.offset - extent.begin) // _WORD
        return extent, slice(first, first + value.nbytes // _WORD)

    whole: set[Value] = set()  # what earlier members of the chain compute
    for dispatch in group:
        for value in {v for v in dispatch.operands if isinstance(v, Value)} - whole:
            extent, words = part(value)
            extent.reads[words] = True
        _mark_output(*part(dispatch.output), dispatch, dispatch.output in whole)
        if not dispatch.partial:
            whole.add(dispatch.output)
    if len(group) > 1:  # a later member may overwrite what earlier ones read or write
        for extent in extents:
            extent.must &= ~(extent.reads | extent.kept)
            extent.padding[:] = False
    return extents


def _mark_output(extent: _Extent, words: slice, dispatch: Dispatch, is_whole: bool) -> None:
    """Mark what a dispatch writes; `is_whole`: an earlier member computes all of its output."""
    output, written = dispatch.output, dispatch.written
    channels = np.arange(4 * output.slices).reshape(-1, 1, 4)

    def in_words(lanes: Array) -> Array:
        return lanes.reshape(-1).repeat(output.texel_bytes // (4 * _WORD))

    extent.written[words] |= in_words(written)
    extent.padding[words] |= in_words(written & (channels >= output.channels))
    if dispatch.writes_all:
        extent.must[words] |= in_words(written)
    if dispatch.partial and not is_whole:
        texels = written.any(axis=2, keepdims=True) if dispatch.writes_all else np.True_
        extent.kept[words] |= in_words(np.broadcast_to(texels, written.shape))
