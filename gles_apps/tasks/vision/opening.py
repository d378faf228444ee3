"""Which task a model is for, and a task with what apps and commands choose."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from gles_apps.tasks.assets import Assets, bundle_task
from gles_apps.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_apps.tasks.task import VisionTask
from gles_apps.tasks.vision.face_landmarker import FaceLandmarker, FaceLandmarkerOptions
from gles_apps.tasks.vision.gesture_recognizer import GestureRecognizer, GestureRecognizerOptions
from gles_apps.tasks.vision.hand_landmarker import HandLandmarker, HandLandmarkerOptions
from gles_apps.tasks.vision.holistic_landmarker import HolisticLandmarker, HolisticLandmarkerOptions
from gles_apps.tasks.vision.image_classifier import ImageClassifier, ImageClassifierOptions
from gles_apps.tasks.vision.image_segmenter import ImageSegmenter, ImageSegmenterOptions
from gles_apps.tasks.vision.object_detector import ObjectDetector, ObjectDetectorOptions
from gles_apps.tasks.vision.pose_estimator import PoseEstimator, PoseEstimatorOptions
from gles_apps.tasks.vision.pose_landmarker import PoseLandmarker, PoseLandmarkerOptions
from gles_apps.vision.classes import TASKS
from gles_apps.vision.detectors import find_detector, has_postprocessing
from gles_apps.vision.yolo import find_yolo
from gles_delegate import Metadata
from gles_delegate.image.pictures import channels_last
from gles_delegate.model.graph import Graph, Tensor
from gles_delegate.model.reader import ModelFile
from gles_delegate.planning.outputs import prepared, read_metadata

NAMED = {"ImageClassifier": "classify", "ImageSegmenter": "segment", "ObjectDetector": "detect"}
"""Tasks by the model names that TensorFlow Lite's metadata writers use."""

LANDMARKERS: dict[str, tuple[Any, Any, int | None]] = {
    "face": (FaceLandmarker, FaceLandmarkerOptions, 4),
    "hand": (HandLandmarker, HandLandmarkerOptions, 2),
    "pose": (PoseLandmarker, PoseLandmarkerOptions, 1),
    "gesture": (GestureRecognizer, GestureRecognizerOptions, 2),
    "holistic": (HolisticLandmarker, HolisticLandmarkerOptions, None),
}
"""The task, its options and the usual limit of objects, by kind; None: it finds one object."""

SMALLEST_THRESHOLD = 1e-30
"""A threshold for all detections."""
USUAL_THRESHOLD = 0.5
"""Minimum score of a detection where the model does not say one."""


@dataclass(frozen=True)
class TaskSettings:
    """Choices of apps and commands for a task; None: the usual.

    Attributes:
        task: One of `TASKS`; None: `find_task` decides.
        kind: The kind of a YOLO network; see `vision.find_detector`.
        labels: Class names; None: those in the metadata.
        threshold: Minimum score of a class, of an object or of a person's point. Without it,
            detectors use the model's own, or 0.5, and classifiers none.
        top: Maximum number of classes or objects.
        track: Number a detector's objects in a video.

    Raises:
        ValueError: The task is unknown, or does not suit the kind.

    Examples:
        >>> settings = mp.tasks.vision.TaskSettings("detect", labels=["cat", "dog"], threshold=0.3)
    """

    task: str | None = None
    kind: str | None = None
    labels: Sequence[str] | None = None
    threshold: float | None = None
    top: int | None = None
    track: bool = False

    def __post_init__(self) -> None:
        if self.task not in (None, *TASKS):
            raise ValueError(f"expected a task, one of {', '.join(TASKS)}, found {self.task!r}")
        if self.kind is not None and self.task not in (None, "detect"):
            raise ValueError(
                f"expected the task 'detect' for the kind {self.kind!r}, found {self.task!r}"
            )


@dataclass(frozen=True)
class TaskModel:
    """A model whose files are read, and what is asked of it.

    Attributes:
        assets: The model's files.
        settings: What differs from the usual.
        landmarker: The key of `LANDMARKERS` for a bundle, or for its files by name; None for a
            single network.
    """

    assets: Assets
    settings: TaskSettings
    landmarker: str | None

    @classmethod
    def of(cls, base: BaseOptions, settings: TaskSettings | None = None) -> TaskModel:
        """The model of a task.

        Args:
            base: Has the model, which is read, and a mean and std.
            settings: None: the usual.

        Raises:
            ValueError: A landmarker's bundle does not suit the settings, mean or std.
            OSError, ModelError: See `Assets`.
        """
        settings = settings or TaskSettings()
        assets = base.read_assets()
        name = bundle_task(assets.files)
        kinds = (kind for kind, (task, *_) in LANDMARKERS.items() if task.__name__ == name)
        landmarker = next(kinds, None)
        is_usual = replace(settings, top=None) == TaskSettings()
        if landmarker is not None and not (is_usual and base.mean is None and base.std is None):
            raise ValueError("expected no task, kind, labels, threshold, mean or std for a bundle")
        return cls(assets, settings, landmarker)

    @property
    def file(self) -> ModelFile:
        """The single network; raises ModelError if it is damaged, or one of several in a bundle."""
        return self.assets.model()

    @cached_property
    def task(self) -> str | None:
        """The kind of a landmarker, or one of `TASKS` for a network; None: its outputs show none.

        Raises:
            ValueError: The outputs suit several kinds of YOLO networks.
            ModelError: The model is damaged (also a ValueError).
        """
        if self.landmarker is not None:
            return self.landmarker
        if self.settings.task is not None:
            return self.settings.task
        if self.settings.kind is not None:
            return "detect"
        graph = self.file.graph()
        metadata = read_metadata(graph)
        task = find_task(*_inputs_and_outputs(graph), metadata)
        return task or find_task(*self._inferred_tensors, metadata)

    @cached_property
    def _inferred_tensors(self) -> tuple[list[Tensor], list[Tensor]]:
        """The network's inputs and outputs, with shapes that the file leaves open."""
        return _inputs_and_outputs(prepared(self.file.graph()))

    def required(self) -> str:
        """See `task`; raises ValueError instead of returning None."""
        if self.task is not None:
            return self.task
        inputs, outputs = (
            [list(tensor.shape) for tensor in each] for each in self._inferred_tensors
        )
        raise ValueError(
            "expected a network of one picture whose outputs show its task, one of "
            f"{', '.join(TASKS)}, found inputs {inputs} and outputs {outputs}: name the task"
        )

    def open(
        self,
        base: BaseOptions,
        mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE,
        *,
        texture: Literal["classes"] | None = None,
    ) -> VisionTask[Any]:
        """The task of the model; see `open_task`, which has the errors.

        Args:
            base: Where the task runs, with the mean and std that `of` was given; this model
                replaces its model.
            mode: See `open_task`.
            texture: Likewise.
        """
        task = self.required()
        base = replace(base, model_asset_path=None, model_asset_buffer=None, assets=self.assets)
        settings = self.settings
        if self.landmarker is not None:
            landmarker, options_type, limit = LANDMARKERS[self.landmarker]
            if limit is None and settings.top is not None:
                raise ValueError(
                    f"expected no limit for {task}, which finds one object, found {settings.top}"
                )
            if settings.top is not None:
                limit = settings.top
            options = options_type(base, mode) if limit is None else options_type(base, mode, limit)
            if hasattr(options, "rigid_smoothing"):
                options.rigid_smoothing = True
            opened: VisionTask[Any] = landmarker(options)
            return opened
        base = replace(base, requires_normalization=False)
        if settings.track and task != "detect":
            raise ValueError(f"expected a detector for track, found the task {task!r}")
        match task:
            case "classify":
                classes = ImageClassifierOptions(
                    base,
                    mode,
                    max_results=settings.top,
                    score_threshold=settings.threshold,
                    labels=settings.labels,
                    probabilities=True,
                )
                return ImageClassifier(classes)
            case "detect":
                # MediaPipe's option takes 0 for the model's own threshold.
                threshold = SMALLEST_THRESHOLD if settings.threshold == 0 else settings.threshold
                objects = ObjectDetectorOptions(
                    base,
                    mode,
                    max_results=settings.top,
                    score_threshold=threshold,
                    labels=settings.labels,
                    kind=settings.kind,
                    usual_threshold=USUAL_THRESHOLD,
                    track=settings.track,
                )
                return ObjectDetector(objects)
            case "pose":
                people = PoseEstimatorOptions(base, mode)
                if settings.threshold is not None:
                    people.score_threshold = settings.threshold
                return PoseEstimator(people)
            case "segment":
                graph = self.file.graph()
                ranks = [len(graph.tensors[index].shape) for index in graph.outputs]
                has_scores = ranks[-1:] == [4]
                drawn = texture if has_scores else None
                areas = ImageSegmenterOptions(
                    base,
                    mode,
                    output_confidence_masks=False,
                    output_category_mask=drawn is None,
                    output_texture=drawn,
                    labels=settings.labels,
                )
                return ImageSegmenter(areas)
        raise ValueError("expected a network with results, found one that makes pictures")


def open_task(
    base: BaseOptions,
    settings: TaskSettings | None = None,
    mode: VisionTaskRunningMode = VisionTaskRunningMode.IMAGE,
    *,
    texture: Literal["classes"] | None = None,
) -> VisionTask[Any]:
    """The task of a model, a single network or a landmarker's bundle.

    Its results can `draw` themselves and have `rows`; see `VisionTask.process`. Networks need no
    metadata.

    Args:
        base: Has the model.
        settings: What differs from the usual.
        mode: Single pictures or a video.
        texture: A segmenter's classes go to a texture instead of an array, if it has scores.

    Raises:
        ValueError: No task can run this model, or these settings do not apply to it.
        ModelError: The model is damaged, or not of that kind (also a ValueError).

    Examples:
        >>> base = mp.BaseOptions("ball_segmenter.tflite", antialias=True)
        >>> with mp.tasks.vision.open_task(base) as task:
        ...     rows = task.process(picture).rows(picture.size)
        >>> [sorted(row) for row in rows]
        [['class', 'label', 'share']]
    """
    return TaskModel.of(base, settings).open(base, mode, texture=texture)


def find_task(
    inputs: Sequence[Tensor], outputs: Sequence[Tensor], metadata: Metadata
) -> str | None:
    """One of `TASKS`, by the metadata of a model or else by its outputs; None: they show none.

    Raises:
        ValueError: The outputs suit several kinds of YOLO networks.
    """
    match [channels_last(each.shape) for each in inputs]:
        case [[1, height, _, 1 | 3 | 4 as channels]]:
            pass
        case _:
            return None
    if metadata.name in NAMED:
        return NAMED[metadata.name]
    if metadata.outputs[0].task == "classify":
        return "classify"
    picture = inputs[0].shape
    shapes = [each.shape for each in outputs]
    if channels == 4:  # only segmenters leave alpha out
        tasks = {_task_of_output(each, 0, picture[1]) for each in outputs}
        return "segment" if tasks == {"segment"} else None
    if find_yolo(picture, shapes, metadata.outputs) is not None:
        return "detect"
    labels = next((each.labels for each in metadata.outputs if each.labels), ())
    match len(outputs):
        case 4:
            if has_postprocessing(shapes):
                return "detect"
            return "pose" if any("heatmap" in each.name for each in outputs) else None
        case 2:
            with suppress(ValueError):
                find_detector(picture, shapes, metadata.outputs)
                return "detect"
        case 1:
            return _task_of_output(outputs[0], len(labels), height)
    return None


def _inputs_and_outputs(graph: Graph) -> tuple[list[Tensor], list[Tensor]]:
    inputs = [graph.tensors[index] for index in graph.inputs]
    outputs = [graph.tensors[index] for index in graph.outputs]
    return inputs, outputs


def _task_of_output(output: Tensor, labels: int, rows: int) -> str | None:
    """The task of a network with one output; `rows`: the height of its input."""
    is_number = np.dtype(output.dtype).kind in "iu" and not output.is_quantized
    match output.shape:
        case [1, 1, 17, 3] | [1, _, 56]:
            return "pose"
        case [1, classes] if classes > 1:
            return "classify"
        case [1, 1, 1, classes] if classes == labels > 1:
            return "classify"
        case [1, height, width] if min(height, width) > 1 and is_number:
            return "segment"
        case [1, height, width, channels] if min(height, width) > 1:
            is_picture = channels in (3, 4) and channels != labels
            return "repaint" if is_picture or height > rows else "segment"
    return None
