"""Single wrong lines: what tools/mutants puts into a copy of the checkout."""

from __future__ import annotations

import ast
import io
import random
import re
import tokenize
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]

PAIRS = [
    *(("+", "-"), ("<<", ">>"), ("&", "|"), ("+=", "-="), ("<", "<="), (">", ">="), ("==", "!=")),
    *(("and", "or"), ("&&", "||"), ("in", "not in"), ("is", "is not"), ("min", "max")),
    *(("any", "all"), ("True", "False"), ("true", "false"), (".x", ".y"), (".z", ".w")),
]
ONE_WAY = [("*", "+"), ("/", "*"), ("//", "*"), ("%", "*"), ("**", "*"), ("@", "+"), ("^", "|")]
SWAPS = dict([*PAIRS, *((b, a) for a, b in PAIRS), *ONE_WAY])
OPERATORS = r"[-+*/%@&|^]|\*\*|//|<<|>>|[-+]=|[<>]=?|[=!]=|&&|\|\||and|or|(?:not )?in|is(?: not)?"
NUMBER = r"(?<![\w.])\d+(?:\.\d*)?(?:e-?\d+)?(?![\w.])"
BOTH = [
    (
        rf"(?<=[\w)\]] )(?:{OPERATORS})(?= (?!not )[\w(\[{{~!-])|(?<=\w)\*\*(?=\w)",
        SWAPS.__getitem__,
    ),
    (
        r"(?<=\w)\*\*(?=\w)|\b(?:min|max|any|all)(?=\()|\b(?:True|False|true|false)\b",
        SWAPS.__getitem__,
    ),
    (r"(?<=[\w\])])\.[xyzw]\b", SWAPS.__getitem__),
    (NUMBER, lambda number: repr(ast.literal_eval(number) + 1)),
    (NUMBER, lambda number: repr(ast.literal_eval(number) - 1)),
]
MUTATIONS: dict[str, list[tuple[str, Callable[[str], str]]]] = {
    ".py": [
        *BOTH,
        (r"(?<!is )\bnot (?!in\b)|(?<=[(\[=])-(?=\w)|(?<=[,=(] )-(?=\w)", lambda _: ""),
        (r"\b(?:if|elif|while) (.+):$|(?<=[\w)\]] )if (.+?) else\b", "not ({})".format),
        (r"\breturn (.+)$", lambda _: "None"),
        (r", [^,()\[\]{}\"]+(?=\))", lambda _: ""),
    ],
    ".glsl": [
        *BOTH,
        (r"!(?=[\w(])", lambda _: ""),
        (r"\b(?:if|while) \((.+?)\)(?= [{\w])", "!({})".format),
        (r"\breturn ([^;?<>=!&|]+);", "-({})".format),
    ],
}
"""For each language, patterns and what takes the place of the first group or of the whole match."""
NO_RESULT = {
    *("encoding", "frozen", "kw_only", "maxsize", "repr", "stacklevel", "strict"),
    *("TypeVar", "cast", "dataclass", "debug", "info", "warn", "warning"),
}
"""Keywords, and functions for type checkers and messages, without which a run does the same."""


@dataclass(frozen=True)
class Mutant:
    """A line of a file, relative to the checkout, and what takes its place."""

    file: str
    line: int
    before: str
    after: str

    @property
    def text(self) -> str | None:
        """The file with the mutant in it; None if that is not valid Python or means the same."""
        old = (ROOT / self.file).read_text("utf-8")
        lines = old.split("\n")
        lines[self.line - 1] = self.after
        new = "\n".join(lines)
        with suppress(SyntaxError):
            if self.file.endswith(".glsl") or ast.dump(ast.parse(new)) != ast.dump(ast.parse(old)):
                return new
        return None

    def __str__(self) -> str:
        return f"{self.file}:{self.line}\n  - {self.before.strip()}\n  + {self.after.strip()}"


def python_code(text: str) -> list[str]:
    """The lines with quotation marks in place of what cannot change a result."""
    text = text.encode("ascii", "replace").decode()  # so that columns in bytes are characters
    lines = text.split("\n")

    def blank(row: int, column: int, last_row: int, last_column: int) -> None:
        for i in range(row - 1, last_row):
            first, last = column * (i == row - 1), last_column if i == last_row - 1 else None
            covered = lines[i][first:last]
            lines[i] = lines[i][:first] + '"' * len(covered) + lines[i][first + len(covered) :]

    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.STRING, tokenize.COMMENT):
            blank(*token.start, *token.end)
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(body=[first, *_]) | ast.AsyncFunctionDef(body=[first, *_]):
                blank(node.lineno, node.col_offset, first.lineno, first.col_offset)
            case ast.AnnAssign(annotation=part):
                blank(part.lineno, part.col_offset, part.end_lineno, part.end_col_offset)
            case ast.Raise() | ast.Assert() | ast.Import() | ast.ImportFrom():
                blank(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            case (
                ast.keyword(arg=name) | ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name))
            ) if name in NO_RESULT:
                blank(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return lines


def glsl_code(text: str) -> list[str]:
    """The lines without comments, and without the examples that only tools read."""
    depth, lines = 0, []
    for line in text.split("\n"):
        code = line.partition("//")[0]
        if depth or re.match(r"#ifndef ASSEMBLED", code):
            depth += bool(re.match(r"\s*#\s*if", code)) - bool(re.match(r"\s*#\s*endif", code))
            code = ""
        lines.append("" if re.match(r"\s*#(?:include|pragma|version|extension)", code) else code)
    return lines


def mutants_of(path: Path) -> dict[int, list[Mutant]]:
    """The mutants of a file by line; some may be no valid code."""
    text, file = path.read_text("utf-8"), str(path.relative_to(ROOT))
    codes = (python_code if path.suffix == ".py" else glsl_code)(text)
    mutants = defaultdict(list)
    for number, (line, code) in enumerate(zip(text.split("\n"), codes, strict=True), 1):
        for pattern, change in MUTATIONS[path.suffix]:
            for match in re.finditer(pattern, code):
                first, last = match.span(match.lastindex or 0)
                after = line[:first] + change(line[first:last]) + line[last:]
                mutants[number].append(Mutant(file, number, line, after))
    return mutants


def room_of(file: str) -> str:
    return "glsl" if file.startswith("glsl") else str(Path(file).parent)


def sample(places: list[str], seed: int) -> Iterator[Mutant]:
    """One mutant of each line, in random order, from each room in turn; all of a FILE:LINE."""
    files = [*(ROOT / "gles_delegate").rglob("*.py"), *(ROOT / "glsl").rglob("*.glsl")]
    rooms: dict[str, list[list[Mutant]]] = defaultdict(list)
    for path in sorted(files):
        file = str(path.relative_to(ROOT))
        chosen = {file, room_of(file)}.intersection(places)
        if chosen if places else room_of(file) != "gles_delegate/ray":
            rooms[room_of(file)] += mutants_of(path).values()
        elif file in {place.rpartition(":")[0] for place in places}:
            numbers = mutants_of(path).items()
            rooms[room_of(file)] += [m for number, m in numbers if f"{file}:{number}" in places]
    generator = random.Random(seed)
    for lines in rooms.values():
        generator.shuffle(lines)
    while rooms := {room: lines for room, lines in rooms.items() if lines}:
        for lines in rooms.values():
            mutants: list[Mutant] = []
            while lines and not mutants:
                mutants = [mutant for mutant in lines.pop() if mutant.text is not None]
            generator.shuffle(mutants)
            named = mutants and f"{mutants[0].file}:{mutants[0].line}" in places
            yield from mutants if named else mutants[:1]
