"""Packages that only some uses need."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

NAMES = {"PIL": "pillow"}
"""Names of distributions, where the name in an import is another."""


def installed(module: str, reason: str) -> ModuleType:
    """A module of an optional package.

    Args:
        module: Its name.
        reason: What needs it.

    Raises:
        ModuleNotFoundError: It is missing; the message says how to install it.
    """
    package = module.split(".")[0]
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        if error.name != package:
            raise
        name = NAMES.get(package, package)
        raise ModuleNotFoundError(f"{reason}: pip install {name}", name=package) from None
    return import_module(module)


def pillow() -> Any:
    """The module PIL.Image."""
    return installed("PIL.Image", "pictures need the package Pillow")


@contextmanager
def needs(user: str, extra: str, *packages: str) -> Iterator[None]:
    """Imports by `user` of the packages of an extra.

    Raises:
        ModuleNotFoundError: One is missing; the message names the extra.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in packages:
            raise
        raise ModuleNotFoundError(lacks_extra(user, extra, error), name=error.name) from None


def lacks_extra(user: str, extra: str, error: ImportError) -> str:
    """A message: `user` needs the packages of an extra, and importing one raised `error`."""
    return f"{user} needs the extra {extra} ({error}): pip install 'gles_delegate[{extra}]'"
