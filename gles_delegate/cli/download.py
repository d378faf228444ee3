"""Downloads of published models: verified, and renamed only when they are right."""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from gles_delegate.cli.published import PublishedModel, digest_of
from gles_delegate.errors import DelegateError, reason_of
from gles_delegate.version import __version__

TIMEOUT = 30.0
"""Seconds to wait for a server, and those within which it must send `FEWEST` bytes."""

FEWEST = 4096

Progress = Callable[[int, int], None]


def download(model: PublishedModel, folder: Path, progress: Progress) -> bool:
    """Download a model into a folder, and return True; return False if it is there already.

    A download that ends early leaves nothing, and several at once do not disturb each other.

    Args:
        progress: Called with the number of bytes that are there, and that will be.

    Raises:
        DelegateError: The server, the network or the disk fails, or files are in the way.
        OSError: The file that is there cannot be read.
    """
    target = folder / model.name
    if _is_there(model, target):
        return False
    part = folder / f"{model.name}.{secrets.token_hex(4)}.part"
    try:
        digest, size = _receive(model, part, progress)
        if (digest, size) != (model.sha256, model.bytes):
            expected = f"{model.bytes} bytes with the SHA-256 {model.sha256}"
            raise _failure(model, f"expected {expected}, found {size} bytes with {digest}")
        if not _is_there(model, target):
            os.replace(part, target)
    except HTTPError as error:
        error.close()
        raise _failure(model, f"the server answers {error.code}") from error
    except (OSError, HTTPException, ValueError) as error:
        reason: object = error.reason if isinstance(error, URLError) else error
        if isinstance(reason, TimeoutError):
            text = f"expected {FEWEST} bytes within {TIMEOUT:g} seconds, found fewer"
        else:
            text = reason_of(reason) if isinstance(reason, Exception) else str(reason)
        raise _failure(model, " ".join(text.split())) from error
    finally:
        part.unlink(missing_ok=True)
    return True


def _is_there(model: PublishedModel, target: Path) -> bool:
    if not os.path.lexists(target):
        return False
    if digest_of(target, model.bytes) != (model.sha256, model.bytes):
        raise DelegateError(
            f"{target} is there, but is not the published file: move it away, or use another --to"
        )
    return True


def _failure(model: PublishedModel, reason: str) -> DelegateError:
    return DelegateError(
        f"cannot download {model.name}: {reason}; run the command again, or: {model.curl}"
    )


def _receive(model: PublishedModel, part: Path, progress: Progress) -> tuple[str, int]:
    """The SHA-256 and the size of what the server sends, up to a block more than the model."""
    request = Request(model.url, headers={"User-Agent": f"gles-delegate/{__version__}"})
    digest = hashlib.sha256()
    size = 0
    seen = 0
    start = time.monotonic()
    with urlopen(request, timeout=TIMEOUT) as response, part.open("xb") as file:
        progress(0, model.bytes)
        while size <= model.bytes and (block := response.read1(1 << 16)):
            file.write(block)
            digest.update(block)
            size += len(block)
            progress(min(size, model.bytes), model.bytes)
            if time.monotonic() - start > TIMEOUT:
                if size - seen < FEWEST:
                    raise TimeoutError
                start = time.monotonic()
                seen = size
    return digest.hexdigest(), size
