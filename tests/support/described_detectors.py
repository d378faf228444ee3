"""SSDs whose metadata has their anchors and decoding options, as MediaPipe Model Maker writes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import flatbuffers
import numpy as np
from numpy.typing import NDArray

from tests.support.fake_networks import given_outputs
from tests.support.metadata import Ref, described, process_unit, table, vector
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
        unit = process_unit(b, [127.5], [127.5])
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
        arrays = [self.boxes if name == "location" else self.scores for name in self.names]
        data = self.metadata(self.decoding() if decoding is None else decoding)
        return described(b.model(given_outputs(b, x, arrays)), data, self.labels)
