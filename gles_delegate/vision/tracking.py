"""Tracking of objects by their landmarks, so that the detector runs only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_delegate.image.transform import Size
from gles_delegate.vision.detection import Box, Detection, box_overlaps
from gles_delegate.vision.landmarks import Landmarks, TrackedNetwork
from gles_delegate.vision.regions import Region
from gles_delegate.vision.smoothing import OneEuro

STEADY = OneEuro(min_cutoff=0.05, beta=80.0)
"""Options of MediaPipe's pose_landmark_filtering; speeds are in object sizes per second."""


@dataclass(frozen=True, eq=False)
class Track:
    """An object in a video.

    Attributes:
        number: Identifies the object while it is tracked.
        region: Where to look in this picture, or in the next one after `Tracker.with_landmarks`.
        filter: Filter state of its points.
        landmarks: Filtered, in pixels of the picture; None before a network looked at the region.
    """

    number: int
    region: Region
    filter: OneEuro
    landmarks: Landmarks | None = None


@dataclass(frozen=True, eq=False)
class Tracker:
    """The state of a video in which a landmark network tracks objects.

    For each picture: if `needs_detector`, run the detector and call `with_detections`. Then run the
    network on the region of each of `objects`, and pass the results to `with_landmarks`. This
    follows MediaPipe's hand_landmark_tracking and face_landmark_front.

    Attributes:
        network: The landmark network.
        most: The most objects; the detector runs while there are fewer.
        overlap: Regions with a larger intersection over union, without their rotations, show the
            same object.
        presence: Objects with a lower presence are lost.
        filter: Initial filter state of new objects.
        objects: The tracked objects.
        numbers: How many objects have been numbered.
    """

    network: TrackedNetwork
    most: int = 1
    overlap: float = 0.5
    presence: float = 0.5
    filter: OneEuro = STEADY
    objects: tuple[Track, ...] = ()
    numbers: int = 0

    @property
    def needs_detector(self) -> bool:
        """Whether there are fewer objects than wanted."""
        return len(self.objects) < self.most

    def with_detections(self, detections: Sequence[Detection], picture: Size) -> Tracker:
        """The state with new objects for detections that are not yet tracked.

        Args:
            detections: In shares of the picture, best first.
            picture: Height and width.
        """
        objects, numbers = list(self.objects), self.numbers
        for detection in detections:
            region = self.network.detected.of_detection(detection, picture)
            wanted = len(objects) < self.most and detection.is_finite
            if wanted and self._is_new(region, objects):
                objects.append(Track(numbers, region, self.filter))
                numbers += 1
        return replace(self, objects=tuple(objects), numbers=numbers)

    def with_landmarks(self, results: Sequence[Landmarks], seconds: float) -> Tracker:
        """The state for the next picture.

        Objects are lost if their presence is too low, if their points coincide or are not
        finite, or if their next region is another object's.

        Args:
            results: One for each of `objects`, in their order, in pixels of the picture.
            seconds: Time since the previous picture, above 0.

        Raises:
            ValueError: The number of results is wrong, or no time has passed.
        """
        if len(results) != len(self.objects):
            raise ValueError(
                f"expected landmarks of each of {len(self.objects)} objects, found {len(results)}"
            )
        objects: list[Track] = []
        for track, landmarks in zip(self.objects, results, strict=True):
            if not (landmarks.presence >= self.presence and landmarks.is_finite):
                continue
            region = self.network.next_region(landmarks)
            if not self._is_new(region, objects):
                continue
            width, height = np.ptp(landmarks.points[:, :2], axis=0)
            state = track.filter.filtered(
                landmarks.points, seconds, size=max(float(width + height) / 2, 1e-6)
            )
            points = landmarks.points if state.points is None else state.points
            smooth = replace(landmarks, points=points)
            objects.append(Track(track.number, region, state, smooth))
        return replace(self, objects=tuple(objects))

    def _is_new(self, region: Region, objects: Sequence[Track]) -> bool:
        """Whether a region is finite, not empty, and not that of an object."""
        if not (region.is_finite and min(region.width, region.height) > 0):
            return False
        boxes = np.array([_box(track.region) for track in objects])
        return not (box_overlaps(_box(region), boxes) > self.overlap).any()


def _box(region: Region) -> Box:
    (x, y), width, height = region.center, region.width / 2, region.height / 2
    return x - width, y - height, x + width, y + height
