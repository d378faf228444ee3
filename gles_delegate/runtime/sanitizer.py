"""Running each dispatch of a plan by itself, to see which bytes it writes and reads.

Before a dispatch, buffers hold the bytes that it may read, and a pattern everywhere else.
Afterwards every byte outside `Dispatch.written` must be as before, and every byte inside must have
been written. A second run with another pattern tells written bytes from the pattern, and must have
the same results: otherwise the dispatch reads more than its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from gles_delegate.closing import on_error, release_all
from gles_delegate.dispatch import Dispatch, Value
from gles_delegate.gl.buffers import TexelBuffer, TexelView
from gles_delegate.gl.context import GpuContext
from gles_delegate.model.graph import Array
from gles_delegate.planning.memory import Allocation
from gles_delegate.planning.plan import Plan
from gles_delegate.runtime.buffers import Storage
from gles_delegate.runtime.commands import CommandList, Recorder

Contents: TypeAlias = Sequence[Array]
"""The 16-bit words of each of a plan's buffers."""

_PATTERNS = (0x7FC0DEC0, 0x3E4C3E4C)
"""A NaN, so that numbers which are read but count for nothing show; and a number in any type."""
_GUARD = 4096
"""Bytes of the pattern behind each buffer."""


@dataclass(frozen=True)
class Trespass:
    """What a dispatch, or a chain, does to bytes against the plan.

    Attributes:
        dispatches: The dispatch, or the members of a chain.
        deed: What it does to them.
        nbytes: How many bytes.
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
    """The buffers of a plan, twice, for runs of single dispatches."""

    def __init__(self, plan: Plan, gpu: GpuContext, recorder: Recorder, storage: Storage) -> None:
        self._plan, self._gpu = plan, gpu
        self._buffers: dict[int, TexelBuffer] = {}
        self._views: dict[Allocation, TexelView] = {}
        with on_error(self.release):
            for number, size in enumerate(plan.buffers):
                self._buffers[number] = TexelBuffer(gpu.gl, size + _GUARD, False)
            for allocation in plan.allocations.values():
                self._views.setdefault(allocation, self._view(allocation))
            own = replace(storage, bound={}, own=self._views, buffers=self._buffers)
            self._steps = recorder.record_each(own)

    def _view(self, allocation: Allocation) -> TexelView:
        limits, buffer = self._gpu.limits, self._buffers[allocation.buffer]
        is_image = max(limits.buffer_texels, limits.large_texels) > 0
        room = min(buffer.size - allocation.offset, limits.block_bytes)
        exact = TexelView(self._gpu.gl, buffer.name, allocation.offset, allocation.size, is_image)
        return _OpenView(self._gpu, exact, max(room, allocation.size))

    def release(self) -> None:
        views, self._views = self._views, {}
        buffers, self._buffers = self._buffers, {}
        release_all((*views.values(), *buffers.values()))

    def run(self, truth: Contents) -> Iterator[Trespass]:
        """Run every dispatch; `truth`, the contents at first, becomes those at the end."""
        for group, step in zip(self._plan.groups, self._steps, strict=True):
            access = _Access(self._plan, group)
            befores = [access.before(truth, pattern) for pattern in _PATTERNS]
            afters = [self._contents_after(step, before) for before in befores]
            yield from access.trespasses(befores, afters)
            access.take(truth, afters[0])

    def _contents_after(self, step: CommandList, before: Contents) -> Contents:
        for buffer, words in zip(self._buffers.values(), before, strict=True):
            buffer.buffer.write(words)
        step.run()
        after = [np.empty_like(words) for words in before]
        for buffer, words in zip(self._buffers.values(), after, strict=True):
            buffer.buffer.read_into(words, words.nbytes)
        return after


class _OpenView(TexelView):
    """A view whose storage block reaches on, so that what is written behind it shows."""

    def __init__(self, gpu: GpuContext, exact: TexelView, size: int) -> None:
        super().__init__(gpu.gl, exact.name, exact.offset, size, False)
        self._exact = exact

    @property
    def texture(self) -> int:
        return self._exact.texture

    def release(self) -> None:
        self._exact.release()


class _Access:
    """What a dispatch, or a chain, may read and write, as masks of the buffers' words.

    Attributes:
        reads: Operands, but for those that earlier members of the chain compute whole.
        kept: Outputs of which it writes only a part.
        written: What it may write.
        must: What it writes in any case.
    """

    def __init__(self, plan: Plan, group: tuple[Dispatch, ...]) -> None:
        self._group, self._allocations = group, plan.allocations
        sizes = [(size + _GUARD) // 2 for size in plan.buffers]
        self.reads, self.kept, self.written, self.must = (
            [np.zeros(size, np.bool_) for size in sizes] for _ in range(4)
        )
        whole: set[Value] = set()
        for dispatch in group:
            values = [value for value in dispatch.operands if isinstance(value, Value)]
            for value in set(values) - whole:
                self._mark(self.reads, value)
            output, lanes = dispatch.output, dispatch.written
            words = lanes.reshape(-1).repeat(output.texel_bytes // 8)
            self._mark(self.written, output, words)
            if dispatch.writes_all:
                self._mark(self.must, output, words)
            if dispatch.partial and output not in whole:
                texels = lanes.any(axis=2).reshape(-1).repeat(output.texel_bytes // 2)
                self._mark(self.kept, output, texels if dispatch.writes_all else None)
            if not dispatch.partial:
                whole.add(output)
        if len(group) > 1:  # a later member may overwrite what earlier ones read
            for must, reads, kept in zip(self.must, self.reads, self.kept, strict=True):
                must &= ~(reads | kept)

    def _mark(self, masks: list[Array], value: Value, words: Array | None = None) -> None:
        first, count = self._allocations[value].offset // 2, value.nbytes // 2
        masks[self._allocations[value].buffer][first : first + count] |= (
            np.True_ if words is None else words
        )

    def before(self, truth: Contents, pattern: int) -> Contents:
        """The contents before a run: operands and what is kept, and the pattern elsewhere."""
        contents: list[Array] = []
        for words, reads, kept, must in zip(truth, self.reads, self.kept, self.must, strict=True):
            filled = np.resize(np.array([pattern], np.uint32).view(np.uint16), reads.size)
            known = (reads | kept & ~must)[: words.size]
            filled[: words.size][known] = words[known]
            contents.append(filled)
        return contents

    def trespasses(
        self, befores: Sequence[Contents], afters: Sequence[Contents]
    ) -> Iterator[Trespass]:
        for number, written in enumerate(self.written):
            (before, other), (after, twin) = (
                [c[number] for c in both] for both in (befores, afters)
            )
            unwritten = self.must[number] & (before == after) & (other == twin)
            beyond = ~written & ((before != after) | (other != twin))
            deeds = {
                "writes elsewhere": beyond,
                "leaves bytes of its output unwritten": unwritten,
                "reads more than its operands": written & (after != twin) & ~unwritten,
            }
            for deed, words in deeds.items():
                (found,) = words.nonzero()
                if found.size:
                    yield Trespass(self._group, deed, 2 * found.size, number, 2 * int(found[0]))

    def take(self, truth: Contents, after: Contents) -> None:
        """Update the contents by what was written."""
        for words, new, written in zip(truth, after, self.written, strict=True):
            known = written[: words.size]
            words[known] = new[: words.size][known]
