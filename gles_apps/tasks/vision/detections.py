"""Detections as tasks return them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gles_apps.tasks.components import containers
from gles_apps.tasks.image import Image
from gles_apps.vision.detection import Detection


def detection_result(
    detections: Sequence[Detection],
    image: Image,
    category: Callable[[Detection], containers.Category] | None = None,
) -> containers.DetectionResult:
    """Boxes in whole pixels: left, top, width and height are truncated and each limited to the
    picture's size, as in MediaPipe's DetectionTransformationCalculator.

    Args:
        detections: In shares of the picture.
        image: The picture.
        category: Makes the class of one; default: class 0.
    """
    height, width = image.size
    results = []
    for detection in detections:
        left, top, right, bottom = detection.box
        sides = (left * width, top * height, (right - left) * width, (bottom - top) * height)
        limits = (width, height, width, height)
        box = containers.BoundingBox(
            *(min(max(int(n), 0), most) for n, most in zip(sides, limits, strict=True))
        )
        own = containers.Category(0, detection.score) if category is None else category(detection)
        scores = detection.key_point_scores or (0.0,) * len(detection.key_points)
        points = [
            containers.NormalizedKeypoint(x, y, None, score)
            for (x, y), score in zip(detection.key_points, scores, strict=True)
        ]
        results.append(containers.Detection(box, [own], points, detection))
    return containers.DetectionResult(results)
