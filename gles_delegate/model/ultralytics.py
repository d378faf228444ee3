"""Metadata that Ultralytics' exporter appends to a model: class names, the task, sizes.

The file is JSON (metadata.json), a Python dictionary (temp_meta.txt, meta.txt) or YAML.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SUFFIXES = (".json", ".txt", ".yaml", ".yml")
TASKS = ("detect", "segment", "pose", "obb", "classify")
LONGEST = 1 << 20  # limit of the file, in bytes
DEEPEST = 8  # limit of the nesting of its lists and dictionaries

TOKEN = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<word>[^\s"'{}\[\]():,]+)|"""
    r"""(?P<mark>[{}\[\]():,])|(?P<end>\Z))""",
    re.DOTALL,
)
CLOSING = {"{": "}", "[": "]", "(": ")"}
ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
CONTROLS = {"n": "\n", "r": "\r", "t": "\t"}
YAML_LINE = re.compile(r"""( *)(?:(-) +|("[^"]*"|'[^']*'|[^\s:#"'-][^:]*):(?: +|$))(.*)""")


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
    text = data.decode("utf-8", "replace")
    try:
        values = _parse(text) if text.lstrip()[:1] == "{" else _parse_yaml(text)
    except ValueError:
        return None
    names = _names(values.get("names"))
    size, stride, task = (values.get(name) for name in ("imgsz", "stride", "task"))
    if task not in TASKS and not (names and stride):
        return None
    return Export(
        names,
        str(task) if task in TASKS else "",
        stride if isinstance(stride, int) and _is_size(stride) else 0,
        _pair([size, size] if isinstance(size, int) else size),
        _points(values.get("kpt_shape")),
        {key: value for key, value in values.items() if isinstance(value, str)},
    )


def _names(value: Any) -> tuple[str, ...]:
    """Names by number, from a list or a dictionary with the keys 0, 1, ..."""
    if isinstance(value, list):
        value = dict(enumerate(value))
    if not isinstance(value, dict) or not all(isinstance(n, str | int) for n in value.values()):
        return ()
    names = {str(key): " ".join(str(name).split()) for key, name in value.items()}
    numbers = [str(number) for number in range(len(names))]
    return tuple(names[number] for number in numbers) if set(numbers) == set(names) else ()


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and 0 < value < 1 << 16


def _pair(value: Any) -> tuple[int, int] | None:
    if isinstance(value, list) and len(value) == 2 and all(map(_is_size, value)):
        return value[0], value[1]
    return None


def _points(value: Any) -> tuple[int, int] | None:
    pair = _pair(value)
    return pair if pair and pair[1] in (2, 3) else None


def _parse(text: str) -> dict[Any, Any]:
    """A dictionary of JSON or Python literals; raises ValueError if it is none."""
    tokens = _tokens(text)
    value = _value(next(tokens), tokens, 0)
    if not isinstance(value, dict) or next(tokens) != ("end", ""):
        raise ValueError("expected one dictionary")
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """The kind and text of each token, and of the end once."""
    position, kind = 0, ""
    while kind != "end":
        match = TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            raise ValueError(f"expected a literal at character {position}")
        position, kind = match.end(), match.lastgroup
        yield kind, match[kind]


def _value(token: tuple[str, str], tokens: Iterator[tuple[str, str]], depth: int) -> Any:
    """The value that starts with a token; takes its other tokens."""
    kind, text = token
    if kind == "text":
        return _unquoted(text)
    if kind == "word":
        return int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text) else text
    if kind == "end" or text not in CLOSING or depth == DEEPEST:
        raise ValueError(f"expected a value of at most {DEEPEST} levels, found {text!r}")
    items: list[Any] = []
    pairs: dict[Any, Any] = {}
    end = ("mark", CLOSING[text])
    token = next(tokens)
    while token != end:
        item = _value(token, tokens, depth + 1)
        token = next(tokens)
        if text == "{":
            if token != ("mark", ":") or not isinstance(item, str | int):
                raise ValueError("expected a key and its value")
            pairs[item] = _value(next(tokens), tokens, depth + 1)
            token = next(tokens)
        else:
            items.append(item)
        if token == ("mark", ","):
            token = next(tokens)
        elif token != end:
            raise ValueError(f"expected a comma, found {token[1]!r}")
    return pairs if text == "{" else items


def _unquoted(text: str) -> str:
    """The value of a string literal of JSON or Python."""

    def plain(match: re.Match[str]) -> str:
        digits = match[1] or match[2] or match[3]
        if digits is None:
            return CONTROLS.get(match[4], match[4])
        return chr(int(digits, 16)) if int(digits, 16) <= sys.maxunicode else "\ufffd"

    value = ESCAPE.sub(plain, text[1:-1])
    # JSON has pairs of surrogates; a lone one cannot be printed.
    return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _parse_yaml(text: str) -> dict[Any, Any]:
    """The pairs of a YAML file, whose values are scalars or indented lines of them."""
    values: dict[Any, Any] = {}
    top = ""
    for line in text.splitlines():
        match = YAML_LINE.fullmatch(line.rstrip())
        if match is None:
            continue
        indent, dash, key, value = match.groups()
        if not (indent or dash):
            top, values[key] = key, _scalar(value)
            continue
        if values.get(top) == "":
            values[top] = [] if dash else {}
        block = values.get(top)
        if dash and isinstance(block, list):
            block.append(_scalar(value))
        elif key and isinstance(block, dict):
            block[key.strip("\"'")] = _scalar(value)
    return values


def _scalar(text: str) -> Any:
    """A value of YAML on one line; any other text stays as it is."""
    try:
        tokens = _tokens(text)
        value = _value(next(tokens), tokens, 0)
        return value if next(tokens) == ("end", "") else text
    except (ValueError, StopIteration):
        return text
