"""Files that one start leaves for the next."""

import hashlib
import json
import logging
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_delegate as gd
from gles_delegate.gl.context import GpuContext
from gles_delegate.gl.program import Program
from gles_delegate.runtime import constants, store
from gles_delegate.runtime.store import Store
from tests.support.force import force_driver
from tests.support.small import allocated, check, small_model, tiny_model


class Counts:
    """The work of a start."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.packed = self.compiled = 0
        pack, start = constants._packed, Program.start

        def counted_pack(*arguments: Any) -> bytes:
            self.packed += 1
            return pack(*arguments)

        def counted_start(program: Program) -> None:
            self.compiled += not program._started
            start(program)

        monkeypatch.setattr(constants, "_packed", counted_pack)
        monkeypatch.setattr(Program, "start", counted_start)

    def start(
        self, folder: Path, content: bytes | None = None, token: str = "small", **options: Any
    ) -> tuple[int, int]:
        """Prepare and run the model; how many constants were packed and programs compiled."""
        self.packed = self.compiled = 0
        chosen = gd.GpuDelegateOptions(serialization_dir=folder, model_token=token, **options)
        with gd.GpuDelegate(chosen) as delegate:
            interpreter = allocated(delegate, content or small_model())
            if content is None:
                check(interpreter)
        return self.packed, self.compiled


@pytest.fixture
def counts(monkeypatch: pytest.MonkeyPatch) -> Counts:
    return Counts(monkeypatch)


@pytest.fixture
def binaries(gpu: GpuContext) -> bool:
    """Whether the driver hands out compiled programs."""
    with gpu.guard():
        return gpu.gl.integer(0x87FE) > 0


def only_file(folder: Path) -> Path:
    (path,) = folder.glob("*.gles")
    return path


def test_the_second_start_does_less(tmp_path: Path, counts: Counts, binaries: bool) -> None:
    folder = tmp_path / "deep" / "folder"
    packed, compiled = counts.start(folder)
    assert packed > 0
    assert compiled > 0
    assert only_file(folder).stat().st_mode & 0o077 == 0
    written = only_file(folder).stat().st_mtime_ns
    assert counts.start(folder) == (0, 0 if binaries else compiled)
    assert only_file(folder).stat().st_mtime_ns == written


def test_other_sizes_are_added(tmp_path: Path, counts: Counts) -> None:
    def start() -> int:
        counts.packed = counts.compiled = 0
        options = gd.GpuDelegateOptions(serialization_dir=tmp_path, model_token="small")
        with gd.GpuDelegate(options) as delegate:
            interpreter = gd.Interpreter(
                model_content=small_model(), experimental_delegates=[delegate]
            )
            for rows in (3, 40):
                interpreter.resize_tensor_input(0, (rows, 5))
                interpreter.allocate_tensors()
                check(interpreter, np.ones((rows, 5), np.float32))
        return counts.packed

    counts.start(tmp_path)
    start()
    assert start() == 0
    only_file(tmp_path)


def test_each_token_and_option_has_a_file(
    tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = counts.start(tmp_path)
    assert counts.start(tmp_path, token="other") == first
    force_driver(
        monkeypatch, lambda driver: replace(driver, identity=(*driver.identity[:2], "another"))
    )
    assert counts.start(tmp_path) == first
    assert len(list(tmp_path.glob("*.gles"))) == 3


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def change_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-9] ^= 1
    path.write_bytes(data)


def write_something_else(path: Path) -> None:
    path.write_bytes(b"something else")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def make_a_fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def forged(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the header, under a digest that is right."""
    content = path.read_bytes()
    start = len(store._MAGIC) + store._DIGEST_SIZE
    (length,) = store._LENGTH.unpack_from(content, start)
    begin = start + store._LENGTH.size
    header = json.loads(content[begin : begin + length])
    change(header)
    rewritten(path, json.dumps(header).encode(), content[begin + length :])


def rewritten(path: Path, text: bytes, blobs: bytes = b"") -> None:
    """Another header, under a digest that is right."""
    rest = store._LENGTH.pack(len(text)) + text + blobs
    digest = hashlib.blake2b(rest, digest_size=store._DIGEST_SIZE).digest()
    path.write_bytes(store._MAGIC + digest + rest)


def forget_the_entries(path: Path) -> None:
    forged(path, lambda header: header.pop("entries"))


def name_entries_by_words(path: Path) -> None:
    forged(path, lambda header: header.update(entries={"key": ["one", "two"]}))


def reach_beyond_the_file(path: Path) -> None:
    forged(path, lambda header: header.update(entries={"key": [1 << 40, 8]}))


def nest_the_header(path: Path) -> None:
    rewritten(path, b"[" * 200_000 + b"]" * 200_000)


def swap_the_sizes(path: Path) -> None:
    def swap(header: dict[str, Any]) -> None:
        entries = header["entries"]
        header["entries"] = {key: [place[0], 4] for key, place in entries.items()}

    forged(path, swap)


@pytest.mark.parametrize(
    "damage",
    [
        *(cut_off, change_a_byte, write_something_else, empty, make_a_fifo, forget_the_entries),
        *(name_entries_by_words, reach_beyond_the_file, swap_the_sizes, nest_the_header),
    ],
)
def test_a_damaged_file_is_replaced(
    damage: Callable[[Path], None], tmp_path: Path, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    first = counts.start(tmp_path)
    whole = only_file(tmp_path).read_bytes()
    damage(only_file(tmp_path))
    assert counts.start(tmp_path) == first
    (record,) = (r for r in caplog.records if "serialized" in r.message)
    assert (record.name, record.levelno) == ("gles_delegate", logging.WARNING)
    assert str(only_file(tmp_path)) in record.message
    assert abs(len(only_file(tmp_path).read_bytes()) - len(whole)) < 16  # offsets have other digits
    assert counts.start(tmp_path)[0] == 0


def test_another_model_with_the_same_token(
    tmp_path: Path, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    counts.start(tmp_path, tiny_model())
    packed, _ = counts.start(tmp_path)
    assert packed > 0
    assert "another model with the same model_token" in caplog.text
    assert counts.start(tmp_path)[0] == 0


def test_somebody_else_s_file(
    tmp_path: Path,
    counts: Counts,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = counts.start(tmp_path)
    user = os.getuid()
    monkeypatch.setattr(store.os, "getuid", lambda: user + 1)
    assert counts.start(tmp_path) == first
    assert "belongs to another user" in caplog.text


def test_a_folder_that_cannot_be_made(
    tmp_path: Path, counts: Counts, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    counts.start(tmp_path / "file" / "folder")
    assert "could be serialized" in caplog.text


def test_a_binary_that_the_driver_refuses(
    tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch, binaries: bool
) -> None:
    if not binaries:
        pytest.skip("the driver has no program binaries")
    _, compiled = counts.start(tmp_path)
    get = store.Store.get

    def damaged(self: store.Store, key: str, size: int | None = None) -> bytes | memoryview | None:
        data = get(self, key, size)
        is_binary = data is not None and bytes(data[:4]) == kind
        return kind + bytes(reversed(data[4:])) if is_binary else data  # type: ignore[index]

    kinds: list[bytes] = []
    binary = Program.binary
    monkeypatch.setattr(
        Program, "binary", lambda self: kinds.append(binary(self)[:4]) or binary(self)
    )
    counts.start(tmp_path / "again")
    kind = kinds[0]
    monkeypatch.setattr(store.Store, "get", damaged)
    assert counts.start(tmp_path)[1] == compiled


def test_the_file_is_written_at_once(
    tmp_path: Path, counts: Counts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(store.os, "replace", fail)
        counts.start(tmp_path)
    assert not [path for path in tmp_path.iterdir() if path.is_file()]


def test_what_killed_writers_left_is_removed(tmp_path: Path, counts: Counts) -> None:
    counts.start(tmp_path)
    file = only_file(tmp_path)
    old, new = (tmp_path / f"{file.stem}{name}.tmp" for name in ("old", "new"))
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (0, 0))
    file.unlink()
    counts.start(tmp_path)
    assert (old.exists(), new.exists()) == (False, True)


@pytest.mark.parametrize("token", ["\ud800", os.fsdecode(b"caf\xe9"), "a/b\0c", "猫"])
def test_any_text_is_a_token(token: str, tmp_path: Path, counts: Counts) -> None:
    counts.start(tmp_path, token=token)
    packed, _ = counts.start(tmp_path, token=token)
    assert packed == 0
    assert only_file(tmp_path)


def test_an_entry_that_contradicts_itself_is_gone(tmp_path: Path) -> None:
    store = Store(tmp_path, "model", "content")
    store.add("key", b"three")
    store.add("other", b"kept")
    store.save()
    again = Store(tmp_path, "model", "content")
    assert again.get("key", 5) == b"three"
    assert again.get("key", 4) is None
    assert again.get("key") is None
    again.save()
    last = Store(tmp_path, "model", "content")
    assert (last.get("key"), last.get("other")) == (None, b"kept")
