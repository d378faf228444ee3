"""The examples of docs/ray.md, run as a reader runs them: with a cluster that Ray starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.snippets import ROOT


@pytest.mark.usefixtures("gl")
def test_a_dataset(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    result = subprocess.run(
        [sys.executable, "-m", "tests.support.snippets", "docs/ray.md", "A dataset"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
