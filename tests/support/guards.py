"""Buffers with guard words: who writes or reads past a tensor's end is found out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from gles_delegate.dispatch import Value
from gles_delegate.gl.buffers import TexelBuffer
from gles_delegate.gl.egl import EglContext
from gles_delegate.gl.functions import Functions
from gles_delegate.planning import plan
from gles_delegate.planning.memory import Allocation, LiveRanges
from gles_delegate.runtime import buffers
from tests.support.oracle import Arrays, assert_close, gles_interpreter, run, run_litert

GUARD = bytes.fromhex("dec0ff7f") * 64  # NaN, so that a read shows in the results


class GuardedBuffer(TexelBuffer):
    """A buffer that is followed by guard words."""

    def __init__(self, gl: Functions, data: bytes, image: bool) -> None:
        super().__init__(gl, data + GUARD, image)
        self._size = len(data)

    @property
    def is_intact(self) -> bool:
        return bool(self.buffer.read(offset=self._size) == GUARD)


def _one_buffer_each(lives: LiveRanges) -> tuple[tuple[int, ...], dict[Value, Allocation]]:
    """Places that reach over the guard words, so that shaders may touch those."""
    sizes = tuple(max(value.nbytes, 16) for value in lives)
    allocations = (Allocation(i, 0, size + len(GUARD)) for i, size in enumerate(sizes))
    return sizes, dict(zip(lives, allocations, strict=True))


@contextmanager
def guarded(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[GuardedBuffer]]:
    """Sessions made inside keep every tensor in its own guarded buffer; yields the buffers."""
    made: list[GuardedBuffer] = []

    def make(gl: Functions, data: bytes, image: bool) -> GuardedBuffer:
        made.append(GuardedBuffer(gl, data, image))
        return made[-1]

    with monkeypatch.context() as patch:
        patch.setattr(buffers, "TexelBuffer", make)
        patch.setattr(plan, "allocate", _one_buffer_each)
        patch.setattr(plan, "drop_copies", lambda dispatches, *_: (dispatches, {}))
        yield made


def assert_stays_inside(content: bytes, feeds: Arrays, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model has LiteRT's results, and no dispatch reads or writes past the end of a tensor."""
    egl = EglContext()
    try:
        with guarded(monkeypatch) as buffers, gles_interpreter(content, egl) as interpreter:
            assert_close(run(interpreter, feeds), run_litert(content, feeds))
            with egl:
                assert buffers
                assert all(buffer.is_intact for buffer in buffers)
    finally:
        egl.release()
