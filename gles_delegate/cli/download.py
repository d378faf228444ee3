"""Downloads of published models: resumed, verified, and renamed only when they are right."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager, suppress
from http.client import HTTPException, IncompleteRead
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from gles_delegate.cli.published import PublishedModel, digest_of
from gles_delegate.errors import DelegateError, reason_of
from gles_delegate.support.threads import Thread
from gles_delegate.version import __version__

PATIENCE = 30.0
"""Seconds to wait for a server, and those within which it must send `FEWEST` bytes."""

FEWEST = 4096

Progress = Callable[[int, int], None]


def download(model: PublishedModel, folder: Path, progress: Progress) -> bool:
    """Download a model into a folder, and return True; return False if it is there already.

    A download that is interrupted leaves a file `.part`, which the next one completes.

    Args:
        progress: Called with the number of bytes that are there, and that will be.

    Raises:
        DelegateError: The server, the network or the disk fails, or files are in the way.
        OSError: Files cannot be opened.
    """
    target, part = folder / model.name, folder / f"{model.name}.part"
    if os.path.lexists(target):
        _require_same(model, target)
        return False
    with _locked(part) as file:
        try:
            digest, size = _complete(model, part, file, progress)
        except KeyboardInterrupt:
            if not _size(file):
                raise
            raise DelegateError(
                f"interrupted: {part} has {_size(file)} of {model.bytes} bytes, and the same "
                "command gets the others"
            ) from None
        if (digest, size) != (model.sha256, model.bytes):
            os.truncate(file, 0)
            expected = f"{model.bytes} bytes with the SHA-256 {model.sha256}"
            raise _failure(model, f"expected {expected}, found {size} bytes with {digest}")
        if os.path.lexists(target):  # somebody else's, since
            _require_same(model, target)
        os.replace(part, target)
    return True


def _require_same(model: PublishedModel, target: Path) -> None:
    if digest_of(target, model.bytes) != (model.sha256, model.bytes):
        raise DelegateError(
            f"{target} is there, but is not the published file: move it away, or use another --to"
        )


def _failure(model: PublishedModel, reason: str) -> DelegateError:
    return DelegateError(
        f"cannot download {model.name}: {reason}; run the command again, or: {model.curl}"
    )


@contextmanager
def _locked(part: Path) -> Iterator[int]:
    """A file, as its descriptor, that no other process downloads; it is removed if it is empty."""
    file = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    try:
        if not stat.S_ISREG(os.fstat(file).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file: move it away", str(part))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.fstat(file), os.lstat(part))
        except (BlockingIOError, FileNotFoundError):
            is_ours = False
        if not is_ours:  # it was not, when it was opened, even if it is complete by now
            raise DelegateError(
                f"another process downloads {part}: wait for its end, and run the command again"
            )
        try:
            yield file
        finally:
            if not _size(file):
                with suppress(OSError):
                    os.unlink(part)
    finally:
        os.close(file)


def _size(file: int) -> int:
    return os.fstat(file).st_size


def _complete(model: PublishedModel, part: Path, file: int, progress: Progress) -> tuple[str, int]:
    """Download what a file lacks; returns its digest and size.

    If that is not the model because of bytes that were there before, all are downloaded again.
    """
    while True:
        kept = _size(file)
        if kept < model.bytes:
            try:
                kept = _receive(model, part, file, progress)
            except HTTPError as error:
                error.close()
                raise _failure(model, f"the server answers {error.code}") from error
            except (OSError, HTTPException, ValueError) as error:
                reason: Any = error.reason if isinstance(error, URLError) else error
                if isinstance(reason, TimeoutError):
                    reason = f"expected {FEWEST} bytes within {PATIENCE:g} seconds, found fewer"
                elif isinstance(reason, IncompleteRead):
                    reason = "the connection ended too early"
                raise _failure(model, " ".join(reason_of(reason).split())) from error
        found = digest_of(part, model.bytes)
        if not kept or found == (model.sha256, model.bytes):
            return found
        os.truncate(file, 0)


def _receive(model: PublishedModel, part: Path, file: int, progress: Progress) -> int:
    """Download what a file lacks; returns how much of it the server left out."""
    response, begin = _open(model, _size(file))
    with response:
        if response.length is not None and begin + response.length != model.bytes:
            size = begin + response.length
            raise _failure(model, f"expected a file of {model.bytes} bytes, found one of {size}")
        os.truncate(file, begin)
        os.lseek(file, begin, os.SEEK_SET)
        done = seen = begin
        start = time.monotonic()
        progress(done, model.bytes)
        while done < model.bytes and (block := response.read1(min(1 << 16, model.bytes - done))):
            rest = memoryview(block)
            with _disk_errors(part):
                while rest:
                    rest = rest[os.write(file, rest) :]
            done += len(block)
            progress(done, model.bytes)
            if time.monotonic() - start > PATIENCE:
                if done - seen < FEWEST:
                    raise TimeoutError
                start, seen = time.monotonic(), done
        if done < model.bytes:
            raise _failure(model, f"the connection ended after {done} of {model.bytes} bytes")
    with _disk_errors(part):
        os.fsync(file)
    return begin


def _open(model: PublishedModel, offset: int) -> tuple[Any, int]:
    """A response, and which byte of the model it begins with: at most `offset`."""
    request = Request(model.url, headers={"User-Agent": f"gles-delegate/{__version__}"})
    if offset:
        request.add_header("Range", f"bytes={offset}-")
    try:
        response = _answered(request)
    except HTTPError as error:
        if not offset or error.code != 416:  # "Range Not Satisfiable"
            raise
        error.close()
        return _open(model, 0)
    if response.status == 200:
        return response, 0
    range_ = re.match(r"bytes (\d{1,18})-", response.headers.get("Content-Range", ""))
    if response.status == 206 and range_ and int(range_[1]) <= offset:
        return response, int(range_[1])
    response.close()
    if offset:
        return _open(model, 0)
    raise _failure(model, f"the server answers {response.status}")


def _answered(request: Request) -> Any:
    """The response; raises TimeoutError for headers that have not ended after `PATIENCE`."""
    answer: Future[Any] = Future()

    def ask() -> None:
        try:
            answer.set_result(build_opener(_Redirects).open(request, timeout=PATIENCE))
        except Exception as error:
            answer.set_exception(error)

    Thread(ask, "gles_delegate download").start()
    try:
        return answer.result(PATIENCE)
    except FutureTimeoutError:  # in Python 3.10, not the builtin one
        answer.add_done_callback(lambda late: late.exception() or late.result().close())
        raise TimeoutError from None


class _Redirects(HTTPRedirectHandler):
    """Follows redirects to https only; tests have a server without it."""

    def http_error_302(self, req: Request, fp: Any, code: int, msg: str, headers: Any) -> Any:
        fp.close()  # or its content would be read, as far as it goes
        return super().http_error_302(req, fp, code, msg, headers)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302

    def redirect_request(
        self, req: Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> Request | None:
        to = urlsplit(newurl)
        is_local = {urlsplit(req.full_url).hostname, to.hostname} == {"127.0.0.1"}
        if to.scheme != "https" and not (to.scheme == "http" and is_local):
            raise URLError(f"the server leads to {newurl}, which is not https")
        return super().redirect_request(req, fp, code, msg, headers, newurl)


@contextmanager
def _disk_errors(part: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DelegateError(
            f"cannot write {part}: {reason_of(error)}; the same command gets the other bytes"
        ) from error
