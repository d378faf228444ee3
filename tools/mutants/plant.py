"""Wrong lines, planted into a copy of the checkout at once, each behind a switch."""

from __future__ import annotations

import ast
import copy
import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

FOLDERS = {"gles_delegate": 5, "gles_apps": 2, "glsl": 3}
"""Shares of the faults."""
LEFT_OUT = ("bench", "cli", "pyinstaller", "ray")
"""Folders of packages whose faults users see at once, or whose tests are others."""
SWITCHES = "gles_delegate/_mutants.py"

_LIFETIME = re.compile(
    r"(release|close|unbind|delete|free|clear|finish|wait|barrier|discard|pop|remove|stop|join)"
)
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv,
}
_BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITES = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
_GLSL = (
    *(("boundary", a, b) for a, b in ((" < ", " <= "), (" <= ", " < "), (" > ", " >= "))),
    *(("boundary", a, b) for a, b in ((" >= ", " > "), (" == ", " != "), (" != ", " == "))),
    *(("arithmetic", a, b) for a, b in ((" + ", " - "), (" - ", " + "), (" * ", " + "))),
    *(("arithmetic", a, b) for a, b in ((" / ", " * "), (" % ", " / "))),
    *(("and/or", a, b) for a, b in ((" && ", " || "), (" || ", " && "))),
    *(("min/max", a, b) for a, b in (("min(", "max("), ("max(", "min("))),
)


@dataclass
class Mutant:
    """A fault: in a file's line, `old` becomes `new`."""

    number: int
    file: str
    line: int
    kind: str
    old: str
    new: str


def plant(root: Path, count: int, seeds: Sequence[int]) -> list[Mutant]:
    """Plant `count` faults by each seed into the checkout `root`.

    The variable MUTANT of the environment chooses one.
    """
    mutants: list[Mutant] = []
    edits: dict[Path, list[tuple[int, int, str]]] = {}
    for choose in map(random.Random, seeds):
        _plant_more(root, len(mutants) + count, choose, mutants, edits)
    for path, planted in edits.items():
        if path.suffix == ".py":
            _write(path, planted)
    (root / "mutants.json").write_text(json.dumps([asdict(mutant) for mutant in mutants]))
    (root / SWITCHES).write_text((Path(__file__).parent / "switches.py").read_text())
    _switch_glsl(root)
    return mutants


def _plant_more(
    root: Path,
    count: int,
    choose: random.Random,
    mutants: list[Mutant],
    edits: dict[Path, list[tuple[int, int, str]]],
) -> None:
    while len(mutants) < count:
        (folder,) = choose.choices([*FOLDERS], [*FOLDERS.values()])
        files = sorted(path for path in (root / folder).rglob("*.*") if _may_be_wrong(path, root))
        (path,) = choose.choices(files, [path.stat().st_size for path in files])
        faults = _glsl_faults if folder == "glsl" else _python_faults
        found = [*faults(path)]
        if not found:
            continue
        kind = choose.choice(sorted({fault[0] for fault in found}))
        _, line, start, end, new = choose.choice([fault for fault in found if fault[0] == kind])
        others = edits.setdefault(path, [])
        if any(start < last and first < end for first, last, _ in others):
            continue
        text = path.read_bytes()
        old = text[start:end].decode()
        number = len(mutants)
        name = str(path.relative_to(root))
        mutants.append(Mutant(number, name, line, kind, old, new or "(gone)"))
        others.append((start, end, _switched(number, old, new) if path.suffix == ".py" else old))


def _may_be_wrong(path: Path, root: Path) -> bool:
    parts = path.relative_to(root).parts
    is_code = path.suffix in (".py", ".glsl") and not path.is_symlink()
    return (
        is_code and not {*parts} & {*LEFT_OUT} and "glsl" not in parts[1:-1] and parts[1] != "live"
    )


def _switched(number: int, old: str, new: str) -> str:
    if not new:
        return f"if not _mutant({number}): {old}"
    return f"(({new}) if _mutant({number}) else ({old}))"


def _write(path: Path, planted: list[tuple[int, int, str]]) -> None:
    text = path.read_bytes()
    for start, end, switched in sorted(planted, reverse=True):
        text = text[:start] + switched.encode() + text[end:]
    lines = text.decode().split("\n")
    last = 0  # of the docstring and of imports from __future__
    for statement in ast.parse(text).body:
        is_docstring = isinstance(statement, ast.Expr) and not last
        is_future = isinstance(statement, ast.ImportFrom) and statement.module == "__future__"
        if not (is_docstring or is_future):
            break
        last = statement.end_lineno or 0
    lines.insert(last, "from gles_delegate._mutants import is_on as _mutant")
    source = "\n".join(lines)
    compile(source, str(path), "exec")
    path.write_text(source, "utf-8")


def _switch_glsl(root: Path) -> None:
    files = root / "gles_delegate/shaders/files.py"
    old = 'return file.read_text(encoding="utf-8")'
    text = files.read_text()
    assert text.count(old) == 1
    new = "return _mutants.shader(name, file.read_text(encoding='utf-8'))"
    text = text.replace(old, f"from gles_delegate import _mutants; {new}")
    files.write_text(text)
    program = root / "gles_delegate/gl/program.py"
    old = "text = ctypes.c_char_p(self._source.text.encode())"
    text = program.read_text()
    assert text.count(old) == 1
    new = "from gles_delegate import _mutants; _mutants.compiled(self._source.text)"
    program.write_text(text.replace(old, f"{new}; {old}"))


Fault = tuple[str, int, int, int, str]
"""Its kind, line, first and last byte, and the new text; "" takes a statement out."""


def _python_faults(path: Path) -> Iterator[Fault]:
    text = path.read_bytes()
    starts = [0]
    for line in text.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    tree = ast.parse(text)
    for node in _in_functions(tree):
        for kind, old, new in _changed(node):
            start = starts[old.lineno - 1] + old.col_offset
            end = starts[(old.end_lineno or 0) - 1] + (old.end_col_offset or 0)
            is_first = not text[starts[old.lineno - 1] : start].strip()
            if new is None and is_first:
                yield kind, old.lineno, start, end, ""
            elif new is not None:
                changed = ast.unparse(ast.fix_missing_locations(new))
                if changed != text[start:end].decode():
                    yield kind, old.lineno, start, end, changed


def _in_functions(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of functions' bodies, without annotations and texts of messages."""
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, inside = pending.pop()
        if inside:
            yield node
        if isinstance(
            node, ast.Raise | ast.JoinedStr | ast.Assert | ast.AnnAssign | ast.match_case
        ):
            continue
        is_function = isinstance(node, ast.FunctionDef)
        for name, value in ast.iter_fields(node):
            if name in ("args", "returns", "decorator_list", "annotation") and is_function:
                continue
            children = value if isinstance(value, list) else [value]
            parts = [child for child in children if isinstance(child, ast.AST)]
            pending += [(child, inside or (is_function and name == "body")) for child in parts]


def _changed(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, ast.AST | None]]:
    """Faults of a node: the kind, what changes, and what it becomes."""
    other = copy.deepcopy(node)
    if isinstance(node, ast.BinOp) and isinstance(other, ast.BinOp):
        texts = (ast.JoinedStr, ast.List, ast.Tuple, ast.Dict, ast.Set)
        is_text = any(
            isinstance(side, texts)
            or (isinstance(side, ast.Constant) and isinstance(side.value, str))
            for side in (node.left, node.right)
        )
        if type(node.op) in _ARITHMETIC and not is_text:
            other.op = _ARITHMETIC[type(node.op)]()
            yield "arithmetic", node, other
    elif isinstance(node, ast.Compare) and isinstance(other, ast.Compare) and len(node.ops) == 1:
        kind = type(node.ops[0])
        other.ops = [(_BOUNDARIES | _OPPOSITES)[kind]()]
        yield ("boundary" if kind in _BOUNDARIES else "negated"), node, other
    elif isinstance(node, ast.BoolOp) and isinstance(other, ast.BoolOp):
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", node, other
    elif isinstance(node, ast.If):
        first = node.body[0]
        leaves = isinstance(first, ast.Raise | ast.Return | ast.Continue)
        yield ("guard off" if leaves else "branch off"), node.test, ast.Constant(False)
        if not leaves:
            yield "branch on", node.test, ast.Constant(True)
    elif isinstance(node, ast.IfExp):
        yield "branch on", node.test, ast.Constant(True)
        yield "branch off", node.test, ast.Constant(False)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        is_lifetime = _LIFETIME.search(ast.unparse(node.value.func))
        yield ("lifetime call" if is_lifetime else "dropped call"), node, None
    elif isinstance(node, ast.Raise):
        yield "dropped raise", node, None
    elif isinstance(other, ast.Call) and isinstance(other.func, ast.Name):
        swapped = {"min": "max", "max": "min"}.get(other.func.id)
        if swapped and len(other.args) > 1:
            other.func.id = swapped
            yield "min/max", node, other


def _glsl_faults(path: Path) -> Iterator[Fault]:
    at = 0
    depth: list[bool] = []
    is_comment = False
    for number, line in enumerate(path.read_text("utf-8").split("\n"), 1):
        text = line.strip()
        if text.startswith("#if"):
            depth.append("ifndef ASSEMBLED" in text)
        elif text.startswith("#endif") and depth:
            depth.pop()
        is_comment = is_comment or text.startswith("/*")
        was_comment = is_comment
        is_comment = is_comment and "*/" not in text
        is_directive = text.startswith("#") and not text.startswith("#define")
        if not (was_comment or any(depth) or is_directive or text.startswith(("//", "layout"))):
            code = line.split("//")[0]
            for kind, old, new in _GLSL:
                for match in re.finditer(rf"(?<![\w]){re.escape(old)}", code):
                    changed = code[: match.start()] + new + code[match.end() :]
                    yield f"glsl {kind}", number, at, at + len(line.encode()), changed
        at += len(line.encode()) + 1
