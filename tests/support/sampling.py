"""How many of the cases run, of tests that have more than `make test` has time for."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]
COMMITS = 20

everything = False
"""Whether all cases run: `pytest --all`."""
fresh = 0
"""How many new random examples each fuzz test has, `pytest --fresh N`; 0 for the same few."""
changed: list[str] = []
"""Files with uncommitted changes, then files of the latest commits, the newest first."""
counts: dict[str, tuple[int, int]] = {}
"""By name of the cases, how many run of how many."""


def choose(name: str, cases: Sequence[T], some: Sequence[T]) -> Sequence[T]:
    """All `cases`, or `some` of them; the end of the run reports under `name` how many."""
    chosen = cases if everything else some
    counts[name] = len(chosen), len(cases)
    return chosen


def recent_changes() -> list[str]:
    """See `changed`; empty where there is no git or no repository."""
    status = _git("status", "--porcelain", "--untracked-files=all", "--no-renames")
    log = _git("log", f"-{COMMITS}", "--name-only", "--format=")
    return list(dict.fromkeys([*(line[3:] for line in status), *filter(None, log)]))


def _git(*arguments: str) -> list[str]:
    try:
        run = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False
        )
    except OSError:
        return []
    return run.stdout.splitlines()


def report() -> str:
    """A summary of the samples, in a line or two; empty if nothing was sampled."""
    some = [f"{name} {n}/{most}" for name, (n, most) in sorted(counts.items()) if n < most]
    return f"sampled: {', '.join(some)}; make test-all, or --all, runs all" if some else ""
