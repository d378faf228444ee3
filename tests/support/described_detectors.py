"""SSDs whose metadata has their anchors and decoding options, as MediaPipe Model Maker writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any
from zipfile import ZipFile

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from tests.support.schema import pack_model
from tests.support.tflite_builder import ModelBuilder

Floats = NDArray[np.float32]


@dataclass
class DescribedDetector:
    """A network whose outputs are given; they do not depend on the picture.

    Attributes:
        boxes: [1, anchors, numbers].
        scores: [1, anchors, classes].
        anchors: [anchors, 4]: x, y, width, height.
        scales: Of x, y, width, height.
        names: Of the outputs in their order: "location" has the boxes, any other the scores.
        options: Decoding options by slot, instead of the numbers that fit `boxes` and `scores`.
    """

    boxes: Floats
    scores: Floats
    anchors: Floats
    scales: Sequence[float] = (1, 1, 1, 1)
    exponential: bool = False
    logits: bool = True
    labels: Sequence[str] = ()
    names: Sequence[str] = ("location", "score")
    size: int = 32
    options: dict[int, int] = field(default_factory=dict)

    def decoding(self) -> bytes:
        """mediapipe/tasks/metadata/object_detector_metadata_schema.fbs."""
        b = flatbuffers.Builder()
        anchors = [table(b, *map(float, anchor)) for anchor in self.anchors]
        grid = table(b, Ref(table(b, Ref(vector(b, anchors)))))
        points = (self.boxes.shape[2] - 4) // 2
        numbers = [self.scores.shape[2], *self.boxes.shape[1:], 4 if points else 0, points, 2]
        numbers = [self.options.get(slot, number) for slot, number in enumerate(numbers)]
        scales = map(float, self.scales)
        options = table(b, *numbers, *scales, self.exponential, self.logits)
        b.Finish(table(b, None, Ref(grid), Ref(options)), b"V001")
        return bytes(b.Output())

    def metadata(self, decoding: bytes) -> bytes:
        """TFLite's metadata_schema.fbs, with the decoding as custom metadata."""
        b = flatbuffers.Builder()
        mean, std = (b.CreateNumpyVector(np.float32([value])) for value in (127.5, 127.5))
        unit = table(b, np.uint8(1), Ref(table(b, Ref(mean), Ref(std))))  # NormalizationOptions
        inputs = vector(b, [table(b, None, None, None, None, Ref(vector(b, [unit])))])
        labels = table(b, Ref(b.CreateString("labels.txt")), None, np.int8(2))
        files = [None, None, None, None, None, Ref(vector(b, [labels]))]
        boundaries = table(b, np.uint8(3), Ref(table(b, None, np.int8(1))))
        outputs = [
            table(b, Ref(b.CreateString(name)), None, None, Ref(boundaries))
            if name == "location"
            else table(b, Ref(b.CreateString(name)), *files)
            for name in self.names
        ]
        data = Ref(b.CreateByteVector(decoding))
        custom = table(b, Ref(b.CreateString("DETECTOR_METADATA")), data)
        parts = [None] * 2 + [Ref(inputs), Ref(vector(b, outputs))] + [None] * 5
        graphs = vector(b, [table(b, *parts, Ref(vector(b, [custom])))])
        b.Finish(table(b, None, None, None, Ref(graphs)), b"M001")
        return bytes(b.Output())

    def build(self, decoding: bytes | None = None) -> bytes:
        """The model; `decoding` replaces the bytes of its custom metadata."""
        b = ModelBuilder()
        x = b.input((1, self.size, self.size, 3))
        mean = b.op("MEAN", [x, b.constant(np.int32([1, 2, 3]))], [(1,)])
        nothing = b.op("MUL", [mean, b.constant(np.float32([0]))], [(1,)])
        outputs = [
            b.op("ADD", [b.constant(array), nothing], [array.shape])
            for array in (self.boxes if name == "location" else self.scores for name in self.names)
        ]
        model = dict(b.model(outputs))
        data = self.metadata(self.decoding() if decoding is None else decoding)
        model["buffers"] = [*model["buffers"], {"data": data}]
        described = {"name": "TFLITE_METADATA", "buffer": len(model["buffers"]) - 1}
        model["metadata"] = [*model.get("metadata", ()), described]
        file = BytesIO(pack_model(model))
        with ZipFile(file, "a") as packed:
            packed.writestr("labels.txt", "".join(f"{label}\n" for label in self.labels))
        return file.getvalue()


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
