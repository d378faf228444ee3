"""Shader files with their includes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

from gles_delegate.shaders.unrolling import MARK, MARKED_LOOP

_INCLUDE = re.compile(r'^\s*#include "(.+)"\s*$')
_FOR_TOOLS = re.compile(r"\s*#(version|extension GL_GOOGLE_include_directive)\b")
_EXAMPLES = re.compile(r"\s*#ifndef ASSEMBLED\b")
_IF = re.compile(r"\s*#if")
_ENDIF = re.compile(r"\s*#endif")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CONSTANT = re.compile(
    r"#(?:if|elif)\b.*|\[[^\[\]]*\]|\bconst\b[^;]*;|\blayout\b *\([^)]*\)|\bcase\b[^:]*:"
)
"""Where GLSL asks for constants, and where it may: in brackets, which index or give a length."""

_DEFINE = re.compile(r"^\s*#define (\w+)(.*)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")


@dataclass(frozen=True)
class Body:
    """A file with its includes, without comments.

    Attributes:
        lines: Of each line of the text, the file it stands in and its number there.
        words: All identifiers.
        constants: Macros that may have to be constants.
        bounds: The bounds of the marked loops.
        tile_bounds: The bounds of loops over a register tile.
    """

    text: str
    lines: tuple[tuple[str, int], ...]
    words: frozenset[str]
    constants: frozenset[str]
    bounds: tuple[str, ...]
    tile_bounds: tuple[str, ...]


@cache
def read_body(name: str) -> Body:
    """The file `name` with its includes.

    Raises:
        ValueError: A mark stands before something else than a loop that can be unrolled.
    """
    parts = list(_expand(name, set()))
    text = _COMMENT.sub("", "".join(f"{line}\n" for _, _, line in parts))
    loops = list(MARKED_LOOP.finditer(text))
    if len(loops) != text.count(MARK):
        raise ValueError(f"{name}: expected for (int i = 0; i < BOUND; ++i) after each {MARK}")
    bounds = sorted({loop["bound"] for loop in loops})
    tile_bounds = sorted({loop["bound"] for loop in loops if not loop["gpu"]})
    lines = tuple(part[:2] for part in parts)
    words = frozenset(_WORD.findall(text))
    return Body(text, lines, words, _constants(text), tuple(bounds), tuple(tile_bounds))


def _constants(text: str) -> frozenset[str]:
    """See `Body.constants`."""
    text = text.replace("\\\n", " ")
    found = {word for part in _CONSTANT.findall(text) for word in _WORD.findall(part)}
    macros = {name: {*_WORD.findall(value)} for name, value in _DEFINE.findall(text)}
    while more := set().union(*(macros[name] for name in found & macros.keys())) - found:
        found |= more
    return frozenset(found)


def is_own(shader: str) -> bool:
    """Whether it is the name of a file in glsl/, not a path of the app's."""
    return not Path(shader).is_absolute()


def _expand(name: str, seen: set[str]) -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line of a file with its includes in place, each once.

    What serves tools that read the file by itself is left out: its version, the permission to
    include, and the examples of defines.
    """
    seen.add(name)
    depth = 0  # of conditions, inside the examples
    for number, line in enumerate(_read(name).splitlines(), 1):
        if depth or _EXAMPLES.match(line):
            depth += bool(_IF.match(line)) - bool(_ENDIF.match(line))
        elif include := _INCLUDE.match(line):
            if include[1] not in seen:
                yield from _expand(include[1], seen)
        elif not _FOR_TOOLS.match(line):
            yield name, number, line


@cache
def _read(name: str) -> str:
    """The text of a file, by its name in glsl/ or by its absolute path."""
    file = Path(name) if Path(name).is_absolute() else files("gles_delegate.glsl").joinpath(name)
    return file.read_text(encoding="utf-8")
