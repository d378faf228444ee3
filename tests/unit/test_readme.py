"""The README says what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import gles_delegate as gd
from gles_delegate.gl.libegl import DEBIAN_PACKAGES
from gles_delegate.ops import supported_ops

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


def test_every_op_is_named() -> None:
    words = set(re.findall(r"\w+", README))
    assert set(supported_ops()) <= words


def test_every_case_of_the_op_table_passed() -> None:
    table = README.split("<!-- op table -->")[1].split("<!-- end of op table -->")[0]
    counts = re.findall(r"\| (\d+) / (\d+) \|", table)
    assert len(counts) > 90
    assert all(passed == total for passed, total in counts)


def test_every_error_is_named() -> None:
    errors = [name for name in gd.__all__ if name.endswith("Error")]
    assert not [name for name in errors if name not in README]


def test_the_debian_packages_are_those_of_setup_and_errors() -> None:
    assert f"apt install {DEBIAN_PACKAGES} " in README
    assert f'wanted="{DEBIAN_PACKAGES} ' in (ROOT / "tools" / "setup-debian").read_text("utf-8")


@pytest.mark.parametrize("name", ["Dockerfile", "workflow.yml"])
def test_the_debian_packages_are_those_of_the_container(name: str) -> None:
    text = (ROOT / "examples" / "container" / name).read_text("utf-8")
    assert DEBIAN_PACKAGES in " ".join(text.split())
