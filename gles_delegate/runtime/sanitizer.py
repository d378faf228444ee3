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
from gles_delegate.shaders.dispatch import Dispatch, Value, values_of
from gles_delegate.support.closing import in_any_case, on_error, release_all

_PATTERNS = (0x7FC0DEC0, 0x3E4C3E4C)
"""A NaN, so that numbers which are read but count for nothing show; and a number of any type."""
_GUARD = 4096
"""Bytes of the pattern behind each buffer."""
_WORD = 2
"""Bytes of the smallest lane."""


@dataclass(frozen=True)
class StrayAccess:
    """An access of a dispatch, or a chain, to bytes that the plan does not give it.

    Attributes:
        dispatches: The dispatch, or the members of a chain.
        fault: What it does to them, such as "writes elsewhere".
        nbytes: Their number.
        buffer, offset: The first of them.
    """

    dispatches: tuple[Dispatch, ...]
    fault: str
    nbytes: int
    buffer: int
    offset: int

    def __str__(self) -> str:
        *others, last = self.dispatches
        chain = f"a chain of {len(others) + 1} dispatches, which ends with " if others else ""
        where = f"the first is byte {self.offset} of buffer {self.buffer}"
        return f"{chain}{last} {self.fault}: {self.nbytes} bytes, {where}"


class Sanitizer:
    """The buffers of a plan for each pattern, and the calls that run its dispatches there."""

    def __init__(self, plan: Plan, gpu: GpuContext, recorder: Recorder, storage: Storage) -> None:
        self._plan = plan
        self._arenas: list[_Arena] = []
        with on_error(self.release):
            for pattern in _PATTERNS:
                self._arenas.append(_Arena(plan, gpu, recorder, storage, pattern))

    def release(self) -> None:
        arenas, self._arenas = self._arenas, []
        in_any_case([arena.release for arena in arenas])

    def run(self, expected: Sequence[Array]) -> Iterator[StrayAccess]:
        """Run the dispatches in order; they update `expected`, the 16-bit words of each buffer."""
        for number, group in enumerate(self._plan.groups):
            regions = _regions(self._plan, group)
            befores = [[e.before(expected, g.words) for e in regions] for g in self._arenas]
            results = [
                arena.run(number, regions, before)
                for arena, before in zip(self._arenas, befores, strict=True)
            ]
            found = [beyond for _, beyond in results]
            faults = [("writes elsewhere", *each) for each in found[0] or found[1]]
            for i, region in enumerate(regions):
                afters = [after[i] for after, _ in results]
                faults += region.faults([before[i] for before in befores], afters)
                region.take(expected, afters[0])
            for fault, buffer, words in faults:
                nbytes = words.size * _WORD
                first = int(words[0]) * _WORD
                yield StrayAccess(group, fault, nbytes, buffer, first)


class _Arena:
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
        buffer = self._buffers[allocation.buffer]
        is_image = gpu.limits.has_images
        exact = TexelView(gpu.gl, buffer.name, allocation.offset, allocation.size, is_image)
        room = min(buffer.size - allocation.offset, gpu.limits.block_bytes)
        return _OpenView(gpu.gl, exact, max(room, allocation.size))

    def release(self) -> None:
        views, self._views = self._views, {}
        buffers, self._buffers = self._buffers, {}
        release_all((*views.values(), *buffers.values()))

    def run(
        self, number: int, regions: Sequence[_Region], before: Sequence[Array]
    ) -> tuple[list[Array], list[tuple[int, Array]]]:
        """Run a dispatch, or a chain, over these words of its regions.

        Returns the words after it; and other words that it changed, by buffer.
        """
        for region, words in zip(regions, before, strict=True):
            self._buffers[region.buffer].buffer.write(words, region.begin)
        self._steps[number].run()
        contents = {i: np.empty(b.size // _WORD, np.uint16) for i, b in self._buffers.items()}
        for i, buffer in self._buffers.items():
            buffer.buffer.read_into(contents[i], buffer.size)
        after: list[Array] = []
        for region in regions:
            words = contents[region.buffer][region.words]
            after.append(words.copy())
            words[:] = _repeated(self.words, words.size)
            self._buffers[region.buffer].buffer.write(words, region.begin)
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


class _Region:
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

    def before(self, expected: Sequence[Array], pattern: Array) -> Array:
        """The words before a run: what is read or kept, and the pattern elsewhere."""
        words = _repeated(pattern, self.reads.size)
        known = self.reads | self.kept & ~self.must
        np.copyto(words, expected[self.buffer][self.words], where=known)
        return words

    def take(self, expected: Sequence[Array], after: Array) -> None:
        """Update the contents by what was written."""
        np.copyto(expected[self.buffer][self.words], after, where=self.written)

    def faults(
        self, befores: Sequence[Array], afters: Sequence[Array]
    ) -> Iterator[tuple[str, int, Array]]:
        """The accesses of two runs against the plan: the fault, the buffer, and its words."""
        (before, other), (after, twin) = befores, afters
        unwritten = self.must & (before == after) & (other == twin)
        found = {
            "writes elsewhere": ~self.written & ((before != after) | (other != twin)),
            "leaves bytes of its output unwritten": unwritten,
            "reads more than its operands": self.written & (after != twin) & ~unwritten,
            "fills lanes past the last channel": self.padding & (after != 0) & ~unwritten,
        }
        for fault, mask in found.items():
            if mask.any():
                yield fault, self.buffer, mask.nonzero()[0] + self.words.start


def _regions(plan: Plan, group: tuple[Dispatch, ...]) -> list[_Region]:
    """The bytes that a dispatch, or a chain, may read and write by the plan."""
    values = {v for d in group for v in (*values_of(d.operands), d.output)}
    ranges: list[tuple[int, int, int]] = []  # of a buffer each; those that meet are united
    for a in sorted({plan.allocations[v] for v in values}, key=lambda a: (a.buffer, a.offset)):
        if ranges and ranges[-1][0] == a.buffer and a.offset <= ranges[-1][2]:
            ranges[-1] = *ranges[-1][:2], max(a.end, ranges[-1][2])
        else:
            ranges.append((a.buffer, a.offset, a.end))
    regions = [_Region(*each) for each in ranges]

    def part(value: Value) -> tuple[_Region, slice]:
        a = plan.allocations[value]
        region = next(e for e in reversed(regions) if (e.buffer, e.begin) <= (a.buffer, a.offset))
        first = (a.offset - region.begin) // _WORD
        return region, slice(first, first + value.nbytes // _WORD)

    whole: set[Value] = set()  # what earlier members of the chain compute
    for dispatch in group:
        for value in {*values_of(dispatch.operands)} - whole:
            region, words = part(value)
            region.reads[words] = True
        _mark_output(*part(dispatch.output), dispatch, dispatch.output in whole)
        if not dispatch.partial:
            whole.add(dispatch.output)
    if len(group) > 1:  # a later member may overwrite what earlier ones read or write
        for region in regions:
            region.must &= ~(region.reads | region.kept)
            region.padding[:] = False
    return regions


def _mark_output(region: _Region, words: slice, dispatch: Dispatch, is_whole: bool) -> None:
    """Mark what a dispatch writes; `is_whole`: an earlier member computes all of its output."""
    output = dispatch.output
    written = dispatch.written
    channels = np.arange(4 * output.slices).reshape(-1, 1, 4)

    def in_words(lanes: Array) -> Array:
        return lanes.reshape(-1).repeat(output.texel_bytes // (4 * _WORD))

    region.written[words] |= in_words(written)
    region.padding[words] |= in_words(written & (channels >= output.channels))
    if dispatch.writes_all:
        region.must[words] |= in_words(written)
    if dispatch.partial and not is_whole:
        texels = written.any(axis=2, keepdims=True) if dispatch.writes_all else np.True_
        region.kept[words] |= in_words(np.broadcast_to(texels, written.shape))
