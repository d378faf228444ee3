"""A model that is to be run on the delegate and on LiteRT."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Trial:
    """A model and its twins.

    Attributes:
        seed: Of the arrays for its inputs, and of the way in which the delegate runs it.
        name: What it is, as people read it.
        content: The model.
        smaller: Simpler trials, of which one may show the same fault.
        reference: What LiteRT runs in its place; None stands for `content`.
        steps: By how many steps 8-bit results may differ.
        tolerance: By which share of their scale real numbers may.
    """

    seed: int
    name: str
    content: bytes
    smaller: Callable[[], Iterator[Trial]] = lambda: iter(())
    reference: bytes | None = None
    steps: int = 1
    tolerance: float = 1e-4

    def keep(self, folder: Path, part: str) -> None:
        """Write it to a folder, from where the tests run it."""
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, content in ((".tflite", self.content), (".litert", self.reference)):
            if content:
                (folder / f"{part}-{self.seed}").with_suffix(suffix).write_bytes(content)

    @classmethod
    def kept(cls, path: Path, **allowed: Any) -> Trial:
        """Read it again."""
        twin = path.with_suffix(".litert")
        reference = twin.read_bytes() if twin.exists() else None
        seed = int(path.stem.rpartition("-")[2])
        return cls(seed, path.stem, path.read_bytes(), reference=reference, **allowed)
