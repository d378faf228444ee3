"""Presets of detectors by their shapes, and detections from their outputs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gles_apps.vision.detection import (
    FACE_DETECTOR,
    FACE_DETECTOR_FULL_RANGE,
    PALM_DETECTOR,
    POSE_DETECTOR,
    POSE_DETECTOR_128,
    ROUNDING,
    Detection,
    Detector,
    FixedAnchors,
    detect,
    ssd_mobilenet,
    ssd_mobilenet_fpn,
)
from gles_apps.vision.yolo import YoloDetector, find_yolo, read_yolo
from gles_delegate import ImageTransform, ModelError, TensorMetadata
from gles_delegate.model.flatbuffer import FlatTable
from gles_delegate.model.graph import Array

FIXED = (FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE, PALM_DETECTOR, POSE_DETECTOR, POSE_DETECTOR_128)
"""Presets of one input size."""


def find_detector(
    input_shape: Sequence[int],
    output_shapes: Sequence[Sequence[int]],
    metadata: Sequence[TensorMetadata] = (),
    *,
    kind: str | None = None,
) -> Detector | YoloDetector | None:
    """The preset whose outputs have these shapes.

    Args:
        input_shape: [1, height, width, 3]; a YOLO network's may be [1, 3, height, width].
        output_shapes: Shapes of all outputs, in any order.
        metadata: `Interpreter.metadata` of the outputs, in the same order. It has the anchors and
            options of detectors that MediaPipe Model Maker exports. It shows whether an SSD's
            scores are logits, as they are without it; see `Detector.logits`. It has the class
            names, task and key points of a YOLO network.
        kind: One of `YOLO_KINDS`, where shapes and metadata suit several.

    Returns:
        The preset; None for the four outputs of TFLite_Detection_PostProcess, which need no
        decoding. `read_detections` accepts all of them.

    Raises:
        ValueError: No preset has such outputs, or several kinds of YOLO networks have; a `Detector`
            or a `YoloDetector` of your own says how to read them.
        ModelError: The metadata is damaged, or does not fit the outputs (also a ValueError).

    Examples:
        >>> found = vision.find_detector([1, 128, 128, 3], [[1, 896, 16], [1, 896, 1]])
        >>> found == vision.FACE_DETECTOR
        True
        >>> vision.find_detector([1, 640, 640, 3], [[1, 84, 8400]], kind="yolov8").classes
        80
    """
    if kind is not None:
        return find_yolo(input_shape, output_shapes, metadata, kind)
    if len(output_shapes) == 4:
        return None
    if any(each.detector for each in metadata):
        return _recorded(input_shape, output_shapes, metadata)
    size = (int(input_shape[1]), int(input_shape[2])) if len(input_shape) == 4 else (0, 0)
    sizes = [math.prod(shape) for shape in output_shapes]
    presets = [preset for preset in FIXED if preset.anchors.size == size]
    presets += [ssd_mobilenet(size), ssd_mobilenet_fpn(size)] if min(size) > 0 else []
    for detector in presets if len(sizes) == 2 else ():
        count = len(detector._anchors)
        numbers = count * (4 + 2 * detector.key_points)
        boxes = [i for i, n in enumerate(sizes) if n == numbers and sizes[1 - i] % count == 0]
        if boxes:
            is_share = metadata[1 - boxes[0]].is_share if metadata else None
            return replace(detector, logits=not is_share) if detector.background else detector
    found = find_yolo(input_shape, output_shapes, metadata)
    if found is not None:
        return found
    raise ValueError(
        "expected the outputs of a detector of faces, palms or poses, of TensorFlow's SSD, of "
        "TFLite_Detection_PostProcess or of YOLO, found "
        f"{[list(shape) for shape in output_shapes]} for an input {list(input_shape)}; another "
        "task may fit"
    )


def _recorded(
    input_shape: Sequence[int],
    output_shapes: Sequence[Sequence[int]],
    metadata: Sequence[TensorMetadata],
) -> Detector:
    """The detector that metadata describes; see `TensorMetadata.detector`.

    What is not recorded follows MediaPipe's detection_postprocessing_graph.cc: positions are
    (y, x), and suppression compares boxes of all classes, without averages.
    """
    root = FlatTable.root(next(each.detector for each in metadata if each.detector))
    grid = root.table(1)
    options = root.table(2)
    listed = None if grid is None else grid.table(0)
    if listed is None or options is None:
        raise ModelError("damaged metadata of a detector: expected anchors and decoding options")
    rows = [[anchor.scalar(slot, "float32") for slot in range(4)] for anchor in listed.tables(0)]
    anchors = np.array(rows, np.float32).reshape(-1, 4)
    if not np.isfinite(anchors).all():
        raise ModelError("damaged metadata of a detector: expected finite anchors")
    integers = [options.scalar(slot, "int32") for slot in range(6)]
    classes, count, numbers, offset, points, each_point = integers
    x, y, width, height = (options.scalar(slot, "float32") for slot in range(6, 10))
    if not 0 < abs(x * y * width * height) < math.inf:
        raise ModelError(
            "damaged metadata of a detector: expected finite scales other than 0, found "
            f"{(x, y, width, height)}"
        )
    placed = (offset, each_point) if points else (4, 2)
    if (len(anchors), numbers, *placed) != (count, 4 + 2 * points, 4, 2):
        raise ModelError(
            f"expected a detector's metadata with {count} anchors and boxes of 4 numbers, and then "
            f"2 for each of {points} key points; found {len(anchors)} anchors, and boxes of "
            f"{numbers} numbers with {each_point} for each point from {offset} on"
        )
    shapes = [tuple(shape) for shape in output_shapes]
    boxes = (1, count, numbers)
    scores = (1, count, classes)
    if sorted(shapes) != sorted((boxes, scores)) or len(input_shape) != 4:
        raise ModelError(
            f"expected outputs {list(boxes)} and {list(scores)} by the detector's metadata, found "
            f"{[list(shape) for shape in shapes]}"
        )
    location = shapes.index(boxes)
    if boxes == scores:  # names tell them apart, or else boxes come first
        location = max(range(2), key=lambda i: metadata[i].name == "location")
    return Detector(
        FixedAnchors((int(input_shape[1]), int(input_shape[2])), anchors),
        points,
        scales=(x, y, width, height),
        exponential=options.scalar(10, "bool"),
        y_first=True,
        fit="stretch",
        logits=options.scalar(11, "bool"),
        weighted=False,
        location=location,
    )


def preprocessing(detector: Detector | YoloDetector | None) -> ImageTransform | None:
    """How a detector of `find_detector` sees a picture; None: stretched, with the mean and the
    standard deviation in the metadata of the model's input.
    """
    if isinstance(detector, Detector) and isinstance(detector.anchors, FixedAnchors):
        return None
    return None if detector is None else detector.transform


def has_postprocessing(output_shapes: Sequence[Sequence[int]]) -> bool:
    """Whether these may be the outputs of TFLite_Detection_PostProcess.

    Converters omit their shapes, which are then [].
    """
    return sorted(map(len, output_shapes)) in ([1, 2, 2, 3], [0, 0, 0, 0])


def read_detections(
    outputs: Sequence[Array], detector: Detector | YoloDetector | None, *, threshold: float = 0.5
) -> list[Detection]:
    """Detections, best first, from all outputs of a network in any order.

    Args:
        outputs: Boxes and scores, or the four outputs of TFLite_Detection_PostProcess: boxes
            [1, n, 4] (top, left, bottom, right), classes [1, n], scores [1, n] and their count [1].
            TensorFlow 1 and 2 list these in different orders. Classes are integers, and scores
            are in 0 to 1; if both arrays could be either, TensorFlow's order decides.
        detector: The result of `find_detector`; None for TFLite_Detection_PostProcess.
        threshold: Minimum score, without a detector.

    Raises:
        ValueError: The outputs do not suit the detector. A YOLO network's are quantized.

    Examples:
        >>> boxes = np.array([[[0.2, 0.1, 0.6, 0.5]]], np.float32)
        >>> classes, scores, count = np.array([[17.0]]), np.array([[0.8]]), np.array([1.0])
        >>> (cat,) = vision.read_detections([boxes, classes, scores, count], None)
        >>> cat.class_index, cat.score
        (17, 0.8)
    """
    if detector is None:
        return _postprocessed([np.asarray(a) for a in outputs], threshold)
    if isinstance(detector, YoloDetector):
        return read_yolo(outputs, detector)
    count = len(detector._anchors)
    numbers = 4 + 2 * detector.key_points
    arrays = [np.reshape(a, (1, count, -1)) for a in outputs if np.size(a) % count == 0]
    fitting = [i for i, array in enumerate(arrays) if array.shape[2] == numbers]
    if detector.location in fitting:
        fitting = [detector.location]
    if len(outputs) != 2 or len(arrays) != 2 or len(fitting) != 1:
        raise ValueError(
            f"expected boxes [1, {count}, {numbers}] and scores [1, {count}, classes], found "
            f"{[list(np.shape(a)) for a in outputs]}; if the shapes are the same, call "
            "detect(boxes, scores, detector)"
        )
    return detect(arrays[fitting[0]], arrays[1 - fitting[0]], detector)


def _postprocessed(outputs: list[Array], threshold: float) -> list[Detection]:
    boxes, counts, pairs = ([a for a in outputs if a.ndim == rank] for rank in (3, 1, 2))
    expected = (
        "expected boxes [1, n, 4], classes [1, n], scores [1, n] and their count [1] from "
        f"TFLite_Detection_PostProcess, found {[list(array.shape) for array in outputs]}"
    )
    n = boxes[0].shape[1] if boxes else 0
    if [a.shape for a in (*boxes, *counts, *pairs)] != [(1, n, 4), (1,), (1, n), (1, n)]:
        raise ValueError(expected)
    count = int(np.clip(np.nan_to_num(counts[0][0]), 0, n))
    first, second = (array[0, :count].astype(float) for array in pairs)
    # TensorFlow 1 lists boxes, classes, scores; TensorFlow 2 lists scores, boxes, count, classes.
    orders = [(first, second), (second, first)]
    for classes, scores in orders if outputs[0].ndim == 3 else orders[::-1]:
        # Only finite numbers are detections, and only they are checked.
        good = np.isfinite(classes) & np.isfinite(scores)
        numbers = classes[good]
        shares = scores[good]
        are_shares = (shares >= -ROUNDING) & (shares <= 1 + ROUNDING)
        if np.all(numbers == np.maximum(np.round(numbers), 0)) and np.all(are_shares):
            break
    else:
        raise ValueError(f"{expected}; neither order gives integer classes and scores of 0 to 1")
    good &= (scores.clip(0, 1) >= threshold) & np.isfinite(boxes[0][0, :count]).all(1)
    columns = (boxes[0][0, :count], scores.clip(0, 1), classes)
    detections = []
    for box, score, label in zip(*(column[good].tolist() for column in columns), strict=True):
        top, left, bottom, right = box
        detections.append(Detection((left, top, right, bottom), score, int(label)))
    return sorted(detections, key=lambda d: -d.score)
