"""Tasks with networks in the forms of Google's models, whose outputs are chosen here."""

import math
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest
from PIL import Image as Pictures

import gles_apps.tasks as mp
from gles_apps.tasks import vision
from gles_apps.tasks.vision.face_landmarker import BLENDSHAPE_NAMES, BLENDSHAPE_POINTS, GEOMETRY
from gles_apps.vision import find_detector, read_detections
from gles_apps.vision.drawing import Drawing
from gles_apps.vision.poses import TREE
from gles_delegate.errors import ModelError
from gles_delegate.model.metadata import TensorMetadata
from tests.support.bundles import aligned_bundle
from tests.support.command import call, call_json, saved
from tests.support.described_detectors import DescribedDetector
from tests.support.fake_networks import (
    MARKED,
    NETWORKS,
    a_channel,
    face_geometry,
    fake_blendshapes,
    fake_network,
    linear_network,
)
from tests.support.mediapipe import image

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


def test_expressions_and_the_pose_of_a_face() -> None:
    """Of a face that looks like its model: upright, before the camera."""
    points = floats((478, 3))
    points[:, :2] = np.random.default_rng(1).uniform(48, 208, (478, 2))
    model = np.column_stack([points[:, 0] - 128, 128 - points[:, 1], points[:, 2]]) / 20
    files = {
        "face_landmarks_detector.tflite": fake_network(
            256, (points.reshape(1, 1, 1, -1), floats((1, 1, 1, 1), 5), floats((1, 1)))
        ),
        "face_blendshapes.tflite": fake_blendshapes(),
        GEOMETRY: face_geometry(model),
    }
    with ZipFile(BytesIO(face_bundle(5, 0))) as bundle:
        files["face_detector.tflite"] = bundle.read("face_detector.tflite")
    base = mp.BaseOptions(model_asset_buffer=aligned_bundle(**files))
    options = vision.FaceLandmarkerOptions(
        base, output_face_blendshapes=True, output_facial_transformation_matrixes=True
    )
    with vision.FaceLandmarker(options) as landmarker:
        result = landmarker.detect(BLACK)
    (face,), (expressions,), (matrix,) = (
        result.face_landmarks,
        result.face_blendshapes,
        result.facial_transformation_matrixes,
    )
    seen = np.array([[face[i].x * 200, face[i].y * 200] for i in BLENDSHAPE_POINTS])
    assert [each.category_name for each in expressions] == list(BLENDSHAPE_NAMES)
    assert [each.score for each in expressions] == pytest.approx([1e-3 * seen.sum()] * 52, rel=1e-4)
    np.testing.assert_allclose(matrix[:3, :3], np.eye(3), atol=1e-2)
    np.testing.assert_allclose(matrix[:2, 3], 0, atol=0.1)
    # The region, 1.5 of half the picture, is 12.8 units wide, seen by 63 degrees over its height.
    away = 256 / 20 / (1.5 * 100 / 200) / (2 * math.tan(math.radians(63 / 2)))
    assert matrix[2, 3] == pytest.approx(-away, rel=0.02)


def test_a_face_and_its_key_points() -> None:
    with ZipFile(BytesIO(face_bundle(5, 0))) as bundle:
        base = mp.BaseOptions(model_asset_buffer=bundle.read("face_detector.tflite"))
    with vision.FaceDetector(vision.FaceDetectorOptions(base)) as detector:
        (found,) = detector.detect(image(np.zeros((200, 300, 3), np.uint8))).detections
    # The box is the middle half of a letterbox of 300 pixels, of which 50 are above the picture.
    box = found.bounding_box
    sides = (box.origin_x, box.origin_y, box.width, box.height)
    assert sides == pytest.approx((75, 25, 150, 150), abs=1)
    assert found.categories[0].score == pytest.approx(1 / (1 + math.exp(-3)), abs=1e-3)
    raw = [(-14, -4), (6, -4), *[(0, 0)] * 4]
    expected = [((68 + x) / 128, ((68 + y) / 128 * 300 - 50) / 200) for x, y in raw]
    actual = [(point.x, point.y) for point in found.keypoints or ()]
    np.testing.assert_allclose(actual, expected, atol=1e-3)


def body_that_stays() -> mp.BaseOptions:
    """A bundle with a body whose region is 100 pixels around the middle of a picture, upright."""
    boxes, scores = floats((1, 2254, 12)), floats((1, 2254, 1), -9)
    scores[0, 0] = 3  # the anchor at (4, 4)
    boxes[0, 0, :8] = (108, 108, 50, 50, 108, 108, 108, 68)
    size, shapes = NETWORKS["pose_landmarks_detector.tflite"]
    outputs = [floats(shape) for shape in shapes]
    points = outputs[0].reshape(39, 5)
    points[:, :4] = (64, 192, 0, 3)
    points[33:35, :2] = (128, 128), (128, 128 - 128 / 1.25)  # the region stays
    outputs[1][:] = 0.9
    outputs[2][:] = 9
    outputs[3][:] = -9  # heat maps that move no point
    files = {
        "pose_detector.tflite": fake_network(224, (boxes, scores)),
        "pose_landmarks_detector.tflite": fake_network(size, outputs),
    }
    return mp.BaseOptions(model_asset_buffer=aligned_bundle(**files))


@pytest.mark.parametrize(("mode", "expected"), [("IMAGE", 3), ("VIDEO", 1)])
def test_a_body_is_found_once_in_a_video(
    mode: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    detections = vision.PoseLandmarker._detections

    def counted(*arguments: Any) -> Any:
        found.append(arguments)
        return detections(*arguments)

    monkeypatch.setattr(vision.PoseLandmarker, "_detections", counted)
    running_mode = mp.vision.RunningMode[mode]
    options = vision.PoseLandmarkerOptions(body_that_stays(), running_mode=running_mode)
    picture = image(np.zeros((224, 224, 3), np.uint8))
    with vision.PoseLandmarker(options) as landmarker:
        for time in (0, 33, 66):
            if mode == "IMAGE":
                result = landmarker.detect(picture)
            else:
                result = landmarker.detect_for_video(picture, time)
            assert len(result.pose_landmarks) == 1
    assert len(found) == expected


def test_the_mask_of_a_body() -> None:
    """One where its region is."""
    options = vision.PoseLandmarkerOptions(body_that_stays(), output_segmentation_masks=True)
    with vision.PoseLandmarker(options) as landmarker:
        result = landmarker.detect(image(np.zeros((224, 224, 3), np.uint8)))
    (mask,) = result.segmentation_masks or ()
    expected = floats((224, 224))
    expected[62:162, 62:162] = 1
    different = np.abs(mask.numpy_view()[..., 0] - expected) > 1e-2
    different[60:164, 60:64] = different[60:164, 160:164] = False
    different[60:64, 60:164] = different[160:164, 60:164] = False
    assert not different.any()
    (row,) = result.rows((224, 224))
    np.testing.assert_allclose(np.array(row["points"])[:, :2], [[87, 137]] * 33, atol=0.1)
    drawing = Drawing((224, 224))
    result.draw(drawing)
    painted = np.argwhere(np.asarray(drawing.on_picture(Pictures.new("RGB", (224, 224)))).any(2))
    assert painted.mean(0) == pytest.approx([137, 87], abs=1)


def letterboxed(y_x: Any, size: tuple[int, int]) -> Any:
    """Shares (y, x) of a square in a picture of this size, in the middle of that square, as (x, y)
    in pixels.
    """
    side = max(size)
    return (np.asarray(y_x) * side - (side - np.array(size)) / 2)[..., ::-1]


def people(size: tuple[int, int], model: bytes, least: float) -> Any:
    options = vision.PoseEstimatorOptions(
        mp.BaseOptions(model_asset_buffer=model), score_threshold=least
    )
    with vision.PoseEstimator(options) as estimator:
        return estimator.detect(image(np.zeros((*size, 3), np.uint8)))


@pytest.mark.parametrize(("least", "count"), [(0.5, 1), (np.nextafter(0.5, 1), 0)])
def test_a_person_whose_best_score_is_the_threshold(least: float, count: int) -> None:
    points = floats((1, 1, 17, 3), 0.25)
    points[0, 0, 3, 2] = 0.5
    assert len(people((120, 200), fake_network(192, [points]), least).poses) == count


@pytest.mark.parametrize("count", [1, 6])
def test_people_of_movenet(count: int) -> None:
    """A person without a point of a high enough score is left out."""
    rng, size = np.random.default_rng(2), (120, 200)
    points = rng.uniform(0.2, 0.8, (count, 17, 3)).astype(np.float32)
    points[..., 2] = rng.uniform(0, 0.2, (count, 17))
    points[0, :5, 2] = 0.9
    output = points[:, np.newaxis]
    if count > 1:
        output = np.concatenate([points.reshape(count, 51), floats((count, 5), 0.5)], 1)[np.newaxis]
    result = people(size, fake_network(192, [output]), 0.3)
    (row,) = result.rows(size)
    np.testing.assert_allclose(row["key_points"], letterboxed(points[0, :, :2], size), atol=0.1)
    np.testing.assert_allclose(row["key_point_scores"], points[0, :, 2], atol=1e-4)
    assert row["score"] == pytest.approx(0.5 if count > 1 else points[0, :, 2].mean(), abs=1e-4)
    drawing = Drawing(size)
    result.draw(drawing)
    painted = np.argwhere(np.asarray(drawing.on_picture(Pictures.new("RGB", size[::-1]))).any(2))
    shown = letterboxed(points[0, :5, :2], size)[:, ::-1]
    np.testing.assert_allclose(painted.min(0), shown.min(0), atol=5)
    np.testing.assert_allclose(painted.max(0), shown.max(0), atol=5)


def test_people_of_posenet() -> None:
    """Its maps are found by their names, in any order: each point is in the middle of its cell."""
    size, cells = (100, 100), np.random.default_rng(3).permutation(81)[:17]
    names = ["displacement_bwd", "offset_2", "heatmap", "displacement_fwd"]
    heat, offsets, forward, backward = (floats((1, 9, 9, n)) for n in (17, 34, 32, 32))
    heat[:] = -9
    rows, columns = np.divmod(cells, 9)
    heat[0, rows, columns, range(17)] = 3
    for i, (a, b) in enumerate(TREE):
        for maps, start, end in ((forward, a, b), (backward, b, a)):
            displacements = maps[0, rows[start], columns[start]]
            displacements[i] = 16 * (rows[end] - rows[start])
            displacements[16 + i] = 16 * (columns[end] - columns[start])
    result = people(size, fake_network(129, (backward, offsets, heat, forward), names), 0.3)
    (row,) = result.rows(size)
    expected = (16 * np.column_stack([columns, rows]) + 0.5) / 129 * 100
    np.testing.assert_allclose(row["key_points"], expected, atol=0.1)
    with pytest.raises(ModelError, match="expected PoseNet's outputs named"):
        people(size, fake_network(129, (backward, offsets, heat, forward)), 0.3)
    with pytest.raises(ModelError, match="expected PoseNet or MoveNet, found outputs"):
        people(size, fake_network(129, (heat, offsets)), 0.3)


def test_bundles_on_the_command_line(tmp_path: Path) -> None:
    """`run` lists the points and draws them; `watch` does so frame by frame."""
    bundle, picture = tmp_path / "face.task", tmp_path / "black.png"
    bundle.write_bytes(face_bundle(5.0, 0.0))
    Pictures.new("RGB", (200, 200)).save(picture)
    drawn, frame = tmp_path / "drawn.png", tmp_path / "frame.png"
    found = call_json("run", bundle, "--input", picture, "--output", drawn)
    assert found["task"] == "face"
    (face,) = found["results"]
    assert face["points"][0] == pytest.approx([62.5, 62.5, 15], abs=0.2)
    watched = call_json("watch", bundle, "--picture", picture, "--headless", "--output", frame)
    assert watched["task"] == "face"
    assert watched["found"] == {"face": {"most": 1, "frames": 1}}
    for path in (drawn, frame):
        painted = np.argwhere(np.asarray(Pictures.open(path)).any(2))
        assert painted.min(0) == pytest.approx([62, 62], abs=3), path.name
        assert painted.max(0) == pytest.approx([137, 137], abs=3), path.name
    for command in (("run", bundle, "--input"), ("watch", bundle, "--headless", "--picture")):
        assert "for a bundle" in call(*command, picture, "--kind", "yolov8", status=1)


def test_face_networks_of_other_points_are_refused() -> None:
    outputs = (floats((1, 1, 1, 1440)), floats((1, 1, 1, 1)), floats((1, 1)))
    files = {
        "face_detector.tflite": fake_network(128, (floats((1, 896, 16)), floats((1, 896, 1)))),
        "face_landmarks_detector.tflite": fake_network(256, outputs),
    }
    base = mp.BaseOptions(model_asset_buffer=aligned_bundle(**files))
    with pytest.raises(ModelError, match="a network of 468 or 478 points of a face"):
        vision.FaceLandmarker(vision.FaceLandmarkerOptions(base))


def described(classes: int = 3, **changed: Any) -> DescribedDetector:
    """Three groups of anchors, whose first two show the same object."""
    rng = np.random.default_rng(5)
    centers = np.repeat([[0.3, 0.4], [0.7, 0.6], [0.5, 0.2]], 2, 0)
    anchors = np.column_stack([centers, np.full((6, 2), 0.25)]) + rng.normal(0, 0.004, (6, 4))
    scores = rng.normal(-1, 0.5, (1, 6, classes))
    scores[0, range(6), rng.integers(0, classes, 6)] = 2 + np.arange(6) / 4
    fields: dict[str, Any] = {
        "boxes": rng.normal(0, 0.3, (1, 6, 4)).astype(np.float32),
        "scores": scores.astype(np.float32),
        "anchors": anchors.astype(np.float32),
        "scales": (10.0, 8.0, 5.0, 4.0),
        "exponential": True,
        "labels": [f"object {i}" for i in range(classes)],
    }
    return DescribedDetector(**fields | changed)


def decoded(network: DescribedDetector, least: float) -> list[tuple[int, float, list[float]]]:
    """Class, score and box (left, top, right, bottom), number by number; the best box of each
    group that overlaps by more than 0.3.
    """
    found = []
    for raw, logits, anchor in zip(
        network.boxes[0].tolist(), network.scores[0].tolist(), network.anchors.tolist(), strict=True
    ):
        scores = [1 / (1 + math.exp(-x)) if network.logits else x for x in logits]
        best = scores.index(max(scores))
        x = raw[1] / network.scales[0] * anchor[2] + anchor[0]
        y = raw[0] / network.scales[1] * anchor[3] + anchor[1]
        width, height = raw[3] / network.scales[2], raw[2] / network.scales[3]
        if network.exponential:
            width, height = math.exp(width), math.exp(height)
        width, height = width * anchor[2], height * anchor[3]
        box = [x - width / 2, y - height / 2, x + width / 2, y + height / 2]
        if scores[best] >= least and width >= 0 and height >= 0:
            found.append((best, scores[best], box))
    kept: list[tuple[int, float, list[float]]] = []
    for each in sorted(found, key=lambda item: -item[1]):
        if all(shared_area(each[2], other[2]) <= 0.3 for other in kept):
            kept.append(each)
    return kept


def shared_area(a: list[float], b: list[float]) -> float:
    sides = [min(a[i + 2], b[i + 2]) - max(a[i], b[i]) for i in (0, 1)]
    common = max(sides[0], 0) * max(sides[1], 0)
    return common / (sum((c[2] - c[0]) * (c[3] - c[1]) for c in (a, b)) - common)


@pytest.mark.parametrize(
    "network",
    [
        described(),
        described(names=("score", "location")),
        described(4, names=("score", "location")),  # both outputs have one shape
        described(4),
        described(exponential=False, boxes=np.full((1, 6, 4), 4, np.float32)),
        described(logits=False, scores=np.random.default_rng(1).random((1, 6, 3), np.float32)),
    ],
)  # fmt: skip
def test_detectors_with_their_anchors_in_the_metadata(network: DescribedDetector) -> None:
    """MediaPipe's efficientdet_lite0 is such a network."""
    picture = image(np.zeros((300, 500, 3), np.uint8))
    for least in (0.0, 0.5):
        options = vision.ObjectDetectorOptions(
            mp.BaseOptions(model_asset_buffer=network.build()), score_threshold=least
        )
        with vision.ObjectDetector(options) as detector:
            found = [d.found for d in detector.detect(picture).detections]
        expected = decoded(network, least)
        assert len(expected) > 1
        assert [d.class_index for d in found] == [number for number, _, _ in expected]
        for detection, (_, score, box) in zip(found, expected, strict=True):
            assert detection.score == pytest.approx(score, abs=1e-5)
            assert detection.box == pytest.approx(box, abs=1e-5)


def test_classes_of_such_a_detector() -> None:
    """A box has the best class of those that are allowed."""
    network = described()
    first, *_ = decoded(network, 0.0)
    base = mp.BaseOptions(model_asset_buffer=network.build())
    denied = vision.ObjectDetectorOptions(base, category_denylist=[f"object {first[0]}"])
    with vision.ObjectDetector(denied) as detector:
        found = detector.detect(BLACK).detections
    names = {category.category_name for each in found for category in each.categories}
    assert f"object {first[0]}" not in names
    scores = network.scores.copy()
    scores[..., first[0]] = -100
    expected = decoded(described(scores=scores), 0.0)
    assert [each.found.score for each in found] == pytest.approx([s for _, s, _ in expected])


def test_key_points_of_such_a_detector() -> None:
    """Two after the four numbers of each box, y first, in the scales of positions."""
    network = described(boxes=np.random.default_rng(6).normal(0, 0.3, (1, 6, 8)))
    known = [TensorMetadata(detector=network.decoding())] * 2
    shapes = [network.boxes.shape, network.scores.shape]
    preset = find_detector((1, 32, 32, 3), shapes, known)
    found = read_detections([network.boxes, network.scores], preset)
    expected = decoded(network, 0.5)
    assert [each.score for each in found] == pytest.approx([score for _, score, _ in expected])
    for detection in found:
        (i,) = np.flatnonzero(
            np.isclose(network.scores[0].max(1), -np.log(1 / detection.score - 1))
        )
        offsets = network.boxes[0, i, 4:].reshape(2, 2)[:, ::-1] / network.scales[:2]
        x_y, sides = network.anchors[i, :2], network.anchors[i, 2:]
        np.testing.assert_allclose(detection.key_points, x_y + sides * offsets, atol=1e-6)


def test_such_a_detector_by_the_command_line(tmp_path: Path) -> None:
    network = described()
    model, picture = saved(tmp_path / "m.tflite", network.build()), tmp_path / "p.png"
    Pictures.new("RGB", (500, 300)).save(picture)
    rows = call_json("run", model, "--input", picture)["results"]
    expected = decoded(network, 0.5)
    assert [row["label"] for row in rows] == [f"object {number}" for number, _, _ in expected]
    boxes = [np.multiply(box, (500, 300) * 2) for _, _, box in expected]
    np.testing.assert_allclose([row["box"] for row in rows], boxes, atol=0.06)


def damages(network: DescribedDetector) -> Iterator[bytes]:
    """Its metadata, cut off or with three wrong bytes."""
    whole = network.decoding()
    yield from (whole[:size] for size in range(1, len(whole), 7))
    rng = np.random.default_rng(0)
    for _ in range(300):
        hit = np.frombuffer(whole, np.uint8).copy()
        hit[rng.integers(0, len(hit), 3)] = rng.integers(0, 256, 3)
        yield hit.tobytes()


def test_damaged_metadata_of_a_detector_is_a_model_error() -> None:
    """Numbers that still fit are read as they are."""
    network, refused = described(), []
    shapes = [network.boxes.shape, network.scores.shape]
    for data in damages(network):
        known = [TensorMetadata(detector=data)] * 2
        try:
            find_detector((1, 32, 32, 3), shapes, known)
        except ModelError as error:
            refused.append(str(error))
    assert len(refused) > 100
    assert all("expected" in text or "damaged" in text for text in refused)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"options": {1: 7}}, "found 6 anchors"),
        ({"options": {0: 5}}, r"expected outputs \[1, 6, 4\] and \[1, 6, 5\] by the detector's"),
        ({"options": {4: 1}}, "2 for each of 1 key points"),
        ({"scales": (0.0, 1.0, 1.0, 1.0)}, "finite scales other than 0"),
        ({"anchors": np.full((6, 4), np.nan, np.float32)}, "expected finite anchors"),
    ],
)
def test_metadata_of_another_detector_is_refused(change: Any, message: str) -> None:
    base = mp.BaseOptions(model_asset_buffer=described(**change).build())
    with pytest.raises(ModelError, match=message):
        vision.ObjectDetector(vision.ObjectDetectorOptions(base))


@pytest.mark.parametrize("delegate", [None, mp.BaseOptions.Delegate.CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize(("normalized", "quantized"), [(False, False), (True, False), (True, True)])
def test_feature_vectors(normalized: bool, quantized: bool, delegate: Any) -> None:
    weights = np.random.default_rng(4).normal(0, 1, (5, 3)).astype(np.float32)
    base = mp.BaseOptions(model_asset_buffer=linear_network(weights), delegate=delegate)
    options = vision.ImageEmbedderOptions(base, l2_normalize=normalized, quantize=quantized)
    colors, raw, found = np.uint8([[250, 20, 90], [40, 200, 10]]), [], []
    with vision.ImageEmbedder.create_from_options(options) as embedder:
        for color in colors:
            (embedding,) = embedder.embed(image(np.full((30, 40, 3), color))).embeddings
            assert (embedding.head_index, embedding.head_name) == (0, None)
            vector = weights.astype(np.float64) @ (color / 255)
            raw.append(vector)
            if normalized:
                vector = vector / np.sqrt((vector**2).sum())
            if quantized:
                assert embedding.embedding.dtype == np.uint8
                actual = embedding.embedding.view(np.int8) / 128
            else:
                actual = embedding.embedding
            np.testing.assert_allclose(actual, vector, atol=0.51 / 128 if quantized else 1e-4)
            found.append(embedding)
    cosine = raw[0] @ raw[1] / np.sqrt((raw[0] ** 2).sum() * (raw[1] ** 2).sum())
    actual = vision.ImageEmbedder.cosine_similarity(*found)
    assert actual == pytest.approx(cosine, abs=0.02 if quantized else 1e-4)


@pytest.mark.parametrize("delegate", [None, mp.BaseOptions.Delegate.CPU], ids=["gpu", "cpu"])
def test_a_segmenter_of_four_channels_sees_all_pixels(delegate: Any) -> None:
    """It sees a picture of four times its size smoothed, not one pixel of four."""
    cell = np.full((4, 4, 3), 240, np.uint8)
    cell[1:3, 1:3] = 0
    pixels = np.tile(cell, (*MARKED, 1))
    base = mp.BaseOptions(model_asset_buffer=a_channel(0), delegate=delegate)
    with vision.ImageSegmenter(vision.ImageSegmenterOptions(base)) as segmenter:
        (mask,) = segmenter.segment(image(pixels)).confidence_masks or ()
    inner = mask.numpy_view()[16:-16, 16:-16, 0]
    np.testing.assert_allclose(inner, cell.mean() / 255, atol=1e-2)
