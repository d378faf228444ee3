"""FaceDetector: boxes and six key points of faces."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gles_apps.tasks.components.containers import DetectionResult, detection_result
from gles_apps.tasks.image import Image
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.finding import Finder
from gles_apps.tasks.vision.methods import Detects
from gles_apps.vision.detection import FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE
from gles_apps.vision.regions import Region
from gles_delegate.support.closing import on_error

FaceDetectorResult = DetectionResult


@dataclass
class FaceDetectorOptions(VisionTaskOptions):
    """Options of `FaceDetector`.

    Attributes:
        base_options: The model: MediaPipe's face_detection_short_range, _front or _full_range.
        running_mode: Single pictures, a video or a live stream.
        min_detection_confidence: Minimum score.
        min_suppression_threshold: Maximum overlap of boxes of different faces.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
    """

    min_detection_confidence: float = 0.5
    min_suppression_threshold: float = 0.3
    result_callback: Callable[[DetectionResult, Image, int], None] | None = None


class FaceDetector(Detects[DetectionResult]):
    """Finds faces; points: right eye, left eye, nose, mouth, right ear, left ear.

    Examples:
        >>> path = "face_detection_short_range.tflite"
        >>> with mp.tasks.vision.FaceDetector.create_from_model_path(path) as detector:
        ...     (face,) = detector.detect(mp.Image.create_from_file("face.jpg")).detections
    """

    _options_type = FaceDetectorOptions

    def __init__(self, options: FaceDetectorOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            presets = (FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE)
            least = options.min_detection_confidence
            overlap = options.min_suppression_threshold
            self._finder = Finder(self._network(), presets, least, overlap)

    def _process(self, image: Image, region: Region, time_ms: int | None) -> DetectionResult:
        transform = self._sampling(region, self._finder.transform, "letterbox")
        return detection_result(self._finder(image, transform), image.size)
