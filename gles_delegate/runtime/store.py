"""The on-disk cache of packed weights and program binaries.

The file is ``magic, digest, length, header, blobs``. The digest is BLAKE2b over everything after
it; the length is the header's. The header is a JSON object with the content's fingerprint and, for
each key, the offset and size of its bytes in the blobs.
"""

from __future__ import annotations

import json
import logging
import os
import stat
import struct
import tempfile
import time
from contextlib import suppress
from hashlib import blake2b
from operator import index
from pathlib import Path

log = logging.getLogger("gles_delegate")

_MAGIC = b"GLESDLG1"
_DIGEST_SIZE = 32
_LENGTH = struct.Struct("<Q")
_CONTRADICTIONS = (
    struct.error, LookupError, TypeError, AttributeError, ValueError, RecursionError,
)  # fmt: skip
_TEMPORARY = ".tmp"
_ABANDONED = 3600.0  # age in seconds of a temporary file whose writer counts as dead


class Store:
    """Bytes by key, in the file `name`.gles of a folder that only this user can read and write.

    A file that is damaged, or belongs to another user or model, is ignored with a warning, and
    `save` replaces it. Its model is known by the fingerprint `content`.
    """

    def __init__(self, folder: str | os.PathLike[str], name: str, content: str) -> None:
        self._path = Path(folder, f"{name}.gles")
        self._content = content
        self._changed = False
        self._entries: dict[str, bytes | memoryview] = {}
        try:
            self._entries = self._read()
        except FileNotFoundError:
            pass
        except (OSError, ValueError) as error:
            log.warning("the serialized file %s is not used: %s", self._path, error)

    def get(self, key: str, size: int | None = None) -> bytes | memoryview | None:
        """The bytes of a key, or None; an entry of another `size` is dropped with a warning."""
        data = self._entries.get(key)
        if data is not None and size not in (None, len(data)):
            self.drop(key)
            return None
        return data

    def drop(self, key: str) -> None:
        """Forget an entry that cannot be right; `save` writes a file without it."""
        if not self._changed:
            log.warning("the serialized file %s is not used: it contradicts itself", self._path)
        self._entries.pop(key, None)
        self._changed = True

    def add(self, key: str, data: bytes) -> None:
        self._entries[key] = data
        self._changed = True

    def save(self) -> None:
        """Write the file if anything was added. Failing to write it is only a warning."""
        if not self._changed:
            return
        try:
            self._write()
            self._changed = False
        except OSError as error:
            log.warning("no file could be serialized to %s: %s", self._path, error)

    def _read(self) -> dict[str, bytes | memoryview]:
        # Reading any other kind of file may never end, or never begin.
        with open(os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise ValueError("it is not a regular file")
            if status.st_uid != os.getuid():
                raise ValueError("it belongs to another user")
            content = memoryview(file.read())
        start = len(_MAGIC) + _DIGEST_SIZE
        if content[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it is not a gles_delegate file, or is of another version")
        digest = blake2b(content[start:], digest_size=_DIGEST_SIZE).digest()
        if digest != content[len(_MAGIC) : start]:
            raise ValueError("it is damaged")
        try:
            (length,) = _LENGTH.unpack_from(content, start)
            blobs = content[start + _LENGTH.size + length :]
            header = json.loads(bytes(content[start + _LENGTH.size :][:length]))
            entries: dict[str, bytes | memoryview] = {}
            for key, span in header["entries"].items():
                begin, size = map(index, span)
                if not 0 <= begin <= begin + size <= len(blobs):
                    raise ValueError(f"{size} bytes at {begin} of {len(blobs)}")
                entries[str(key)] = blobs[begin : begin + size]
            owner = header["content"]
        except _CONTRADICTIONS as error:
            raise ValueError("it contradicts itself") from error
        if owner != self._content:
            raise ValueError("it belongs to another model with the same model_token")
        return entries

    def _write(self) -> None:
        spans: dict[str, tuple[int, int]] = {}
        entries, end = self._entries.copy(), 0  # a thread that ends alone may add others
        for key, data in entries.items():
            spans[key] = (end, len(data))
            end += len(data)
        header = json.dumps({"content": self._content, "entries": spans}).encode()
        pieces = (_LENGTH.pack(len(header)), header, *entries.values())
        digest = blake2b(digest_size=_DIGEST_SIZE)
        for piece in pieces:
            digest.update(piece)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for path in self._path.parent.glob(f"{self._path.stem}*{_TEMPORARY}"):
            with suppress(OSError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        descriptor, temporary = tempfile.mkstemp(_TEMPORARY, self._path.stem, dir=self._path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(_MAGIC + digest.digest())
                file.writelines(pieces)
            os.replace(temporary, self._path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def _text(value: object) -> bytes:
    return str(value).encode("utf-8", "surrogatepass")


def fingerprint(*values: object) -> str:
    """A short hash of the values: of bytes directly, of anything else as text."""
    digest = blake2b(digest_size=16)
    for value in values:
        data = value if isinstance(value, bytes | memoryview) else _text(value)
        digest.update(_LENGTH.pack(len(data)))
        digest.update(data)
    return digest.hexdigest()
