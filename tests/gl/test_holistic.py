"""`HolisticLandmarker` beside MediaPipe's rules, with twins of its networks."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.batch.results import FIELDS
from gles_apps.tasks.options import ImageProcessingOptions, VisionTaskRunningMode
from gles_apps.vision import holistic
from gles_apps.vision.drawing import Drawing
from tests.support.bundles import aligned_bundle
from tests.support.fake_networks import fake_bundle, holistic_bundle, plausible

Holistic, Options = mp.vision.HolisticLandmarker, mp.vision.HolisticLandmarkerOptions
VIDEO = VisionTaskRunningMode.VIDEO
CPU = mp.BaseOptions.Delegate.CPU
SIZE = (240, 320)
FACE = plausible("face_landmarks_detector.tflite", np.random.default_rng(6))
RECROP = [np.float32([[[[120, 130, 125, 230]]]])]
PALMS = {"left": (15, 17, 19), "right": (16, 18, 20)}
"""Wrist, little finger and index finger."""


def hand_outputs() -> list[Any]:
    """A hand that is upright in its region."""
    x, y = np.random.default_rng(4).uniform((80, 100), (144, 180), (21, 2)).T
    for i, at in {0: (112, 180), 1: (72, 170), 2: (152, 170), 5: (92, 100), 9: (112, 100)}.items():
        x[i], y[i] = at
    x[13], y[13] = 132, 100
    outputs = plausible("hand_landmarks_detector.tflite", np.random.default_rng(5))
    outputs[0][0] = np.column_stack([x, y, np.zeros(21)]).ravel()
    return outputs


def body_outputs(left_wrist: float = 3) -> list[Any]:
    """A visible body that fills its region, which stays the same in a video.

    Args:
        left_wrist: The wrist's visibility, before the sigmoid.
    """
    outputs = plausible("pose_landmarks_detector.tflite", np.random.default_rng(1))
    points = outputs[0].reshape(39, 5)
    points[33:35, :2] = (128, 128), (128, 128 - 128 / 1.25)
    points[:, 3] = 3
    points[15, 3] = left_wrist
    outputs[3][:] = -9  # heat maps that move no point
    return outputs


def face_outputs() -> list[Any]:
    """One detection, of six key points around the middle of the region."""
    boxes, scores = np.zeros((1, 896, 16), np.float32), np.full((1, 896, 1), -9, np.float32)
    anchor = 2 * (8 * 16 + 8)
    scores[0, anchor] = 3
    boxes[0, anchor] = (0, 0, 40, 40, -20, -12, 18, -8, 1, 4, 0, 18, -30, 2, 28, 6)
    return [boxes, scores]


CHANGED = {
    "pose_landmarks_detector.tflite": body_outputs(),
    "hand_landmarks_detector.tflite": hand_outputs(),
    "face_detector.tflite": face_outputs(),
    "hand_roi_refinement.tflite": RECROP,
    "face_landmarks_detector.tflite": FACE,
}


@pytest.fixture(scope="module")
def bundle() -> bytes:
    return holistic_bundle(np.random.default_rng(1), **CHANGED)


@pytest.fixture
def picture() -> mp.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    return mp.Image(mp.ImageFormat.SRGB, pixels)


def plain(value: int) -> mp.Image:
    return mp.Image(mp.ImageFormat.SRGB, np.full((*SIZE, 3), value, np.uint8))


def landmarker(bundle: bytes, delegate: Any = None, **options: Any) -> Any:
    base = mp.BaseOptions(model_asset_buffer=bundle, delegate=delegate)
    return Holistic.create_from_options(Options(base, **options))


def pixels(points: Any) -> Any:
    """Points of a result as complex numbers, in pixels."""
    return np.array([p.x * SIZE[1] + 1j * p.y * SIZE[0] for p in points])


class Square:
    """A square in the picture: its center, its side, and its direction to the right."""

    def __init__(self, center: complex, side: float, right: complex) -> None:
        self.center, self.side, self.right = center, side, right / abs(right)

    def places(self, points: Any, size: int) -> Any:
        """Where points [n, 2] of a network of this size are in the picture."""
        inside = (np.asarray(points) @ (1, 1j)) / size - (0.5 + 0.5j)
        return self.center + self.side * inside * self.right


def around(center: complex, end: complex, scale: float) -> Square:
    """The square of the circle around a point through an end that is below it."""
    down = end - center
    return Square(center - 0.2 * down, 2 * abs(down) * scale, down / 1j)


def box(points: Any) -> tuple[complex, float]:
    """The middle and the longer side of a box."""
    low, high = (f(points.real) + 1j * f(points.imag) for f in (np.min, np.max))
    return (low + high) / 2, max((high - low).real, (high - low).imag)


def hand_square(body: Any, side: str) -> Square:
    wrist, little, index = body[list(PALMS[side])]
    coarse = around((2 * index + little) / 3, wrist, 2.7)
    return around(*coarse.places(RECROP[0].reshape(2, 2), 256), 1.0)


def tracked_square(hand: Any, right: complex) -> Square:
    """From points of the twin's hand, whose wrist is below its fingers."""
    upright = hand[[0, 1, 2, 3, 5, 6, 9, 10, 13, 14, 17, 18]] / right
    low, high = (f(upright.real) + 1j * f(upright.imag) for f in (np.min, np.max))
    extent = high - low
    center = ((low + high) / 2 - 0.1j * extent.imag) * right
    return Square(center, 2 * max(extent.real, extent.imag), right)


def face_square(body: Any) -> Square:
    middle, side = box(body[:11])
    region = Square(middle, 3 * side, body[2] - body[5])
    key_points = np.reshape(face_outputs()[0][0, 2 * (8 * 16 + 8), 4:], (6, 2)) + 68
    at = region.places(key_points, 128)
    middle, side = box(at)
    return Square(middle, 2 * side, at[1] - at[0])


def require_hands(result: Any, squares: dict[str, Square]) -> None:
    outputs = hand_outputs()[0].reshape(21, 3)[:, :2]
    for side, square in squares.items():
        points = pixels(getattr(result, f"{side}_hand_landmarks"))
        np.testing.assert_allclose(
            points, square.places(outputs, 224), atol=2e-4 * square.side, rtol=0
        )


@pytest.mark.parametrize("delegate", [None, CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("degrees", [0, 90])
def test_parts_are_where_the_body_says(
    bundle: bytes, picture: mp.Image, delegate: Any, degrees: int
) -> None:
    with landmarker(bundle, delegate, output_face_blendshapes=True) as task:
        result = task.detect(picture, ImageProcessingOptions(rotation_degrees=degrees))
    body = pixels(result.pose_landmarks)
    require_hands(result, {side: hand_square(body, side) for side in PALMS})
    face, square = pixels(result.face_landmarks), face_square(body)
    expected = square.places(FACE[0].reshape(478, 3)[:, :2], 192)
    np.testing.assert_allclose(face, expected, atol=2e-4 * square.side, rtol=0)
    assert len(result.face_blendshapes) == 52
    assert result.segmentation_mask is None


def test_hands_in_meters_are_at_the_wrists(bundle: bytes, picture: mp.Image) -> None:
    with landmarker(bundle) as task:
        result = task.detect(picture)
    for side, (wrist, *_) in PALMS.items():
        hand, body = getattr(result, f"{side}_hand_world_landmarks"), result.pose_world_landmarks
        for axis in "xyz":
            assert getattr(hand[0], axis) == pytest.approx(getattr(body[wrist], axis), abs=1e-6)


def test_a_video_keeps_steady_regions_until_the_body_is_lost(bundle: bytes) -> None:
    with landmarker(
        bundle, running_mode=VIDEO, min_pose_landmarks_confidence=0.905
    ) as task:  # the twin's presence is 0.9 in black and 0.91 in white pictures
        frames = [plain(255), plain(255), plain(0), plain(255)]
        results = [task.detect_for_video(frame, 33 * i) for i, frame in enumerate(frames)]
    squares = {s: hand_square(pixels(results[0].pose_landmarks), s) for s in PALMS}
    require_hands(results[0], squares)
    hands = {s: pixels(getattr(results[0], f"{s}_hand_landmarks")) for s in PALMS}
    steady = {s: tracked_square(hands[s], squares[s].right) for s in PALMS}
    assert all(steady[s].side < 0.8 * squares[s].side for s in PALMS)
    require_hands(results[1], steady)
    lost = results[2]
    assert not any(value for value in vars(lost).values())
    require_hands(results[3], {s: hand_square(pixels(results[3].pose_landmarks), s) for s in PALMS})


def test_single_pictures_do_not_depend_on_each_other(bundle: bytes, picture: mp.Image) -> None:
    with landmarker(bundle) as task:
        assert task.detect(picture) == task.detect(picture)


def test_confidences_and_the_mask(bundle: bytes, picture: mp.Image) -> None:
    confidences = {"min_hand_landmarks_confidence": 0.95, "min_face_detection_confidence": 0.99}
    with landmarker(bundle, output_segmentation_mask=True, **confidences) as task:
        result = task.detect(picture)
    assert len(result.pose_landmarks) == 33
    assert result.left_hand_landmarks == result.right_hand_landmarks == result.face_landmarks == []
    mask = result.segmentation_mask.numpy_view()
    assert mask.shape == (*SIZE, 1)
    assert 0 <= mask.min() <= mask.max() <= 1
    with landmarker(bundle, min_face_landmarks_confidence=0.999) as task:
        result = task.detect(picture)
    assert result.face_landmarks == []
    assert result.left_hand_landmarks


def test_hidden_wrists_have_no_hands(picture: mp.Image) -> None:
    changed = CHANGED | {"pose_landmarks_detector.tflite": body_outputs(left_wrist=-3)}  # 0.05
    hidden = holistic_bundle(np.random.default_rng(1), **changed)
    with landmarker(hidden) as task:
        result = task.detect(picture)
    assert result.left_hand_landmarks == result.left_hand_world_landmarks == []
    assert len(result.right_hand_landmarks) == 21


def test_a_body_whose_face_is_one_point_has_no_face() -> None:
    body = body_outputs()
    body[0].reshape(39, 5)[:11, :2] = 128
    changed = CHANGED | {"pose_landmarks_detector.tflite": body}
    with landmarker(holistic_bundle(np.random.default_rng(1), **changed), CPU) as task:
        result = task.detect(plain(100))
    assert result.face_landmarks == []
    assert len(result.pose_landmarks) == 33


def test_values_that_are_not_finite_are_not_found(picture: mp.Image) -> None:
    broken = [np.float32([[[[np.nan, 130, 125, 230]]]])]
    changed = CHANGED | {"hand_roi_refinement.tflite": broken}
    with landmarker(holistic_bundle(np.random.default_rng(1), **changed)) as task:
        result = task.detect(picture)
    assert result.left_hand_landmarks == result.right_hand_landmarks == []
    assert len(result.pose_landmarks) == 33


def test_results_draw_themselves_and_have_rows(bundle: bytes, picture: mp.Image) -> None:
    with landmarker(bundle) as task:
        result = task.detect(picture)
    rows = result.rows(picture.size)
    assert [row["label"] for row in rows] == ["body", "face", "left hand", "right hand"]
    assert all(row.keys() - {"box"} <= FIELDS.keys() for row in rows)
    drawing = Drawing(picture.size)
    result.draw(drawing)
    parts = ("pose", "face", "left_hand", "right_hand")
    for part in parts:
        less = Drawing(picture.size)
        replace(result, **{f"{part}_landmarks": []}).draw(less)
        assert 0 < len(less.items) < len(drawing.items), part
    none = type(result)([], [], [], [], [], [], [])
    none.draw(drawing)
    assert none.rows(picture.size) == []


def test_the_bundle_opens_as_any_task(bundle: bytes, picture: mp.Image, tmp_path: Path) -> None:
    path = tmp_path / "holistic_landmarker.task"
    path.write_bytes(bundle)
    base = mp.BaseOptions(path)
    with mp.vision.open_task(base) as task:
        assert isinstance(task, Holistic)
        assert len(task.process(picture).pose_landmarks) == 33
    with pytest.raises(ValueError, match="no limit for holistic"):
        mp.vision.open_task(base, mp.vision.TaskSettings(top=2), VIDEO)


def test_bundles_that_lack_something(bundle: bytes) -> None:
    hands = fake_bundle("hand", np.random.default_rng(0))
    wrong = CHANGED | {"hand_roi_refinement.tflite": [np.zeros((1, 5), np.float32)]}
    cases = {
        hands: "No file with name: pose_detector.tflite",
        holistic_bundle(np.random.default_rng(1), **wrong): "two points of a hand",
        aligned_bundle(
            **{"pose_detector.tflite": b"", "x.tflite": b""}
        ): "expected a .tflite model",
    }
    for content, message in cases.items():
        with pytest.raises(gd.ModelError, match=message):
            landmarker(content)


def test_the_mask_of_a_video_is_steadied(bundle: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the mask of the frame before; that of a single picture is as it is."""
    calls, steadied_mask = [], holistic.steadied_mask

    def noted(mask: Any, previous: Any) -> Any:
        calls.append((mask, previous, steadied_mask(mask, previous)))
        return calls[-1][2]

    monkeypatch.setattr(holistic, "steadied_mask", noted)
    frames = [plain(value) for value in (0, 255, 40)]
    with landmarker(bundle, running_mode=VIDEO, output_segmentation_mask=True) as task:
        masks = [
            task.detect_for_video(frame, 33 * i).segmentation_mask.numpy_view()[..., 0]
            for i, frame in enumerate(frames)
        ]
    assert len(calls) == 2
    for (mask, previous, result), before, after in zip(calls, masks, masks[1:], strict=False):
        np.testing.assert_array_equal(previous, before)
        np.testing.assert_array_equal(result, after)
        assert (mask != result).any()
    with landmarker(bundle, output_segmentation_mask=True) as task:
        for frame in frames:
            assert task.detect(frame).segmentation_mask is not None
    assert len(calls) == 2
