"""Files of pictures to rows of a table."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ray.predictor import Model, Predictor


class PictureFiles:
    """For Ray Data: the rows of a table for a batch of paths of pictures.

    Args:
        model, **arguments: See `Predictor`.
    """

    def __init__(self, model: Model, **arguments: Any) -> None:
        self._predictor = Predictor(model, **arguments)

    def __call__(self, batch: Mapping[str, Any]) -> Any:
        """A table with "path", "error", which says why a picture is not read, and the results.

        The results of a picture are lists of numbers, in row-major order, or of labels.
        """
        import pyarrow as pa

        paths = [str(path) for path in batch["path"]]
        pictures, errors = zip(*map(self._read, paths), strict=True)
        good = [i for i, error in enumerate(errors) if error is None]
        (name,) = self._predictor.inputs
        read = np.concatenate([pictures[i] for i in good]) if good else None
        results = self._predictor.compute({name: read}) if read is not None else {}
        place = {row: i for i, row in enumerate(good)}
        table: dict[str, Any] = {"path": pa.array(paths), "error": pa.array(errors, pa.string())}
        for what, kind in self._columns.items():
            found = results.get(what)
            rows = [
                found[place[i]].reshape(-1).tolist() if found is not None and i in place else None
                for i in range(len(paths))
            ]
            table[what] = pa.array(rows, pa.list_(kind))
        return pa.table(table)

    @property
    def _columns(self) -> dict[str, Any]:
        """The types of the results."""
        import pyarrow as pa

        if self._predictor.top:
            return {"labels": pa.string(), "scores": pa.float32()}
        return {
            name: pa.from_numpy_dtype(details["dtype"])
            for name, details in self._predictor.outputs.items()
        }

    def _read(self, path: str) -> tuple[Array | None, str | None]:
        """A picture as the model's input, or why it is none."""
        try:
            ((_, array),) = self._predictor.prepare({"image": [Path(path).read_bytes()]}).items()
        except (OSError, ValueError) as error:
            return None, str(error)
        return array, None
