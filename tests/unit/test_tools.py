"""The scripts of tools/ import names that exist."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

TOOLS = Path(__file__).parents[2] / "tools"
OURS = ("gles_apps", "gles_delegate", "tests")
SCRIPTS = sorted(
    path
    for path in TOOLS.rglob("*")
    if path.is_file()
    and path.suffix in ("", ".py")
    and (path.suffix or path.read_bytes().startswith(b"#!/usr/bin/env python3"))
)


def imported(script: Path) -> Iterator[tuple[str, str | None]]:
    """Our modules, and the names that are taken from them."""
    for node in ast.walk(ast.parse(script.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: str(path.relative_to(TOOLS)))
def test_a_script_imports_what_exists(script: Path) -> None:
    for module, name in imported(script):
        if module.split(".")[0] not in OURS:
            continue
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if (error.name or "").split(".")[0] in OURS:
                raise
            pytest.skip(str(error))
        if name is not None and not hasattr(found, name):
            importlib.import_module(f"{module}.{name}")


def test_there_are_scripts() -> None:
    assert len(SCRIPTS) > 10
