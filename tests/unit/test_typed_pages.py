"""A type checker accepts the Python of the README and of docs/."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.support.snippets import PAGES, ROOT, snippets

AS_A_USERS = (
    "--config-file=",
    "--strict",
    "--allow-subclassing-any",
    "--allow-untyped-calls",
    "--allow-untyped-defs",
    "--ignore-missing-imports",
    "--scripts-are-modules",
    "--hide-error-context",
    f"--cache-dir={ROOT / '.mypy_cache' / 'pages'}",
)
"""Strict, but short programs have no annotations of their own, and some packages have no types."""

OF_OTHER_BLOCKS = ("has-type", "name-defined", "used-before-def")
"""Errors of blocks that go on with the names of those above them."""

OF_OTHER_PACKAGES = {
    "moderngl": r'Argument "backend" to "create_context" has incompatible type',
    "pyglet": r'Cannot instantiate abstract class "Config"',
}
"""Errors in the annotations of packages that the pages use as their own pages say."""


IN_VARIABLES = """
import numpy as np
import gles_delegate as gd

by_name = {"image": np.zeros((1, 64, 64, 3), np.float32)}
by_index = {0: np.zeros((1, 10), np.float32)}
with gd.Interpreter("digit_classifier.tflite") as interpreter:
    results = interpreter.run(by_name, out=by_index)
    interpreter.run(by_index, out=by_name)
    interpreter.run(results, out=results)
    interpreter.run({b"image": 1})
"""
"""Dicts whose types no literal adapts; the last one is wrong."""


def mypy(folder: Path, require: Require) -> "subprocess.CompletedProcess[str]":
    """What it finds in the programs of a folder."""
    if find_spec("mypy") is None:
        require("cli", "mypy is not installed")
    ignored = [f"--disable-error-code={code}" for code in OF_OTHER_BLOCKS]
    return subprocess.run(
        [sys.executable, "-m", "mypy", *AS_A_USERS, *ignored, "."],
        cwd=folder,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.source
def test_mypy_accepts_dicts_in_variables(tmp_path: Path, require: Require) -> None:
    (tmp_path / "program.py").write_text(IN_VARIABLES, "utf-8")
    found = re.findall(r"^program.py:(\d+)", mypy(tmp_path, require).stdout, re.M)
    assert found == [str(IN_VARIABLES.count("\n"))]


@pytest.mark.source
def test_mypy_accepts_the_pages(tmp_path: Path, require: Require) -> None:
    places = {}
    for page in PAGES:
        for snippet in snippets(page):
            module = f"{re.sub('[^a-z]', '_', page.lower())}_{snippet.line}"
            (tmp_path / f"{module}.py").write_text(snippet.code + "\n", "utf-8")
            places[module] = snippet
    assert len(places) > 70
    result = mypy(tmp_path, require)
    errors = []
    for module, line, message in re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", result.stdout, re.M):
        if not any(re.match(known, message) for known in OF_OTHER_PACKAGES.values()):
            snippet = places[module]
            errors.append(f"{snippet.page}:{snippet.line + int(line)}: {message}")
    assert not errors, "\n".join(errors)
    assert "checked" in result.stdout, result.stdout + result.stderr
    assert result.stderr == ""
