"""Rules of tasks by hand, and the names of their API beside MediaPipe's."""

import inspect
import struct
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.tasks import vision
from gles_apps.tasks.audio.audio_classifier import resampled
from gles_apps.tasks.classes import Choice, calibrated
from gles_apps.tasks.components import containers, processors
from gles_apps.tasks.image import CHANNELS
from gles_apps.tasks.task import seen_region
from gles_apps.tasks.vision.drawing_utils import DrawingSpec, draw_detection, draw_landmarks
from gles_apps.tasks.vision.face_landmarker import BLENDSHAPE_NAMES
from gles_apps.tasks.vision.image_embedder import cosine_similarity
from gles_apps.tasks.vision.image_segmenter import activated, categories, resized
from gles_apps.tasks.vision.object_detector import merged
from gles_apps.vision import Drawing
from gles_apps.vision.geometry import FaceModel, face_pose, fit_similarity
from gles_apps.vision.regions import Region
from gles_delegate.model.metadata import ScoreCalibration
from gles_delegate.model.protobuf import Message, ProtobufError
from tests.support.fake_networks import face_geometry

RNG = np.random.default_rng(0)


def test_signatures_take_mediapipes_keywords() -> None:
    assert list(inspect.signature(mp.Image).parameters) == ["image_format", "data"]
    assert BLENDSHAPE_NAMES[:2] + BLENDSHAPE_NAMES[-1:] == (
        "_neutral", "browDownLeft", "noseSneerRight",
    )  # fmt: skip


def test_a_similarity_is_found_again() -> None:
    points, weights = RNG.normal(0, 5, (40, 3)), RNG.random(40)
    turn, _ = np.linalg.qr(RNG.normal(0, 1, (3, 3)))
    turn *= np.sign(np.linalg.det(turn))
    matrix = fit_similarity(points, 2.5 * points @ turn.T + (3, -4, 60), weights)
    np.testing.assert_allclose(matrix[:3, :3], 2.5 * turn, atol=1e-9)
    np.testing.assert_allclose(matrix[:3, 3], (3, -4, 60), atol=1e-9)
    with pytest.raises(np.linalg.LinAlgError):
        fit_similarity(points * 0, points, weights)


def test_a_mirrored_object_is_turned_not_mirrored() -> None:
    """The best rotation of points that are mirrored, among all turns around the same axis."""
    points = RNG.normal(0, 5, (40, 3)) * (3, 2, 1)
    points -= points.mean(0)
    matrix = fit_similarity(points, points * (1, 1, -1), np.ones(40))
    rotation = matrix[:3, :3] / np.cbrt(np.linalg.det(matrix[:3, :3]))
    assert np.linalg.det(rotation) == pytest.approx(1)
    errors = []
    for angle in np.radians(range(0, 360, 5)):
        turn = np.eye(3)
        turn[1:, 1:] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
        errors.append(((points @ turn.T - points * (1, 1, -1)) ** 2).sum())
    assert ((points @ rotation.T - points * (1, 1, -1)) ** 2).sum() <= min(errors)


def test_the_pose_of_a_face_before_the_camera() -> None:
    """Points of a model, projected by a camera of 63 degrees; z is relative, as a network's."""
    model = FaceModel(RNG.normal(0, 4, (60, 3)) * (1, 1, 0.4), np.ones(60))
    angle, away = np.radians(20), 45.0
    turn = np.array(
        [[np.cos(angle), 0, np.sin(angle)], [0, 1, 0], [-np.sin(angle), 0, np.cos(angle)]]
    )
    space = model.points @ turn.T + (2, -3, -away)
    height, width = 480, 640
    near = 2 * np.tan(np.radians(63) / 2)
    shares = space[:, :2] / -space[:, 2:] / (near * width / height, near)
    landmarks = np.column_stack([shares[:, 0] + 0.5, 0.5 - shares[:, 1], np.zeros(60)])
    # A weak perspective scales depths as it scales x.
    landmarks[:, 2] = -(space[:, 2] + away) / away / (near * width / height)
    matrix = face_pose(landmarks, model, (height, width))
    assert matrix is not None
    np.testing.assert_allclose(matrix[:3, :3], turn, atol=0.1)
    np.testing.assert_allclose(matrix[:3, 3], (2, -3, -away), atol=2.0)
    assert face_pose(landmarks * 0 + 0.5, model, (height, width)) is None


def test_the_model_of_a_face_is_read() -> None:
    points, weights = RNG.normal(0, 4, (200, 3)), RNG.random(199)
    model = FaceModel.parse(face_geometry(points, weights))
    np.testing.assert_allclose(model.points, points, rtol=1e-6)
    np.testing.assert_allclose(model.weights, [*weights, 0], rtol=1e-6)
    with pytest.raises(ValueError, match="expected finite points with weights"):
        FaceModel.parse(face_geometry(points, weights * 0))
    with pytest.raises(ValueError, match="damaged geometry of a face"):
        FaceModel.parse(face_geometry(points[:9], weights[:10]))


def test_protocol_buffers() -> None:
    """A varint of two bytes, floats packed and not, a message, and damage."""
    floats = struct.pack("<2f", 1.5, -2)
    inner = b"\x08\x07"
    data = b"\x08\xac\x02" + b"\x12\x08" + floats + b"\x15" + floats[:4] + b"\x1a\x02" + inner
    message = Message(data)
    assert message.integer(1) == 300
    np.testing.assert_array_equal(message.floats(2), [1.5, -2, 1.5])
    assert [m.integer(1) for m in message.messages(3)] == [7]
    assert message.message(9).integer(1) == 0
    for cut in range(1, len(data)):
        try:
            Message(data[:cut]).floats(2)
        except ProtobufError:
            continue
    for damage in (b"\x0b", b"\x12\x05abc", b"\xff" * 11, b"\x12\x03abc"):
        with pytest.raises(ProtobufError):
            Message(damage).floats(2)
    with pytest.raises(ValueError, match="damaged geometry of a face"):
        FaceModel.parse(data)


def test_calibrated_scores() -> None:
    sigmoids = ((0.9, 2.0, -1.0, 0.2), None, (1.0, 1.0, 0.0, float("-inf")))
    scores = np.array([0.5, 0.5, 0.5])
    logit = np.log(0.5) - np.log(0.5)
    for kind, x in (("identity", 0.5), ("log", np.log(0.5)), ("inverse logistic", logit)):
        actual = calibrated(scores, ScoreCalibration(kind, -1.0, sigmoids))
        expected = [0.9 / (1 + np.exp(-(2 * x - 1))), -1, 1 / (1 + np.exp(-x))]
        np.testing.assert_allclose(actual, expected)
    plain = ScoreCalibration("identity", -1.0, sigmoids)
    expected = [1 / (1 + np.exp(-0.5)), -1, -1, 0.9 / (1 + np.exp(-0.2))]
    actual = calibrated(np.array([0.5, 0.1, 0.5, 0.6]), plain, [2, 0, 7, 0])
    np.testing.assert_allclose(actual, expected)
    low = calibrated(np.array([0.1, 0, 0.0]), ScoreCalibration("log", -1.0, sigmoids))
    assert low[0] == -1
    assert np.isfinite(low).all()


def options(**named: Any) -> Any:
    return processors.ClassifierOptions(**named)


def test_which_classes_are_returned() -> None:
    labels = ("cat", "dog", "owl")
    assert [i in Choice(options(), labels) for i in range(3)] == [True] * 3
    allowed = Choice(options(category_allowlist=["owl", "cow"]), labels)
    assert [i in allowed for i in range(3)] == [False, False, True]
    denied = Choice(options(category_denylist=["owl", "cow"], max_results=-1), labels)
    assert [i in denied for i in range(3)] == [True, True, False]
    assert denied.most is None
    assert 0 in Choice(options(category_allowlist=["cow"]), labels)
    with pytest.raises(ValueError, match="requires labels"):
        Choice(options(category_allowlist=["cow"]), ())


def test_masks_in_the_pictures_size() -> None:
    """Edges coincide, as in OpenCV's resize; or corner pixels do."""
    row = np.float32([0, 1, 2, 3])[np.newaxis, :, np.newaxis]
    wide = resized(row, (1, 8))[0, :, 0]
    np.testing.assert_allclose(wide, [0, 0.25, 0.75, 1.25, 1.75, 2.25, 2.75, 3])
    np.testing.assert_allclose(resized(row, (1, 7), corners=True)[0, :, 0], np.arange(7) / 2)
    np.testing.assert_allclose(resized(row, (3, 4))[:, 2, 0], [2, 2, 2])
    np.testing.assert_allclose(resized(row, (1, 1))[0, 0, 0], 1.5)


def test_categories_of_one_class_and_of_several() -> None:
    scores = np.float32([[[0.4], [0.6]]])
    np.testing.assert_array_equal(categories(scores, "none"), [[255, 0]])
    np.testing.assert_array_equal(categories(scores - 0.5, "sigmoid"), [[255, 0]])
    np.testing.assert_array_equal(categories(np.float32([[[1, 3, 2]]]), "softmax"), [[1]])
    np.testing.assert_allclose(activated(np.float32([0, np.log(3)]), "softmax"), [0.25, 0.75])


def test_the_cosine_of_two_vectors() -> None:
    first, second = RNG.normal(0, 3, (2, 7))
    expected = float((first * second).sum() / np.sqrt((first**2).sum() * (second**2).sum()))
    vectors = [containers.Embedding(each) for each in (first, second, -2 * first)]
    assert cosine_similarity(vectors[0], vectors[1]) == pytest.approx(expected)
    assert cosine_similarity(vectors[0], vectors[0]) == pytest.approx(1)
    assert cosine_similarity(vectors[0], vectors[2]) == pytest.approx(-1)
    signed = np.int8([[3, -4, 0], [0, -128, 0]]).view(np.uint8)
    quantized = [containers.Embedding(each) for each in signed]
    assert cosine_similarity(*quantized) == pytest.approx(0.8)
    with pytest.raises(ValueError, match="found 7 of float64 and 3 of uint8"):
        cosine_similarity(vectors[0], quantized[0])
    with pytest.raises(ValueError, match="with a length above 0"):
        cosine_similarity(vectors[0], containers.Embedding(0 * first))


def test_a_resampled_tone_is_the_tone() -> None:
    time, low = np.arange(4800) / 48000, np.arange(1600) / 16000
    tone = resampled(np.sin(2 * np.pi * 440 * time), 48000, 16000)
    assert len(tone) == 1600
    np.testing.assert_allclose(tone[50:-50], np.sin(2 * np.pi * 440 * low)[50:-50], atol=0.01)
    # What the lower rate cannot have is gone.
    assert np.abs(resampled(np.sin(2 * np.pi * 12000 * time), 48000, 16000)[50:-50]).max() < 0.02
    up = resampled(np.sin(2 * np.pi * 440 * low), 16000, 48000)
    np.testing.assert_allclose(up[150:-150], np.sin(2 * np.pi * 440 * time)[150:-150], atol=0.01)
    assert len(resampled(np.zeros(0), 48000, 16000)) == 0


def test_a_resampled_click_reaches_less_than_five_samples() -> None:
    """The kernel is 0 from five samples of the lower rate on."""
    click = np.zeros(32)
    click[16] = 1
    for rate, target in ((8000, 16000), (16000, 8000)):
        heard = np.flatnonzero(resampled(click, rate, target)) * rate / target
        assert np.abs(heard - 16).max() < 5 * max(rate / target, 1)


def test_regions_of_turned_pictures() -> None:
    processing = vision.ImageProcessingOptions
    assert seen_region((100, 200), None) == Region((100, 50), 200, 100, -0.0)
    turned = seen_region((100, 200), processing(rotation_degrees=90))
    assert turned == Region((100, 50), 100, 200, -90)
    part = containers.RectF(left=0.5, top=0, right=1, bottom=0.5)
    assert seen_region((100, 200), processing(part, 180)) == Region((150, 25), 100, 50, -180)


def test_equal_boxes_are_one_detection() -> None:
    def detection(x: int, name: str) -> containers.Detection:
        box = containers.BoundingBox(x, 0, 9, 9)
        return containers.Detection(box, [containers.Category(None, 0.5, None, name)])

    result = merged(
        containers.DetectionResult([detection(0, "a"), detection(1, "b"), detection(0, "c")])
    )
    names = [[c.category_name for c in d.categories] for d in result.detections]
    assert names == [["a", "c"], ["b"]]


@pytest.mark.parametrize(
    ("kind", "width", "step", "is_contiguous"),
    [
        *((mp.ImageFormat.GRAY8, 15, 16, False), (mp.ImageFormat.GRAY8, 16, 16, True)),
        *((mp.ImageFormat.SRGB, 5, 16, False), (mp.ImageFormat.SRGB, 16, 48, True)),
        *((mp.ImageFormat.SRGB, 100, 304, False), (mp.ImageFormat.SRGBA, 1, 16, False)),
        *((mp.ImageFormat.SRGBA, 100, 400, True), (mp.ImageFormat.GRAY16, 100, 208, False)),
        *((mp.ImageFormat.SRGB48, 5, 32, False), (mp.ImageFormat.SRGBA64, 15, 128, False)),
        *((mp.ImageFormat.VEC32F1, 17, 80, False), (mp.ImageFormat.VEC32F2, 3, 32, False)),
        *((mp.ImageFormat.VEC32F4, 1, 16, True), (mp.ImageFormat.VEC32F4, 17, 272, True)),
    ],
)
def test_rows_of_pictures(kind: mp.ImageFormat, width: int, step: int, is_contiguous: bool) -> None:
    """As MediaPipe 1.2.3 aligns the rows of arrays."""
    (dtype,) = (dtype for dtype, formats in CHANNELS.items() if kind in formats)
    picture = mp.Image(kind, np.zeros((3, width, CHANNELS[dtype][kind]), dtype))
    assert (picture.step, picture.is_contiguous()) == (step, is_contiguous)
    assert all(picture.is_aligned(boundary) for boundary in (1, 2, 4, 8, 16))


def test_rows_of_files_follow_each_other(tmp_path: Path) -> None:
    pytest.importorskip("PIL.Image").new("RGB", (17, 5)).save(tmp_path / "x.png")
    picture = mp.Image.create_from_file(str(tmp_path / "x.png"))
    assert (picture.step, picture.is_contiguous(), picture.is_aligned(2)) == (51, True, False)
    with pytest.raises(FileNotFoundError, match=r"no\.png"):
        mp.Image.create_from_file(tmp_path / "no.png")
    (tmp_path / "bad.png").write_bytes(b"no picture")
    with pytest.raises(RuntimeError, match="Image decoding failed"):
        mp.Image.create_from_file(tmp_path / "bad.png")


def test_pictures_know_their_format() -> None:
    pixels = RNG.integers(0, 256, (5, 7, 4), np.uint8)
    picture = mp.Image(mp.ImageFormat.SRGBA, pixels)
    assert (picture.width, picture.height, picture.channels) == (7, 5, 4)
    assert (picture.is_empty(), picture.uses_gpu()) == (False, False)
    assert picture[2, 3, 1] == pixels[2, 3, 1]
    pixels[:] = 0
    assert picture.numpy_view().any()
    gray = mp.Image(mp.ImageFormat.GRAY16, np.zeros((5, 7), np.uint16))
    assert gray.numpy_view().shape == (5, 7, 1)
    for data, text in (
        (np.zeros(5, np.uint8), "number of dimensions"),
        (np.zeros((5, 7), np.int32), "data type: int32"),
        (np.zeros((5, 7, 9), np.uint8), "expected 3 channels"),
    ):
        with pytest.raises(ValueError, match=text):
            mp.Image(mp.ImageFormat.SRGB, data)


@pytest.mark.parametrize(
    "error", [ValueError("no marker"), SyntaxError(), KeyError("x"), MemoryError(), IndexError("i")]
)
def test_a_picture_that_a_decoder_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """Decoders of damaged pictures raise any error."""
    pictures = pytest.importorskip("PIL.Image")

    def load(self: Any) -> None:
        raise error

    path = tmp_path / "picture.png"
    pictures.new("RGB", (4, 4)).save(path)
    assert mp.Image.create_from_file(path).width == 4
    monkeypatch.setattr(pictures.Image, "load", load)
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", load)
    with pytest.raises(RuntimeError, match=r"Image decoding failed: ."):
        mp.Image.create_from_file(path)
    monkeypatch.setattr(pictures, "MAX_IMAGE_PIXELS", 4)
    with pytest.raises(RuntimeError, match=r"Image decoding failed: Image size \(16 pixels\)"):
        mp.Image.create_from_file(str(path))
    with pytest.raises(TypeError):
        mp.Image.create_from_file(None)  # type: ignore[arg-type]


def test_a_picture_without_pixels() -> None:
    for shape in ((0, 4, 3), (4, 0, 3)):
        with pytest.raises(ValueError, match=r"expected a picture of pixels, found \["):
            mp.Image(mp.ImageFormat.SRGB, np.zeros(shape, np.uint8))


def test_samples_of_sounds() -> None:
    data = containers.AudioData(4, containers.AudioDataFormat(1, 16000))
    data.load_from_array(np.float32([1, 2]))
    np.testing.assert_array_equal(data.buffer[:, 0], [0, 0, 1, 2])
    data.load_from_array(np.float32([[3], [4], [5]]), offset=1, size=1)
    np.testing.assert_array_equal(data.buffer[:, 0], [0, 1, 2, 4])
    data.load_from_array(np.arange(9, dtype=np.float32))
    np.testing.assert_array_equal(data.buffer[:, 0], [5, 6, 7, 8])
    data.clear()
    assert not data.buffer.any()
    assert (data.buffer_length, data.audio_format.sample_rate) == (4, 16000)
    for array, extent in (
        (np.zeros((3, 2), np.float32), {}),
        (np.zeros(3, np.float32), {"size": 4}),
    ):
        with pytest.raises(ValueError, match="expected samples"):
            data.load_from_array(array, **extent)


def test_drawings_into_arrays() -> None:
    pytest.importorskip("PIL")
    points = [containers.NormalizedLandmark(x, 0.5, 0) for x in (0.25, 0.75)]
    hidden = containers.NormalizedLandmark(0.5, 0.1, 0, visibility=0.2)
    line = [SimpleNamespace(start=0, end=1)]
    picture = np.zeros((40, 80, 3), np.uint8)
    draw_landmarks(picture, [*points, hidden], line, None, DrawingSpec((9, 200, 9), 3))  # type: ignore[arg-type]
    assert (picture[20, 25:55] == (9, 200, 9)).all()
    assert not picture[:10].any()
    with pytest.raises(ValueError, match="expected points 0 to 1"):
        draw_landmarks(picture, points, [SimpleNamespace(start=0, end=2)])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="expected a picture uint8"):
        draw_landmarks(picture.astype(float), points)
    box = containers.BoundingBox(10, 10, 20, 20)
    draw_detection(
        picture, containers.Detection(box, []), bbox_drawing_spec=DrawingSpec((7, 7, 250))
    )
    assert picture[10, 20, 2] > 200
    drawn = []
    for side in ("Right", "Left", None):
        drawing = Drawing((40, 80))
        of_hand = [containers.Category(0, 0.9, side, side)]
        vision.HandLandmarkerResult([of_hand], [[*points] * 11][:1], [[]]).draw(drawing)
        drawn.append(repr(drawing.items))
    assert len({*drawn}) == 3


def test_names_of_classes() -> None:
    named = containers.Category(3, 0.5, "shown", "name")
    numbered = containers.Category(3, 0.5, None, None)
    names = [containers.name_of(each) for each in (named, replace(named, display_name=None))]
    assert names == ["shown", "name"]
    assert containers.name_of(numbered) == "class 3"
    assert containers.name_of(containers.Category(None, 0.5)) == ""
