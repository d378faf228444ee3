"""``gles-delegate models``: published models, their download, and whether a file is one of them."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from gles_delegate.cli import common
from gles_delegate.cli.download import download
from gles_delegate.cli.published import PublishedModel, digest_of, published, without_ending
from gles_delegate.cli.shipped import networks
from gles_delegate.errors import DelegateError


@common.command
@click.argument("names", nargs=-1, metavar="[get] [NAME]...")
@click.option(
    "--to",
    "folder",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Where get puts the files; default: the current folder.",
)
@click.option(
    "--check",
    "files",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    multiple=True,
    metavar="FILE",
    help="Whether a file that was fetched is a published model; once for each file.",
)
@common.json_option
def models(
    names: tuple[str, ...], folder: Path | None, files: tuple[Path, ...], as_json: bool
) -> None:
    """List published models that run here, or get one.

    get NAME downloads a model and verifies it.
    """
    if names and files:
        raise common.wrong_usage("expected names or --check, found both")
    is_get = names[:1] == ("get",)
    if folder is not None and not is_get:
        raise common.wrong_usage("expected get NAME with --to")
    known = published()
    if files:
        checks = [(file, *check(file, known)) for file in files]
        if as_json:
            common.print_json([{"file": str(f), "passed": ok, "found": s} for f, ok, s in checks])
        else:
            for file, passed, sentence in checks:
                common.print_text(common.verdict(f"{file}: {sentence}", passed))
        sys.exit(not all(passed for _, passed, _ in checks))
    if is_get:
        _get(_named(names[1:], known), folder or Path(), as_json)
    else:
        _list(_named(names, known) if names else known, bool(names), as_json)


def _named(names: Sequence[str], known: Sequence[PublishedModel]) -> list[PublishedModel]:
    """The models of these names, which may lack their ending; each once."""
    if not names:
        raise common.wrong_usage("expected get NAME, found no name")
    listed = {without_ending(model.name): model for model in known}
    for name in names:
        if (short := without_ending(name)) not in listed:
            part = [name for name in listed if short.lower() in name]
            near = part[:1] or difflib.get_close_matches(short.lower(), listed, 1)
            hint = f"; did you mean {listed[near[0]].name}?" if near else ""
            expected = "expected a name that `gles-delegate models` lists"
            raise common.wrong_usage(f"{expected}, found {name!r}{hint}")
    return [listed[name] for name in dict.fromkeys(map(without_ending, names))]


def _list(chosen: Sequence[PublishedModel], is_whole: bool, as_json: bool) -> None:
    if as_json:
        common.print_json([asdict(model) for model in chosen])
    elif is_whole:
        for model in chosen:
            common.print_pairs((key, str(value)) for key, value in asdict(model).items() if value)
            if model.sha256:
                print(f"\n{model.curl}")
    else:
        common.print_table([_row(model) for model in chosen])
        print()
        common.print_text(
            "`gles-delegate models get NAME` downloads one; without get, it shows the license and "
            "the address. One without a size is not downloaded: its SHA-256 is not known."
        )
        common.print_text(
            f"With the package come {', '.join(sorted(networks()))}: commands take their names."
        )


def _get(chosen: Sequence[PublishedModel], folder: Path, as_json: bool) -> None:
    """Download models that are not in a folder yet; none if one has no known digest."""
    for model in chosen:
        if not model.sha256:
            raise DelegateError(
                f"{model.name} is not downloaded, as its SHA-256 is not known; "
                f"how to get it: {model.url}"
            )
    rows = []
    for model in chosen:
        with common.progress_bar() as bar:
            is_new = download(model, folder, common.counting(bar, model.name))
        file = str(folder / model.name)
        rows.append({"name": model.name, "file": file, "downloaded": is_new})
        if not as_json:
            about = f"{common.megabytes(model.bytes)}, {model.task}, {model.license}"
            print(f"{file}: {about}" if is_new else f"{file} is there already")
    if as_json:
        common.print_json(rows)


def _row(model: PublishedModel) -> dict[str, str]:
    size = common.megabytes(model.bytes) if model.bytes else ""
    return {"name": model.name, "size": size, "task": model.task}


def check(file: Path, known: Sequence[PublishedModel]) -> tuple[bool, str]:
    """Whether a file is one of some models, and a sentence on it.

    Raises OSError if the file cannot be read.
    """
    largest = max(model.bytes for model in known)
    found, size = digest_of(file, largest)
    if size > largest:
        return False, f"none of the listed models has more than {largest} bytes"
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
