"""Inputs and drawings of networks for common tasks; ``gles-delegate watch``."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from gles_apps.live import App, Canvas, frame_handler_for, repaint
from gles_apps.live.app import ObjectCounts
from gles_apps.live.painter import Painter
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.vision.opening import TaskModel, TaskSettings, find_task
from gles_apps.vision.drawing import Rectangle, Text
from gles_delegate.model.graph import Tensor
from gles_delegate.model.metadata import Metadata, TensorMetadata
from tests.support.command import bars, call, call_json
from tests.support.example import EXAMPLES, pixels, read_video, write_video
from tests.support.live import (
    COLORS,
    color_model,
    frame_of,
    live_app,
    mean_model,
    negative_model,
    one_color,
)
from tests.support.process import run_python
from tests.support.tflite_builder import ModelBuilder
from tests.support.windows import keyboard, started
from tests.support.yolo import SIZE as YOLO_SIZE

BALL = EXAMPLES / "models" / "ball_segmenter.tflite"


@pytest.fixture
def app() -> Iterator[App]:
    with live_app() as app:
        yield app


def seen(app: App, handler: Any, picture: NDArray[np.uint8]) -> Canvas:
    """A canvas on which a handler has drawn."""
    frame = frame_of(app, picture)
    canvas = Canvas(frame, Painter(frame.size), frame.size)
    handler(frame, canvas)
    canvas.finish()
    return canvas


def texts(canvas: Canvas) -> list[str]:
    return [item.text for item in canvas.drawing.items if isinstance(item, Text)]


@pytest.mark.parametrize(
    ("factor", "expected"), [(1, ["80% blue", "40% green"]), (50, ["100% blue", "0% green"])]
)
def test_classify(factor: float, expected: list[str], app: App, tmp_path: Path) -> None:
    path = mean_model(tmp_path / "m.tflite", factor)
    settings = TaskSettings("classify", labels=list(COLORS), top=2)
    canvas = seen(app, frame_handler_for(app, path, settings), one_color((0, 102, 204), 30, 90))
    assert texts(canvas) == expected
    panel, *bars = [item for item in canvas.drawing.items if isinstance(item, Rectangle)]
    shares = [bar.box[2] / panel.box[2] for bar in bars]
    assert shares == pytest.approx([int(text.split("%")[0]) / 100 for text in expected], abs=0.01)
    handler = frame_handler_for(app, path, TaskSettings("classify"))
    assert texts(seen(app, handler, one_color((255, 0, 0), 9, 9)))[0].endswith("class 0")


def test_classify_refuses_classes_of_pixels(app: App, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected outputs \[1, classes\] of a classifier"):
        frame_handler_for(app, color_model(tmp_path / "c.tflite"), TaskSettings("classify"))


def test_a_single_label_names_what_a_mask_shows(app: App) -> None:
    ball = one_color((255, 140, 25), 144, 256)
    assert texts(seen(app, frame_handler_for(app, BALL), ball)) == ["ball"]


@pytest.mark.parametrize(("opacity", "expected"), [(1.0, (225, 155, 55)), (0.5, (128, 128, 128))])
def test_repaint(opacity: float, expected: tuple[int, ...], app: App, tmp_path: Path) -> None:
    network = app.network(negative_model(tmp_path / "n.tflite"))
    canvas = seen(app, repaint(network, opacity=opacity), one_color((30, 100, 200), 8, 12))
    assert np.abs(canvas.pixels().astype(int) - expected).max() <= 1


def test_repaint_takes_the_range_from_the_metadata(app: App, tmp_path: Path) -> None:
    network = app.network(negative_model(tmp_path / "n.tflite"))
    about = TensorMetadata(minimum=(-1.0,), maximum=(1.0,))
    network.metadata = Metadata(inputs=network.metadata.inputs, outputs=(about,))
    repaint(network)
    assert (network.pictures[0].scale, network.pictures[0].offset) == (0.5, 0.5)


def stub(
    *outputs: list[int],
    dtype: str = "float32",
    labels: int = 0,
    name: str = "",
    names: str = "",
    inputs: tuple[list[int], ...] = ([1, 128, 128, 3],),
) -> tuple[list[Tensor], list[Tensor], Metadata]:
    """The arguments of `find_task` for a network."""

    def tensors(shapes: Any, name: str, dtype: str) -> list[Tensor]:
        return [Tensor(i, name, dtype, tuple(shape), ()) for i, shape in enumerate(shapes)]

    about = TensorMetadata(labels=("x",) * labels)
    metadata = Metadata(name=name, outputs=(about,) * len(outputs))
    return tensors(inputs, "", "float32"), tensors(outputs, names, dtype), metadata


@pytest.mark.parametrize(
    ("network", "task"),
    [
        (stub([1, 1001]), "classify"),
        (stub([1, 1, 1, 7], labels=7), "classify"),
        (stub([1, 1, 1, 7], name="ImageClassifier"), "classify"),
        (stub([1, 10, 4], [1, 10], [1, 10], [1]), "detect"),
        (stub([1, 10], [1, 10, 4], [1], [1, 10]), "detect"),
        (stub([], [], [], []), "detect"),
        (stub([1, 896, 16], [1, 896, 1]), "detect"),
        (stub([1, 300, 6], inputs=([1, *YOLO_SIZE, 3],)), "detect"),
        (stub([1, 378, 85], inputs=([1, *YOLO_SIZE, 3],)), "detect"),
        (stub([16, 7], inputs=([1, *YOLO_SIZE, 3],)), "detect"),
        (stub([1, 1, 17, 3]), "pose"),
        (stub([1, 6, 56]), "pose"),
        (stub(*[[1, 9, 9, 17]] * 4, names="heatmap"), "pose"),
        (stub([1, 128, 128, 3]), "repaint"),
        (stub([1, 256, 256, 1]), "repaint"),
        (stub([1, 128, 128, 3], labels=3), "segment"),
        (stub([1, 128, 128, 3], name="ImageSegmenter"), "segment"),
        (stub([1, 64, 64, 1]), "segment"),
        (stub([1, 64, 64, 21]), "segment"),
        (stub([1, 64, 64], dtype="int64"), "segment"),
        (stub([1, 1, 1, 100]), None),  # a style
        (stub([1, 213], [1, 15]), None),  # an eye
        (stub(*[[1, 63], [1, 1]] * 2), None),  # a hand
        (stub(*[[1, 9, 9, 17]] * 4), None),
        (stub([1, 64, 64]), None),
        (stub([2, 64, 64, 3]), None),
        (stub([1, 9], inputs=([1, 8, 8, 4],)), None),
        (stub([1, 9], inputs=([1, 8, 8, 3], [1, 9])), None),
        (stub([1, 521], inputs=([15600],)), None),
    ],
)
def test_the_task_of_a_network(network: Any, task: str | None) -> None:
    assert find_task(*network) == task


def test_outputs_that_tell_no_task(tmp_path: Path) -> None:
    builder = ModelBuilder()
    x = builder.input((1, 9))
    (tmp_path / "x.tflite").write_bytes(builder.build([builder.op("NEG", [x], [(1, 9)])]))
    with pytest.raises(ValueError, match=r"outputs show its task, one of classify, .* name"):
        TaskModel.of(BaseOptions(tmp_path / "x.tflite")).required()


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ("pose", r"expected MoveNet's .* found \[1, 3\]"),
        ("segment", r"expected scores \[1, height, width, classes\], found an output \[1, 3\]"),
        ("detect", "expected the outputs of a detector"),
        ("repaint", "expected a picture, an output"),
    ],
)
def test_networks_that_do_not_suit(task: str, message: str, app: App, tmp_path: Path) -> None:
    path = mean_model(tmp_path / "m.tflite")
    with pytest.raises(ValueError, match=message):
        seen(app, frame_handler_for(app, path, TaskSettings(task)), one_color((0, 0, 0), 9, 9))


def test_settings_that_contradict_each_other(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"expected a task, one of classify, .* found 'sing'"):
        TaskSettings("sing")
    with pytest.raises(ValueError, match="expected the task 'detect' for the kind 'yolov8', found"):
        TaskSettings("pose", kind="yolov8")


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "picture.png"
    Image.fromarray(one_color((20, 40, 250), 60, 90)).save(path)
    return path


def test_watch_a_picture(picture: Path, tmp_path: Path) -> None:
    output = tmp_path / "o.png"
    options = ("--picture", picture, "--headless", "--output", output)
    model = negative_model(tmp_path / "n.tflite")
    assert call("watch", model, *options).startswith("repaint; milliseconds: read ")
    assert np.abs(pixels(output).astype(int) - (235, 215, 5)).max() <= 1
    data = call_json("watch", model, *options, "--mean", 255, "--std", 255)
    assert (data["task"], data["output"]) == ("repaint", str(output))
    assert {"read", "n", "draw", "write", "frame"} <= data["milliseconds"].keys()
    assert pixels(output).min() == 255  # 1 - (x - 255) / 255 is 1 or more


def test_watch_with_labels_and_a_task(picture: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("\n".join(COLORS))
    model, output = color_model(tmp_path / "c.tflite"), tmp_path / "o.png"
    options = ("--picture", picture, "--headless", "--output", output, "--timings")
    assert call("watch", model, *options, "--labels", labels).startswith("repaint")
    actual = call("watch", model, *options, "--labels", labels, "--task", "segment")
    assert actual.startswith("1 class\nsegment;")


def test_watch_says_how_much_it_found(picture: Path, tmp_path: Path) -> None:
    """On a picture without a ball nothing is drawn, and a line says so; then a ball rolls in."""
    watched = ("watch", BALL, "--picture", picture, "--headless")
    assert call(*watched).startswith("0 classes\nsegment;")
    data = call_json(*watched)
    assert (data["frames"], data["found"]) == (1, {"class": {"most": 0, "frames": 0}})
    counts = ObjectCounts()
    for count in (0, 2, 1):
        counts.add({"hand": count, "face": 0})
    assert str(counts) == "2 hands at most, in 2 of 3 frames\n0 faces"


def test_watch_a_camera_and_a_video(tmp_path: Path) -> None:
    camera = "lavfi:color=c=0xff8c19:size=64x48:rate=10"
    first, second, cache = tmp_path / "a.mp4", tmp_path / "b.mp4", tmp_path / "cache"
    call("watch", BALL, "--camera", camera, "--frames", 3, "--headless", "--output", first)
    assert len(read_video(first)) == 3
    call("watch", BALL, "--video", first, "--headless", "--output", second, "--cache", cache)
    assert [frame.shape for frame in read_video(second)] == [(48, 64, 3)] * 3
    assert [*cache.iterdir()]


def test_watch_has_a_bar_for_frames_but_not_for_one(picture: Path, tmp_path: Path) -> None:
    video = write_video(tmp_path / "v.mp4", one_color((20, 40, 250), 48, 64))
    for source, file, flags, has_frames in (
        ("--video", video, (), True),
        ("--picture", picture, (), False),
        ("--video", video, ("--json",), False),
    ):
        text = bars("watch", BALL, source, file, "--headless", *flags)
        assert ("frames" in text) == has_frames
        assert ("compiling" in text) == (not flags)


def test_watch_what_is_wrong(picture: Path, tmp_path: Path, monkeypatch: Any) -> None:
    model = negative_model(tmp_path / "n.tflite")
    expected = "one of --camera, --gstreamer, --video and --picture"
    assert expected in call("watch", model, status=2)
    twice = ("--picture", picture, "--camera", "0")
    assert expected in call("watch", model, *twice, status=2)
    no = ("--picture", tmp_path / "no.png", "--headless")
    assert "cannot read the picture" in call("watch", model, *no, status=1)
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    text = call("watch", model, "--picture", picture, status=1)
    assert "--headless --output FILE" in text


@pytest.mark.parametrize(
    ("missing", "needing"),
    [("av", "gles_apps.live needs the extra apps"), ("glfw", "a window needs glfw")],
)
def test_watch_says_what_to_install(missing: str, needing: str, picture: Path) -> None:
    code = (
        f"import sys\nsys.modules[{missing!r}] = None\nfrom gles_delegate.cli import main\nmain()"
    )
    result = run_python(code, "watch", BALL, "--picture", picture)
    assert result.returncode == 1
    assert f"{needing} (import of {missing} halted" in result.stderr
    assert "pip install " in result.stderr


@pytest.mark.mesa
@pytest.mark.usefixtures("display")
def test_watch_in_a_window(server: str, picture: Path) -> None:
    command = [sys.executable, "-m", "gles_delegate", "watch", BALL, "--picture", picture]
    with started(command) as process:
        title = f"gles-delegate watch {BALL.name}: [1-9][0-9]* frames per second"
        with keyboard(server, title) as press:
            press("q", until=process)
        printed, _ = process.communicate(timeout=60)
    assert printed.startswith("0 classes\nsegment;")
