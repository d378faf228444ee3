"""Drawings of results: on a `vision.Drawing`, or into an array as MediaPipe's drawing_utils."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.tasks.components.containers import Detection, NormalizedLandmark
from gles_delegate.vision.drawing import Color, Drawing

VISIBLE = 0.5
"""The least visibility and presence of a point that is drawn."""


@dataclass
class Connection:
    """A line between two points, by their indices."""

    start: int
    end: int


@dataclass
class DrawingSpec:
    """How to draw points and lines; widths and radii are in pixels."""

    color: tuple[int, int, int] = (224, 224, 224)
    thickness: int = 2
    circle_radius: int = 2


def positions(landmarks: Sequence[NormalizedLandmark], size: tuple[int, int]) -> Array:
    """Points [n, 2] in pixels of a picture of this height and width; NaN if they are not
    visible.
    """
    points = np.array([(p.x, p.y) for p in landmarks], np.float64).reshape(-1, 2) * size[::-1]
    for i, landmark in enumerate(landmarks):
        seen = (landmark.visibility, landmark.presence)
        if any(share is not None and share < VISIBLE for share in seen):
            points[i] = np.nan
    return points


def draw_points(
    drawing: Drawing,
    landmarks: Sequence[NormalizedLandmark],
    edges: Sequence[tuple[int, int]],
    *,
    points: Color | None = None,
    lines: Color = (255, 255, 255),
) -> None:
    """Draw an object's points and the lines between them, in widths that suit its size."""
    at = positions(landmarks, drawing.size)
    extent = np.ptp(at[np.isfinite(at).all(1)], axis=0).max(initial=0)
    unit = max(0.6, float(extent) / 200)
    drawing.lines(at, edges, lines, 1.5 * unit)
    if points is not None:
        drawing.points(at, points, 2.5 * unit)


def draw_landmarks(
    image: Array,
    landmark_list: Sequence[NormalizedLandmark],
    connections: Sequence[Connection] | None = None,
    landmark_drawing_spec: DrawingSpec | Mapping[int, DrawingSpec] | None = DrawingSpec(),  # noqa: B008 -- MediaPipe's
    connection_drawing_spec: DrawingSpec | Mapping[tuple[int, int], DrawingSpec] = DrawingSpec(),  # noqa: B008
    is_drawing_landmarks: bool = True,
) -> None:
    """Draw points and lines into an array; points that are not visible are left out.

    Args:
        image: Uint8 [height, width, 3], which is changed.
        landmark_list: The points.
        connections: The lines.
        landmark_drawing_spec: Of all points, or of each; None: no points.
        connection_drawing_spec: Of all lines, or of each.
        is_drawing_landmarks: Whether to draw points.

    Raises:
        ValueError: The array is not a picture, or a line's point does not exist.
    """
    drawing = _drawing_of(image)
    at = positions(landmark_list, drawing.size)
    for line in connections or ():
        ends = (line.start, line.end)
        if not (min(ends) >= 0 and max(ends) < len(landmark_list)):
            raise ValueError(f"expected points 0 to {len(landmark_list) - 1}, found {ends}")
        of_line = connection_drawing_spec
        spec = of_line[ends] if isinstance(of_line, Mapping) else of_line
        drawing.lines(at, (ends,), spec.color, spec.thickness)
    if is_drawing_landmarks and landmark_drawing_spec is not None:
        for i in range(len(at)):
            of_point = landmark_drawing_spec
            spec = of_point[i] if isinstance(of_point, Mapping) else of_point
            drawing.points(at[i : i + 1], spec.color, 2 * spec.circle_radius)
    _draw_into(image, drawing)


def draw_detection(
    image: Array,
    detection: Detection,
    keypoint_drawing_spec: DrawingSpec = DrawingSpec(color=(0, 0, 255)),  # noqa: B008
    bbox_drawing_spec: DrawingSpec = DrawingSpec(),  # noqa: B008
) -> None:
    """Draw a box and its points into an array, uint8 [height, width, 3].

    Raises:
        ValueError: The array is not a picture.
    """
    drawing = _drawing_of(image)
    box, spec = detection.bounding_box, bbox_drawing_spec
    corner = (box.origin_x + box.width, box.origin_y + box.height)
    drawing.box((box.origin_x, box.origin_y, *corner), spec.color, spec.thickness)
    points = [(p.x, p.y) for p in detection.keypoints or ()]
    at = np.array(points, np.float64).reshape(-1, 2) * drawing.size[::-1]
    spec = keypoint_drawing_spec
    drawing.points(at, spec.color, 2 * spec.circle_radius)
    _draw_into(image, drawing)


def _drawing_of(image: Array) -> Drawing:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(
            f"expected a picture uint8 [height, width, 3], found {image.dtype} {list(image.shape)}"
        )
    return Drawing(image.shape[:2])


def _draw_into(image: Array, drawing: Drawing) -> None:
    from PIL import Image as Pictures

    image[:] = np.asarray(drawing.on_picture(Pictures.fromarray(image)))


__all__ = ["Connection", "DrawingSpec", "draw_detection", "draw_landmarks"]
