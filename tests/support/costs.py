"""What tests cost, and which of the dear ones run on each push.

costs.txt has the CPU seconds of each dear test, its children included; `pytest --costs` writes it
anew from a run of everything. A test that it does not have is cheap.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator
from functools import cache
from math import sqrt
from pathlib import Path

from tests.support import sampling

FILE = sampling.ROOT / "tests" / "costs.txt"
DEAR = 0.3
"""CPU seconds."""
SHARE = 0.17
"""Of the dear tests of one second whose code did not change, this part runs.

Of others it is divided by the square root of their seconds, with which as much time sees most.
"""
FOR_CHANGES = 300
"""CPU seconds for dear tests whose code changed; without a limit, a change of a module that all
import would run everything."""
measured: dict[str, float] = {}
"""CPU seconds by test, of this run."""


@cache
def known() -> dict[str, float]:
    """CPU seconds by test, of the dear ones."""
    if not FILE.is_file():
        return {}
    rows = (line.split(" ", 1) for line in FILE.read_text("utf-8").splitlines())
    return {test: float(seconds) for seconds, test in rows}


def cpu_seconds() -> float:
    """Of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def write(costs: dict[str, float]) -> None:
    rows = (f"{seconds:.1f} {test}\n" for test, seconds in sorted(costs.items()) if seconds > DEAR)
    FILE.write_text("".join(rows), "utf-8")


def left_out(tests: Iterable[str]) -> set[str]:
    """Of some tests, the dear ones that neither run for what changed nor are drawn.

    Those of changed files come first, then those of files that import one that changed, as far as
    `FOR_CHANGES` goes.
    """
    changed = {*sampling.changed}
    left = FOR_CHANGES
    run: set[str] = set()
    dear = sorted((test for test in tests if test in known()), key=sampling.rank)
    if changed:
        nearness = {test: _nearness(test.partition("::")[0], changed) for test in dear}
        for test in sorted((test for test in dear if nearness[test]), key=nearness.__getitem__):
            if left > 0:
                run.add(test)
                left -= known()[test]
    return {test for test in dear if test not in run and not _is_drawn(test)}


def _is_drawn(test: str) -> bool:
    return sampling.rank(test) < 2**32 * SHARE / sqrt(known()[test])


def _nearness(file: str, changed: set[str]) -> int:
    """1 for a changed file, 2 for one that imports a changed file, 0 for others."""
    if file in changed:
        return 1
    return 2 if changed.intersection(_imports(file)) else 0


@cache
def _imports(file: str) -> list[str]:
    """The files of this repository that a file imports itself."""
    tree = ast.parse((sampling.ROOT / file).read_text("utf-8"))
    return [*_files(tree)]


def _files(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        for name in names:
            path = Path(*name.split("."))
            yield str(path.with_suffix(".py"))
            yield str(path / "__init__.py")


class Measured:
    """A plug-in of pytest that notes what each test costs."""

    def __init__(self) -> None:
        self._start = 0.0

    def pytest_runtest_logstart(self) -> None:
        self._start = cpu_seconds()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        measured[nodeid] = cpu_seconds() - self._start
