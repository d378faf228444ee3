"""Networks for common tasks, and drawings of their results on the frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from gles_apps.live.app import App, Canvas, Frame, Network
from gles_apps.live.layers import Layer
from gles_apps.live.show import Seer
from gles_apps.tasks.assets import Assets, assets_of, with_assets
from gles_apps.tasks.components.containers import ClassificationResult
from gles_apps.tasks.options import VisionTaskRunningMode
from gles_apps.tasks.vision.bundles import landmarker_kind
from gles_apps.tasks.vision.image_segmenter import ImageSegmenterResult
from gles_apps.tasks.vision.opening import TaskSettings, open_task, require_task
from gles_delegate import ImageOutput, ModelError
from gles_delegate.extension import Array

Model: TypeAlias = "str | Path | Mapping[str, Path] | Assets"
"""A .tflite file, a bundle of a landmarker, or the bundle's files by name; `Assets` are read."""
Labels: TypeAlias = Sequence[str] | None
"""Class names; None: those in the model's metadata."""

COUNTED = {"detect": "object", "holistic": "part"}
"""Names of what is counted, where they are not the task's."""


def seer_for(
    app: App,
    model: Model,
    settings: TaskSettings | None = None,
    *,
    mean: float | None = None,
    std: float | None = None,
) -> Seer:
    """A seer that draws the results of a model: of its task, or the picture that it makes.

    Args:
        app: The networks' app.
        model: A bundle of a landmarker, or a network whose only input is a picture.
        settings: The task and its options.
        mean: See `BaseOptions`.
        std: Likewise.

    Raises:
        ValueError: The model suits no task, or not the settings.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.seer_for(app, Path("ball_segmenter.tflite")),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    settings = settings or TaskSettings()
    base = with_assets(app.base_options(model, mean=mean, std=std))
    assets, name = assets_of(base), require_task(base, settings)
    title = assets.path.stem if assets.path is not None else f"{name}s"
    if name == "repaint":
        return repaint(app.network(assets.model(), title, mean=mean, std=std))
    opened = open_task(base, settings, VisionTaskRunningMode.VIDEO, texture="classes")
    task = app.task(opened, title)

    def see(frame: Frame, canvas: Canvas) -> None:
        result = task(frame)
        if isinstance(result, ImageSegmenterResult) and result.texture is not None:
            canvas.layer(Layer.of_areas(result.texture, canvas.drawing.unit))
        if isinstance(result, ClassificationResult):
            result.draw(canvas.drawing, settings.top or 5)
            return
        result.draw(canvas.drawing)
        if isinstance(result, ImageSegmenterResult):
            canvas.count("class", len(result.listed))
        else:
            canvas.count(COUNTED.get(name, name), len(result.rows(frame.size)))

    return see


def classify(app: App, model: Model, labels: Labels = None, *, count: int = 5) -> Seer:
    """A seer that draws names and scores of the top classes as bars.

    Args:
        app: The networks' app.
        model: A network with scores [1, classes]; those outside 0 to 1 become their softmax.
        labels: A name for each class.
        count: The number of classes to draw.

    Raises:
        ValueError: The network is not a classifier, or has another number of classes.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.classify(app, Path("model.tflite")),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    return seer_for(app, model, TaskSettings("classify", labels=labels, top=count))


def detect(
    app: App,
    model: Model,
    labels: Labels = None,
    *,
    threshold: float | None = None,
    kind: str | None = None,
    track: bool = False,
) -> Seer:
    """A seer that draws a detector's boxes, with names and scores, masks and key points.

    Args:
        app: The networks' app.
        model: A network whose shapes `vision.find_detector` recognizes.
        labels: Class names.
        threshold: Minimum score; None: the model's own, or 0.5.
        kind: See `vision.find_detector`.
        track: Number objects while they are seen.

    Raises:
        ValueError: The network is not such a detector.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.detect(app, Path("face_detection_front.tflite"), ["face"]),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    return seer_for(app, model, TaskSettings("detect", kind, labels, threshold, track=track))


def segment(
    app: App,
    model: Model,
    labels: Labels = None,
    *,
    mean: float | None = None,
    std: float | None = None,
) -> Seer:
    """A seer that colors each pixel by its class, and draws a legend; the first class is clear.

    Args:
        app: The networks' app.
        model: A network that `tasks.vision.ImageSegmenter` accepts.
        labels: Class names.
        mean: See `BaseOptions`.
        std: Likewise.

    Raises:
        ValueError: The network does not segment, or has another number of classes.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.segment(app, Path("ball_segmenter.tflite")),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    return seer_for(app, model, TaskSettings("segment", labels=labels), mean=mean, std=std)


def pose(app: App, model: Model, *, threshold: float | None = None) -> Seer:
    """A seer that draws skeletons of people, from PoseNet or MoveNet.

    Args:
        app: The networks' app.
        model: PoseNet, recognized by the names of its outputs, or MoveNet.
        threshold: Minimum score of a point that is drawn; None: 0.3.

    Raises:
        ValueError: The network is neither.

    Examples:
        >>> path = Path("movenet_single_pose_lightning_ptq.tflite")
        >>> app = live.show(
        ...     lambda app: live.pose(app, path),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    return seer_for(app, model, TaskSettings("pose", threshold=threshold))


def landmarks(app: App, model: Model, *, most: int | None = None) -> Seer:
    """A seer that draws the points of faces, hands or bodies.

    Args:
        app: The networks' app.
        model: MediaPipe's bundle of face, hand, gesture, pose or holistic, or its files by name.
        most: Maximum number of objects; default: 4 faces, 2 hands or one body.

    Raises:
        ModelError: It is another bundle.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.landmarks(app, Path("face_landmarker.task"), most=1),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    assets = assets_of(app.base_options(model))
    if landmarker_kind(assets) is None:
        raise ModelError(
            f"expected a bundle of face, hand, gesture, pose or holistic, found {model}"
        )
    return seer_for(app, assets, TaskSettings(top=most))


def repaint(
    network: Network, *, feeds: Mapping[int, Array] | None = None, opacity: float = 1.0
) -> Seer:
    """A seer that shows a network's picture, such as another style, more detail, other colors.

    Args:
        network: Its first output is a picture [1, height, width, 1, 3 or 4] of bytes, or of real
            numbers from 0 to 1 or in the range in the model's metadata.
        feeds: Arrays for its other inputs, by position.
        opacity: 0 to 1; below 1 the picture is mixed with the frame.

    Raises:
        ValueError: The output is not a picture.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.repaint(app.network(Path("super_resolution_x2.tflite"))),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    details, metadata = network.outputs[0], network.metadata.outputs[0]
    shape = details["shape"].tolist()
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3, 4):
        raise ValueError(
            f"expected a picture, an output [1, height, width, 1, 3 or 4], found {shape}"
        )
    low, high = 0.0, 1.0
    if np.dtype(details["dtype"]).kind in "iu" and not details["quantization"][0]:
        high = 255.0
    elif metadata.minimum and metadata.maximum and max(metadata.maximum) > min(metadata.minimum):
        low, high = min(metadata.minimum), max(metadata.maximum)
    network.pictures[0] = ImageOutput(scale=1 / (high - low), offset=-low / (high - low))

    def see(frame: Frame, canvas: Canvas) -> None:
        result, *_ = network(frame, feeds=feeds)
        style = {"opacity": opacity, "smooth": False}
        canvas.layer(network.layer(result, network.transform, frame, **style))

    return see
