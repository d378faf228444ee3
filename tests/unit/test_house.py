"""The package's house rules: small functions, one name for one class, ops known in one place.

The number of parameters is limited by ruff; see pyproject.toml.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import gles_delegate as gd
from gles_delegate.model.schema import BUILTIN_OPERATORS
from gles_delegate.ops import supported_ops

PACKAGE = Path(gd.__file__).parent
TREES = {
    path.relative_to(folder).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
    for folder in (PACKAGE, PACKAGE.parent / "gles_apps")
    for path in sorted(folder.rglob("*.py"))
}

MOST_COMPLEX = 25

SHARED_NAMES = {
    "TaskPredictor": "as `Predictor`",
    "Delegate": "MediaPipe's name of the place where a task runs",
    "Detection": "MediaPipe's name of a task's result",
    "Predictor": "batch/ and ray/ offer the same class, on one device and on a cluster",
}

NAMING_OPS = {
    "bench/device.py": "builds the models that it measures",
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

BRANCHES = (
    ast.If | ast.IfExp | ast.For | ast.While | ast.Assert | ast.ExceptHandler | ast.match_case
)


def complexity(function: ast.AST) -> int:
    """Cyclomatic complexity, counted as radon does; nested functions count separately."""
    count, nodes = 1, [function]
    while nodes:
        for node in ast.iter_child_nodes(nodes.pop()):
            if isinstance(node, ast.FunctionDef | ast.Lambda | ast.ClassDef):
                continue
            if isinstance(node, ast.BoolOp):
                count += len(node.values) - 1
            elif isinstance(node, ast.comprehension):
                count += 1 + len(node.ifs)
            else:
                count += isinstance(node, BRANCHES)
            nodes.append(node)
    return count


def op_names(tree: ast.AST) -> Iterator[str]:
    """Strings that are names of ops."""
    names = {*BUILTIN_OPERATORS, *supported_ops()}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in names:
            yield f"line {node.lineno}: {node.value}"


def test_complexity_is_counted_as_radon_does() -> None:
    text = (
        "def f(x):\n"
        "    assert x\n"
        "    for i in x:\n"
        "        if i and x or not x: return [a for a in x if a if not i]\n"
        "    try: return 1 if x else 2\n"
        "    except E: return lambda: 3 if x else 4\n"
    )
    assert complexity(ast.parse(text).body[0]) == 11


def test_functions_are_small() -> None:
    complex_functions = [
        f"{path}:{node.lineno} {node.name}"
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and complexity(node) > MOST_COMPLEX
    ]
    assert complex_functions == [], "split them"


def test_no_two_classes_share_a_name() -> None:
    names = Counter(
        node.name
        for tree in TREES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
    )
    twice = {name for name, count in names.items() if count > 1}
    assert sorted(twice - SHARED_NAMES.keys()) == [], "rename one"
    assert sorted(SHARED_NAMES.keys() - twice) == [], "take them out of SHARED_NAMES"


def test_only_ops_know_names_of_ops() -> None:
    """Others ask for facts; see `gles_delegate.ops.lib.registry.Op`."""
    naming = {
        path: names
        for path, tree in TREES.items()
        if not path.startswith("ops/") and (names := [*op_names(tree)])
    }
    assert {path: names for path, names in naming.items() if path not in NAMING_OPS} == {}
    assert sorted(NAMING_OPS.keys() - naming.keys()) == [], "take them out of NAMING_OPS"
