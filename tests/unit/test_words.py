"""The pages have American spelling, and no phrases that are wrong in English."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

BANNED = {
    r"of (ours|yours)": "your app, not an app of yours",
    r"of( which)?[,;.](?=\s)": "do not end a clause with 'of'; use 'whose' or a second sentence",
    r"(?-i:The (most|least)|:\s(Most|Least)) \w+": "Maximum number of, Minimum",
    r"\d+ (m?s|%|[kMG]B|dispatches|programs) for \d+": "2 ms, down from 5; or instead of 5 ms",
    r"in the place of": "instead of",
    r"anew|for ever": "again, or forever",
    r"(frames?|rows?|steps?|samples?) a (second|frame|step|line)": "per second, per frame, ...",
    r"\w*colour\w*|(centre|grey|neighbour|behaviour|favour|licence)\w*": "American spelling",
    r"\w*(normal|optim|quant|initial|organ|recogn|special|serial)is(e|ing|ation)\w*": "-ize",
}
"""Phrases, as regular expressions of whole words, and what to write instead."""


def markdown(text: str) -> str:
    """A page's prose: code, links and directives are blank, and lines keep their numbers."""
    text = re.sub(r"^ *```.*?^ *```|^:::.*?$", blank, text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`]*`|\]\([^)]*\)", blank, text)


def blank(match: re.Match[str]) -> str:
    return "".join("\n" if character == "\n" else "`" for character in match[0])


PAGES = [
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md")
    for path in sorted(ROOT.glob(pattern))
]


def phrases(text: str) -> list[str]:
    """The banned phrases in a text: line, phrase and what to write instead."""
    actual = []
    for phrase, instead in BANNED.items():
        pattern = rf"(?<!\w)(?:{phrase})(?!\w)".replace(" ", r"\s+")
        for match in re.finditer(pattern, text, re.IGNORECASE):
            line = text.count("\n", 0, match.start()) + 1
            actual.append(f"line {line}: '{' '.join(match[0].split())}'; write: {instead}")
    return actual


@pytest.mark.parametrize("page", PAGES)
def test_no_banned_phrase(page: str) -> None:
    assert phrases(markdown((ROOT / page).read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x\nUse the shape in the\nplace of the size.", "line 2: 'in the place of'; "),
        ("It takes 0.25 ms for 0.36.", "line 1: '25 ms for 0'; "),
    ],
)
def test_phrases_are_found(text: str, expected: str) -> None:
    (actual,) = phrases(markdown(text))
    assert actual.startswith(expected)


def test_code_is_not_prose() -> None:
    text = markdown("Call `tells()`.\n\n```python\nx = tells  # tells\n```\n[x](those of)")
    assert not re.search("tells|those|Of", text)
