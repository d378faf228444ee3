"""Prose is plain American English, without phrases that read as translated."""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BANNED = {
    r"those of": "name the thing, or use a possessive: LiteRT's results, not those of LiteRT",
    r"tells": "reports, shows, returns or says",
    r"as many( as)?": "state the number or the limit: at most 8, one per processor",
    r"so many": "state the number or the limit",
    r"(goes|go|went|going) on": "continues, keeps or resumes",
    r"of (its|their|your|one's) own": "its own thread, not a thread of its own",
    r"of (ours|yours)": "your app, not an app of yours",
    r"of( which)?[,;.](?=\s)": "do not end a clause with 'of'; use 'whose' or a second sentence",
    r"(?<!there\s)(is|are) no (?!longer)[`\w]+": "is not a, are not",
    r"takes? no (?!(longer|more|time)\b)[`\w]+": "does not accept, does not take",
    r'(?-i:The (most|least)|("""|:\s)(Most|Least)) \w+': "Maximum number of, Minimum",
    r"\d+ (m?s|%|[kMG]B|dispatches|programs) for \d+": "2 ms, down from 5; or instead of 5 ms",
    r"in turn": "in sequence, alternately, one after the other",
    r"by (itself|themselves)": "separately, alone, on its own",
    r"in the place of": "instead of",
    r"likeliest": "top, or most likely",
    r"anew|for ever": "again, or forever",
    r"(frames?|rows?|steps?|samples?) a (second|frame|step|line)": "per second, per frame, ...",
    r'"""(Of|What|Those) \w+': "begin with a noun phrase or a verb: 'Bytes of a region matrix.'",
    r"\w*colour\w*|(centre|grey|neighbour|behaviour|favour|licence)\w*": "American spelling",
    r"\w*(normal|optim|quant|initial|organ|recogn|special|serial)is(e|ing|ation)\w*": "-ize",
}
"""Phrases, as regular expressions of whole words, and what to write instead."""


def markdown(text: str) -> str:
    """A page's prose: code, links and directives are blank, and lines keep their numbers."""
    text = re.sub(r"^ *```.*?^ *```|^:::.*?$", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", blank, text)


def python(text: str) -> str:
    """A module's docstrings, with their quotes, and comments; all else is blank."""
    lines = text.splitlines()
    kept, before = [""] * len(lines), tokenize.NEWLINE
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        first, last = token.start[0] - 1, token.end[0]
        statement = before in (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)
        if token.type == tokenize.COMMENT:
            kept[first] = token.string
        elif token.type == tokenize.STRING and statement:
            kept[first:last] = lines[first:last]
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            before = token.type
    return re.sub(r"``[^`]*``|`[^`]*`", blank, "\n".join(kept))


def glsl(text: str) -> str:
    """A shader's comments."""
    return "\n".join("".join(line.partition("//")[1:]) for line in text.splitlines())


def blank(match: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else "`" for character in match[0])


PROSE: dict[str, Callable[[str], str]] = {
    "README.md": markdown,
    "CHANGELOG.md": markdown,
    "CONTRIBUTING.md": markdown,
    "SECURITY.md": markdown,
    "ARCHITECTURE.md": markdown,
    "docs/**/*.md": markdown,
    "examples/**/*.md": markdown,
    "examples/*.py": python,
    "gles_apps/**/*.py": python,
    "gles_delegate/**/*.py": python,
    "glsl/**/*.glsl": glsl,
    "glsl/**/*.frag": glsl,
    "glsl/**/*.vert": glsl,
    "tests/**/*.py": python,
}
"""Files, as patterns from the root, and how their prose is found."""


def phrases(text: str) -> list[str]:
    """The banned phrases in a text: line, phrase and what to write instead."""
    actual = []
    for phrase, instead in BANNED.items():
        pattern = rf"(?<!\w)(?:{phrase})(?!\w)".replace(" ", r"\s+(?:(?:#|//) )?")
        for match in re.finditer(pattern, text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            actual.append(f"line {line}: '{' '.join(match[0].split())}'; write: {instead}")
    return actual


@pytest.mark.parametrize(
    ("path", "pattern"),
    [
        (str(path.relative_to(ROOT)), pattern)
        for pattern in PROSE
        for path in sorted(ROOT.glob(pattern))
    ],
)
def test_no_banned_phrase(path: str, pattern: str) -> None:
    assert phrases(PROSE[pattern]((ROOT / path).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("prose", "text", "expected"),
    [
        (markdown, "x\nResults differ from those\nof LiteRT.", "line 2: 'those of'; "),
        (markdown, "`memory()` tells the bytes.", "line 1: 'tells'; "),
        (python, 'SIZE = 1\n"""Of a region."""\n', 'line 2: \'"""Of a\'; '),
        (python, 'def f():\n    """Runs.\n\n    It goes on.\n    """\n', "line 4: 'goes on'; "),
        (python, "x = 1  # the colour\n", "line 1: 'colour'; "),
        (python, 'def f():\n    """The most faces."""\n', "line 2: 'The most faces'; "),
        (python, 'COUNT = 1\n"""Most faces."""\n', 'line 2: \'"""Most faces\'; '),
        (markdown, "It takes 0.25 ms for 0.36.", "line 1: '25 ms for 0'; "),
        (glsl, "int x;  // each by\n// itself", "line 1: 'by // itself'; "),
    ],
)
def test_phrases_are_found(prose: Callable[[str], str], text: str, expected: str) -> None:
    (actual,) = phrases(prose(text))
    assert actual.startswith(expected)


@pytest.mark.parametrize(
    ("prose", "text"),
    [
        (markdown, "Call `tells()`.\n\n```python\nx = tells  # tells\n```\n[x](those of)"),
        (glsl, "vec4 tells = those;  // x\n"),
        (python, 'x = "tells"\ny = [\n    "those of"\n]\nf("""Of a kind.""")\n'),
    ],
)
def test_code_is_not_prose(prose: Callable[[str], str], text: str) -> None:
    assert not re.search("tells|those|Of", prose(text))
