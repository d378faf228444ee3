"""Which of the cases run, of tests that have more than `make test` has time for."""

import random
import subprocess
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

ROOT = Path(__file__).parents[2]

everything = False
"""Whether all cases run: `pytest --all`."""
named = False
"""Whether the command line names tests; the dear ones of them run, too."""
fresh = 0
"""How many new random examples each fuzz test has, `pytest --fresh N`; 0 for the same few."""
seed = 0
"""Number that draws the samples: `pytest --seed N`, or of the content of the commit."""
changed: list[str] = []
"""Files with uncommitted changes, or changes since a commit, whose cases come first."""
counts: dict[str, tuple[int, int]] = {}
"""By name of the cases, how many run of how many."""


def choose(name: str, cases: Sequence[T], some: Sequence[T]) -> Sequence[T]:
    """All `cases`, or `some` of them; the end of the run reports under `name` how many."""
    chosen = cases if everything else some
    counts[name] = len(chosen), len(cases)
    return chosen


def drawn(cases: Sequence[T], most: int) -> list[T]:
    """At most `most` of the cases, in their order."""
    places = random.Random(seed).sample(range(len(cases)), min(most, len(cases)))
    return [cases[place] for place in sorted(places)]


def rank(name: str, by: int | None = None) -> int:
    """A number below 2^32 by which cases or tests are drawn, whatever others there are.

    ``by``: Another number than `seed`.
    """
    return zlib.crc32(f"{seed if by is None else by} {name}".encode())


def seed_of_commit() -> int:
    """A number that every clone of a commit has; 0 where there is no git or no repository."""
    tree = _git("rev-parse", "HEAD^{tree}")
    return int(tree[0][:8], 16) if tree else 0


def uncommitted_changes() -> list[str]:
    """See `changed`; empty where there is no git or no repository."""
    status = _git("status", "--porcelain", "--untracked-files=all", "--no-renames")
    return [line[3:] for line in status]


def changes_since(commit: str) -> list[str]:
    """Files that differ from a commit, and those with uncommitted changes."""
    return [*_git("diff", "--name-only", "--no-renames", commit), *uncommitted_changes()]


def _git(*arguments: str) -> list[str]:
    try:
        run = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return []
    return run.stdout.splitlines()


def report() -> str:
    """A summary of the samples, in a line or two; empty if nothing was sampled."""
    some = [f"{name} {n}/{most}" for name, (n, most) in sorted(counts.items()) if n < most]
    every = "make test-all, or --all, runs all"
    return f"sampled by --seed {seed}: {', '.join(some)}; {every}" if some else ""
