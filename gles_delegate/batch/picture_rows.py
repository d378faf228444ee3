"""Rows of results for picture files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from gles_delegate.batch.predictor import Predictor
from gles_delegate.batch.results import Row, column_name, digest
from gles_delegate.model.graph import Array


def picture_rows(predictor: Predictor, paths: Sequence[str]) -> list[Row]:
    """The results of a model with one input for picture files, in their order."""
    (name,) = predictor.inputs
    rows: list[Row] = []
    readable: list[Row] = []
    arrays: list[Array] = []
    for path in paths:
        row: Row = {"path": path, "picture": "", "error": None}
        rows.append(row)
        try:
            content = Path(path).read_bytes()
            row["picture"] = digest(content)
            arrays.append(predictor.prepare({"image": [content]})[name])
            readable.append(row)
        except OSError as error:
            row["error"] = f"cannot be read: {error.strerror or error}"
        except ValueError as error:
            row["error"] = str(error)
    if readable:
        results = predictor.compute({name: np.concatenate(arrays)})
        for output, column in results.items():
            for row, values in zip(readable, column, strict=True):
                row[column_name(output)] = values.reshape(-1)
    return rows
