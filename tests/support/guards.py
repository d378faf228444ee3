"""The guards of the shaders, and shaders that lack one.

A guard is a comparison, in the condition of a return or of a write, that keeps invocations beyond
the result from writing, or from reading what is not there.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from unittest.mock import patch

from gles_delegate.shaders import files
from tests.support.sampling import ROOT

GLSL = ROOT / "glsl"
_COMMENT = re.compile(r"//[^\n]*")
_HEAD = re.compile(r"\bif \(|\bbool (?:here|stores) = ")
_WRITE = re.compile(
    r"\breturn\b|\b(?:store|write|put|PUT|OUT_TEXEL|set_after|share_state)\(|\bblock_\w+\[[^]]*\] ="
)
_PART = re.compile(r"[^|&]+")
_COMPARISON = re.compile(r"[^<>=]+ (?:>=|<|>) (?!\d+\.|0x|[1-9]|.*[<>=]).+")


@dataclass(frozen=True)
class Guard:
    """A guard: its file in glsl/, the comparison, and where that stands.

    Attributes:
        leaves: Whether it ends invocations; otherwise it lets them write.
    """

    file: str
    comparison: str
    at: int
    leaves: bool

    def __str__(self) -> str:
        return f"{self.file}: {self.comparison}"

    @contextmanager
    def taken_out(self) -> Iterator[None]:
        """Shaders are assembled without it."""
        read, end = files._read, self.at + len(self.comparison)
        instead = f"{self.comparison} && false" if self.leaves else f"({self.comparison} || true)"

        def without(name: str) -> str:
            text = read(name)
            return text[: self.at] + instead + text[end:] if name == self.file else text

        files.read_body.cache_clear()
        try:
            with patch.object(files, "_read", without):
                yield
        finally:
            files.read_body.cache_clear()


def guards() -> list[Guard]:
    """Every guard of glsl/, which has one for each axis of a shader's results."""
    paths = sorted(path for path in GLSL.rglob("*.glsl") if path.parent.name != "live")
    return [guard for path in paths for guard in _guards_of(path.relative_to(GLSL).as_posix())]


def _guards_of(file: str) -> Iterator[Guard]:
    code = _COMMENT.sub(lambda c: " " * len(c[0]), (GLSL / file).read_text("utf-8"))
    for head in _HEAD.finditer(code):
        if code[head.end() - 1] == "(":
            end = _closed(code, head.end())
            then = code[end + 1 : files._end_of_statement(code, end + 1)]
            if not _WRITE.search(then):
                continue
            leaves = bool(re.match(r"\s*return\b|\s*\{[^}]*\breturn;\s*\}", then))
        else:
            end, leaves = code.index(";", head.end()), False
        for part in _PART.finditer(code, head.end(), end):
            comparison = part[0].strip()
            if _COMPARISON.fullmatch(comparison):
                yield Guard(file, comparison, part.start() + part[0].index(comparison), leaves)


def _closed(code: str, at: int) -> int:
    """Where the bracket ends whose content begins at an offset."""
    depth = 1
    while depth:
        depth += (code[at] == "(") - (code[at] == ")")
        at += 1
    return at - 1
