"""Which planted fault is on, and which ones a test has met."""

import json
import os
from pathlib import Path

_on = int(os.environ.get("MUTANT", "-1"))
_file = os.environ.get("MUTANTS_MET", "")
met: set[int] = set()
_glsl = [
    each
    for each in json.loads((Path(__file__).parents[1] / "mutants.json").read_text())
    if each["file"].startswith("glsl/")
]


def _words(text: str) -> str:
    return " ".join(text.split("//")[0].split())


_marks = {each["number"]: _words(each["old"]) for each in _glsl}


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
    """Note the lines that a program has."""
    lines = {_words(line) for line in text.split("\n")}
    for number, mark in _marks.items():
        if mark in lines:
            note(number)
