"""Imports go down the line on which data flows; nothing is public by accident."""

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from pkgutil import iter_modules

import pytest

import gles_apps
import gles_delegate as gd
from gles_delegate.support.moved import MOVED
from tests.conftest import TIERS, Require

PACKAGE = Path(gd.__file__).parent
APPS = Path(gles_apps.__file__).parent
LEVELS = (
    {"device", "pyinstaller"},
    {"errors", "glsl", "options", "report", "support", "version"},
    {"model", "gl"},
    {"image", "litert", "shaders"},
    {"ops"},
    {"kernels"},
    {"planning"},
    {"runtime"},
    {"hosts", "bench", "__init__", "cli", "__main__", "verification"},
)
"""Each part imports from lower levels and from itself; in the highest, not in a circle either."""
GRAPH_PARTS = {"model", "shaders", "ops", "kernels", "planning"}
EXTRAS = ("PIL", "av", "click", "glfw", "matplotlib", "ray", "rich")
"""Libraries that only some modules need."""
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "-" not in path.stem)  # not a hook
APP_FILES = sorted(APPS.rglob("*.py"))
EXAMPLES = sorted((PACKAGE.parent / "examples").glob("*.py"))


def part_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def level(part: str) -> int:
    return next(i for i, parts in enumerate(LEVELS) if part in parts)


@cache
def imported(path: Path) -> set[str]:
    """Full names of what a file imports, each ``from a import b`` as a.b."""
    package = path.relative_to(PACKAGE.parent).parent.parts
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else ()
            module = ".".join((*base, *filter(None, [node.module])))
            names.update(f"{module}.{alias.name}" for alias in node.names)
    return names


def parts_imported(path: Path) -> set[str]:
    own = {name.split(".")[1] for name in imported(path) if name.startswith("gles_delegate.")}
    return own - {part_of(path)}


def test_the_walk_sees_every_kind_of_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "PACKAGE", tmp_path / "gles_delegate")
    file = tmp_path / "gles_delegate" / "gl" / "x.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "from ..errors import E\nfrom . import egl\ndef f():\n    import gles_delegate.model"
    )
    assert parts_imported(file) == {"errors", "model"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_go_down(path: Path) -> None:
    here = level(part_of(path))
    highest = here == len(LEVELS) - 1
    assert not {part for part in parts_imported(path) if level(part) >= here + highest}


def test_no_imports_go_in_a_circle() -> None:
    modules = {module_of(path): path for path in (*FILES, *APP_FILES)}
    graph = {
        name: {i if i in modules else i.rpartition(".")[0] for i in imported(path)} & {*modules}
        for name, path in modules.items()
    }
    assert any(graph.values())
    tuple(TopologicalSorter(graph).static_order())  # raises CycleError


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_delegate_imports_no_app(path: Path) -> None:
    assert not {name for name in imported(path) if name.startswith("gles_apps")}


@pytest.mark.parametrize("path", APP_FILES, ids=lambda path: str(path.relative_to(APPS)))
def test_apps_import_no_private_names(path: Path) -> None:
    crossing = {name for name in imported(path) if name.startswith("gles_delegate")}
    assert not {name for name in crossing if "._" in name.replace(".__version__", "")}
    assert path.parent.name == "cli" or not {n for n in crossing if ".cli" in n}


@pytest.mark.source
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_examples_import_no_commands(path: Path) -> None:
    assert not {name for name in imported(path) if ".cli" in name}


@pytest.mark.parametrize("name", sorted(MOVED))
def test_moved_modules_name_the_new_one(name: str) -> None:
    assert (APPS / name).is_dir()
    place = f"gles_delegate.{name} is gles_apps.{name} since 1.0.2"
    for statement in (
        f"import gles_delegate.{name}",
        f"import gles_delegate.{name}.anything",
        f"from gles_delegate import {name}",
        f"from gles_delegate.{name} import anything",
    ):
        with pytest.raises(ModuleNotFoundError, match=f"^{place}$"):
            exec(statement)
    with pytest.raises(AttributeError, match=place):
        getattr(gd, name)
    assert name not in {each.name for each in iter_modules(gd.__path__)}


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_the_graph_calls_no_gl(path: Path) -> None:
    libraries = {name.split(".")[0] for name in imported(path)}
    assert part_of(path) not in GRAPH_PARTS or not libraries & {"moderngl", "glcontext", "ctypes"}


def test_every_module_is_imported_without_moderngl(require: Require) -> None:
    """Modules that need another library are skipped where it is missing."""
    names = {module_of(path) for path in (*FILES, *APP_FILES)}
    names -= {"gles_delegate.__main__"}
    code = (
        "import sys\n"
        "from importlib import import_module\n"
        "sys.modules.update(moderngl=None, glcontext=None)\n"
        "for module in sys.argv[1:]:\n"
        "    try: import_module(module)\n"
        "    except ModuleNotFoundError as error:\n"
        f"        if error.name not in {EXTRAS}: raise\n"
        "        print(error.name)\n"
    )
    command = [sys.executable, "-c", code, *sorted(names)]
    run = subprocess.run(command, cwd=PACKAGE.parent, check=True, capture_output=True, text=True)
    for library in sorted({*run.stdout.split()}):
        require(TIERS.get(library, library), f"{library} is not installed")
