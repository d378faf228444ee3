"""Regions of faces and hands by a body, beside MediaPipe's rules."""

import math

import numpy as np
import pytest

from gles_apps import vision
from gles_apps.vision.holistic import (
    FACE_LIMITS,
    HAND_LIMITS,
    LEFT_PALM,
    RegionLimits,
    at_wrist,
    palm_region,
    steadied_mask,
)
from gles_apps.vision.regions import Region


def at(found: Region, x: float, y: float) -> tuple[float, float]:
    """A place along a region's sides, in its widths and heights from the center."""
    angle = math.radians(found.rotation)
    along, down = x * found.width, y * found.height
    return (
        found.center[0] + along * math.cos(angle) - down * math.sin(angle),
        found.center[1] + along * math.sin(angle) + down * math.cos(angle),
    )


@pytest.mark.parametrize("rotation", [0.0, 30.0, -175.0])
@pytest.mark.parametrize(
    ("limits", "degrees", "shift", "growth", "inside"),
    [(HAND_LIMITS, 40, 0.2, 0.4, 0.45), (FACE_LIMITS, 15, 0.1, 0.3, 0.4)],
    ids=["hand", "face"],
)
def test_a_region_is_used_again_within_each_limit(
    limits: RegionLimits,
    degrees: float,
    shift: float,
    growth: float,
    inside: float,
    rotation: float,
) -> None:
    found = Region((300.0, 200.0), 80.0, 100.0, rotation)

    def keeps(
        x: float = 0.0, y: float = 0.0, width: float = 1.0, height: float = 1.0, turn: float = 0.0,
        point: tuple[float, float] = (0.0, 0.0),
    ) -> bool:  # fmt: skip
        previous = Region(
            at(found, x, y), 80 * width, 100 * height, (rotation + turn + 180) % 360 - 180
        )
        points = np.array([(*at(found, 0, 0), 5.0), (*at(found, *point), -5.0)])
        return limits.steadied(found, previous, points) is previous

    assert keeps()
    for sign in (-1, 1):
        for more, expected in ((0.98, True), (1.02, False)):
            assert keeps(turn=sign * degrees * more) == expected
            assert keeps(x=sign * shift * more) == expected
            assert keeps(y=sign * shift * more) == expected
            assert keeps(width=1 + sign * growth * more) == expected
            assert keeps(height=1 + sign * growth * more) == expected
            assert keeps(point=(sign * inside * more, 0)) == expected
            assert keeps(point=(0, sign * inside * more)) == expected


def test_palms_have_visible_wrists() -> None:
    points, visibility = np.zeros((33, 3)), np.ones(33)
    points[[15, 17, 19], :2] = (100, 200), (70, 140), (115, 140)
    body = vision.Landmarks(points, visibility=visibility, world=points / 100)
    region = palm_region(body, LEFT_PALM)
    assert region is not None
    assert region.center == pytest.approx((100, 128))  # 0.1 of 120 above (2 * 115 + 70) / 3
    assert (region.width, region.height) == pytest.approx((324, 324))
    assert region.rotation == pytest.approx(0)
    visibility[15] = 0.1
    assert palm_region(body, LEFT_PALM) is None
    hand = vision.Landmarks(np.zeros((21, 3)), world=np.arange(63.0).reshape(21, 3))
    np.testing.assert_allclose(at_wrist(hand, body, LEFT_PALM)[:2], [[1, 2, 0], [4, 5, 3]])


def test_uncertain_masks_lean_on_the_previous_one() -> None:
    """The weight is 0.7 times the square of the entropy in bits, within 0.02."""
    mask = np.linspace(0.01, 0.99, 99, dtype=np.float32).reshape(9, 11)
    entropy = -(mask * np.log2(mask) + (1 - mask) * np.log2(1 - mask))
    share = 0.7 * entropy**2
    for previous in (np.zeros_like(mask), np.ones_like(mask)):
        expected = mask + (previous - mask) * share
        np.testing.assert_allclose(steadied_mask(mask, previous), expected, atol=0.02)
    assert steadied_mask(mask, mask[:3]) is mask
