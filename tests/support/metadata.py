"""Metadata of models, of TFLite's metadata_schema.fbs and others, and files that have it."""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import flatbuffers
import numpy as np

from tests.support.schema import Values, pack_model


@dataclass
class Ref:
    """An offset to a table, vector or string."""

    offset: int


def table(b: flatbuffers.Builder, *fields: Any) -> int:
    """A table of references, float32, int32, bool, and bytes of numpy; None is left out."""
    b.StartObject(len(fields))
    for slot, value in enumerate(fields):
        match value:
            case None:
                pass
            case Ref(offset):
                b.PrependUOffsetTRelativeSlot(slot, offset, 0)
            case bool():
                b.PrependBoolSlot(slot, value, False)
            case np.uint8():
                b.PrependUint8Slot(slot, int(value), 0)
            case np.int8():
                b.PrependInt8Slot(slot, int(value), 0)
            case int():
                b.PrependInt32Slot(slot, value, 0)
            case _:
                b.PrependFloat32Slot(slot, value, 0.0)
    return b.EndObject()


def vector(b: flatbuffers.Builder, tables: Sequence[int]) -> int:
    b.StartVector(4, len(tables), 4)
    for offset in reversed(tables):
        b.PrependUOffsetTRelative(offset)
    return b.EndVector()


def process_unit(
    b: flatbuffers.Builder, mean: Sequence[float], std: Sequence[float], kind: int = 1
) -> int:
    """A unit that processes a tensor, by default NormalizationOptions."""
    numbers = [Ref(b.CreateNumpyVector(np.float32(each))) for each in (mean, std)]
    return table(b, np.uint8(kind), Ref(table(b, *numbers)))


def described(model: Values, metadata: bytes, labels: Sequence[str] | None = None) -> bytes:
    """The file of a model's tables with its metadata; behind it labels.txt, if there are any."""
    buffers = [*model["buffers"], {"data": metadata}]
    entry = {"name": "TFLITE_METADATA", "buffer": len(buffers) - 1}
    file = BytesIO(pack_model({**model, "buffers": buffers, "metadata": [entry]}))
    if labels is not None:
        with ZipFile(file, "a") as packed:
            packed.writestr("labels.txt", "".join(f"{label}\n" for label in labels))
    return file.getvalue()
