"""`gles_delegate.vision` on published networks and pictures, on the GPU and on LiteRT's CPU."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from PIL import Image

from gles_delegate import vision
from tests.support.oracle import gles_interpreter, run

pytestmark = pytest.mark.usefixtures("gl")

EYES = {"left man": ((163, 130), (206, 126)), "right man": ((279, 98), (326, 97))}
"""In pixels of face.jpg, as one sees them."""


@pytest.mark.parametrize("name", ["face_detection_front", "face_detection_short_range"])
def test_faces_are_found_where_they_are(
    name: str, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    detector, content = vision.FACE_DETECTOR, real_model(name)
    picture = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    shown, seen = picture.shape[:2], detector.anchors.size
    pixels = [detector.transform.apply(picture, seen)]
    cpu = Interpreter(model_content=content)
    cpu.allocate_tensors()
    expected = vision.detect(*run(cpu, pixels), detector)
    with gles_interpreter(content) as gpu:
        faces = vision.detect(*run(gpu, pixels), detector)
    assert len(faces) == len(expected)
    for face, other in zip(faces, expected, strict=True):
        np.testing.assert_allclose(face.box, other.box, atol=1e-3)
        np.testing.assert_allclose(face.key_points, other.key_points, atol=1e-3)

    best = [face.to_picture(detector.transform, shown, seen) for face in faces[:2]]
    best.sort(key=lambda face: face.box[0])
    for face, eyes in zip(best, EYES.values(), strict=True):
        assert np.abs(np.multiply(face.key_points[:2], shown[::-1]) - eyes).max() < 12
        left, top, right, bottom = face.box
        assert all(left < x < right and top < y < bottom for x, y in face.key_points[:4])
