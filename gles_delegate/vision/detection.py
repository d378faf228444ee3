"""Detectors: anchors, boxes and scores from raw outputs, non-maximum suppression.

Positions are (x, y) as shares of a picture, 0 to 1 from its top left corner; boxes are (left, top,
right, bottom). Objects at a picture's edge have positions outside 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, groupby
from typing import TypeAlias

import numpy as np

from gles_delegate.image.transform import Fit, ImageTransform, Size
from gles_delegate.model.graph import Array
from gles_delegate.model.metadata import TensorMetadata

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom."""
Point: TypeAlias = tuple[float, float]

ROUNDING = 0.01
"""How far a score may be outside 0 to 1 and still be one of these."""
OUTSIDE = 0.5
"""Share of the scores of a picture that are outside 0 to 1, from which on they are logits: nearly
all are, of classes that are not there."""
CANDIDATES = 5000
"""Boxes that may be suppressed or kept, as pre_nms_top_k of TensorFlow's Model Garden."""


@dataclass(frozen=True)
class AnchorOptions:
    """The grid of boxes that an SSD predicts offsets from (Liu et al. 2016, section 2.2).

    It follows MediaPipe's SsdAnchorsCalculator.

    Attributes:
        size: Height and width of the network's input, in pixels.
        strides: Pixels between anchors, one a layer. Neighboring layers of the same stride share a
            grid.
        min_scale: Size of anchors of the first layer, as a share of the input. The layers
            in between are interpolated.
        max_scale: The same of the last layer.
        aspect_ratios: Width by height; an anchor for each.
        interpolated_aspect_ratio: That of an anchor whose size is the geometric mean of this
            layer's and the next one's. 0: no such anchor.
        reduced_lowest_layer: The first layer has three anchors: ratio 1 of size 0.1, 2 and 0.5.
        fixed_size: All anchors are as large as the input.

    Raises:
        ValueError: Sizes, strides or ratios are not positive, or there are no strides.
    """

    size: Size
    strides: tuple[int, ...]
    min_scale: float = 0.2
    max_scale: float = 0.95
    aspect_ratios: tuple[float, ...] = (1.0,)
    interpolated_aspect_ratio: float = 1.0
    reduced_lowest_layer: bool = False
    fixed_size: bool = False

    def __post_init__(self) -> None:
        if not self.strides or min((*self.size, *self.strides, *self.aspect_ratios)) <= 0:
            raise ValueError(
                f"expected strides, and a size and aspect ratios above 0, found {self!r}"
            )


@dataclass(frozen=True)
class PyramidAnchorOptions:
    """Anchors on a feature pyramid (Lin et al. 2017, "Focal Loss for Dense Object Detection",
    section 4), as TensorFlow's multiscale_anchor_generator makes them.

    Attributes:
        size: Height and width of the network's input, in pixels.
        levels: The first and the last; the stride of level n is 2^n pixels.
        anchor_scale: Height and width of a level's smallest anchor, in strides.
        aspect_ratios: Width by height.
        scales_per_octave: Sizes of each ratio; from one to the next it grows by the same factor,
            and would double with the next level.

    Raises:
        ValueError: Sizes or ratios are not positive, or there are no levels or scales.
    """

    size: Size
    levels: tuple[int, int] = (3, 7)
    anchor_scale: float = 4.0
    aspect_ratios: tuple[float, ...] = (1.0, 2.0, 0.5)
    scales_per_octave: int = 2

    def __post_init__(self) -> None:
        low, high = self.levels
        sizes = (*self.size, self.anchor_scale, *self.aspect_ratios, self.scales_per_octave)
        if not 0 <= low <= high or min(sizes) <= 0:
            raise ValueError(f"expected rising levels, and sizes and ratios above 0, found {self}")


def ssd_anchors(options: AnchorOptions | PyramidAnchorOptions) -> Array:
    """Anchors in the order of an SSD's outputs: by layer, row, column, and shape.

    Returns:
        Float32 [anchors, 4]: x and y of the center, width and height, as shares of the input.
    """
    if isinstance(options, PyramidAnchorOptions):
        return np.concatenate([_pyramid_level(options, n) for n in _levels(options)])
    last = len(options.strides) - 1
    low, high = options.min_scale, options.max_scale
    scales = (
        [low + (high - low) * i / last for i in range(last + 1)] if last else [(low + high) / 2]
    )
    grids = []
    for stride, group in groupby(range(last + 1), options.strides.__getitem__):
        shapes: list[Point] = []  # scale, aspect ratio
        for layer in group:
            if layer == 0 and options.reduced_lowest_layer:
                shapes += [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
                continue
            shapes += [(scales[layer], ratio) for ratio in options.aspect_ratios]
            if options.interpolated_aspect_ratio > 0:
                following = 1.0 if layer == last else scales[layer + 1]
                mean = math.sqrt(scales[layer] * following)
                shapes.append((mean, options.interpolated_aspect_ratio))
        rows, columns = (math.ceil(length / stride) for length in options.size)
        y, x, shape = np.mgrid[:rows, :columns, : len(shapes)].reshape(3, -1)
        scale, ratio = np.array(shapes)[shape].T
        width, height = scale * np.sqrt(ratio), scale / np.sqrt(ratio)
        if options.fixed_size:
            width, height = np.ones_like(width), np.ones_like(height)
        grids.append(np.column_stack([(x + 0.5) / columns, (y + 0.5) / rows, width, height]))
    return np.concatenate(grids).astype(np.float32)


def _levels(options: PyramidAnchorOptions) -> range:
    return range(options.levels[0], options.levels[1] + 1)


def _pyramid_level(options: PyramidAnchorOptions, level: int) -> Array:
    stride, (height, width) = 2**level, options.size
    # TensorFlow starts at the corner where a stride does not divide the input.
    top, left = (stride / 2 if length % stride == 0 else 0.0 for length in options.size)
    shapes = [
        (2 ** (i / options.scales_per_octave) * options.anchor_scale * stride, ratio)
        for ratio in options.aspect_ratios
        for i in range(options.scales_per_octave)
    ]
    rows, columns = (math.ceil(length / stride) for length in options.size)
    y, x, shape = np.mgrid[:rows, :columns, : len(shapes)].reshape(3, -1)
    scale, ratio = np.array(shapes)[shape].T
    anchors = [x * stride + left, y * stride + top, scale * np.sqrt(ratio), scale / np.sqrt(ratio)]
    return (np.column_stack(anchors) / (width, height, width, height)).astype(np.float32)


@dataclass(frozen=True)
class Detector:
    """The input of a detector, and the meaning of its two outputs.

    Presets of faces, palms and poses come from MediaPipe's graphs: modules/face_detection,
    palm_detection and pose_detection. Options are its TensorsToDetectionsCalculator's.

    Attributes:
        anchors: Its anchors.
        key_points: Number of points with each box.
        mean: Of its input, as in `ImageTransform`.
        std: Of its input.
        threshold: The least score of a detection.
        overlap: The most that two boxes of different objects overlap; see `suppress`.
        scales: By which x, y, width and height are divided; None: width and height of the input.
        exponential: Sizes are logarithms, as in TensorFlow's Object Detection API.
        y_first: Positions are (y, x), sizes are (height, width).
        fit: How a picture fills the input, as in `ImageTransform`.
        logits: Scores are those before a sigmoid; None: as the first of them say, which are if more
            than `OUTSIDE` of them are not of 0 to 1. All later ones of the same `Detector` are
            read likewise, so make one for each network.
        background: The first score is that of the background; classes count from the second.
        weighted: Boxes of the same object are averaged; see `suppress`.
    """

    anchors: AnchorOptions | PyramidAnchorOptions
    key_points: int = 0
    mean: float = 127.5
    std: float = 127.5
    threshold: float = 0.5
    overlap: float = 0.3
    scales: Box | None = None
    exponential: bool = False
    y_first: bool = False
    fit: Fit = "letterbox"
    logits: bool | None = True
    background: bool = False
    weighted: bool = True

    @property
    def transform(self) -> ImageTransform:
        """The whole picture, as its input."""
        return ImageTransform(fit=self.fit, mean=self.mean, std=self.std)

    def shares(self, scores: Array) -> Array:
        """Scores of 0 to 1, of a network's; see `logits`. What is NaN stays so."""
        finite = np.isfinite(scores)
        is_logit = self.logits
        if is_logit is None and finite.any():
            outside = finite & ((scores < -ROUNDING) | (scores > 1 + ROUNDING))
            # Kept as functools.cached_property keeps what it has computed.
            is_logit = self.__dict__.setdefault(
                "_found_logits", outside.sum() > OUTSIDE * finite.sum()
            )
        return sigmoid(scores) if is_logit else np.where(finite, scores.clip(0, 1), np.nan)

    @cached_property
    def _anchors(self) -> Array:
        """See `ssd_anchors`; made once, as each frame needs them."""
        return ssd_anchors(self.anchors)


def _mediapipe(size: int, strides: tuple[int, ...]) -> AnchorOptions:
    return AnchorOptions((size, size), strides, 0.1484375, 0.75, fixed_size=True)


FACE_DETECTOR = Detector(_mediapipe(128, (8, 16, 16, 16)), key_points=6)
"""BlazeFace (Bazarevsky et al. 2019), front camera and short range: 896 boxes. Points: right eye,
left eye, nose, mouth, right ear, left ear, as the person has them."""

FACE_DETECTOR_FULL_RANGE = Detector(
    replace(_mediapipe(192, (4,)), interpolated_aspect_ratio=0.0), key_points=6, threshold=0.6
)
"""BlazeFace, full range, for faces that are farther away: 2304 boxes, as in MediaPipe's
modules/face_detection/face_detection_full_range.pbtxt. Points as in `FACE_DETECTOR`."""

PALM_DETECTOR = Detector(_mediapipe(192, (8, 16, 16, 16)), key_points=7, mean=0, std=255)
"""Palms (Zhang et al. 2020): 2016 boxes. Points: wrist; index, middle, ring and little finger's
first joint; two of the thumb's."""

POSE_DETECTOR = Detector(_mediapipe(224, (8, 16, 32, 32, 32)), key_points=4)
"""BlazePose's detector (Bazarevsky et al. 2020): 2254 boxes, around faces. Points: middle of the
hips and a point on the circle around the whole body; the same for shoulders and upper body."""

POSE_DETECTOR_128 = replace(POSE_DETECTOR, anchors=_mediapipe(128, (8, 16, 16, 16)))
"""Its first version: 896 boxes."""


def ssd_mobilenet(size: Size) -> Detector:
    """TensorFlow's SSD on MobileNet v1 or v2, without TFLite_Detection_PostProcess.

    Anchors and coder follow its ssd_mobilenet_v2_coco.config, and suppression follows
    TFLite_Detection_PostProcess.

    Args:
        size: Height and width of its input; 300 by 300 has 1917 anchors.
    """
    strides, ratios = (16, 32, 64, 128, 256, 512), (1.0, 2.0, 0.5, 3.0, 0.3333)
    return _tensorflow(
        AnchorOptions(size, strides, aspect_ratios=ratios, reduced_lowest_layer=True)
    )


def ssd_mobilenet_fpn(size: Size) -> Detector:
    """The same on a feature pyramid (FPN, FPNLite); 320 by 320 has 12804 anchors."""
    return _tensorflow(PyramidAnchorOptions(size))


def _tensorflow(anchors: AnchorOptions | PyramidAnchorOptions) -> Detector:
    return Detector(
        anchors,
        overlap=0.6,
        scales=(10.0, 10.0, 5.0, 5.0),
        exponential=True,
        y_first=True,
        fit="stretch",
        logits=None,
        background=True,
        weighted=False,
    )


def find_detector(
    input_shape: Sequence[int],
    output_shapes: Sequence[Sequence[int]],
    metadata: Sequence[TensorMetadata] = (),
) -> Detector | None:
    """The preset for a network, by its shapes, so that a program needs no option for it.

    Args:
        input_shape: [1, height, width, 3].
        output_shapes: Of all outputs, in any order.
        metadata: Of the outputs in the same order, as `Interpreter.metadata` has it: whether an
            SSD's scores are logits. Without it, its first scores say so; see `Detector.logits`.

    Returns:
        The preset; None for a network of four outputs, which ends in TFLite_Detection_PostProcess
        and needs none. `read_detections` takes either.

    Raises:
        ValueError: No preset has such outputs.
    """
    if len(output_shapes) == 4:
        return None
    size = (int(input_shape[1]), int(input_shape[2])) if len(input_shape) == 4 else (0, 0)
    sizes = [math.prod(shape) for shape in output_shapes]
    for detector in _presets(size) if len(sizes) == 2 else ():
        count = len(detector._anchors)
        numbers = count * (4 + 2 * detector.key_points)
        boxes = [i for i, n in enumerate(sizes) if n == numbers and sizes[1 - i] % count == 0]
        if boxes:
            is_share = metadata[1 - boxes[0]].is_share if metadata else None
            if detector.logits is None and is_share is not None:
                return replace(detector, logits=not is_share)
            return detector
    raise ValueError(
        "expected the outputs of a detector of faces, palms or poses, of TensorFlow's SSD or of "
        f"TFLite_Detection_PostProcess, found {[list(shape) for shape in output_shapes]} for an "
        f"input {list(input_shape)}; make a Detector for it"
    )


def _presets(size: Size) -> list[Detector]:
    """The presets with inputs of this height and width."""
    presets = (
        FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE, PALM_DETECTOR, POSE_DETECTOR, POSE_DETECTOR_128,
    )  # fmt: skip
    of_any_size = [ssd_mobilenet(size), ssd_mobilenet_fpn(size)] if min(size) > 0 else []
    return [preset for preset in presets if preset.anchors.size == size] + of_any_size


@dataclass(frozen=True)
class Detection:
    """An object that was found.

    Attributes:
        box: Left, top, right and bottom, as shares of the picture (0 to 1).
        score: 0 to 1.
        class_index: Its class: the position of the name in the model's labels.
        key_points: (x, y) of each, as shares of the picture.
    """

    box: Box
    score: float
    class_index: int = 0
    key_points: tuple[Point, ...] = ()

    @property
    def is_finite(self) -> bool:
        """Whether no position of it is NaN or infinite."""
        return all(map(math.isfinite, chain(self.box, *self.key_points)))

    @np.errstate(over="ignore", invalid="ignore")
    def to_picture(self, transform: ImageTransform, picture: Size, tensor: Size) -> Detection:
        """The same in the picture, of a detection in what a network saw of it.

        The box is the smallest that holds the corners of this one.

        Args:
            transform: What made the network's input.
            picture: Height and width.
            tensor: Height and width of the network's input.
        """
        matrix = transform.affine(picture, tensor)
        left, top, right, bottom = self.box
        corners = ((left, top), (right, top), (left, bottom), (right, bottom))
        points = np.array([*corners, *self.key_points]) * tensor[::-1]
        points = (points @ matrix[:, :2].T + matrix[:, 2]) / picture[::-1]
        (left, top), (right, bottom) = points[:4].min(0).tolist(), points[:4].max(0).tolist()
        key_points = tuple((x, y) for x, y in points[4:].tolist())
        return replace(self, box=(left, top, right, bottom), key_points=key_points)


def sigmoid(x: Array, clip: float = 100.0) -> Array:
    """1 / (1 + exp(-x)) of x limited to -clip .. clip, as MediaPipe's score_clipping_thresh."""
    return np.asarray(1 / (1 + np.exp(-np.clip(np.asarray(x, np.float64), -clip, clip))))


def decode_boxes(
    raw: Array,
    anchors: Array,
    scales: Box,
    *,
    y_first: bool = False,
    exponential: bool = False,
) -> tuple[Array, Array]:
    """Boxes and key points from offsets to anchors.

    A center is the offset / scale * the anchor's size + the anchor's center, and so is each key
    point. A size is the output / scale * the anchor's size; `exponential`: exp(output / scale) *
    the anchor's size (Ren et al. 2015, equation 2; MediaPipe's TensorsToDetectionsCalculator).

    Args:
        raw: [anchors, 4 + 2 * key points]: x, y, width and height, then points.
        anchors: [anchors, 4], as of `ssd_anchors`.
        scales: Of x, y, width and height.
        y_first: Pairs are (y, x) and (height, width).
        exponential: Sizes are logarithms.

    Returns:
        Boxes [anchors, 4] (left, top, right, bottom), and key points [anchors, points, 2].

    Raises:
        ValueError: Shapes do not fit.
    """
    raw, anchors = np.asarray(raw, np.float64), np.asarray(anchors, np.float64)
    if raw.ndim != 2 or anchors.shape != (len(raw), 4) or raw.shape[1] < 4 or raw.shape[1] % 2:
        raise ValueError(
            "expected boxes [anchors, 4 + 2 * key points] and anchors [anchors, 4], found "
            f"{raw.shape} and {anchors.shape}"
        )
    pairs = raw.reshape(len(raw), raw.shape[1] // 2, 2)
    if y_first:
        pairs = pairs[..., ::-1]
    center, size = anchors[:, np.newaxis, :2], anchors[:, np.newaxis, 2:]
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # boxes that are not finite are left out later
        points = np.delete(pairs, 1, axis=1) / scales[:2] * size + center
        sizes = pairs[:, 1] / scales[2:]
        half = (np.exp(sizes) if exponential else sizes) * size[:, 0] / 2
        corners = np.column_stack([points[:, 0] - half, points[:, 0] + half])
    return corners, points[:, 1:]


def select_detections(
    boxes: Array, scores: Array, key_points: Array | None = None, *, threshold: float = 0.5
) -> list[Detection]:
    """A `Detection` for each box whose best class has at least the score `threshold`.

    Boxes of negative size, and those in which a number is NaN or infinite, are left out.

    Args:
        boxes: [boxes, 4]: left, top, right and bottom.
        scores: [boxes, classes] of 0 to 1.
        key_points: [boxes, points, 2] or None.
        threshold: The least score.
    """
    boxes, scores = np.asarray(boxes), np.asarray(scores)
    points = np.empty((len(boxes), 0, 2)) if key_points is None else np.asarray(key_points)
    if scores.ndim != 2 or boxes.shape != (len(scores), 4) or len(points) != len(boxes):
        raise ValueError(
            "expected boxes [boxes, 4], scores [boxes, classes] and points [boxes, points, 2], "
            f"found {boxes.shape}, {scores.shape} and {points.shape}"
        )
    if not scores.size:
        return []
    good = np.isfinite(scores).all(1) & np.isfinite(boxes).all(1) & np.isfinite(points).all((1, 2))
    good &= (boxes[:, 2:] >= boxes[:, :2]).all(1) & (scores.max(1) >= threshold)
    detections = []
    for i in np.flatnonzero(good):
        left, top, right, bottom = boxes[i].tolist()
        best = int(scores[i].argmax())
        pairs = tuple((x, y) for x, y in points[i].tolist())
        detections.append(
            Detection((left, top, right, bottom), float(scores[i, best]), best, pairs)
        )
    return detections


def detect(boxes: Array, scores: Array, detector: Detector) -> list[Detection]:
    """The detections of a network, best first: decoded, and one for each object.

    Args:
        boxes: Its output [1, anchors, 4 + 2 * key points].
        scores: Its output [1, anchors, classes].
        detector: The network's preset.

    Returns:
        Detections in what the network saw; `Detection.to_picture` maps them to the picture.

    Raises:
        ValueError: The outputs do not fit such a network.
    """
    anchors = detector._anchors
    expected = [(1, len(anchors), 4 + 2 * detector.key_points), (1, len(anchors))]
    if [np.shape(boxes), np.shape(scores)[:2]] != expected or np.ndim(scores) != 3:
        raise ValueError(
            f"expected boxes {list(expected[0])} and scores [1, {len(anchors)}, classes], found "
            f"{list(np.shape(boxes))} and {list(np.shape(scores))}"
        )
    height, width = detector.anchors.size
    decoded, points = decode_boxes(
        boxes[0],
        anchors,
        detector.scales or (width, height, width, height),
        y_first=detector.y_first,
        exponential=detector.exponential,
    )
    shares = detector.shares(np.asarray(scores[0]))
    shares = shares[:, 1:] if detector.background else shares
    candidates = select_detections(decoded, shares, points, threshold=detector.threshold)
    return suppress(candidates, overlap=detector.overlap, weighted=detector.weighted)


def read_detections(
    outputs: Sequence[Array], detector: Detector | None, *, threshold: float = 0.5
) -> list[Detection]:
    """The detections of a network, best first, from all its outputs in any order.

    Args:
        outputs: Boxes and scores, or the four outputs of TFLite_Detection_PostProcess: boxes
            [1, n, 4] (top, left, bottom, right), classes [1, n], scores [1, n] and their count [1].
            TensorFlow 1 and 2 list these in different orders. Classes are the integers, and scores
            what is between 0 and 1; where both would fit both, TensorFlow's order decides.
        detector: As `find_detector` gives it; None for TFLite_Detection_PostProcess.
        threshold: The least score, without a detector.

    Raises:
        ValueError: The outputs do not fit such a network.
    """
    if detector is None:
        return _postprocessed([np.asarray(a) for a in outputs], threshold)
    count, numbers = len(detector._anchors), 4 + 2 * detector.key_points
    arrays = [np.reshape(a, (1, count, -1)) for a in outputs if np.size(a) % count == 0]
    fitting = [i for i, array in enumerate(arrays) if array.shape[2] == numbers]
    if len(outputs) != 2 or len(arrays) != 2 or len(fitting) != 1:
        raise ValueError(
            f"expected boxes [1, {count}, {numbers}] and scores [1, {count}, classes], found "
            f"{[list(np.shape(a)) for a in outputs]}; if the shapes are the same, call "
            "detect(boxes, scores, detector)"
        )
    return detect(arrays[fitting[0]], arrays[1 - fitting[0]], detector)


def _postprocessed(outputs: list[Array], threshold: float) -> list[Detection]:
    by_rank = ([array for array in outputs if array.ndim == rank] for rank in (3, 1, 2))
    boxes, counts, pairs = by_rank
    shapes = [list(array.shape) for array in outputs]
    expected = (
        "expected boxes [1, n, 4], classes [1, n], scores [1, n] and their count [1] from "
        f"TFLite_Detection_PostProcess, found {shapes}"
    )
    n = boxes[0].shape[1] if boxes else 0
    if [a.shape for a in (*boxes, *counts, *pairs)] != [(1, n, 4), (1,), (1, n), (1, n)]:
        raise ValueError(expected)
    count = int(np.clip(np.nan_to_num(counts[0][0]), 0, n))
    first, second = (array[0, :count].astype(float) for array in pairs)
    # TensorFlow 1 lists boxes, classes, scores; TensorFlow 2 lists scores, boxes, count, classes.
    orders = [(first, second), (second, first)]
    for classes, scores in orders if outputs[0].ndim == 3 else orders[::-1]:
        # Only finite numbers are detections; the others say what is what.
        good = np.isfinite(classes) & np.isfinite(scores)
        numbers, shares = classes[good], scores[good]
        are_shares = (shares >= -ROUNDING) & (shares <= 1 + ROUNDING)
        if np.all(numbers == np.maximum(np.round(numbers), 0)) and np.all(are_shares):
            break
    else:
        raise ValueError(f"{expected}, in which no array has classes and another one scores")
    good &= (scores.clip(0, 1) >= threshold) & np.isfinite(boxes[0][0, :count]).all(1)
    ready = (boxes[0][0, :count], scores.clip(0, 1), classes)
    detections = [
        Detection((left, top, right, bottom), score, int(label))
        for (top, left, bottom, right), score, label in zip(
            *(array[good].tolist() for array in ready), strict=True
        )
    ]
    return sorted(detections, key=lambda d: -d.score)


def box_overlaps(box: Box, boxes: Array) -> Array:
    """Intersection over union of a box with each of boxes [n, 4].

    It is 0 where both have no area, or where an area is not finite.
    """
    lefts, tops, rights, bottoms = np.asarray(boxes, np.float64).reshape(-1, 4).T
    left, top, right, bottom = np.asarray(box, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.minimum(rights, right) - np.maximum(lefts, left)
        height = np.minimum(bottoms, bottom) - np.maximum(tops, top)
        common = np.maximum(width, 0) * np.maximum(height, 0)
        areas, area = (rights - lefts) * (bottoms - tops), (right - left) * (bottom - top)
        union = areas + area - common
    good = np.isfinite(union) & (union > 0)
    return np.where(good, common, 0) / np.where(good, union, 1)


def suppress(
    detections: Sequence[Detection],
    *,
    overlap: float = 0.3,
    weighted: bool = False,
    by_class: bool = False,
    most: int | None = None,
    candidates: int = CANDIDATES,
) -> list[Detection]:
    """Non-maximum suppression: one detection for each group of boxes that overlap.

    Args:
        detections: In any order.
        overlap: Boxes with a larger intersection over union are of the same object.
        weighted: Box and key points are the means of the group, weighted by score, which makes
            videos calmer (Bazarevsky et al. 2019, section 3.3; WEIGHTED in MediaPipe's
            NonMaxSuppressionCalculator). Otherwise the best of the group is taken.
        by_class: Only boxes of the same class are of the same object.
        most: The most detections to return.
        candidates: Boxes that are looked at, those with the highest scores; a bound on the time.

    Returns:
        Best first. Scores and classes come from the best in each group.

    Raises:
        ValueError: A score is NaN.
    """
    if any(math.isnan(d.score) for d in detections):
        raise ValueError("expected scores that are numbers, found NaN")
    ranked = sorted(detections, key=lambda d: -d.score)[:candidates]
    boxes = np.array([d.box for d in ranked], np.float64).reshape(-1, 4)
    classes = np.array([d.class_index for d in ranked])
    left, kept = np.arange(len(ranked)), list[Detection]()
    while left.size and (most is None or len(kept) < most):
        best = ranked[left[0]]
        same = box_overlaps(best.box, boxes[left]) > overlap
        if by_class:
            same &= classes[left] == best.class_index
        same[0] = True
        kept.append(_mean([ranked[i] for i in left[same]]) if weighted else best)
        left = left[~same]
    return kept


def _mean(group: list[Detection]) -> Detection:
    weights = [d.score for d in group]
    if len(group) == 1 or not sum(weights) > 0:
        return group[0]
    positions = [[*d.box, *np.ravel(d.key_points)] for d in group]
    box, points = np.split(np.average(positions, axis=0, weights=weights), [4])
    left, top, right, bottom = box.tolist()
    pairs = tuple((x, y) for x, y in points.reshape(-1, 2).tolist())
    return replace(group[0], box=(left, top, right, bottom), key_points=pairs)
