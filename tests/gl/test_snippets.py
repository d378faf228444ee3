"""Every block of Python in the README and in docs/ runs."""

import re
from pathlib import Path

import pytest

from tests.conftest import TIERS, Require
from tests.support.snippets import run_apart, units


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
@pytest.mark.parametrize(("page", "section"), [*units()])
def test_python(page: str, section: str, tmp_path: Path, require: Require) -> None:
    check_snippets(page, section, tmp_path, require)


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
@pytest.mark.parametrize("loop", ["basic", "threaded"])
def test_qt_quick_of_toolkits(
    loop: str, tmp_path: Path, require: Require, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QSG_RENDER_LOOP", loop)
    check_snippets("docs/toolkits.md", "Qt Quick", tmp_path, require)


def check_snippets(page: str, section: str, tmp_path: Path, require: Require) -> None:
    result = run_apart(page, section, tmp_path)
    missing = re.search(r"^ModuleNotFoundError: No module named '(\w+)'", result.stderr, re.M)
    if missing:
        require(TIERS.get(missing[1], "windows"), f"{missing[1]} is not installed")
    if "GStreamer is not installed" in result.stderr:
        require("gstreamer", "GStreamer is not installed")
    assert result.returncode == 0, result.stderr
    assert "Traceback" not in result.stderr, result.stderr
