"""`gles_delegate.vision` on published networks and pictures, on the GPU and on LiteRT's CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter
from flatbuffers import flexbuffers
from numpy.typing import NDArray
from PIL import Image

from gles_delegate import ImageTransform, vision
from gles_delegate.model.reader import read_model
from tests.support.oracle import gles_interpreter, litert_interpreter, run

pytestmark = pytest.mark.usefixtures("gl")

EYES = {"left man": ((163, 130), (206, 126)), "right man": ((279, 98), (326, 97))}
"""In pixels of face.jpg, as one sees them."""

SSD = "custom_ssd_mobilenet_v2_fpn_lite_320x320"


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
    expected = vision.read_detections(run(cpu, pixels), detector)
    with gles_interpreter(content) as gpu:
        faces = vision.read_detections(run(gpu, pixels), detector)
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


def picture_of(path: Path, size: int) -> NDArray[np.uint8]:
    pixels = np.asarray(Image.open(path).convert("RGB"))
    return ImageTransform().apply(pixels, (size, size), dtype="uint8").astype(np.uint8)


@pytest.mark.parametrize(("name", "label"), [("pets.jpg", 6), ("dog_segmentation.bmp", 3)])
def test_boxes_of_an_8bit_ssd(
    name: str,
    label: int,
    real_model: Callable[[str], bytes],
    real_picture: Callable[[str], Path],
) -> None:
    """A step of its offsets is 1.7 pixels, by which LiteRT's two kernel sets differ, too."""
    content = real_model(SSD)
    pixels = picture_of(real_picture(name), 320)
    (expected,) = vision.read_detections(run(litert_interpreter(content), [pixels]), None)
    with gles_interpreter(content) as gpu:
        (found,) = vision.read_detections(run(gpu, [pixels]), None)
    assert found.class_index == expected.class_index == label
    np.testing.assert_allclose(found.box, expected.box, rtol=0, atol=2 / 320)


def test_boxes_of_a_float_ssd_within_a_pixel(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    content = real_model("twins/twin_ssd_mobilenet_v2_300")
    detector = vision.ssd_mobilenet((300, 300))
    pixels = np.asarray(Image.open(real_picture("pets.jpg")).convert("RGB"))
    fed = [detector.transform.apply(pixels, (300, 300))]
    anchors, scales = vision.ssd_anchors(detector.anchors), (10, 10, 5, 5)

    def boxes(interpreter: Any) -> NDArray[Any]:
        raw = max(run(interpreter, fed), key=np.ndim).reshape(-1, 4)
        decoded, _ = vision.decode_boxes(raw, anchors, scales, y_first=True, exponential=True)
        return decoded * 300

    with gles_interpreter(content) as gpu:
        np.testing.assert_allclose(boxes(gpu), boxes(litert_interpreter(content)), rtol=0, atol=1)


def test_an_ssd_without_post_processing(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """What we make of the inputs of TFLite_Detection_PostProcess is what LiteRT makes of them."""
    content = real_model(SSD)
    graph = read_model(content)
    node = graph.nodes[-1]
    raw = [graph.tensors[i] for i in node.inputs[:2]]
    detector = vision.find_detector((1, 320, 320, 3), [tensor.shape for tensor in raw])
    assert detector == vision.ssd_mobilenet_fpn((320, 320))
    y, x, height, width = graph.tensors[node.inputs[2]].array().T
    ours = vision.ssd_anchors(detector.anchors)
    np.testing.assert_allclose(ours, np.column_stack([x, y, width, height]), rtol=0, atol=1e-6)

    interpreter = litert_interpreter(content, apart=True)
    outputs = run(interpreter, [picture_of(real_picture("pets.jpg"), 320)])
    assert node.custom_options is not None
    options = flexbuffers.Loads(bytes(node.custom_options))
    detector = replace(detector, overlap=options["nms_iou_threshold"], threshold=0.01)
    found = vision.read_detections([interpreter.get_tensor(i) for i in node.inputs[:2]], detector)
    expected = vision.read_detections(outputs, None, threshold=0.01)
    assert len(expected) > 5
    for one, other in zip(found, expected, strict=False):  # LiteRT gives ten
        assert one.class_index == other.class_index
        assert one.score == pytest.approx(other.score)
        np.testing.assert_allclose(one.box, other.box, rtol=0, atol=1e-5)


def test_a_pose_where_the_man_is(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    pixels = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    shown, seen, transform = pixels.shape[:2], (192, 192), vision.MOVENET_INPUT
    with gles_interpreter(real_model("movenet_single_pose_lightning_ptq")) as gpu:
        (output,) = run(gpu, [transform.apply(pixels, seen, dtype="uint8")])
    (pose,) = vision.read_movenet(output)
    points = np.multiply(pose.to_picture(transform, shown, seen).points, shown[::-1])
    named = dict(zip(vision.COCO_KEY_POINTS, points, strict=True))
    for name, eye in zip(("right eye", "left eye"), EYES["right man"], strict=True):
        assert np.abs(named[name] - eye).max() < 12
    assert named["right shoulder"][0] < named["nose"][0] < named["left shoulder"][0]
