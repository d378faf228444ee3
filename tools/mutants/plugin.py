"""A plug-in of pytest that records which planted faults each test meets, and its CPU seconds."""

import json
import os
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(os.environ["MUTANTS_RECORD"])


_failed: set[str] = set()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.failed:
        _failed.add(report.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    mutants = import_module("gles_delegate._mutants")  # which the copy has
    children = _FOLDER / f"met.{os.getpid()}"
    children.write_text("")
    os.environ["MUTANTS_MET"] = str(children)
    os.environ["MUTANTS_PROCESS"] = str(os.getpid())
    mutants.met.clear()
    start = _seconds()
    try:
        return (yield)
    finally:
        met = {*mutants.met, *map(int, children.read_text().split())}
        row: dict[str, Any] = {
            "test": item.nodeid,
            "seconds": _seconds() - start,
            "met": [*met],
            "failed": item.nodeid in _failed,
        }
        with (_FOLDER / f"tests.{os.getpid()}").open("a") as file:
            file.write(json.dumps(row) + "\n")


def _seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
