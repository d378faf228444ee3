"""SSDs: anchors, boxes and scores from raw outputs; non-maximum suppression.

Positions are (x, y) as shares of a picture, 0 to 1 from its top left corner; boxes are (left, top,
right, bottom). Objects at a picture's edge have positions outside 0 to 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain, groupby, islice
from typing import TypeAlias

import numpy as np

from gles_delegate import ImageTransform
from gles_delegate.image.transform import Fit, Size
from gles_delegate.model.graph import Array

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom."""
Point: TypeAlias = tuple[float, float]

NOT_WANTED = -1.0
"""A score below all thresholds."""
ROUNDING = 0.01
"""Tolerance for rounding: scores this far outside 0 to 1 still count as probabilities."""


@dataclass(frozen=True)
class AnchorOptions:
    """The grid of boxes that an SSD predicts offsets from (Liu et al. 2016, section 2.2).

    It follows MediaPipe's SsdAnchorsCalculator.

    Attributes:
        size: Height and width of the network's input, in pixels.
        strides: Pixels between the anchors of each layer. Neighboring layers with the same stride
            share a grid.
        min_scale: Size of the first layer's anchors, as a share of the input. Sizes of the layers
            in between are interpolated.
        max_scale: Size of the last layer's anchors.
        aspect_ratios: Width / height of the anchors of a grid point.
        interpolated_aspect_ratio: Ratio of an additional anchor, whose size is the geometric mean
            of this layer's and the next one's. 0: no such anchor.
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

    @property
    def boxes(self) -> Array:
        """See `ssd_anchors`."""
        last = len(self.strides) - 1
        low = self.min_scale
        high = self.max_scale
        scales = (
            [low + (high - low) * i / last for i in range(last + 1)] if last else [(low + high) / 2]
        )
        grids = []
        for stride, group in groupby(range(last + 1), self.strides.__getitem__):
            shapes: list[Point] = []  # scale, aspect ratio
            for layer in group:
                if layer == 0 and self.reduced_lowest_layer:
                    shapes += [(0.1, 1.0), (scales[0], 2.0), (scales[0], 0.5)]
                    continue
                shapes += [(scales[layer], ratio) for ratio in self.aspect_ratios]
                if self.interpolated_aspect_ratio > 0:
                    following = 1.0 if layer == last else scales[layer + 1]
                    mean = math.sqrt(scales[layer] * following)
                    shapes.append((mean, self.interpolated_aspect_ratio))
            x, y, width, height = _grid(self.size, stride, shapes)
            if self.fixed_size:
                width = np.ones_like(width)
                height = np.ones_like(height)
            centers = (x + 0.5) / (x[-1] + 1), (y + 0.5) / (y[-1] + 1)
            grids.append(np.column_stack([*centers, width, height]))
        return np.concatenate(grids).astype(np.float32)


@dataclass(frozen=True)
class PyramidAnchorOptions:
    """Anchors on a feature pyramid (Lin et al. 2017, "Focal Loss for Dense Object Detection",
    section 4), as TensorFlow's multiscale_anchor_generator makes them.

    Attributes:
        size: Height and width of the network's input, in pixels.
        levels: First and last level; the stride of level n is 2^n pixels.
        anchor_scale: Height and width of a level's smallest anchor, in strides.
        aspect_ratios: Width / height.
        scales_per_octave: Sizes of each ratio: each is larger than the last by the same factor, and
            the next level's first is twice this level's.

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

    @property
    def boxes(self) -> Array:
        """See `ssd_anchors`."""
        height, width = self.size
        grids = []
        for level in range(self.levels[0], self.levels[1] + 1):
            stride = 2**level
            # TensorFlow starts at the corner if a stride does not divide the input.
            top, left = (stride / 2 if length % stride == 0 else 0.0 for length in self.size)
            shapes = [
                (2 ** (i / self.scales_per_octave) * self.anchor_scale * stride, ratio)
                for ratio in self.aspect_ratios
                for i in range(self.scales_per_octave)
            ]
            x, y, *sizes = _grid(self.size, stride, shapes)
            anchors = np.column_stack([x * stride + left, y * stride + top, *sizes])
            grids.append(anchors / (width, height, width, height))
        return np.concatenate(grids).astype(np.float32)


@dataclass(frozen=True, eq=False)
class FixedAnchors:
    """Anchors that are listed, for example in a model's metadata.

    Attributes:
        size: Height and width of the network's input, in pixels.
        boxes: See `ssd_anchors`.
    """

    size: Size
    boxes: Array


Anchors: TypeAlias = AnchorOptions | PyramidAnchorOptions | FixedAnchors


def ssd_anchors(options: Anchors) -> Array:
    """Anchors in the order of an SSD's outputs: by layer, row, column, and shape.

    Returns:
        Float32 [anchors, 4]: x and y of the center, width and height, as shares of the input.
    """
    return np.asarray(options.boxes, np.float32)


def _grid(size: Size, stride: int, shapes: list[Point]) -> list[Array]:
    """Column, row, width and height of anchors of these scales and aspect ratios."""
    rows, columns = (math.ceil(length / stride) for length in size)
    y, x, shape = np.mgrid[:rows, :columns, : len(shapes)].reshape(3, -1)
    scale, ratio = np.array(shapes)[shape].T
    return [x, y, scale * np.sqrt(ratio), scale / np.sqrt(ratio)]


@dataclass(frozen=True)
class Detector:
    """Preprocessing and output decoding of a detection network.

    Presets for faces, palms and poses come from MediaPipe's graphs: modules/face_detection,
    palm_detection and pose_detection. Options are its TensorsToDetectionsCalculator's.

    Attributes:
        anchors: Options of `ssd_anchors`.
        key_points: Number of points with each box.
        mean: The input's mean, as in `ImageTransform`.
        std: The input's standard deviation.
        threshold: Minimum score of a detection.
        overlap: Maximum overlap of two boxes of different objects; see `suppress`.
        scales: Divisors of x, y, width and height; None: width and height of the input.
        exponential: Sizes are logarithms, as in TensorFlow's Object Detection API.
        y_first: Positions are (y, x), sizes are (height, width).
        fit: How a picture fills the input, as in `ImageTransform`.
        logits: Scores need a sigmoid.
        background: The first score is the background's; classes count from the second.
        weighted: Boxes of the same object are averaged; see `suppress`.
        classes: The classes to find; None: all.
        location: The position of the boxes among the outputs; None: it is recognized by its shape.

    Examples:
        >>> faces = dataclasses.replace(vision.FACE_DETECTOR, threshold=0.7)
        >>> faces.anchors.size, faces.key_points
        ((128, 128), 6)
    """

    anchors: Anchors
    key_points: int = 0
    mean: float = 127.5
    std: float = 127.5
    threshold: float = 0.5
    overlap: float = 0.3
    scales: Box | None = None
    exponential: bool = False
    y_first: bool = False
    fit: Fit = "letterbox"
    logits: bool = True
    background: bool = False
    weighted: bool = True
    classes: tuple[int, ...] | None = None
    location: int | None = None

    @property
    def transform(self) -> ImageTransform:
        """Preprocessing of the whole picture."""
        return ImageTransform(fit=self.fit, mean=self.mean, std=self.std)

    def shares(self, scores: Array) -> Array:
        """The network's scores as 0 to 1; see `logits`. NaN stays NaN."""
        if self.logits:
            return sigmoid(scores)
        return np.where(np.isfinite(scores), scores.clip(0, 1), np.nan)

    @cached_property
    def _anchors(self) -> Array:
        """See `ssd_anchors`; cached, because each frame needs them."""
        return ssd_anchors(self.anchors)


def _mediapipe(size: int, strides: tuple[int, ...]) -> AnchorOptions:
    return AnchorOptions((size, size), strides, 0.1484375, 0.75, fixed_size=True)


FACE_DETECTOR = Detector(_mediapipe(128, (8, 16, 16, 16)), key_points=6)
"""BlazeFace (Bazarevsky et al. 2019), front camera and short range: 896 boxes. Points: right eye,
left eye, nose, mouth, right ear, left ear; right is the person's right."""

FACE_DETECTOR_FULL_RANGE = Detector(
    replace(_mediapipe(192, (4,)), interpolated_aspect_ratio=0.0), key_points=6, threshold=0.6
)
"""BlazeFace, full range, for more distant faces: 2304 boxes, as in MediaPipe's
modules/face_detection/face_detection_full_range.pbtxt. Points as in `FACE_DETECTOR`."""

PALM_DETECTOR = Detector(_mediapipe(192, (8, 16, 16, 16)), key_points=7, mean=0, std=255)
"""Palms (Zhang et al. 2020): 2016 boxes. Points: wrist; index, middle, ring and little finger's
first joint; two of the thumb."""

POSE_DETECTOR = Detector(_mediapipe(224, (8, 16, 32, 32, 32)), key_points=4)
"""BlazePose's detector (Bazarevsky et al. 2020): 2254 boxes, around faces. Points: middle of the
hips and a point on the circle around the whole body; the same for shoulders and upper body."""

POSE_DETECTOR_128 = replace(POSE_DETECTOR, anchors=_mediapipe(128, (8, 16, 16, 16)))
"""The first version of BlazePose's detector: 896 boxes."""


_tensorflow = partial(
    Detector, overlap=0.6, scales=(10.0, 10.0, 5.0, 5.0), exponential=True, y_first=True,
    fit="stretch", background=True, weighted=False,
)  # fmt: skip


def ssd_mobilenet(size: Size) -> Detector:
    """TensorFlow's SSD on MobileNet v1 or v2, without TFLite_Detection_PostProcess. Scores are
    logits.

    Anchors and coder follow its ssd_mobilenet_v2_coco.config, and suppression follows
    TFLite_Detection_PostProcess.

    Args:
        size: Height and width of the input; 300 by 300 has 1917 anchors.
    """
    strides = (16, 32, 64, 128, 256, 512)
    ratios = (1.0, 2.0, 0.5, 3.0, 0.3333)
    anchors = AnchorOptions(size, strides, aspect_ratios=ratios, reduced_lowest_layer=True)
    return _tensorflow(anchors)


def ssd_mobilenet_fpn(size: Size) -> Detector:
    """TensorFlow's SSD on a feature pyramid (FPN, FPNLite); 320 by 320 has 12804 anchors."""
    return _tensorflow(PyramidAnchorOptions(size))


@dataclass(frozen=True)
class Detection:
    """A detected object.

    Attributes:
        box: Left, top, right and bottom, as shares of the picture (0 to 1).
        score: 0 to 1.
        class_index: Index of its class in the model's labels.
        key_points: (x, y) of each, as shares of the picture.
        key_point_scores: Each point's score, 0 to 1; empty if the network has none.
        corners: An oriented box's corners, as shares of the picture, clockwise from the one that is
            the top left before its rotation; `region_of_detection` has its sides and rotation.
            `box` is the smallest upright box that holds them. Empty: there is no oriented box.
        mask: Float32 [rows, columns] of 0 to 1, which covers `box`; None: there is no mask. Two
            detections with different masks are equal if all else is.

    Examples:
        >>> face = vision.Detection((0.25, 0.25, 0.5, 0.5), score=0.9, key_points=((0.3, 0.35),))
        >>> left, top, right, bottom = face.box
    """

    box: Box
    score: float
    class_index: int = 0
    key_points: tuple[Point, ...] = ()
    key_point_scores: tuple[float, ...] = ()
    corners: tuple[Point, ...] = ()
    mask: Array | None = field(default=None, compare=False, repr=False)

    @property
    def is_finite(self) -> bool:
        """Whether its box, corners and key points are finite."""
        return all(map(math.isfinite, chain(self.box, *self.corners, *self.key_points)))

    @np.errstate(over="ignore", invalid="ignore")
    def to_picture(self, transform: ImageTransform, picture: Size, tensor: Size) -> Detection:
        """This detection, relative to a network's input, relative to the picture instead.

        The new box is the smallest that holds the corners of this one. A mask stays as it is, or is
        resampled if the transform rotates or mirrors.

        Args:
            transform: The transform that made the network's input.
            picture: Height and width.
            tensor: Height and width of the network's input.
        """
        left, top, right, bottom = self.box
        corners = self.corners or ((left, top), (right, top), (right, bottom), (left, bottom))
        points = shares_in_picture((*corners, *self.key_points), transform, picture, tensor)
        left, top = points[:4].min(0).tolist()
        right, bottom = points[:4].max(0).tolist()
        return replace(
            self,
            box=(left, top, right, bottom),
            key_points=as_points(points[4:]),
            corners=as_points(points[:4]) if self.corners else (),
            mask=self._mask_in(points[:4], transform.affine(picture, tensor), picture, tensor),
        )

    def _mask_in(self, outline: Array, affine: Array, picture: Size, tensor: Size) -> Array | None:
        """The mask for the box around an outline that is mapped to the picture."""
        is_upright = not affine[[0, 1], [1, 0]].any() and affine[0, 0] > 0 and affine[1, 1] > 0
        if self.mask is None or is_upright:
            return self.mask
        side = max(self.mask.shape)
        old = _from_box(np.array(self.box), self.mask.shape, tensor)
        new = _from_box(np.concatenate([outline.min(0), outline.max(0)]), (side, side), picture)
        if not np.isfinite(new).all() or not np.linalg.det(old) > 0:
            return self.mask
        to_mask = np.linalg.inv(np.vstack([affine, (0, 0, 1)]) @ old) @ new
        (a, b, c), (d, e, f), _ = to_mask.tolist()
        turned = ImageTransform(matrix=((a, b, c), (d, e, f)), channels="gray", antialias=False)
        return turned.apply(self.mask, (side, side))[0, :, :, 0]


def _from_box(box: Array, mask: Sequence[int], picture: Size) -> Array:
    """The map [3, 3] from positions in a mask that covers a box to pixels of the picture."""
    extent = picture[::-1] * (box[2:] - box[:2]) / np.array(mask[::-1])
    return np.vstack([np.column_stack([np.diag(extent), box[:2] * picture[::-1]]), (0, 0, 1)])


def shares_in_picture(
    points: Sequence[Point], transform: ImageTransform, picture: Size, tensor: Size
) -> Array:
    """Points of a network's input as points of the picture, both as shares; float64 [n, 2].

    See `Detection.to_picture`.
    """
    matrix = transform.affine(picture, tensor)
    pixels = np.array(points) * tensor[::-1] @ matrix[:, :2].T + matrix[:, 2]
    return np.asarray(pixels / picture[::-1])


def as_points(pairs: Array) -> tuple[Point, ...]:
    """An array [n, 2] as tuples."""
    return tuple((x, y) for x, y in pairs.tolist())


def sigmoid(x: Array) -> Array:
    """1 / (1 + exp(-x)), with x clipped to -100 to 100, as MediaPipe's score_clipping_thresh."""
    return np.asarray(1 / (1 + np.exp(-np.clip(np.asarray(x, np.float64), -100, 100))))


def decode_boxes(
    raw: Array, anchors: Array, scales: Box, *, y_first: bool = False, exponential: bool = False
) -> tuple[Array, Array]:
    """Boxes and key points from offsets to anchors.

    A center is the offset / scale * the anchor's size + the anchor's center, and so is each key
    point. A size is the output / scale * the anchor's size; `exponential`: exp(output / scale) *
    the anchor's size (Ren et al. 2015, equation 2; MediaPipe's TensorsToDetectionsCalculator).

    Args:
        raw: [anchors, 4 + 2 * key points]: x, y, width and height, then points.
        anchors: [anchors, 4]; see `ssd_anchors`.
        scales: Divisors of x, y, width and height.
        y_first: Pairs are (y, x) and (height, width).
        exponential: Sizes are logarithms.

    Returns:
        Boxes [anchors, 4] (left, top, right, bottom), and key points [anchors, points, 2].

    Raises:
        ValueError: Shapes do not fit.
    """
    raw = np.asarray(raw, np.float64)
    anchors = np.asarray(anchors, np.float64)
    if raw.ndim != 2 or anchors.shape != (len(raw), 4) or raw.shape[1] < 4 or raw.shape[1] % 2:
        raise ValueError(
            "expected boxes [anchors, 4 + 2 * key points] and anchors [anchors, 4], found "
            f"{raw.shape} and {anchors.shape}"
        )
    pairs = raw.reshape(len(raw), raw.shape[1] // 2, 2)
    if y_first:
        pairs = pairs[..., ::-1]
    center = anchors[:, np.newaxis, :2]
    size = anchors[:, np.newaxis, 2:]
    with np.errstate(over="ignore", invalid="ignore"):  # infinite boxes are dropped later
        points = np.delete(pairs, 1, axis=1) / scales[:2] * size + center
        sizes = pairs[:, 1] / scales[2:]
        half = (np.exp(sizes) if exponential else sizes) * size[:, 0] / 2
        corners = np.column_stack([points[:, 0] - half, points[:, 0] + half])
    return corners, points[:, 1:]


def select_detections(
    boxes: Array, scores: Array, key_points: Array, *, threshold: float = 0.5
) -> list[Detection]:
    """A `Detection` for each box whose best class has at least the score `threshold`.

    Boxes of negative size, and those with a NaN or infinite number, are left out.

    Args:
        boxes: [boxes, 4]: left, top, right and bottom.
        scores: [boxes, classes], 0 to 1.
        key_points: [boxes, points, 2].
        threshold: Minimum score.
    """
    if not scores.size:
        return []
    good = np.isfinite(scores).all(1) & np.isfinite(boxes).all(1)
    good &= np.isfinite(key_points).all((1, 2))
    good &= (boxes[:, 2:] >= boxes[:, :2]).all(1) & (scores.max(1) >= threshold)
    detections = []
    for i in np.flatnonzero(good):
        left, top, right, bottom = boxes[i].tolist()
        best = int(scores[i].argmax())
        box = (left, top, right, bottom)
        score = float(scores[i, best])
        detections.append(Detection(box, score, best, as_points(key_points[i])))
    return detections


def detect(boxes: Array, scores: Array, detector: Detector) -> list[Detection]:
    """Decoded boxes after non-maximum suppression, best first.

    Args:
        boxes: The network's output [1, anchors, 4 + 2 * key points].
        scores: The network's output [1, anchors, classes].
        detector: The network's preset.

    Returns:
        Detections relative to the network's input; `Detection.to_picture` maps them to the picture.

    Raises:
        ValueError: The outputs do not suit the detector.

    Examples:
        >>> boxes = np.zeros((1, 896, 16), np.float32)
        >>> scores = np.full((1, 896, 1), -100, np.float32)
        >>> vision.detect(boxes, scores, vision.FACE_DETECTOR)
        []
    """
    anchors = detector._anchors
    expected = [(1, len(anchors), 4 + 2 * detector.key_points), (1, len(anchors))]
    if [np.shape(boxes), np.shape(scores)[:2]] != expected or np.ndim(scores) != 3:
        raise ValueError(
            f"expected boxes {list(expected[0])} and scores [1, {len(anchors)}, classes], found "
            f"{list(np.shape(boxes))} and {list(np.shape(scores))}"
        )
    height, width = detector.anchors.size
    scales = detector.scales or (width, height, width, height)
    decoded, points = decode_boxes(
        boxes[0], anchors, scales, y_first=detector.y_first, exponential=detector.exponential
    )
    shares = detector.shares(np.asarray(scores[0]))
    shares = shares[:, 1:] if detector.background else shares
    if detector.classes is not None:
        wanted = np.isin(np.arange(shares.shape[1]), detector.classes)
        shares = np.where(wanted, shares, NOT_WANTED)
    candidates = select_detections(decoded, shares, points, threshold=detector.threshold)
    return suppress(candidates, overlap=detector.overlap, weighted=detector.weighted)


def box_overlaps(box: Box | Array, boxes: Array) -> Array:
    """Intersection over union of a box and each of boxes [n, 4].

    0 where both have no area, or where an area is not finite.
    """
    lefts, tops, rights, bottoms = np.asarray(boxes, np.float64).reshape(-1, 4).T
    left, top, right, bottom = np.asarray(box, np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        width = np.minimum(rights, right) - np.maximum(lefts, left)
        height = np.minimum(bottoms, bottom) - np.maximum(tops, top)
        common = np.maximum(width, 0) * np.maximum(height, 0)
        areas = (rights - lefts) * (bottoms - tops)
        area = (right - left) * (bottom - top)
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
    candidates: int = 5000,
) -> list[Detection]:
    """Non-maximum suppression: one detection for each group of boxes that overlap.

    Args:
        detections: In any order.
        overlap: Boxes with a larger intersection over union show the same object.
        weighted: Average box and key points over each group, weighted by score, which makes
            videos steadier (Bazarevsky et al. 2019, section 3.3; WEIGHTED in MediaPipe's
            NonMaxSuppressionCalculator). Otherwise keep the best box of each group.
        by_class: Only boxes of the same class show the same object.
        most: Maximum number of detections to return.
        candidates: Consider only this many top scores, which bounds the time; see
            pre_nms_top_k in TensorFlow's Model Garden.

    Returns:
        Best first. Scores and classes come from the best in each group.

    Raises:
        ValueError: A score is NaN.

    Examples:
        >>> boxes = (0.1, 0.1, 0.5, 0.5), (0.12, 0.1, 0.5, 0.5), (0.6, 0.6, 0.9, 0.9)
        >>> found = [vision.Detection(box, score) for box, score in zip(boxes, (0.9, 0.8, 0.7))]
        >>> [one.score for one in vision.suppress(found)]
        [0.9, 0.7]
    """
    if any(math.isnan(d.score) for d in detections):
        raise ValueError("expected numeric scores, found NaN")
    boxes = np.array([d.box for d in detections], np.float64).reshape(-1, 4)
    classes = np.array([d.class_index for d in detections]) if by_class else None
    groups = box_groups(boxes, [d.score for d in detections], classes, overlap, candidates)
    return [
        _mean([detections[i] for i in group]) if weighted else detections[group[0]]
        for group in islice(groups, most)
    ]


def box_groups(
    boxes: Array,
    scores: Sequence[float] | Array,
    classes: Array | None,
    overlap: float,
    candidates: int,
) -> Iterator[Array]:
    """Groups of boxes that overlap the best of the group; the groups of best boxes first.

    Args:
        boxes: [n, 4].
        scores: [n], without NaN.
        classes: [n], so that only boxes of the same class form a group, or None.
        overlap: See `suppress`.
        candidates: See `suppress`.

    Yields:
        Indices of a group's boxes, best first.
    """
    left = np.argsort(-np.asarray(scores, np.float64), kind="stable")[:candidates]
    while left.size:
        same = box_overlaps(boxes[left[0]], boxes[left]) > overlap
        if classes is not None:
            same &= classes[left] == classes[left[0]]
        same[0] = True
        yield left[same]
        left = left[~same]


def _mean(group: list[Detection]) -> Detection:
    weights = [d.score for d in group]
    if len(group) == 1 or not sum(weights) > 0:
        return group[0]
    positions = [[*d.box, *np.ravel(d.key_points)] for d in group]
    box, points = np.split(np.average(positions, axis=0, weights=weights), [4])
    left, top, right, bottom = box.tolist()
    key_points = as_points(points.reshape(-1, 2))
    return replace(group[0], box=(left, top, right, bottom), key_points=key_points)
