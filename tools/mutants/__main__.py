"""Plant faults, run what `make test` runs, and list the faults that no test sees.

    python tools/mutants N SEED ... [--seconds S] [--list FILE] [--tests FILE ...]

A copy of the checkout gets N wrong lines by each SEED, all at once, each behind a switch; the
sample of tests is that of the commit. The tests run once
without any, to learn which meet which. Then those that meet a fault run with it on, the cheapest
first, until one fails, or S CPU seconds (60) are spent. FILE gets a row for each fault that
survives.

Whether a survivor is equivalent to the right line is for a reader to say.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT)]

from plant import Mutant, plant  # noqa: E402

from tests.support.sampling import seed_of_commit  # noqa: E402

SEED = seed_of_commit()
"""Of the sample of tests; a commit that is made meanwhile has another."""
_LONGEST = 600
"""Seconds after which the tests that meet a fault are taken for hanging."""
_TESTS_OF_FILES = ("test_imports", "test_package", "test_house", "test_tools")
"""Tests of the sources' text, which the switches change."""


def copied(folder: Path) -> Path:
    """A copy of the files of the checkout."""
    tree = folder / "tree"
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True)
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.exists():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, tree / name, follow_symlinks=False)
    return tree


def pytest(
    tree: Path, arguments: Sequence[str], timeout: float | None, **environment: str
) -> int | None:
    """Its exit status; None if it took longer than that many seconds."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    command += ["--seed", str(SEED), *arguments]
    settings = os.environ | {"PYTHONPATH": str(tree)} | environment
    try:
        run = subprocess.run(command, cwd=tree, env=settings, capture_output=True, timeout=timeout)
    except subprocess.TimeoutExpired:
        return None
    return run.returncode


def main() -> None:
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--list", type=Path)
    parser.add_argument("--tests", nargs="*", default=[])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        tree = copied(folder)
        mutants = plant(tree, arguments.count, arguments.seeds)
        tests = recorded(tree, folder, arguments.tests)
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            ends = [*pool.map(lambda each: end_of(each, tree, tests, arguments.seconds), mutants)]
    survivors = [
        (mutant, count) for mutant, (caught, count) in zip(mutants, ends, strict=True) if not caught
    ]
    print(f"{len(mutants) - len(survivors)} of {len(mutants)} faults are caught")
    rows = [
        f"{mutant.file}:{mutant.line}\t{mutant.kind}\t{count} tests\t{' '.join(mutant.old.split())}"
        f"\t{' '.join(mutant.new.split())}"
        for mutant, count in survivors
    ]
    if arguments.list:
        arguments.list.write_text("\n".join(rows) + "\n")
    else:
        print("\n".join(rows))


def recorded(tree: Path, folder: Path, chosen: Sequence[str]) -> list[dict[str, object]]:
    """The tests that pass without a fault, with what each meets, the cheapest first."""
    left_out = [f"--deselect=tests/unit/{name}.py" for name in _TESTS_OF_FILES]
    run = ["-p", "plugin", "-n", "auto", "--dist", "worksteal", *left_out, *chosen]
    pytest(tree, run, None, PYTHONPATH=f"{tree}:{HERE}", MUTANTS_RECORD=str(folder))
    rows = [
        json.loads(line)
        for file in folder.glob("tests.*")
        for line in file.read_text().splitlines()
    ]
    print(f"{len(rows)} tests, of which {sum(row['failed'] for row in rows)} fail without a fault")
    return sorted((row for row in rows if not row["failed"]), key=lambda row: row["seconds"])


def end_of(
    mutant: Mutant, tree: Path, tests: Sequence[dict[str, object]], seconds: float
) -> tuple[bool, int]:
    """Whether a test catches a fault, and how many met it."""
    left = seconds
    chosen: list[str] = []
    for row in tests:
        if mutant.number in row["met"] and left > 0:  # type: ignore[operator]
            chosen.append(str(row["test"]))
            left -= float(row["seconds"])  # type: ignore[arg-type]
    if not chosen:
        return False, 0
    alone = ["-x", "-p", "no:xdist", *chosen]
    status = pytest(tree, alone, _LONGEST, MUTANT=str(mutant.number))
    # A failure, a hang, or modules that cannot be imported.
    return status != 0, len(chosen)


if __name__ == "__main__":
    main()
