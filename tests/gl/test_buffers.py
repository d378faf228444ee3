"""Buffers of our own: what is written is read, whatever kind of memory it comes from or goes to."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl import buffers
from gles_delegate.gl.buffers import Buffer, MappedBuffer
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.functions import Functions
from tests.support.state import State

BYTES = bytes(range(64))


@pytest.fixture
def gl() -> Iterator[Functions]:
    with gd.EglContext() as egl, GpuContext(egl).guard():
        objects = State(egl.load).objects()
        yield Functions(egl.load)
        assert State(egl.load).objects() == objects
    egl.release()


def read_only(data: bytes) -> Any:
    array = np.frombuffer(data, np.float32).reshape(4, 4)
    assert not array.flags.writeable
    return array


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview, read_only, np.array])
def test_any_contiguous_memory_is_written(kind: Any, gl: Functions) -> None:
    data = np.frombuffer(BYTES, "u1").copy() if kind is np.array else kind(BYTES)
    made, written = (
        Buffer(gl, data if kind in (bytes, memoryview) else BYTES),
        Buffer(gl, bytes(96)),
    )
    written.write(data, offset=16)
    assert made.read() == BYTES
    assert written.read() == bytes(16) + BYTES + bytes(16)
    assert written.read(offset=48) == BYTES[32:] + bytes(16)
    made.release()
    written.release()


def test_a_range_is_read_into_an_array(gl: Functions) -> None:
    buffer, target = Buffer(gl, BYTES), np.zeros((2, 3), np.int16)
    buffer.read_into(target, 8, offset=4)
    assert target.tobytes() == BYTES[4:12] + bytes(4)
    buffer.release()


@pytest.mark.parametrize("piece", [1, 16, 99, 100, 101])
def test_many_bytes_are_copied_in_pieces(
    gl: Functions, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(buffers, "_PIECE", piece)
    buffer, content = Buffer(gl, bytes(120)), np.arange(100, dtype=np.uint8)
    buffer.write(content, offset=8)
    assert buffer.read() == bytes(8) + content.tobytes() + bytes(12)
    target = np.zeros(100, np.uint8)
    buffer.read_into(target, 90, offset=9)
    assert target.tobytes() == content[1:91].tobytes() + bytes(10)
    buffer.release()


def test_nothing_is_read_into_what_is_too_small_or_read_only(gl: Functions) -> None:
    buffer, target = Buffer(gl, BYTES), np.zeros(8, np.uint8)
    with pytest.raises(ValueError, match="9 bytes"):
        buffer.read_into(target, 9)
    with pytest.raises(TypeError, match="not writable"):
        buffer.read_into(bytes(8), 8)
    assert not target.any()
    buffer.release()


def test_a_range_past_the_end_is_refused(gl: Functions) -> None:
    buffer, target = Buffer(gl, BYTES), np.zeros(8, np.uint8)
    with pytest.raises(gd.GLError, match="glMapBufferRange: GL_INVALID_VALUE"):
        buffer.read_into(target, 8, offset=60)
    buffer.write(target, offset=60)
    with pytest.raises(gd.GLError, match="write"):
        gl.check("write")
    assert buffer.read() == BYTES
    buffer.release()


def test_no_bytes_at_all(gl: Functions) -> None:
    for data in (b"", 0):
        buffer = Buffer(gl, data)
        buffer.write(np.zeros((0, 3), np.float32))
        buffer.read_into(np.zeros(0, np.float32), 0)
        assert buffer.read() == b""
        assert buffer.size == 0
        buffer.release()


@pytest.mark.mesa
def test_a_buffer_that_does_not_fit_is_freed(gl: Functions) -> None:
    with pytest.raises(gd.OutOfGpuMemoryError, match=f"{1 << 44} bytes") as caught:
        Buffer(gl, 1 << 44)
    assert isinstance(caught.value, MemoryError)


def test_mapped_memory_is_copied_by_the_gpu(gl: Functions) -> None:
    """As often as it is written, before the GPU has copied what was there."""
    if "GL_EXT_buffer_storage" not in gl.extensions():
        pytest.skip("the driver has no GL_EXT_buffer_storage")
    mapped, targets = MappedBuffer(gl, 64), [Buffer(gl, bytes(80)) for _ in range(5)]
    for number, target in enumerate(targets):
        mapped.copy_to(target.name, 8, np.full(12 + number, number, np.int32))
    for number, target in enumerate(targets):
        data = np.full(12 + number, number, np.int32).tobytes()
        assert target.read() == bytes(8) + data + bytes(72 - len(data))
        target.release()
    mapped.release()


def test_no_mapped_memory_is_an_error(gl: Functions) -> None:
    gl.glBufferStorage = lambda *_: None
    gl.glMapBufferRange = lambda *_: None
    with pytest.raises(gd.OutOfGpuMemoryError, match="64 bytes: glMapBufferRange"):
        MappedBuffer(gl, 64)
