"""Poses from maps made of known ones, and against a decoder that is written out."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gles_apps import vision
from gles_apps.tasks.vision import HandLandmark, PoseLandmark
from gles_apps.vision import poses, skeletons
from gles_apps.vision.detection import sigmoid
from gles_apps.vision.poses import posenet_pose, posenet_poses
from gles_apps.vision.skeletons import (
    COCO_KEY_POINTS,
    FACE_EDGES,
    HAND_EDGES,
    LEFT_IRIS,
    POSE_EDGES,
    RIGHT_IRIS,
)
from gles_delegate import ImageTransform

SIZE, GRID, STRIDE = (97, 129), (7, 9), 16
RNG = np.random.default_rng(0)
POSE_LANDMARKS = [point.name for point in PoseLandmark]
HAND_LANDMARKS = [point.name for point in HandLandmark]
Floats = NDArray[np.floating[Any]]


def maps_of(people: list[Floats]) -> tuple[Floats, Floats, Floats, Floats]:
    """Maps as a perfect network makes them of points [17, 2] (y, x), in pixels."""
    y, x = np.mgrid[: GRID[0], : GRID[1]] * STRIDE
    heat = np.full((1, *GRID, 17), -9.0)
    offsets = np.zeros((1, *GRID, 34))
    forward, backward = np.zeros((2, 1, *GRID, 32))
    # Every cell knows the person that is nearest to it.
    nearest = np.argmin(
        [
            [[min(np.hypot(*(p - (b, a)).T)) for a in range(0, 129, 16)] for b in range(0, 97, 16)]
            for p in people
        ],
        axis=0,
    )
    for n, points in enumerate(people):
        mine = nearest == n
        for k, (py, px) in enumerate(points):
            offsets[0, ..., k][mine], offsets[0, ..., 17 + k][mine] = (py - y)[mine], (px - x)[mine]
            row, column = int(py / STRIDE + 0.5), int(px / STRIDE + 0.5)
            heat[0, row, column, k] = 3 - n - k / 10
        for edge, (a, b) in enumerate(poses.TREE):
            for maps, move in ((forward, points[b] - points[a]), (backward, points[a] - points[b])):
                maps[0, ..., edge][mine], maps[0, ..., 16 + edge][mine] = move
    return heat, offsets, forward, backward


LEFT, RIGHT = (RNG.uniform((4, low), (92, low + 40), (17, 2)) for low in (4, 80))


def pixels_of(pose: vision.Pose) -> Floats:
    """Rows and columns, from the center of the first pixel."""
    return np.multiply(pose.points, SIZE[::-1])[:, ::-1] - 0.5


def test_one_person() -> None:
    heat, offsets, _, _ = maps_of([LEFT])
    pose = posenet_pose(heat, offsets, SIZE)
    np.testing.assert_allclose(pixels_of(pose), LEFT)
    np.testing.assert_allclose(pose.scores, sigmoid(3 - np.arange(17) / 10))
    assert pose.score == pytest.approx(np.mean(pose.scores))


def test_two_people() -> None:
    maps = maps_of([LEFT, RIGHT])
    actual = posenet_poses(*maps, SIZE)
    assert len(actual) == 2
    for pose, person in zip(actual, (LEFT, RIGHT), strict=True):
        np.testing.assert_allclose(pixels_of(pose), person)
        assert pose.score == pytest.approx(np.mean(pose.scores))
    assert posenet_poses(*maps, SIZE, most=1) == actual[:1]
    assert posenet_poses(*maps, SIZE, threshold=0.9) == actual[:1]
    assert posenet_poses(*maps, SIZE, threshold=0.99) == []


def by_hand(
    heat: Floats, offsets: Floats, moves: tuple[Floats, Floats], radius: float, threshold: float
) -> list[tuple[dict[int, tuple[float, float]], float]]:
    """TensorFlow.js' decode_multiple_poses, loop by loop."""
    rows, columns = heat.shape[1:3]
    scores = 1 / (1 + np.exp(-heat[0]))

    def at(y: int, x: int, k: int) -> tuple[float, float]:
        return y * STRIDE + offsets[0, y, x, k], x * STRIDE + offsets[0, y, x, 17 + k]

    def cell(place: tuple[float, float]) -> tuple[int, int]:
        y, x = (int(np.floor(v / STRIDE + 0.5)) for v in place)
        return min(max(y, 0), rows - 1), min(max(x, 0), columns - 1)

    def close(place: tuple[float, float], k: int) -> bool:
        return any(
            (place[0] - p[k][0]) ** 2 + (place[1] - p[k][1]) ** 2 <= radius**2 for p, _ in actual
        )

    queue = []
    for y in range(rows):
        for x in range(columns):
            for k in range(17):
                window = scores[max(y - 1, 0) : y + 2, max(x - 1, 0) : x + 2, k]
                if scores[y, x, k] >= threshold and scores[y, x, k] == window.max():
                    queue.append((-scores[y, x, k], y, x, k))
    actual: list[tuple[dict[int, tuple[float, float]], float]] = []
    for score, y, x, k in sorted(queue):
        if len(actual) == 5 or close(at(y, x, k), k):
            continue
        points, heats = {k: at(y, x, k)}, {k: -score}
        for direction, order in ((1, range(15, -1, -1)), (0, range(16))):
            for edge in order:
                source, target = poses.TREE[edge][::-1] if direction else poses.TREE[edge]
                if source in points and target not in points:
                    row, column = cell(points[source])
                    move = moves[direction][0, row, column]
                    there = points[source][0] + move[edge], points[source][1] + move[16 + edge]
                    for _ in range(2):  # offsetRefineStep
                        there = at(*cell(there), target)
                    row, column = cell(there)
                    points[target], heats[target] = there, scores[row, column, target]
        total = sum(h for j, h in heats.items() if not close(points[j], j)) / 17
        actual.append((points, total))
    return actual


@pytest.mark.parametrize("seed", range(5))
def test_random_maps_decode_as_by_hand(seed: int) -> None:
    rng = np.random.default_rng(seed)
    heat = rng.normal(-1, 2, (1, *GRID, 17))
    offsets = rng.normal(0, 8, (1, *GRID, 34))
    forward, backward = rng.normal(0, 30, (2, 1, *GRID, 32))
    actual = posenet_poses(heat, offsets, forward, backward, SIZE, radius=12)
    expected = by_hand(heat, offsets, (forward, backward), 12, 0.5)
    assert len(actual) == len(expected) == 5
    for pose, (points, score) in zip(actual, expected, strict=True):
        np.testing.assert_allclose(pixels_of(pose), [points[k] for k in range(17)])
        assert pose.score == pytest.approx(score)


def test_maps_that_do_not_fit() -> None:
    heat, offsets, forward, backward = maps_of([LEFT])
    with pytest.raises(ValueError, match="expected heat maps"):
        posenet_pose(heat, offsets[..., 1:], SIZE)
    with pytest.raises(ValueError, match="expected 17 heat maps"):
        posenet_poses(heat, offsets, forward, backward[..., 1:], SIZE)


def test_movenet() -> None:
    one = RNG.uniform(0, 1, (1, 1, 17, 3))
    (pose,) = vision.read_movenet(one)
    assert pose.points[3] == (one[0, 0, 3, 1], one[0, 0, 3, 0])
    assert pose.scores[3] == one[0, 0, 3, 2]
    assert pose.score == pytest.approx(one[..., 2].mean())
    people = np.zeros((1, 6, 56))
    people[0, 4, :51], people[0, 4, 55], people[0, 1, 55] = one.ravel(), 0.7, 0.2
    best, second, *_ = vision.read_movenet(people)
    assert (best.points, best.score, second.score) == (pose.points, 0.7, 0.2)
    for shape in ((1, 17, 3), (2, 6, 56), (1, 6, 55)):
        with pytest.raises(ValueError, match="expected MoveNet's"):
            vision.read_movenet(np.zeros(shape))


def test_numbers_that_are_none_make_no_points() -> None:
    """A heat of NaN is not a score, and a displacement of NaN leads to NaN."""
    heat, offsets, forward, backward = maps_of([LEFT])
    heat[0, 0, 0] = np.nan
    forward[..., 0] = np.nan
    pose = posenet_pose(heat, offsets, SIZE)
    np.testing.assert_allclose(pixels_of(pose), LEFT)
    actual, *_ = posenet_poses(heat, offsets, forward, backward * np.nan, SIZE)
    known = np.isfinite(actual.points).all(1)
    assert 0 < known.sum() < 17
    np.testing.assert_allclose(pixels_of(actual)[known], LEFT[known])
    assert all(
        score == 0 for score, is_known in zip(actual.scores, known, strict=True) if not is_known
    )
    people = np.full((1, 2, 56), np.nan)
    people[0, 1] = 0.5
    assert [person.score for person in vision.read_movenet(people)] == [0.5, 0]


def test_poses_in_the_picture() -> None:
    """400 x 200 in a square: a band of a quarter above and below."""
    pose = vision.Pose(((0.25, 0.25), (0.5, 0.75)), (1, 1), 1)
    mapped = pose.to_picture(ImageTransform(fit="letterbox"), (200, 400), (100, 100))
    np.testing.assert_allclose(mapped.points, ((0.25, 0), (0.5, 1)), atol=1e-9)


@pytest.mark.parametrize(
    ("edges", "names"),
    [
        (vision.COCO_EDGES, COCO_KEY_POINTS),
        (POSE_EDGES, POSE_LANDMARKS),
        (HAND_EDGES, HAND_LANDMARKS),
    ],
)
def test_skeletons_join_every_point_once(edges: skeletons.Edges, names: Sequence[str]) -> None:
    assert {i for edge in edges for i in edge} == set(range(len(names)))
    assert len({frozenset(edge) for edge in edges}) == len(edges)
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("edges", "names"), [(vision.COCO_EDGES, COCO_KEY_POINTS), (POSE_EDGES, POSE_LANDMARKS)]
)
def test_left_and_right_mirror_each_other(edges: skeletons.Edges, names: Sequence[str]) -> None:
    names = [name.lower() for name in names]
    swap = {"left": "right", "right": "left"}
    other = [re.sub("left|right", lambda side: swap[side[0]], name) for name in names]
    mirrored = {frozenset(names.index(other[i]) for i in edge) for edge in edges}
    assert mirrored == {frozenset(edge) for edge in edges}


def test_face_contours() -> None:
    assert len(FACE_EDGES) == 40 + 2 * 16 + 2 * 8 + 36
    assert {i for edge in FACE_EDGES for i in edge} <= set(range(468))
    assert {i for edge in RIGHT_IRIS + LEFT_IRIS for i in edge} == set(range(469, 478)) - {473}
