"""Regions around objects, and points that tremble less."""

import math

import numpy as np
import pytest

from gles_apps.vision import Detection, region_of_detection
from gles_apps.vision.regions import (
    Region,
    landmarks_in_picture,
    region_of_landmarks,
    rotation_between,
)
from gles_apps.vision.smoothing import OneEuro
from gles_apps.vision.tracking import Smoothing

PICTURE = (400, 600)


@pytest.mark.parametrize(
    ("end", "target", "rotation"),
    [
        ((10, 0), 0, 0),
        ((0, 10), 0, 90),
        ((0, -10), 90, 0),
        ((10, 0), 90, 90),
        ((-10, -1e-9), 0, -180),
    ],
)
def test_rotation_is_clockwise(end: tuple[float, float], target: float, rotation: float) -> None:
    assert rotation_between((0, 0), end, target) == pytest.approx(rotation)


def test_the_region_of_a_detection() -> None:
    eyes = ((0.4, 0.5), (0.4, 0.75))  # one below the other: turned by a quarter
    detection = Detection((0.25, 0.25, 0.5, 0.75), 0.9, key_points=eyes)
    upright = Region((225, 200), 150, 200)
    assert region_of_detection(detection, PICTURE) == upright
    turned = region_of_detection(detection, PICTURE, points=(0, 1))
    assert turned.rotation == pytest.approx(90)
    grown = turned.grown(1.5, (0, -0.5))
    assert (grown.width, grown.height) == (300, 300)
    assert grown.center == pytest.approx((325, 200))  # up is to the right
    assert upright.grown(2, square=False) == Region((225, 200), 300, 400)


def test_a_region_shows_its_object_upright() -> None:
    """A picture's corner of a turned region is a corner of what the network sees."""
    region = Region((300, 200), 100, 60, 30)
    matrix = region.transform.affine(PICTURE, (60, 100))
    angle = math.radians(30)
    x, y = (
        -50 * math.cos(angle) + 30 * math.sin(angle),
        -50 * math.sin(angle) - 30 * math.cos(angle),
    )
    np.testing.assert_allclose(matrix @ (0, 0, 1), (300 + x, 200 + y))


def test_landmarks_and_back() -> None:
    """Landmarks of a region lie in the region that is made of them."""
    region = Region((300, 200), 120, 80, 25)
    corners = np.array([[0, 0, 1.0], [60, 0, 2.0], [0, 40, 3.0], [60, 40, 4.0]])
    actual = landmarks_in_picture(corners, region.transform, PICTURE, (40, 60))
    np.testing.assert_allclose(actual[:, 2], 2 * corners[:, 2])
    again = region_of_landmarks(actual, 25)
    assert again.center == pytest.approx((300, 200))
    assert (again.width, again.height) == pytest.approx((120, 80))
    assert region_of_landmarks(actual[:1], 0).width == 0


@pytest.mark.parametrize("landmarks", [np.zeros((0, 2)), [[1.0, math.nan]], [1.0, 2.0], [[1.0]]])
def test_landmarks_that_cannot_be(landmarks: object) -> None:
    with pytest.raises(ValueError, match="expected finite landmarks"):
        region_of_landmarks(np.array(landmarks), 0)


def test_what_stands_still_trembles_less() -> None:
    rng, state, given, actual = np.random.default_rng(0), OneEuro(), [], []
    for _ in range(200):
        given.append(5 + rng.normal(0, 1, (3, 2)))
        state = state.filtered(given[-1], 1 / 30)
        actual.append(state.points)
    assert np.std(actual[20:]) < 0.5 * np.std(given[20:])
    assert np.mean(actual[20:]) == pytest.approx(5, abs=0.3)


def test_what_moves_lags_less_with_beta() -> None:
    lags = []
    for beta in (0.0, 1.0):
        state = OneEuro(beta=beta)
        for i in range(60):
            state = state.filtered(np.array([float(i)]), 1 / 30)
        assert state.points is not None
        lags.append(59 - float(state.points[0]))
    assert lags[1] < lags[0] / 5


def test_one_step_by_hand() -> None:
    state = OneEuro(min_cutoff=2, beta=0.5, speed_cutoff=1).filtered(np.array([1.0]), 1)
    state = state.filtered(np.array([3.0]), 0.1)
    share = 2 * math.pi * 0.1 / (2 * math.pi * 0.1 + 1)
    speed = share * 20
    ratio = 2 * math.pi * (2 + 0.5 * speed) * 0.1
    assert state.points == pytest.approx([1 + 2 * ratio / (ratio + 1)])


@pytest.mark.parametrize("rate", [10, 20, 30])
def test_a_turning_face_keeps_its_shape(rate: int) -> None:
    """At each moment the points are the face's, turned and moved in some way: an affine map
    of it in space.
    """
    rng = np.random.default_rng(0)
    face = rng.standard_normal((468, 3))
    face *= (127, 160, 90) / np.linalg.norm(face, axis=1, keepdims=True)
    known = np.column_stack([face, np.ones(468)])
    state, worst, moved = Smoothing().points, 0.0, 0.0
    for i in range(4 * rate):
        time = i / rate
        yaw, roll = 0.9 * math.sin(5 * time), 0.6 * math.sin(3 * time + 1)
        turn = np.array([[math.cos(yaw), 0, math.sin(yaw)], [0, 1, 0]])
        tilt = np.array([[math.cos(roll), -math.sin(roll)], [math.sin(roll), math.cos(roll)]])
        points = face @ (tilt @ turn).T + (60 * math.sin(4 * time), 0)
        state = state.filtered(points, 1 / rate, size=270)
        assert state.points is not None
        fitted, *_ = np.linalg.lstsq(known, state.points, rcond=None)
        worst = max(worst, float(np.abs(known @ fitted - state.points).max()))
        moved = max(moved, float(np.abs(state.points - points).max()))
    assert worst < 0.01  # pixels of a face of 254
    assert 1 < moved < 25  # it lags, though


def test_depth_makes_no_speed() -> None:
    state, other = OneEuro(beta=9), OneEuro(beta=9)
    for i in range(9):
        state = state.filtered(np.array([[i / 9, 0.0]]), 0.1)
        other = other.filtered(np.array([[i / 9, 0.0, 100.0 * (i % 2)]]), 0.1)
    assert state.points is not None
    assert other.points is not None
    np.testing.assert_array_equal(state.points, other.points[:, :2])


def test_each_coordinate_by_itself_as_mediapipe() -> None:
    """One step by hand, of a fast coordinate and of one that rests."""
    state = OneEuro(min_cutoff=0.05, beta=80, rigid=False).filtered(np.array([[0.0, 1.0]]), 1)
    state = state.filtered(np.array([[8.0, 1.0]]), 0.1, size=4)
    alpha = 1 / (1 + 10 / (2 * math.pi))
    ratio = 2 * math.pi * (0.05 + 80 * alpha * 8 / 4 * 10) * 0.1
    assert state.points == pytest.approx(np.array([[8 * ratio / (ratio + 1), 1.0]]))


def test_speeds_are_those_of_what_was_seen() -> None:
    """A jump, and then no motion: nothing of the way that is left is taken for speed."""
    state = OneEuro(min_cutoff=0.1, beta=0.1, speed_cutoff=1e9)
    for x in (0.0, 1.0, 1.0):
        state = state.filtered(np.array([x]), 0.1)
    np.testing.assert_allclose(state.speed, 0, atol=1e-6)


def test_a_filter_starts_anew_or_refuses() -> None:
    state = OneEuro().filtered(np.zeros((2, 2)), 0)
    again = state.filtered(np.ones((3, 2)), 0)
    np.testing.assert_array_equal(again.points, np.ones((3, 2)))
    with pytest.raises(ValueError, match="a time above 0"):
        state.filtered(np.zeros((2, 2)), 0)
