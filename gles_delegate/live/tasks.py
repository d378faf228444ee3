"""Networks for common tasks, and drawings of their results on the frame."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image

from gles_delegate import vision
from gles_delegate.errors import ModelError
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import Size
from gles_delegate.live.app import App, Canvas, Frame, Network
from gles_delegate.live.show import Seer
from gles_delegate.model.graph import Array
from gles_delegate.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_delegate.tasks.vision.bundles import landmarker_kind, make_landmarker, points_of
from gles_delegate.tasks.vision.finding import Landmarker
from gles_delegate.vision.classes import class_name, class_names
from gles_delegate.vision.detectors import has_postprocessing, preprocessing
from gles_delegate.vision.yolo import find_yolo

Labels: TypeAlias = Sequence[str] | None
"""Class names; None: those in the model's metadata."""

COLORS = vision.palette(20)
NAMED = {"ImageClassifier": "classify", "ImageSegmenter": "segment", "ObjectDetector": "detect"}
"""Tasks by the model names that TensorFlow Lite's metadata writers use."""


def classify(network: Network, labels: Labels = None, *, count: int = 5) -> Seer:
    """A seer that draws names and scores of the top classes as bars.

    Args:
        network: Its output has a score for each class, [1, classes]. If scores are outside 0 to
            1, their softmax is shown.
        labels: A name for each class.
        count: The number of classes to draw.

    Raises:
        ValueError: The network is not a classifier, or has another number of classes.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.classify(app.network(Path("model.tflite"))),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    shapes = _shapes(network)
    if len(shapes) != 1 or len(shapes[0]) < 2 or np.prod(shapes[0]) != shapes[0][-1]:
        raise ValueError(f"expected a classifier, with one output [1, classes], found {shapes}")
    classes = shapes[0][-1]
    names = network.labels if labels is None else labels
    if names and len(names) != classes:
        raise ValueError(f"expected a label for each of {classes} classes, found {len(names)}")
    names = class_names(names, classes)
    if network.metadata.outputs[0].task == "classify":
        network.transform = replace(network.transform, fit="crop")

    def see(frame: Frame, canvas: Canvas) -> None:
        (scores,) = network(frame)
        shares = scores.reshape(-1)
        if not (shares.min() >= 0 and shares.max() <= 1):
            powers = np.exp(shares - shares.max())
            shares = powers / powers.sum()
        best = vision.top_classes(shares, names, count)
        canvas.drawing.bars([name for name, _ in best], [share for _, share in best])

    return see


def detect(
    network: Network, labels: Labels = None, *, threshold: float = 0.5, kind: str | None = None
) -> Seer:
    """A seer that draws a detector's boxes, with names and scores, masks and key points.

    Args:
        network: A network whose shapes `find_detector` recognizes.
        labels: Class names.
        threshold: The least score, for networks that end in TFLite_Detection_PostProcess.
        kind: See `find_detector`.

    Raises:
        ValueError: The network is not such a detector.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.detect(app.network(Path("face_detection_front.tflite")), ["face"]),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    shape, metadata = network.inputs[0]["shape"].tolist(), network.metadata.outputs
    if labels is not None:
        metadata = tuple(replace(each, labels=tuple(labels)) for each in metadata)
    detector = vision.find_detector(shape, _shapes(network), metadata, kind=kind)
    names = network.labels if labels is None else labels
    are_named = bool(names) or not isinstance(detector, vision.Detector)
    network.transform = preprocessing(detector) or network.transform

    def see(frame: Frame, canvas: Canvas) -> None:
        detections = vision.read_detections(network(frame), detector, threshold=threshold)
        canvas.count("object", len(detections))
        masks = _masks(detections, network.size)
        if masks is not None:
            canvas.layer(network.layer(masks, network.transform, frame, **_mask_style(canvas)))
        for detection in detections:
            number = detection.class_index
            canvas.drawing.detection(
                detection.to_picture(network.transform, frame.size, network.size),
                class_name(names, number) if are_named else "",
                COLORS[number % len(COLORS)],
            )

    return see


def _mask_style(canvas: Canvas) -> dict[str, Any]:
    """Style of a layer that colors objects: they shine through, and a line surrounds them."""
    return {"opacity": 0.45, "edges": (0.3, 0.7), "contour": max(2.0, canvas.drawing.unit)}


def _masks(detections: Sequence[vision.Detection], size: Size) -> Array | None:
    """Masks in the colors of their classes over a network's input, RGBA of 0 to 1; None: none."""
    height, width = size
    colors = np.zeros((height, width, 4), np.float32)
    seen = [(d.mask, d) for d in detections if d.mask is not None]
    for mask, detection in reversed(seen):
        left, top, right, bottom = np.multiply(detection.box, (width, height) * 2).tolist()
        x, y = max(round(left), 0), max(round(top), 0)
        to_x, to_y = min(round(right), width), min(round(bottom), height)
        if to_x <= x or to_y <= y:
            continue
        across, down = mask.shape[1] / (right - left), mask.shape[0] / (bottom - top)
        part = (np.array([x, y, to_x, to_y]) - [left, top] * 2) * ([across, down] * 2)
        part = part.clip(0, mask.shape[::-1] * 2)
        resized = Image.fromarray(mask).resize(
            (to_x - x, to_y - y), Image.Resampling.BILINEAR, tuple(part.tolist())
        )
        color = COLORS[detection.class_index % len(COLORS)]
        colors[y:to_y, x:to_x][np.asarray(resized) > 0.5] = (*np.divide(color, 255), 1)
    return colors if seen else None


def landmarks(app: App, model: Path | Mapping[str, Path], *, most: int | None = None) -> Seer:
    """A seer that draws the points of faces, hands or bodies, found by a task.

    Args:
        app: The networks' app.
        model: MediaPipe's bundle of a face, hand or pose landmarker, or its files by name.
        most: The most objects; default: 4 faces, 2 hands or one body.

    Raises:
        ModelError: It is another bundle.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.landmarks(app, Path("face_landmarker.task"), most=1),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    kind = landmarker_kind(model)
    if kind is None:
        raise ModelError(f"expected a bundle of a face, hand or pose landmarker, found {model}")

    def make(base: BaseOptions) -> Landmarker[Any]:
        return make_landmarker(kind, base, VisionTaskRunningMode.VIDEO, most)

    task = app.task(make, model, f"{kind}s")

    def see(frame: Frame, canvas: Canvas) -> None:
        result = task(frame)
        canvas.count(kind, len(points_of(kind, result)))
        result.draw(canvas.drawing)

    return see


def pose(network: Network, *, threshold: float = 0.3) -> Seer:
    """A seer that draws skeletons of people, from PoseNet or MoveNet.

    Args:
        network: PoseNet, recognized by the names of its outputs, or MoveNet.
        threshold: The least score of a point that is drawn.

    Raises:
        ValueError: The network is neither.

    Examples:
        >>> path = Path("movenet_single_pose_lightning_ptq.tflite")
        >>> app = live.show(
        ...     lambda app: live.pose(app.network(path)),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    shapes = _shapes(network)
    if len(shapes) not in (1, 4):
        raise ValueError(
            f"expected PoseNet or MoveNet, found outputs {shapes}; a network of landmarks needs a "
            "detector before it"
        )
    network.transform = vision.MOVENET_INPUT if len(shapes) == 1 else vision.POSENET_INPUT
    # Forward and backward displacements differ only in their names.
    names = [details["name"] for details in network.outputs]
    words = ("heatmap", "offset", "displacement_fwd", "displacement_bwd")
    positions = [[i for i, name in enumerate(names) if word in name] for word in words]
    if len(shapes) == 4 and any(len(matches) != 1 for matches in positions):
        raise ValueError(f"expected PoseNet's outputs named {words}, found {names}")

    def read(outputs: list[Array]) -> list[vision.Pose]:
        if len(outputs) == 1:
            return vision.read_movenet(outputs[0])
        heat, offset, forward, backward = (outputs[position] for (position,) in positions)
        size = network.size
        return vision.posenet_poses(heat, offset, forward, backward, size, threshold=threshold)

    def see(frame: Frame, canvas: Canvas) -> None:
        height, width = canvas.drawing.size
        people = [person for person in read(network(frame)) if max(person.scores) >= threshold]
        canvas.count("pose", len(people))
        for person, color in zip(people, COLORS[1:], strict=False):
            mapped = person.to_picture(network.transform, frame.size, network.size)
            points = np.multiply(mapped.points, (width, height))
            points[np.less(person.scores, threshold)] = np.nan
            canvas.drawing.skeleton(points, vision.COCO_EDGES, color)

    return see


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
    shape, metadata = _shapes(network)[0], network.metadata.outputs[0]
    if len(shape) != 4 or shape[0] != 1 or shape[3] not in (1, 3, 4):
        raise ValueError(
            f"expected a picture, an output [1, height, width, 1, 3 or 4], found {shape}"
        )
    low, high = 0.0, 1.0
    if _is_integer(network):
        high = 255.0
    elif metadata.minimum and metadata.maximum and max(metadata.maximum) > min(metadata.minimum):
        low, high = min(metadata.minimum), max(metadata.maximum)
    network.pictures[0] = ImageOutput(scale=1 / (high - low), offset=-low / (high - low))

    def see(frame: Frame, canvas: Canvas) -> None:
        result, *_ = network(frame, feeds=feeds)
        style = {"opacity": opacity, "smooth": False}
        canvas.layer(network.layer(result, network.transform, frame, **style))

    return see


def segment(network: Network, labels: Labels = None) -> Seer:
    """A seer that colors each pixel by its class, and draws a legend; the first class is clear.

    Args:
        network: Its output has a score for each class, [1, height, width, classes], or a score
            for a single class, or class numbers, as int32 or int64 also [1, height, width].
        labels: Class names.

    Raises:
        ValueError: The network does not segment, or has another number of classes.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.segment(app.network(Path("ball_segmenter.tflite"))),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    shapes, are_numbers = _shapes(network), _is_integer(network)
    if len(shapes) != 1 or len(shapes[0]) not in (3, 4) or shapes[0][1] > network.size[0]:
        raise ValueError(
            "expected a segmentation network, with one output [1, height, width, classes] no "
            f"larger than its input, found {shapes}"
        )
    scores = shapes[0][3] if len(shapes[0]) == 4 else 1
    if labels is not None and len(labels) != scores > 1:
        raise ValueError(f"expected a label for each of {scores} classes, found {len(labels)}")
    label_list = list(network.labels if labels is None else labels)
    if scores == 1 and not are_numbers and len(label_list) == 1:
        label_list = ["", *label_list]
    # The number of classes is unknown if the output has class numbers.
    classes = 64 if are_numbers and scores == 1 else max(scores, 2)
    names = class_names(label_list, classes)
    colors: list[tuple[int, int, int, int]] = [(0, 0, 0, 0)]
    colors += [(*color, 255) for color in vision.palette(classes)[1:]]
    keys = np.array(colors, np.uint8).view(np.uint32).ravel().tolist()
    network.pictures[0] = ImageOutput(palette=colors)

    def see(frame: Frame, canvas: Canvas) -> None:
        (mask,) = network(frame)
        canvas.layer(network.layer(mask, network.transform, frame, **_mask_style(canvas)))
        pixels, counts = np.unique(network.read(mask).view(np.uint32), return_counts=True)
        by_color = dict(zip(pixels.tolist(), counts.tolist(), strict=True))
        areas = [by_color.get(key, 0) for key in keys]
        listed = [i for i, area in enumerate(areas) if i and area > 0.002 * sum(areas)]
        canvas.count("class", len(listed))
        canvas.drawing.legend([names[i] for i in listed], [colors[i] for i in listed])

    return see


TASKS: Mapping[str, Callable[[Network, Labels], Seer]] = {
    "classify": classify,
    "detect": detect,
    "pose": lambda network, _: pose(network),
    "repaint": lambda network, _: repaint(network),
    "segment": segment,
}
"""Functions that make a network's `Seer`, by task."""


def seer_for(
    network: Network, labels: Labels = None, task: str | None = None, *, kind: str | None = None
) -> Seer:
    """The `Seer` of a network that needs only frames.

    Args:
        network: Its only input is a gray or colored picture.
        labels: Class names, for tasks with classes.
        task: A key of `TASKS`; None: the result of `find_task`.
        kind: The kind of a detector, as in `find_detector`.

    Raises:
        ValueError: The task is not one of `TASKS`, or does not suit the network or the kind.

    Examples:
        >>> app = live.show(
        ...     lambda app: live.seer_for(app.network(Path("ball_segmenter.tflite"))),
        ...     live.Picture(Path("face.jpg")),
        ...     live.ShowOptions(headless=True, frames=1),
        ... )
    """
    if task not in (None, *TASKS):
        raise ValueError(f"expected a task, one of {', '.join(TASKS)}, found {task!r}")
    if kind is not None and task not in (None, "detect"):
        raise ValueError(f"expected the task 'detect' for the kind {kind!r}, found {task!r}")
    shapes = [details["shape"].tolist() for details in network.inputs]
    if len(shapes) != 1 or len(shapes[0]) != 4 or shapes[0][3] == 4:
        raise ValueError(
            "expected a network whose only input is a frame, [1, height, width, 1 or 3], found "
            f"inputs {shapes}"
        )
    if kind is not None:
        return detect(network, labels, kind=kind)
    return TASKS[task or find_task(network)](network, labels)


def find_task(network: Network) -> str:
    """The key of `TASKS` for a network, from its metadata or else its outputs.

    Raises:
        ValueError: The outputs suit none of them, or several kinds of YOLO networks.

    Examples:
        >>> def make(app):
        ...     network = app.network(Path("ball_segmenter.tflite"))
        ...     print(live.find_task(network))
        ...     return live.seer_for(network)
        >>> options = live.ShowOptions(headless=True, frames=1)
        >>> app = live.show(make, live.Picture(Path("face.jpg")), options)
        segment
    """
    shapes = _shapes(network)
    task = NAMED.get(network.metadata.name) or _yolo_task(network, shapes)
    task = task or _task_of(network, shapes)
    if task is None:
        raise ValueError(
            f"expected a network whose outputs show its task, one of {', '.join(TASKS)}, found "
            f"outputs {shapes}; name the task, or write a Seer for the network"
        )
    return task


def _yolo_task(network: Network, shapes: list[list[int]]) -> str | None:
    outputs = network.metadata.outputs
    if outputs[0].task == "classify":
        return "classify"
    found = find_yolo(network.inputs[0]["shape"].tolist(), shapes, outputs)
    return None if found is None else "detect"


def _task_of(network: Network, shapes: list[list[int]]) -> str | None:
    named = len(network.labels)
    match shapes:
        case [_, _, _, _]:
            if has_postprocessing(shapes):
                return "detect"
            return "pose" if any("heatmap" in d["name"] for d in network.outputs) else None
        case [_, _]:
            with suppress(ValueError):
                outputs = network.metadata.outputs
                vision.find_detector(network.inputs[0]["shape"].tolist(), shapes, outputs)
                return "detect"
        case [[1, 1, 17, 3] | [1, _, 56]]:
            return "pose"
        case [[1, classes]] if classes > 1:
            return "classify"
        case [[1, 1, 1, classes]] if classes == named > 1:
            return "classify"
        case [[1, height, width]] if min(height, width) > 1 and _is_integer(network):
            return "segment"
        case [[1, height, width, channels]] if min(height, width) > 1:
            is_picture = channels in (3, 4) and channels != named
            is_larger = height > network.size[0]
            return "repaint" if is_picture or is_larger else "segment"
    return None


def _shapes(network: Network) -> list[list[int]]:
    return [details["shape"].tolist() for details in network.outputs]


def _is_integer(network: Network) -> bool:
    """Whether the first output has integers that are not quantized."""
    details = network.outputs[0]
    return np.dtype(details["dtype"]).kind in "iu" and not details["quantization"][0]
