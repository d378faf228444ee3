"""Landmark networks of MediaPipe: hands, bodies and faces.

Regions, outputs and their order follow MediaPipe's graphs: modules/hand_landmark, pose_landmark
and face_landmark.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.vision.detection import Box, Detection, box_overlaps, sigmoid
from gles_apps.vision.regions import (
    Region,
    landmarks_in_picture,
    region_of_landmarks,
    rotation_between,
)
from gles_delegate import ImageTransform
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class RegionRule:
    """How to make a region from points.

    Attributes:
        start: Index of the start of the line that gives the rotation.
        ends: The line ends at the mean of these points.
        target: The line's angle if the object is upright; see `rotation_between`.
        scale: Factor for the box.
        shift: Shift of the box downward, in box heights, before scaling.
        box: Indices of the landmarks inside the box; empty: all. A detection has its own box.
        upright: The sides of the box of landmarks are the picture's, and the rotation turns it
            about its center; otherwise it is the smallest box with the rotation.
        circle: Instead, use the box of the circle around `start` through the line's end
            (MediaPipe's AlignmentPointsRectsCalculator).
        square: Make the box square.
    """

    start: int
    ends: tuple[int, ...]
    target: float = 0.0
    scale: float = 1.5
    shift: float = 0.0
    box: tuple[int, ...] = ()
    upright: bool = False
    circle: bool = False
    square: bool = True

    @np.errstate(over="ignore", invalid="ignore")
    def of_detection(self, detection: Detection, picture: Size) -> Region:
        """The region of a detection in a picture of this height and width.

        It is not finite if the detection is not, or overflows.
        """
        height, width = picture
        left, top, right, bottom = np.array(detection.box) * (width, height, width, height)
        points = np.array(detection.key_points).reshape(-1, 2) * (width, height)
        box = Region(((left + right) / 2, (top + bottom) / 2), right - left, bottom - top)
        return self._grown(box, points)

    def of_landmarks(self, landmarks: Array) -> Region:
        """The region of landmarks [n, 2 or more] in pixels of the picture: where to look for the
        object in a video's next picture.
        """
        points = np.asarray(landmarks, np.float64)[:, :2]
        boxed = points[list(self.box)] if self.box else points
        rotation = 0.0 if self.upright else self._rotation(points)
        return self._grown(region_of_landmarks(boxed, rotation), points)

    def _rotation(self, points: Array) -> float:
        x, y = points[self.start]
        to_x, to_y = points[list(self.ends)].mean(0)
        return rotation_between((x, y), (to_x, to_y), self.target)

    def _grown(self, box: Region, points: Array) -> Region:
        if self.circle:
            x, y = points[self.start].tolist()
            end = points[list(self.ends)].mean(0)
            side = 2 * math.dist((x, y), end)
            box = Region((x, y), side, side)
        turned = replace(box, rotation=self._rotation(points))
        return turned.grown(self.scale, (0.0, self.shift), square=self.square)


@dataclass(frozen=True, eq=False)
class Landmarks:
    """The result of a landmark network for a region.

    Attributes:
        points: [n, 3]: x, y, and depth on the scale of x; in pixels of the network's input, or of
            the picture after `to_picture`.
        presence: Probability that the object is in the region.
        visibility: Bodies: [n], probability that each point is visible.
        in_view: Bodies: [n], probability that each point is in the picture.
        right_hand: Hands: probability of a right hand, if the picture is not mirrored.
        alignment: Bodies: [2, 3], middle of the hips, and a point on the circle around the body.
        world: Hands and bodies: [n, 3] in meters, rotated like the points.
        mask: Bodies: [height, width] of 0 to 1, in the network's input; see `mask_in_picture`.

    Examples:
        >>> found = vision.Landmarks(np.array([[96.0, 96.0, 0.0]]), presence=0.9)
        >>> transform = gd.ImageTransform(fit="stretch")
        >>> found.to_picture(transform, (480, 640), (192, 192)).points.tolist()
        [[320.0, 240.0, 0.0]]
    """

    points: Array
    presence: float = 1.0
    visibility: Array | None = None
    in_view: Array | None = None
    right_hand: float | None = None
    alignment: Array | None = None
    world: Array | None = None
    mask: Array | None = None

    @property
    def is_finite(self) -> bool:
        """Whether `points`, `alignment` and `world` are finite."""
        arrays = (self.points, self.alignment, self.world)
        return all(np.isfinite(array).all() for array in arrays if array is not None)

    @np.errstate(over="ignore", invalid="ignore")
    def to_picture(self, transform: ImageTransform, picture: Size, tensor: Size) -> Landmarks:
        """These landmarks in pixels of the picture; the mask stays as it is.

        See `landmarks_in_picture`.
        """

        def mapped(points: Array) -> Array:
            return landmarks_in_picture(points, transform, picture, tensor)

        matrix = transform.affine(picture, tensor)[:, :2]
        world = self.world
        if world is not None:
            rotate = matrix / np.hypot(*matrix)
            world = np.column_stack([world[:, :2] @ rotate.T, world[:, 2]])
        alignment = None if self.alignment is None else mapped(self.alignment)
        return replace(self, points=mapped(self.points), alignment=alignment, world=world)


@dataclass(frozen=True)
class LandmarkNetwork:
    """Preprocessing and output decoding of a landmark network.

    Attributes:
        size: Height and width of the input.
        read: Makes `Landmarks`, in pixels of the input, from the outputs in their order.
    """

    size: Size
    read: Callable[[Sequence[Array]], Landmarks]

    def transform(self, region: Region) -> ImageTransform:
        """The transform from a region of the picture to the network's input; colors of 0 to 1.

        Pixels outside the picture repeat its edge, as in MediaPipe's training data.

        Args:
            region: In pixels of the picture.
        """
        matrix = region.transform.affine(self.size, self.size)
        return ImageTransform(matrix=_rows(matrix), mean=0, std=255, border="replicate")


@dataclass(frozen=True)
class TrackedNetwork(LandmarkNetwork):
    """A landmark network that follows a detector or, in a video, its own last result.

    Attributes:
        detected: Makes the region of a detection.
        tracked: Makes the region in the next picture.
        keeps_tracks: A detection in the region of a tracked object is that object, and is ignored;
            otherwise it replaces the region.
        distinct: Selects the results that show different objects: their indices.
    """

    detected: RegionRule
    tracked: RegionRule
    keeps_tracks: bool = False
    distinct: Callable[[Sequence[Landmarks]], list[int]] = lambda results: list(range(len(results)))

    def next_region(self, landmarks: Landmarks) -> Region:
        """Where to look in the next picture, from landmarks in pixels of this one."""
        points = landmarks.points if landmarks.alignment is None else landmarks.alignment
        return self.tracked.of_landmarks(points)

    def size_of(self, landmarks: Landmarks, region: Region) -> float:
        """The size of an object for `Tracker.smoothing`: of its next region if only alignment
        points give it, otherwise of its points.
        """
        if landmarks.alignment is not None:
            return (region.width + region.height) / 2
        return float(np.ptp(landmarks.points[:, :2], axis=0).mean())


def _flat(outputs: Sequence[Array], sizes: Sequence[int], network: str) -> list[Array]:
    """The first outputs in one dimension. MediaPipe reads outputs by position and ignores further
    ones (ConfigureSplitTensorVectorCalculator in its graphs).
    """
    arrays = [np.asarray(output, np.float64).ravel() for output in outputs[: len(sizes)]]
    if [array.size for array in arrays] != list(sizes):
        raise ValueError(
            f"expected the outputs of {network}, with {list(sizes)} numbers in this order, found "
            f"{[array.size for array in arrays]}"
        )
    return arrays


def read_hand(outputs: Sequence[Array]) -> Landmarks:
    """21 points from hand_landmark_full or _lite; see `HandLandmark`.

    MediaPipe assumes a mirrored picture; here, left and right are not swapped.
    """
    points, presence, right, world = _flat(outputs, (63, 1, 1, 63), "a hand network")
    return Landmarks(
        points.reshape(21, 3) / (1, 1, HAND_DEPTH), float(presence[0]), right_hand=float(right[0]),
        world=world.reshape(21, 3),
    )  # fmt: skip


def read_pose(outputs: Sequence[Array]) -> Landmarks:
    """33 points, see `PoseLandmark`, from pose_landmark_lite, _full or _heavy, refined by its heat
    maps.
    """
    side = 256
    cells = 64
    count = 39
    sizes = (5 * count, 1, side**2, cells**2 * count, 3 * count)
    points, presence, mask, heat, world = _flat(outputs, sizes, "a body network")
    rows = points.reshape(count, 5)
    refined = refine_by_heat(rows[:, :3], heat.reshape(cells, cells, count), (side, side))
    return Landmarks(
        refined[:33], float(presence[0]), visibility=sigmoid(rows[:33, 3]),
        in_view=sigmoid(rows[:33, 4]),
        alignment=refined[33:35], world=world.reshape(count, 3)[:33],
        mask=sigmoid(mask).reshape(side, side),
    )  # fmt: skip


def refine_by_heat(points: Array, heat: Array, tensor: Size, *, kernel: int = 7) -> Array:
    """Points moved to the weighted mean position of the heat around them.

    A point stays if it is outside the map, or if no heat around it reaches a score of 0.5
    (MediaPipe's RefineLandmarksFromHeatmapCalculator).

    Args:
        points: [n, 2 or more] in pixels of the network's input.
        heat: [rows, columns, n] before the sigmoid.
        tensor: Height and width of the network's input.
        kernel: Rows and columns around a point.
    """
    scores = sigmoid(heat)
    refined = np.array(points, np.float64)
    cells = np.array(scores.shape[1::-1]) / tensor[::-1]  # in a pixel
    for k, cell in enumerate(np.trunc(refined[:, :2] * cells)):
        if not ((cell >= 0) & (cell < scores.shape[1::-1])).all():  # or not finite
            continue
        x, y = cell.astype(int).tolist()
        top = max(y - kernel // 2, 0)
        left = max(x - kernel // 2, 0)
        window = scores[top : y + kernel // 2 + 1, left : x + kernel // 2 + 1, k]
        if window.max() >= 0.5:
            rows, columns = np.indices(window.shape)
            center = (np.sum(columns * window), np.sum(rows * window)) / window.sum() + (left, top)
            refined[k, :2] = center / cells
    return refined


def read_face(outputs: Sequence[Array]) -> Landmarks:
    """468 points from face_landmark, 478 from face_landmark_with_attention and from the network in
    MediaPipe's face_landmarker.task.

    Lips and eyes of the attention network replace the mesh's. Its irises come last, with their
    eye's mean depth.
    """
    if len(outputs) < 7:
        count = 478 if outputs and np.size(outputs[0]) == 1434 else 468
        points, presence = _flat(outputs, (3 * count, 1), "a face network")
        return Landmarks(points.reshape(count, 3), float(sigmoid(presence)[0]))
    sizes = (1404, 160, 142, 142, 10, 10, 1)
    *arrays, presence = _flat(outputs, sizes, "a face network with attention")
    mesh, lips, *eyes = (array.reshape(468, 3) if array.size == 1404 else array for array in arrays)
    mesh[list(LIPS_POINTS), :2] = lips.reshape(80, 2)
    right, left, *irises = (array.reshape(-1, 2) for array in eyes)
    mesh[list(RIGHT_EYE_POINTS), :2] = right
    mesh[list(LEFT_EYE_POINTS), :2] = left
    with np.errstate(over="ignore", invalid="ignore"):
        depths = [mesh[list(p[:16]), 2].mean() for p in (RIGHT_EYE_POINTS, LEFT_EYE_POINTS)]
    placed = np.column_stack([np.concatenate(irises), np.repeat(depths, 5)])
    return Landmarks(np.concatenate([mesh, placed]), float(sigmoid(presence)[0]))


def mask_in_picture(
    mask: Array, transform: ImageTransform, picture: Size, *, opencv: bool = False
) -> Array:
    """The mask of a region, resampled to the whole picture; 0 outside the region.

    Args:
        mask: [height, width] of 0 to 1, in the network's input.
        transform: The transform that made the input.
        picture: Height and width.
        opencv: Upper left corners of pixels map to each other, not centers, as in OpenCV's
            warpAffine.

    Returns:
        Float32 [height, width].

    Examples:
        >>> transform = gd.ImageTransform(roi=(160, 120, 320, 240))
        >>> mask = vision.mask_in_picture(np.ones((64, 64), np.float32), transform, (480, 640))
        >>> float(mask[240, 320]), float(mask[0, 0])
        (1.0, 0.0)
    """
    height, width = np.shape(mask)
    matrix = np.linalg.inv(np.vstack([transform.affine(picture, (height, width)), (0, 0, 1)]))
    if opencv:
        matrix[:2, 2] += 0.5 - matrix[:2, :2] @ (0.5, 0.5)
    inverse = ImageTransform(matrix=_rows(matrix), channels="gray")
    return inverse.apply(np.asarray(mask, np.float32), picture)[0, :, :, 0]


def _rows(matrix: Array) -> tuple[tuple[float, float, float], tuple[float, float, float]]:
    (a, b, c), (d, e, f) = matrix[:2].tolist()
    return (a, b, c), (d, e, f)


LIPS_POINTS = (
    61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291, 185, 40, 39, 37, 0, 267, 269, 270, 409,
    78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308, 191, 80, 81, 82, 13, 312, 311, 310, 415,
    76, 77, 90, 180, 85, 16, 315, 404, 320, 307, 306, 184, 74, 73, 72, 11, 302, 303, 304, 408,
    62, 96, 89, 179, 86, 15, 316, 403, 319, 325, 292, 183, 42, 41, 38, 12, 268, 271, 272, 407,
)  # fmt: skip
"""The mesh's points that the lips of face_landmark_with_attention replace, in its order."""

RIGHT_EYE_POINTS = (
    33, 7, 163, 144, 145, 153, 154, 155, 133, 246, 161, 160, 159, 158, 157, 173,
    130, 25, 110, 24, 23, 22, 26, 112, 243, 247, 30, 29, 27, 28, 56, 190,
    226, 31, 228, 229, 230, 231, 232, 233, 244, 113, 225, 224, 223, 222, 221, 189,
    35, 124, 46, 53, 52, 65, 143, 111, 117, 118, 119, 120, 121, 128, 245,
    156, 70, 63, 105, 66, 107, 55, 193,
)  # fmt: skip
"""The mesh's points of the person's right eye, in iris_landmark's order; 16 of contour first."""

LEFT_EYE_POINTS = (
    263, 249, 390, 373, 374, 380, 381, 382, 362, 466, 388, 387, 386, 385, 384, 398,
    359, 255, 339, 254, 253, 252, 256, 341, 463, 467, 260, 259, 257, 258, 286, 414,
    446, 261, 448, 449, 450, 451, 452, 453, 464, 342, 445, 444, 443, 442, 441, 413,
    265, 353, 276, 283, 282, 295, 372, 340, 346, 347, 348, 349, 350, 357, 465,
    383, 300, 293, 334, 296, 336, 285, 417,
)  # fmt: skip
"""The mesh's points of the person's left eye, likewise."""

HAND_DEPTH = 0.4
"""Depths of a hand are divided by this (kLandmarksNormalizeZ in MediaPipe's
hand_landmarks_detector_graph.cc)."""

PALM_TARGET = math.degrees(90.0)
"""The angle of an upright palm. MediaPipe's hand_detector_graph.cc passes 90 as radians."""


def distinct_hands(hands: Sequence[Landmarks]) -> list[int]:
    """Indices of different hands, the first of each.

    Hands are the same if their boxes' intersection over union is above 0.2, and ten of their
    points are closer than 0.2 of the longest side of the triangle of wrist, index and little
    finger (MediaPipe's HandLandmarksDeduplicationCalculator).
    """
    kept: list[int] = []
    for i, hand in enumerate(hands):
        points = hand.points[:, :2]
        for j in kept:
            other = hands[j].points[:, :2]
            near = 0.2 * max(_palm_side(points), _palm_side(other))
            close = np.count_nonzero(np.linalg.norm(points - other, axis=1) < near)
            if close >= 10 and box_overlaps(_bounds(points), np.array(_bounds(other)))[0] > 0.2:
                break
        else:
            kept.append(i)
    return kept


def _palm_side(points: Array) -> float:
    wrist, index, little = points[[0, 5, 17]].tolist()
    return max(math.dist(wrist, index), math.dist(index, little), math.dist(little, wrist))


def _bounds(points: Array) -> Box:
    left, top = points.min(0).tolist()
    right, bottom = points.max(0).tolist()
    return left, top, right, bottom


HAND = TrackedNetwork(
    (224, 224),
    read_hand,
    RegionRule(0, (2,), PALM_TARGET, scale=2.6, shift=-0.5),
    RegionRule(
        0, (5, 9, 9, 13), 90, scale=2.0, shift=-0.1, box=(0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18)
    ),
    keeps_tracks=True,
    distinct=distinct_hands,
)
"""hand_landmark_full, after `PALM_DETECTOR`."""

_BODY = RegionRule(0, (1,), 90, scale=1.25, circle=True)
POSE = TrackedNetwork((256, 256), read_pose, _BODY, _BODY)
"""pose_landmark_lite, after `POSE_DETECTOR` or `POSE_DETECTOR_128`."""

FACE = TrackedNetwork(
    (192, 192), read_face, RegionRule(0, (1,)), RegionRule(33, (263,), upright=True)
)
"""face_landmark and face_landmark_with_attention, after `FACE_DETECTOR`."""
