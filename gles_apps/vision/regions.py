"""Regions of a picture for a second network: rotated rectangles around objects.

They follow MediaPipe's DetectionsToRectsCalculator and RectTransformationCalculator.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.vision.detection import Detection, Point
from gles_delegate import ImageTransform
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class Region:
    """A rotated rectangle in a picture.

    Attributes:
        center: (x, y) in pixels from the top left corner.
        width: In pixels, before the rotation.
        height: In pixels, before the rotation.
        rotation: Degrees clockwise.
    """

    center: Point
    width: float
    height: float
    rotation: float = 0.0

    @property
    def is_finite(self) -> bool:
        """Whether all its numbers are finite."""
        return all(map(math.isfinite, (*self.center, self.width, self.height, self.rotation)))

    @property
    def transform(self) -> ImageTransform:
        """A transform that shows the region upright; `dataclasses.replace` sets mean, std etc."""
        left = self.center[0] - self.width / 2
        top = self.center[1] - self.height / 2
        return ImageTransform(roi=(left, top, self.width, self.height), rotation=self.rotation)

    def grown(self, scale: float, shift: Point = (0.0, 0.0), *, square: bool = True) -> Region:
        """The region enlarged and shifted to what a network was trained on.

        Args:
            scale: Factor for both sides.
            shift: Shift of the center along the region's sides, in its widths and heights.
            square: First make both sides as long as the longer one.
        """
        angle = math.radians(self.rotation)
        cos = math.cos(angle)
        sin = math.sin(angle)
        x = shift[0] * self.width
        y = shift[1] * self.height
        center = (self.center[0] + x * cos - y * sin, self.center[1] + x * sin + y * cos)
        longer = max(self.width, self.height)
        width, height = (longer, longer) if square else (self.width, self.height)
        return replace(self, center=center, width=width * scale, height=height * scale)


def rotation_between(start: Point, end: Point, target: float = 0.0) -> float:
    """Rotation of an object, -180 to 180 degrees clockwise.

    Args:
        start: A point (x, y) of the object, in pixels.
        end: Another point. If the object is upright, the line from `start` has the angle `target`.
        target: Degrees counterclockwise from the positive x axis; 90 is up.
    """
    angle = math.degrees(math.atan2(-(end[1] - start[1]), end[0] - start[0]))
    return (target - angle + 180) % 360 - 180


def region_of_detection(
    detection: Detection, picture: Size, *, points: tuple[int, int] | None = None, target: float = 0
) -> Region:
    """The box of a detection, rotated by the angle of two key points, or its oriented box.

    Args:
        detection: In shares of the picture.
        picture: Height and width.
        points: Indices of the key points for `rotation_between`; None: no rotation, or that of the
            oriented box.
        target: See `rotation_between`.

    Examples:
        >>> face = vision.Detection((0.25, 0.25, 0.5, 0.5), 0.9)
        >>> vision.region_of_detection(face, (480, 640))
        Region(center=(240.0, 180.0), width=160.0, height=120.0, rotation=0.0)
    """
    height, width = picture
    left, top, right, bottom = detection.box
    if detection.corners and points is None:
        corners = np.multiply(detection.corners, (width, height))
        x, y = corners.mean(0).tolist()
        along, across = corners[[1, 2]] - corners[[0, 1]]
        turn = math.degrees(math.atan2(along[1], along[0]))
        return Region((x, y), math.hypot(*along), math.hypot(*across), turn)
    rotation = 0.0
    if points is not None:
        start, end = ((x * width, y * height) for x, y in (detection.key_points[i] for i in points))
        rotation = rotation_between(start, end, target)
    center = ((left + right) / 2 * width, (top + bottom) / 2 * height)
    return Region(center, (right - left) * width, (bottom - top) * height, rotation)


def region_of_landmarks(landmarks: Array, rotation: float) -> Region:
    """The smallest region of a rotation that holds landmarks.

    Args:
        landmarks: [n, 2 or more] in pixels of the picture.
        rotation: Degrees clockwise.

    Raises:
        ValueError: There are no landmarks, or numbers are not finite.
    """
    array = np.asarray(landmarks, np.float64)
    if array.ndim != 2 or not len(array) or array.shape[1] < 2 or not np.isfinite(array).all():
        raise ValueError(f"expected finite landmarks [n, 2 or more], found {array.shape}")
    angle = math.radians(rotation)
    rotate = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
    upright = array[:, :2] @ rotate
    low = upright.min(0)
    high = upright.max(0)
    width, height = (high - low).tolist()
    x, y = (rotate @ ((low + high) / 2)).tolist()
    return Region((x, y), width, height, rotation)


def landmarks_in_picture(
    landmarks: Array, transform: ImageTransform, picture: Size, tensor: Size
) -> Array:
    """Landmarks in pixels of a network's input, in pixels of the picture instead.

    Args:
        landmarks: [n, 2 or more] in pixels of the input. Columns from the third on, such as
            the depth, are scaled like x.
        transform: The transform that made the input.
        picture: Height and width.
        tensor: Height and width of the input.

    Returns:
        Float64, in the same shape.
    """
    matrix = transform.affine(picture, tensor)
    mapped = np.array(landmarks, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        mapped[:, 2:] *= math.hypot(*matrix[:, 0])
        mapped[:, :2] = mapped[:, :2] @ matrix[:, :2].T + matrix[:, 2]
    return mapped
