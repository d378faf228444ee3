"""YOLO networks in tasks: outputs of known objects, on the GPU and on the CPU."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gles_apps.tasks as mp
from gles_apps.tasks import vision
from gles_apps.tasks.components.containers import BoundingBox, Detection, DetectionResult
from gles_apps.vision.drawing import Drawing, Text
from gles_delegate.errors import ModelError
from gles_delegate.model.metadata import Metadata, ScoreCalibration, TensorMetadata
from tests.support.app import App
from tests.support.command import saved
from tests.support.live import one_color
from tests.support.snippets import face_detector
from tests.support.yolo import SIZE, exported_classifier, found_in, yolo_model

NAMES = ["cat", "dog"]
FRAME = one_color((90, 90, 90), 96, 128)
"""It is shrunk to half of its size, from row 24 on."""
PICTURE = mp.Image(mp.ImageFormat.SRGB, FRAME)
PLACES = [*mp.BaseOptions.Delegate]


def options(path: Path, place: Any = None, **more: Any) -> vision.ObjectDetectorOptions:
    return vision.ObjectDetectorOptions(mp.BaseOptions(str(path), delegate=place), **more)


def detected(path: Path, place: Any = None, picture: Any = PICTURE, **more: Any) -> DetectionResult:
    with vision.ObjectDetector.create_from_options(options(path, place, **more)) as detector:
        return detector.detect(picture)


def test_an_ssd_needs_a_label_for_each_class(tmp_path: Path) -> None:
    path = saved(tmp_path / "m.tflite", face_detector())
    (found,) = detected(path, labels=["face"]).detections
    assert found.categories[0].category_name == "face"
    with pytest.raises(ValueError, match="expected a label for each of 1 classes, found 2"):
        detected(path, labels=["background", "face"])


def segmentation_model(path: Path) -> Path:
    prototypes = np.full((1, 24, 16, 2), -1, np.float32)
    prototypes[0, 9:12, 4:10] = 1
    return yolo_model(path, prototypes, found_in((9, 9)), task="segment", names=NAMES)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("shape", [(1, *SIZE, 3), (1, 3, *SIZE)])
def test_a_named_object(shape: Any, place: Any, tmp_path: Path) -> None:
    path = yolo_model(
        tmp_path / "m.tflite", found_in(), task="detect", names=NAMES, shape=shape
    )  # fmt: skip
    (found,) = detected(path, place).detections
    assert found.bounding_box == BoundingBox(20, 12, 80, 60)
    (category,) = found.categories
    assert (category.category_name, category.index) == ("dog", None)
    assert category.score == pytest.approx(0.8)
    assert len(detected(path, place, score_threshold=0.15).detections) == 1  # the same box
    assert not detected(path, place, score_threshold=0.9).detections
    assert not detected(path, place, category_denylist=["dog"]).detections
    drawing = Drawing(PICTURE.size)
    detected(path, place).draw(drawing)
    assert [item.text for item in drawing.items if isinstance(item, Text)] == ["dog 80%"]


def test_a_texture(tmp_path: Path, app: App) -> None:
    """For both orders of dimensions."""
    texture = mp.Image.create_from_texture(app.texture(FRAME))
    for number, shape in enumerate([(1, *SIZE, 3), (1, 3, *SIZE)]):
        path = yolo_model(
            tmp_path / f"{number}.tflite", found_in(), task="detect", names=NAMES, shape=shape
        )  # fmt: skip
        base = mp.BaseOptions(str(path), context=app.egl)
        task_options = vision.ObjectDetectorOptions(base)
        with vision.ObjectDetector.create_from_options(task_options) as detector:
            (found,) = detector.detect(texture).detections
        assert found.bounding_box == BoundingBox(20, 12, 80, 60)


def test_masks_and_points(tmp_path: Path) -> None:
    path = segmentation_model(tmp_path / "s.tflite")
    (found,) = detected(path).detections
    assert found.found is not None
    assert found.found.mask is not None
    assert found.found.mask.max() > 0.9
    pose = yolo_model(
        tmp_path / "p.tflite", found_in([30, 44, 0.7]), task="pose", names=NAMES, kpt_shape=[1, 3]
    )  # fmt: skip
    (found,) = detected(pose).detections
    (point,) = found.keypoints or ()
    assert (point.x, point.y, point.score) == pytest.approx((60 / 128, 40 / 96, 0.7))


def test_kinds_and_labels_of_models_that_do_not_say(tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in())
    with pytest.raises(ModelError, match="yolov8 of 2 classes, yolov8-obb of 1 classes"):
        detected(path)
    (found,) = detected(path, kind="yolov8").detections
    assert (found.categories[0].index, found.categories[0].category_name) == (1, None)
    (found,) = detected(path, labels=["a", "b"]).detections
    assert found.categories[0].category_name == "b"
    with pytest.raises(ModelError, match="expected a label for each of 1 or 2 classes, found 3"):
        detected(path, labels=["a", "b", "c"])


def test_scores_that_are_calibrated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three objects of TFLite_Detection_PostProcess; the score of the last is below the limit."""
    boxes = np.array([[[0, 0, 0.5, 0.5], [0.5, 0.5, 1, 1], [0, 0.5, 0.5, 1]]])
    outputs = (boxes, np.array([[1, 0, 1.0]]), np.array([[0.8, 0.7, 0.1]]), np.array([3.0]))
    path = yolo_model(tmp_path / "m.tflite", *outputs)
    calibration = ScoreCalibration("identity", 0.25, (None, (1.0, 2.0, -1.0, 0.3)))
    known = Metadata(
        inputs=(TensorMetadata(mean=(0.0,), std=(255.0,)),),
        outputs=(
            *[TensorMetadata()] * 2,
            TensorMetadata(calibration=calibration),
            TensorMetadata(),
        ),
    )
    monkeypatch.setattr("gles_apps.tasks.network.read_metadata", lambda graph: known)
    found = detected(path, score_threshold=0.2).detections
    expected = [1 / (1 + math.exp(-0.6)), 0.25, 0.25]
    assert [each.categories[0].score for each in found] == pytest.approx(expected)
    assert len(detected(path, score_threshold=0.25).detections) == 3  # the limit belongs to them
    assert len(detected(path, score_threshold=0.3).detections) == 1


def test_a_detection_made_by_hand_is_not_drawn() -> None:
    result = DetectionResult([Detection(BoundingBox(0, 0, 1, 1), [])])
    with pytest.raises(ValueError, match="made by hand"):
        result.draw(Drawing((8, 8)))


@pytest.mark.parametrize("place", PLACES)
def test_a_classifier_sees_the_middle(place: Any, tmp_path: Path) -> None:
    path = exported_classifier(tmp_path / "m.tflite")
    pixels = one_color((0, 0, 255), 40, 180)
    pixels[:, 60:120] = (255, 0, 0)
    base = mp.BaseOptions(str(path), delegate=place)
    with vision.ImageClassifier(vision.ImageClassifierOptions(base)) as classifier:
        result = classifier.classify(mp.Image(mp.ImageFormat.SRGB, pixels))
    best = result.classifications[0].categories[0]
    assert best.category_name == "r"
    assert best.score == pytest.approx(1, abs=0.01)
    drawing = Drawing((180, 40))
    result.draw(drawing, count=2)
    words = [item.text for item in drawing.items if isinstance(item, Text)]
    assert "100% r" in words
    assert len(words) == 2


def test_a_result_draws_itself_on_any_picture(tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in(), task="detect", names=NAMES)
    result = detected(path)
    drawn = [np.asarray(result.draw_on(each)) for each in (PICTURE, FRAME, Image.fromarray(FRAME))]
    assert drawn[0].shape == FRAME.shape
    changed = np.argwhere((drawn[0] != FRAME).any(-1))
    assert (changed.min(0) >= (0, 18)).all()  # a label, and a box from (20, 12)
    assert len(changed) > 100
    for other in drawn[1:]:
        np.testing.assert_array_equal(other, drawn[0])
    gray = mp.Image(mp.ImageFormat.GRAY8, FRAME[..., :1])
    np.testing.assert_array_equal(np.asarray(result.draw_on(gray)), drawn[0])
    large = np.asarray(result.draw_on(FRAME.repeat(2, 0).repeat(2, 1)))
    assert np.argwhere((large != 90).any(-1)).max(0).tolist() == pytest.approx([144, 200], abs=3)


@pytest.fixture(params=["real", "fake"])
def supervision(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The package, or a module whose class takes the same arguments."""
    if request.param == "real":
        pytest.importorskip("supervision")
    else:
        monkeypatch.setitem(sys.modules, "supervision", SimpleNamespace(Detections=SimpleNamespace))


@pytest.mark.usefixtures("supervision")
def test_supervision_gets_the_objects(tmp_path: Path) -> None:
    path = segmentation_model(tmp_path / "s.tflite")
    found = detected(path).to_supervision()
    np.testing.assert_allclose(found.xyxy, [[20, 12, 100, 72]])
    assert found.mask.shape == (1, 96, 128)
    rows, columns = np.nonzero(found.mask[0])
    sides = [rows.min(), rows.max(), columns.min(), columns.max()]
    assert sides == pytest.approx([24, 47, 32, 79], abs=4)  # the prototypes' pixels have 8
    assert found.confidence.tolist() == pytest.approx([0.8])
    assert (found.class_id.tolist(), found.data["class_name"].tolist()) == ([1], ["dog"])
    assert found.tracker_id is None
    obb = yolo_model(tmp_path / "o.tflite", found_in([math.pi / 2]), task="obb", names=NAMES)
    turned = detected(obb).to_supervision()
    corners = np.array(detected(obb).rows(PICTURE.size)[0]["corners"])
    np.testing.assert_allclose(turned.data["xyxyxyxy"], corners[np.newaxis], atol=0.05)
    nothing = detected(path, score_threshold=0.9).to_supervision()
    assert (nothing.xyxy.shape, nothing.mask, nothing.tracker_id) == ((0, 4), None, None)


@pytest.mark.usefixtures("supervision")
def test_a_video_numbers_its_objects(tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in(), task="detect", names=NAMES)
    video = options(path, track=True)
    video.running_mode = vision.RunningMode.VIDEO
    with vision.ObjectDetector.create_from_options(video) as detector:
        results = [detector.detect_for_video(PICTURE, 33 * i) for i in range(3)]
    for result in results:
        assert [each.track_id for each in result.detections] == [1]
        assert result.rows(PICTURE.size)[0]["id"] == 1
        assert result.to_supervision().tracker_id.tolist() == [1]
    drawing = Drawing(PICTURE.size)
    results[-1].draw(drawing)
    assert [item.text for item in drawing.items if isinstance(item, Text)] == ["dog #1 80%"]
    with pytest.raises(ValueError, match="for track, found the image mode"):
        detected(path, track=True)
    settings = vision.TaskSettings("classify", track=True)
    with pytest.raises(ValueError, match="expected a detector for track, found the task 'class"):
        vision.open_task(mp.BaseOptions(path), settings)


def test_supervision_is_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "supervision", None)
    path = yolo_model(tmp_path / "m.tflite", found_in(), task="detect", names=NAMES)
    with pytest.raises(ImportError, match="to_supervision needs it: pip install supervision"):
        detected(path).to_supervision()
    made = DetectionResult([Detection(BoundingBox(0, 0, 1, 1), [])])
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "supervision", SimpleNamespace())
    with pytest.raises(ValueError, match="made by hand"):
        made.to_supervision()
