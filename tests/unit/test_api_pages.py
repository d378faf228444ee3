"""The API reference lists every public name."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LISTED = {
    name
    for page in ROOT.glob("docs/api/*.md")
    for name in re.findall(r"^::: (\S+)", page.read_text("utf-8"), re.MULTILINE)
}


@pytest.mark.parametrize(
    "folder", ["", "batch", "live", "ray", "tasks.audio", "tasks.vision", "vision"]
)
def test_public_names_are_listed(folder: str) -> None:
    package = f"gles_apps.{folder}" if folder else "gles_delegate"
    file = ROOT.joinpath(*package.split("."), "__init__.py")
    tree = ast.parse(file.read_text("utf-8"))
    (names,) = (
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    public = {f"{package}.{name}" for name in names if not name.endswith("Error")}
    assert public - LISTED == set()


def test_every_page_is_linked_and_every_error_is_listed() -> None:
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    pages = {path.name for path in ROOT.glob("docs/*.md")} - {"index.md"}
    assert {page for page in pages if f"({page})" not in index} == set()
    assert "gles_delegate.errors" in LISTED
