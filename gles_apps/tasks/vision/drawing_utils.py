"""Drawings of results: on a `vision.Drawing`, or into an array as MediaPipe's drawing_utils."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gles_apps.tasks.components.containers import Detection, NormalizedLandmark
from gles_apps.tasks.image import as_pillow
from gles_apps.vision.drawing import Color, Drawing
from gles_delegate.model.graph import Array

VISIBLE = 0.5
"""Minimum visibility and presence of a point that is drawn."""
WHITE_COLOR = (224, 224, 224)
BLACK_COLOR = (0, 0, 0)
RED_COLOR = (0, 0, 255)
GREEN_COLOR = (0, 128, 0)
BLUE_COLOR = (255, 0, 0)
"""MediaPipe's colors, whose channels are in the order of OpenCV; arrays get them as they are."""
ARROW_TIP = 0.1
"""The length of an arrow's tip, as a share of the arrow (OpenCV's arrowedLine)."""
ELLIPSE_SEGMENTS = 24
"""Lines of an ellipse."""
DEPTH_EPSILON = 1e-5
"""Added to depths, which may be 0."""


@dataclass
class Connection:
    """A line between two points, by their indices."""

    start: int
    end: int


@dataclass
class DrawingSpec:
    """How to draw points and lines; widths and radii are in pixels."""

    color: tuple[int, int, int] = WHITE_COLOR
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
    width: float = 1.5,
) -> None:
    """Draw an object's points and the lines between them, in widths that suit its size.

    Args:
        drawing: Gets them.
        landmarks: The object's points.
        edges: Pairs of their indices.
        points: The color of points; None: no points.
        lines: The color of lines.
        width: Of lines, in pixels for an object of 200 pixels.
    """
    at = positions(landmarks, drawing.size)
    unit = _unit(at)
    drawing.lines(at, edges, lines, width * unit)
    if points is not None:
        drawing.points(at, points, 2.5 * unit)


def draw_ring(
    drawing: Drawing, landmarks: Sequence[NormalizedLandmark], ring: Sequence[int], color: Color
) -> None:
    """Draw an ellipse through four of an object's points, in order."""
    at = positions(landmarks, drawing.size)
    right, top, left, bottom = at[list(ring)]
    turn = np.linspace(0, 2 * np.pi, ELLIPSE_SEGMENTS + 1)[:, np.newaxis]
    middle = (right + top + left + bottom) / 4
    points = middle + (np.cos(turn) * (right - left) + np.sin(turn) * (top - bottom)) / 2
    drawing.lines(points, [*pairwise(range(ELLIPSE_SEGMENTS + 1))], color, 1.5 * _unit(at))


def _unit(at: Array) -> float:
    """A line width that suits an object's size: 1 pixel for 200, at least 0.6."""
    visible = at[np.isfinite(at).all(1)]
    extent = np.ptp(visible, axis=0).max() if len(visible) else 0.0
    return max(0.6, float(extent) / 200)


def draw_landmarks(
    image: Array,
    landmark_list: Sequence[NormalizedLandmark],
    connections: Sequence[Connection] | None = None,
    landmark_drawing_spec: DrawingSpec | Mapping[int, DrawingSpec] | None = DrawingSpec(RED_COLOR),  # noqa: B008 -- MediaPipe's
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
        _require_points(ends, len(landmark_list))
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
    keypoint_drawing_spec: DrawingSpec = DrawingSpec(RED_COLOR),  # noqa: B008
    bbox_drawing_spec: DrawingSpec = DrawingSpec(),  # noqa: B008
) -> None:
    """Draw a box and its points into an array, uint8 [height, width, 3].

    Raises:
        ValueError: The array is not a picture.
    """
    drawing = _drawing_of(image)
    box = detection.bounding_box
    spec = bbox_drawing_spec
    corner = (box.origin_x + box.width, box.origin_y + box.height)
    drawing.box((box.origin_x, box.origin_y, *corner), spec.color, spec.thickness)
    points = [(p.x, p.y) for p in detection.keypoints or ()]
    at = np.array(points, np.float64).reshape(-1, 2) * drawing.size[::-1]
    drawing.points(at, keypoint_drawing_spec.color, 2 * keypoint_drawing_spec.circle_radius)
    _draw_into(image, drawing)


def draw_axis(
    image: Array,
    rotation: Array,
    translation: Array,
    focal_length: tuple[float, float] = (1.0, 1.0),
    principal_point: tuple[float, float] = (0.0, 0.0),
    axis_length: float = 0.1,
    axis_drawing_spec: DrawingSpec = DrawingSpec(),  # noqa: B008
) -> None:
    """Draw an object's axes into an array: x red, y green and z blue, if its order is BGR.

    The camera looks along -z, y is up, and the picture has x and y of -1 to 1.

    Args:
        image: Uint8 [height, width, 3], which is changed.
        rotation: [3, 3], from the object to the camera.
        translation: [3], the object's origin in the camera's coordinates.
        focal_length: Along x and y.
        principal_point: The optical axis in the picture.
        axis_length: Length of an axis.
        axis_drawing_spec: Its thickness is used.

    Raises:
        ValueError: The array is not a picture.
    """
    drawing = _drawing_of(image)
    ends = np.vstack([np.zeros(3), axis_length * np.eye(3)])
    x, y, z = (ends @ np.asarray(rotation).T + translation).T
    projected = np.column_stack([-x, -y]) / (z + DEPTH_EPSILON)[:, None]
    shares = projected * focal_length + principal_point
    at = (1 + shares.clip(-1, 1) * (1, -1)) / 2 * drawing.size[::-1]
    for end, color in zip(at[1:], (RED_COLOR, GREEN_COLOR, BLUE_COLOR), strict=True):
        back = ARROW_TIP * (at[0] - end)
        side = back[::-1] * (1, -1)
        arrow = np.array([at[0], end, end + back + side, end + back - side])
        drawing.lines(arrow, ((0, 1), (1, 2), (1, 3)), color, axis_drawing_spec.thickness)
    _draw_into(image, drawing)


def plot_landmarks(
    landmark_list: Sequence[NormalizedLandmark],
    connections: Sequence[tuple[int, int]] | None = None,
    landmark_drawing_spec: DrawingSpec = DrawingSpec(RED_COLOR, 5),  # noqa: B008
    connection_drawing_spec: DrawingSpec = DrawingSpec(BLACK_COLOR, 5),  # noqa: B008
    elevation: int = 10,
    azimuth: int = 10,
) -> None:
    """Show points and lines in space, by matplotlib; points that are not visible are left out.

    Args:
        landmark_list: The points.
        connections: Pairs of indices of points.
        landmark_drawing_spec: Color, in the order BGR, and width of points.
        connection_drawing_spec: Likewise, of lines.
        elevation: The angle of the view above the horizon, in degrees.
        azimuth: The angle around the vertical, in degrees.

    Raises:
        ValueError: A line's point does not exist.
        ImportError: matplotlib is not installed.
    """
    import matplotlib.pyplot as plt

    if not landmark_list:
        return
    axes: Any = plt.figure(figsize=(10, 10)).add_subplot(projection="3d")
    axes.view_init(elev=elevation, azim=azimuth)
    depths = [-(p.z or 0.0) for p in landmark_list]
    at = np.column_stack([depths, positions(landmark_list, (-1, 1))])
    spec = landmark_drawing_spec
    seen = at[np.isfinite(at).all(1)]
    axes.scatter(*seen.T, color=[_shares(spec)], linewidth=spec.thickness)
    for ends in connections or ():
        _require_points(ends, len(at))
        spec = connection_drawing_spec
        axes.plot(*at[list(ends)].T, color=_shares(spec), linewidth=spec.thickness)
    plt.show()


def _shares(spec: DrawingSpec) -> tuple[float, ...]:
    return tuple(channel / 255 for channel in reversed(spec.color))


def _require_points(ends: Sequence[int], count: int) -> None:
    if not (min(ends) >= 0 and max(ends) < count):
        raise ValueError(f"expected points 0 to {count - 1}, found {tuple(ends)}")


def _drawing_of(image: Array) -> Drawing:
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(
            f"expected a picture uint8 [height, width, 3], found {image.dtype} {list(image.shape)}"
        )
    return Drawing(image.shape[:2])


def _draw_into(image: Array, drawing: Drawing) -> None:
    image[:] = np.asarray(drawing.on_picture(as_pillow(image)))


__all__ = [
    "Connection",
    "DrawingSpec",
    "draw_axis",
    "draw_detection",
    "draw_landmarks",
    "plot_landmarks",
]
