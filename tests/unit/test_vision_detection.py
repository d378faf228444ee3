"""Anchors, boxes and suppression, by hand."""

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gles_apps import vision
from gles_apps.vision.detection import (
    FACE_DETECTOR_FULL_RANGE,
    POSE_DETECTOR_128,
    AnchorOptions,
    PyramidAnchorOptions,
    box_overlaps,
    decode_boxes,
    detect,
    select_detections,
    sigmoid,
    ssd_anchors,
    ssd_mobilenet,
    ssd_mobilenet_fpn,
)
from gles_delegate import ImageTransform
from gles_delegate.model.metadata import TensorMetadata
from gles_delegate.model.reader import read_model
from gles_delegate.planning.outputs import read_metadata
from tests.support.speed import scaled
from tests.support.tflite_builder import ModelBuilder

NAN, INF = float("nan"), float("inf")


def found(left: float, score: float, class_index: int = 0) -> vision.Detection:
    box = (left, 0.0, left + 0.4, 0.4)
    return vision.Detection(box, score, class_index, ((left, 0.0), (left + 0.4, 0.4)))


@pytest.mark.parametrize(
    ("detector", "count"),
    [
        (vision.FACE_DETECTOR, 896),
        (vision.PALM_DETECTOR, 2016),
        (vision.POSE_DETECTOR, 2254),
        (POSE_DETECTOR_128, 896),
    ],
)
def test_anchors_of_presets(detector: vision.Detector, count: int) -> None:
    anchors = ssd_anchors(detector.anchors)
    assert anchors.shape == (count, 4)
    step = 8 / detector.anchors.size[1]
    # Two for each place of the first grid.
    np.testing.assert_allclose(
        anchors[:3, :2], np.array([[1, 1], [1, 1], [3, 1]]) * step / 2, atol=1e-6
    )
    assert (anchors[:, 2:] == 1).all()


def test_anchors_of_the_full_range_face_detector() -> None:
    """One in the middle of each square of 4x4 pixels, as large as the picture."""
    anchors = ssd_anchors(FACE_DETECTOR_FULL_RANGE.anchors)
    y, x = (np.indices((48, 48)).reshape(2, -1) + 0.5) / 48
    np.testing.assert_allclose(anchors, np.stack([x, y, x * 0 + 1, x * 0 + 1], 1), atol=1e-6)


MOBILE_SSD = ssd_mobilenet((300, 300))
PYRAMID_SSD = ssd_mobilenet_fpn((320, 320))


def test_anchors_of_ssd_mobilenet() -> None:
    anchors = ssd_anchors(MOBILE_SSD.anchors)
    # 19^2 places of three, then 10^2, 5^2, 3^2, 2^2 and 1 of six.
    assert anchors.shape == (19**2 * 3 + (100 + 25 + 9 + 4 + 1) * 6, 4)
    center = 0.5 / 19
    shapes = [(0.1, 0.1), (0.282843, 0.141421), (0.141421, 0.282843)]  # MediaPipe's golden file
    np.testing.assert_allclose(anchors[:3], [(center, center, *s) for s in shapes], atol=1e-5)
    last = [(0.95, 0.95), (0.95 * 2**0.5, 0.95 / 2**0.5)]
    np.testing.assert_allclose(anchors[-6:-4, 2:], last, atol=1e-5)
    np.testing.assert_allclose(anchors[-1], [0.5, 0.5, 0.95**0.5, 0.95**0.5], atol=1e-5)


def test_anchors_of_an_odd_size_and_of_one_layer() -> None:
    options = AnchorOptions((17, 30), (8,), 0.2, 0.6, interpolated_aspect_ratio=0)
    anchors = ssd_anchors(options)
    assert anchors.shape == (3 * 4, 4)
    np.testing.assert_allclose(anchors[-1], [3.5 / 4, 2.5 / 3, 0.4, 0.4], atol=1e-6)


@pytest.mark.parametrize("change", [{"strides": ()}, {"strides": (8, 0)}, {"size": (0, 8)}])
def test_anchors_that_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected strides"):
        replace(MOBILE_SSD.anchors, **change)


def test_anchors_of_a_pyramid() -> None:
    options = PyramidAnchorOptions((32, 48), (4, 5), 2.0, (1.0, 4.0), 1)
    anchors = ssd_anchors(options)
    assert anchors.shape == ((2 * 3 + 1 * 2) * 2, 4)
    # 32 does not divide 48: the second level's anchors start at the left side.
    by_hand = [(8, 8, 32, 32), (8, 8, 64, 16), (0, 16, 64, 64)]
    actual = anchors[[0, 1, -4]] * (48, 32, 48, 32)
    np.testing.assert_allclose(actual, by_hand, atol=1e-5)


@pytest.mark.parametrize("change", [{"levels": (5, 4)}, {"size": (0, 8)}, {"scales_per_octave": 0}])
def test_pyramids_that_cannot_be(change: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected rising levels"):
        replace(PYRAMID_SSD.anchors, **change)


ANCHORS = np.array([[0.5, 0.25, 0.2, 0.1]])


def test_boxes_are_decoded() -> None:
    raw = np.array([[10.0, 20.0, 50.0, 100.0, -10.0, 0.0]])
    boxes, points = decode_boxes(raw, ANCHORS, (100, 100, 100, 100))
    np.testing.assert_allclose(boxes, [[0.47, 0.22, 0.57, 0.32]])
    np.testing.assert_allclose(points, [[[0.48, 0.25]]])
    swapped = raw[:, [1, 0, 3, 2, 5, 4]]
    for a, b in zip(
        decode_boxes(swapped, ANCHORS, (100, 100, 100, 100), y_first=True),
        (boxes, points),
        strict=True,
    ):
        np.testing.assert_array_equal(a, b)


def test_sizes_are_logarithms() -> None:
    raw = np.array([[0.0, 0.0, 5 * np.log(2), 0.0]])
    boxes, points = decode_boxes(raw, ANCHORS, (10, 10, 5, 5), exponential=True)
    np.testing.assert_allclose(boxes, [[0.3, 0.2, 0.7, 0.3]])
    assert points.shape == (1, 0, 2)


@pytest.mark.parametrize("shape", [(2, 4), (1, 5), (1, 2), (4,)])
def test_boxes_of_another_shape(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="expected boxes"):
        decode_boxes(np.zeros(shape), ANCHORS, (1, 1, 1, 1))


def test_boxes_that_are_not_finite_are_left_out() -> None:
    boxes, scores = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -9, np.float32)
    boxes[..., 2:4], scores[0, :3] = 20, 9
    boxes[0, 1, 0], boxes[0, 1, 2], boxes[0, 2, 5] = INF, INF, -INF
    (one,) = detect(boxes, scores, vision.FACE_DETECTOR)
    assert one.is_finite
    mapped = vision.Detection((0, 0, 1e308, 1), 0.5).to_picture(ImageTransform(), (9, 9), (99, 99))
    assert not mapped.is_finite


def test_scores_are_clipped() -> None:
    scores = sigmoid(np.array([0.0, 1e9, -1e9, np.log(3)], np.float32))
    np.testing.assert_allclose(scores, [0.5, 1, 0, 0.75], atol=1e-7)


def test_what_is_no_detection_is_left_out() -> None:
    boxes = np.tile([0.1, 0.1, 0.3, 0.3], (7, 1))
    scores = np.tile([0.2, 0.9], (7, 1))
    points = np.zeros((7, 1, 2))
    boxes[0, 1], boxes[1, 2], boxes[2, 0] = NAN, INF, 0.4  # the last of negative width
    scores[3, 0], scores[4, 1], points[5] = NAN, 0.49, NAN
    (detection,) = select_detections(boxes, scores, points)
    assert detection == vision.Detection((0.1, 0.1, 0.3, 0.3), 0.9, 1, ((0.0, 0.0),))
    assert select_detections(np.empty((0, 4)), np.empty((0, 2)), np.empty((0, 0, 2))) == []


def test_overlaps() -> None:
    boxes = np.array([[0, 0, 2, 2], [1, 1, 3, 3], [5, 5, 6, 6], [0, 0, 0, 0]])
    np.testing.assert_allclose(box_overlaps((0, 0, 2, 2), boxes), [1, 1 / 7, 0, 0])
    assert box_overlaps((1, 1, 1, 1), np.array([[1, 1, 1, 1]])) == 0


def test_suppression_takes_the_best_of_a_group() -> None:
    near, best, far = found(0.1, 0.5), found(0.0, 0.8), found(1.0, 0.6)
    assert vision.suppress([near, far, best]) == [best, far]
    assert vision.suppress([near, far, best], most=1) == [best]
    assert vision.suppress([near, far, best], overlap=0.7) == [best, far, near]
    assert vision.suppress([]) == []


def test_classes_suppress_apart() -> None:
    first, second = found(0.0, 0.8, 1), found(0.0, 0.7, 2)
    assert vision.suppress([first, second], by_class=True) == [first, second]
    assert vision.suppress([first, second]) == [first]


def test_weighted_suppression_takes_means() -> None:
    (one,) = vision.suppress([found(0.1, 0.25), found(0.0, 0.75, 3)], weighted=True)
    assert (one.score, one.class_index) == (0.75, 3)
    np.testing.assert_allclose(one.box, (0.025, 0, 0.425, 0.4))
    np.testing.assert_allclose(one.key_points, ((0.025, 0), (0.425, 0.4)))


def test_boxes_of_no_area_and_no_score_are_kept() -> None:
    dots = [vision.Detection((x, 0, x, 0), 0.0) for x in (0.1, 0.1, 0.2)]
    assert vision.suppress(dots, weighted=True) == dots


def test_boxes_without_classes() -> None:
    assert select_detections(np.zeros((3, 4)), np.zeros((3, 0)), 0.5) == []


def test_scores_of_nan_are_refused() -> None:
    with pytest.raises(ValueError, match="found NaN"):
        vision.suppress([found(0, NAN)])


def test_a_letterbox_is_removed() -> None:
    # 400 x 200 in a square: a band of a quarter above and below.
    seen = vision.Detection((0.25, 0.25, 0.75, 0.5), 0.9, 0, ((0.5, 0.75),))
    mapped = seen.to_picture(ImageTransform(fit="letterbox"), (200, 400), (100, 100))
    np.testing.assert_allclose(mapped.box, (0.25, 0, 0.75, 0.5), atol=1e-9)
    np.testing.assert_allclose(mapped.key_points, ((0.5, 1),), atol=1e-9)


def test_outputs_of_another_network() -> None:
    boxes, scores = np.zeros((1, 896, 16)), np.full((1, 896, 1), -9.0)
    assert detect(boxes, scores, vision.FACE_DETECTOR) == []
    for a, b in ((boxes, scores[0]), (np.zeros((2, 896, 16)), scores), (boxes[..., :12], scores)):
        with pytest.raises(ValueError, match="expected boxes"):
            detect(a, b, vision.FACE_DETECTOR)


@pytest.mark.parametrize(
    ("detector", "scores"),
    [
        (vision.FACE_DETECTOR, 1),
        (FACE_DETECTOR_FULL_RANGE, 1),
        (vision.PALM_DETECTOR, 1),
        (vision.POSE_DETECTOR, 1),
        (POSE_DETECTOR_128, 1),
        (MOBILE_SSD, 91),
        (MOBILE_SSD, 4),
        (PYRAMID_SSD, 9),
    ],
)
def test_presets_are_found_by_shapes(detector: vision.Detector, scores: int) -> None:
    count = len(ssd_anchors(detector.anchors))
    shapes = [(1, count, scores), (1, count, 4 + 2 * detector.key_points)]
    for order in (shapes, shapes[::-1]):
        assert vision.find_detector((1, *detector.anchors.size, 3), order) == detector


def test_networks_that_need_no_preset_and_that_have_none() -> None:
    assert vision.find_detector((1, 300, 300, 3), [(1, 10, 4), (1, 10), (1, 10), (1,)]) is None
    for shapes in ([(1, 896, 16)], [(1, 896, 16), (1, 800, 1)], [(1, 896, 14), (1, 896, 1)]):
        with pytest.raises(ValueError, match="expected the outputs of a detector"):
            vision.find_detector((1, 128, 128, 3), shapes)


def test_outputs_in_any_order() -> None:
    """One box of a TensorFlow SSD: its place as its first anchor, its scores as logits or not."""
    boxes, logits = np.zeros((1, 1917, 1, 4)), np.full((1, 1917, 3), -9.0)
    logits[0, 0] = (5, 1, 2)  # the first one is the background's
    expected = ssd_anchors(MOBILE_SSD.anchors)[0]
    shares = (sigmoid(logits), boxes)
    for outputs, are_logits in (((boxes, logits), True), (shares, False)):
        detector = replace(MOBILE_SSD, threshold=0.8, logits=are_logits)
        (one,) = vision.read_detections(outputs, detector)
        assert one.class_index == 1
        assert one.score == pytest.approx(1 / (1 + np.exp(-2)))
        left, top, right, bottom = one.box
        np.testing.assert_allclose(
            ((left + right) / 2, (top + bottom) / 2, right - left, bottom - top), expected
        )
    for wrong in ((boxes,), (boxes, boxes), (boxes, logits[:, 1:])):
        with pytest.raises(ValueError, match="expected boxes"):
            vision.read_detections(wrong, MOBILE_SSD)


def one_box(scores: Any) -> list[Any]:
    """The outputs of an SSD of 1917 anchors, of which the first has these scores, others none."""
    all_scores = np.zeros((1, 1917, 3), np.float32)
    all_scores[0, 0] = scores
    return [np.zeros((1, 1917, 4), np.float32), all_scores]


@pytest.mark.parametrize("odd", [1.0000001, -1e-9, 1.005, NAN, INF, -INF])
def test_odd_scores_are_limited(odd: float) -> None:
    outputs = one_box((0, 0.9, 0))
    outputs[1][0, 7, 2] = odd
    detector = replace(ssd_mobilenet((300, 300)), logits=False)
    actual = vision.read_detections(outputs, detector)
    assert [d.score for d in actual if d.class_index == 0] == [pytest.approx(0.9)]
    assert [d.score for d in actual if d.class_index == 1] == ([1.0] if 1 < odd < 2 else [])


def test_a_detector_remembers_nothing() -> None:
    """Whatever it has seen before, the same scores give the same detections."""
    detector, fresh = ssd_mobilenet((300, 300)), ssd_mobilenet((300, 300))
    picture, other = one_box((0, 0.9, -9)), one_box((0, 0.9, 0.1))
    picture[1][0, 1:] = -9
    vision.read_detections(other, detector)
    assert vision.read_detections(picture, detector) == vision.read_detections(picture, fresh)
    assert vars(detector).keys() - {"_anchors"} == vars(fresh).keys() - {"_anchors"}


def scores_made_by(*ops: str) -> bool | None:
    builder = ModelBuilder()
    x = builder.input((1, 4, 3))
    for op in ops:
        inputs = [x, x] if op in ("ADD", "CONCATENATION", "MUL") else [x]
        x = builder.op(op, inputs, [(1, 4 * len(inputs) if op == "CONCATENATION" else 4, 3)])
    return read_metadata(read_model(builder.build([x]))).outputs[0].is_share


def test_the_op_that_makes_scores_says_what_they_are() -> None:
    assert scores_made_by("ADD", "LOGISTIC", "SQUEEZE") is True
    assert scores_made_by("SOFTMAX", "RESHAPE", "CONCATENATION") is True
    assert scores_made_by("LOGISTIC", "ADD", "RESHAPE", "CONCATENATION") is False
    assert scores_made_by("LOGISTIC", "QUANTIZE", "GATHER", "SPLIT_V", "DEQUANTIZE") is True
    assert scores_made_by("LOGISTIC", "MUL") is None
    assert scores_made_by("RESHAPE") is None
    shapes = [(1, 1917, 4), (1, 1917, 91)]
    for is_share in (True, False, None):
        known = (TensorMetadata(), TensorMetadata(is_share=is_share))
        detector = vision.find_detector((1, 300, 300, 3), shapes, known)
        assert detector is not None
        assert detector.logits == (not is_share)


def test_postprocessed_scores_that_round_or_are_no_numbers() -> None:
    scores = np.array([[1.0000001, 0.6, NAN]])
    outputs = [BOXES, CLASSES, scores, np.array([3.0])]
    assert [d.score for d in vision.read_detections(outputs, None)] == [1.0, 0.6]


def test_thousands_of_boxes_are_suppressed_in_reasonable_time() -> None:
    """Boxes that do not overlap, all with scores: 12 804 of them took half a minute."""
    boxes = [vision.Detection((i, 0, i + 0.9, 1), 0.5 + i / 30000) for i in range(12804)]
    start = time.process_time()
    kept = vision.suppress(boxes)
    assert time.process_time() - start < scaled(15)
    assert kept == boxes[:-5001:-1]
    assert len(vision.suppress(boxes, candidates=7)) == 7


@pytest.mark.parametrize("box", [(-1e200, -1e200, 1e200, 1e200), (0, 0, INF, INF), (NAN, 0, 1, 1)])
def test_boxes_of_no_finite_area_overlap_nothing(box: Any) -> None:
    others = np.array([(0, 0, 1, 1), box])
    np.testing.assert_array_equal(box_overlaps(box, others), [0, 0])
    np.testing.assert_array_equal(box_overlaps((0, 0, 1, 1), others), [1, 0])


BOXES = np.array([[[0.1, 0.2, 0.3, 0.4], [0.0, 0.0, 0.5, 1.0], [0.0, 0.0, 0.0, 0.0]]])
CLASSES, SCORES = np.array([[7.0, 0.0, 0.0]]), np.array([[0.6, 0.55, 0.0]])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (2, 0, 3, 1), (3, 2, 1, 0)])
def test_postprocessed_outputs(order: tuple[int, ...]) -> None:
    outputs = [BOXES, CLASSES, SCORES, np.array([2.0])]
    first, second = vision.read_detections([outputs[i] for i in order], None)
    assert first == vision.Detection((0.2, 0.1, 0.4, 0.3), 0.6, 7)
    assert second == vision.Detection((0.0, 0.0, 1.0, 0.5), 0.55, 0)
    assert vision.read_detections([outputs[i] for i in order], None, threshold=0.58) == [first]
    outputs[3] = np.array([0.0])
    assert vision.read_detections([outputs[i] for i in order], None) == []


def test_classes_and_scores_that_look_alike() -> None:
    """TensorFlow 1 lists classes first, TensorFlow 2 lists scores first."""
    classes, scores, count = np.array([[0.0, 1.0]]), np.array([[1.0, 1.0]]), np.array([2.0])
    for outputs in ([BOXES[:, :2], classes, scores, count], [scores, BOXES[:, :2], count, classes]):
        assert [d.class_index for d in vision.read_detections(outputs, None)] == [0, 1]


@pytest.mark.parametrize(
    "outputs",
    [
        [BOXES, CLASSES, SCORES],
        [BOXES, CLASSES, SCORES[:, :2], np.array([2.0])],
        [BOXES, CLASSES, CLASSES, np.array([2.0])],
        [BOXES, SCORES * 2, SCORES, np.array([2.0])],
        [BOXES, CLASSES, SCORES, np.array([2.0, 1.0])],
    ],
)
def test_outputs_that_are_not_postprocessed(outputs: list[Any]) -> None:
    with pytest.raises(ValueError, match="expected boxes"):
        vision.read_detections(outputs, None)
