"""Files of a batch: pictures by the names that tables have, and the masks that are written."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from gles_apps.vision.drawing import palette
from gles_delegate import DelegateError
from gles_delegate.errors import reason_of
from gles_delegate.model.graph import Array

_MARK = "Description"
"""The text of a PNG that says which run made it."""


def name_of(file: str) -> str:
    """The name of a file in tables: its bytes as UTF-8, in any locale; `file_of` is the way back.

    Names that are not one line of UTF-8 or of the locale's encoding are in quotation marks.
    """
    try:
        name = os.fsencode(file).decode()
    except UnicodeDecodeError:  # a name in the locale's encoding
        name = file
    is_text = "\n" not in name and not any("\ud800" <= letter <= "\udfff" for letter in name)
    return name if is_text and file_of(name) == file else repr(file)


def file_of(name: str) -> str:
    """The file of a name in tables."""
    file = os.fsdecode(name.encode())
    return file if file == name or os.path.lexists(file) else name


@dataclass(frozen=True)
class Masks:
    """A folder of a segmenter's masks: PNGs of class numbers, named after pictures.

    Attributes:
        folder: The folder.
        run: Identifies the model and the options of the masks; each file has it.
    """

    folder: Path
    run: str

    def file_of(self, picture: str) -> Path:
        """The file of the mask of a picture, by its name in tables."""
        return self.folder / f"{Path(file_of(picture)).stem}.png"

    @contextmanager
    def reserved(
        self, pictures: Collection[str], others: Collection[Path], overwrite: bool
    ) -> Iterator[None]:
        """Make the folder, and keep it for this run alone.

        Args:
            pictures: All pictures of the run, by their names in tables.
            others: Other files that it writes, which may be in the folder.
            overwrite: There may be files of others, and some may be replaced.

        Raises:
            DelegateError: Another run writes masks there; or, unless `overwrite`, there are files
                other than masks of this model with these options.
            OSError: The folder cannot be made or read.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DelegateError(
                    f"another run writes masks to {self.folder}: wait for its end, or use another "
                    "folder"
                ) from error
            except OSError:  # a file system without locks
                pass
            if not overwrite:
                names = {self.file_of(picture).name for picture in pictures}
                folder = os.path.realpath(self.folder)
                here = [each for each in others if os.path.realpath(each.parent) == folder]
                self._require_no_others(names, tuple(each.name for each in here))
            yield
        finally:
            os.close(descriptor)

    def _require_no_others(self, names: Collection[str], starts: tuple[str, ...]) -> None:
        """Raise DelegateError if the folder has files of others, hidden ones only if they have one
        of the `names`; not those whose names have one of the `starts`, as a database's journals.
        """
        others = [
            file.name
            for file in sorted(self.folder.iterdir())
            if (file.name in names or not file.name.startswith((".", *starts)))
            and not file.is_dir()
            and not self._is_ours(file)
        ]
        if others:
            more = f" and {len(others) - 1} more" if others[1:] else ""
            raise DelegateError(
                f"expected a folder for --masks without other files, found {others[0]}{more} in "
                f"{self.folder}, which this model with these options did not make: use another "
                "folder, or --overwrite"
            )

    def _is_ours(self, file: Path) -> bool:
        with suppress(Exception), Image.open(file, formats=["PNG"]) as picture:
            return bool(picture.info.get(_MARK) == self.run)
        return False

    def save(self, numbers: Array, picture: str) -> None:
        """Write the class numbers of a picture, with the drawings' colors; the file is whole or
        not there.
        """
        path = self.file_of(picture)
        mask = Image.fromarray(numbers, "P")
        mark = PngInfo()
        mark.add_text(_MARK, self.run)
        colors = np.array([(0, 0, 0), *palette(256)[1:]], np.uint8)
        mask.putpalette(colors.tobytes())
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        try:
            mask.save(temporary, "png", pnginfo=mark)
            os.replace(temporary, path)
        except OSError as error:
            raise DelegateError(f"cannot write the mask {path}: {reason_of(error)}") from error
        finally:
            temporary.unlink(missing_ok=True)
