"""Ops are known in one place."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import gles_delegate as gd
from gles_delegate.model.schema import BUILTIN_OPERATORS, OPTIONS, OPTIONS_2
from gles_delegate.ops import supported_ops
from gles_delegate.ops.lib.registry import op_of
from tests.support.schema import BUILTIN_OPTIONS
from tests.support.tflite_builder import options_table

PACKAGE = Path(gd.__file__).parent

NAMING_OPS = {
    "bench/device.py": "builds the models that it measures",
    "bench/kernels.py": "builds the models that it measures",
    "litert/check.py": "builds the model that it tests LiteRT with",
    "litert/native.py": "DELEGATE is LiteRT's name of a delegate's node, not an op of models",
    "model/reader.py": "CUSTOM stands for a custom op without a name",
    "model/schema.py": "the schema",
    "planning/cells.py": "recognizes the cells of recurrent layers",
    "planning/patterns.py": "recognizes index arithmetic of converters",
    "planning/unrolled.py": "recognizes the nodes between the cells of unrolled layers",
    "planning/recurrence.py": "recognizes recurrent layers in the nodes of a loop",
}
"""Files outside ops/ in which names of ops are strings, with the reason."""


@cache
def trees() -> dict[str, ast.Module]:
    """The modules of both packages, by their paths in them."""
    return {
        path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for folder in (PACKAGE, PACKAGE.parent / "gles_apps")
        for path in sorted(folder.rglob("*.py"))
    }


def op_names(tree: ast.AST) -> Iterator[str]:
    """Strings that are names of ops."""
    names = {*BUILTIN_OPERATORS, *supported_ops()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in names:
            yield f"line {node.lineno}: {node.value}"


def test_only_ops_know_names_of_ops() -> None:
    """Others ask for facts; see `gles_delegate.ops.lib.registry.Op`."""
    naming = {
        path: names
        for path, tree in trees().items()
        if not path.startswith("ops/") and (names := [*op_names(tree)])
    }
    assert {path: names for path, names in naming.items() if path not in NAMING_OPS} == {}
    assert sorted(NAMING_OPS.keys() - naming.keys()) == [], "take them out of NAMING_OPS"


def test_options_of_another_op_are_not_read() -> None:
    """The reader knows the table of each op that has options, by its number in the schema."""
    for op in BUILTIN_OPERATORS:
        if op_of(op).options.kinds() and op not in OPTIONS_2:
            assert OPTIONS.get(op) == BUILTIN_OPTIONS.index(options_table(op)), op
