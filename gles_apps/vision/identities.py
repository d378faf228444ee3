"""Numbers of objects in a video, from a detector's boxes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.vision.detection import Box, Detection, box_overlaps
from gles_delegate.model.graph import Array

LATEST = 0.5
"""The weight of the latest speed in a speed."""


@dataclass(frozen=True, eq=False)
class Known:
    """An object that was seen.

    Attributes:
        number: Its number.
        class_index: Its class.
        box: Its latest box, float64 [4].
        speed: Of the box's center: (x, y) per second.
        hidden: Seconds since it was seen.
    """

    number: int
    class_index: int
    box: Array
    speed: Array
    hidden: float = 0.0

    def expected(self, seconds: float) -> Array:
        """The box after more seconds, if it moves on."""
        return self.box + np.tile(self.speed, 2) * (self.hidden + seconds)

    def seen(self, box: Box, seconds: float) -> Known:
        """The object in a new box after more seconds."""
        latest = np.array(box)
        moved = (latest + np.roll(latest, 2) - self.box - np.roll(self.box, 2))[:2] / 2
        speed = self.speed + LATEST * (moved / (self.hidden + seconds) - self.speed)
        return replace(self, box=latest, speed=speed, hidden=0.0)


@dataclass(frozen=True, eq=False)
class Identities:
    """The state of a video in which a detector finds objects; `with_detections` returns the next.

    A detection is the object of its class whose box, moved on with its speed, it overlaps most;
    pairs with the largest overlap come first. This is SORT (Bewley et al. 2016) with a low-pass
    filter of the speed instead of a Kalman filter.

    Attributes:
        overlap: Minimum intersection over union of a detection and an expected box.
        patience: Seconds after which a hidden object is forgotten.
        objects: The known objects.
        count: How many objects have been numbered.
    """

    overlap: float = 0.3
    patience: float = 1.0
    objects: tuple[Known, ...] = ()
    count: int = 0

    def with_detections(
        self, detections: Sequence[Detection], seconds: float
    ) -> tuple[list[int], Identities]:
        """The number of each detection, from 1, and the state for the next picture.

        Args:
            detections: In shares of the picture.
            seconds: Time since the previous picture, above 0.
        """
        found = self._pairs(detections, seconds)
        count = self.count
        numbers = []
        objects = []
        for i, detection in enumerate(detections):
            known = found.get(i)
            if known is None:
                count += 1
                known = Known(count, detection.class_index, np.array(detection.box), np.zeros(2))
            else:
                known = known.seen(detection.box, seconds)
            numbers.append(known.number)
            objects.append(known)
        for known in self.objects:
            hidden = known.hidden + seconds
            if known.number not in numbers and hidden <= self.patience:
                objects.append(replace(known, hidden=hidden))
        return numbers, replace(self, objects=tuple(objects), count=count)

    def _pairs(self, detections: Sequence[Detection], seconds: float) -> dict[int, Known]:
        """Known objects by the positions of their detections."""
        if not self.objects:
            return {}
        boxes = np.array([known.expected(seconds) for known in self.objects])
        overlaps = [
            (share, i, j)
            for i, detection in enumerate(detections)
            for j, share in enumerate(box_overlaps(detection.box, boxes).tolist())
            if share >= self.overlap and self.objects[j].class_index == detection.class_index
        ]
        pairs: dict[int, Known] = {}
        taken: set[int] = set()
        for _, i, j in sorted(overlaps, key=lambda pair: -pair[0]):
            if i not in pairs and j not in taken:
                pairs[i] = self.objects[j]
                taken.add(j)
        return pairs
