"""A part of the op table, to which recent changes come first."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from tests.op_table.case import Case
from tests.support import sampling

_ROOT = sampling.ROOT
_OPS = {path: path.read_text("utf-8") for path in (_ROOT / "gles_delegate/ops").rglob("*.py")}
_TABLE = {path: path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")}
_GLSL = {
    str(path.relative_to(_ROOT / "glsl")): path.read_text("utf-8")
    for path in (_ROOT / "glsl").rglob("*.glsl")
}
_INCLUDE = re.compile(r'#include "(.+)"')


def sample(cases: Sequence[Case], most: int) -> list[Case]:
    """At most `most` of the cases: one of each row, then more.

    Rows that `sampling.changed` concerns come first, the newest change before others; a file that
    concerns more than half of the rows puts none first. Which cases of a row come first depends on
    nothing else.
    """
    rows = {case.op for case in cases}
    changes = [rows_of(file, rows) for file in sampling.changed]
    changes = [concerned for concerned in changes if 2 * len(concerned) < len(rows)]
    ranks = {
        row: next((i for i, concerned in enumerate(changes) if row in concerned), len(changes))
        for row in rows
    }
    lowest: dict[str, Case] = {}
    for case in cases:
        lowest[case.op] = min(lowest.get(case.op, case), case, key=lambda each: each.hash)

    def order(case: Case) -> tuple[bool, int, int]:
        return case is not lowest[case.op], ranks[case.op], case.hash

    taken = {case.id for case in sorted(cases, key=order)[:most]}
    return [case for case in cases if case.id in taken]


def rows_of(file: str, rows: Collection[str]) -> set[str]:
    """The rows, of these, whose models, lowering or shader a file of the checkout has.

    A lowering and the module of a row name the op in quotes; a lowering, or what it imports from
    ``ops/lib``, its shader.
    """
    path = _ROOT / file
    if path.suffix == ".glsl":
        names = "|".join(Path(name).stem for name in _including(file.removeprefix("glsl/")))
        users = {op for op, text in _OPS.items() if re.search(f'"({names})"', text)}
    else:
        users = {path}
    while libraries := "|".join(user.stem for user in users if user.parent.name == "lib"):
        imports = re.compile(rf"\.lib(\.| import .*\b)({libraries})\b")
        more = {op for op, text in _OPS.items() if imports.search(text)} - users
        if not more:
            break
        users |= more
    text = "".join((_OPS | _TABLE).get(user, "") for user in users if user.parent.name != "lib")
    return {row for row in rows if f'"{row.partition(" (")[0]}"' in text}


@cache
def _including(name: str) -> set[str]:
    """The files of glsl/ that are `name` or include it, themselves or through another."""
    names: set[str] = set()
    more = {name}
    while more - names:
        names |= more
        more = {path for path, text in _GLSL.items() if names & {*_INCLUDE.findall(text)}}
    return names
