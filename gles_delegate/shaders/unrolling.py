"""Unrolling of marked loops in the text of a shader."""

from __future__ import annotations

import re
from functools import lru_cache

MARK = "#pragma unroll"
MARKED_LOOP = re.compile(
    rf"^{MARK}(?P<gpu>\(gpu\))?(?P<gap>\s+)"
    r"for \(int (?P<i>\w+) = (?P<first>\d+); (?P=i) < (?P<bound>\w+); \+\+(?P=i)\)",
    re.MULTILINE,
)
"""``#pragma unroll`` marks a loop over a register tile, ``#pragma unroll(gpu)`` another one, which
llvmpipe would compile for many seconds. Tools ignore both."""

_MOST_CHARACTERS = 1 << 11
"""The most characters of an unrolled loop, unless only loops over tiles are unrolled: SwiftShader
compiles long code slowly."""


@lru_cache(1 << 8)  # some bounds are sizes of the input
def unrolled(code: str, bounds: tuple[tuple[str, str], ...], tiles_only: bool) -> str:
    """The code without its marked loops up to known bounds, in the same number of lines.

    Where a loop indexes an array, SwiftShader and llvmpipe of Mesa 25 keep it in memory instead of
    registers, which takes 5 times as long.
    """
    known = dict(bounds)
    for loop in reversed(list(MARKED_LOOP.finditer(code))):  # inner ones before those around them
        end = _end_of_statement(code, loop.end())
        statement, body = code[loop.end("gap") : end], code[loop.end() : end]
        bound = loop["bound"]
        last = "" if tiles_only and loop["gpu"] else known.get(bound, bound)
        if last.isdigit() and not ("#" in body or "break;" in body or "continue;" in body):
            line = f"{{ {' '.join(body.split())} }} "
            values = range(int(loop["first"]), int(last))
            if tiles_only or len(line) * len(values) <= _MOST_CHARACTERS:
                use = re.compile(rf"(?<![.\w]){loop['i']}\b")  # and no swizzle
                copies = "".join(use.sub(str(value), line) for value in values)
                statement = f"{{ {copies}}}" + "\n" * body.count("\n")
        code = code[: loop.start()] + loop["gap"] + statement + code[end:]
    return code


def _end_of_statement(code: str, start: int) -> int:
    """Where a statement ends: behind its block, if it has one, or else its semicolon."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] in "({") - (code[i] in ")}")
        if not depth and code[i] in ";}":
            return i + 1
    return len(code)
