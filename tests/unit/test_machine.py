"""The processors that worker processes take."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gles_apps.batch import machine


@pytest.fixture
def pinned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[list[int]]]:
    """The kernel's answers on a machine with four processors."""
    calls: list[list[int]] = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda _, processors: calls.append(processors[:]))
    monkeypatch.setattr(machine, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(machine, "_held", [])
    monkeypatch.setenv("LP_NUM_THREADS", "0")  # so that it is restored
    yield calls
    for file in machine._held:
        file.close()


def other_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Locks belong to open files, so that this process can be another worker, too."""
    monkeypatch.setattr(machine, "_held", [])


def test_workers_take_processors_of_their_own(
    pinned: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    for count in (2, 1, 2, 1):  # for the third, too few are left
        other_worker(monkeypatch)
        machine.take_processors(count)
        held.append(machine._held)
    assert pinned == [[0, 1], [2], [3]]
    assert [len(files) for files in held] == [2, 1, 0, 1]
    for files in held:
        for file in files:
            file.close()


def test_a_worker_takes_processors_once(
    pinned: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("LP_NUM_THREADS")
    machine.take_processors(2)
    machine.take_processors(1)
    assert pinned == [[0, 1]]
    assert os.environ["LP_NUM_THREADS"] == "2"


@pytest.mark.parametrize("writable", [True, False])
def test_programs_are_not_kept_in_a_folder_of_another_user(
    writable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Anyone can make a folder of that name in /tmp first."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    named = tmp_path / f"gles_delegate-{os.getuid()}"
    with monkeypatch.context() as patched:
        patched.setattr(os, "access", lambda path, mode: writable)
        chosen = machine.cache_folder.__wrapped__()
    assert (chosen == named) == writable
    assert chosen is not None
    assert chosen.stat().st_mode & 0o777 == 0o700
