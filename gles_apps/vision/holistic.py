"""Regions of a body's face and hands, by the body's points.

Rules come from MediaPipe's tasks/cc/vision/holistic_landmarker.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gles_apps.vision.landmarks import LandmarkNetwork, Landmarks, RegionRule
from gles_apps.vision.regions import Region
from gles_apps.vision.smoothing import OneEuro
from gles_apps.vision.tracking import Smoothing
from gles_delegate.model.graph import Array

BODY_SMOOTHING = Smoothing(
    OneEuro(min_cutoff=0.05, beta=80.0 * 1.25),
    OneEuro(min_cutoff=0.1, beta=40.0),
    alignment=OneEuro(min_cutoff=0.01, beta=10.0 * 1.25),
)
"""Speeds are relative to the circle around the body, and not to its region, which is 1.25 times as
large (holistic_pose_tracking.cc)."""

MASK_SHARE = 0.7
"""The weight of the previous mask where the latest is uncertain (holistic_pose_tracking.cc)."""

LEFT_PALM = (15, 17, 19)
RIGHT_PALM = (16, 18, 20)
"""The body's wrist, little finger and index finger."""

PALM_VISIBILITY = 0.1
"""Minimum visibility of a wrist (holistic_hand_tracking.cc)."""

_MIDDLE_TO_WRIST = RegionRule(0, (1,), -90, scale=2.7, shift=-0.1, circle=True)

RECROP_REGION = RegionRule(0, (1,), -90, scale=1.0, shift=-0.1, circle=True)
"""The region of a hand from the points of `RECROP` (hand_roi_refinement_graph.cc)."""

FACE_DETECTOR_REGION = RegionRule(5, (2,), scale=3.0, upright=True)
"""Where to detect a face, from the first 11 points of a body (holistic_face_tracking.cc)."""

DETECTED_FACE_REGION = RegionRule(0, (1,), scale=2.0, upright=True)
"""The region of a face from a detection's key points."""

FACE_REGION = RegionRule(33, (263,), scale=1.5, upright=True, square=False)
"""The region of a face in a video's next picture."""


@dataclass(frozen=True)
class RegionLimits:
    """How far a region may be from that of the previous picture, which is steadier, for this to be
    used again (MediaPipe's RoiTrackingCalculator).

    Attributes:
        rotation: Maximum difference in degrees.
        shift: Maximum shift along each side of the new region, in shares of the side.
        growth: Maximum difference of each side, in shares of the new region's.
        inset: The previous points are inside the new region without this share of its sides.
    """

    rotation: float
    shift: float
    growth: float
    inset: float

    def steadied(self, found: Region, previous: Region, points: Array) -> Region:
        """The region to use.

        Args:
            found: In this picture.
            previous: By the points of the previous picture.
            points: [n, 2 or more] of the previous picture, in pixels.
        """
        turn = (previous.rotation - found.rotation + 180) % 360 - 180
        old, new = (np.array([each.width, each.height]) for each in (previous, found))
        shift = np.abs(_along(found, np.array([previous.center]))[0])
        is_near = abs(turn) <= self.rotation and (shift <= self.shift * new).all()
        is_alike = (np.abs(old - new) <= self.growth * new).all()
        is_inside = (np.abs(_along(found, points)) < new * (1 - self.inset) / 2).all()
        return previous if is_near and is_alike and is_inside else found


HAND_LIMITS = RegionLimits(rotation=40.0, shift=0.2, growth=0.4, inset=0.1)
FACE_LIMITS = RegionLimits(rotation=15.0, shift=0.1, growth=0.3, inset=0.2)


def _along(region: Region, points: Array) -> Array:
    """[n, 2]: points relative to a region's center, along its sides."""
    angle = math.radians(region.rotation)
    cos = math.cos(angle)
    sin = math.sin(angle)
    x, y = (np.asarray(points, np.float64)[:, :2] - region.center).T
    return np.column_stack([x * cos + y * sin, y * cos - x * sin])


def palm_region(body: Landmarks, palm: tuple[int, int, int]) -> Region | None:
    """Where to look for a hand; None: the wrist is not visible.

    Args:
        body: In pixels of the picture.
        palm: `LEFT_PALM` or `RIGHT_PALM`.
    """
    wrist, little, index = (body.points[i, :2] for i in palm)
    if body.visibility is None or not body.visibility[palm[0]] > PALM_VISIBILITY:
        return None
    middle = (2 * index + little) / 3
    return _MIDDLE_TO_WRIST.of_landmarks(np.array([middle, wrist]))


def at_wrist(hand: Landmarks, body: Landmarks, palm: tuple[int, int, int]) -> Array:
    """A hand's points in meters, with its wrist at the body's; float64 [21, 3]."""
    assert hand.world is not None
    assert body.world is not None
    return np.asarray(hand.world - hand.world[0] + body.world[palm[0]])


def steadied_mask(mask: Array, previous: Array) -> Array:
    """A mask of 0 to 1, where it is uncertain closer to the previous one; float32. A previous mask
    of another shape does not count.

    The weight is MediaPipe's polynomial of the entropy (segmentation_smoothing_calculator.cc).
    """
    if previous.shape != mask.shape:
        return mask
    x = np.square(mask.astype(np.float64) - 0.5)
    certainty = x * np.polynomial.Polynomial(ENTROPY)(x)
    share = MASK_SHARE * (1 - np.minimum(1, certainty))
    return np.asarray(mask + (previous - mask) * share, np.float32)


ENTROPY = (5.68842, -0.748699, -57.8051, 291.309, -624.717)


def read_recrop(outputs: Sequence[Array]) -> Landmarks:
    """The middle of a hand, and a point on the circle around it."""
    points = np.asarray(outputs[0], np.float64).reshape(2, 2)
    return Landmarks(np.column_stack([points, (0.0, 0.0)]))


RECROP = LandmarkNetwork((256, 256), read_recrop)
"""hand_recrop: hand_roi_refinement.tflite of a bundle."""
