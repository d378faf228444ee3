"""``gles-delegate models get``, from a server on this machine that is right or wrong."""

from __future__ import annotations

import errno
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from gles_delegate.cli.download import download
from gles_delegate.errors import DelegateError
from tests.support import publisher as answers
from tests.support.command import call, call_json, saved
from tests.support.disks import NoMount, fill, make_read_only, small_disk
from tests.support.publisher import Answer, Publisher, publishing

CONTENT = np.random.default_rng(0).bytes(200_000)
HALF = CONTENT[:100_000]
PROGRAM = """
import sys
from gles_delegate.cli import models
from gles_delegate.cli.group import gles_delegate
from gles_delegate.cli.published import PublishedModel
models.published = lambda: [PublishedModel("net.tflite", "x", "MIT", *{rest!r})]
gles_delegate(sys.argv[1:])
"""


@pytest.fixture
def publisher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Publisher]:
    """The list has only its model."""
    monkeypatch.setenv("no_proxy", "*")
    with publishing(CONTENT) as publisher:
        monkeypatch.setattr("gles_delegate.cli.models.published", lambda: [publisher.model])
        yield publisher


def get(folder: Path, status: int = 0) -> str:
    """What `models get` prints; if it fails, that is one line."""
    text = call("models", "get", "net", "--to", folder, status=status)
    assert text.count("\n") == 1
    assert not status or text.startswith("gles-delegate: ")
    return text


def failure(publisher: Publisher, folder: Path, answer: Answer) -> str:
    """The reason of an error that names the address."""
    publisher.answer = answer
    text = get(folder, status=1)
    match = re.fullmatch(
        r"gles-delegate: cannot download net\.tflite: (.*); run the command again, or: "
        rf"curl --location --output net\.tflite '{publisher.url}'\n",
        text,
    )
    assert match, text
    assert not (folder / "net.tflite").exists()
    return match[1]


def assert_right(folder: Path) -> None:
    """The model is there, and nothing else."""
    assert [path.name for path in folder.iterdir()] == ["net.tflite"]
    assert (folder / "net.tflite").read_bytes() == CONTENT


def test_a_slow_server(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gles_delegate.cli.download.PATIENCE", 0.5)
    publisher.answer = answers.slow
    get(tmp_path)
    assert_right(tmp_path)


@pytest.mark.parametrize("answer", [answers.right, answers.chunked])
def test_a_model_is_downloaded(publisher: Publisher, tmp_path: Path, answer: Answer) -> None:
    publisher.answer = answer
    assert get(tmp_path) == f"{tmp_path}/net.tflite: 0.20 MB, x, MIT\n"
    assert_right(tmp_path)
    mask = os.umask(0)
    os.umask(mask)
    assert (tmp_path / "net.tflite").stat().st_mode & 0o777 == 0o666 & ~mask
    assert get(tmp_path) == f"{tmp_path}/net.tflite is there already\n"
    assert publisher.ranges == [None]


def test_json(publisher: Publisher, tmp_path: Path) -> None:
    arguments = ("models", "get", "net.tflite", "net", "--to", tmp_path)
    row = {"name": "net.tflite", "file": str(tmp_path / "net.tflite")}
    assert call_json(*arguments) == [{**row, "downloaded": True}]
    assert call_json(*arguments) == [{**row, "downloaded": False}]


def test_several_models(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = [publisher.model, replace(publisher.model, name="pair.task")]
    unknown = replace(publisher.model, name="own.tflite", bytes=0, sha256="", url="https://x/page")
    monkeypatch.setattr("gles_delegate.cli.models.published", lambda: [*known, unknown])
    text = call("models", "get", "own", "net", "--to", tmp_path, status=1)
    assert text == (
        "gles-delegate: own.tflite is not downloaded, as its SHA-256 is not known; see "
        "https://x/page\n"
    )
    assert publisher.ranges == []
    monkeypatch.chdir(tmp_path)
    text = call("models", "get", "net.tflite", "pair.task")
    assert text == "net.tflite: 0.20 MB, x, MIT\npair.task: 0.20 MB, x, MIT\n"
    assert (tmp_path / "pair.task").read_bytes() == CONTENT


def test_arguments(publisher: Publisher, tmp_path: Path) -> None:
    assert "found no name" in call("models", "get", status=2)
    assert "found 'get'" in call("models", "net", "get", status=2)
    assert "did you mean net.tflite?" in call("models", "get", "Nets.task", status=2)
    assert "expected get NAME with --to" in call("models", "net", "--to", tmp_path, status=2)
    assert "does not exist" in call("models", "get", "net", "--to", tmp_path / "no", status=2)
    file = saved(tmp_path / "file", b"")
    assert "found both" in call("models", "get", "net", "--check", file, status=2)
    assert publisher.ranges == []


@pytest.mark.parametrize("answer", [answers.right, answers.ignoring_ranges, answers.wrong_range])
def test_a_connection_that_ends_is_resumed(
    publisher: Publisher, tmp_path: Path, answer: Answer
) -> None:
    reason = failure(publisher, tmp_path, answers.cut_off)
    assert reason == "the connection ended after 100000 of 200000 bytes"
    assert (tmp_path / "net.tflite.part").read_bytes() == HALF
    # A server that gives other bytes than it was asked for is asked again, for all of them.
    publisher.answer = lambda r: (answer if r.headers["Range"] else answers.right)(r)
    get(tmp_path)
    assert_right(tmp_path)
    again = [None] if answer is answers.wrong_range else []
    assert publisher.ranges == [None, "bytes=100000-", *again]


@pytest.mark.parametrize(
    ("part", "ranges"),
    [
        (CONTENT, []),
        (CONTENT + b"x", [None]),
        (bytes(200_000), [None]),
        (bytes(100_000), ["bytes=100000-", None]),
        (b"", [None]),
    ],
    ids=["whole", "longer", "wrong", "wrong half", "empty"],
)
def test_any_part_is_resumed_or_replaced(
    publisher: Publisher, tmp_path: Path, part: bytes, ranges: list[str | None]
) -> None:
    saved(tmp_path / "net.tflite.part", part)
    get(tmp_path)
    assert_right(tmp_path)
    assert publisher.ranges == ranges


def test_a_part_has_no_bytes_after_those_of_the_last_download(
    publisher: Publisher, tmp_path: Path
) -> None:
    part = saved(tmp_path / "net.tflite.part", HALF)
    reason = failure(publisher, tmp_path, answers.ignoring_ranges_and_cut_off)
    assert reason == "the connection ended after 10000 of 200000 bytes"
    assert part.read_bytes() == CONTENT[:10_000]


def test_a_range_that_is_refused_is_asked_for_as_a_whole(
    publisher: Publisher, tmp_path: Path
) -> None:
    saved(tmp_path / "net.tflite.part", HALF)
    publisher.answer = lambda r: (answers.status(416) if r.begin else answers.right)(r)
    get(tmp_path)
    assert_right(tmp_path)


@pytest.mark.parametrize("part", [b"", HALF])
@pytest.mark.parametrize("answer", [answers.wrong, answers.endless])
def test_what_fails_the_digest_is_deleted(
    publisher: Publisher, tmp_path: Path, answer: Answer, part: bytes
) -> None:
    saved(tmp_path / "net.tflite.part", part)
    reason = failure(publisher, tmp_path, answer)
    assert re.fullmatch(
        "expected 200000 bytes with the SHA-256 [0-9a-f]{64}, found 200000 bytes with [0-9a-f]{64}",
        reason,
    )
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answers.silent, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.silent_halfway, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.dripping_halfway, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.dripping, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.dripping_headers, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.continuing, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.another_length, f"expected a file of 200000 bytes, found one of {1 << 50}"),
        (answers.chunked_and_cut_off, "the connection ended too early"),
        (answers.no_http, "SSH-2.0-x"),
        (answers.wrong_range, "the server answers 206"),
        (answers.status(204), "the server answers 204"),
        (answers.status(404), "the server answers 404"),
        (answers.status(416), "the server answers 416"),
        (answers.status(503), "the server answers 503"),
    ],
)
def test_what_a_server_does_wrong(
    publisher: Publisher,
    tmp_path: Path,
    answer: Answer,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = time.monotonic()
    with monkeypatch.context() as patch:
        patch.setattr("gles_delegate.cli.download.PATIENCE", 0.5)
        assert failure(publisher, tmp_path, answer) == reason
    assert time.monotonic() - start < 20
    assert all(path.stat().st_size for path in tmp_path.iterdir()), "an empty file is left"
    publisher.answer = lambda r: (answers.ignoring_ranges if r.begin else answers.right)(r)
    get(tmp_path)
    assert_right(tmp_path)


@pytest.mark.parametrize(
    "to",
    [
        "http://127.0.0.2:1/there",
        "http://elsewhere.invalid/net.tflite",
        "ftp://127.0.0.1/there",
        "file:///etc/passwd",
    ],
)
def test_redirects_elsewhere_are_refused(publisher: Publisher, tmp_path: Path, to: str) -> None:
    reason = failure(publisher, tmp_path, answers.redirecting(to))
    assert reason in (f"the server leads to {to}, which is not https", "the server answers 302")
    assert not list(tmp_path.iterdir())


def test_redirects_on_this_machine_are_followed(publisher: Publisher, tmp_path: Path) -> None:
    publisher.answer = answers.redirecting("/there")
    saved(tmp_path / "net.tflite.part", HALF)
    get(tmp_path)
    assert_right(tmp_path)
    assert publisher.ranges == ["bytes=100000-"] * 2
    publisher.answer = answers.redirecting("/net.tflite")
    (tmp_path / "net.tflite").unlink()
    assert failure(publisher, tmp_path, publisher.answer) == "the server answers 302"


def test_without_a_network(publisher: Publisher, tmp_path: Path) -> None:
    publisher.url = "http://127.0.0.1:1/net.tflite"
    assert failure(publisher, tmp_path, answers.right) == "Connection refused"
    publisher.url = "https://nowhere.invalid/net.tflite"
    reason = failure(publisher, tmp_path, answers.right)
    assert re.search("Name or service not known|Temporary failure|No address", reason)
    assert not list(tmp_path.iterdir())


def test_a_file_that_is_there_is_not_changed(publisher: Publisher, tmp_path: Path) -> None:
    target = saved(tmp_path / "net.tflite", CONTENT + b"x")
    assert get(tmp_path, status=1) == (
        f"gles-delegate: {target} is there, but is not the published file: move it away, or use "
        "another --to\n"
    )
    assert target.read_bytes() == CONTENT + b"x"
    target.unlink()
    target.symlink_to("nowhere")
    assert f"cannot open {target}" in get(tmp_path, status=1)
    assert target.is_symlink()
    target.unlink()
    target.mkdir()
    assert f"cannot open {target}" in get(tmp_path, status=1)
    assert publisher.ranges == []


def test_a_file_that_comes_meanwhile_is_not_changed(publisher: Publisher, tmp_path: Path) -> None:
    target = tmp_path / "net.tflite"
    with pytest.raises(DelegateError, match="is there, but is not the published file"):
        download(publisher.model, tmp_path, lambda *_: target.write_bytes(b"x") and None)
    assert target.read_bytes() == b"x"
    target.unlink()
    get(tmp_path)
    assert_right(tmp_path)
    assert publisher.ranges == [None], "the part was not whole"


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_a_part_that_is_no_file(publisher: Publisher, tmp_path: Path, kind: str) -> None:
    part, other = tmp_path / "net.tflite.part", saved(tmp_path / "other", b"x")
    if kind == "folder":
        part.mkdir()
    elif kind == "pipe":
        os.mkfifo(part)
    else:
        part.symlink_to(other)
    assert f"cannot open {part}: " in get(tmp_path, status=1)
    assert other.read_bytes() == b"x"
    assert publisher.ranges == []


def test_two_at_once(publisher: Publisher, tmp_path: Path) -> None:
    refused = []

    def meanwhile(done: int, total: int) -> None:
        with pytest.raises(DelegateError, match=r"another process downloads .*: wait for its end"):
            download(publisher.model, tmp_path, print)
        refused.append(done)

    assert download(publisher.model, tmp_path, meanwhile)
    assert len(refused) > 1
    assert_right(tmp_path)


def test_another_process_ends_before_the_lock(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def end(*_: object) -> None:
        saved(tmp_path / "net.tflite.part", CONTENT).rename(tmp_path / "net.tflite")

    monkeypatch.setattr("gles_delegate.cli.download.fcntl.flock", end)
    assert "another process downloads" in get(tmp_path, status=1)
    assert_right(tmp_path)
    assert publisher.ranges == []


def test_ctrl_c(publisher: Publisher, tmp_path: Path) -> None:
    publisher.answer = answers.silent_halfway
    model, part = publisher.model, tmp_path / "net.tflite.part"
    program = PROGRAM.format(rest=(model.bytes, model.sha256, model.url))
    command = [sys.executable, "-c", program, "models", "get", "net", "--to", str(tmp_path)]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        while not (part.exists() and part.stat().st_size == 100_000):
            assert process.poll() is None
            time.sleep(0.01)
        assert "another process downloads" in get(tmp_path, status=1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    assert (process.returncode, output, errors) == (
        1,
        "",
        f"gles-delegate: interrupted: {part} has 100000 of 200000 bytes, and the same command gets "
        "the others\n",
    )
    publisher.answer = answers.right
    get(tmp_path)
    assert_right(tmp_path)
    assert publisher.ranges == [None, "bytes=100000-"]


def test_ctrl_c_before_the_first_byte(publisher: Publisher, tmp_path: Path) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(publisher.model, tmp_path, interrupt)
    assert not list(tmp_path.iterdir())


def test_short_writes(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = os.write
    monkeypatch.setattr(
        "gles_delegate.cli.download.os.write", lambda file, content: write(file, content[:10_000])
    )
    get(tmp_path)
    assert_right(tmp_path)


def test_a_write_that_fails(
    publisher: Publisher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some bytes are written, as on a disk with little room."""
    write, part = os.write, tmp_path / "net.tflite.part"

    def full(file: int, content: bytes) -> int:
        room = 30_000 - os.fstat(file).st_size
        if not room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, content[:room])

    with monkeypatch.context() as patch:
        patch.setattr("gles_delegate.cli.download.os.write", full)
        assert get(tmp_path, status=1) == (
            f"gles-delegate: cannot write {part}: No space left on device; the same command gets "
            "the other bytes\n"
        )
    assert part.read_bytes() == CONTENT[:30_000]
    get(tmp_path)
    assert_right(tmp_path)


def test_full_and_read_only_disks(publisher: Publisher, tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk", 100) as disk:
            assert "No space left on device" in get(disk, status=1)
            assert CONTENT.startswith((disk / "net.tflite.part").read_bytes())
            (disk / "net.tflite.part").unlink()
            fill(disk)
            assert "No space left on device" in get(disk, status=1)
            make_read_only(disk)
            assert "Read-only file system" in get(disk, status=1)
    except NoMount:
        pytest.skip("mounting takes privileges")


def test_progress(publisher: Publisher, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    saved(tmp_path / "net.tflite.part", HALF)
    assert download(publisher.model, tmp_path, lambda *now: seen.append(now))
    assert seen[0] == (100_000, 200_000)
    assert seen[-1] == (200_000, 200_000)
    assert seen == sorted(seen)
    assert not download(publisher.model, tmp_path, lambda *now: seen.append(now))
