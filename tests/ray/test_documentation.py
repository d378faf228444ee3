"""The examples of docs/ray.md, run as a reader runs them: with a cluster that Ray starts."""

from pathlib import Path

import pytest

from tests.support.snippets import run_apart


@pytest.mark.usefixtures("gl")
def test_a_dataset(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    result = run_apart("docs/ray.md", "A dataset", tmp_path)
    assert result.returncode == 0, result.stderr
