"""Files that are written: never over what the same run reads."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

FilePath: TypeAlias = "str | os.PathLike[str]"

_DESCRIPTORS = "/proc/self/fd"


def require_other_files(
    outputs: Iterable[FilePath | None], inputs: Iterable[FilePath | None] = ()
) -> None:
    """Raise ValueError if an output is an input, or another output, of the same run.

    Call it before anything is written. Paths to one inode are one file, through any spelling and
    any links; so are paths to the same name in a folder, if the file does not exist yet. An input
    in a bundle stands for the bundle, and None for no file. What this process has open for reading,
    such as mapped weights, is an input, too.
    """
    paths = [os.fspath(path) for path in outputs if path is not None]
    if not paths:
        return
    named = (os.fspath(path) for path in inputs if path is not None)
    read = {_identity(path)[:2]: path for path in (*_open_for_reading(), *named)}
    written: dict[tuple[object, ...], str] = {}
    for path in paths:
        file = _identity(path)
        if file in read:
            link = "" if read[file] == path else f", the same file as {read[file]}"
            raise ValueError(
                f"expected outputs that are not inputs of the same run, found {path}{link}: "
                "it would be overwritten; name another file"
            )
        if file in written:
            raise ValueError(
                f"expected a file of its own for each output, found {written[file]} and {path}, "
                "which are the same file; name another one"
            )
        written[file] = path


def _identity(path: str) -> tuple[object, ...]:
    """What is equal for paths to one file: the device and the inode of the file, or of the folder
    or bundle that leads to it, and the names from there on.
    """
    try:
        state = os.stat(path)
        return state.st_dev, state.st_ino
    except OSError:
        if os.path.islink(path):  # to a file that does not exist yet
            path = os.path.realpath(path)
    folder, name = os.path.split(path)
    folder = folder or os.curdir
    return (*_identity(folder), name) if folder != path else (path,)


def _open_for_reading() -> Iterator[str]:
    """The regular files that this process has open only for reading."""
    with suppress(OSError):
        for descriptor in os.listdir(_DESCRIPTORS):
            with suppress(OSError):  # the one of the listing itself is closed by now
                file = f"{_DESCRIPTORS}/{descriptor}"
                text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
                (flags,) = (line.split()[1] for line in text.splitlines() if line[:6] == "flags:")
                if int(flags, 8) & os.O_ACCMODE == os.O_RDONLY and stat.S_ISREG(
                    os.stat(file).st_mode
                ):
                    yield os.readlink(file)
