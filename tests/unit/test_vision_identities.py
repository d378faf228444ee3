"""Which numbers the objects of a video get."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest

from gles_apps import vision
from gles_apps.vision.identities import Identities

FRAME = 1 / 30


def at(x: float, y: float = 0.5, kind: int = 0, side: float = 0.1) -> vision.Detection:
    half = side / 2
    return vision.Detection((x - half, y - half, x + half, y + half), 0.9, class_index=kind)


def numbered(
    frames: Sequence[Sequence[vision.Detection]], seconds: float = FRAME, **options: float
) -> list[list[int]]:
    state, numbers = Identities(**options), []
    for detections in frames:
        found, state = state.with_detections(detections, seconds)
        numbers.append(found)
    return numbers


def test_objects_keep_their_numbers_in_any_order() -> None:
    frames = [[at(0.2), at(0.6)], [at(0.61), at(0.21)], [at(0.62), at(0.22), at(0.9)]]
    assert numbered(frames) == [[1, 2], [2, 1], [2, 1, 3]]


def test_objects_of_other_classes_are_others() -> None:
    assert numbered([[at(0.2)], [at(0.2, kind=1), at(0.2)]]) == [[1], [2, 1]]


def test_a_fast_object_is_expected_where_it_moves() -> None:
    """It moves by 0.09, so that the overlap is 0.01 of 0.19, but it starts slowly."""
    places = np.cumsum([0.1, 0.02, 0.04, 0.06, 0.08, 0.09, 0.09, 0.09])
    assert all(later - first < 0.1 for first, later in pairwise(places))
    assert numbered([[at(x)] for x in places]) == [[1]] * len(places)
    jumps = [[at(0.1)], [at(0.19)]]
    assert numbered(jumps) == [[1], [2]]


def test_objects_that_cross_keep_their_numbers() -> None:
    lefts = np.linspace(0.1, 0.9, 41)
    frames = [[at(x, 0.5), at(1 - x, 0.53)] for x in lefts]
    assert numbered(frames) == [[1, 2]] * len(frames)


@pytest.mark.parametrize(("hidden", "expected"), [(29, 1), (31, 2)])
def test_a_hidden_object_is_remembered_for_a_second(hidden: int, expected: int) -> None:
    frames = [[at(0.5)], [at(0.5)], *[[]] * hidden, [at(0.5)]]
    assert numbered(frames)[-1] == [expected]


def test_one_detection_gets_one_number() -> None:
    twice = [at(0.5), at(0.505)]
    assert numbered([[at(0.5)], twice]) == [[1], [1, 2]]


def test_the_overlap_is_a_limit() -> None:
    frames = [[at(0.5)], [at(0.55)]]  # 0.05 of 0.15
    assert numbered(frames, overlap=0.32) == [[1], [1]]
    assert numbered(frames, overlap=0.34) == [[1], [2]]


def test_values_that_are_not_finite_are_objects_of_their_own() -> None:
    broken = vision.Detection((np.nan, 0.1, 0.2, 0.3), 0.9)
    assert numbered([[broken, at(0.5)], [broken, at(0.5)]]) == [[1, 2], [3, 2]]
