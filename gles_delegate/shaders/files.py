"""Shader files with their includes, and the unrolling of marked loops."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib.resources import files
from pathlib import Path
from typing import TypeAlias

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
_FUNCTION = re.compile(r"^[\w[\]]+ (\w+)\([^)]*\) \{(?: .*\}$|$(?:\n(?!\}).*)*\n\}$)", re.MULTILINE)
"""As clang-format lays it out: on one line, or up to a brace that begins a line."""
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


Pieces: TypeAlias = tuple[tuple[str, str, frozenset[str]], ...]


@dataclass(frozen=True)
class Body:
    """A file with its includes, without comments.

    Attributes:
        lines: File and line number of each line of the text.
        pieces: The text as functions and what lies between: name or "", text, functions in it.
        words: All identifiers.
        constants: Macros that may have to be constants.
        bounds: The bounds of the marked loops.
        tile_bounds: The bounds of loops over a register tile.
    """

    text: str
    lines: tuple[tuple[str, int], ...]
    pieces: Pieces
    words: frozenset[str]
    constants: frozenset[str]
    bounds: tuple[str, ...]
    tile_bounds: tuple[str, ...]

    def called_by(self, code: str) -> str:
        """The text with empty lines for the functions that neither `code` nor main needs.

        Drivers parse all functions: of a small shader, that takes half of the front end's time.
        """
        return _called(self.pieces, _words(code) & self.functions)

    @cached_property
    def functions(self) -> frozenset[str]:
        """The names of `pieces`."""
        return frozenset(name for name, _, _ in self.pieces)


@lru_cache(1 << 10)  # files share the functions of those that they include
def _words(code: str) -> frozenset[str]:
    return frozenset(_WORD.findall(code))


@lru_cache(1 << 10)
def _words_of_constants(code: str) -> frozenset[str]:
    return _words(" ".join(_CONSTANT.findall(code.replace("\\\n", " "))))


@lru_cache(1 << 8)
def _called(pieces: Pieces, called: Set[str]) -> str:
    called |= {"", "main"}
    while more := set().union(*(names for name, _, names in pieces if name in called)) - called:
        called |= more
    return "".join(t if name in called else "\n" * t.count("\n") for name, t, _ in pieces)


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
    pieces, end = [], 0
    # An app's code may be laid out in another way.
    for function in _FUNCTION.finditer(text) if is_own(name) else ():
        pieces += [("", text[end : function.start()]), (function[1], function[0])]
        end = function.end()
    pieces.append(("", text[end:]))
    names = {piece[0] for piece in pieces}
    found = [(name, piece, _words(piece)) for name, piece in pieces]
    words = frozenset().union(*(w for _, _, w in found))
    parts = tuple((name, piece, w & names) for name, piece, w in found)
    constants = _constants(text, [piece for _, piece in pieces])
    return Body(text, lines, parts, words, constants, tuple(bounds), tuple(tile_bounds))


def _constants(text: str, pieces: Iterable[str]) -> frozenset[str]:
    """The `Body.constants` of a text, which `pieces` are: those of the code, and their macros'."""
    constants = set().union(*map(_words_of_constants, pieces))
    macros = dict(_DEFINE.findall(text.replace("\\\n", " ")))
    more = constants
    while more:
        more = set().union(*(_words(macros[name]) for name in more & macros.keys())) - constants
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
        if not depth and "#" not in line:
            yield name, number, line
        elif depth or _EXAMPLES.match(line):
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
