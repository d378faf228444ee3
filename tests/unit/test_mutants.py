"""The wrong lines that tools/mutants makes."""

from __future__ import annotations

import ast
import runpy
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest

from tests.support import wrong_lines
from tests.support.wrong_lines import ROOT, mutants_of, room_of, sample

Changes = set[tuple[int, str]]
"""Numbers and texts of lines."""

PYTHON = '''"""A text with 1 + 2."""
from a import b

@dataclass(frozen=True)
class C:
    x: Array[3] | None = None  # and 4

def f(a: int = 5) -> Tuple[6]:
    """Returns a + 7."""
    if not a or a < 8:
        raise ValueError(f"{a + 9} is not 10")
    log.info("%d", a - 11)
    for one, other in zip(a, a, strict=True):
        g(one, other)
    return a
'''
GLSL = """// 1 + 2
#ifndef ASSEMBLED
#define SIZE 3
#if SIZE == 4
#endif
#endif
#include "lib/tensor.glsl"
void main() {
  if (a < 5) b = max(x + y, v.x);  // or 6
  return c;
}
"""


@pytest.fixture
def changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], Changes]:
    """Called with a text and a suffix: the other versions of each line."""

    def change(text: str, suffix: str) -> Changes:
        path = tmp_path / f"a{suffix}"
        path.write_text(text, "utf-8")
        actual = (m for mutants in mutants_of(path).values() for m in mutants if m.text is not None)
        return {(mutant.line, mutant.after.strip()) for mutant in actual}

    monkeypatch.setattr(wrong_lines, "ROOT", tmp_path)
    return change


def test_wrong_lines_of_a_module(changes: Callable[[str, str], Changes]) -> None:
    conditions = (
        *("if a or a < 8:", "if not a and a < 8:", "if not a or a <= 8:"),
        *("if not a or a < 9:", "if not a or a < 7:", "if not (not a or a < 8):"),
    )
    others = {(14, "g(one)"), (15, "return None")}
    assert changes(PYTHON, ".py") == {(10, line) for line in conditions} | others


def test_wrong_lines_of_a_shader(changes: Callable[[str, str], Changes]) -> None:
    line = "if (a < 5) b = max(x + y, v.x);  // or 6"
    swaps = {
        "<": "<=",
        "5": "6",
        "5)": "4)",
        "max": "min",
        "+": "-",
        ".x": ".y",
        "a < 5": "!(a < 5)",
    }
    wrong = {(9, line.replace(before, after, 1)) for before, after in swaps.items()}
    assert changes(GLSL, ".glsl") == wrong | {(10, "return -(c);")}


@pytest.mark.source
def test_a_sample_takes_from_each_room_in_turn() -> None:
    rooms = ["gles_delegate/planning", "gles_delegate/shaders", "glsl"]
    mutants = [*islice(sample(rooms, 3), 12)]
    order = [room_of(mutant.file) for mutant in mutants[:3]]
    assert sorted(order) == rooms
    assert [room_of(mutant.file) for mutant in mutants] == order * 4
    assert [*islice(sample(rooms, 3), 12)] == mutants
    assert [*islice(sample(rooms, 4), 12)] != mutants
    assert len({(mutant.file, mutant.line) for mutant in mutants}) == 12
    for mutant in mutants:
        lines = (ROOT / mutant.file).read_text("utf-8").split("\n")
        assert lines[mutant.line - 1] == mutant.before != mutant.after
        if mutant.file.endswith(".py"):
            ast.parse(mutant.text)


@pytest.mark.source
def test_of_a_line_that_is_named_every_mutant() -> None:
    place = "glsl/lib/recurrence.glsl:44"
    mutants = [*sample([place], 0)]
    assert len(mutants) > 1
    assert {f"{mutant.file}:{mutant.line}" for mutant in mutants} == {place}


def test_the_table_on_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| a |\n\n## Mutants\n\nText.\n\n| old |\n|---|\n\n## More\n\n| b |\n", "utf-8")
    write_table = runpy.run_path(str(ROOT / "tools" / "mutants"))["write_table"]
    write_table(page, "| new |\n|---|")
    assert page.read_text("utf-8") == (
        "| a |\n\n## Mutants\n\nText.\n\n| new |\n|---|\n\n## More\n\n| b |\n"
    )
    page.write_text("No heading.\n", "utf-8")
    with pytest.raises(SystemExit, match="expected the heading '## Mutants'"):
        write_table(page, "")
