"""Checked reading of FlatBuffers tables.

The flatbuffers package reads whatever an offset points to. Here each offset, table,
vtable and vector is checked against the buffer before it is used, so that hostile
bytes end in `ModelError` and in nothing else. Format: flatbuffers.dev/internals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from flatbuffers import encode, number_types, packer

from gles_delegate.errors import ModelError

Content: TypeAlias = bytes | memoryview
"""Bytes that nobody changes."""

_SCALARS: dict[str, tuple[Any, Any]] = {
    "bool": (packer.boolean, number_types.BoolFlags),
    "int8": (packer.int8, number_types.Int8Flags),
    "uint8": (packer.uint8, number_types.Uint8Flags),
    "int32": (packer.int32, number_types.Int32Flags),
    "uint32": (packer.uint32, number_types.Uint32Flags),
    "uint64": (packer.uint64, number_types.Uint64Flags),
    "float32": (packer.float32, number_types.Float32Flags),
}


@dataclass
class _Budget:
    """Vector entries that may still be read.

    Vectors of an honest buffer do not overlap, so their entries cannot outnumber its
    bytes by much; a hostile one lets thousands of tables share one huge vector.
    """

    entries: int


@dataclass(frozen=True)
class FlatTable:
    """A table inside a FlatBuffers buffer.

    Every method takes a field's *slot*, its number in the schema, and raises `ModelError`
    when the bytes it needs lie outside the buffer.
    """

    data: Content = field(repr=False)
    position: int
    budget: _Budget = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        vtable, vtable_size, table_size = self._vtable()
        _require(self.data, vtable, vtable_size, "vtable")
        if vtable_size < 4 or vtable_size % 2 or table_size < 4:
            raise ModelError(
                f"damaged model: the table at byte {self.position} has a vtable of {vtable_size} "
                f"bytes and an inline size of {table_size}"
            )
        _require(self.data, self.position, table_size, "table")

    @classmethod
    def root(cls, data: Content) -> FlatTable:
        """The root table of a whole buffer."""
        return cls(data, _scalar(data, 0, "uint32"), _Budget(8 * len(data)))

    def scalar(self, slot: int, kind: str, default: Any = 0) -> Any:
        """The number in a field; `kind` is a key of the scalar types, e.g. ``"int32"``."""
        position = self._field(slot, _SCALARS[kind][1].bytewidth)
        return default if position is None else _scalar(self.data, position, kind)

    def table(self, slot: int) -> FlatTable | None:
        """The table a field points to."""
        position = self._target(slot)
        return None if position is None else FlatTable(self.data, position, self.budget)

    def tables(self, slot: int) -> list[FlatTable]:
        """The tables of a vector of tables."""
        start, count = self._vector(slot, 4)
        positions = (start + 4 * i for i in range(count))
        return [
            FlatTable(self.data, p + _scalar(self.data, p, "uint32"), self.budget)
            for p in positions
        ]

    def array(self, slot: int, dtype: str) -> np.ndarray[Any, Any]:
        """A read-only numpy view of a vector of numbers; empty where the field is absent."""
        little = np.dtype(dtype).newbyteorder("<")
        start, count = self._vector(slot, little.itemsize)
        return np.frombuffer(self.data, little, count, start)

    def ints(self, slot: int) -> tuple[int, ...]:
        """A vector of int32."""
        return tuple(self.array(slot, "int32").tolist())

    def strings(self, slot: int) -> tuple[str, ...]:
        """A vector of strings; see `string`."""
        start, count = self._vector(slot, 4)
        found = []
        for position in range(start, start + 4 * count, 4):
            at = position + _scalar(self.data, position, "uint32")
            size = _scalar(self.data, at, "uint32")
            _require(self.data, at + 4, size, "string")
            self.budget.entries -= size
            found.append(bytes(self.data[at + 4 : at + 4 + size]).decode("utf-8", "replace"))
        if self.budget.entries < 0:
            raise ModelError("damaged model: its vectors overlap")
        return tuple(found)

    def string(self, slot: int) -> str:
        """A string; bytes that are not UTF-8 are shown with replacement characters."""
        start, count = self._vector(slot, 1)
        return bytes(self.data[start : start + count]).decode("utf-8", "replace")

    def position_of(self, slot: int) -> int | None:
        """Where the elements of a vector or string begin in `data`; None where it is absent."""
        start, _ = self._vector(slot, 1)
        return start or None

    def _vtable(self) -> tuple[int, int, int]:
        vtable = self.position - _scalar(self.data, self.position, "int32")
        _require(self.data, vtable, 4, "vtable")
        return (
            vtable,
            encode.Get(packer.uint16, self.data, vtable),
            encode.Get(packer.uint16, self.data, vtable + 2),
        )

    def _field(self, slot: int, width: int) -> int | None:
        vtable, vtable_size, table_size = self._vtable()
        entry = 4 + 2 * slot
        if entry + 2 > vtable_size:
            return None
        offset = encode.Get(packer.uint16, self.data, vtable + entry)
        if not offset:
            return None
        if offset < 4 or offset + width > table_size:
            raise ModelError(
                f"damaged model: field {slot} of the table at byte {self.position} lies at "
                f"{offset}, outside its {table_size} bytes"
            )
        return int(self.position + offset)

    def _target(self, slot: int) -> int | None:
        position = self._field(slot, 4)
        if position is None:
            return None
        return int(position + _scalar(self.data, position, "uint32"))

    def _vector(self, slot: int, width: int) -> tuple[int, int]:
        position = self._target(slot)
        if position is None:
            return 0, 0
        count = _scalar(self.data, position, "uint32")
        _require(self.data, position + 4, count * width, "vector")
        self.budget.entries -= count
        if self.budget.entries < 0:
            raise ModelError("damaged model: its vectors overlap")
        return position + 4, count


def _scalar(data: Content, position: int, kind: str) -> Any:
    pack, flags = _SCALARS[kind]
    _require(data, position, flags.bytewidth, "value")
    return encode.Get(pack, data, position)


def _require(data: Content, position: int, size: int, what: str) -> None:
    if position < 0 or position + size > len(data):
        raise ModelError(
            f"damaged model: a {what} of {size} bytes at byte {position} lies outside the "
            f"{len(data)} bytes of the model; was the file cut off?"
        )
