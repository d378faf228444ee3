"""Hard values for vision: decoders, suppression, regions, trackers, filters and drawings.

A decoder may raise ValueError, which it documents. What it returns is finite and in range, best
first. An object that is there, among hard values elsewhere, is found as it is without them.
"""

import json
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from gles_apps import vision
from gles_apps.vision.detection import (
    FACE_DETECTOR_FULL_RANGE,
    POSE_DETECTOR_128,
    ssd_anchors,
    ssd_mobilenet,
    ssd_mobilenet_fpn,
)
from gles_apps.vision.poses import posenet_pose, posenet_poses
from gles_apps.vision.yolo import oriented_overlaps
from gles_delegate.model.metadata import TensorMetadata
from gles_delegate.model.ultralytics import parse_export
from tests.attack.workers import Outcome
from tests.support.speed import scaled

Array = NDArray[Any]

HARD = np.float32(
    [
        np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, -1e-40, 3.4e38, -3.4e38, 1e-30, 1e9, -1e9,
        1.0000001,
    ]
)  # fmt: skip
PICTURES = ((480, 640), (1, 1), (3, 4000))


def hardened(rng: Generator, array: Array, share: float) -> Array:
    """An array with hard values in a share of its places."""
    places = rng.random(array.shape) < share
    return np.where(places, rng.choice(HARD, array.shape), array).astype(array.dtype)


def detectors() -> list[vision.Detector]:
    return [
        vision.FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE, vision.PALM_DETECTOR,
        vision.POSE_DETECTOR, POSE_DETECTOR_128, ssd_mobilenet((300, 300)),
        ssd_mobilenet_fpn((320, 320)),
    ]  # fmt: skip


def check_detections(detections: list[vision.Detection], classes: int) -> None:
    scores = [d.score for d in detections]
    assert all(0 <= score <= 1 for score in scores), scores
    assert scores == sorted(scores, reverse=True)
    assert all(d.is_finite for d in detections)
    assert all(0 <= d.class_index < classes for d in detections)


def attack_detector(rng: Generator) -> None:
    """One object in the last anchor, and hard values in the others."""
    presets = detectors()
    detector = presets[rng.integers(len(presets))]
    count = len(ssd_anchors(detector.anchors))
    classes = 5 if detector.background else 1
    as_logits = bool(detector.logits) or rng.random() < 0.5
    scores = np.full((1, count, classes), -9 if as_logits else 0, np.float32)
    boxes = np.zeros((1, count, 4 + 2 * detector.key_points), np.float32)
    boxes[..., 2:4] = 0 if detector.exponential else 4
    clean_scores, clean_boxes = scores.copy(), boxes.copy()
    share = rng.choice([0, 1e-3, 0.05, 1])
    scores, boxes = hardened(rng, scores, share), hardened(rng, boxes, share)
    # Hard values that are good scores are detections too, and may be of the same object.
    good = scores[0, :-1] > (-1 if as_logits else 0.1)
    scores[0, :-1] = np.where(good, np.float32(np.nan), scores[0, :-1])
    for target in (scores, clean_scores):
        target[0, -1] = -9 if as_logits else 0
        target[0, -1, -1] = 3 if as_logits else 0.9
    boxes[0, -1] = clean_boxes[0, -1]
    if detector.logits is None:
        detector = replace(detector, logits=as_logits if share == 1 else None)
    detections = vision.read_detections([boxes, scores], detector)
    expected = vision.read_detections([clean_boxes, clean_scores], replace(detector))
    check_detections(detections, classes)
    assert len(expected) == 1
    assert expected[0] in detections, (len(detections), expected)


def yolo_rows(rng: Generator, detector: vision.YoloDetector, count: int) -> Array:
    """Boxes in pixels of the input, of low scores, [count, numbers]."""
    rows = rng.uniform(0, 0.05, (count, detector.numbers))
    sides = rng.uniform(5, 60, (count, 2))
    corners = rng.uniform(0, 40, (count, 2))
    boxes = np.column_stack([corners, corners + sides])
    if detector.has_centers:
        boxes = np.column_stack([corners, sides])
    start = 3 if detector.kind == "yolox" else 0
    rows[:, start : start + 4] = boxes
    if detector.kind == "yolox":
        rows[:, 1] = rng.integers(0, 5, count)
    elif detector.is_suppressed:
        rows[:, 5] = rng.integers(0, 5, count)
    return rows.astype(np.float32)


def attack_yolo(rng: Generator) -> None:
    """One object in the last box, and hard values in the others; all scores may be equal."""
    kind = list(vision.YOLO_KINDS)[rng.integers(len(vision.YOLO_KINDS))]
    columns = bool(rng.integers(2)) and not kind.startswith(("yolo26", "yolox"))
    detector = vision.YoloDetector(
        kind, (96, 64), int(rng.choice([1, 5])), columns, points=(4, int(rng.integers(2, 4))),
        coefficients=6, channels_first=bool(rng.integers(2)),
    )  # fmt: skip
    count = int(rng.choice([1, 2, 300, 2000]))
    rows = yolo_rows(rng, detector, count)
    clean = rows[-1:].copy()
    score = {"yolox": 2}.get(kind, 4)
    clean[0, score : score + 1 + kind.startswith("yolov5")] = 0.9
    if detector.is_suppressed:
        clean[0, 1 if kind == "yolox" else 5] = 0
    rows = hardened(rng, rows, rng.choice([0, 1e-3, 0.05, 0.4]))
    # Hard values that are good scores are detections too, and may be of the same object.
    scores = rows[:, score:]
    scores[(scores > 0.1) & (scores <= 1.02)] = np.nan
    are_equal = rng.random() < 0.2
    if are_equal:
        rows[:, score : score + 1 + kind.startswith("yolov5")] = 0.9
    rows[-1] = clean[0]
    shape = (1, 24, 16, 6)
    masks = hardened(rng, rng.normal(0, 3, shape).astype(np.float32), rng.choice([0, 0.2]))
    masks = masks.transpose(0, 3, 1, 2) if detector.channels_first else masks

    def read(boxes: Array) -> list[vision.Detection]:
        array = boxes[np.newaxis].transpose(0, 2, 1) if columns else boxes[np.newaxis]
        return vision.read_detections([masks, array][detector.task != "segment" :], detector)

    alone, detections = read(clean), read(rows)
    assert len(alone) == 1
    check_detections(detections, detector.classes)
    for detection in detections:
        if detection.mask is not None:
            assert detection.mask.size <= 24 * 16
            assert ((detection.mask >= 0) & (detection.mask <= 1)).all()
        assert all(0 <= share <= 1 for share in detection.key_point_scores)
        mapped = detection.to_picture(detector.transform, (480, 640), detector.size)
        assert mapped.mask is detection.mask
    assert are_equal or alone[0] in detections
    drawing = vision.Drawing((48, 64))
    for detection in detections[:20]:
        drawing.detection(detection, "label", (1, 2, 3))
    draw(drawing)


def attack_oriented_overlaps(rng: Generator) -> None:
    boxes = hardened(rng, rng.normal(10, 30, (40, 5)), rng.choice([0, 0.1, 1]))
    overlaps = oriented_overlaps(boxes, boxes)
    assert ((overlaps >= 0) & (overlaps <= 1)).all()
    np.testing.assert_allclose(overlaps, overlaps.T, atol=1e-6)


def attack_shapes(rng: Generator) -> None:
    """Any shapes are a known network, or refused."""
    size = [int(x) for x in rng.choice([0, 1, 32, 64, 96, 640], 2)]
    outputs = [
        [int(x) for x in rng.choice([0, 1, 4, 6, 7, 32, 84, 126, 252, 300, 8400], rank)]
        for rank in rng.choice([0, 1, 2, 3, 3, 3, 4], rng.choice([0, 1, 1, 1, 2, 3, 4]))
    ]
    if rng.random() < 0.5:
        outputs = [[1, *each[1:]] for each in outputs]
    names = tuple(map(str, range(rng.choice([0, 1, 80]))))
    tasks = ["", "detect", "segment", "pose", "obb", "classify", "else"]
    task = str(rng.choice(tasks)) if rng.random() < 0.5 else ""
    about = TensorMetadata(labels=names, task=task, points=(5, 2))
    kind = rng.choice([*vision.YOLO_KINDS]) if rng.random() < 0.2 else None
    found = vision.find_detector([1, *size, 3], outputs, (about,) * len(outputs), kind=kind)
    if isinstance(found, vision.YoloDetector):
        assert found.size == tuple(size)
        assert kind in (None, found.kind)


def attack_export(rng: Generator) -> None:
    """Damaged metadata of Ultralytics' exporter: it is read, or left out, in a second."""
    notation = (repr, json.dumps)[rng.integers(2)]
    values = {"task": "pose", "stride": 32, "imgsz": [640, 640], "names": {0: "a", 1: "b'\"é"}}
    data = bytearray(notation(values).encode())
    for _ in range(int(rng.integers(1, 8))):
        place = int(rng.integers(len(data)))
        marks = (b"{", b"[", b"'", b'"', b"\\", b"\xff", b"\0", b"-")
        pieces = (*marks, b"9" * 40, b"[" * 5000, b"+1" * 99, b"()")
        chosen = pieces[rng.integers(len(pieces))]
        data[place : place + int(rng.integers(0, 4))] = chosen * int(rng.choice([1, 1, 300]))
    start = time.process_time()
    export = parse_export(bytes(data))
    assert time.process_time() - start < scaled(2)
    if export is not None:
        assert export.task in ("", "detect", "segment", "pose", "obb", "classify")
        assert all(name == name.encode().decode() for name in export.names)
        assert 0 <= export.stride < 1 << 16


def attack_postprocessed(rng: Generator) -> None:
    n = int(rng.integers(0, 20))
    boxes = hardened(rng, rng.random((1, n, 4)).astype(np.float32), 0.3)
    classes = rng.integers(0, 9, (1, n)).astype(np.float32)
    scores = rng.random((1, n)).astype(np.float32)
    if rng.random() < 0.5:
        classes, scores = hardened(rng, classes, 0.1), hardened(rng, scores, 0.1)
    count = rng.choice([n, 0, n + 5, -1, np.nan, np.inf])
    outputs = [boxes, classes, scores, np.float32([count])]
    if rng.random() < 0.3:
        outputs[rng.integers(3)] = np.zeros((1, n + 1), np.float32)
    order = [(0, 1, 2, 3), (2, 0, 3, 1)][rng.integers(2)]
    check_detections(vision.read_detections([outputs[i] for i in order], None), 2**31)


def attack_suppression(rng: Generator) -> None:
    """Boxes of all sizes, in groups and not, with ties, and thousands of them."""
    n = int(rng.choice([0, 1, 2, 50, 3000]))
    corners = np.sort(rng.random((n, 2, 2)) * rng.choice([1, 1e-20, 1e30]), axis=1)
    corners[rng.random(n) < 0.2] = 0
    scores = rng.choice([0.0, 0.5, 0.5, 1.0, 1e-40], n)
    boxes = [
        vision.Detection((*low, *high), float(score), int(rng.integers(3)), (tuple(low),))
        for (low, high), score in zip(corners.tolist(), scores, strict=True)
    ]
    options: dict[str, Any] = {
        "overlap": float(rng.choice([0, 0.3, 1])),
        "weighted": bool(rng.integers(2)),
        "by_class": bool(rng.integers(2)),
    }
    kept = vision.suppress(boxes, **options)
    check_detections(kept, 3)
    assert len(kept) <= n
    assert bool(kept) == bool(n)
    assert [d.score for d in vision.suppress(boxes[::-1], **options)][:1] == [
        d.score for d in kept
    ][:1]


def attack_landmarks(rng: Generator) -> None:
    """A tracker that follows objects of hard numbers keeps none that is not finite."""
    kind, sizes = [
        (vision.HAND, (63, 1, 1, 63)),
        (vision.FACE, (1404, 1)),
        (vision.FACE, (1404, 160, 142, 142, 10, 10, 1)),
        (vision.POSE, (195, 1, 256 * 256, 64 * 64 * 39, 117)),
    ][rng.integers(4)]
    picture = PICTURES[rng.integers(len(PICTURES))]
    tracker = vision.Tracker(kind, most=3)
    share = rng.choice([0, 1e-3, 0.3])
    for _ in range(3):
        points = hardened(rng, rng.random((7, 2)), share).tolist()
        box = hardened(rng, np.sort(rng.random((2, 2)), axis=0).ravel(), share).tolist()
        pairs = tuple((x, y) for x, y in points)
        tracker = tracker.with_detections([vision.Detection(tuple(box), 0.9, 0, pairs)], picture)
        landmarks = []
        for track in tracker.objects:
            transform = kind.transform(track.region)
            outputs = [
                hardened(rng, (rng.random(size) * 200).astype(np.float32), share) for size in sizes
            ]
            landmarks.append(kind.read(outputs).to_picture(transform, picture, kind.size))
        tracker = tracker.with_landmarks(landmarks, float(rng.choice([1e-9, 0.03, 1e9])))
        for track in tracker.objects:
            assert track.region.is_finite
            assert track.landmarks is not None
            assert track.landmarks.is_finite
            kind.transform(track.region)


def attack_poses(rng: Generator) -> None:
    share = rng.choice([0, 0.01, 0.5, 1])
    rows, columns = rng.integers(2, 12, 2)
    shape = (1, int(rows), int(columns))
    maps = [
        hardened(rng, rng.normal(0, 30, (*shape, depth)).astype(np.float32), share)
        for depth in (17, 34, 32, 32)
    ]
    poses = posenet_poses(*maps, (257, 257), most=5)
    assert len(poses) <= 5
    poses.append(posenet_pose(maps[0], maps[1], (257, 257)))
    people = hardened(rng, rng.random((1, 6, 56)).astype(np.float32), share)
    poses += vision.read_movenet(people)
    drawing = vision.Drawing((90, 120))
    for pose in poses:
        drawing.skeleton(np.multiply(pose.points, (120, 90)), vision.COCO_EDGES, (1, 2, 3))
    draw(drawing)


def attack_drawing(rng: Generator) -> None:
    """Shapes at hard positions over a picture."""
    drawing = vision.Drawing((40, 60))
    points = hardened(rng, rng.normal(20, 60, (30, 2)), 0.3)
    drawing.points(points, (255, 0, 0), float(rng.choice([0.5, 3, 500])))
    drawing.lines(points, [(i, i + 1) for i in range(29)], (0, 255, 0))
    for box in hardened(rng, rng.normal(20, 60, (5, 4)), 0.3).tolist():
        drawing.box(tuple(box), (0, 0, 255))
        drawing.rectangle(tuple(box), (9, 9, 9, 90))
        drawing.label((box[0], box[1]), "label", (200, 200, 200))
    draw(drawing)


def draw(drawing: vision.Drawing) -> None:
    from PIL import Image

    picture = Image.new("RGB", drawing.size[::-1])
    assert drawing.on_picture(picture).size == picture.size


def attack_scores(rng: Generator) -> None:
    """The top classes; NaN comes last."""
    scores = hardened(rng, rng.random(20).astype(np.float32), rng.choice([0, 0.2, 1]))
    best = vision.top_classes(scores, [str(i) for i in range(20)], 20)
    values = np.array([score for _, score in best])
    finite = values[~np.isnan(values)]
    assert (finite[1:] <= finite[:-1]).all()
    assert not np.isnan(values[: len(finite)]).any()


ATTACKS: tuple[Callable[[Generator], None], ...] = (
    attack_detector, attack_detector, attack_yolo, attack_yolo, attack_oriented_overlaps,
    attack_shapes, attack_export, attack_postprocessed, attack_suppression, attack_landmarks,
    attack_poses, attack_drawing, attack_scores,
)  # fmt: skip


def run_decoders(_: bytes, seed: int) -> Outcome:
    """One of `ATTACKS`; a warning is as bad as a wrong result."""
    rng = np.random.default_rng(seed)
    attack = ATTACKS[seed % len(ATTACKS)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            attack(rng)
        except ValueError as error:
            if not str(error).startswith("expected"):
                return Outcome("foreign error", text=f"{attack.__name__}: {error!r}")
        except Exception as error:
            return Outcome("finding", text=f"{attack.__name__}: {error!r:.500}")
    return Outcome("result")
