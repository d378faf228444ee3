"""``gles-delegate models``: published models, and whether a file is one of them."""

from __future__ import annotations

import csv
import hashlib
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib import resources
from pathlib import Path

import click

from gles_delegate.cli import common
from gles_delegate.model.files import require_regular


@dataclass(frozen=True)
class PublishedModel:
    """A model that somebody else publishes.

    `url` is the file's, and the same file stays there; without `sha256`, a page about the model.
    """

    name: str
    task: str
    license: str
    bytes: int
    sha256: str
    """Digest of the file, in hexadecimal; "" if it is not known, and `bytes` is 0."""
    url: str


@common.command
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--check",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Whether a file that was fetched is a published model; once for each file.",
)
@common.json_option
def models(names: tuple[str, ...], files: tuple[Path, ...], as_json: bool) -> None:
    """List published models that run here. Nothing is downloaded."""
    if names and files:
        raise common.wrong_usage("expected names or --check, found both")
    if files:
        _check_all(files, as_json)
        return
    listed = {model.name.removesuffix(".tflite"): model for model in published()}
    if unknown := [name for name in names if name.removesuffix(".tflite") not in listed]:
        raise common.wrong_usage(
            f"expected a name that `gles-delegate models` lists, found {unknown[0]!r}"
        )
    chosen = [listed[name.removesuffix(".tflite")] for name in names or listed]
    if as_json:
        common.print_json([asdict(model) for model in chosen])
    elif names:
        for model in chosen:
            _print_whole(model)
    else:
        common.print_table([_row(model) for model in chosen])
        print("\n`gles-delegate models NAME` says where to get one; --check FILE checks the file.")


def _print_whole(model: PublishedModel) -> None:
    common.print_pairs([(key, str(value)) for key, value in asdict(model).items() if value])
    if model.sha256:
        print(f"\ncurl --location --output {model.name} '{model.url}'")


def _row(model: PublishedModel) -> dict[str, str]:
    row = {"name": model.name, "task": model.task, "license": model.license}
    return {**row, "size": common.megabytes(model.bytes) if model.bytes else ""}


def _check_all(files: Sequence[Path], as_json: bool) -> None:
    """Print what each file is; exits with status 1 unless all are published models."""
    known = published()
    checks = [(file, *check(file, known)) for file in files]
    if as_json:
        common.print_json([{"file": str(f), "passed": ok, "found": s} for f, ok, s in checks])
    else:
        for file, _, sentence in checks:
            print(f"{file}: {sentence}")
    sys.exit(not all(passed for _, passed, _ in checks))


def published() -> list[PublishedModel]:
    text = (resources.files("gles_delegate.cli") / "models.csv").read_text("utf-8")
    return [
        PublishedModel(**{**row, "bytes": int(row["bytes"])})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    ]


def check(file: Path, known: Sequence[PublishedModel]) -> tuple[bool, str]:
    """Whether a file is one of some models, and a sentence on it.

    Raises OSError if the file cannot be read.
    """
    largest = max(model.bytes for model in known)
    digest, size = hashlib.sha256(), 0
    require_regular(file)
    with file.open("rb") as content:
        while size <= largest and (block := content.read(1 << 20)):
            digest.update(block)
            size += len(block)
    if size > largest:
        return False, f"none of the listed models has more than {largest} bytes"
    found = digest.hexdigest()
    for model in known:
        if model.sha256 == found:
            return True, f"{model.name}, {model.task}, {model.license}"
    for model in known:
        if model.sha256 and model.name == file.name:
            return False, (
                f"expected {model.bytes} bytes with the SHA-256 {model.sha256}, found {size} bytes "
                f"with {found}; get the file again from {model.url}"
            )
    return False, f"none of the listed models has its SHA-256, {found}"
