"""Poses of people: key points from heat maps and offsets (PoseNet), and from MoveNet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.vision.detection import Point, as_points, shares_in_picture, sigmoid
from gles_delegate import ImageTransform
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array

TREE = (
    (0, 1), (1, 3), (0, 2), (2, 4), (0, 5), (5, 7), (7, 9), (5, 11), (11, 13), (13, 15),
    (0, 6), (6, 8), (8, 10), (6, 12), (12, 14), (14, 16),
)  # fmt: skip
"""PoseNet's displacements: from the first point of each pair to the second one, and back."""

POSENET_INPUT = ImageTransform(fit="letterbox", mean=127.5, std=127.5)
"""Preprocessing for PoseNet on MobileNet: colors of -1 to 1."""

MOVENET_INPUT = ImageTransform(fit="letterbox", mean=0, std=1)
"""Preprocessing for MoveNet: colors of 0 to 255."""


@dataclass(frozen=True)
class Pose:
    """The key points of a person.

    Attributes:
        points: (x, y) of each, as shares of the picture (0 to 1).
        scores: Each point's score, 0 to 1.
        score: The person's score, 0 to 1.

    Examples:
        >>> poses = vision.read_movenet(np.full((1, 1, 17, 3), 0.5, np.float32))
        >>> poses[0].points[0], poses[0].score
        ((0.5, 0.5), 0.5)
    """

    points: tuple[Point, ...]
    scores: tuple[float, ...]
    score: float

    def to_picture(self, transform: ImageTransform, picture: Size, tensor: Size) -> Pose:
        """This pose, relative to the picture; see `Detection.to_picture`."""
        points = shares_in_picture(self.points, transform, picture, tensor)
        return replace(self, points=as_points(points))


def read_movenet(output: Array) -> list[Pose]:
    """Poses from MoveNet's output, best first, relative to its input.

    Args:
        output: [1, 1, 17, 3] of one person (y, x and score of each point), or [1, people, 56] of
            several: 17 points, then a box and the person's score.

    Raises:
        ValueError: The output has another shape.

    Examples:
        >>> output = np.zeros((1, 6, 56), np.float32)
        >>> output[0, 0, 55] = 0.8
        >>> round(vision.read_movenet(output)[0].score, 2)
        0.8
    """
    array = np.asarray(output, np.float64)
    if array.shape == (1, 1, 17, 3):
        people = array[0]
        scores = _shares(array[0, :, :, 2]).mean(1)
    elif array.ndim == 3 and array.shape[::2] == (1, 56):
        people = array[0, :, :51].reshape(-1, 17, 3)
        scores = array[0, :, 55]
    else:
        raise ValueError(
            f"expected MoveNet's [1, 1, 17, 3] or [1, people, 56], found {list(array.shape)}"
        )
    poses = [
        Pose(as_points(person[:, 1::-1]), tuple(_shares(person[:, 2]).tolist()), float(score))
        for person, score in zip(people, _shares(scores), strict=True)
    ]
    return sorted(poses, key=lambda pose: -pose.score)


def posenet_pose(heat: Array, offsets: Array, tensor: Size) -> Pose:
    """The pose of a single person: each point's hottest cell and the offset there.

    This is TensorFlow.js' decode_single_pose.

    Args:
        heat: [1, rows, columns, points] before the sigmoid.
        offsets: [1, rows, columns, 2 * points] in pixels of the input: y first, then x.
        tensor: Height and width of the network's input.

    Returns:
        The pose relative to the input; its score is the mean of the points' scores.

    Raises:
        ValueError: Shapes do not fit.
    """
    maps = _Maps.of(heat, offsets, tensor)
    _, columns, count = maps.scores.shape
    hottest = maps.scores.reshape(-1, count).argmax(0)
    cells = [(*divmod(int(cell), columns), k) for k, cell in enumerate(hottest)]
    points = np.array([maps.position(y, x, k) for y, x, k in cells])
    scores = [float(maps.scores[cell]) for cell in cells]
    return maps.pose(points, scores, float(np.mean(scores)))


def posenet_poses(
    heat: Array,
    offsets: Array,
    forward: Array,
    backward: Array,
    tensor: Size,
    *,
    most: int = 5,
    threshold: float = 0.5,
    radius: float = 20.0,
) -> list[Pose]:
    """Poses of several people (Papandreou et al. 2018, section 3.2).

    The hottest points first, each point farther than `radius` from the same point of all earlier
    people is the root of another person. Displacements lead from it to the person's other points.
    This follows TensorFlow.js' decode_multiple_poses.

    Args:
        heat: [1, rows, columns, 17] before the sigmoid.
        offsets: [1, rows, columns, 34] in pixels of the input: y first, then x.
        forward: [1, rows, columns, 32], displacements along `TREE`: y first, then x.
        backward: Likewise, toward the root of `TREE`.
        tensor: Height and width of the network's input.
        most: Maximum number of people.
        threshold: Minimum score of a root.
        radius: In pixels of the input.

    Returns:
        Poses relative to the input, in the order of their roots' scores. Points that no finite
        displacement leads to are NaN, with the score 0. A pose's score is the sum of its points'
        scores, except those within `radius` of an earlier person, divided by the number of points.

    Raises:
        ValueError: Shapes do not fit.
    """
    maps = _Maps.of(heat, offsets, tensor)
    edges = [np.asarray(array, np.float64) for array in (forward, backward)]
    expected = (1, *maps.scores.shape[:2], 2 * len(TREE))
    if maps.scores.shape[2] != len(TREE) + 1 or any(a.shape != expected for a in edges):
        raise ValueError(
            f"expected 17 heat maps, and displacements {list(expected)}, found "
            f"{maps.scores.shape[2]}, {list(edges[0].shape)} and {list(edges[1].shape)}"
        )
    steps = [(a, b, k, edges[1][0]) for k, (b, a) in reversed(list(enumerate(TREE)))]
    steps += [(a, b, k, edges[0][0]) for k, (a, b) in enumerate(TREE)]
    poses: list[Pose] = []
    taken = np.empty((0, len(TREE) + 1, 2))  # people, points, y and x
    for root in _roots(maps.scores, threshold):
        if len(poses) == most:
            break
        start = maps.position(*root)
        if not np.isfinite(start).all():
            continue
        if (np.hypot(*(taken[:, root[2]] - start).T) <= radius).any():
            continue
        points, scores = maps.reach(root, steps)
        new = (np.linalg.norm(taken - points, axis=2) > radius).all(0)
        poses.append(maps.pose(points, scores.tolist(), float(np.sum(scores * new) / len(scores))))
        taken = np.concatenate([taken, points[np.newaxis]])
    return poses


def _roots(scores: Array, threshold: float) -> list[tuple[int, int, int]]:
    """Row, column and point of each local maximum among eight neighbors, hottest first."""
    rows, columns, _ = scores.shape
    padded = np.pad(scores, ((1, 1), (1, 1), (0, 0)))
    around = [padded[y : y + rows, x : x + columns] for y in range(3) for x in range(3)]
    peaks = np.argwhere((scores >= threshold) & (scores >= np.max(around, 0))).tolist()
    return sorted(((y, x, k) for y, x, k in peaks), key=lambda peak: -float(scores[peak]))


@dataclass(frozen=True, eq=False)
class _Maps:
    """Scores [rows, columns, points], offsets [rows, columns, 2, points], pixels per cell."""

    scores: Array
    offsets: Array
    stride: Array
    tensor: Size

    @classmethod
    def of(cls, heat: Array, offsets: Array, tensor: Size) -> _Maps:
        scores = _shares(sigmoid(heat))
        moves = np.asarray(offsets, np.float64)
        if (
            scores.ndim != 4
            or len(scores) != 1
            or moves.shape != (*scores.shape[:3], 2 * scores.shape[3])
            or min(scores.shape[1:3]) < 2
        ):
            raise ValueError(
                "expected heat maps [1, rows, columns, points] and offsets [1, rows, columns, "
                f"2 * points], found {list(scores.shape)} and {list(moves.shape)}"
            )
        _, rows, columns, count = scores.shape
        # The first and the last cell lie on the centers of the outermost pixels.
        stride = (np.array(tensor) - 1) / (rows - 1, columns - 1)
        return cls(scores[0], moves.reshape(rows, columns, 2, count), stride, tensor)

    def position(self, row: int, column: int, point: int) -> Array:
        """A point's row and column in the input, relative to the center of the first pixel."""
        return np.asarray((row, column) * self.stride + self.offsets[row, column, :, point])

    def cell(self, position: Array) -> tuple[int, int]:
        """Row and column of the cell nearest to a finite position."""
        last = np.array(self.scores.shape[:2]) - 1
        row, column = np.floor(position / self.stride + 0.5).clip(0, last).astype(int).tolist()
        return row, column

    def reach(
        self, root: tuple[int, int, int], steps: Sequence[tuple[int, int, int, Array]]
    ) -> tuple[Array, Array]:
        """Positions and scores of the points that displacements reach from a root; else NaN and 0.

        A step is the points that a displacement leads from and to, its number, and the
        displacements [rows, columns, 2 * edges].
        """
        points = np.full((len(TREE) + 1, 2), np.nan)
        scores = np.full(len(TREE) + 1, -1.0)
        points[root[2]] = self.position(*root)
        scores[root[2]] = self.scores[root]
        for source, target, k, displacements in steps:
            if scores[source] < 0 or scores[target] >= 0:
                continue
            y, x = self.cell(points[source])
            position = points[source] + displacements[y, x, [k, k + len(TREE)]]
            for _ in range(2):  # refine it by the offset at its cell
                if np.isfinite(position).all():
                    position = self.position(*self.cell(position), target)
            if np.isfinite(position).all():
                y, x = self.cell(position)
                points[target] = position
                scores[target] = self.scores[y, x, target]
        return points, np.maximum(scores, 0)

    def pose(self, positions: Array, scores: Sequence[float], score: float) -> Pose:
        points = (positions[:, ::-1] + 0.5) / self.tensor[::-1]
        return Pose(as_points(points), tuple(scores), score)


def _shares(scores: Array) -> Array:
    """Scores clipped to 0 to 1; NaN becomes 0."""
    return np.nan_to_num(scores).clip(0, 1)
