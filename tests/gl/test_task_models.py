"""Tasks with networks in the forms of Google's models, whose outputs are chosen here."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gles_delegate.tasks as mp
from gles_delegate.errors import ModelError
from gles_delegate.tasks import vision
from tests.support.bundles import aligned_bundle
from tests.support.fake_networks import fake_network
from tests.support.mediapipe import image

pytestmark = pytest.mark.usefixtures("gl")
BLACK = image(np.zeros((200, 200, 3), np.uint8))


def floats(shape: tuple[int, ...], value: float = 0) -> Any:
    return np.full(shape, value, np.float32)


def face_bundle(presence: float, unused: float) -> bytes:
    """A face in a box of half the picture; its points are on a diagonal, and 25.6 pixels deep."""
    boxes, scores = floats((1, 896, 16)), floats((1, 896, 1), -9)
    center = 8 * 16 * 2 + 8 * 2  # the first layer's row and column of cells of 8 pixels
    boxes[0, center] = (-4, -4, 64, 64, -14, -4, 6, -4, *[0] * 8)
    scores[0, center] = 3
    points = floats((1, 1, 1, 478 * 3), 25.6)
    points[..., 0::3] = points[..., 1::3] = np.linspace(64, 192, 478)
    outputs = (points, floats((1, 1, 1, 1), presence), floats((1, 1), unused))
    return aligned_bundle(
        **{
            "face_detector.tflite": fake_network(128, (boxes, scores)),
            "face_landmarks_detector.tflite": fake_network(256, outputs),
        }
    )


@pytest.mark.parametrize(("presence", "count"), [(5.0, 1), (-5.0, 0)])
def test_face_networks_third_output_is_ignored(presence: float, count: int) -> None:
    """Google's face_landmarks_detector.tflite has points, presence and an output without use. Its
    input has 256 pixels, and depths are on the scale of x.
    """
    base = mp.BaseOptions(model_asset_buffer=face_bundle(presence, -presence))
    with vision.FaceLandmarker(vision.FaceLandmarkerOptions(base)) as landmarker:
        found = landmarker.detect(BLACK).face_landmarks
    assert len(found) == count
    for face in found:
        assert len(face) == 478
        region = 1.5 * 100 / 200  # of the picture
        assert face[0].z == pytest.approx(25.6 / 256 * region, rel=1e-3)
        assert (face[0].x, face[0].y) == pytest.approx([0.5 - region / 4] * 2, abs=1e-3)


def test_face_networks_of_other_points_are_refused() -> None:
    outputs = (floats((1, 1, 1, 1440)), floats((1, 1, 1, 1)), floats((1, 1)))
    files = {
        "face_detector.tflite": fake_network(128, (floats((1, 896, 16)), floats((1, 896, 1)))),
        "face_landmarks_detector.tflite": fake_network(256, outputs),
    }
    base = mp.BaseOptions(model_asset_buffer=aligned_bundle(**files))
    with pytest.raises(ModelError, match="a network of 468 or 478 points of a face"):
        vision.FaceLandmarker(vision.FaceLandmarkerOptions(base))
