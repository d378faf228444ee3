"""The API reference lists every public name, and no other."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.source

ROOT = Path(__file__).parents[2]
IN_ORDER = [
    name
    for page in sorted(ROOT.glob("docs/api/*.md"))
    for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE)
]
LISTED = {*IN_ORDER}
APPS = (
    "batch",
    "live",
    "ray",
    "tasks",
    "tasks.audio",
    "tasks.components",
    "tasks.vision",
    "vision",
)
MODULES = ("gles_delegate", "gles_delegate.ops", *(f"gles_apps.{name}" for name in APPS))
ONE_BY_ONE = {f"gles_apps.tasks.{name}" for name in ("audio", "components", "tasks", "vision")}
"""Modules whose names the pages list."""


def test_docstrings_are_markdown() -> None:
    """The pages would show reST's "::" and its directives."""
    files = [*ROOT.glob("gles_apps/**/*.py"), *ROOT.glob("gles_delegate/**/*.py")]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    kinds = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Module)
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, kinds)]
    rest = re.compile(r".*::$|^ *\.\. \w.*|.*:(?:class|func|meth|mod|param|ref):.*", re.MULTILINE)
    assert len(texts) > 2000
    assert [found for text in texts for found in rest.findall(text)] == []


@pytest.mark.parametrize("module", MODULES)
def test_public_names_are_listed(module: str) -> None:
    """A name that is added goes onto a page; one that is missing breaks somebody's program."""
    file = ROOT.joinpath(*module.split("."), "__init__.py")
    tree = ast.parse(file.read_text("utf-8"))
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    public = {f"{module}.{name}" for name in names} - ONE_BY_ONE
    assert public == {name for name in LISTED if name.rpartition(".")[0] == module}


def test_a_name_is_listed_once() -> None:
    assert sorted(LISTED) == sorted(IN_ORDER)


def test_no_module_has_the_name_of_what_is_listed_beside_it() -> None:
    """The pages would show the module instead."""
    files = [ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in LISTED - ONE_BY_ONE]
    modules = {file.stem for file in files if file.exists()}
    assert modules == {"containers", "drawing_styles", "drawing_utils", "processors"}


def test_no_other_module_is_listed() -> None:
    """The apps have few names beside tasks, whose names are MediaPipe's."""
    assert {name.rpartition(".")[0] for name in LISTED} == {*MODULES}
    ours = [name for name in LISTED if re.match(r"gles_apps\.(?!tasks)", name)]
    assert 40 < len(ours) < 60


def test_every_page_is_in_the_navigation() -> None:
    config = (ROOT / "mkdocs.yml").read_text("utf-8")
    pages = [str(path.relative_to(ROOT / "docs")) for path in ROOT.glob("docs/**/*.md")]
    listed = {*re.findall(r" ([\w/-]+\.md)$", config, re.MULTILINE)}
    assert [page for page in pages if page not in listed] == []
