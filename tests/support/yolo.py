"""Small YOLO networks that find the same objects in any picture."""

import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.support.fake_networks import given_outputs
from tests.support.live import mean_model
from tests.support.tflite_builder import ModelBuilder

Array = NDArray[Any]
SIZE = (96, 64)
"""Height and width of the input."""
BOX = (10, 30, 50, 60)
"""The object, in the input."""


def yolo_model(
    path: Path, *outputs: Array, shape: tuple[int, ...] = (1, *SIZE, 3), **values: Any
) -> Path:
    """A network with these outputs for any picture, and the exporter's metadata."""
    builder = ModelBuilder()
    path.write_bytes(builder.build(given_outputs(builder, builder.input(shape), outputs)))
    return exported(path, **values) if values else path


def exported_classifier(path: Path) -> Path:
    """`mean_model` as the exporter writes it."""
    return exported(mean_model(path), task="classify", names=["r", "g", "b"])


def exported(path: Path, **values: Any) -> Path:
    """A model with the exporter's metadata behind it."""
    with zipfile.ZipFile(path, "a") as bundle:
        bundle.writestr("metadata.json", json.dumps(values))
    return path


def found_in(extra: Any = ()) -> Array:
    """Two objects, the second one of a low score, as columns of YOLOv8's output of 2 classes."""
    left, top, right, bottom = BOX
    centered = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    columns = np.zeros((6 + len(extra), 126), np.float32)
    columns[:4] = np.transpose([[32, 48, 20, 20]])
    columns[:, 0] = [*centered, 0.05, 0.8, *extra]
    columns[:, 1] = [*centered, 0.2, 0.1, *extra]
    return columns[np.newaxis]
