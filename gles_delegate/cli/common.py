"""Options and output that the commands share."""

from __future__ import annotations

import json
import logging
import math
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Column, Table
from rich.text import Text

from gles_delegate.cli.shipped import advice_on_missing, located
from gles_delegate.errors import DelegateError, sentence_of
from gles_delegate.model.files import LITERT_NOTE
from gles_delegate.report import without_nan
from gles_delegate.runtime.programs import COMPILING, KEEPING
from gles_delegate.support.outputs import FilePath
from gles_delegate.support.outputs import require_other_files as require_others

F = TypeVar("F", bound=Callable[..., Any])

_CONTROLS = re.compile(r"[\0-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Control characters except line ends and tabs, what turns the direction of text, surrogates."""

PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON and nothing else.")
cache_option = click.option(
    "--cache",
    type=FOLDER,
    metavar="FOLDER",
    help="Keep packed weights and compiled shaders in FOLDER for the next start.",
)
device_option = click.option(
    "--device", type=click.IntRange(0), help="A device that doctor lists; default: the best."
)


class _Model(click.Path):
    """The path of a model, or the name of one of the package's."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        return located(Path(os.fsdecode(super().convert(value, param, ctx))))


class _File(click.Path):
    """The path of a file that is read, or the name of one of the package's."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Path:
        return file_of(os.fsdecode(super().convert(value, param, ctx)))


def file_of(text: str) -> Path:
    """The path of a file that is read, or of one of the package's.

    Raises click's error for an address, whose path would lack a slash.
    """
    if re.match("https?:", text):
        raise wrong_usage(f"expected a file, found the address {text}: download the file first")
    return located(Path(text))


FILE = _File()
model_argument = click.argument("model", type=_Model())
input_option = click.option(
    "--input",
    "inputs",
    multiple=True,
    metavar="[NAME=]FILE",
    help="An array (.npy) or a picture for an input, by its name or index; once for each input.",
)


class Finite(click.FloatRange):
    """A number in a range, neither NaN nor infinity."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"expected a finite number, found {value}", param, ctx)
        return number

    def _describe_range(self) -> str:
        return "" if self.min is None else super()._describe_range()


def scaling_options(function: F) -> F:
    std_option = click.option(
        "--std",
        type=Finite(0, min_open=True),
        help="An input gets (pixel - mean) / std of a picture's pixels of 0 to 255; default: the "
        "model's metadata, or else 0 to 1. A uint8 input gets the pixels themselves.",
    )
    return click.option("--mean", type=Finite(), help="See --std.")(std_option(function))


class JsonErrors(click.Group):
    """A group of commands that print usage errors as JSON, too, with ``--json``."""

    def main(self, args: Sequence[str] | None = None, *others: Any, **named: Any) -> Any:
        args = sys.argv[1:] if args is None else args
        if "--json" not in args:
            return super().main(args, *others, **named)
        try:
            status = super().main(args, *others, **{**named, "standalone_mode": False})
        except click.ClickException as error:
            print_json({"error": error.format_message()})
            sys.exit(error.exit_code)
        except click.Abort:  # Ctrl-C
            print_json({"error": "aborted"})
            sys.exit(1)
        sys.exit(status if isinstance(status, int) else 0)


def wrong_usage(message: str) -> click.UsageError:
    """The error for arguments that do not suit this model; it exits with status 2."""
    return click.UsageError(printable(message), click.get_current_context(silent=True))


def require_other_files(
    outputs: Iterable[FilePath | None], inputs: Iterable[FilePath | None]
) -> None:
    """`gles_delegate.support.outputs.require_other_files` for the files of a command line."""
    try:
        require_others(outputs, inputs)
    except ValueError as error:
        raise wrong_usage(str(error)) from error


def printable(text: str) -> str:
    """A text without characters that control a terminal, which a model's names may have."""
    return _CONTROLS.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


class _Printable:
    """A stream that prints what is `printable`; `raw` is the stream itself."""

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def write(self, text: str) -> int:
        self.raw.write(printable(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)


class ForShell(logging.Filter):
    """Logged texts are `printable`, and say the command's option, if it has one, not Python's.

    That shaders compile is said once, of however many models.
    """

    def __init__(self, has_cache: bool) -> None:
        super().__init__()
        self._has_cache = has_cache
        self._is_compiling = False

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        is_new = record.msg != COMPILING or not self._is_compiling
        self._is_compiling |= record.msg == COMPILING
        text = text.replace(KEEPING, "; --cache FOLDER keeps them for later" * self._has_cache)
        record.msg = printable(text)
        record.args = ()
        return is_new


def command(function: F) -> F:
    """Make a command that prints this package's errors as one line, not a traceback.

    What it prints and logs is `printable`.
    """

    @wraps(function)
    def run(*arguments: Any, **options: Any) -> None:
        logger = logging.getLogger("gles_delegate")
        for_shell = ForShell("cache" in options)
        logger.addFilter(for_shell)
        try:
            with redirect_stdout(_Printable(sys.stdout)):
                function(*arguments, **options)
        except BrokenPipeError:  # click handles a reader that has stopped
            raise
        except (DelegateError, ValueError, OSError) as error:
            text = sentence_of(error).removesuffix(LITERT_NOTE)
            if isinstance(error.__cause__, FileNotFoundError) and "model" in options:
                text += advice_on_missing(options["model"])
            if options.get("as_json"):
                print_json({"error": text})
            else:
                print(printable(f"gles-delegate: {text}"), file=sys.stderr)
            sys.exit(1)
        finally:
            logger.removeFilter(for_shell)

    return click.command()(run)  # type: ignore[return-value]


def print_json(data: Any) -> None:
    """Print JSON, with null for NaN and infinity."""
    print(json.dumps(without_nan(data), allow_nan=False))


def progress_bar() -> Progress:
    """Progress bars on standard error if that is a terminal, and not with ``--json``."""
    console = Console(stderr=True)
    context = click.get_current_context(silent=True)
    is_quiet = context is not None and context.params.get("as_json")
    return Progress(console=console, transient=True, disable=is_quiet or not console.is_terminal)


def counting(bar: Progress, name: str) -> Callable[[int, int], None]:
    """A function that moves a new bar; its arguments are the work done and the total."""
    task = bar.add_task(escape(printable(name)), total=None)
    return lambda done, total: bar.update(task, completed=done, total=total)


def compilation(bar: Progress) -> Callable[[int, int], None]:
    """A delegate's `progress`: a bar that is visible while shaders compile."""
    task = bar.add_task("compiling shaders", total=None, visible=False)

    def report(compiled: int, total: int) -> None:
        bar.update(task, completed=compiled, total=total, visible=compiled < total, refresh=True)

    return report


def verdict(text: str, passed: bool) -> Text:
    """A text in the color of what is good or bad, which it must say in words as well."""
    return Text(printable(text), "green" if passed else "bold red")


def print_text(text: str | Text) -> None:
    """Print lines; a terminal wraps them at words, and indents what follows."""
    console = make_console()
    if isinstance(text, str):
        text = Text(printable(text))
    for line in text.plain.split("\n"):
        if console.is_terminal:
            indent = " " * (len(line) - len(line.lstrip()) + 2)
            line = textwrap.fill(
                line, console.width, subsequent_indent=indent, break_on_hyphens=False
            )
        console.print(Text(line, text.style), soft_wrap=True)


def print_report(text: str, cut: bool = False) -> None:
    """Print a table of `gles_delegate.report`; `cut`: a terminal shows the beginnings of lines."""
    console = make_console()
    for i, line in enumerate(printable(text).split("\n")):
        row = Text(line, "" if i else "bold")
        if cut and console.is_terminal:
            row.truncate(console.width, overflow="ellipsis")
        console.print(row, soft_wrap=True)


def print_table(rows: Sequence[dict[str, Any]]) -> None:
    """Print rows with the same keys as a table with a header, without columns that are empty."""
    filled = [key for key in (rows[0] if rows else ()) if any(row[key] != "" for row in rows)]
    columns = [Column(key, no_wrap=key == filled[0]) for key in filled]
    table = Table(*columns, box=None, pad_edge=False)
    _print_trimmed(table, ([row[key] for key in filled] for row in rows))


def print_pairs(rows: Iterable[tuple[str, str | Text]]) -> None:
    """Print names and values in two columns."""
    table = Table("", "", show_header=False, box=None, pad_edge=False)
    _print_trimmed(table, rows)


def _cell(value: Any) -> Text:
    if isinstance(value, Text):
        return value
    text = f"{value:.3g}" if isinstance(value, float) else str(value)
    return Text(printable(text.replace("\n", " ")))


def _print_trimmed(table: Table, rows: Iterable[Iterable[Any]]) -> None:
    """Print rows of cells as this table, without blanks at the ends of lines."""
    for row in rows:
        table.add_row(*map(_cell, row))
    console = make_console()
    with console.capture() as captured:
        console.print(table)
    console.file.write(re.sub(r" +$", "", captured.get(), flags=re.MULTILINE))


def make_console() -> Console:
    """For `printable` texts, as wide as the terminal; lines in files are not wrapped."""
    options: dict[str, Any] = {"highlight": False, "markup": False}
    options["file"] = getattr(sys.stdout, "raw", sys.stdout)
    console = Console(**options)
    return console if console.is_terminal else Console(width=300, **options)


def megabytes(size: int) -> str:
    return f"{size / 1e6:.2f} MB"
