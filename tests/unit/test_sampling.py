"""What `make test` leaves to `make test-all`, what it skips, and how a run reports it."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import TIERS
from tests.support import costs, sampling

TESTS = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def counts(monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    counts: dict[str, tuple[int, int]] = {}
    monkeypatch.setattr(sampling, "counts", counts)
    return counts


@pytest.mark.parametrize("everything", [False, True])
def test_some_cases_or_all(everything: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "everything", everything)
    monkeypatch.setattr(sampling, "seed", 5)
    assert [*sampling.choose("cases", range(9), range(2))] == [*range(9 if everything else 2)]
    assert sampling.report() == (
        "" if everything else "sampled by --seed 5: cases 2/9; make test-all, or --all, runs all"
    )


def test_a_clone_of_a_commit_has_its_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its history, and whatever is not committed."""

    def git(*arguments: object) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false")
        command = ["git", *identity, "-c", "core.hooksPath=/dev/null", *map(str, arguments)]
        subprocess.run(command, cwd=sampling.ROOT, check=True, capture_output=True)

    for name in os.environ:  # inside a hook they name another repository
        if name.startswith("GIT_"):
            monkeypatch.delenv(name)
    (tmp_path / "one").mkdir()
    monkeypatch.setattr(sampling, "ROOT", tmp_path / "one")
    assert (sampling.seed_of_commit(), sampling.uncommitted_changes()) == (0, [])
    try:
        git("init")
    except FileNotFoundError:
        pytest.skip("git is not installed")
    seeds = []
    for name in ("first", "second"):
        (sampling.ROOT / name).write_text(name)
        git("add", name)
        git("commit", "-m", name)
        seeds.append(sampling.seed_of_commit())
    (sampling.ROOT / "first").write_text("changed")
    (sampling.ROOT / "new").mkdir()
    (sampling.ROOT / "new" / "file").touch()
    assert sampling.uncommitted_changes() == ["first", "new/file"]
    assert sampling.changes_since("HEAD~") == ["first", "second", "first", "new/file"]
    git("clone", "--depth", 1, sampling.ROOT.as_uri(), tmp_path / "two")
    monkeypatch.setattr(sampling, "ROOT", tmp_path / "two")
    assert (sampling.seed_of_commit(), sampling.uncommitted_changes()) == (seeds[1], [])
    assert seeds[0] != seeds[1]


def test_a_sample_is_drawn_by_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = []
    for seed in (1, 1, 2):
        monkeypatch.setattr(sampling, "seed", seed)
        samples.append(sampling.drawn(range(1000), 9))
    assert samples[0] == samples[1] != samples[2]
    assert samples[0] == sorted({*samples[0]})


def test_a_library_that_is_missing_skips_tests() -> None:
    """TIERS has each library that tests import when they are collected."""
    here = {*sys.stdlib_module_names, "gles_apps", "gles_delegate", "tests"}
    required = {"flatbuffers", "numpy", "packaging", "pytest"}
    files = [*TESTS.glob("*/test_*.py"), *TESTS.glob("support/*.py"), *TESTS.glob("attack/*.py")]
    for file in files:
        for node in ast.parse(file.read_text("utf-8")).body:
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            imported = {name.partition(".")[0] for name in names}
            assert imported <= here | required | TIERS.keys(), file


def test_dear_tests_run_if_their_code_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    file = "tests/unit/test_sampling.py"
    other = "tests/unit/test_house.py"
    tests = [f"{each}::test_{i}" for each in (other, file) for i in range(80)]
    monkeypatch.setattr(costs, "known", lambda: dict.fromkeys(tests, 1.0))
    monkeypatch.setattr(sampling, "changed", ["README.md"])
    left_out = costs.left_out(tests)
    assert len(tests) / 2 < len(left_out) < len(tests)
    assert not costs.left_out([f"{file}::test_that_is_not_known"])
    for changed in (file, "tests/support/sampling.py"):
        monkeypatch.setattr(sampling, "changed", [changed])
        assert {test.partition("::")[0] for test in costs.left_out(tests)} == {other}


def test_dear_tests_of_changed_files_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change of a module that all import does not run everything."""
    file = "tests/unit/test_sampling.py"
    importing = "tests/unit/test_op_table.py"
    tests = [f"{each}::test_{i}" for each in (importing, file) for i in range(80)]
    monkeypatch.setattr(costs, "known", lambda: dict.fromkeys(tests, 1.0))
    monkeypatch.setattr(costs, "FOR_CHANGES", 90)
    monkeypatch.setattr(costs, "SHARE", 0)
    monkeypatch.setattr(sampling, "changed", [file, "tests/op_table/__init__.py"])
    left_out = costs.left_out(tests)
    assert len(left_out) == 70
    assert {test.partition("::")[0] for test in left_out} == {importing}


@pytest.mark.source
def test_the_known_costs_are_of_tests_that_exist() -> None:
    files = {test.partition("::")[0] for test in costs.known()}
    assert len(costs.known()) > 100
    assert not [file for file in files if not (sampling.ROOT / file).is_file()]
