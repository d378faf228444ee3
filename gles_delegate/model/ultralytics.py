"""Metadata that Ultralytics' exporter appends to a model: class names, the task, sizes.

The file is JSON (metadata.json) or a literal of a Python dictionary (temp_meta.txt, meta.txt).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SUFFIXES = (".json", ".txt")
TASKS = ("detect", "segment", "pose", "obb", "classify")
LONGEST = 1 << 20  # limit of the file, in bytes

OPERATOR = re.compile(r"""[\w)\]}'"]\s*[-+*/%@&|^<>.(\[]""")
MAX_OPERATORS = 10_000
"""Maximum matches of OPERATOR in a Python literal: long chains such as 1+1+1 can overflow the
stack of `ast.literal_eval`, as its documentation warns. Floats and texts have some matches, too."""


@dataclass(frozen=True)
class Export:
    """The exporter's record; fields are empty if they are missing or make no sense.

    Attributes:
        names: Names of classes, by their number.
        task: One of `TASKS`, or "".
        stride: Pixels between the cells of the coarsest grid; 0 if unknown.
        size: Height and width of the input the network was exported for.
        points: Number of a pose's key points, and of each point's numbers.
        texts: Other fields by name, such as "license".
    """

    names: tuple[str, ...] = ()
    task: str = ""
    stride: int = 0
    size: tuple[int, int] | None = None
    points: tuple[int, int] | None = None
    texts: Mapping[str, str] = field(default_factory=dict)


def parse_export(data: bytes) -> Export | None:
    """The exporter's file; None if it is another file, is damaged, or is too long."""
    if len(data) > LONGEST:
        return None
    values = _dictionary(data.decode("utf-8", "replace").strip())
    if values is None:
        return None
    names = _names(values.get("names"))
    size, stride, task = (values.get(name) for name in ("imgsz", "stride", "task"))
    points = _pair(values.get("kpt_shape"))
    if task not in TASKS and not (names and stride):
        return None
    return Export(
        names,
        str(task) if task in TASKS else "",
        stride if isinstance(stride, int) and _is_size(stride) else 0,
        _pair(size if isinstance(size, list | tuple) else [size, size]),
        points if points and points[1] in (2, 3) else None,
        {key: _valid(value) for key, value in values.items() if isinstance(value, str)},
    )


def _dictionary(text: str) -> dict[Any, Any] | None:
    """A dictionary of JSON or Python literals; None if the text is anything else."""
    if not text.startswith("{"):
        return None
    try:
        return dict(json.loads(text))
    except (ValueError, RecursionError, MemoryError):
        pass
    if len(OPERATOR.findall(text)) > MAX_OPERATORS:
        return None
    try:
        return dict(ast.literal_eval(text))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return None


def _valid(text: str) -> str:
    """The text without lone surrogates, which cannot be printed."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _names(value: Any) -> tuple[str, ...]:
    """Names by number, from a list or a dictionary with the keys 0, 1, ..."""
    if isinstance(value, list | tuple):
        value = dict(enumerate(value))
    if not isinstance(value, dict):
        return ()
    names = [value.get(number, value.get(str(number))) for number in range(len(value))]
    if not all(isinstance(name, str) or name == 0 or _is_size(name) for name in names):
        return ()
    return tuple(" ".join(_valid(str(name)).split()) for name in names)


def _is_size(value: Any) -> bool:
    return type(value) is int and 0 < value < 1 << 16


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list | tuple) and len(value) == 2 and all(map(_is_size, value)):
        return value[0], value[1]
    return None
