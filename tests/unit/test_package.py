"""The wheel works where there is no checkout, and the checkout where there is no wheel."""

import os
import re
import runpy
import shutil
import subprocess
import sys
import zipfile
from email import message_from_string
from email.message import Message
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import gles_apps
from gles_delegate import __version__, ops
from tests.conftest import Require

ROOT = Path(__file__).parents[2]
SHADERS = sorted(
    str(path.relative_to(ROOT))
    for path in (ROOT / "glsl").rglob("*")
    if path.suffix in (".glsl", ".frag", ".vert")
)
NETWORKS = sorted((ROOT / "examples" / "models").glob("*.tflite"))
WITHOUT_EDITABLE_INSTALLS = (
    "import sys\nsys.meta_path = [f for f in sys.meta_path if 'editable' not in repr(f).lower()]\n"
)


def python(*arguments: str, cwd: Path) -> str:
    """A program's output; nothing of the checkout is on its path unless ``cwd`` is."""
    run = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={**os.environ, "REPOSITORY": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory, require: Require) -> Path:
    """A wheel of a copy of the checkout: a build leaves files beside its sources."""
    if find_spec("setuptools") is None or int(version("setuptools").split(".")[0]) < 77:
        require("cli", "setuptools 77 or newer is not installed")
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for package in ("gles_apps", "gles_delegate"):
        shutil.copytree(ROOT / package, source / package)
    for file in ("setup.cfg", "setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, source)
    options = ("--no-deps", "--no-build-isolation", "--wheel-dir", str(out))
    python("-m", "pip", "wheel", *options, str(source), cwd=out)
    (built,) = out.glob("*.whl")
    return built


def metadata_of(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


@pytest.mark.source
def test_the_wheel_has_every_module_and_shader(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = [str(path.relative_to(ROOT)) for path in ROOT.glob("gles_*/**/*.py")]
    assert SHADERS
    assert {f"gles_delegate/{shader}" for shader in SHADERS} <= names
    networks = {f"gles_delegate/bench/networks/{path.name}" for path in NETWORKS}
    cases = "gles_delegate/verification/cases.bin"
    assert networks
    picture = "gles_delegate/bench/pictures/digits.jpg"
    assert {*modules, *networks, picture, cases, "gles_delegate/py.typed"} <= names
    assert not [name for name in names if name.startswith(("tests", "examples", "glsl"))]


@pytest.mark.source
@pytest.mark.parametrize(
    ("machine", "python_version", "has_wheels"),
    [
        ("aarch64", "3.11", False),
        ("aarch64", "3.13", False),
        ("armv7l", "3.11", False),
        ("x86_64", "3.11", True),
        ("x86_64", "3.13", True),
        ("x86_64", "3.15", True),
        ("x86_64", "3.16", False),
    ],
)
def test_nothing_is_required_that_has_no_wheel(
    machine: str, python_version: str, has_wheels: bool, wheel: Path
) -> None:
    """`pip download --only-binary :all:` of moderngl and glcontext is how to check the table."""
    metadata = metadata_of(wheel)
    environment = {
        "platform_machine": machine,
        "python_version": python_version,
        "platform_python_implementation": "CPython",
        "extra": "",
    }
    requirements = map(Requirement, metadata.get_all("Requires-Dist", []))
    required = {r.name for r in requirements if not r.marker or r.marker.evaluate(environment)}
    expected = {"moderngl", "glcontext"} if has_wheels else set()
    assert required == {"numpy", "flatbuffers", *expected}


@pytest.mark.source
def test_what_an_index_reads(wheel: Path) -> None:
    """See also tests/unit/test_index_page.py."""
    metadata = metadata_of(wheel)
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "](docs/" not in metadata.get_payload()
    assert metadata.get_all("Project-URL") is None
    assert "Development Status :: 4 - Beta" in metadata.get_all("Classifier", [])
    assert {*metadata.get_all("Provides-Extra", [])} == {
        "apps", "cli", "examples", "litert", "plot", "ray",
    }  # fmt: skip


def test_this_install_finds_its_shaders(tmp_path: Path, require: Require) -> None:
    code = "from importlib.util import find_spec; print(find_spec('gles_delegate') is None)"
    if python("-I", "-c", code, cwd=tmp_path) == "True\n":
        require("cli", "gles_delegate is not installed")
    code = "from importlib.resources import files; print(*files('gles_delegate.glsl').iterdir())"
    assert "elementwise.glsl" in python("-I", "-c", code, cwd=tmp_path)


@pytest.mark.source
def test_the_shaders_are_found_without_the_checkout(wheel: Path, tmp_path: Path) -> None:
    target = tmp_path / "site"
    python("-m", "pip", "install", "--no-deps", "--target", str(target), str(wheel), cwd=tmp_path)
    code = (
        f"{WITHOUT_EDITABLE_INSTALLS}"
        f"sys.path.insert(0, {str(target)!r})\n"
        "from importlib.resources import files\n"
        f"for shader in {SHADERS!r}:\n"
        "    text = files('gles_delegate').joinpath(shader).read_text()\n"
        "    folder, *names = shader.split('/')\n"
        "    found = files('gles_delegate.glsl')\n"
        "    for name in names: found = found / name\n"
        "    assert text == found.read_text()\n"
        f"    assert str(found).startswith({str(target)!r}), found\n"
        "print('found')\n"
    )
    assert python("-I", "-c", code, cwd=tmp_path) == "found\n"


@pytest.mark.source
def test_a_checkout_runs_uninstalled(tmp_path: Path) -> None:
    for folder in ("gles_apps", "gles_delegate", "glsl"):
        shutil.copytree(ROOT / folder, tmp_path / folder, symlinks=True)
    code = (
        f"{WITHOUT_EDITABLE_INSTALLS}"
        "import gles_delegate\n"
        "from gles_delegate.shaders.files import read_body\n"
        f"for shader in {SHADERS!r}: read_body(shader.removeprefix('glsl/'))\n"
        "print(gles_delegate.__file__)\n"
    )
    assert python("-c", code, cwd=tmp_path) == f"{tmp_path}/gles_delegate/__init__.py\n"


def test_the_version_is_the_same_everywhere() -> None:
    assert gles_apps.__version__ == __version__
    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text("utf-8")
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    newest = re.search(r"^## (\d\S*) - \d{4}-\d\d-\d\d$", changelog, re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__


def test_ops_that_a_packed_app_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pkgutil.iter_modules", lambda path: [])
    with pytest.raises(ImportError, match="--collect-all gles_delegate"):
        runpy.run_path(ops.__file__, {"__path__": ["/app"]})
