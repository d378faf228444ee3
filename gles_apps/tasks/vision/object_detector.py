"""ObjectDetector: boxes and classes of objects."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.tasks.classes import Choice, calibrated, model_errors
from gles_apps.tasks.components.containers import Category, DetectionResult, detection_result
from gles_apps.tasks.components.containers import Detection as Detected
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.image import Image
from gles_apps.tasks.options import VisionTaskOptions, VisionTaskRunningMode
from gles_apps.tasks.vision.methods import Detects
from gles_apps.vision.classes import require_labels
from gles_apps.vision.detection import Detection, Detector
from gles_apps.vision.detectors import find_detector, preprocessing, read_detections
from gles_apps.vision.identities import Identities
from gles_apps.vision.regions import Region
from gles_apps.vision.yolo import YoloDetector
from gles_delegate.model.metadata import ScoreCalibration
from gles_delegate.support.closing import on_error

ObjectDetectorResult = DetectionResult


@dataclass
class ObjectDetectorOptions(ClassifierOptions, VisionTaskOptions):
    """Options of `ObjectDetector`; see `components.processors.ClassifierOptions` for classes.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        max_results: Maximum number of objects; below 0: all.
        score_threshold: Minimum score, or what a YOLO network's scores must exceed; 0 or None: the
            model's metadata or its preset decides.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        labels: Class names; None: those in the metadata. Not MediaPipe's.
        kind: The kind of a YOLO network; see `vision.find_detector`. Not MediaPipe's.
        usual_threshold: Minimum score where neither the options, nor the metadata, nor a preset
            has one. Not MediaPipe's.
        track: Number the objects of a stream: `Detection.track_id`. Not MediaPipe's.
    """

    max_results: int | None = -1
    score_threshold: float | None = 0.0
    result_callback: Callable[[DetectionResult, Image, int], None] | None = None
    labels: Sequence[str] | None = None
    kind: str | None = None
    usual_threshold: float = 0.0
    track: bool = False


class ObjectDetector(Detects[DetectionResult]):
    """Finds objects by a detector that `vision.find_detector` recognizes.

    YOLO networks see pictures as in their training: bilinear, in a gray letterbox. A detection's
    `found` has its mask, its oriented box and the scores of its key points.

    Examples:
        >>> path = "digit_detector.tflite"
        >>> with mp.tasks.vision.ObjectDetector.create_from_model_path(path) as detector:
        ...     for found in detector.detect(picture).detections:
        ...         print(found.categories[0].category_name, found.bounding_box)
    """

    _options_type = ObjectDetectorOptions

    def __init__(self, options: ObjectDetectorOptions) -> None:
        if options.track and options.running_mode == VisionTaskRunningMode.IMAGE:
            raise ValueError("expected a video or a live stream for track, found the image mode")
        super().__init__(options)
        self._calibration: ScoreCalibration | None = None
        self._identities = Identities()
        self._latest: int | None = None
        with on_error(self.close):
            network = self._network()
            outputs = network.metadata.outputs
            if options.labels is not None:
                outputs = tuple(replace(each, labels=tuple(options.labels)) for each in outputs)
            self._labels = next((each.labels for each in outputs if each.labels), ())
            self._choice = Choice(options, self._labels)
            shape = network.inputs[network.picture]["shape"].tolist()
            with model_errors():
                preset = find_detector(shape, network.shapes, outputs, kind=options.kind)
            limits = [each.threshold for each in outputs if each.threshold is not None]
            self._threshold = options.score_threshold or (limits[0] if limits else 0.0)
            like = preprocessing(preset)
            if like is None:
                self._threshold = self._threshold or options.usual_threshold
                network.require_normalization()
            if preset is None:
                self._calibration = next((o.calibration for o in outputs if o.calibration), None)
            self._like = network.transform if like is None else network.normalized(like)
            self._preset = self._limited(preset)

    def _limited(self, preset: Detector | YoloDetector | None) -> Detector | YoloDetector | None:
        """A preset with the threshold and the classes of the options."""
        if preset is not None and (self._threshold or preprocessing(preset) is None):
            preset = replace(preset, threshold=self._threshold)
        if isinstance(preset, Detector):
            count = len(preset._anchors)
            most = sum(math.prod(shape) // count for shape in self.network.shapes)
            most -= 4 + 2 * preset.key_points + (1 if preset.background else 0)
            require_labels(self.options.labels or (), most)
            preset = replace(preset, classes=tuple(i for i in range(most) if i in self._choice))
        return preset

    def _process(self, image: Image, region: Region, time_ms: int | None) -> DetectionResult:
        network = self.network
        transform = self._sampling(region, self._like, self._like.fit)
        if isinstance(self._preset, YoloDetector):
            transform = replace(transform, opencv=False)
        arrays = network(image, transform)
        least = self._threshold
        if self._calibration is None:
            found = read_detections(arrays, self._preset, threshold=least)
        else:
            raw = read_detections(arrays, None, threshold=0)
            classes = [each.class_index for each in raw]
            scores = calibrated(np.array([each.score for each in raw]), self._calibration, classes)
            pairs = zip(raw, scores.tolist(), strict=True)
            found = [replace(each, score=score) for each, score in pairs if score >= least]
        chosen = [each for each in found if each.class_index in self._choice]
        mapped = [each.to_picture(transform, image.size, network.size) for each in chosen]
        result = merged(detection_result(mapped[: self._choice.most], image.size, self._category))
        if self.options.track and time_ms is not None:
            seconds = 0.0 if self._latest is None else (time_ms - self._latest) / 1000
            objects = [each.found for each in result.detections if each.found is not None]
            numbers, self._identities = self._identities.with_detections(objects, seconds)
            self._latest = time_ms
            for each, number in zip(result.detections, numbers, strict=True):
                each.track_id = number
        return result

    def _category(self, detection: Detection) -> Category:
        """Named classes have no index, as in MediaPipe's DetectionLabelIdToTextCalculator."""
        index = detection.class_index
        if index < len(self._labels):
            return Category(None, detection.score, None, self._labels[index])
        return Category(index, detection.score, None, None)


def merged(result: DetectionResult) -> DetectionResult:
    """One detection for each box, with all its classes (DetectionsDeduplicateCalculator)."""
    boxes: dict[tuple[int, int, int, int], int] = {}
    kept: list[Detected] = []
    for detection in result.detections:
        box = detection.bounding_box
        key = (box.origin_x, box.origin_y, box.width, box.height)
        if key in boxes:
            kept[boxes[key]].categories.extend(detection.categories)
        else:
            boxes[key] = len(kept)
            kept.append(detection)
    return DetectionResult(kept, result.size)
