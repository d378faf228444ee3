"""Tracking of objects by their landmarks, so that the detector runs only when needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gles_apps.vision.detection import Box, Detection, box_overlaps
from gles_apps.vision.landmarks import Landmarks, TrackedNetwork
from gles_apps.vision.regions import Region
from gles_apps.vision.smoothing import OneEuro
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array

VISIBILITY_SHARE = 0.1
"""The weight of the latest visibility in its low-pass filter; see MediaPipe's
pose_landmarks_detector_graph.cc."""

MAX_EXTENT = 1e9
"""Limit of a region's sides and coordinates, in pixels."""


@dataclass(frozen=True, eq=False)
class Smoothing:
    """The state of the filters of an object's landmarks; `filtered` returns the next state.

    Options come from MediaPipe's face_landmarks_detector_graph.cc and
    pose_landmarks_detector_graph.cc.

    Attributes:
        points: Filters points; speeds are in object sizes per second.
        world: Filters `Landmarks.world`; speeds are in meters per second.
        visibility: The latest filtered visibility; None before the first.
        alignment: Filters `Landmarks.alignment`, which then gives the next region; None: it is not
            filtered.

    Examples:
        >>> from gles_apps.vision.smoothing import OneEuro
        >>> smoothing = vision.Smoothing(OneEuro(min_cutoff=0.05, beta=80.0))
        >>> found = vision.Landmarks(np.array([[96.0, 96.0, 0.0]]))
        >>> steady, smoothing = smoothing.filtered(found, seconds=1 / 30, size=100.0)
    """

    points: OneEuro = field(default_factory=lambda: OneEuro(min_cutoff=0.05, beta=80.0))
    world: OneEuro = field(default_factory=lambda: OneEuro(min_cutoff=0.1, beta=40.0))
    visibility: Array | None = None
    alignment: OneEuro | None = None

    def by_coordinate(self) -> Smoothing:
        """As MediaPipe: each coordinate has its own cutoff; see `OneEuro.rigid`."""
        alignment = self.alignment and replace(self.alignment, rigid=False)
        points, world = (replace(each, rigid=False) for each in (self.points, self.world))
        return replace(self, points=points, world=world, alignment=alignment)

    def filtered(
        self, landmarks: Landmarks, seconds: float, size: float
    ) -> tuple[Landmarks, Smoothing]:
        """The filtered landmarks and the next state.

        Args:
            landmarks: In pixels of the picture.
            seconds: Time since the previous landmarks, above 0.
            size: The object's size in pixels.

        Raises:
            ValueError: No time has passed.
        """
        points = self.points.filtered(landmarks.points, seconds, size=max(size, 1e-6))
        world = self.world
        visibility = landmarks.visibility
        if landmarks.world is not None:
            world = world.filtered(landmarks.world, seconds)
        if visibility is not None and self.visibility is not None:
            visibility = self.visibility + VISIBILITY_SHARE * (visibility - self.visibility)
        assert points.points is not None
        smooth = replace(landmarks, points=points.points, world=world.points, visibility=visibility)
        alignment = self.alignment
        if alignment is not None and landmarks.alignment is not None:
            alignment = alignment.filtered(landmarks.alignment, seconds, size=max(size, 1e-6))
            smooth = replace(smooth, alignment=alignment.points)
        return smooth, Smoothing(points, world, visibility, alignment)


STEADY = Smoothing()


@dataclass(frozen=True, eq=False)
class Track:
    """An object in a video.

    Attributes:
        number: Identifies the object while it is tracked.
        region: Where to look in this picture, or in the next one after `Tracker.with_landmarks`.
        smoothing: State of its filters; None: it is not filtered.
        landmarks: Filtered, in pixels of the picture; None before a network looked at the region.
    """

    number: int
    region: Region
    smoothing: Smoothing | None
    landmarks: Landmarks | None = None


@dataclass(frozen=True, eq=False)
class Tracker:
    """The state of a video in which a landmark network tracks objects.

    For each picture: if `needs_detector`, run the detector; call `with_detections` with its
    detections, or none. Then run the network on the region of each of `objects`, and pass the
    results to `with_landmarks`. This follows MediaPipe's face_landmarker_graph.cc,
    hand_landmarker_graph.cc and pose_landmarker_graph.cc.

    Attributes:
        network: The landmark network.
        most: Maximum number of objects; the detector runs while there are fewer.
        overlap: Regions with a larger intersection over union, without their rotations, show the
            same object.
        presence: Objects whose presence is not higher are lost.
        smoothing: Initial filters of new objects; None: landmarks are not filtered.
        objects: The tracked objects.
        numbers: How many objects have been numbered.
        takes_all: Detections beyond the `most` best count, too, and replace better ones that they
            overlap, as in MediaPipe's pose_landmarker_graph.cc; False: they are ignored.

    Examples:
        >>> tracker = vision.Tracker(vision.FACE, most=2)
        >>> tracker.needs_detector
        True
        >>> face = vision.Detection((0.4, 0.4, 0.6, 0.6), 0.9, key_points=((0.5, 0.5),) * 6)
        >>> tracker = tracker.with_detections([face], (480, 640))
        >>> [float(track.region.width) for track in tracker.objects]
        [192.0]
    """

    network: TrackedNetwork
    most: int = 1
    overlap: float = 0.5
    presence: float = 0.5
    smoothing: Smoothing | None = STEADY
    objects: tuple[Track, ...] = ()
    numbers: int = 0
    takes_all: bool = False

    @property
    def needs_detector(self) -> bool:
        """Whether there are fewer objects than wanted."""
        return len(self.objects) < self.most

    def with_detections(self, detections: Sequence[Detection], picture: Size) -> Tracker:
        """The objects to look at in a picture: tracked ones and new detections.

        Of two regions that overlap, the later one remains, as the same object; with
        `TrackedNetwork.keeps_tracks`, the earlier one.

        Args:
            detections: In shares of the picture, best first.
            picture: Height and width.
        """
        finite = (detection for detection in detections if detection.is_finite)
        regions = [self.network.detected.of_detection(each, picture) for each in finite]
        new = [Track(-1, each, self.smoothing) for each in regions if is_usable(each)]
        if not self.takes_all:
            new = new[: self.most]
        if self.network.keeps_tracks:
            objects = [*self.objects]
            for track in new:
                if not self._same(track, objects):
                    objects.append(track)
        else:
            objects = []
            for track in (*self.objects, *new):
                same = self._same(track, objects)
                objects = [each for each in objects if each not in same]
                objects.append(replace(same[0], region=track.region) if same else track)
        numbers = self.numbers
        numbered = []
        for track in objects[: self.most]:
            if track.number < 0:
                track = replace(track, number=numbers)
                numbers += 1
            numbered.append(track)
        return replace(self, objects=tuple(numbered), numbers=numbers)

    def with_landmarks(self, results: Sequence[Landmarks], seconds: float) -> Tracker:
        """The state for the next picture.

        Objects are lost if their presence is too low, if their points coincide or are not
        finite, or if they show the same as an earlier one; see `TrackedNetwork.distinct`.

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
        pairs = zip(self.objects, results, strict=True)
        present = [(o, r) for o, r in pairs if r.presence > self.presence and r.is_finite]
        objects: list[Track] = []
        for i in self.network.distinct([landmarks for _, landmarks in present]):
            track, landmarks = present[i]
            region = self.network.next_region(landmarks)
            if not is_usable(region):
                continue
            smooth = landmarks
            state = track.smoothing
            if state is not None:
                size = self.network.size_of(landmarks, region)
                smooth, state = state.filtered(landmarks, seconds, size)
                if state.alignment is not None:
                    region = self.network.next_region(smooth)
            objects.append(Track(track.number, region, state, smooth))
        return replace(self, objects=tuple(objects))

    def _same(self, track: Track, objects: Sequence[Track]) -> list[Track]:
        overlaps = box_overlaps(_box(track.region), np.array([_box(o.region) for o in objects]))
        return [each for each, share in zip(objects, overlaps, strict=True) if share > self.overlap]


def is_usable(region: Region) -> bool:
    """Whether a region is not empty, and within reach of pictures."""
    sides = region.width, region.height
    return (
        region.is_finite and min(sides) > 0 and max(*sides, *map(abs, region.center)) < MAX_EXTENT
    )


def _box(region: Region) -> Box:
    x, y = region.center
    width = region.width / 2
    height = region.height / 2
    return x - width, y - height, x + width, y + height
