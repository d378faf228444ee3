"""README and docs say what is there."""

import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import gles_delegate as gd
from gles_apps import vision
from gles_delegate.gl.libegl import DEBIAN_PACKAGES

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")


@pytest.mark.parametrize("tool", ["op-table", "device-page"])
def test_the_tables_are_those_of_today(tool: str) -> None:
    run = [sys.executable, str(ROOT / "tools" / tool), "--check"]
    assert subprocess.run(run, capture_output=True, text=True, check=False).stderr == ""


def test_every_link_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*.md")]
    links = [
        (p, link) for p in pages for link in re.findall(r"\]\((?!https?:)([^)#]+)", p.read_text())
    ]
    assert len(links) > 20
    assert not [(str(page), to) for page, to in links if not (page.parent / to).exists()]


def test_every_option_is_explained() -> None:
    guide = (ROOT / "docs" / "guide.md").read_text("utf-8")
    names = {field.name for field in fields(gd.GpuDelegateOptions)}
    missing = {name for name in names if f"`{name}`" not in guide}
    assert missing == {"inference_priority2", "inference_priority3"}  # "`...1` ... `3`"


def test_the_debian_packages_are_those_of_setup_and_errors() -> None:
    assert f"apt install {DEBIAN_PACKAGES} " in README
    assert f'wanted="{DEBIAN_PACKAGES} ' in (ROOT / "tools" / "setup-debian").read_text("utf-8")


@pytest.mark.parametrize("name", ["Dockerfile", "workflow.yml"])
def test_the_debian_packages_are_those_of_the_container(name: str) -> None:
    text = (ROOT / "examples" / "container" / name).read_text("utf-8")
    assert DEBIAN_PACKAGES in " ".join(text.split())


def test_what_programs_are_ported_to_is_there() -> None:
    table = re.findall(r"^\|[^|]+\|([^|]+)\|$", (ROOT / "docs/porting.md").read_text("utf-8"), re.M)
    named = {name for cell in table for name in re.findall(r"`([A-Za-z_]{4,})`", cell)}
    places = (gd, vision, gd.Interpreter, gd.Invocation, vision.Detector, vision.Landmarks)
    there = {name for place in places for name in dir(place)}
    there |= {field.name for kind in (vision.Detector, vision.Tracker) for field in fields(kind)}
    assert len(named) > 25
    assert named - there - {"await", "refine_landmarks"} == set()
