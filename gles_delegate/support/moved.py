"""Modules that were the delegate's, and are the apps': importing one says where it is."""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from typing import Any

MOVED = ("batch", "live", "ray", "tasks", "vision")
PACKAGE = __name__.partition(".")[0]


def place_of(name: str) -> str:
    """Where a module is."""
    return f"{PACKAGE}.{name} is gles_apps.{name} since 1.0.2"


class _Finder(MetaPathFinder):
    """Finds nothing; it is asked after all others."""

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> None:
        """Raise ModuleNotFoundError for what has moved."""
        parent, _, name = fullname.rpartition(".")
        if parent == PACKAGE and name in MOVED:
            # Of another name than the import's, which `from` would take for a missing attribute.
            raise ModuleNotFoundError(place_of(name), name=name)


def refuse_imports() -> None:
    """Let imports of what has moved say so."""
    sys.meta_path.append(_Finder())
