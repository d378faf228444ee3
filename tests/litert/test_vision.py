"""`gles_apps.vision` on published networks and pictures, on the GPU and on LiteRT's CPU."""

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

from gles_apps import vision
from gles_apps.tasks.vision import PoseLandmark
from gles_apps.vision.detection import (
    POSE_DETECTOR_128,
    decode_boxes,
    ssd_anchors,
    ssd_mobilenet,
    ssd_mobilenet_fpn,
)
from gles_apps.vision.landmarks import LandmarkNetwork
from gles_apps.vision.regions import Region, rotation_between
from gles_apps.vision.skeletons import COCO_KEY_POINTS
from gles_delegate import ImageTransform
from gles_delegate.model.reader import read_model
from tests.support.oracle import gles_interpreter, litert_interpreter, run

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
    """With skipped pixels: of the means, LiteRT's two kernel sets make boxes 18 pixels apart."""
    pixels = np.asarray(Image.open(path).convert("RGB"))
    sampled = ImageTransform(antialias=False)
    return sampled.apply(pixels, (size, size), dtype="uint8").astype(np.uint8)


@pytest.mark.parametrize(("name", "label"), [("pets.jpg", 6), ("dog_segmentation.bmp", 3)])
def test_boxes_of_an_8bit_ssd(
    name: str, label: int, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """A step of its offsets is 1.7 pixels, by which LiteRT's two kernel sets differ, too."""
    content = real_model(SSD)
    pixels = picture_of(real_picture(name), 320)
    (expected,) = vision.read_detections(run(litert_interpreter(content), [pixels]), None)
    with gles_interpreter(content) as gpu:
        (actual,) = vision.read_detections(run(gpu, [pixels]), None)
    assert actual.class_index == expected.class_index == label
    np.testing.assert_allclose(actual.box, expected.box, rtol=0, atol=2 / 320)


def test_boxes_of_a_float_ssd_within_a_pixel(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    content = real_model("twins/twin_ssd_mobilenet_v2_300")
    detector = ssd_mobilenet((300, 300))
    pixels = np.asarray(Image.open(real_picture("pets.jpg")).convert("RGB"))
    fed = [detector.transform.apply(pixels, (300, 300))]
    anchors, scales = ssd_anchors(detector.anchors), (10, 10, 5, 5)

    def boxes(interpreter: Any) -> NDArray[Any]:
        raw = max(run(interpreter, fed), key=np.ndim).reshape(-1, 4)
        decoded, _ = decode_boxes(raw, anchors, scales, y_first=True, exponential=True)
        return decoded * 300

    with gles_interpreter(content) as gpu:
        np.testing.assert_allclose(boxes(gpu), boxes(litert_interpreter(content)), rtol=0, atol=1)


def test_an_ssd_without_post_processing(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """Our detections from the inputs of TFLite_Detection_PostProcess equal LiteRT's."""
    content = real_model(SSD)
    graph = read_model(content)
    node = graph.nodes[-1]
    raw = [graph.tensors[i] for i in node.inputs[:2]]
    detector = vision.find_detector((1, 320, 320, 3), [tensor.shape for tensor in raw])
    assert detector == ssd_mobilenet_fpn((320, 320))
    y, x, height, width = graph.tensors[node.inputs[2]].array().T
    ours = ssd_anchors(detector.anchors)
    np.testing.assert_allclose(ours, np.column_stack([x, y, width, height]), rtol=0, atol=1e-6)

    interpreter = litert_interpreter(content, apart=True)
    outputs = run(interpreter, [picture_of(real_picture("pets.jpg"), 320)])
    assert node.custom_options is not None
    options = flexbuffers.Loads(bytes(node.custom_options))
    detector = replace(detector, overlap=options["nms_iou_threshold"], threshold=0.01, logits=False)
    actual = vision.read_detections([interpreter.get_tensor(i) for i in node.inputs[:2]], detector)
    expected = vision.read_detections(outputs, None, threshold=0.01)
    assert len(expected) > 5
    for one, other in zip(actual, expected, strict=False):  # LiteRT gives ten
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
    named = dict(zip(COCO_KEY_POINTS, points, strict=True))
    for name, eye in zip(("right eye", "left eye"), EYES["right man"], strict=True):
        assert np.abs(named[name] - eye).max() < 12
    assert named["right shoulder"][0] < named["nose"][0] < named["left shoulder"][0]


def found_in(interpreter: Any, network: LandmarkNetwork, fed: NDArray[Any]) -> Any:
    return network.read(run(interpreter, [fed]))


def mean_and_most(points: NDArray[Any], others: NDArray[Any]) -> tuple[float, float]:
    far = np.linalg.norm(points[:, :2] - others[:, :2], axis=1)
    return float(far.mean()), float(far.max())


@pytest.mark.parametrize("degrees", [0, 30, 90, 170])
def test_a_face_mesh_of_turned_heads(
    degrees: int, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """Within 2 pixels of LiteRT's on the same regions, and the same face at every turn."""
    content = real_model("face_landmark")
    upright = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    turn = ImageTransform(rotation=-degrees, fit="letterbox")
    size = (700, 700)
    turned = turn.apply(upright, size, dtype="uint8")[0].astype(np.uint8)
    to_upright = turn.affine(upright.shape[:2], size)
    inverse = np.linalg.inv(np.vstack([to_upright, (0, 0, 1)]))
    face = np.array(EYES["right man"]) @ inverse[:2, :2].T + inverse[:2, 2]
    rotation = rotation_between(*face.tolist())
    assert rotation == pytest.approx(degrees - 1.2, abs=1)
    region = Region(tuple(face.mean(0).tolist()), 180, 180, rotation).grown(1.5, (0, 0.15))

    cpu = Interpreter(model_content=content)
    cpu.allocate_tensors()
    with gles_interpreter(content) as gpu:
        for _ in range(2):  # the second region follows from the first landmarks
            transform = vision.FACE.transform(region)
            fed = transform.apply(turned, vision.FACE.size)
            ours, expected = (
                found_in(each, vision.FACE, fed).to_picture(transform, size, vision.FACE.size)
                for each in (gpu, cpu)
            )
            assert ours.presence > 0.9
            assert mean_and_most(ours.points, expected.points)[1] < 2
            region = vision.FACE.next_region(ours)
    eyes = ours.points[[[33, 133], [362, 263]], :2].mean(1) @ to_upright[:, :2].T + to_upright[:, 2]
    assert np.abs(eyes - EYES["right man"]).max() < 8


def test_irises_are_where_they_are(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    pixels = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    transform = vision.FACE.transform(Region((302, 120), 160, 160))
    fed = transform.apply(pixels, vision.FACE.size)
    with gles_interpreter(real_model("face_landmark_with_attention")) as gpu:
        found = found_in(gpu, vision.FACE, fed)
    assert found.presence > 0.9
    mesh = found.to_picture(transform, pixels.shape[:2], vision.FACE.size).points
    assert np.abs(mesh[[468, 473], :2] - EYES["right man"]).max() < 6


def test_a_body_as_on_the_cpu(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    pixels = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    shown, detector = pixels.shape[:2], POSE_DETECTOR_128
    with gles_interpreter(real_model("pose_detection")) as gpu:
        outputs = run(gpu, [detector.transform.apply(pixels, (128, 128))])
    people = vision.read_detections(outputs, detector)
    body = people[0].to_picture(detector.transform, shown, (128, 128))
    transform = vision.POSE.transform(vision.POSE.detected.of_detection(body, shown))
    fed, content = transform.apply(pixels, vision.POSE.size), real_model("pose_landmark_lite")
    cpu = Interpreter(model_content=content)
    cpu.allocate_tensors()
    expected = found_in(cpu, vision.POSE, fed)
    with gles_interpreter(content) as gpu:
        ours = found_in(gpu, vision.POSE, fed)
    assert ours.presence == pytest.approx(expected.presence, abs=0.01)
    assert ours.presence > 0.5
    assert mean_and_most(ours.points, expected.points)[1] < 2
    np.testing.assert_allclose(ours.mask, expected.mask, atol=0.01)
    points = ours.to_picture(transform, shown, vision.POSE.size).points
    eyes = points[[PoseLandmark.RIGHT_EYE, PoseLandmark.LEFT_EYE], :2]
    pixel = np.hypot(*transform.affine(shown, vision.POSE.size)[:, 0])  # of the network's input
    assert min(np.abs(eyes - man).max() for man in EYES.values()) < 6 * pixel


def test_a_head_is_followed_where_no_detector_finds_it(
    real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    """A video of a picture that turns upside down: the detector runs on its first frame only."""
    upright = np.asarray(Image.open(real_picture("face.jpg")).convert("RGB"))
    detector, size, detected = vision.FACE_DETECTOR, (700, 700), 0
    tracker = vision.Tracker(vision.FACE, most=2)
    with (
        gles_interpreter(real_model("face_detection_short_range")) as finding,
        gles_interpreter(real_model("face_landmark")) as landmarks,
    ):
        for degrees in range(0, 181, 15):
            turn = ImageTransform(rotation=degrees, fit="letterbox")
            frame = turn.apply(upright, size, dtype="uint8")[0].astype(np.uint8)
            if tracker.needs_detector:
                detected += 1
                outputs = run(finding, [detector.transform.apply(frame, detector.anchors.size)])
                faces = [
                    face.to_picture(detector.transform, size, detector.anchors.size)
                    for face in vision.read_detections(outputs, detector)
                ]
                tracker = tracker.with_detections(faces, size)
            actual = []
            for track in tracker.objects:
                transform = vision.FACE.transform(track.region)
                fed = transform.apply(frame, vision.FACE.size)
                seen = found_in(landmarks, vision.FACE, fed)
                actual.append(seen.to_picture(transform, size, vision.FACE.size))
            tracker = tracker.with_landmarks(actual, 1 / 30)
            assert [track.number for track in tracker.objects] == [0, 1]
    assert detected == 1
    back = turn.affine(upright.shape[:2], size)
    eyes = [face.points[[[33, 133], [362, 263]], :2].mean(1) for face in actual]
    eyes = sorted((pair @ back[:, :2].T + back[:, 2] for pair in eyes), key=lambda p: p[0, 0])
    assert np.abs(np.array(eyes) - list(EYES.values())).max() < 10
