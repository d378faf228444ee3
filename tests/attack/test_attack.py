"""A few cases of each attack in every run of the tests, and that the attack finds what is wrong."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from gles_delegate.cli import download
from tests.attack.__main__ import main
from tests.attack.compare import Finding, compare, verdict
from tests.attack.downloads import run_downloads
from tests.attack.graphs import ALLOWED
from tests.attack.hard import differing
from tests.attack.parts import PARTS
from tests.attack.requests import run_requests
from tests.attack.results import run_results
from tests.attack.trial import Trial
from tests.attack.workers import Outcome
from tests.op_table import CASES
from tests.support.oracle import complete
from tests.support.sketch import Sketch
from tests.support.small import small_model

KEPT = Path(__file__).parent / "kept"
ONE, TWO = (Outcome("result", (np.full(3, n, np.float32),)) for n in (1, 2))

SEEDS = {
    "models": range(0, 150, 4),
    "graphs": range(0, 40, 4),
    "copies": range(0, 80, 4),
    "branches": range(0, 80, 4),
    "hard": range(0, len(CASES), 1600),
    "cache": range(0, 40, 4),
    "disks": range(1),
    "async": range(0, 40, 4),
    "environments": range(0, 8, 4),
    "vision": range(0, 80, 4),
    "tasks": range(0, 30, 4),
    "sources": range(0, 30, 4),
    "results": range(0, 60, 4),
    "requests": range(0, 150, 4),
    "downloads": range(0, 40, 3),
    "verdicts": range(0, 24, 4),
}
"""The seeds of each part that a run of the tests tries; `make attack` tries more."""


NEEDED = {"results": "pyarrow", "requests": "starlette", "sources": "av"}
"""Packages of parts."""
OFTEN = {
    "models": {"result of LiteRT": 1 / 5, "refused by both": 1 / 5},
    "graphs": {"result of LiteRT": 1 / 2},
    "branches": {"result of LiteRT": 1 / 4},
    "hard": {"result of LiteRT": 2 / 3},
}
"""Endings of cases, and the least share of the cases that must end so."""


@pytest.mark.parametrize("part", SEEDS)
def test_nothing_is_found(part: str) -> None:
    if part in NEEDED:
        pytest.importorskip(NEEDED[part])
    findings: list[Finding] = []
    counts = PARTS[part].run(SEEDS[part], findings.append)
    assert not findings
    for ending, share in OFTEN.get(part, {}).items():
        assert counts[ending] > share * counts.total(), ending


@pytest.mark.parametrize(
    ("ours", "theirs", "kinds"),
    [
        ([1.0], [[1.0], [2.0]], []),
        ([1.5], [[1.0], [2.0]], []),
        ([2.5], [[1.0], [2.0]], ["number"]),
        ([np.nan], [[1.0], [np.nan]], []),
        ([np.nan], [[1.0], [2.0]], ["NaN"]),
        ([1.0], [[np.nan], [np.nan]], ["NaN"]),
        ([np.inf], [[np.finfo(np.float32).max]], []),
        ([np.inf], [[1.0]], ["infinity"]),
        ([0.0], [[-0.0], [-0.0]], ["sign of zero"]),
        ([0.0], [[-0.0], [0.0]], []),
    ],
)
def test_a_number_is_one_of_litert_s_or_between_them(
    ours: list[float], theirs: list[list[float]], kinds: list[str]
) -> None:
    known = [np.array(numbers, np.float32) for numbers in theirs]
    assert [kind for kind, _ in differing(np.array(ours, np.float32), known)] == kinds


def test_what_is_wrong_with_tables_and_requests_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("starlette")
    monkeypatch.setattr("gles_apps.batch.results.fcntl.flock", lambda *_: None)
    assert any("two runs" in run_results(b"", seed).text for seed in range(1, 60, 2))
    monkeypatch.setattr("gles_apps.batch.http._parsed", json.loads)
    assert any("RecursionError" in run_requests(b"", seed).text for seed in range(60))


def test_what_is_wrong_with_downloads_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "_receive", lambda model, *_: (model.sha256, model.bytes))
    assert any("gave no model" in run_downloads(b"", seed).text for seed in range(60))


def test_what_was_found() -> None:
    trials = [
        Trial.kept(path, **(ALLOWED if path.stem.startswith("graphs") else {}))
        for path in sorted(KEPT.glob("*.tflite"))
    ]
    findings: list[Finding] = []
    compare(trials, findings.append)
    assert not findings


def test_a_finding_is_minimized_and_kept(tmp_path: Path) -> None:
    def differing(ops: int) -> Trial:
        """Differs from its reference while it has more than one op."""
        chain, other = (sketch_of(op, ops) for op in ("NEG", "ABS"))
        reference = chain if ops < 2 else other
        return Trial(0, f"{ops} ops", chain, lambda: iter([differing(ops - 1)]), reference)

    findings: list[Finding] = []
    compare([differing(7)], findings.append)
    (finding,) = findings
    assert finding.trial.name == "2 ops"
    assert finding.reason.startswith("another result")
    finding.trial.keep(tmp_path, "models")
    (path,) = tmp_path.glob("*.tflite")
    compare([Trial.kept(path)], findings.append)
    assert len(findings) == 2


def sketch_of(op: str, count: int) -> bytes:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((3,))
    for _ in range(count):
        result = s.tensor()
        s.op(op, [x], [result])
        x = result
    complete(s, [x])
    return s.build([x])


def test_the_report(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| damage to the cache | | | | |\n| soaks | | | | |\n", "utf-8")
    arguments = ["cache", "--count", "2", "--report", str(page)]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert "2 damage to the cache, 0 findings" in result.output
    first, second = page.read_text("utf-8").splitlines()
    assert first.startswith("| damage to the cache | 2 | 2 as expected | 0 | ")
    assert second == "| soaks | | | | |"


@pytest.mark.parametrize(
    ("ours", "theirs", "reason"),
    [
        (ONE, ONE, ""),
        (ONE, TWO, "another result"),
        (ONE, Outcome("refused"), ""),
        (Outcome("refused"), ONE, ""),
        (Outcome("crash"), ONE, "crash"),
        (Outcome("hang"), Outcome("refused"), "hang"),
        (Outcome("crash"), Outcome("crash"), ""),
        (Outcome("foreign error"), Outcome("refused"), "foreign error"),
        (Outcome("refused by LiteRT"), ONE, "refused by LiteRT"),
        (Outcome("refused by LiteRT"), Outcome("refused"), ""),
    ],
)
def test_verdict(ours: Outcome, theirs: Outcome, reason: str) -> None:
    assert verdict(Trial(0, "", small_model()), ours, theirs).partition("\n")[0] == reason
