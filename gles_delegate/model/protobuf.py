"""Messages of protocol buffers, read by field numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gles_delegate.model.graph import Array

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types of https://protobuf.dev/programming-guides/encoding."""


class ProtobufError(ValueError):
    """A message is damaged."""


class Message:
    """The fields of a message."""

    def __init__(self, data: bytes) -> None:
        self._fields: dict[int, list[tuple[int, int | bytes]]] = {}
        for field, kind, value in _fields(data):
            self._fields.setdefault(field, []).append((kind, value))

    def messages(self, field: int) -> list[Message]:
        """The messages of a repeated field."""
        values = self._fields.get(field, [])
        return [Message(value) for kind, value in values if isinstance(value, bytes)]

    def message(self, field: int) -> Message:
        """The message of a field; an empty one if it is missing."""
        return (self.messages(field) or [Message(b"")])[-1]

    def integer(self, field: int) -> int:
        """The unsigned integer of a field; 0 if it is missing."""
        values = [v for _, v in self._fields.get(field, []) if isinstance(v, int)]
        return values[-1] if values else 0

    def floats(self, field: int) -> Array:
        """The numbers of a field of float32, packed or not; float32 [n]."""
        parts = []
        for kind, value in self._fields.get(field, []):
            if isinstance(value, bytes):
                if len(value) % 4:
                    raise ProtobufError(f"expected floats, found {len(value)} bytes")
                parts.append(value)
            elif kind == FIXED32:
                parts.append(value.to_bytes(4, "little"))
        return np.frombuffer(b"".join(parts), "<f4")


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind, value = key & 7, 0
        if kind == VARINT:
            value, at = _varint(data, at)
            yield key >> 3, kind, value
            continue
        size = {FIXED64: 8, FIXED32: 4}.get(kind)
        if kind == BYTES:
            size, at = _varint(data, at)
        if size is None or at + size > len(data):
            raise ProtobufError(f"expected a field of wire type 0, 1, 2 or 5 within {len(data)}")
        chunk, at = data[at : at + size], at + size
        yield key >> 3, kind, chunk if kind == BYTES else int.from_bytes(chunk, "little")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """An integer and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(data):
            break
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ProtobufError("expected the end of an integer")
