"""Detections of a network in a picture, in pixels."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gles_delegate.cli import tensor_files
from gles_delegate.image.pictures import channels_last
from gles_delegate.image.transform import ImageTransform, Size
from gles_delegate.model.graph import Array, Graph
from gles_delegate.planning.outputs import read_metadata
from gles_delegate.vision.classes import class_name
from gles_delegate.vision.detection import Detection, Detector
from gles_delegate.vision.detectors import (
    find_detector,
    has_postprocessing,
    preprocessing,
    read_detections,
)
from gles_delegate.vision.drawing import Drawing, palette
from gles_delegate.vision.regions import region_of_detection
from gles_delegate.vision.yolo import YoloDetector, find_yolo

logger = logging.getLogger("gles_delegate")


@dataclass(frozen=True)
class ObjectFinder:
    """A detection network whose only input is a picture.

    Attributes:
        detector: See `read_detections`.
        labels: Names of its classes; empty if they are unknown.
        size: Height and width of its input.
        is_required: Whether errors are raised; otherwise warnings.
    """

    detector: Detector | YoloDetector | None
    labels: Sequence[str]
    size: Size
    is_required: bool

    @property
    def transform(self) -> ImageTransform | None:
        """Preprocessing; None: as for other networks, the stretched picture."""
        return preprocessing(self.detector)

    def found(
        self, graph: Graph, outputs: Mapping[int, Array], source: Path, drawn: Path | None
    ) -> dict[str, Any]:
        """Names, scores and positions in pixels of a picture, or of the input for an array.

        Args:
            graph: The model.
            outputs: Its outputs by index.
            source: The picture or the array.
            drawn: The file for the picture with boxes, names, scores and key points; None: none.

        Raises:
            ValueError: The outputs do not suit the detector; a warning unless it is required.
        """
        arrays = [
            tensor_files.real_values(array, graph.tensors[index])
            for index, array in outputs.items()
        ]
        is_array = source.suffix == ".npy"
        shown = self.size if is_array else tensor_files.picture_size(source)
        detections: list[Detection] = []
        with _warning(self.is_required):
            detections = read_detections(arrays, self.detector)
            if not is_array:
                transform = self.transform or ImageTransform()
                detections = [each.to_picture(transform, shown, self.size) for each in detections]
        found: dict[str, Any] = {"detections": [self._row(each, shown) for each in detections]}
        if drawn is not None:
            self._draw(detections, source, drawn)
            found["file"] = str(drawn)
        return found

    def _draw(self, detections: Sequence[Detection], source: Path, target: Path) -> None:
        pixels = tensor_files.read_picture(source)
        drawing = Drawing((pixels.height, pixels.width))
        are_named = bool(self.labels) or not isinstance(self.detector, Detector)
        colors = palette(20)
        for detection in detections:
            number = detection.class_index
            name = class_name(self.labels, number) if are_named else ""
            drawing.detection(detection, name, colors[number % len(colors)])
        tensor_files.save_picture(drawing.on_picture(pixels), target)

    def _row(self, detection: Detection, size: Size) -> dict[str, Any]:
        pixels = size[::-1]
        row: dict[str, Any] = {
            "class": detection.class_index,
            "label": class_name(self.labels, detection.class_index),
            "score": detection.score,
            "box": np.multiply(detection.box, pixels * 2).round(1).tolist(),
        }
        if detection.corners:
            row["corners"] = np.multiply(detection.corners, pixels).round(1).tolist()
            row["rotation"] = round(region_of_detection(detection, size).rotation, 1)
        if detection.key_points:
            row["key_points"] = np.multiply(detection.key_points, pixels).round(1).tolist()
            row["key_point_scores"] = list(detection.key_point_scores)
        return row


def find(
    graph: Graph, labels: Sequence[str] | None, kind: str | None, *, is_required: bool
) -> ObjectFinder | None:
    """The finder of a model; None if it is not a detection network.

    Args:
        graph: The model.
        labels: Class names from the user.
        kind: See `find_detector`.
        is_required: Raise errors of detection networks, which are warnings otherwise.

    Raises:
        ValueError: The model is not of that kind, or of several.
    """
    metadata = read_metadata(graph).outputs
    if labels is not None:
        metadata = tuple(replace(each, labels=tuple(labels)) for each in metadata)
    names = next((each.labels for each in metadata if each.labels), ())
    shapes = [graph.tensors[index].shape for index in graph.outputs]
    picture = graph.tensors[graph.inputs[0]].shape if len(graph.inputs) == 1 else ()
    if len(picture) != 4 and kind is None:
        return None
    if kind is None and has_postprocessing(shapes):
        return ObjectFinder(None, names, (picture[1], picture[2]), is_required)
    detector: Detector | YoloDetector | None = None
    with _warning(is_required):
        detector = find_yolo(picture, shapes, metadata, kind)
        if detector is None:
            is_recorded = any(each.detector for each in metadata)
            with nullcontext() if is_recorded else suppress(ValueError):
                detector = find_detector(picture, shapes, metadata)
    if detector is None:
        return None
    _, height, width, *_ = channels_last(picture)
    return ObjectFinder(detector, names, (height, width), is_required)


@contextmanager
def _warning(is_raised: bool) -> Iterator[None]:
    """Make ValueError a warning, unless it is to be raised."""
    try:
        yield
    except ValueError as error:
        if is_raised:
            raise
        logger.warning("detections are not listed: %s", error)
