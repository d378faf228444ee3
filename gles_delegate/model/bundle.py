"""Bundles of models: zip files, such as MediaPipe's .task files, which may hold others."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from zipfile import BadZipFile, ZipFile

from gles_delegate.errors import ModelError
from gles_delegate.model.schema import FILE_IDENTIFIER

_ZIP = b"PK\x03\x04"
_DAMAGES = (BadZipFile, zlib.error, RuntimeError, EOFError, OSError, ValueError)
"""What zipfile raises for files that are damaged, encrypted, or packed in a way it lacks."""


def model_of(content: bytes, member: str | None) -> bytes:
    """The model `member` of a bundle; None: the only one. A model by itself is returned as it is.

    Raises:
        ModelError: There is no such model, or the bundle is damaged.
    """
    if content[:4] != _ZIP:
        if member is not None:
            raise ModelError(
                f"expected a bundle of models (.task), of which {member!r} is one, found another "
                "file; a .tflite file has no members"
            )
        return content
    try:
        models = dict(_models(content))
        name = next(iter(models)) if member is None and len(models) == 1 else member
        if name in models:
            return models[name]()
    except _DAMAGES as error:
        raise ModelError(f"damaged bundle of models: {error}") from error
    if not models:
        raise ModelError("expected a bundle of models (.task), found a zip file without a model")
    names, found = ", ".join(models), "nothing" if name is None else repr(name)
    raise ModelError(
        f"this is a bundle of models: expected member=..., one of {names}; found {found}"
    )


def _models(content: bytes, folder: str = "") -> Iterator[tuple[str, Callable[[], bytes]]]:
    """The models of a bundle: their names, and what reads them."""
    bundle = ZipFile(BytesIO(content))
    for info in bundle.infolist():
        with bundle.open(info) as file:
            start = file.read(8)
        if start[4:] == FILE_IDENTIFIER:
            yield folder + info.filename, partial(bundle.read, info)
        elif start[:4] == _ZIP:
            yield from _models(bundle.read(info), f"{folder}{info.filename}/")
