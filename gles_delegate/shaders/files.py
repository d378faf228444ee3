"""Shader files with their includes, and the unrolling of marked loops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files
from pathlib import Path

_INCLUDE = re.compile(r'^\s*#include "(.+)"\s*$')
_FOR_TOOLS = re.compile(r"\s*#(version|extension GL_GOOGLE_include_directive)\b")
_EXAMPLES = re.compile(r"\s*#ifndef ASSEMBLED\b")
_IF = re.compile(r"\s*#if")
_ENDIF = re.compile(r"\s*#endif")
_WORD = re.compile(r"[A-Za-z_]\w*")
_CONSTANT = re.compile(
    r"#(?:if|elif)\b.*|\[[^\[\]]*\]|\bconst\b[^;]*;|\blayout\b *\([^)]*\)|\bcase\b[^:]*:"
)
"""Code where GLSL requires constants, or may: brackets hold an index or a length."""
_DEFINE = re.compile(r"^\s*#define (\w+)(.*)", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")
MARK = "#pragma unroll"
MARKED_LOOP = re.compile(
    rf"^{MARK}(?P<gpu>\(gpu\))?(?P<gap>\s+)"
    r"for \(int (?P<i>\w+) = (?P<first>\d+); (?P=i) < (?P<bound>\w+); \+\+(?P=i)\)",
    re.MULTILINE,
)
"""``#pragma unroll`` marks a loop over a register tile; ``#pragma unroll(gpu)`` marks another loop,
which llvmpipe would compile for many seconds. Tools ignore both."""
_MAX_CHARACTERS = 1 << 11
"""Maximum characters of an unrolled loop, unless only loops over tiles are unrolled: SwiftShader
compiles long code slowly."""


@dataclass(frozen=True)
class Body:
    """A file with its includes, without comments.

    Attributes:
        lines: File and line number of each line of the text.
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
    """The file `name` with its includes; raises `ValueError` for a mark without such a loop."""
    sources = list(_expand(name, set()))
    text = _COMMENT.sub("", "".join(f"{line}\n" for _, _, line in sources))
    loops = list(MARKED_LOOP.finditer(text))
    if len(loops) != text.count(MARK):
        raise ValueError(f"{name}: expected for (int i = 0; i < BOUND; ++i) after each {MARK}")
    bounds = sorted({loop["bound"] for loop in loops})
    tile_bounds = sorted({loop["bound"] for loop in loops if not loop["gpu"]})
    lines = tuple((file, number) for file, number, _ in sources)
    words = frozenset(_WORD.findall(text))
    return Body(text, lines, words, _constants(text), tuple(bounds), tuple(tile_bounds))


def _constants(text: str) -> frozenset[str]:
    text = text.replace("\\\n", " ")
    constants = {word for code in _CONSTANT.findall(text) for word in _WORD.findall(code)}
    macros = {name: {*_WORD.findall(value)} for name, value in _DEFINE.findall(text)}
    while more := set().union(*(macros[name] for name in constants & macros.keys())) - constants:
        constants |= more
    return frozenset(constants)


def is_own(shader: str) -> bool:
    """Whether it is the name of a file in glsl/, not a path of the app's."""
    return not Path(shader).is_absolute()


def _expand(name: str, seen: set[str]) -> Iterator[tuple[str, int, str]]:
    """File, number and text of each line of a file and of its includes, each included once.

    Left out are lines for tools that read the file on its own: its version, the permission to
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


@lru_cache(1 << 8)  # some bounds are sizes of the input
def unrolled(code: str, bounds: tuple[tuple[str, str], ...], tiles_only: bool) -> str:
    """The code with its marked loops up to `bounds` unrolled, in the same number of lines.

    SwiftShader and llvmpipe of Mesa 25 keep an array that a loop indexes in memory instead of
    registers, which takes 5 times as long.
    """
    constants = dict(bounds)
    for loop in reversed(list(MARKED_LOOP.finditer(code))):  # inner loops first
        end = _end_of_statement(code, loop.end())
        statement, body = code[loop.end("gap") : end], code[loop.end() : end]
        bound = loop["bound"]
        last = "" if tiles_only and loop["gpu"] else constants.get(bound, bound)
        if last.isdigit() and not ("#" in body or "break;" in body or "continue;" in body):
            line = f"{{ {' '.join(body.split())} }} "
            values = range(int(loop["first"]), int(last))
            if tiles_only or len(line) * len(values) <= _MAX_CHARACTERS:
                use = re.compile(rf"(?<![.\w]){loop['i']}\b")  # and no swizzle
                copies = "".join(use.sub(str(value), line) for value in values)
                statement = f"{{ {copies}}}" + "\n" * body.count("\n")
        code = code[: loop.start()] + loop["gap"] + statement + code[end:]
    return code


def _end_of_statement(code: str, start: int) -> int:
    """The offset after a statement's block or semicolon."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] in "({") - (code[i] in ")}")
        if not depth and code[i] in ";}":
            return i + 1
    return len(code)
