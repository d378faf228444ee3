"""Results of tasks; names and fields are MediaPipe's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gles_apps.tasks.image import as_pillow
from gles_apps.vision import detection as vision
from gles_apps.vision.classes import class_name
from gles_apps.vision.drawing import Drawing, area, color_of
from gles_apps.vision.regions import region_of_detection
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.report import html_table
from gles_delegate.support.optional import installed

if TYPE_CHECKING:
    from PIL import Image as Pictures

Row: TypeAlias = "dict[str, Any]"
"""An object, a class or a person in a table, as JSON."""


SHOWN = ("class", "label", "side", "gesture", "score", "share")
"""Keys of rows that people read first."""


class Drawn:
    """Base of results that draw themselves and have rows."""

    def draw(self, drawing: Drawing) -> None:
        """Draw the result."""
        raise NotImplementedError

    def rows(self, size: Size) -> list[Row]:
        """A dict for each object, class or person in a picture of this height and width."""
        raise NotImplementedError

    def _repr_html_(self) -> str:
        """For notebooks: what does not depend on the picture's size."""
        rows = self.rows((1, 1))
        names = [name for name in SHOWN if any(name in row for row in rows)]
        found = ([row.get(name) for name in names] for row in rows)
        cells = [[f"{x:.3f}" if isinstance(x, float) else str(x) for x in row] for row in found]
        return html_table([names, *cells], f"{type(self).__name__}: {len(rows)} found")

    def draw_on(self, picture: Any) -> Pictures.Image:
        """A copy of the picture with the result over it, which Pillow's `save` writes.

        Args:
            picture: The picture that the task saw: an `Image`, Pillow's, or uint8 [height, width,
                channels].

        Raises:
            ValueError: The picture is a texture.
            ImportError: Pillow is missing.

        Examples:
            >>> with mp.tasks.vision.open_task(mp.BaseOptions("digit_detector.tflite")) as task:
            ...     task.process(picture).draw_on(picture).save("found.png")
        """
        pixels = as_pillow(picture)
        drawing = Drawing(pixels.size[::-1])
        self.draw(drawing)
        return drawing.on_picture(pixels)


@dataclass
class Category:
    """A class and its score, 0 to 1."""

    index: int | None = None
    score: float | None = None
    display_name: str | None = None
    category_name: str | None = None


def name_of(category: Category) -> str:
    """The name of a class, or its number."""
    named = category.display_name or category.category_name
    return named or ("" if category.index is None else class_name((), category.index))


def class_row(category: Category) -> Row:
    """A class in a row of a result."""
    return {"class": category.index, "label": name_of(category), "score": category.score}


@dataclass
class Classifications:
    """The classes of one output of a classifier, best first."""

    categories: list[Category]
    head_index: int
    head_name: str | None = None


@dataclass
class ClassificationResult(Drawn):
    """The classes of each output; the time is that of the frame or of the first sample."""

    classifications: list[Classifications]
    timestamp_ms: int | None = None

    def draw(self, drawing: Drawing, count: int = 5) -> None:
        """Draw bars for the best classes of the first output."""
        best = self.classifications[0].categories[:count] if self.classifications else []
        drawing.bars([name_of(each) for each in best], [each.score or 0.0 for each in best])

    def rows(self, size: Size) -> list[Row]:
        """A row for each class of each output, best first: class, label and score."""
        return [class_row(each) for head in self.classifications for each in head.categories]


@dataclass
class BoundingBox:
    """A box in pixels of the picture."""

    origin_x: int
    origin_y: int
    width: int
    height: int


@dataclass
class NormalizedKeypoint:
    """A point in shares of the picture's width and height."""

    x: float | None = None
    y: float | None = None
    label: str | None = None
    score: float | None = None


@dataclass
class Detection:
    """An object in a picture.

    Attributes:
        bounding_box: Its box.
        categories: Its classes, best first.
        keypoints: Its points.
        found: The same in shares of the picture, with the mask and the oriented box of a YOLO
            network. Not MediaPipe's.
        track_id: The object's number in a stream, from 1, with `ObjectDetectorOptions.track`. Not
            MediaPipe's.
    """

    bounding_box: BoundingBox
    categories: list[Category]
    keypoints: list[NormalizedKeypoint] | None = None
    found: vision.Detection | None = field(default=None, compare=False, repr=False)
    track_id: int | None = None


@dataclass
class DetectionResult(Drawn):
    """The objects in a picture, best first.

    Attributes:
        detections: The objects.
        size: Height and width of the picture; None in a result made by hand. Not MediaPipe's.
    """

    detections: list[Detection]
    size: Size | None = field(default=None, compare=False, repr=False)

    def draw(self, drawing: Drawing) -> None:
        """Draw masks, boxes with names and scores, and key points.

        Without names, classes have their numbers, unless all are 0.
        """
        found = self._found()
        drawing.masks(found)
        best = [detection.categories[0] for detection in self.detections]
        are_named = any(category.category_name or category.index for category in best)
        for each, detection in zip(found, self.detections, strict=True):
            name = name_of(detection.categories[0]) if are_named else ""
            if detection.track_id is not None:
                name = f"{name} #{detection.track_id}".strip()
            drawing.detection(each, name, color_of(each.class_index))

    def rows(self, size: Size) -> list[Row]:
        """A row for each object: class, label, score, and positions in pixels of the picture.

        Objects may have an oriented box, with its clockwise rotation in degrees, and key points.

        Args:
            size: Height and width of the picture.
        """
        rows = []
        for found, detection in zip(self._found(), self.detections, strict=True):
            row = class_row(detection.categories[0]) | {"class": found.class_index}
            row["box"] = pixels(found.box, size)
            if found.corners:
                row["corners"] = pixels(found.corners, size)
                row["rotation"] = round(region_of_detection(found, size).rotation, 1)
            if detection.track_id is not None:
                row["id"] = detection.track_id
            if found.key_points:
                row["key_points"] = pixels(found.key_points, size)
                row["key_point_scores"] = list(found.key_point_scores)
            rows.append(row)
        return rows

    def to_supervision(self) -> Any:
        """The objects as `supervision.Detections`, for the annotators of that package.

        Boxes are in pixels, masks are bool [objects, height, width], and names are in
        ``data["class_name"]``. Oriented boxes are where its OrientedBoxAnnotator looks for them.

        Raises:
            ImportError: The package supervision is missing.
            ValueError: The result was made by hand.

        Examples:
            >>> with mp.tasks.vision.open_task(mp.BaseOptions("digit_detector.tflite")) as task:
            ...     found = task.process(picture).to_supervision()
        """
        supervision = installed("supervision", "to_supervision needs it")
        found = self._found()
        size = self.size
        if size is None:
            raise ValueError("expected a result of a task, found one made by hand")
        ids = [each.track_id for each in self.detections if each.track_id is not None]
        data: dict[str, Any] = {
            "class_name": np.array([name_of(each.categories[0]) for each in self.detections], str)
        }
        corners = [each.corners for each in found if each.corners]
        if corners:
            data["xyxyxyxy"] = np.multiply(corners, size[::-1])
        boxes = np.array([each.box for each in found], np.float64).reshape(-1, 4)
        masks = [area(each, size) for each in found if each.mask is not None]
        return supervision.Detections(
            xyxy=(boxes * np.tile(size[::-1], 2)).astype(np.float32),
            mask=np.array(masks) if masks else None,
            confidence=np.array([each.score for each in found], np.float32),
            class_id=np.array([each.class_index for each in found], int),
            tracker_id=np.array(ids, int) if ids else None,
            data=data,
        )

    def _found(self) -> list[vision.Detection]:
        found = [each.found for each in self.detections if each.found is not None]
        if len(found) < len(self.detections):
            raise ValueError("expected a result of a task, found a detection made by hand")
        return found


def detection_result(
    detections: Sequence[vision.Detection],
    size: Size,
    category: Callable[[vision.Detection], Category] | None = None,
) -> DetectionResult:
    """Boxes in whole pixels: left, top, width and height are truncated and each limited to the
    picture's size, as in MediaPipe's DetectionTransformationCalculator.

    Args:
        detections: In shares of the picture.
        size: Height and width of the picture.
        category: Makes the class of one; default: class 0.
    """
    height, width = size
    results = []
    for detection in detections:
        left, top, right, bottom = detection.box
        sides = (left * width, top * height, (right - left) * width, (bottom - top) * height)
        pairs = zip(sides, (width, height, width, height), strict=True)
        box = BoundingBox(*(min(max(int(n), 0), most) for n, most in pairs))
        own = Category(0, detection.score) if category is None else category(detection)
        scores = detection.key_point_scores or (0.0,) * len(detection.key_points)
        scored = zip(detection.key_points, scores, strict=True)
        points = [NormalizedKeypoint(x, y, None, score) for (x, y), score in scored]
        results.append(Detection(box, [own], points, detection))
    return DetectionResult(results, size)


def pixels(shares: Any, size: Size) -> Any:
    """Positions (x, y) of a picture, or boxes, in pixels of it, to a tenth."""
    array = np.asarray(shares, np.float64)
    return (array.reshape(-1, 2) * size[::-1]).round(1).reshape(array.shape).tolist()


@dataclass
class Embedding:
    """A feature vector of an output: float64, or int8 in uint8 if it is quantized."""

    embedding: Array
    head_index: int | None = None
    head_name: str | None = None


@dataclass
class EmbeddingResult:
    """A feature vector for each output."""

    embeddings: list[Embedding]
    timestamp_ms: int | None = None


@dataclass
class _Landmark:
    """What landmarks have in any unit."""

    x: float | None = None
    y: float | None = None
    z: float | None = None
    visibility: float | None = None
    presence: float | None = None
    name: str | None = None


@dataclass
class Landmark(_Landmark):
    """A point in meters, from the object's middle."""


@dataclass
class NormalizedLandmark(_Landmark):
    """A point in shares of the picture's width and height; z is in shares of its width."""


@dataclass
class Rect:
    """A rectangle in pixels."""

    left: int
    top: int
    bottom: int
    right: int


@dataclass
class RectF:
    """A rectangle in shares of the picture, 0 to 1."""

    left: float
    top: float
    bottom: float
    right: float


@dataclass
class NormalizedRect:
    """A rotated rectangle in shares of the picture; the rotation is in radians, clockwise."""

    x_center: float
    y_center: float
    width: float
    height: float
    rotation: float | None = 0.0
    rect_id: int | None = None


def points_row(landmarks: Sequence[NormalizedLandmark], size: Size) -> Row:
    """An object in a row of a result: x, y and z of its points, and their box, in pixels of a
    picture of this height and width; z is in pixels of its width.
    """
    height, width = size
    points = [((p.x or 0) * width, (p.y or 0) * height, (p.z or 0) * width) for p in landmarks]
    flat = np.array(points)[:, :2]
    box = np.concatenate([flat.min(0), flat.max(0)]).round(1).tolist()
    return {"box": box, "points": np.round(points, 1).tolist()}


@dataclass
class LandmarksDetectionResult:
    """Landmarks of an object and the region they were found in."""

    landmarks: list[NormalizedLandmark] | None
    categories: list[Category] | None
    world_landmarks: list[Landmark] | None
    rect: NormalizedRect


@dataclass
class AudioDataFormat:
    """Channels and samples per second of audio."""

    num_channels: int = 1
    sample_rate: float | None = None


class AudioData:
    """Samples of audio, -1 to 1: float32 [samples, channels], or [samples] of mono arrays.

    Args:
        buffer_length: The number of samples.
        audio_format: Their channels and rate.
    """

    def __init__(self, buffer_length: int, audio_format: AudioDataFormat | None = None) -> None:
        self._format = audio_format or AudioDataFormat()
        self._buffer: Array = np.zeros((buffer_length, self._format.num_channels), np.float32)

    @classmethod
    def create_from_array(cls, src: Any, sample_rate: float | None = None) -> AudioData:
        """A copy of samples [n] or [n, channels]."""
        samples = np.asarray(src, np.float32)
        channels = 1 if samples.ndim == 1 else samples.shape[1]
        data = cls(len(samples), AudioDataFormat(channels, sample_rate))
        data.load_from_array(samples)
        return data

    def load_from_array(self, src: Array, offset: int = 0, size: int = -1) -> None:
        """Append samples at the end; earlier ones move out at the front.

        Args:
            src: [n] or [n, channels].
            offset: The first sample to take.
            size: How many to take; below 0: all.

        Raises:
            ValueError: The number of channels is wrong, or there are too few samples.
        """
        channels = 1 if src.ndim == 1 else src.shape[1]
        if channels != self._format.num_channels:
            raise ValueError(
                f"expected samples of {self._format.num_channels} channels, found {channels}"
            )
        count = len(src) if size < 0 else size
        if offset + count > len(src):
            raise ValueError(
                f"expected samples {offset} to {offset + count}, found {len(src)} samples"
            )
        new = np.reshape(src[offset : offset + count], (count, channels))
        length = len(self._buffer)
        joined = np.concatenate([self._buffer, new.astype(np.float32)])
        self._buffer = joined[len(joined) - length :]

    def clear(self) -> None:
        """Set all samples to 0."""
        self._buffer = np.zeros_like(self._buffer)

    @property
    def audio_format(self) -> AudioDataFormat:
        return self._format

    @property
    def buffer_length(self) -> int:
        """The number of samples."""
        return len(self._buffer)

    @property
    def buffer(self) -> Array:
        """Float32 [samples, channels]."""
        return self._buffer


__all__ = [
    "AudioData",
    "AudioDataFormat",
    "BoundingBox",
    "Category",
    "ClassificationResult",
    "Classifications",
    "Detection",
    "DetectionResult",
    "Embedding",
    "EmbeddingResult",
    "Landmark",
    "LandmarksDetectionResult",
    "NormalizedKeypoint",
    "NormalizedLandmark",
    "NormalizedRect",
    "Rect",
    "RectF",
]
