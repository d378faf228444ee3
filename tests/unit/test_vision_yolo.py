"""YOLO networks: finding them, and decoding against plain loops and known objects."""

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gles_apps import vision
from gles_apps.vision.yolo import YOLO_KINDS, oriented_overlaps
from gles_delegate import ImageTransform
from gles_delegate.model.metadata import TensorMetadata
from tests.support.speed import scaled

Array = NDArray[Any]
NAN, INF = float("nan"), float("inf")
SIZE = (96, 64)  # height and width; grids of 12 x 8, 6 x 4 and 3 x 2 cells
CELLS = 126
ANCHORS = 3 * CELLS
PICTURE = [1, *SIZE, 3]
PROTOTYPES = [1, 24, 16, 32]


def known(labels: int = 0, task: str = "", points: tuple[int, int] | None = None) -> Any:
    names = tuple(str(i) for i in range(labels))
    return (TensorMetadata(labels=names, task=task, points=points), TensorMetadata())


@pytest.mark.parametrize(
    ("shapes", "metadata", "kind", "classes"),
    [
        ([[1, ANCHORS, 85]], (), "yolov5", 80),
        ([[1, ANCHORS, 6]], (), "yolov5", 1),
        ([[1, ANCHORS, 117], PROTOTYPES], (), "yolov5-seg", 80),
        ([[1, 5, CELLS]], (), "yolov8", 1),
        ([[1, 84, CELLS]], known(80), "yolov8", 80),
        ([[1, CELLS, 84]], known(80), "yolov8", 80),
        ([[1, 84, CELLS]], known(task="detect"), "yolov8", 80),
        ([[1, 116, CELLS], PROTOTYPES], (), "yolov8-seg", 80),
        ([PROTOTYPES, [1, CELLS, 37]], (), "yolov8-seg", 1),
        ([[1, 36 + 7, CELLS], [1, 32, 24, 16]], (), "yolov8-seg", 7),
        ([[1, 56, CELLS]], known(task="pose"), "yolov8-pose", 1),
        ([[1, 56, CELLS]], known(1), "yolov8-pose", 1),
        ([[1, 4 + 2 + 8, CELLS]], known(2, "pose", (4, 2)), "yolov8-pose", 2),
        ([[1, 20, CELLS]], known(15), "yolov8-obb", 15),
        ([[1, 20, CELLS]], known(task="obb"), "yolov8-obb", 15),
        ([[1, 300, 6]], (), "yolo26", 0),
        ([[1, 300, 6]], known(80), "yolo26", 0),
        ([[1, 300, 38], PROTOTYPES], (), "yolo26-seg", 0),
        ([[1, 300, 57]], (), "yolo26-pose", 0),
        ([[1, 300, 7]], known(task="obb"), "yolo26-obb", 0),
        ([[16, 7]], (), "yolox", 0),
    ],
)
def test_networks_by_their_shapes(shapes: Any, metadata: Any, kind: str, classes: int) -> None:
    for picture in (PICTURE, [1, 3, *SIZE]):
        found = vision.find_detector(picture, shapes, metadata)
        assert isinstance(found, vision.YoloDetector)
        assert (found.kind, found.classes, found.size) == (kind, classes, SIZE)
        assert found.overlap == (0.45 if "v5" in kind else 0.7)
        assert found == vision.find_detector(picture, shapes, metadata, kind=kind)
    assert found.columns == (shapes[0][-1] == CELLS or shapes[-1][-1] == CELLS)
    assert found.channels_first == ([1, 32, 24, 16] in shapes)


@pytest.mark.parametrize(
    ("shapes", "kinds"),
    [
        ([[1, 84, CELLS]], ("yolov8 of 80", "yolov8-pose of 29", "yolov8-obb of 79")),
        ([[1, CELLS, 6]], ("yolov8 of 2", "yolov8-obb of 1")),
        ([[1, 300, 7]], ("yolo26-obb", "yolox")),
        ([[1, 56, CELLS]], ("yolov8 of 52", "yolov8-pose of 1", "yolov8-obb of 51")),
    ],
)
def test_shapes_of_several_kinds_are_refused(shapes: Any, kinds: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="expected outputs of one kind of YOLO") as caught:
        vision.find_detector(PICTURE, shapes)
    assert all(kind in str(caught.value) for kind in kinds)
    kind = kinds[0].split()[0]
    assert f"kind={kind!r} or --kind {kind}" in str(caught.value)
    found = vision.find_detector(PICTURE, shapes, kind=kind)
    assert isinstance(found, vision.YoloDetector)
    assert found.kind == kind


def test_as_many_boxes_as_numbers() -> None:
    """84 boxes for 64 x 64 pixels, of 84 numbers each: rows or columns."""
    with pytest.raises(ValueError, match=r"yolov8 of 80 classes.* or make a YoloDetector"):
        vision.find_detector((1, 64, 64, 3), [(1, 84, 84)], known(80), kind="yolov8")
    with pytest.raises(ValueError, match="yolov8-seg of 5 classes"):
        vision.find_detector((1, 128, 128, 3), [(1, 41, 336), (1, 32, 32, 32)])


@pytest.mark.parametrize(
    ("picture", "shapes", "metadata", "options", "message"),
    [
        (PICTURE, [[1, 84, CELLS]], known(79, "detect"), {}, "each of 80 classes, found 79,"),
        (PICTURE, [[1, 84, CELLS]], known(80), {"kind": "yolov5"}, "kind yolov5.*yolov8 of 80"),
        (PICTURE, [[1, 84, 99]], (), {"kind": "yolov8"}, r"found \[\[1, 84, 99\]\].*no kind"),
        (PICTURE, [[1, 84, CELLS]], (), {"kind": "yolo9000"}, "expected a kind, one of yolov5, "),
        (PICTURE, [[1, 84, 99]], (), {}, "or of YOLO, found .*; another task may fit$"),
        (PICTURE, [[1, 1, 6]], (), {}, "or of YOLO, found"),
        (PICTURE, [[1, 7]], (), {}, "or of YOLO, found"),
        (PICTURE, [[1, 116, CELLS], [1, 25, 16, 32]], (), {}, "or of YOLO, found"),
        (PICTURE, [[1, 116, CELLS], [32]], (), {}, "or of YOLO, found"),
        (PICTURE, [[2, 84, CELLS]], known(80), {}, "or of YOLO, found"),
        ([1, 96, 64, 4], [[1, 84, CELLS]], known(80), {}, "or of YOLO, found"),
        ([2, 96, 64, 3], [[1, 84, CELLS]], known(80), {}, "or of YOLO, found"),
        ([1, 0, 0, 3], [[1, 84, 0]], (), {}, "or of YOLO, found"),
        (PICTURE, [], (), {}, "or of YOLO, found"),
        (PICTURE, [[1, 80]], known(80, "classify"), {}, "or of YOLO, found"),
    ],
)
def test_other_shapes_are_refused(
    picture: Any, shapes: Any, metadata: Any, options: Any, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        vision.find_detector(picture, shapes, metadata, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "yolov4"}, "expected a kind, one of yolov5, .*found 'yolov4'"),
        ({"kind": "yolov8"}, "expected the number of classes, found 0"),
        ({"kind": "yolo26", "size": (0, 64)}, "expected positive sizes"),
        ({"kind": "yolo26", "points": (0, 3)}, "expected positive sizes"),
        ({"kind": "yolo26", "points": (17, 4)}, "2 or 3 numbers for each key point"),
    ],
)
def test_options_that_make_no_sense(options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vision.YoloDetector(**{"size": SIZE, **options})


def test_pictures_as_the_networks_expect_them() -> None:
    """A letterbox in gray, from 0 to 1; YOLOX: from the corner, BGR, 0 to 255."""
    picture = np.zeros((30, 40, 3), np.uint8)
    picture[...] = (200, 100, 50)
    gray = [114 / 255] * 3
    usual = vision.YoloDetector("yolov8", SIZE, 80).transform.apply(picture, SIZE)[0]
    np.testing.assert_allclose(usual[[0, 23, 72, 95], 9], [gray] * 4, atol=1e-6)
    np.testing.assert_allclose(usual[24:72], np.broadcast_to([200, 100, 50], (48, 64, 3)) / 255)
    cornered = vision.YoloDetector("yolox", SIZE).transform.apply(picture, SIZE)[0]
    np.testing.assert_allclose(cornered[:48], np.broadcast_to([50, 100, 200], (48, 64, 3)))
    np.testing.assert_allclose(cornered[48:], 114)


def overlap_of(a: Array, b: Array) -> float:
    """Intersection over union, from the definition."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    both = (a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1])
    return float(common / (both - common))


def expected_of(rows: Array, first: int, detector: vision.YoloDetector) -> list[tuple[Any, ...]]:
    """Box in pixels, score and class of each detection, one box after another."""
    found = []
    for row in rows:
        best = max(range(detector.classes), key=lambda i: row[first + i])
        score = row[first + best] * (row[4] if first == 5 else 1)
        if score > detector.threshold:
            x, y, width, height = row[:4]
            box = np.array([x - width / 2, y - height / 2, x + width / 2, y + height / 2])
            found.append((box, score, best))
    kept: list[tuple[Any, ...]] = []
    for box, score, best in sorted(found, key=lambda each: -each[1]):
        if all(other[2] != best or overlap_of(box, other[0]) <= detector.overlap for other in kept):
            kept.append((box, score, best))
    return kept[: detector.most]


@pytest.mark.parametrize("as_shares", [True, False])
@pytest.mark.parametrize("columns", [True, False])
@pytest.mark.parametrize("kind", ["yolov5", "yolov8"])
def test_boxes_as_a_plain_loop_finds_them(kind: str, columns: bool, as_shares: bool) -> None:
    rng = np.random.default_rng(3)
    first = 5 if kind == "yolov5" else 4
    rows = rng.random((500, first + 3))
    rows[:, :2] = rng.normal(0.5, 0.15, (500, 2)).clip(0, 1)
    rows[:, 2:4] = rng.uniform(0.2, 0.6, (500, 2))
    detector = vision.YoloDetector(kind, SIZE, 3, columns, most=40, threshold=0.4)
    pixels = rows.copy()
    pixels[:, :4] *= np.tile(SIZE[::-1], 2)
    array = np.float32(rows if as_shares else pixels)[np.newaxis]
    found = vision.read_detections([array.transpose(0, 2, 1) if columns else array], detector)
    expected = expected_of(pixels, first, detector)
    assert len(found) == len(expected) > 15
    for detection, (box, score, best) in zip(found, expected, strict=True):
        assert detection.class_index == best
        assert detection.score == pytest.approx(score, abs=1e-6)
        np.testing.assert_allclose(np.multiply(detection.box, np.tile(SIZE[::-1], 2)), box, 1e-4)


def test_8_bit_outputs_within_a_step() -> None:
    """An int8 output has one step for positions and scores."""
    rows = np.zeros((1, 84, CELLS), np.float32)
    rows[0, :4, :3] = np.transpose([(0.3, 0.4, 0.2, 0.3), (0.7, 0.5, 0.4, 0.2), (0.5, 0.9, 0.9, 0)])
    rows[0, [4 + 7, 4 + 9], [0, 1]] = 0.9, 0.6
    scale, zero = 1 / 255, -128
    stored = (rows / scale + zero).round().astype(np.int8)
    detector = vision.find_detector(PICTURE, [rows.shape], known(80))
    assert isinstance(detector, vision.YoloDetector)
    with pytest.raises(ValueError, match=r"expected real numbers, found \['int8'\]; see dequant"):
        vision.read_detections([stored], detector)
    found = vision.read_detections([vision.dequantize(stored, (scale, zero))], detector)
    for one, other in zip(found, vision.read_detections([rows], detector), strict=True):
        assert one.class_index == other.class_index
        assert one.score == pytest.approx(other.score, abs=scale)
        np.testing.assert_allclose(one.box, other.box, atol=scale)


def row_of(kind: str, box: Sequence[float], score: float, label: int, extra: Any = ()) -> Any:
    """Numbers of a box (left, top, right, bottom), of 3 classes."""
    left, top, right, bottom = box
    centered = [(left + right) / 2, (top + bottom) / 2, right - left, bottom - top]
    scores = [0.01] * 3
    scores[label] = score
    if kind == "yolox":
        return [0, label, score, *box]
    if kind.startswith("yolo26"):
        return [*(centered if "obb" in kind else box), score, label, *extra]
    return [*centered, *([1.0] if "v5" in kind else []), *scores, *extra]


@pytest.mark.parametrize("kind", [kind for kind, task in YOLO_KINDS.items() if task == "detect"])
def test_a_box_in_the_picture(kind: str) -> None:
    """A box of a letterboxed picture, back in the picture's pixels."""
    picture = (300, 400)
    detector = vision.YoloDetector(kind, SIZE, 3)
    # 400 columns become 64, and 300 rows become 48, from row 24 on, or from 0 on for YOLOX.
    top = 0 if kind == "yolox" else 24
    box = (16.0, top + 8.0, 48.0, top + 40.0)
    rows = [row_of(kind, (8 * i, 8 * i, 8 * i + 8, 8 * i + 9), 0.1, 0) for i in range(9)]
    array = np.float32([*rows, row_of(kind, box, 0.9, 2)])
    (found,) = vision.read_detections([array[np.newaxis]], detector)
    assert (found.class_index, found.score) == (2, pytest.approx(0.9))
    mapped = found.to_picture(detector.transform, picture, SIZE)
    np.testing.assert_allclose(np.multiply(mapped.box, (400, 300) * 2), (100, 50, 300, 250))
    if kind == "yolox":
        assert vision.read_detections([array], detector) == [found]


def test_a_letterbox_of_whole_pixels() -> None:
    """350 x 203 pixels in 64 x 64: 37.12 rows become 37, of which 13 are above and 14 below."""
    picture = np.full((203, 350, 3), 200, np.uint8)
    detector = vision.YoloDetector("yolov8", (64, 64), 3)
    seen = detector.transform.apply(picture, (64, 64))[0, :, 32, 0] * 255
    np.testing.assert_allclose(seen, [114] * 13 + [200] * 37 + [114] * 14, atol=1e-3)
    found = vision.Detection((0.0, 13 / 64, 1.0, 50 / 64), 0.9)
    mapped = found.to_picture(detector.transform, (203, 350), (64, 64))
    np.testing.assert_allclose(mapped.box, (0, 0, 1, 37 / 37.12), atol=1e-9)


def test_a_small_box_of_yolox_is_in_pixels() -> None:
    """YOLOX has no shares, which numbers up to 2 mean for the other kinds."""
    box = (0.25, 0.5, 0.75, 1.0)
    for kind, size in (("yolox", (64, 96)), ("yolo26", (1, 1))):
        array = np.float32([[row_of(kind, box, 0.9, 0)]])
        (found,) = vision.read_detections([array], vision.YoloDetector(kind, SIZE, 3))
        np.testing.assert_allclose(np.multiply(found.box, size * 2), box)


@pytest.mark.parametrize("kind", YOLO_KINDS)
def test_scores_exceed_the_threshold(kind: str) -> None:
    """As Ultralytics, which asks for more; 8-bit exports often have the threshold itself."""
    detector = vision.YoloDetector(kind, SIZE, 3, points=(1, 2), coefficients=1)
    extra = {"segment": [0.5], "pose": [5.0, 5.0], "obb": [0.0]}.get(detector.task, [])
    above = float(np.nextafter(np.float32(0.25), np.float32(1)))
    places = [(16 * i, 8, 16 * i + 8, 16) for i in range(3)]
    scores = (0.25, above, np.float32(0.2499))
    rows = [row_of(kind, box, s, 1, extra) for box, s in zip(places, scores, strict=True)]
    rows += [row_of(kind, places[0], 0.01, 0, extra)] * 3
    outputs = [np.float32([rows])]
    if detector.task == "segment":
        outputs.append(np.ones((1, SIZE[0] // 4, SIZE[1] // 4, 1), np.float32))
    (found,) = vision.read_detections(outputs, detector)
    assert found.score == above


def test_only_boxes_of_the_same_class_are_suppressed() -> None:
    rows = [row_of("yolov8", (10, 10, 40, 40), 0.9 - i / 10, i % 2) for i in range(4)]
    detector = vision.YoloDetector("yolov8", SIZE, 3)
    found = vision.read_detections([np.float32([rows])], detector)
    assert [(d.class_index, round(d.score, 1)) for d in found] == [(0, 0.9), (1, 0.8)]
    inside = [row_of("yolo26", (10, 10, 40, 40), 0.9 - i / 10, 1) for i in range(4)]
    inside[::2] = inside[2::-2]
    found = vision.read_detections([np.float32([inside])], vision.YoloDetector("yolo26", SIZE))
    assert [round(d.score, 1) for d in found] == [0.9, 0.8, 0.7, 0.6]
    few = vision.YoloDetector("yolo26", SIZE, most=2, threshold=0.65)
    assert vision.read_detections([np.float32([inside])], few) == found[:2]


def plain_mask(coefficients: Array, prototypes: Array, box: Array) -> Array:
    """Logits, pixel by pixel, at positions inside the box; the box in pixels of prototypes."""
    rows, columns, count = prototypes.shape
    left, top, right, bottom = box
    shape = (round(bottom - top), round(right - left))
    mask = np.zeros(shape)
    for i, j in np.ndindex(shape):
        y = min(max(top + (i + 0.5) / shape[0] * (bottom - top) - 0.5, 0), rows - 1)
        x = min(max(left + (j + 0.5) / shape[1] * (right - left) - 0.5, 0), columns - 1)
        for row, column in ((math.floor(y) + a, math.floor(x) + b) for a in (0, 1) for b in (0, 1)):
            weight = max(1 - abs(y - row), 0) * max(1 - abs(x - column), 0)
            if weight:
                logit = sum(coefficients[k] * prototypes[row, column, k] for k in range(count))
                mask[i, j] += weight * logit
    return 1 / (1 + np.exp(-mask))


@pytest.mark.parametrize("channels_first", [False, True])
@pytest.mark.parametrize("kind", ["yolov5-seg", "yolov8-seg", "yolo26-seg"])
def test_masks(kind: str, channels_first: bool) -> None:
    rng = np.random.default_rng(1)
    prototypes = rng.normal(0, 1, (24, 16, 5)).astype(np.float32)
    coefficients = rng.normal(0, 2, (2, 5)).astype(np.float32)
    boxes = [(7.5, 10, 41.25, 50), (50, 60, 70, 100)]  # the second one leaves the input
    rows = [row_of(kind, box, 0.9 - i / 10, i, coefficients[i]) for i, box in enumerate(boxes)]
    options = {"coefficients": 5, "channels_first": channels_first}
    detector = vision.YoloDetector(kind, SIZE, 3, **options)
    stored = np.moveaxis(prototypes, 2, 0) if channels_first else prototypes
    found = vision.read_detections([stored[np.newaxis], np.float32([rows])], detector)
    assert [d.class_index for d in found] == [0, 1]
    for detection, box, numbers in zip(found, boxes, coefficients, strict=True):
        np.testing.assert_allclose(np.multiply(detection.box, (64, 96) * 2), box, 1e-5)
        assert detection.mask is not None
        expected = plain_mask(numbers, prototypes, np.array(box) / 4)
        np.testing.assert_allclose(detection.mask, expected, atol=1e-5)


def test_a_mask_in_the_picture() -> None:
    """A disc, in a letterboxed picture of other proportions; also one turned by the transform."""
    size = (384, 256)
    y, x = np.indices(size) + 0.5
    disc = (np.hypot(x - 120, y - 200) < 56).reshape(96, 4, 64, 4).mean((1, 3))
    prototypes = np.float32(np.where(disc > 0.5, 1, -1))[np.newaxis, ..., np.newaxis]
    detector = vision.YoloDetector("yolo26-seg", size, coefficients=1)
    rows = np.float32([[row_of("yolo26-seg", (60, 140, 180, 260), 0.8, 0, [20])] * 2])
    (found, _) = vision.read_detections([rows, prototypes], detector)
    shown = (300, 400)
    for transform in (
        detector.transform,
        replace(detector.transform, rotation=90),
        replace(detector.transform, rotation=-30, flip_x=True),
    ):
        mapped = found.to_picture(transform, shown, size)
        assert mapped.mask is not None
        region = vision.region_of_detection(mapped, shown).transform
        mask = vision.mask_in_picture(mapped.mask, region, shown) > 0.5
        matrix = transform.affine(shown, size)
        pixels = np.indices(shown)[::-1].reshape(2, -1) + 0.5
        to_x, to_y = np.linalg.inv(matrix[:, :2]) @ (pixels - matrix[:, 2:])
        expected = (np.hypot(to_x - 120, to_y - 200) < 56).reshape(shown)
        assert (mask & expected).sum() / (mask | expected).sum() > 0.95


@pytest.mark.parametrize("as_shares", [True, False])
@pytest.mark.parametrize("numbers", [2, 3])
@pytest.mark.parametrize("kind", ["yolov8-pose", "yolo26-pose"])
def test_key_points(kind: str, numbers: int, as_shares: bool) -> None:
    """Their unit may differ from the boxes'."""
    rng = np.random.default_rng(2)
    points = rng.uniform(0, 1, (6, 5, numbers))
    extra = points.copy()
    extra[..., :2] *= 1 if as_shares else SIZE[::-1]
    rows = [
        row_of(kind, (10 * i, 20, 10 * i + 9, 40), 0.9 - i / 20, i % 3, extra[i].ravel())
        for i in range(6)
    ]
    detector = vision.YoloDetector(kind, SIZE, 3, points=(5, numbers))
    found = vision.read_detections([np.float32([rows])], detector)
    for detection, expected in zip(found, points, strict=True):
        np.testing.assert_allclose(detection.key_points, expected[:, :2], atol=1e-6)
        np.testing.assert_allclose(detection.key_point_scores, expected[:, 2:].ravel(), atol=1e-6)
    mapped = found[0].to_picture(ImageTransform(), (10, 10), SIZE)
    assert mapped.key_point_scores == found[0].key_point_scores


def plain_oriented_overlap(a: Array, b: Array) -> float:
    """From normal distributions: mean, covariance, and the Hellinger distance."""
    parts = []
    for x, y, width, height, angle in (a, b):
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        spread = turn @ np.diag([width**2 / 12, height**2 / 12]) @ turn.T
        parts.append((np.array([x, y]), spread))
    (mean, spread), (mean2, spread2) = parts
    between, away = (spread + spread2) / 2, mean - mean2
    det = np.linalg.det
    distance = away @ np.linalg.inv(between) @ away / 8
    distance += math.log(det(between) / math.sqrt(det(spread) * det(spread2))) / 2
    return 1 - math.sqrt(max(1 - math.exp(-distance), 0))


def oriented_boxes(count: int) -> Array:
    rng = np.random.default_rng(5)
    centers = rng.normal((32, 48), 8, (count, 2))
    sides = rng.uniform(10, 30, (count, 2))
    return np.column_stack([centers, sides, rng.uniform(-0.8, 2.4, count)])


def test_overlaps_of_oriented_boxes() -> None:
    boxes = oriented_boxes(20)
    actual = oriented_overlaps(boxes, boxes[:7])
    expected = [[plain_oriented_overlap(a, b) for b in boxes[:7]] for a in boxes]
    np.testing.assert_allclose(actual, expected, atol=1e-6)
    np.testing.assert_allclose(actual[range(7), range(7)], 1, atol=1e-6)
    # A quarter turn of exchanged sides is the same box.
    turned = boxes[:, [0, 1, 3, 2, 4]] + [0, 0, 0, 0, math.pi / 2]
    np.testing.assert_allclose(oriented_overlaps(turned, boxes[:7]), actual, atol=1e-6)
    odd = [(0, 0, 0, 5, 0), (NAN, 0, 1, 1, 0), (0, 0, INF, 1, 0), (0, 0, 1e200, 1e200, 1)]
    assert not oriented_overlaps(np.array(odd), np.array([*odd, boxes[0]])).any()


@pytest.mark.parametrize("as_shares", [True, False])
def test_oriented_boxes_as_a_plain_loop_finds_them(as_shares: bool) -> None:
    """A box is left out if any better box of its class overlaps it."""
    boxes = oriented_boxes(300)
    rng = np.random.default_rng(6)
    scores = rng.uniform(0.1, 1, (300, 2))
    detector = vision.YoloDetector("yolov8-obb", SIZE, 2, True, overlap=0.4, most=25)
    unit = np.array(SIZE[::-1]) if as_shares else np.ones(2)
    places = boxes[:, :4] / np.tile(unit, 2)
    array = np.float32(np.column_stack([places, scores, boxes[:, 4]]).T)[np.newaxis]
    found = vision.read_detections([array], detector)
    best, labels = scores.max(1), scores.argmax(1)
    order = [i for i in np.argsort(-best) if best[i] >= detector.threshold]
    expected = [
        i
        for place, i in enumerate(order)
        if not any(
            labels[i] == labels[j] and plain_oriented_overlap(boxes[i], boxes[j]) >= 0.4
            for j in order[:place]
        )
    ]
    assert 10 < len(expected) <= 25
    assert [round(d.score, 5) for d in found] == [round(float(best[i]), 5) for i in expected]
    for detection, i in zip(found, expected, strict=True):
        x, y, width, height, angle = boxes[i]
        region = vision.region_of_detection(detection, SIZE)
        np.testing.assert_allclose(region.center, (x, y), atol=1e-3)
        np.testing.assert_allclose((region.width, region.height), (width, height), atol=1e-3)
        turn = (region.rotation - math.degrees(angle) + 180) % 360 - 180
        assert turn == pytest.approx(0, abs=1e-2)
        corners = np.array(detection.corners)
        np.testing.assert_allclose(detection.box, [*corners.min(0), *corners.max(0)])


def test_an_oriented_box_in_the_picture() -> None:
    """Corners move with the picture, and so does the rotation, clockwise."""
    rows = np.float32([[row_of("yolo26-obb", (20, 43, 44, 53), 0.9, 1, [math.pi / 6])] * 2])
    detector = vision.YoloDetector("yolo26-obb", SIZE)
    (found, _) = vision.read_detections([rows], detector)
    shown = (300, 400)
    mapped = found.to_picture(detector.transform, shown, SIZE)
    region = vision.region_of_detection(mapped, shown)
    np.testing.assert_allclose(region.center, (200, 150), rtol=1e-5)
    assert (region.width, region.height) == (pytest.approx(150), pytest.approx(62.5))
    assert region.rotation == pytest.approx(30)
    assert mapped.corners[1][1] > mapped.corners[0][1]  # down to the right
    left, top, right, bottom = np.multiply(mapped.box, (400, 300) * 2)
    along, across = 75, 31.25
    half = along * math.cos(math.pi / 6) + across * 0.5
    assert (right - left) / 2 == pytest.approx(half, rel=1e-5)
    assert (bottom - top) / 2 == pytest.approx(along * 0.5 + across * math.cos(math.pi / 6), 1e-5)
    turned = found.to_picture(replace(detector.transform, rotation=90), shown, SIZE)
    assert vision.region_of_detection(turned, shown).rotation == pytest.approx(120)


@pytest.mark.parametrize("kind", YOLO_KINDS)
def test_numbers_that_are_not_finite(kind: str) -> None:
    """They leave out their box, and no other."""
    detector = vision.YoloDetector(kind, SIZE, 3)
    extra = np.full(detector.numbers, 0.5)
    width = detector.numbers - len(row_of(kind, (0, 0, 1, 1), 0.5, 0))
    rows = [row_of(kind, (10, 10, 30, 40), 0.9, 1, extra[:width])]
    for place in range(detector.numbers):
        for number in (NAN, INF, -INF):
            rows.append(list(rows[0]))
            rows[-1][place] = number
    prototypes = [np.full((1, 24, 16, 32), number) for number in (NAN, INF, 0.0)]
    for masks in prototypes if "seg" in kind else [None]:
        outputs = [np.float32([rows]), *([] if masks is None else [np.float32(masks)])]
        found = vision.read_detections(outputs, detector)
        alone = vision.read_detections([outputs[0][:, :1], *outputs[1:]], detector)
        # The batch of YOLOX's boxes is not read.
        assert found == alone * (4 if kind == "yolox" else 1)
        assert all(d.mask is None or np.isfinite(d.mask).all() for d in found)


@pytest.mark.parametrize("kind", YOLO_KINDS)
def test_no_boxes_at_all(kind: str) -> None:
    detector = vision.YoloDetector(kind, SIZE, 3)
    masks = [np.zeros((1, 24, 16, 32), np.float32)] if "seg" in kind else []
    rows = np.zeros((1, 0, detector.numbers), np.float32)
    assert vision.read_detections([rows, *masks], detector) == []
    zeros = np.zeros((1, 9, detector.numbers), np.float32)
    assert vision.read_detections([zeros, *masks], detector) == []


@pytest.mark.parametrize(
    "outputs",
    [
        [],
        [np.zeros((1, 7, 9), np.float32)],
        [np.zeros((2, 9, 7), np.float32)],
        [np.zeros((9, 7), np.float32)],
        [np.zeros((1, 9, 7), np.float32)] * 2,
        [np.zeros((1, 9, 7), np.float32), np.zeros(3, np.float32)],
        [np.zeros((1, 9, 7), np.float32), np.zeros((1, 24, 16, 32), np.float32)],
    ],
)
def test_outputs_of_another_network(outputs: list[Array]) -> None:
    detector = vision.YoloDetector("yolov8", SIZE, 3)
    with pytest.raises(ValueError, match="expected the outputs of yolov8 of 3 classes, with 7 num"):
        vision.read_detections(outputs, detector)


@pytest.mark.parametrize(("kind", "place"), [("yolov8", 4), ("yolo26", 4), ("yolo26", 5)])
def test_scores_and_classes_that_cannot_be_any(kind: str, place: int) -> None:
    rows = np.float32([[row_of(kind, (10, 10, 40, 40), 0.9, 1)] * 9])
    rows[0, :, place] = 7.5
    with pytest.raises(ValueError, match=r"expected scores of 0 to 1 .* name another kind"):
        vision.read_detections([rows], vision.YoloDetector(kind, SIZE, 3))


def test_a_class_past_the_last_one_is_none() -> None:
    rows = np.float32([[row_of("yolo26", (i, i, i + 9, i + 9), 0.9, 2) for i in (10, 30, 50)]])
    rows[0, 1, 5] = 3
    found = vision.read_detections([rows], vision.YoloDetector("yolo26", SIZE, 3))
    assert [(d.class_index, round(d.box[0] * SIZE[1])) for d in found] == [(2, 10), (2, 50)]


def test_scores_that_round() -> None:
    """All boxes have full scores, some of them a little more."""
    rows = np.float32([[row_of("yolov8", (i, i, i + 9, i + 9), 1, 2) for i in range(20, 60, 4)]])
    rows[0, :3, 6] = 1.004
    found = vision.read_detections([rows], vision.YoloDetector("yolov8", SIZE, 3))
    assert [d.score for d in found] == [1.0] * len(found)
    assert len(found) == 10
    rows[0, :3, 6] = 1.02
    assert len(vision.read_detections([rows], vision.YoloDetector("yolov8", SIZE, 3))) == 7


def test_labels_do_not_hide_classes_of_networks_with_suppression_inside() -> None:
    detector = vision.find_detector(PICTURE, [(1, 300, 6)], known(2))
    rows = np.float32([[(10, 10, 40, 40, 0.9, 7)] * 2])
    assert [d.class_index for d in vision.read_detections([rows], detector)] == [7, 7]


@pytest.mark.parametrize(("kind", "count"), [("yolov5", 25200), ("yolov8-obb", 21504)])
def test_thousands_of_boxes_in_reasonable_time(kind: str, count: int) -> None:
    """All with the same score, and most of them in one place."""
    detector = vision.YoloDetector(kind, (640, 640), 80)
    rows = np.full((1, count, detector.numbers), 0.9, np.float32)
    rows[0, :, :2] = np.random.default_rng(0).uniform(0, 1, (count, 2))
    start = time.process_time()
    found = vision.read_detections([rows], detector)
    assert time.process_time() - start < scaled(15)
    assert 1 <= len(found) <= 300
    rows[0, :, 2:4] = 0.001
    assert len(vision.read_detections([rows], detector)) == 300
    assert time.process_time() - start < scaled(30)
