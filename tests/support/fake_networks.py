"""Networks with the shapes of MediaPipe's, whose outputs depend on the mean color alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import flatbuffers
import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from tests.support.bundles import aligned_bundle
from tests.support.metadata import Ref, described, process_unit, table, vector
from tests.support.tflite_builder import ModelBuilder

Shapes = Sequence[tuple[int, ...]]
Floats = NDArray[np.float32]
NETWORKS: dict[str, tuple[int, Shapes]] = {
    "face_detector.tflite": (128, [(1, 896, 16), (1, 896, 1)]),
    "face_landmarks_detector.tflite": (192, [(1, 1434), (1, 1)]),
    "hand_detector.tflite": (192, [(1, 2016, 18), (1, 2016, 1)]),
    "hand_landmarks_detector.tflite": (224, [(1, 63), (1, 1), (1, 1), (1, 63)]),
    "pose_detector.tflite": (224, [(1, 2254, 12), (1, 2254, 1)]),
    "pose_landmarks_detector.tflite": (
        256, [(1, 195), (1, 1), (1, 256, 256, 1), (1, 64, 64, 39), (1, 117)],
    ),
    "hand_roi_refinement.tflite": (256, [(1, 1, 1, 4)]),
}  # fmt: skip
"""Sizes of the input and shapes of the outputs."""
MARKED = (48, 64)
"""Height and width that `last_channel` sees."""
BUNDLES = {
    kind: (f"{kind}_detector.tflite", f"{kind}_landmarks_detector.tflite")
    for kind in ("face", "hand", "pose")
}


def given_outputs(
    b: ModelBuilder,
    x: int,
    outputs: Sequence[NDArray[Any]],
    names: Sequence[str] = (),
    share: float = 0,
) -> list[int]:
    """Outputs that are given, in bright pictures brighter by a share of the mean color.

    Args:
        x: A batch of one picture.
        names: The names of the outputs; none: any.
    """
    mean = b.op("MEAN", [x, b.constant(np.int32([1, 2, 3]))], [(1,)])
    little = b.op("MUL", [mean, b.constant(np.float32([share]))], [(1,)])
    return [
        b.op("ADD", [b.constant(np.float32(array)), little], [b.tensor(array.shape, name=name)])
        for array, name in zip_longest(outputs, names)
    ]


def fake_network(
    size: int, outputs: Sequence[NDArray[Any]], names: Sequence[str] = (), share: float = 0.01
) -> bytes:
    """A network of pictures [1, size, size, 3], "input", with `given_outputs`."""
    b = ModelBuilder()
    x = b.input((1, size, size, 3), name="input")
    return b.build(given_outputs(b, x, outputs, names, share))


def plausible(name: str, rng: Generator) -> list[Floats]:
    """Outputs of a network: two objects, or an object's landmarks in the middle."""
    size, shapes = NETWORKS[name]
    if name == "hand_roi_refinement.tflite":
        return [rng.normal(size / 2, size / 6, shapes[0]).astype(np.float32)]
    arrays = [np.zeros(shape, np.float32) for shape in shapes]
    if name.endswith("landmarks_detector.tflite"):
        points = rng.normal(size / 2, size / 6, arrays[0].shape)
        arrays[0][:] = points
        arrays[1][:] = 0.9 if "hand" in name or "pose" in name else 5.0
        if "hand" in name:
            arrays[2][:] = rng.random()
        for array in arrays[3:]:
            array[:] = rng.normal(0, 0.1, array.shape)
        return arrays
    boxes, scores = arrays
    scores[:] = -9
    for i in rng.choice(scores.shape[1], 2, replace=False):
        scores[0, i] = 3
        boxes[0, i] = rng.normal(0, size / 8, boxes.shape[2])
        boxes[0, i, 2:4] = size / 4
    return arrays


def fake_bundle(kind: str, rng: Generator, **changed: Any) -> bytes:
    """A bundle of a "face", "hand" or "pose" landmarker; `changed` are outputs by network."""
    files = {}
    for name in BUNDLES[kind]:
        outputs = changed.get(name, plausible(name, rng))
        files[name] = fake_network(NETWORKS[name][0], outputs)
    return aligned_bundle(**files)


def holistic_bundle(rng: Generator, **changed: Sequence[Floats]) -> bytes:
    """A twin of holistic_landmarker.task; see `fake_bundle`."""
    files = {
        name: fake_network(size, changed.get(name) or plausible(name, rng))
        for name, (size, _) in NETWORKS.items()
    }
    return aligned_bundle(**files, **{"face_blendshapes.tflite": fake_blendshapes()})


def fake_blendshapes() -> bytes:
    """52 numbers from 146 points."""
    b = ModelBuilder()
    x = b.input((1, 146, 2))
    flat = b.op("RESHAPE", [x, b.constant(np.int32([1, 292]))], [(1, 292)])
    weights = b.constant(np.full((52, 292), 1e-3, np.float32))
    return b.build([b.op("FULLY_CONNECTED", [flat, weights, -1], [(1, 52)])])


def face_geometry(points: NDArray[Any], weights: Sequence[float] | None = None) -> bytes:
    """A model of a face as a face_landmarker.task has it: mediapipe's GeometryPipelineMetadata.

    Args:
        points: [n, 3].
        weights: Of the first points; None: each has 1.
    """
    rows = np.pad(points, ((0, 0), (0, 2))).astype("<f4")  # texture coordinates
    data = _field(1, _field(3, rows.tobytes()))
    for i, weight in enumerate([1] * len(points) if weights is None else weights):
        data += _field(2, b"\x08" + _varint(i) + b"\x15" + np.float32(weight).tobytes())
    return data


def _field(number: int, content: bytes) -> bytes:
    """A field of bytes in a protocol buffer."""
    return bytes([number << 3 | 2]) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    if value < 128:
        return bytes([value])
    return bytes([value & 127 | 128]) + _varint(value >> 7)


def labelled(b: ModelBuilder, scores: int, labels: Sequence[str]) -> bytes:
    """A model with the names of its output's classes in its metadata, and inputs of 0 to 1."""
    d = flatbuffers.Builder()
    unit = process_unit(d, [0], [255])
    seen = table(d, None, None, None, None, Ref(vector(d, [unit])))
    file = table(d, Ref(d.CreateString("labels.txt")), None, np.int8(2))
    output = table(d, None, None, None, None, None, None, Ref(vector(d, [file])))
    graph = table(d, None, None, Ref(vector(d, [seen])), Ref(vector(d, [output])))
    d.Finish(table(d, None, None, None, Ref(vector(d, [graph]))), b"M001")
    return described(b.model([scores]), bytes(d.Output()), labels)


def last_channel(channels: int = 4) -> bytes:
    """An interactive segmenter [1, *MARKED, channels] whose mask is the mark of its point."""
    return a_channel(channels - 1, channels)


def a_channel(number: int, channels: int = 4) -> bytes:
    """A segmenter [1, *MARKED, channels] whose mask is one of them."""
    b = ModelBuilder()
    x = b.input((1, *MARKED, channels))
    begin, size = np.int32([0, 0, 0, number]), np.int32([1, *MARKED, 1])
    y = b.op("SLICE", [x, b.constant(begin), b.constant(size)], [(1, *MARKED, 1)])
    return labelled(b, y, ["object"])


def linear_network(weights: Floats) -> bytes:
    """A network of pictures [1, 8, 8, 3] with the scores weights @ mean color, colors of 0 to 1.

    Args:
        weights: [scores, 3].
    """
    b = ModelBuilder()
    x = b.input((1, 8, 8, 3))
    mean = b.op("MEAN", [x, b.constant(np.int32([1, 2]))], [(1, 3)])
    y = b.op("FULLY_CONNECTED", [mean, b.constant(weights), -1], [(1, len(weights))])
    return labelled(b, y, [f"class {i}" for i in range(len(weights))])


@dataclass
class GestureNetworks:
    """A twin of gesture_recognizer.task: an embedder with a hyperbolic tangent, and classifiers.

    Attributes:
        embedder: [embedding, 127]: the weights of 63 numbers of points, one of the side, and 63 of
            points in meters.
        classifiers: [classes, embedding] of "canned" and maybe "custom".
        labels: Of their classes.
    """

    embedder: Floats
    classifiers: dict[str, Floats]
    labels: dict[str, Sequence[str]]

    @classmethod
    def drawn(cls, rng: Generator, *kinds: str) -> GestureNetworks:
        labels = {kind: ("None", f"{kind} one", f"{kind} two") for kind in kinds}
        weights = {kind: rng.normal(0, 2, (3, 8)).astype(np.float32) for kind in kinds}
        return cls(rng.normal(0, 0.5, (8, 127)).astype(np.float32), weights, labels)

    def bundle(self, hands: bytes) -> bytes:
        """The bundle, with the bundle of a hand landmarker."""
        files = {"gesture_embedder.tflite": self._embedder()}
        for kind, weights in self.classifiers.items():
            b = ModelBuilder()
            x = b.input((1, weights.shape[1]))
            y = b.op("FULLY_CONNECTED", [x, b.constant(weights), -1], [(1, len(weights))])
            y = b.op("SOFTMAX", [y], [(1, len(weights))], beta=1.0)
            files[f"{kind}_gesture_classifier.tflite"] = labelled(b, y, self.labels[kind])
        gestures = aligned_bundle(**files)
        return aligned_bundle(
            **{"hand_landmarker.task": hands, "hand_gesture_recognizer.task": gestures}
        )

    def _embedder(self) -> bytes:
        b = ModelBuilder()
        points, side, world = (b.input(shape) for shape in ((1, 21, 3), (1, 1), (1, 21, 3)))
        flat = [
            b.op("RESHAPE", [each, b.constant(np.int32([1, 63]))], [(1, 63)])
            for each in (points, world)
        ]
        joined = b.op("CONCATENATION", [flat[0], side, flat[1]], [(1, 127)], axis=1)
        weights = b.constant(self.embedder)
        y = b.op("FULLY_CONNECTED", [joined, weights, -1], [(1, len(self.embedder))])
        return b.build([b.op("TANH", [y], [(1, len(self.embedder))])])
