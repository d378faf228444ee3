"""Bundles of models: zip files, such as MediaPipe's .task files, which may contain bundles."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import SEEK_CUR, SEEK_END, SEEK_SET, RawIOBase
from struct import Struct
from typing import Any
from zipfile import ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

from gles_delegate.errors import ModelError
from gles_delegate.model.files import require_bundle
from gles_delegate.model.flatbuffer import Content
from gles_delegate.model.schema import FILE_IDENTIFIER

MAX_INFLATED = 1 << 29  # limit of the total size, in bytes, of a bundle's compressed members
MAX_FOLDED = 8  # limit of the nesting of bundles
_ZIP = b"PK\x03\x04"
_NAME_LENGTHS = Struct("<HH")
DAMAGES: tuple[type[Exception], ...]
DAMAGES = (BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
with suppress(ImportError):  # some Pythons are built without
    from lzma import LZMAError

    DAMAGES += (LZMAError,)
"""zipfile's errors for files that are damaged, encrypted, or compressed in an unknown way."""


def model_of(content: Content, member: str | None) -> Content:
    """The model `member` of a bundle, or the only one; a plain model is returned as it is.

    Raises ModelError if there is no such model, or the bundle is damaged.
    """
    if member is not None and not _is_bundle(content):
        raise ModelError(
            f"expected a bundle of models (.task) with the member {member!r}, found another file; "
            "a .tflite file has no members"
        )
    models = models_in(content)
    name = next(iter(models)) if member is None and len(models) == 1 else member
    if name is not None and name in models:
        with _intact():
            return models[name]()
    names, requested = ", ".join(models), "nothing" if name is None else repr(name)
    raise ModelError(
        f"this is a bundle of models: expected member=..., one of {names}; found {requested}"
    )


def models_in(content: Content) -> Mapping[str, Callable[[], Content]]:
    """A function that reads each model of a bundle, by name; a plain model has the name "".

    Raises ModelError if there is none, or the bundle is damaged or too large.
    """
    if not _is_bundle(content):
        return {"": lambda: content}
    with _intact():
        models = dict(_walk(content, "", [0]))
        names = ZipFile(BytesFile(content)).namelist()
    if not models:
        require_bundle(names)
        raise ModelError("expected a bundle of models (.task), found a zip file without a model")
    return models


def files_in(content: Content) -> Mapping[str, Callable[[], Content]]:
    """A function that reads each file of a bundle, by name; none if it is not a bundle.

    Raises ModelError if the bundle is damaged or too large.
    """
    if not _is_bundle(content):
        return {}
    with _intact():
        bundle = ZipFile(BytesFile(content))
        infos = bundle.infolist()
        _check_inflated(infos, 0, 0)
    require_bundle(bundle.namelist())
    read = _intact()(_read)
    return {info.filename: partial(read, bundle, info, content) for info in infos}


@contextmanager
def _intact() -> Iterator[None]:
    try:
        yield
    except DAMAGES as error:
        raise ModelError(f"damaged bundle of models: {error}") from error


def _is_bundle(content: Content) -> bool:
    """Whether it is a zip file, and not a model that ends in a zip file of labels.

    MediaPipe's files have zeros before each header, to align the members.
    """
    start = bytes(content[:8])
    return start[4:] != FILE_IDENTIFIER and (
        start.lstrip(b"\0").startswith(_ZIP) or is_zipfile(BytesFile(content))
    )


def _walk(
    content: Content, folder: str, inflated: list[int], depth: int = 0
) -> Iterator[tuple[str, Callable[[], Content]]]:
    """Names and readers of the models in a bundle and the bundles in it.

    `inflated` holds one number, the bytes of compressed members so far, which this updates.
    """
    bundle = ZipFile(BytesFile(content))
    inflated[0] = _check_inflated(bundle.infolist(), inflated[0], depth)
    for info in bundle.infolist():
        with bundle.open(info) as file:
            start = file.read(8)
            is_bundle = start[4:] != FILE_IDENTIFIER and is_zipfile(file)
        if is_bundle:
            inner = f"{folder}{info.filename}/"
            yield from _walk(_read(bundle, info, content), inner, inflated, depth + 1)
        elif start[4:] == FILE_IDENTIFIER:
            yield folder + info.filename, partial(_read, bundle, info, content)


def _check_inflated(infos: Sequence[ZipInfo], before: int, depth: int) -> int:
    """The bytes of compressed members, `before` and these; raises ModelError above the limit."""
    size = before + sum(i.file_size for i in infos if i.compress_type != ZIP_STORED)
    if size > MAX_INFLATED or depth > MAX_FOLDED:
        raise ModelError(
            f"this bundle of models has compressed members of {size} bytes, in "
            f"bundles {depth + 1} deep: expected {MAX_INFLATED} bytes and {MAX_FOLDED} deep "
            "at most; store its members without compression"
        )
    return size


def _read(bundle: ZipFile, info: ZipInfo, content: Content) -> Content:
    """A member, without a copy if the bundle is mapped and stores it uncompressed.

    Raises one of `DAMAGES` if its local header or its checksum is wrong.
    """
    if info.compress_type != ZIP_STORED:
        return bundle.read(info)
    bundle.open(info).close()  # checks the local header
    names = _NAME_LENGTHS.unpack_from(content, info.header_offset + 26)
    start = info.header_offset + 30 + sum(names)  # of the local file header
    data = content[start : start + info.file_size]
    if len(data) != info.compress_size or zlib.crc32(data) != info.CRC:
        raise BadZipFile(f"Bad CRC-32 for file {info.filename!r}")
    return data


class BytesFile(RawIOBase):
    """Bytes as a file, without a copy."""

    def __init__(self, content: Content) -> None:
        self._content = memoryview(content)
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        base = {SEEK_SET: 0, SEEK_CUR: self._position, SEEK_END: len(self._content)}[whence]
        if base + offset < 0:
            raise OSError(f"expected a byte of the file, found {base + offset}")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: Any) -> int:
        chunk = self._content[self._position : self._position + len(buffer)]
        buffer[: len(chunk)] = chunk
        self._position += len(chunk)
        return len(chunk)
