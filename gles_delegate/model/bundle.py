"""Bundles of models: zip files, such as MediaPipe's .task files, which may hold others."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from struct import Struct
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo

from gles_delegate.errors import ModelError
from gles_delegate.model.flatbuffer import Content
from gles_delegate.model.schema import FILE_IDENTIFIER

_ZIP = b"PK\x03\x04"
_NAME_LENGTHS = Struct("<HH")
_DAMAGES = (BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
"""What zipfile raises for files that are damaged, encrypted, or packed in a way it lacks."""


def model_of(content: Content, member: str | None) -> Content:
    """The model `member` of a bundle; None: the only one. A model by itself is returned as it is.

    Raises:
        ModelError: There is no such model, or the bundle is damaged.
    """
    if content[:4] != _ZIP and member is not None:
        raise ModelError(
            f"expected a bundle of models (.task), of which {member!r} is one, found another "
            "file; a .tflite file has no members"
        )
    models = models_in(content)
    name = next(iter(models)) if member is None and len(models) == 1 else member
    if name is not None and name in models:
        with _intact():
            return models[name]()
    names, found = ", ".join(models), "nothing" if name is None else repr(name)
    raise ModelError(
        f"this is a bundle of models: expected member=..., one of {names}; found {found}"
    )


def models_in(content: Content) -> Mapping[str, Callable[[], Content]]:
    """What reads each model of a bundle, by its name; of a model by itself, the name is "".

    Raises:
        ModelError: There is none, or the bundle is damaged.
    """
    if content[:4] != _ZIP:
        return {"": lambda: content}
    with _intact():
        models = dict(_models(content))
    if not models:
        raise ModelError("expected a bundle of models (.task), found a zip file without a model")
    return models


@contextmanager
def _intact() -> Iterator[None]:
    """Raise ModelError for what zipfile raises."""
    try:
        yield
    except _DAMAGES as error:
        raise ModelError(f"damaged bundle of models: {error}") from error


def _models(content: Content, folder: str = "") -> Iterator[tuple[str, Callable[[], Content]]]:
    """The models of a bundle: their names, and what reads them."""
    bundle = ZipFile(BytesFile(content))
    for info in bundle.infolist():
        with bundle.open(info) as file:
            start = file.read(8)
        if start[4:] == FILE_IDENTIFIER:
            yield folder + info.filename, partial(_read, bundle, info, content)
        elif start[:4] == _ZIP:
            yield from _models(_read(bundle, info, content), f"{folder}{info.filename}/")


def _read(bundle: ZipFile, info: ZipInfo, content: Content) -> Content:
    """A member; not copied if the bundle is mapped and stores it as it is."""
    if isinstance(content, bytes) or info.compress_type != ZIP_STORED:
        return bundle.read(info)
    names = _NAME_LENGTHS.unpack_from(content, info.header_offset + 26)
    start = info.header_offset + 30 + sum(names)  # of the local file header
    return content[start : start + info.file_size]


class BytesFile(RawIOBase):
    """Bytes as a file, without a copy of them."""

    def __init__(self, content: Content) -> None:
        self._content = memoryview(content)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: len(self._content)}[whence]
        if base + offset < 0:
            raise ValueError(f"byte {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        part = self._content[self._position : self._position + len(buffer)]
        buffer[: len(part)] = part
        self._position += len(part)
        return len(part)
