"""The on-disk cache of packed weights and program binaries.

The file is ``magic, digest, length, header, blobs``. The digest is the BLAKE2b digest of all that
follows it, and the length is that of the header: a JSON object with the content's fingerprint
and, for each key, the offset and size of its bytes among the blobs.
"""

from __future__ import annotations

import json
import logging
import os
import struct
import tempfile
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

log = logging.getLogger("gles_delegate")

_MAGIC = b"GLESDLG1"
_DIGEST_SIZE = 32
_LENGTH = struct.Struct("<Q")


class Store:
    """Bytes by key, in one file that only this user can read and write.

    A file that is damaged, belongs to another user, or is of another model is ignored with a
    warning, and replaced by `save`.

    Args:
        folder: Created if missing.
        name: File name without suffix.
        content: Fingerprint of what the bytes were made from; if it differs, they are stale.
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
            log.warning("the serialized model %s is not used: %s", self._path, error)

    def get(self, key: str) -> bytes | memoryview | None:
        """The bytes of a key, or None."""
        return self._entries.get(key)

    def add(self, key: str, data: bytes) -> None:
        """Set the bytes of a key."""
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
            log.warning("the model could not be serialized to %s: %s", self._path, error)

    def _read(self) -> dict[str, bytes | memoryview]:
        with self._path.open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                raise ValueError("it belongs to another user")
            content = memoryview(file.read())
        start = len(_MAGIC) + _DIGEST_SIZE
        if content[: len(_MAGIC)] != _MAGIC:
            raise ValueError("it is not a gles_delegate file, or is of another version")
        digest = blake2b(content[start:], digest_size=_DIGEST_SIZE).digest()
        if digest != content[len(_MAGIC) : start]:
            raise ValueError("it is damaged")
        (length,) = _LENGTH.unpack_from(content, start)
        blobs = start + _LENGTH.size + length
        header = json.loads(bytes(content[start + _LENGTH.size : blobs]))
        if header["content"] != self._content:
            raise ValueError("it belongs to another model with the same model_token")
        return {
            key: content[blobs + offset : blobs + offset + size]
            for key, (offset, size) in header["entries"].items()
        }

    def _write(self) -> None:
        places: dict[str, tuple[int, int]] = {}
        end = 0
        for key, data in self._entries.items():
            places[key] = (end, len(data))
            end += len(data)
        header = json.dumps({"content": self._content, "entries": places}).encode()
        parts = (_LENGTH.pack(len(header)), header, *self._entries.values())
        digest = blake2b(digest_size=_DIGEST_SIZE)
        for part in parts:
            digest.update(part)
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=self._path.parent)
        try:
            with open(descriptor, "wb") as file:
                file.write(_MAGIC + digest.digest())
                file.writelines(parts)
            os.replace(temporary, self._path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


def fingerprint(*parts: object) -> str:
    """A short hash of the parts: of bytes themselves, and of the text of anything else."""
    digest = blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes | memoryview) else str(part).encode()
        digest.update(_LENGTH.pack(len(data)))
        digest.update(data)
    return digest.hexdigest()
