"""YOLO networks in live apps and on the command line: outputs of known objects."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from gles_apps.live import App, Canvas, frame_handler_for
from gles_apps.live.painter import Painter
from gles_apps.vision.drawing import Overlay, Strokes
from tests.support.command import call, call_json
from tests.support.example import pixels
from tests.support.live import frame_of, live_app, mean_model, one_color
from tests.support.tflite_builder import ModelBuilder
from tests.support.yolo import SIZE, found_in, yolo_model

Array = NDArray[Any]
SHOWN = (96, 128)
"""The frame, which is shrunk to half of its size, from row 24 on."""
IN_FRAME = (20, 12, 100, 72)
"""The object's box."""
NAMES = ["cat", "dog"]


@pytest.fixture
def app() -> Iterator[App]:
    with live_app() as app:
        yield app


def drawn(app: App, path: Path) -> Canvas:
    frame = frame_of(app, one_color((90, 90, 90), *SHOWN))
    canvas = Canvas(frame, Painter(frame.size), frame.size)
    frame_handler_for(app, path)(frame, canvas)
    assert canvas.counts == {"object": 1}
    return canvas


def strokes(canvas: Canvas) -> list[Array]:
    return [item.ends for item in canvas.drawing.items if isinstance(item, Strokes)]


def test_a_mask_colors_its_object(app: App, tmp_path: Path) -> None:
    prototypes = np.full((1, 24, 16, 2), -1, np.float32)
    prototypes[0, 9:12, 4:10] = 1  # rows 36 to 48, columns 16 to 40 of the input
    path = yolo_model(
        tmp_path / "m.tflite", prototypes, found_in((9, 9)),
        task="segment", names=NAMES,
    )  # fmt: skip
    canvas = drawn(app, path)
    canvas.drawing.items[:] = [x for x in canvas.drawing.items if isinstance(x, Overlay)]
    canvas.finish()
    changed = np.abs(canvas.pixels().astype(int) - 90).max(2) > 20
    rows, columns = np.nonzero(changed)
    soft = 4  # half of a mask's pixel
    np.testing.assert_allclose((rows.min(), rows.max()), (24, 47), atol=soft)
    np.testing.assert_allclose((columns.min(), columns.max()), (32, 79), atol=soft)
    assert changed[30:42, 38:74].all()


def test_a_skeleton_leaves_out_points_of_low_scores(app: App, tmp_path: Path) -> None:
    points = np.full((17, 3), 0.9)
    points[:, :2] = np.random.default_rng(0).uniform((10, 30), (50, 60), (17, 2))
    points[[3, 4], 2] = 0.1
    path = yolo_model(tmp_path / "m.tflite", found_in(points.ravel()), task="pose", names=NAMES)
    _, edges, discs = strokes(drawn(app, path))
    assert len(edges) == 16 - 2  # the ears' lines are left out
    seen = np.delete(points[:, :2], [3, 4], 0)
    np.testing.assert_allclose(discs[:, :2], 2 * (seen - [0, 24]), atol=1e-3)


def test_an_oriented_box(app: App, tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in([math.pi / 2]), task="obb", names=NAMES)
    (lines,) = strokes(drawn(app, path))
    x, y = (20 + 100) / 2, (12 + 72) / 2
    np.testing.assert_allclose(np.unique(lines[:, 0].round(3)), (x - 30, x + 30))
    np.testing.assert_allclose(np.unique(lines[:, 1].round(3)), (y - 40, y + 40))


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(one_color((90, 90, 90), *SHOWN)).save(path)
    return path


def test_run_lists_detections(picture: Path, tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in(), task="detect", names=NAMES)
    text = call("run", path, "--input", picture)
    assert "detect: 1 result on " in text
    assert text.rstrip().endswith("dog    0.8    [20.0, 12.0, 100.0, 72.0]")
    (found,) = call_json("run", path, "--input", picture)["results"]
    assert (found["label"], found["class"], found["box"]) == ("dog", 1, [*IN_FRAME])
    assert found["score"] == pytest.approx(0.8)
    labels = tmp_path / "labels.txt"
    labels.write_text("a\nb\n")
    (found,) = call_json("run", path, "--input", picture, "--labels", labels)["results"]
    assert found["label"] == "b"
    np.save(tmp_path / "array.npy", np.zeros((1, *SIZE, 3), np.float32))
    assert call_json("run", path, "--input", tmp_path / "array.npy")["results"] == []
    gray = call_json("run", path, "--input", picture, "--mean", 1, "--std", 2)
    assert gray["results"][0]["box"] == [*IN_FRAME]


@pytest.mark.parametrize(("threshold", "count"), [(0, 2), (0.15, 2), (0.79, 1), (0.81, 0)])
def test_the_threshold(threshold: float, count: int, picture: Path, tmp_path: Path) -> None:
    boxes = found_in()
    boxes[0, 0, 1] += 3  # equal boxes would be one object of two classes
    path = yolo_model(tmp_path / "m.tflite", boxes, task="detect", names=NAMES)
    assert len(call_json("run", path, "--input", picture)["results"]) == 1
    options = ("--input", picture, "--threshold", threshold)
    assert len(call_json("run", path, *options)["results"]) == count


def test_run_draws_detections(picture: Path, tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in(), task="detect", names=NAMES)
    drawn, array = tmp_path / "drawn.png", tmp_path / "a.npy"
    command = ("run", path, "--input", picture, "--output")
    assert call(*command, drawn).splitlines()[-1] == str(drawn)
    assert (pixels(drawn)[40, 20] != 90).any()
    assert (pixels(drawn)[40, 50] == 90).all()
    assert call_json(*command, drawn, "--output", array)["file"] == str(drawn)
    np.testing.assert_array_equal(np.load(array), found_in())
    text = "expected one picture with the results"
    assert text in call(*command, drawn, "--output", tmp_path / "b.png", status=2)
    table = tmp_path / "drawn.xlsx"
    assert f"cannot write the picture {table}: unknown file" in call(*command, table, status=1)


def test_run_draws_nothing_without_detections(picture: Path, tmp_path: Path) -> None:
    command = ("--input", picture, "--output", tmp_path / "drawn.png")
    unknown = yolo_model(tmp_path / "m.tflite", found_in())
    assert "expected outputs of one kind of YOLO" in call("run", unknown, *command, status=1)
    logits = yolo_model(tmp_path / "l.tflite", found_in() + 9, task="detect")
    assert "expected scores of 0 to 1" in call("run", logits, *command, status=1)
    assert not (tmp_path / "drawn.png").exists()


def test_run_on_pictures_with_channels_first(tmp_path: Path) -> None:
    """Ultralytics' exporter makes such inputs since it converts by litert-torch."""
    builder = ModelBuilder()
    axes = builder.constant(np.array([2, 3], np.int32))
    mean = builder.op("MEAN", [builder.input((1, 3, 8, 12)), axes], [(1, 3)])
    path, output = tmp_path / "mean.tflite", tmp_path / "mean.npy"
    path.write_bytes(builder.build(outputs=[mean]))
    Image.fromarray(one_color((51, 102, 204), 16, 24)).save(tmp_path / "color.png")
    call("run", path, "--input", tmp_path / "color.png", "--output", output)
    np.testing.assert_allclose(np.load(output), [[0.2, 0.4, 0.8]], atol=1e-3)


def test_run_lists_points_and_rotations(picture: Path, tmp_path: Path) -> None:
    pose = yolo_model(
        tmp_path / "p.tflite", found_in([30, 44, 0.7]), task="pose", names=NAMES,
        kpt_shape=[1, 3],
    )  # fmt: skip
    (found,) = call_json("run", pose, "--input", picture)["results"]
    assert found["key_points"] == [[60, 40]]
    assert found["key_point_scores"] == [pytest.approx(0.7)]
    obb = yolo_model(tmp_path / "o.tflite", found_in([0.5]), task="obb", names=NAMES)
    (found,) = call_json("run", obb, "--input", picture)["results"]
    assert found["rotation"] == pytest.approx(math.degrees(0.5), abs=0.1)
    assert np.mean(found["corners"], 0).tolist() == pytest.approx([60, 42], abs=0.1)
    assert "28.6" in call("run", obb, "--input", picture)


def test_run_of_what_is_no_detector_or_several(
    picture: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in())
    assert call_json("run", path, "--input", picture)["results"] == []
    assert "results are not listed: expected outputs of one kind of YOLO" in caplog.text
    (found,) = call_json("run", path, "--input", picture, "--kind", "yolov8")["results"]
    assert found["label"] == "class 1"
    wrong = call("run", path, "--input", picture, "--kind", "yolov5", status=1)
    assert "of the kind yolov5" in wrong
    logits = yolo_model(tmp_path / "l.tflite", found_in() + 9, task="detect")
    caplog.clear()
    assert call_json("run", logits, "--input", picture)["results"] == []
    assert "results are not listed: expected scores of 0 to 1" in caplog.text
    named = ("--input", picture, "--kind", "yolov8")
    assert "expected scores of 0 to 1" in call("run", logits, *named, status=1)
    other = mean_model(tmp_path / "mean.tflite")
    assert call_json("run", other, "--input", picture)["task"] == "classify"
    assert "no kind" in call("run", other, *named, status=1)


def test_watch_a_picture(picture: Path, tmp_path: Path) -> None:
    path = yolo_model(tmp_path / "m.tflite", found_in())
    output = tmp_path / "o.png"
    options = ("--picture", picture, "--headless", "--output", output)
    assert "--kind yolov8" in call("watch", path, *options, status=1)
    assert call("watch", path, *options, "--kind", "yolov8").startswith("1 object\ndetect;")
    assert (pixels(output)[40, 20] != 90).any()
    assert (pixels(output)[40, 50] == 90).all()
