"""A detector and a landmark network, as tasks use them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from gles_apps.tasks.components.containers import Landmark, NormalizedLandmark
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.task import VisionTask
from gles_apps.tasks.vision.methods import Detects
from gles_apps.vision.detection import Detection, Detector
from gles_apps.vision.detectors import find_detector, read_detections
from gles_apps.vision.landmarks import LandmarkNetwork, Landmarks
from gles_apps.vision.regions import Region
from gles_apps.vision.tracking import Smoothing, Tracker
from gles_delegate import ImageTransform, ModelError, TensorMetadata
from gles_delegate.image.transform import Size

R = TypeVar("R")


class Finder:
    """One of MediaPipe's detectors.

    Args:
        network: The detector.
        presets: Which ones fit the task.
        threshold: Minimum score.
        overlap: Maximum overlap of different objects.

    Attributes:
        transform: Gives the input's mean and std.

    Raises:
        ModelError: The network is none of them.
    """

    def __init__(
        self, network: PictureNetwork, presets: Sequence[Detector], threshold: float, overlap: float
    ) -> None:
        found = None
        if len(network.outputs) == 2:
            with suppress(ValueError):
                found = find_detector(network.inputs[0]["shape"].tolist(), network.shapes)
        if not isinstance(found, Detector) or found not in presets:
            raise ModelError(
                f"expected {network.name} to be a detector of inputs "
                f"{' or '.join(str([1, *p.anchors.size, 3]) for p in presets)} with boxes and "
                f"{presets[0].key_points} key points, found inputs and outputs "
                f"{network.inputs[0]['shape'].tolist()} and {network.shapes}"
            )
        self._network = network
        self._preset = replace(found, threshold=threshold, overlap=overlap)
        mean, std = normalization(network.metadata.inputs[0], found.mean, found.std)
        self.transform = ImageTransform(mean=mean, std=std)

    def __call__(self, image: Image, transform: ImageTransform) -> list[Detection]:
        """Detections in shares of the picture, best first; see `transform`."""
        found = read_detections(self._network(image, transform), self._preset)
        return [each.to_picture(transform, image.size, self._network.size) for each in found]


def has_outputs(network: PictureNetwork, *choices: Sequence[int]) -> bool:
    """Whether the first outputs have the numbers of elements in one of the choices."""
    sizes = [int(np.prod(shape)) for shape in network.shapes]
    return any(sizes[: len(choice)] == list(choice) for choice in choices)


def normalization(metadata: TensorMetadata, mean: float, std: float) -> tuple[float, float]:
    """Mean and standard deviation in the metadata, or else the given ones."""
    if len(metadata.mean) == len(metadata.std) == 1:
        return metadata.mean[0], metadata.std[0]
    return mean, std


@dataclass(frozen=True)
class Reader:
    """A landmark network of a task.

    Args:
        network: The network.
        kind: Reads its outputs.
        depth: The factor of depths for a region in a picture of this height and width.

    Raises:
        ModelError: It does not see a square.
    """

    network: PictureNetwork
    kind: LandmarkNetwork
    depth: Callable[[Region, Size], float] = lambda region, picture: 1.0

    def __post_init__(self) -> None:
        rows, columns = self.network.size
        if rows != columns:
            raise ModelError(
                f"expected {self.network.name} to see a square, found {(rows, columns)}"
            )

    @cached_property
    def transform(self) -> ImageTransform:
        """Gives the input's mean and std."""
        mean, std = normalization(self.network.metadata.inputs[self.network.picture], 0.0, 255.0)
        return ImageTransform(mean=mean, std=std)

    def __call__(self, image: Image, region: Region, transform: ImageTransform) -> Landmarks:
        """Landmarks in pixels of the picture, from the transform of this region."""
        outputs = self.network(image, transform)
        found = self.kind.read(outputs).to_picture(transform, image.size, self.network.size)
        found.points[:, 2] *= self.depth(region, image.size)
        return found


def reader_of(
    network: PictureNetwork, kind: LandmarkNetwork, points: str, *outputs: Sequence[int]
) -> Reader:
    """Raises ModelError unless the network has one of the choices of outputs."""
    if not has_outputs(network, *outputs):
        raise ModelError(
            f"expected {network.name} to be a network of {points}, found outputs {network.shapes}"
        )
    return Reader(network, kind)


class Follower(VisionTask[R]):
    """Base of tasks that find objects, and follow them by their landmarks in streams."""

    smoothing: Smoothing | None = Smoothing()
    """Filters the points in the stream of a single object."""

    def _find_with(
        self, name: str, presets: Sequence[Detector], threshold: float, overlap: float = 0.5
    ) -> Finder:
        """A detector of the bundle; see `Finder`. The overlap is the graphs' of faces and poses."""
        return Finder(self._network(name), presets, threshold, overlap)

    def _follow(self, finder: Finder, reader: Reader, limits: Tracker) -> None:
        """Set the two networks up; `limits` has the options of the tracker."""
        self._finder = finder
        self._reader = reader
        smoothing = self.smoothing if self.is_stream and limits.most == 1 else None
        if smoothing is not None and not self.options.rigid_smoothing:
            smoothing = smoothing.by_coordinate()
        overlap = limits.overlap if self.is_stream else math.inf
        self._tracker = replace(limits, overlap=overlap, smoothing=smoothing)
        self._latest: int | None = None

    def _seen(
        self, image: Image, region: Region, time_ms: int | None
    ) -> list[tuple[Landmarks, ImageTransform]]:
        """Landmarks in pixels of the picture, and the transform that they come from."""
        tracker = self._tracker
        detections = self._detections(self._finder, image, region) if tracker.needs_detector else []
        tracker = tracker.with_detections(detections, image.size)
        results = []
        transforms = {}
        for track in tracker.objects:
            found, transforms[track.number] = self._look(self._reader, image, track.region)
            results.append(found)
        tracker = tracker.with_landmarks(results, self._seconds(time_ms))
        if self.is_stream:
            self._tracker = tracker
            self._latest = time_ms
        return [
            (track.landmarks, transforms[track.number])
            for track in tracker.objects
            if track.landmarks is not None
        ]

    def _detections(self, finder: Finder, image: Image, region: Region) -> list[Detection]:
        return finder(image, self._sampling(region, finder.transform, "letterbox"))

    def _look(
        self, reader: Reader, image: Image, region: Region
    ) -> tuple[Landmarks, ImageTransform]:
        """Landmarks of a region in pixels of the picture, and the transform they come from."""
        transform = self._sampling(region, reader.transform, "stretch")
        return reader(image, region, transform), transform

    def _seconds(self, time_ms: int | None) -> float:
        """Time since the last frame; after time 0, one_euro_filter.cc assumes 30 per second."""
        if not self._latest or time_ms is None:
            return 1 / 30
        return (time_ms - self._latest) / 1000


class Landmarker(Follower[R], Detects[R]):
    """Base of tasks whose results are landmarks."""


def normalized(landmarks: Landmarks, image: Image) -> list[NormalizedLandmark]:
    """Points in shares of the picture."""
    height, width = image.size
    pairs = zip(landmarks.points.tolist(), _probabilities(landmarks), strict=True)
    return [NormalizedLandmark(x / width, y / height, z / width, *p) for (x, y, z), p in pairs]


def in_meters(landmarks: Landmarks) -> list[Landmark]:
    """World points."""
    assert landmarks.world is not None
    pairs = zip(landmarks.world.tolist(), _probabilities(landmarks), strict=True)
    return [Landmark(x, y, z, *p) for (x, y, z), p in pairs]


def _probabilities(landmarks: Landmarks) -> list[tuple[float | None, float | None]]:
    """Visibility and presence of each point."""
    unknown = [None] * len(landmarks.points)
    arrays = (landmarks.visibility, landmarks.in_view)
    return list(zip(*(unknown if a is None else a.tolist() for a in arrays), strict=True))
