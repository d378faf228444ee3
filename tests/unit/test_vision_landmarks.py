"""Regions that follow from points, and what outputs of networks of landmarks mean."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gles_apps import vision
from gles_apps.tasks.vision.face_landmarker import _face_depth
from gles_apps.vision import landmarks as module
from gles_apps.vision.detection import sigmoid
from gles_apps.vision.landmarks import read_face, read_hand, read_pose, refine_by_heat
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import LEFT_EYE, LIPS, RIGHT_EYE
from gles_delegate import ImageTransform

Floats = NDArray[np.floating[Any]]
PICTURE = (400, 600)
RNG = np.random.default_rng(0)


def test_the_region_of_a_palm() -> None:
    """A hand that points to the right; MediaPipe's numbers, 90 radians among them."""
    points = ((0.25, 0.5), (0.0, 0.0), (0.5, 0.5), *[(0.0, 0.0)] * 4)
    palm = vision.Detection((0.25, 0.375, 0.5, 0.625), 0.9, key_points=points)
    region = vision.HAND.detected.of_detection(palm, PICTURE)
    turn = 90.0 % (2 * np.pi)
    assert region.rotation == pytest.approx(np.degrees(turn))
    assert (region.width, region.height) == pytest.approx((2.6 * 150, 2.6 * 150))
    # Half of the box' height, of 100 pixels, towards where the fingers should be.
    assert region.center == pytest.approx((225 + 50 * np.sin(turn), 200 - 50 * np.cos(turn)))


def test_the_next_region_of_a_hand() -> None:
    """Its box leaves the fingers out; its line ends in a weighted mean of their knuckles."""
    points = np.zeros((21, 3))
    points[:, :2] = (200, 300)
    points[5, :2], points[9, :2], points[13, :2] = (160, 100), (210, 100), (220, 100)
    points[8] = 999
    region = vision.HAND.next_region(vision.Landmarks(points))
    # (160 + 2 * 210 + 220) / 4 is 200: the hand is upright.
    assert region.rotation == pytest.approx(0)
    assert region.width == region.height == pytest.approx(2 * 200)
    assert region.center == pytest.approx((190, 200 - 0.1 * 200))


def test_the_regions_of_a_body() -> None:
    """Twice the distance to the circle, times 1.25, around the hips."""
    body = vision.Detection((0, 0, 0.1, 0.1), 0.9, key_points=((0.5, 0.5), (0.5, 0.75)))
    region = vision.POSE.detected.of_detection(body, PICTURE)
    assert region.center == (300, 200)
    assert abs(region.rotation) == pytest.approx(180)
    assert region.width == region.height == pytest.approx(2 * 100 * 1.25)
    circle = np.array([[300, 200, 0], [300, 300, 0.0]])
    actual = vision.Landmarks(np.zeros((33, 3)), alignment=circle)
    assert vision.POSE.next_region(actual) == region


def test_points_that_are_not_finite_stay_where_they_are() -> None:
    points = np.array([[np.nan, 3, 0], [np.inf, 3, 0], [1e30, 3, 0], [4, 4, 0]])
    actual = refine_by_heat(points, np.full((8, 8, 4), 9.0), (8, 8))
    np.testing.assert_array_equal(actual[:3], points[:3])
    outputs = [np.full(size, np.inf) for size in (1404, 160, 142, 142, 10, 10, 1)]
    assert not read_face(outputs).is_finite
    transform = ImageTransform()
    assert not read_face(outputs).to_picture(transform, PICTURE, (192, 192)).is_finite


def test_networks_of_landmarks_see_the_colors_of_the_edge_beyond_it() -> None:
    """At the border of a picture they see the edge's pixels repeated."""
    picture = RNG.integers(0, 256, (40, 60, 3), np.uint8)
    larger = np.pad(picture, ((50, 50), (50, 50), (0, 0)), "edge")
    for network in (vision.HAND, vision.POSE, vision.FACE):
        seen, expected = (
            network.transform(Region((x, x + 5), 70, 70, 20)).apply(pixels, (16, 16))
            for pixels, x in ((picture, 10), (larger, 60))
        )
        np.testing.assert_allclose(seen, expected, atol=1e-6)


def test_the_region_of_a_turned_face_holds_it() -> None:
    points = np.zeros((468, 3))
    points[:, :2] = (300, 200)
    points[33, :2], points[263, :2] = (300, 150), (300, 250)  # turned by a quarter
    points[1, :2] = (240, 200)
    region = vision.FACE.next_region(vision.Landmarks(points))
    assert region.rotation == pytest.approx(90)
    assert (region.width, region.height) == pytest.approx((150, 150))
    assert region.center == pytest.approx((270, 200))


def numbers(*sizes: int) -> list[Floats]:
    return [RNG.uniform(0, 100, (1, size)) for size in sizes]


def test_hands() -> None:
    outputs = numbers(63, 1, 1, 63)
    hand = read_hand(outputs)
    np.testing.assert_allclose(hand.points[1], outputs[0][0, 3:6] / (1, 1, 0.4))
    assert (hand.presence, hand.right_hand) == (outputs[1][0, 0], outputs[2][0, 0])
    assert hand.world is not None
    np.testing.assert_array_equal(hand.world[20], outputs[3][0, 60:])
    with pytest.raises(ValueError, match=r"expected the outputs of a hand network"):
        read_hand(outputs[::-1][:3])


def test_bodies() -> None:
    points, presence, mask, heat, world = numbers(195, 1, 256 * 256, 64 * 64 * 39, 117)
    points[0, 35 * 5 - 1] = -2.0
    body = read_pose([points, presence, mask - 50, heat - 200, world])
    rows = points.reshape(39, 5)
    np.testing.assert_array_equal(body.points, rows[:33, :3])
    np.testing.assert_array_equal(body.alignment, rows[33:35, :3])
    assert body.world is not None
    assert body.visibility is not None
    assert body.mask is not None
    np.testing.assert_allclose(body.visibility, sigmoid(rows[:33, 3]))
    np.testing.assert_allclose(body.mask, sigmoid(mask.reshape(256, 256) - 50))
    assert body.world.shape == (33, 3)


def test_points_move_to_where_it_is_hot() -> None:
    """By hand, point by point; in the middle, at edges, outside, and where it is cold."""
    points = RNG.uniform(-10, 110, (60, 3))
    heat = RNG.normal(-3, 2, (16, 20, 60))
    actual = refine_by_heat(points, heat, (100, 120), kernel=5)
    moved = 0
    for k, (x, y, depth) in enumerate(points):
        column, row = int(x * 20 / 120), int(y * 16 / 100)
        expected = np.array([x, y, depth])
        if 0 <= column < 20 and 0 <= row < 16:
            total, at, hottest = 0.0, np.zeros(2), 0.0
            for r in range(max(row - 2, 0), min(row + 3, 16)):
                for c in range(max(column - 2, 0), min(column + 3, 20)):
                    weight = 1 / (1 + np.exp(-heat[r, c, k]))
                    total, at = total + weight, at + weight * np.array([c, r])
                    hottest = max(hottest, weight)
            if hottest >= 0.5:
                expected[:2] = at / total * (120 / 20, 100 / 16)
                moved += 1
        np.testing.assert_allclose(actual[k], expected)
    assert 10 < moved < 50


def test_faces() -> None:
    mesh, presence = numbers(1404, 1)
    face = read_face([mesh, presence * 0])
    np.testing.assert_array_equal(face.points, mesh.reshape(468, 3))
    assert face.presence == 0.5


def test_faces_with_attention() -> None:
    outputs = numbers(1404, 160, 142, 142, 10, 10, 1)
    mesh = outputs[0].reshape(468, 3)
    lips, right, left, right_iris, left_iris = (a.ravel() for a in outputs[1:6])
    face = read_face(outputs).points
    assert face.shape == (478, 3)
    np.testing.assert_array_equal(face[[61, 407], :2], [lips[:2], lips[-2:]])
    np.testing.assert_array_equal(face[[33, 193], :2], [right[:2], right[-2:]])
    np.testing.assert_array_equal(face[[263, 417], :2], [left[:2], left[-2:]])
    np.testing.assert_array_equal(face[468:473, :2], right_iris.reshape(5, 2))
    np.testing.assert_array_equal(face[473:, :2], left_iris.reshape(5, 2))
    np.testing.assert_array_equal(face[:468, 2], mesh[:, 2])
    np.testing.assert_array_equal(face[1], mesh[1])
    contour = sorted({i for edge in LEFT_EYE for i in edge})
    np.testing.assert_allclose(face[473:, 2], mesh[contour, 2].mean())


def test_each_point_of_a_part_is_another_one() -> None:
    parts = (module.LIPS_POINTS, module.RIGHT_EYE_POINTS, module.LEFT_EYE_POINTS)
    assert [len(set(part)) for part in parts] == [len(part) for part in parts] == [80, 71, 71]
    assert not set(parts[1]) & set(parts[2])
    assert {i for edge in LIPS for i in edge} == set(parts[0][:40])
    assert {i for edge in RIGHT_EYE for i in edge} == set(parts[1][:16])


def test_a_mask_lies_where_its_region_is() -> None:
    """The upper half, of a region that is turned by a quarter: in the picture the right half."""
    mask = np.zeros((256, 256))
    mask[:128] = 1
    transform = vision.POSE.transform(Region((300, 200), 200, 100, 90))
    shown = vision.mask_in_picture(mask, transform, PICTURE)
    assert shown.shape == PICTURE
    expected = np.zeros(PICTURE)
    expected[100:300, 300:350] = 1
    assert (np.abs(shown - expected) > 0.01).mean() < 0.01
    assert shown[200, 325] == pytest.approx(1)


def test_metres_turn_with_the_region() -> None:
    transform = vision.POSE.transform(Region((300, 200), 200, 200, 90))
    body = vision.Landmarks(np.zeros((1, 3)), world=np.array([[0.5, 0.0, 0.25]]))
    actual = body.to_picture(transform, PICTURE, vision.POSE.size)
    assert actual.world is not None
    np.testing.assert_allclose(actual.world, np.array([[0.0, 0.5, 0.25]]), atol=1e-12)
    assert replace(body, world=None).to_picture(transform, PICTURE, (256, 256)).world is None


@pytest.mark.parametrize(("rotation", "scale"), [(0, 1), (90, 0.5), (30, (0.75 + 0.0625) ** 0.5)])
def test_depths_of_a_turned_face_in_a_wide_picture(rotation: float, scale: float) -> None:
    region = Region((60, 40), 30, 30, rotation)
    assert _face_depth(region, (200, 100)) == pytest.approx(scale)
