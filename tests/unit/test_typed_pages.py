"""A type checker accepts the Python of the README and of docs/."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.conftest import Require
from tests.support.snippets import PAGES, ROOT, Snippet, snippets

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


@pytest.mark.source
def test_mypy_accepts_the_pages(tmp_path: Path, require: Require) -> None:
    if find_spec("mypy") is None:
        require("cli", "mypy is not installed")
    places = {}
    program = Snippet("in variables", "", 0, IN_VARIABLES)
    for snippet in (program, *(each for page in PAGES for each in snippets(page))):
        module = f"{re.sub('[^a-z]', '_', snippet.page.lower())}_{snippet.line}"
        (tmp_path / f"{module}.py").write_text(snippet.code + "\n", "utf-8")
        places[module] = snippet
    assert len(places) > 70
    ignored = [f"--disable-error-code={code}" for code in OF_OTHER_BLOCKS]
    result = subprocess.run(
        [sys.executable, "-m", "mypy", *AS_A_USERS, *ignored, "."],
        cwd=tmp_path,
        env={"MYPYPATH": str(ROOT), "PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    errors = []
    for module, line, message in re.findall(r"^(\w+)\.py:(\d+): error: (.*)$", result.stdout, re.M):
        if not any(re.match(known, message) for known in OF_OTHER_PACKAGES.values()):
            snippet = places[module]
            errors.append(f"{snippet.page}:{snippet.line + int(line)}: {message}")
    wrong = f"in variables:{IN_VARIABLES.count(chr(10))}: "
    assert [error.startswith(wrong) for error in errors] == [True], "\n".join(errors)
    assert "checked" in result.stdout, result.stdout + result.stderr
    assert result.stderr == ""
