"""Models that others publish, and their files' digests."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

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

    @property
    def curl(self) -> str:
        """A command that downloads the file."""
        return f"curl --location --output {self.name} '{self.url}'"


def published() -> list[PublishedModel]:
    text = (resources.files("gles_delegate.cli") / "models.csv").read_text("utf-8")
    return [
        PublishedModel(**{**row, "bytes": int(row["bytes"])})  # type: ignore[arg-type]
        for row in csv.DictReader(text.splitlines())
    ]


def without_ending(name: str) -> str:
    return name.removesuffix(".tflite").removesuffix(".task")


def digest_of(file: Path, most: int) -> tuple[str, int]:
    """SHA-256, in hexadecimal, and size of a file, or of more than `most` bytes of a larger one.

    Raises OSError if the file cannot be read.
    """
    digest = hashlib.sha256()
    size = 0
    require_regular(file)
    with file.open("rb") as content:
        while size <= most and (block := content.read(1 << 20)):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size
