"""docs/errors.md quotes messages that the package has."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

import gles_delegate as gd

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "errors.md").read_text("utf-8")
ENTRIES = [entry.split("\n- ")[0] for entry in re.split(r"\n- (?=`)", PAGE)[1:]]
HOLE = "\0"
"""Stands for what a message is filled with."""


def text(node: ast.AST) -> str:
    """A string of the source as far as it is known."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"%[sd]", HOLE, node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(map(text, node.values))
    if isinstance(node, ast.BinOp):
        return text(node.left) + text(node.right)
    return HOLE


@cache
def messages() -> str:
    """Every string of the package, one a line."""
    kinds = (ast.Constant, ast.JoinedStr, ast.BinOp)
    files = [
        path for name in ("gles_apps", "gles_delegate") for path in (ROOT / name).rglob("*.py")
    ]
    trees = (ast.parse(path.read_text("utf-8")) for path in files)
    actual = {text(node) for tree in trees for node in ast.walk(tree) if isinstance(node, kinds)}
    return "\n".join(message.replace("\n", " ") for message in actual)


def quoted(entry: str) -> str:
    """The message of an entry, which stands behind the name of its error if it has one."""
    names = [" ".join(name.split()) for name in re.findall(r"`([^`]+)`(?=:)", entry)]
    return next(name for name in names if name not in gd.__all__)


@pytest.mark.source
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: quoted(entry)[:40])
def test_messages_are_those_of_the_source(entry: str) -> None:
    message = quoted(entry)
    parts = [part for part in re.split(r"\.\.\.", message) if part.strip()]
    pattern = ".*".join(re.escape(part) for part in parts)
    assert re.search(pattern, messages()), message


def test_every_error_is_on_the_page() -> None:
    errors = [name for name in gd.__all__ if name.endswith("Error")]
    assert [name for name in errors if not re.search(rf"\b{name}`", PAGE)] == []
    assert len(ENTRIES) > 40
