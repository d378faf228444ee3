"""External weights: constants that a model keeps in separate files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from mmap import ACCESS_READ, mmap
from pathlib import Path

import numpy as np

from gles_delegate.errors import ModelError, reason_of
from gles_delegate.model.files import require_regular
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class External:
    """The external buffers of a model, and the names and contents of their files by group."""

    tables: dict[int, FlatTable]
    groups: dict[int, tuple[str, Content]]

    def data(self, number: int, tensor: str) -> Array:
        """The bytes of a buffer; messages name the `tensor`. Raises ModelError."""
        table = self.tables.get(number)
        if table is None:
            raise ModelError(f"damaged model: external buffer {number} of {tensor} does not exist")
        if table.string(4) not in ("", "unpacked"):
            raise ModelError(
                f"the external buffer of {tensor} is packed as {table.string(4)!r}; expected "
                "'unpacked'"
            )
        name, content = self.groups[table.scalar(1, "uint32")]
        offset, size = table.scalar(2, "uint64"), table.scalar(3, "uint64")
        if offset + size > len(content):
            raise ModelError(
                f"the external buffer of {tensor}, {size} bytes at byte {offset}, lies outside the "
                f"{len(content)} bytes of the file {name!r}; was it cut off?"
            )
        return np.frombuffer(content, np.uint8, size, offset)


def read_external(model: FlatTable, folder: Path | None) -> External:
    """Map the files of external buffers, relative to a folder; raises ModelError on failure."""
    names = [table.string(0) for table in model.tables(8)]
    tables = {table.scalar(0, "uint32"): table for table in model.tables(9)}
    groups: dict[int, tuple[str, Content]] = {}
    for table in tables.values():
        group = table.scalar(1, "uint32")
        if group >= len(names):
            raise ModelError(
                f"damaged model: group {group} of external buffers does not exist; there are "
                f"{len(names)}"
            )
        if group not in groups:
            groups[group] = names[group], _mapped(names[group], folder)
    return External(tables, groups)


def _mapped(name: str, folder: Path | None) -> Content:
    if folder is None and not os.path.isabs(name):
        raise ModelError(
            f"the model has weights in the file {name!r} beside it: give the model's path, not its "
            "bytes"
        )
    try:
        file = (folder or Path()) / name
        require_regular(file)
        with file.open("rb") as opened:
            is_empty = not os.fstat(opened.fileno()).st_size
            return b"" if is_empty else memoryview(mmap(opened.fileno(), 0, access=ACCESS_READ))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"cannot read the file {name!r}, which has weights of the model: {reason_of(error)}"
        ) from error
