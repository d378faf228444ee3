"""Networks for common tasks, and drawings of their results on the frame."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gles_apps.live.app import App, Canvas, Frame, Network
from gles_apps.live.layers import Layer
from gles_apps.live.loop import FrameHandler
from gles_apps.tasks.assets import ModelPath
from gles_apps.tasks.components.containers import ClassificationResult
from gles_apps.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_apps.tasks.vision.image_segmenter import ImageSegmenterResult
from gles_apps.tasks.vision.opening import TaskModel, TaskSettings
from gles_delegate import ImageOutput
from gles_delegate.model.graph import Array

COUNTED = {"detect": "object", "holistic": "part"}
"""Names of what is counted, where they are not the task's."""


def frame_handler_for(
    app: App,
    model: ModelPath,
    settings: TaskSettings | None = None,
    *,
    mean: float | None = None,
    std: float | None = None,
) -> FrameHandler:
    """Draws the results of a model's task, or the picture that it makes, over each frame.

    Args:
        app: The networks' app.
        model: The file of a network whose only input is a picture, or a landmarker's bundle, or
            the bundle's files by their names.
        settings: The task and its options.
        mean: See `BaseOptions`.
        std: Likewise.

    Raises:
        ValueError: No task can run this model, or these settings do not apply to it.

    Examples:
        >>> settings = mp.tasks.vision.TaskSettings("detect", labels=["face"], threshold=0.6)
        >>> app = live.show(
        ...     lambda app: live.frame_handler_for(app, "face_detection_front.tflite", settings),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    base = app.base_options(model, mean=mean, std=std)
    task_model = TaskModel.of(base, settings)
    return task_handler(app, task_model, base)


def task_handler(app: App, model: TaskModel, base: BaseOptions) -> FrameHandler:
    """See `frame_handler_for`; `base` are options of the app, for the model's mean and std."""
    name = model.required()
    path = model.assets.path
    title = f"{name}s" if path is None else path.stem
    if name == "repaint":
        return repaint(app.network_of(model.file, title, base))
    task = app.task(model.open(base, VisionTaskRunningMode.VIDEO, texture="classes"), title)
    top = model.settings.top or 5

    def see(frame: Frame, canvas: Canvas) -> None:
        result = task(frame)
        match result:
            case ClassificationResult():
                result.draw(canvas.drawing, top)
            case ImageSegmenterResult():
                if result.texture is not None:
                    canvas.layer(Layer.of_areas(result.texture, canvas.drawing.unit))
                result.draw(canvas.drawing)
                canvas.count("class", len(result.listed))
            case _:
                result.draw(canvas.drawing)
                canvas.count(COUNTED.get(name, name), len(result.rows(frame.size)))

    return see


def repaint(
    network: Network, *, feeds: Mapping[int, Array] | None = None, opacity: float = 1.0
) -> FrameHandler:
    """Shows a network's picture, such as another style, more detail, other colors.

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
    details = network.outputs[0]
    metadata = network.metadata.outputs[0]
    shape = details["shape"].tolist()
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3, 4):
        raise ValueError(
            f"expected a picture, an output [1, height, width, 1, 3 or 4], found {shape}"
        )
    low = 0.0
    high = 1.0
    if np.dtype(details["dtype"]).kind in "iu" and not details["quantization"][0]:
        high = 255.0
    elif metadata.minimum and metadata.maximum and max(metadata.maximum) > min(metadata.minimum):
        low = min(metadata.minimum)
        high = max(metadata.maximum)
    network.pictures[0] = ImageOutput(scale=1 / (high - low), offset=-low / (high - low))

    def see(frame: Frame, canvas: Canvas) -> None:
        result, *_ = network(frame, feeds=feeds)
        style = {"opacity": opacity, "smooth": False}
        canvas.layer(network.layer(result, network.transform, frame, **style))

    return see
