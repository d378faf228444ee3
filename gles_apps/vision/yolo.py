"""YOLO networks: boxes, masks, key points and oriented boxes from their outputs.

Ultralytics documents its exports' layouts (docs.ultralytics.com: "Tasks", "End-to-End Detection").
YOLOX (Ge et al. 2021) is read with suppression inside the network.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, product
from typing import Any

import numpy as np

from gles_apps.vision.detection import ROUNDING, Box, Detection, as_points, box_groups, sigmoid
from gles_delegate import ImageTransform, TensorMetadata
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array

YOLO_KINDS: Mapping[str, str] = {
    "yolov5": "detect",
    "yolov5-seg": "segment",
    "yolov8": "detect",
    "yolov8-seg": "segment",
    "yolov8-pose": "pose",
    "yolov8-obb": "obb",
    "yolo26": "detect",
    "yolo26-seg": "segment",
    "yolo26-pose": "pose",
    "yolo26-obb": "obb",
    "yolox": "detect",
}
"""Ultralytics' name of the task by the kind of a network.

yolov8 is also YOLOv9, YOLO11 and YOLO12; yolo26 is every network with suppression inside, such as
YOLOv10; yolov5 is also YOLOv3 and YOLOv7; yolox has suppression inside.
"""

STRIDES = ((8, 16, 32), (8, 16, 32, 64), (4, 8, 16, 32))
"""Pixels between the cells of each grid, for networks of three and of four grids."""

LARGEST_SHARE = 2.0
"""Positions are pixels if their median is above this, otherwise shares of the input."""

CANDIDATES = 30_000
ORIENTED_CANDIDATES = 5_000
"""Maximum number of boxes that suppression considers, which bounds its time."""

MAX_CLASSES = 1 << 20  # where their number is unknown
BLOCK = 128  # oriented boxes that are compared at once with all better ones


@dataclass(frozen=True)
class YoloDetector:
    """Preprocessing and output decoding of a YOLO network.

    Thresholds are the defaults of Ultralytics.

    Attributes:
        kind: One of `YOLO_KINDS`.
        size: Height and width of the network's input, in pixels.
        classes: Number of classes; 0: unknown, in networks with suppression inside.
        columns: Each box is a column of its output, [1, numbers, boxes]; False: a row.
        points: Number of key points of a pose, and of each point's numbers: 2, or 3 with its score.
        coefficients: Number of prototypes, which each mask sums with its own coefficients.
        channels_first: Prototypes are [1, coefficients, rows, columns]; False: coefficients last.
        threshold: Scores of detections are higher.
        overlap: Maximum overlap of two boxes of a class; see `suppress`, and for oriented boxes
            `oriented_overlaps`. Unused if suppression is inside the network.
        most: Maximum number of detections.
        shares: Positions are shares of the input, otherwise pixels; None: decided for boxes and for
            key points by the median of their numbers other than 0, which is at most 2 for shares.
            YOLOX's are always pixels.

    Raises:
        ValueError: The kind is unknown, or sizes are not positive.

    Examples:
        >>> detector = vision.YoloDetector("yolov8", (640, 640), classes=80, columns=True)
        >>> empty = np.zeros((1, 84, 8400), np.float32)
        >>> vision.read_detections([empty], detector)
        []
    """

    kind: str
    size: Size
    classes: int = 0
    columns: bool = False
    points: tuple[int, int] = (17, 3)
    coefficients: int = 32
    channels_first: bool = False
    threshold: float = 0.25
    overlap: float = 0.7
    most: int = 300
    shares: bool | None = None

    def __post_init__(self) -> None:
        if self.kind not in YOLO_KINDS:
            raise ValueError(
                f"expected a kind, one of {', '.join(YOLO_KINDS)}, found {self.kind!r}"
            )
        positive = (*self.size, self.points[0], self.coefficients, self.most)
        if min(positive) <= 0 or self.points[1] not in (2, 3):
            raise ValueError(
                f"expected positive sizes, and 2 or 3 numbers for each key point, found {self!r}"
            )
        if self.classes < (0 if self.is_suppressed else 1):
            raise ValueError(f"expected the number of classes, found {self.classes}")

    @property
    def task(self) -> str:
        """Ultralytics' name of the task: "detect", "segment", "pose" or "obb"."""
        return YOLO_KINDS[self.kind]

    @property
    def is_suppressed(self) -> bool:
        """Whether suppression is inside the network."""
        return self.kind.startswith(("yolo26", "yolox"))

    @property
    def has_centers(self) -> bool:
        """Whether boxes are x and y of the center, width and height, instead of two corners."""
        return not self.is_suppressed or self.task == "obb"

    @property
    def transform(self) -> ImageTransform:
        """Preprocessing of the whole picture."""
        if self.kind == "yolox":
            return ImageTransform(
                fit="letterbox", align="corner", padding=114, channels="bgr", mean=0, std=1
            )
        return ImageTransform(fit="letterbox", align="pixels", padding=114, mean=0, std=255)

    @property
    def numbers(self) -> int:
        """How many numbers a box has in the output."""
        family, _, _ = self.kind.partition("-")
        first = {"yolov5": 5, "yolov8": 4, "yolo26": 6, "yolox": 7}[family]
        extra = {"segment": self.coefficients, "pose": math.prod(self.points), "obb": 1}
        return first + extra.get(self.task, 0) + (0 if self.is_suppressed else self.classes)


def find_yolo(
    input_shape: Sequence[int],
    output_shapes: Sequence[Sequence[int]],
    metadata: Sequence[TensorMetadata] = (),
    kind: str | None = None,
) -> YoloDetector | None:
    """The only YOLO network with these shapes, labels and task; None if the shapes suit no network.

    See `find_detector`.

    Raises:
        ValueError: The shapes suit several kinds, or no kind with the labels and the task.
    """
    if kind not in (None, *YOLO_KINDS):
        raise ValueError(f"expected a kind, one of {', '.join(YOLO_KINDS)}, found {kind!r}")
    task = next((each.task for each in metadata if each.task), "")
    labels = next((len(each.labels) for each in metadata if each.labels), 0)
    points = next((each.points for each in metadata if each.points), (17, 3))
    readings = list(_readings(input_shape, output_shapes, points, is_named=kind is not None))
    fitting = [each for each in readings if _is_consistent(each, kind or "", task, labels)]
    if len(fitting) == 1 or not (readings or kind):
        return fitting[0] if fitting else None
    unnamed = [each.classes for each in readings if _is_consistent(each, kind or "", task, 0)]
    options = ", ".join(dict.fromkeys(map(_described, fitting or readings))) or "no kind"
    shapes = f"{list(map(list, output_shapes))} for an input {list(input_shape)}"
    if fitting:
        raise ValueError(
            f"expected outputs of one kind of YOLO network, found {shapes}, which suit {options}; "
            f"name the kind, such as kind={fitting[0].kind!r} or --kind {fitting[0].kind}, pass "
            "the labels, or make a YoloDetector"
        )
    if unnamed:
        wanted = " or ".join(map(str, sorted({*unnamed})))
        raise ValueError(
            f"expected a label for each of {wanted} classes, found {labels}, for a YOLO network "
            f"with the outputs {shapes}"
        )
    raise ValueError(
        f"expected the outputs of a YOLO network of the kind {kind or 'any'}, for the task "
        f"{task or 'any'}, with {labels or 'any number of'} labels, found {shapes}, which suit "
        f"{options}; pass other labels or another kind"
    )


def _is_consistent(reading: YoloDetector, kind: str, task: str, labels: int) -> bool:
    """Whether a network does not contradict what is known; "" and 0 are unknown."""
    is_labeled = reading.is_suppressed or labels in (0, reading.classes)
    return kind in ("", reading.kind) and task in ("", reading.task) and is_labeled


def _described(detector: YoloDetector) -> str:
    return f"{detector.kind} of {detector.classes} classes" if detector.classes else detector.kind


def _readings(
    input_shape: Sequence[int],
    output_shapes: Sequence[Sequence[int]],
    points: tuple[int, int],
    is_named: bool,
) -> Iterator[YoloDetector]:
    """Every network that has such inputs and outputs, and such key points."""
    match [int(length) for length in input_shape]:
        case [1, height, width, 3] | [1, 3, height, width] if min(height, width) > 0:
            size = (height, width)
        case _:
            return
    shapes = [tuple(map(int, shape)) for shape in output_shapes]
    lists = [shape for shape in shapes if len(shape) in (2, 3)]
    if len(lists) != 1:
        return
    others = [shape for shape in shapes if shape != lists[0]]
    masks = [] if others else [(32, False)]  # coefficients, and whether they come first
    grid = (1, *_mask_grid(size))
    for shape in others if [len(shape) for shape in others] == [4] else ():
        if shape[:3] == grid:
            masks.append((shape[3], False))
        if (shape[0], *shape[2:]) == grid:
            masks.append((shape[1], True))
    for (kind, task), columns in product(YOLO_KINDS.items(), (False, True)):
        count, numbers = _box_shape(lists[0], kind, columns)
        if bool(others) != (task == "segment") or not _is_count(kind, count, size, is_named):
            continue
        for coefficients, channels_first in masks:
            options: dict[str, Any] = {
                "columns": columns, "points": points, "coefficients": coefficients,
                "channels_first": channels_first, "overlap": 0.45 if kind[:6] == "yolov5" else 0.7,
            }  # fmt: skip
            reading = YoloDetector(kind, size, 1, **options)
            missing = numbers - reading.numbers
            if reading.is_suppressed and missing == 0:
                yield replace(reading, classes=0)
            elif not reading.is_suppressed and missing >= 0:
                yield replace(reading, classes=1 + missing)


def _box_shape(shape: tuple[int, ...], kind: str, columns: bool) -> tuple[int, int]:
    """Number of boxes, and of each box's numbers; 0 if a network of a kind has no such output."""
    match shape:
        case (1, first, second) if not columns:
            return first, second
        case (1, first, second) if kind.startswith("yolov8"):
            return second, first
        case (count, numbers) if kind == "yolox" and not columns:
            return count, numbers
    return 0, 0


def _is_count(kind: str, count: int, size: Size, is_named: bool) -> bool:
    """Whether a network of a kind has this number of boxes.

    A single box is more likely something else, such as a classifier's [1, classes].
    """
    cells = {
        sum(math.ceil(size[0] / stride) * math.ceil(size[1] / stride) for stride in strides)
        for strides in STRIDES
    }
    anchors = {3 * number for number in cells}
    if kind.startswith("yolov5"):
        return count in anchors
    if kind.startswith("yolov8"):
        return count in cells
    return (count > 1 or (count == 1 and is_named)) and count not in cells | anchors


def _mask_grid(size: Size) -> Size:
    return math.ceil(size[0] / 4), math.ceil(size[1] / 4)


@dataclass(frozen=True, eq=False)
class _Boxes:
    """Boxes of the output.

    Attributes:
        places: [n, 4]: x and y of the center, width and height; or left, top, right and bottom.
        scores: [n], of each box's best class.
        classes: [n], whole numbers.
        extra: [n, m]: a mask's coefficients, key points or an angle.
    """

    places: Array
    scores: Array
    classes: Array
    extra: Array

    def take(self, indices: Array) -> _Boxes:
        """Some of the boxes, whose positions and other numbers become float64."""
        places, extra = (array[indices].astype(np.float64) for array in (self.places, self.extra))
        return _Boxes(places, self.scores[indices], self.classes[indices], extra)


def read_yolo(outputs: Sequence[Array], detector: YoloDetector) -> list[Detection]:
    """Detections, best first, from all outputs of a network in any order, relative to its input.

    Boxes with a number that is not finite, of negative size, with a score above 1, or with a class
    that the network lacks are left out.

    Raises:
        ValueError: The outputs do not suit the detector, or are quantized.
    """
    rows, prototypes = _arrays(outputs, detector)
    extent = np.array(detector.size[::-1])
    with np.errstate(over="ignore", invalid="ignore"):
        every = _parts(rows, detector)
        _check(every, detector)
        chosen = every.take(np.flatnonzero(_are_good(every, detector)))
        boxes = chosen.places * np.tile(_unit(every.places, detector), 2)
        angles = chosen.extra[:, -1:] if detector.task == "obb" else np.zeros((len(boxes), 1))
        boxes = np.column_stack([boxes, angles])
        outlines = _corners(boxes) if detector.has_centers else boxes[:, :4].reshape(-1, 2, 2)
        upright = np.column_stack([outlines.min(1), outlines.max(1)])
        kept = _suppressed(boxes, upright, chosen, detector)
        points = _key_points(every, chosen, detector)
    detections = []
    for i in kept:
        left, top, right, bottom = (upright[i] / np.tile(extent, 2)).tolist()
        box = (left, top, right, bottom)
        detection = Detection(
            box,
            float(chosen.scores[i].clip(0, 1)),
            int(chosen.classes[i]),
            as_points(points[i, :, :2]),
            tuple(points[i, :, 2:].clip(0, 1).ravel().tolist()),
            as_points(outlines[i] / extent) if detector.task == "obb" else (),
            None if prototypes is None else _mask(chosen.extra[i], prototypes, box),
        )
        detections.append(detection)
    return detections


def _arrays(outputs: Sequence[Array], detector: YoloDetector) -> tuple[Array, Array | None]:
    """Boxes [boxes, numbers], and prototypes [rows, columns, coefficients]."""
    arrays = [np.asarray(array) for array in outputs]
    lists = [_as_rows(array, detector) for array in arrays if array.ndim in (2, 3)]
    axis = 1 if detector.channels_first else 3
    masks = [np.moveaxis(array, axis, 3) for array in arrays if array.ndim == 4]
    grid = [*_mask_grid(detector.size), detector.coefficients]
    has_masks = detector.task == "segment"
    found = ([array.shape[1] for array in lists], [list(array.shape) for array in masks])
    expected = ([detector.numbers], [[1, *grid]] if has_masks else [])
    if found != expected or len(lists) + len(masks) != len(arrays):
        prototypes = f", and prototypes of {grid}" if has_masks else ""
        raise ValueError(
            f"expected the outputs of {_described(detector)}, with {detector.numbers} numbers in a "
            f"{'column' if detector.columns else 'row'} for each box of one picture{prototypes}, "
            f"found {[list(array.shape) for array in arrays]}"
        )
    if {array.dtype.kind for array in arrays} != {"f"}:
        raise ValueError(
            f"expected real numbers, found {[array.dtype.name for array in arrays]}; see dequantize"
        )
    return lists[0], masks[0][0] if has_masks else None


def _as_rows(array: Array, detector: YoloDetector) -> Array:
    """An output as [boxes, numbers]; [0, 0] if it is not a batch of one picture's."""
    if array.ndim == 2 and detector.kind == "yolox":
        return array
    if array.ndim == 2 or len(array) != 1:
        return np.empty((0, 0))
    return np.asarray(array[0].T if detector.columns else array[0])


def _parts(rows: Array, detector: YoloDetector) -> _Boxes:
    if detector.kind == "yolox":
        return _Boxes(rows[:, 3:7], rows[:, 2], rows[:, 1], rows[:, 7:])
    if detector.is_suppressed:
        return _Boxes(rows[:, :4], rows[:, 4], rows[:, 5], rows[:, 6:])
    has_objectness = detector.kind.startswith("yolov5")
    first = 5 if has_objectness else 4
    shares = rows[:, first : first + detector.classes]
    classes = shares.argmax(1)
    scores = np.take_along_axis(shares, classes[:, np.newaxis], 1)[:, 0]
    if has_objectness:
        scores = scores * rows[:, 4]
    return _Boxes(rows[:, :4], scores, classes, rows[:, first + detector.classes :])


def _check(boxes: _Boxes, detector: YoloDetector) -> None:
    """Raise ValueError if most scores or classes cannot be any."""
    finite = np.isfinite(boxes.scores)
    numbers = np.isfinite(boxes.classes)
    shares = finite & (boxes.scores >= -ROUNDING) & (boxes.scores <= 1 + ROUNDING)
    integers = numbers & (boxes.classes == np.round(boxes.classes)) & (boxes.classes >= 0)
    if 2 * shares.sum() < finite.sum() or 2 * integers.sum() < numbers.sum():
        raise ValueError(
            "expected scores of 0 to 1 and whole numbers of classes in the outputs of "
            f"{_described(detector)}, found others in most boxes; name another kind"
        )


def _are_good(boxes: _Boxes, detector: YoloDetector) -> Array:
    scores = boxes.scores
    classes = boxes.classes
    places = boxes.places
    sides = places[:, 2:] if detector.has_centers else places[:, 2:] - places[:, :2]
    good: Array = (scores > detector.threshold) & (scores <= 1 + ROUNDING) & (sides >= 0).all(1)
    good &= np.isfinite(places).all(1) & np.isfinite(boxes.extra).all(1)
    good &= (classes >= 0) & (classes < (detector.classes or MAX_CLASSES))
    good &= classes == np.round(classes)
    return good


def _unit(positions: Array, detector: YoloDetector) -> tuple[int, int]:
    """Pixels (x, y) of the input per unit of positions [boxes, n]; see `YoloDetector.shares`."""
    are_shares = False if detector.kind == "yolox" else detector.shares
    if are_shares is None:
        # Boxes of zeros fill up the output of some networks.
        known = np.abs(positions[np.isfinite(positions) & (positions != 0)])
        are_shares = not known.size or bool(np.median(known) <= LARGEST_SHARE)
    return detector.size[::-1] if are_shares else (1, 1)


def _corners(boxes: Array) -> Array:
    """Corners [n, 4, 2] of boxes as in `oriented_overlaps`, clockwise from the top left one."""
    x, y, width, height, angle = boxes.T[..., np.newaxis]
    along = width / 2 * [-1, 1, 1, -1]
    across = height / 2 * [-1, -1, 1, 1]
    cos = np.cos(angle)
    sin = np.sin(angle)
    return np.stack([x + along * cos - across * sin, y + along * sin + across * cos], 2)


def _suppressed(boxes: Array, upright: Array, chosen: _Boxes, detector: YoloDetector) -> list[int]:
    """Indices of the detections, best first."""
    if detector.is_suppressed:
        return [int(i) for i in np.argsort(-chosen.scores, kind="stable")[: detector.most]]
    if detector.task == "obb":
        return _best_oriented(boxes, chosen.scores, chosen.classes, detector)
    groups = box_groups(upright, chosen.scores, chosen.classes, detector.overlap, CANDIDATES)
    return [int(group[0]) for group in islice(groups, detector.most)]


def _best_oriented(
    boxes: Array, scores: Array, classes: Array, detector: YoloDetector
) -> list[int]:
    """Indices of boxes that no better box of their class overlaps, be that one left out or not.

    This is Fast NMS (Bolya et al. 2019, section 3.4), which Ultralytics uses for oriented boxes.
    """
    order = np.argsort(-scores, kind="stable")[:ORIENTED_CANDIDATES]
    kept: list[int] = []
    for start in range(0, len(order), BLOCK):
        block = order[start : start + BLOCK]
        better = order[: start + BLOCK]
        same = oriented_overlaps(boxes[block], boxes[better]) >= detector.overlap
        same &= classes[block][:, np.newaxis] == classes[better]
        same &= np.arange(len(better)) < np.arange(start, start + len(block))[:, np.newaxis]
        kept += block[~same.any(1)].tolist()
        if len(kept) >= detector.most:
            break
    return kept[: detector.most]


def oriented_overlaps(boxes: Array, others: Array) -> Array:
    """Probabilistic intersection over union of oriented boxes, 0 to 1.

    Each box is the normal distribution with its center and its second moments, and the overlap of
    two is 1 - their Hellinger distance (Llerena et al. 2021, "Gaussian Bounding Boxes and
    Probabilistic Intersection-over-Union for Object Detection", equations 2 to 8).

    Args:
        boxes: [n, 5]: x and y of the center, width and height in one unit, and rotation in radians.
        others: [m, 5].

    Returns:
        [n, m]; 0 where a box has no area or is not finite.
    """
    pair = [np.asarray(array, np.float64).reshape(-1, 5) for array in (boxes, others)]
    with np.errstate(all="ignore"):
        (x, y, xx, yy, xy, root), (x2, y2, xx2, yy2, xy2, root2) = map(_moments, pair)
        dx = x[:, np.newaxis] - x2
        dy = y[:, np.newaxis] - y2
        xx, yy, xy = (np.add.outer(a, b) for a, b in ((xx, xx2), (yy, yy2), (xy, xy2)))
        determinant = xx * yy - xy * xy
        distance = (yy * dx * dx - 2 * xy * dx * dy + xx * dy * dy) / determinant / 4
        distance += np.log(determinant / (4 * np.multiply.outer(root, root2))) / 2
        overlaps: Array = 1 - np.sqrt(1 - np.exp(-np.maximum(distance, 0)))
    return np.nan_to_num(overlaps)


def _moments(boxes: Array) -> tuple[Array, ...]:
    """Centers, variances along x and y, covariances, and the roots of their determinants."""
    x, y, width, height, angle = boxes.T
    along = width * width / 12
    across = height * height / 12
    cos = np.cos(angle)
    sin = np.sin(angle)
    xx = along * cos * cos + across * sin * sin
    yy = along * sin * sin + across * cos * cos
    return x, y, xx, yy, (along - across) * cos * sin, width * height / 12


def _key_points(every: _Boxes, chosen: _Boxes, detector: YoloDetector) -> Array:
    """Key points [n, points, 2 or 3] of the chosen boxes, as shares of the input."""
    if detector.task != "pose":
        return np.empty((len(chosen.extra), 0, 2))
    positions = every.extra.reshape(-1, *detector.points)[..., :2]
    unit = _unit(positions.reshape(len(positions), 2 * detector.points[0]), detector)
    points = chosen.extra.reshape(-1, *detector.points)
    points[..., :2] *= np.divide(unit, detector.size[::-1])
    return points


def _mask(coefficients: Array, prototypes: Array, box: Box) -> Array:
    """The mask of a box in shares of the input: sigmoid(prototypes @ coefficients) inside the box.

    It interpolates between the prototypes' pixels, and its own pixels are about as large.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        logits = prototypes.astype(np.float32) @ coefficients.astype(np.float32)
    logits = np.nan_to_num(logits, nan=-100).clip(-100, 100)
    for axis, (low, high) in enumerate(((box[1], box[3]), (box[0], box[2]))):
        length = logits.shape[axis]
        count = int(np.round((high - low) * length).clip(1, length))
        at = (low + (np.arange(count) + 0.5) / count * (high - low)) * length - 0.5
        at = at.clip(0, length - 1)
        first = np.floor(at).astype(int)
        share = (at - first).reshape((-1, 1) if axis == 0 else (1, -1))
        second = (first + 1).clip(0, length - 1)
        logits = logits.take(first, axis) * (1 - share) + logits.take(second, axis) * share
    return sigmoid(logits).astype(np.float32)
