"""Networks and a picture that come with the package, and are named without a path."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from gles_delegate.cli.published import published, without_ending


def networks() -> dict[str, Path]:
    """The package's networks, by their names without the ending."""
    return {path.stem: path for path in _files("networks") if path.suffix == ".tflite"}


def _files(folder: str) -> list[Path]:
    """The files in a folder beside the package's measurements; none in a zip file."""
    files = resources.files("gles_delegate.bench").joinpath(folder).iterdir()
    return [file for file in files if isinstance(file, Path)]


def located(path: Path) -> Path:
    """A file, or one of the package's if there is none at this path, which names no folder."""
    if path.name != str(path) or path.exists():
        return path
    paths = networks() | {file.name: file for file in _files("pictures")}
    return paths.get(path.name.removesuffix(".tflite"), path)


def advice_on_missing(path: Path) -> str:
    """The end of a message on a file that is not there: how to get the model of its name."""
    name = without_ending(path.name)
    for model in published():
        if without_ending(model.name) == name:
            if model.sha256:
                return f"; `gles-delegate models get {model.name}` downloads it"
            return f"; `gles-delegate models {model.name}` says where it comes from"
    return ""
