"""Lists of classes' names: files of labels, and the lists inside models."""

from __future__ import annotations

import os
import re

from gles_delegate.model.files import read_regular

_NUMBERED = re.compile(r"([0-9]{1,6})(\s*[:,\t]\s*|\s+)(\S.*)", re.DOTALL)


def lines_of(data: bytes, errors: str = "strict") -> tuple[str, ...]:
    """The lines of a text in UTF-8, without empty ones at its end.

    Only line feeds end lines: names have form feeds, U+0085 and U+2028, too.
    """
    lines = [line.strip(" \t\r") for line in data.decode("utf-8-sig", errors).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return tuple(lines)


def read_labels(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of classes in a file, one per line, by the classes' numbers.

    An empty line is a class without a name. In a file whose lines all begin with numbers, these
    are the classes'; classes between them are named "class 3".

    Raises:
        OSError: The file cannot be read, or is not a regular one.
        ValueError: It is not in UTF-8.
    """
    try:
        lines = lines_of(read_regular(path))
    except UnicodeDecodeError as error:
        raise ValueError(f"expected names in UTF-8, one per line, in {path}: {error}") from error
    parts = [match.groups() for line in lines if (match := _NUMBERED.fullmatch(line))]
    named = {int(number): name for number, _, name in parts}
    # Names may begin with numbers, too, such as "2 euros".
    are_classes = 0 in named or any(mark != " " for _, mark, _ in parts)
    if not named or len(named) != sum(map(bool, lines)) or not are_classes:
        return lines
    return tuple(named.get(i, f"class {i}") for i in range(max(named) + 1))
