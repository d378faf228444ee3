"""Damage to the file that `serialization_dir` keeps: it is not used, with one warning."""

import json
import logging
import os
import random
import tempfile
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path
from typing import Any

import gles_delegate as gd
from gles_delegate.runtime.store import _DIGEST_SIZE, _LENGTH, _MAGIC
from tests.attack.workers import Outcome
from tests.support.small import allocated, check

Damage = Callable[[Path, random.Random], None]


def run_damaged(_: bytes, seed: int) -> Outcome:
    """Start with a damaged file, and once more with what that start has left."""
    choose = random.Random(seed)
    warnings = _Warnings()
    log = logging.getLogger("gles_delegate")
    log.addHandler(warnings)
    damage = choose.choice(DAMAGES)
    try:
        with tempfile.TemporaryDirectory() as folder:
            _start(folder)
            (path,) = Path(folder).glob("*.gles")
            damage(path, choose)
            for most in (1, 0):
                warnings.messages.clear()
                _start(folder)
                if len(warnings.messages) > most and not path.is_dir():
                    return Outcome("warnings", text=f"{damage.__name__}: {warnings.messages}")
    except Exception as error:
        return Outcome("foreign error", text=f"{damage.__name__}: {error!r}")
    finally:
        log.removeHandler(warnings)
    return Outcome("result")


def _start(folder: str) -> None:
    options = gd.GpuDelegateOptions(serialization_dir=folder, model_token="small")
    with gd.GpuDelegate(options) as delegate:
        check(allocated(delegate))


class _Warnings(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def bytes_changed(path: Path, choose: random.Random) -> None:
    data = bytearray(path.read_bytes())
    for _ in range(choose.randint(1, 4)):
        data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    path.write_bytes(data)


def cut(path: Path, choose: random.Random) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: choose.randrange(len(data))])


def longer(path: Path, choose: random.Random) -> None:
    path.write_bytes(path.read_bytes() + choose.randbytes(choose.randint(1, 100)))


def noise(path: Path, choose: random.Random) -> None:
    path.write_bytes(choose.randbytes(choose.choice((0, 1, 7, 8, 40, 48, 5000))))


def forged(path: Path, choose: random.Random) -> None:
    """The header says something else, under a digest that is right."""
    data = path.read_bytes()
    start = len(_MAGIC) + _DIGEST_SIZE
    (length,) = _LENGTH.unpack_from(data, start)
    blobs = data[start + _LENGTH.size + length :]
    header: Any = json.loads(data[start + _LENGTH.size :][:length])
    entries = header["entries"]
    key = choose.choice(sorted(entries))
    offset, size = entries[key]
    wrong: tuple[Any, ...] = (
        *([offset, size + 16], [offset, size - 16], [offset, 0], [-1, size], [len(blobs), size]),
        *([offset], [], None, "", 1.5, [offset, float(size)], [offset, None], {"a": 1}),
        *([offset, 1 << 70], [1 << 70, size], [True, False], [[offset], size]),
    )
    what = choose.choice(("entry", "entry", "entry", "removed", "key", "entries", "header", "all"))
    if what == "entry":
        entries[key] = choose.choice(wrong)
    elif what == "removed":
        del entries[key]
    elif what == "key":
        entries["another"] = entries.pop(key)
    elif what == "entries":
        header["entries"] = choose.choice(([], None, 1, "x", {}, [[1, 2]]))
    elif what == "header":
        header = choose.choice(([], None, 1, "x", {}, {"content": header["content"]}))
    else:
        header["content"] = choose.choice((None, 1, "x", [], {}))
    deep = b"[" * 200_000 + b"]" * 200_000
    text = deep if choose.random() < 0.1 else json.dumps(header).encode()
    size_told = choose.choice((len(text),) * 8 + (0, len(text) - 1, 1 << 63, (1 << 64) - 1))
    rest = _LENGTH.pack(size_told) + text + blobs
    path.write_bytes(_MAGIC + blake2b(rest, digest_size=_DIGEST_SIZE).digest() + rest)


def no_file(path: Path, choose: random.Random) -> None:
    """Something else has its name."""
    path.unlink()
    what = choose.choice(("nothing", "folder", "fifo", "link", "loop"))
    if what == "folder":
        path.mkdir()
    elif what == "fifo":
        os.mkfifo(path)
    elif what == "link":
        path.symlink_to("/dev/zero")
    elif what == "loop":
        path.symlink_to(path)


DAMAGES: tuple[Damage, ...] = (bytes_changed, cut, longer, noise, forged, forged, no_file)
