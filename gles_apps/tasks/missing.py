"""Names of MediaPipe's that are not here."""

from __future__ import annotations

from typing import NoReturn


def missing(module: str, name: str) -> NoReturn:
    """Raise AttributeError for a name that a module lacks."""
    hint = "" if name.startswith("_") else "; docs/tasks.md lists what there is"
    raise AttributeError(f"module {module!r} has no attribute {name!r}{hint}")
