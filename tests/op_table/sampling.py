"""A part of the op table, to which uncommitted changes come first."""

import re
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from functools import cache
from itertools import islice
from pathlib import Path

from tests.op_table.case import Case
from tests.op_table.cover import places
from tests.support import sampling

_ROOT = sampling.ROOT
_OPS = {path: path.read_text("utf-8") for path in (_ROOT / "gles_delegate/ops").rglob("*.py")}
_KERNELS = {p: p.read_text("utf-8") for p in (_ROOT / "gles_delegate/kernels").glob("*.py")}
_PRODUCT = _ROOT / "gles_delegate/ops/lib/product.py"
_TABLE = {path: path.read_text("utf-8") for path in Path(__file__).parent.glob("*.py")}
_GLSL = {
    str(path.relative_to(_ROOT / "glsl")): path.read_text("utf-8")
    for path in (_ROOT / "glsl").rglob("*.glsl")
}
_INCLUDE = re.compile(r'#include "(.+)"')


def sample(cases: Sequence[Case], most: int, seed: int | None = None) -> list[Case]:
    """At most `most` of the cases: one of each row, then those whose plans have the most.

    `sampling.seed` draws a fifth. With a `seed` of its own, that draws all but the rows'.
    Rows that `sampling.changed` concerns come first; a file that concerns more than half of the
    rows puts none first.
    """
    rows = {case.op for case in cases}
    concerned = (rows_of(file, rows) for file in sampling.changed)
    first = {row for some in concerned if 2 * len(some) < len(rows) for row in some}
    cover = places() if seed is None else {}

    def order(case: Case) -> tuple[int, int]:
        return cover.get(case.id, len(cover)), sampling.rank(case.id, seed)

    in_order = sorted(cases, key=order)
    ones: dict[str, Case] = {}
    for case in in_order:
        ones.setdefault(case.op, case)
    one_each = sorted(ones.values(), key=lambda case: case.op not in first)
    wanted = [*one_each, *(case for case in in_order if case.op in first)]
    taken = {case.id for case in islice({case.id: case for case in wanted}.values(), most)}
    room = most - len(taken)
    others = [case for case in in_order if case.id not in taken]
    taken |= {case.id for case in others[: room - room // 5]}
    by_seed = sorted(others, key=lambda case: sampling.rank(case.id, seed))
    drawn = (case for case in by_seed if case.id not in taken)
    taken |= {case.id for case in islice(drawn, room // 5)}
    return [case for case in cases if case.id in taken]


def one_of_each(
    cases: Iterable[Case], kind: Callable[[Case], Hashable], seed: int | None = 0
) -> list[Case]:
    """One case of each kind, the same in every commit, or drawn as by `sample`."""
    return some_of_each(cases, kind, 1, seed)


def some_of_each(
    cases: Iterable[Case], kind: Callable[[Case], Hashable], most: int, seed: int | None = None
) -> list[Case]:
    """At most that many cases of each kind; see `one_of_each`."""
    kinds: dict[Hashable, list[Case]] = {}
    for case in sorted(cases, key=lambda case: sampling.rank(case.id, seed)):
        kinds.setdefault(kind(case), []).append(case)
    return [case for of_kind in kinds.values() for case in of_kind[:most]]


def rows_of(file: str, rows: Collection[str]) -> set[str]:
    """The rows, of these, whose models, lowering or shader a file of the checkout has.

    A lowering and the module of a row name the op in quotes; a lowering, or what it imports from
    ``ops/lib``, its shader. Kernels concern all ops that are products.
    """
    path = _ROOT / file
    if path in _KERNELS:
        path = _PRODUCT
    if path.suffix == ".glsl":
        names = "|".join(Path(name).stem for name in _including(file.removeprefix("glsl/")))
        named = re.compile(f'"({names})"')
        users = {op for op, text in _OPS.items() if named.search(text)}
        users |= {_PRODUCT for text in _KERNELS.values() if named.search(text)}
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
