"""Which planted fault is on, and which ones a test has met."""

import json
import os
import re
from pathlib import Path
from typing import Any

_on = int(os.environ.get("MUTANT", "-1"))
_file = os.environ.get("MUTANTS_MET", "")
met: set[int] = set()
_ROOT = Path(__file__).parents[1]
_glsl = [
    each
    for each in json.loads((_ROOT / "mutants.json").read_text())
    if each["file"].startswith("glsl/")
]


def _mark(fault: dict[str, Any]) -> tuple[re.Pattern[str], str]:
    """What a program with the fault's line has, and the macro whose text the line is of, or ""."""
    lines = (_ROOT / fault["file"]).read_text("utf-8").split("\n")
    first = fault["line"] - 1
    while lines[first - 1].endswith("\\"):
        first -= 1
    macro = re.match(r"#define (\w+)", lines[first])
    line = re.escape(" ".join(fault["old"].split("//")[0].split()))
    counters = "|".join(re.findall(r"for \(int (\w+) =", "\n".join(lines)))  # unrolled, maybe
    if counters:
        line = re.sub(rf"\b({counters})\b", r"\\w+", line)
    return re.compile(line), macro[1] if macro else ""


_marks = {each["number"]: _mark(each) for each in _glsl}


def note(number: int) -> None:
    """Note that a fault is met; a child process notes it in the file of its parent's test."""
    if number not in met:
        met.add(number)
        if _file and os.environ.get("MUTANTS_PROCESS") != str(os.getpid()):
            with open(_file, "a") as file:
                file.write(f"{number}\n")


def is_on(number: int) -> bool:
    note(number)
    return number == _on


def shader(name: str, text: str) -> str:
    """The text of a file of glsl/, with the fault that is on."""
    for each in _glsl:
        if each["number"] == _on and each["file"] == f"glsl/{name}":
            lines = text.split("\n")
            assert lines[each["line"] - 1] == each["old"]
            lines[each["line"] - 1] = each["new"]
            return "\n".join(lines)
    return text


def compiled(text: str) -> None:
    """Note the lines that a program has; of a macro, if it is used."""
    text = " ".join(text.split())
    for number, (mark, macro) in _marks.items():
        is_used = not macro or len(re.findall(rf"\b{macro}\b", text)) > 1
        if is_used and mark.search(text):
            note(number)
