"""``gles-delegate models get``, from a server on this machine that is right or wrong."""

from __future__ import annotations

import os
import re
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
    monkeypatch.setattr("gles_delegate.cli.download.TIMEOUT", 0.5)
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
    assert publisher.requests == 1


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
        "gles-delegate: own.tflite is not downloaded, as its SHA-256 is not known; how to get it: "
        "https://x/page\n"
    )
    assert not publisher.requests
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
    assert not publisher.requests


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
    assert not publisher.requests


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (answers.cut_off, "expected 200000 bytes with .*, found 100000 bytes with"),
        (answers.chunked_and_cut_off, "found 199999 bytes|IncompleteRead"),
        (answers.wrong, "expected 200000 bytes with .*, found 200000 bytes with"),
        (answers.endless, "expected 200000 bytes with .*, found [0-9]+ bytes with"),
        (answers.status(204), "expected 200000 bytes with .*, found 0 bytes with"),
        (answers.silent, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.silent_halfway, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.dripping, "expected 4096 bytes within 0.5 seconds, found fewer"),
        (answers.no_http, "SSH-2.0-x"),
        (answers.status(404), "the server answers 404"),
        (answers.status(503), "the server answers 503"),
        (answers.redirecting("/net.tflite"), "the server answers 302"),
        (answers.redirecting("file:///etc/passwd"), "the server answers 302"),
        (answers.redirecting("http://elsewhere.invalid/x"), "not known|failure|No address"),
    ],
)
def test_what_a_server_does_wrong(
    publisher: Publisher,
    tmp_path: Path,
    answer: Answer,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("gles_delegate.cli.download.TIMEOUT", 0.5)
    assert re.search(reason, failure(publisher, tmp_path, answer))
    assert not list(tmp_path.iterdir())
    publisher.answer = answers.redirecting("/there")
    get(tmp_path)
    assert_right(tmp_path)


def test_two_at_once(publisher: Publisher, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []

    def meanwhile(done: int, total: int) -> None:
        assert seen or download(publisher.model, tmp_path, print)
        seen.append((done, total))

    assert download(publisher.model, tmp_path, meanwhile)
    assert_right(tmp_path)
    assert (seen[0], seen[-1]) == ((0, 200_000), (200_000, 200_000))
    assert seen == sorted(seen)


def test_a_file_that_comes_meanwhile_is_not_changed(publisher: Publisher, tmp_path: Path) -> None:
    target = tmp_path / "net.tflite"
    with pytest.raises(DelegateError, match="is there, but is not the published file"):
        download(publisher.model, tmp_path, lambda *_: target.write_bytes(b"x") and None)
    assert target.read_bytes() == b"x"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("share", [0, 0.5])
def test_ctrl_c(publisher: Publisher, tmp_path: Path, share: float) -> None:
    def interrupt(done: int, total: int) -> None:
        if done >= share * total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        download(publisher.model, tmp_path, interrupt)
    assert not list(tmp_path.iterdir())


def test_full_and_read_only_disks(publisher: Publisher, tmp_path: Path) -> None:
    try:
        with small_disk(tmp_path / "disk", 100) as disk:
            assert "No space left on device" in get(disk, status=1)
            assert not list(disk.iterdir())
            fill(disk)
            assert "No space left on device" in get(disk, status=1)
            make_read_only(disk)
            assert "Read-only file system" in get(disk, status=1)
    except NoMount:
        pytest.skip("mounting takes privileges")
