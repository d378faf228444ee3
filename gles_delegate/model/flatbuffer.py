"""Checked reading of FlatBuffers tables.

The flatbuffers package reads whatever an offset points to. Here each offset, table, vtable and
vector is checked against the buffer first, so hostile bytes raise `ModelError` and nothing else.
Format: flatbuffers.dev/internals.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from struct import Struct
from typing import Any, TypeAlias

import numpy as np

from gles_delegate.errors import ModelError

Content: TypeAlias = bytes | memoryview  # immutable bytes

_SCALARS = {
    "bool": Struct("<?"),
    "int8": Struct("<b"),
    "uint8": Struct("<B"),
    "uint16": Struct("<H"),
    "int32": Struct("<i"),
    "uint32": Struct("<I"),
    "int64": Struct("<q"),
    "uint64": Struct("<Q"),
    "float32": Struct("<f"),
}


@dataclass
class _Budget:
    """Vector entries that may still be read.

    Vectors of an honest buffer do not overlap, so their entries cannot outnumber its bytes by
    much; in a hostile one, thousands of tables may share one huge vector.
    """

    entries: int


@dataclass(frozen=True)
class FlatTable:
    """A table inside a FlatBuffers buffer.

    Methods take a field's *slot*, its number in the schema, and raise `ModelError` if they need
    bytes outside the buffer.
    """

    data: Content = field(repr=False)
    position: int
    budget: _Budget = field(repr=False, compare=False)

    def __post_init__(self) -> None:
        vtable, vtable_size, table_size = self._vtable
        _require(self.data, vtable, vtable_size, "vtable")
        if vtable_size < 4 or vtable_size % 2 or table_size < 4:
            raise ModelError(
                f"damaged model: the table at byte {self.position} has a vtable of {vtable_size} "
                f"bytes and an inline size of {table_size}"
            )
        _require(self.data, self.position, table_size, "table")

    @classmethod
    def root(cls, data: Content) -> FlatTable:
        return cls(data, _scalar(data, 0, "uint32"), _Budget(8 * len(data)))

    def scalar(self, slot: int, kind: str, default: Any = 0) -> Any:
        """The number in a field of a type such as "int32"."""
        position = self._field(slot, _SCALARS[kind].size)
        return default if position is None else _scalar(self.data, position, kind)

    def table(self, slot: int) -> FlatTable | None:
        position = self._target(slot)
        return None if position is None else FlatTable(self.data, position, self.budget)

    def tables(self, slot: int) -> list[FlatTable]:
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
        return tuple(self.array(slot, "int32").tolist())

    def strings(self, slot: int) -> tuple[str, ...]:
        """A vector of strings; see `string`."""
        start, count = self._vector(slot, 4)
        offsets = range(start, start + 4 * count, 4)
        return tuple(
            self._text(*self._counted(offset + _scalar(self.data, offset, "uint32"), 1))
            for offset in offsets
        )

    def string(self, slot: int) -> str:
        """A string; U+FFFD replaces bytes that are not UTF-8."""
        return self._text(*self._vector(slot, 1))

    def _text(self, start: int, size: int) -> str:
        return bytes(self.data[start : start + size]).decode("utf-8", "replace")

    def position_of(self, slot: int) -> int | None:
        """Offset in `data` of the elements of a vector or string; None if it is absent."""
        start, _ = self._vector(slot, 1)
        return start or None

    @cached_property
    def _vtable(self) -> tuple[int, int, int]:
        """Its position, its size, and the table's."""
        vtable = self.position - _scalar(self.data, self.position, "int32")
        _require(self.data, vtable, 4, "vtable")
        size, table_size = (_scalar(self.data, at, "uint16") for at in (vtable, vtable + 2))
        return vtable, size, table_size

    def _field(self, slot: int, width: int) -> int | None:
        vtable, vtable_size, table_size = self._vtable
        entry = 4 + 2 * slot
        if entry + 2 > vtable_size:
            return None
        offset = _scalar(self.data, vtable + entry, "uint16")
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
        return (0, 0) if position is None else self._counted(position, width)

    def _counted(self, position: int, width: int) -> tuple[int, int]:
        """Start and length of the elements of a vector at a position."""
        count = _scalar(self.data, position, "uint32")
        _require(self.data, position + 4, count * width, "vector")
        self.budget.entries -= count
        if self.budget.entries < 0:
            raise ModelError("damaged model: its vectors overlap")
        return position + 4, count


def _scalar(data: Content, position: int, kind: str) -> Any:
    _require(data, position, _SCALARS[kind].size, "value")
    return _SCALARS[kind].unpack_from(data, position)[0]


def _require(data: Content, position: int, size: int, what: str) -> None:
    if position < 0 or position + size > len(data):
        raise ModelError(
            f"damaged model: a {what} of {size} bytes at byte {position} lies outside the "
            f"{len(data)} bytes of the model; was the file cut off?"
        )
