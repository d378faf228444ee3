"""What `make test` leaves to `make test-all`, and how a run reports it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support import sampling


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(sampling, "counts", counts)
    return counts


@pytest.mark.parametrize("everything", [False, True])
def test_some_cases_or_all(everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "everything", everything)
    assert [*sampling.choose("cases", range(9), range(2))] == [*range(9 if everything else 2)]
    assert sampling.report() == (
        "" if everything else "sampled: cases 2/9; make test-all, or --all, runs all"
    )


def test_changes_that_are_not_committed_come_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def git(*arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", *identity, "-c", "core.hooksPath=/dev/null", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    for name in os.environ:  # inside a hook they name another repository
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(sampling, "ROOT", tmp_path)
    assert sampling.recent_changes() == []
    try:
        git("init")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    for name in ("first", "second", "third"):
        (tmp_path / name).write_text(name)
        git("add", name)
        git("commit", "-m", name)
    (tmp_path / "first").write_text("changed")
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "file").touch()
    assert sampling.recent_changes() == ["first", "new/file", "third", "second"]
