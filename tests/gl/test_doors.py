"""One network, one picture, every way in: the same classes, objects, people and areas."""

import csv
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gles_apps.tasks as mp
from gles_apps.batch import Predictor
from gles_apps.live import App, Canvas, Frame, frame_handler_for
from gles_apps.live.app import FrameTask
from gles_apps.live.painter import Painter, new_texture
from gles_apps.tasks import vision
from gles_apps.vision.drawing import Drawing
from gles_delegate.cli.tensor_files import load_inputs
from gles_delegate.model.reader import read_file
from tests.support.command import call, call_json, saved
from tests.support.example import EXAMPLES, pixels
from tests.support.live import (
    alpha_model,
    color_model,
    frame_of,
    live_app,
    mean_model,
    shapeless_model,
)
from tests.support.mediapipe import Oracle
from tests.support.yolo import found_in, yolo_model

Rows = list[dict[str, Any]]

PROTOTYPES = np.ones((1, 24, 16, 2), np.float32)
MADE: dict[str, Callable[[Path], Path]] = {
    "mean": mean_model,
    "logits": lambda path: mean_model(path, 50),
    "no shape": shapeless_model,
    "alpha": alpha_model,
    "color numbers": lambda path: color_model(path, as_numbers=True),
    "yolo": lambda path: yolo_model(path, found_in(), task="detect", names=["cat", "dog"]),
    "yolo masks": lambda path: yolo_model(
        path, PROTOTYPES, found_in((9, 9)), task="segment", names=["cat", "dog"]
    ),
}
SHIPPED = ("ball_segmenter", "digit_classifier", "digit_detector")
REAL = (
    *("mobilenet_v1_0.25_128_quant", "mobilenet_v2_1.0_224_quant", "tf2_mobilenet_v2_1.0_224_ptq"),
    *("custom_ssd_mobilenet_v2_fpn_lite_320x320", "face_detection_short_range"),
    *("deeplabv3_257_mv_gpu", "selfie_segmenter", "movenet_single_pose_lightning_ptq"),
    "hair_segmentation",
)
BUNDLES = ("face_landmarker.task", "hand_landmarker.task", "pose_landmarker_lite.task")
PICTURES = ("cat_720p.jpg", "pets.jpg", "face.jpg")
PAIRS = [
    *((name, "made") for name in (*MADE, *SHIPPED)),
    *((name, PICTURES[i % 3]) for i, name in enumerate((*SHIPPED, *REAL, *BUNDLES))),
    *((name, "face.jpg") for name in BUNDLES),
]
"""Names of models and pictures."""


@pytest.fixture
def app() -> Iterator[App]:
    with live_app() as app:
        yield app


@pytest.fixture
def model(name: str, tmp_path: Path, real_model: Callable[[str], bytes]) -> Path:
    if name in MADE:
        return MADE[name](tmp_path / "made.tflite")
    if name in SHIPPED:
        return EXAMPLES / "models" / f"{name}.tflite"
    if name in BUNDLES:
        path = Oracle().model(name)
        if not path.is_file():
            pytest.skip(f"{name} is missing")
        return path
    return saved(tmp_path / f"{name}.tflite", real_model(name))


@pytest.fixture
def picture(shown: str, tmp_path: Path, real_picture: Callable[[str], Path]) -> Path:
    path = tmp_path / "picture.png"
    if shown != "made":
        Image.open(real_picture(shown)).convert("RGB").save(path)
        return path
    y, x = np.indices((200, 320))
    waves = [127 + 120 * np.sin(x / (9 + 7 * i) + y / 23) for i in range(3)]
    Image.fromarray(np.stack(waves, 2).astype(np.uint8)).save(path)
    return path


def opened(base: mp.BaseOptions, image: mp.Image, top: int | None) -> tuple[Rows, Any]:
    with vision.open_task(base, vision.TaskSettings(top=top)) as task:
        result = task.process(image)
        drawing = Drawing(image.size)
        result.draw(drawing)
        return result.rows(image.size), drawing


def by_run(model: Path, picture: Path, *options: object) -> Rows:
    rows: Rows = call_json("run", model, "--input", picture, *options)["results"]
    return rows


def by_live(app: App, model: Path, picture: Path, top: int | None) -> Rows:
    """The rows of the result that a handler draws."""
    results: list[Any] = []
    frame = frame_of(app, pixels(picture))
    with recorded(results):
        handler = frame_handler_for(app, model, vision.TaskSettings(top=top))
        canvas = Canvas(frame, Painter(frame.size), frame.size)
        handler(frame, canvas)
    rows: Rows = results[0].rows(frame.size)
    return rows


@contextmanager
def recorded(results: list[Any]) -> Iterator[None]:
    own = FrameTask.__call__

    def call_and_keep(task: FrameTask[Any], frame: Frame) -> Any:
        results.append(own(task, frame))
        return results[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FrameTask, "__call__", call_and_keep)
        yield


def assert_alike(actual: Rows, expected: Rows, step: float) -> None:
    """Rows in the same order, numbers within `step`, positions within pixels."""
    assert [row.get("label") for row in actual] == [row.get("label") for row in expected]
    for one, other in zip(actual, expected, strict=True):
        assert one.keys() == other.keys()
        for key, value in one.items():
            if key in ("score", "share", "key_point_scores"):
                np.testing.assert_allclose(value, other[key], atol=step)
            elif key not in ("class", "label", "side"):
                np.testing.assert_allclose(value, other[key], atol=100 * step)


@pytest.mark.parametrize(("name", "shown"), PAIRS)
def test_all_doors_give_the_same_rows(model: Path, picture: Path, app: App) -> None:
    image = mp.Image(mp.ImageFormat.SRGB, pixels(picture))
    rgba = np.dstack([pixels(picture), np.full(image.size, 255, np.uint8)])
    expected = by_run(model, picture)
    top = 1 if is_classifier(expected) else None
    rows, drawing = opened(mp.BaseOptions(model, antialias=True), image, top)
    assert rows == expected
    texture = mp.Image.create_from_texture(new_texture(rgba))
    shared = mp.BaseOptions(model, antialias=True, context="current")
    assert opened(shared, texture, top)[0] == rows
    seen = by_live(app, model, picture, top)
    if "share" in (rows[0] if rows else {}):  # at the network's size
        assert_alike(seen, rows, 0.02)
    else:
        assert seen == rows
    drawn = picture.with_name("drawn.png")
    call("run", model, "--input", picture, "--output", drawn)
    on_picture = drawing.on_picture(Image.open(picture))
    np.testing.assert_array_equal(pixels(drawn), np.asarray(on_picture))


@pytest.mark.parametrize("name", ["no shape", "alpha"])
@pytest.mark.parametrize("shown", ["made"])
def test_arrays_are_as_for_tasks(name: str, model: Path, picture: Path) -> None:
    """Also where no task is asked for: shapes are the prepared graph's, and alpha is 0."""
    with vision.open_task(mp.BaseOptions(model, antialias=True)) as task:
        task.process(mp.Image.create_from_file(picture))
        (expected,) = task.network.arrays
    file = picture.with_name("y.npy")
    call("run", model, "--input", picture, "--output", file)
    np.testing.assert_allclose(np.load(file), expected, atol=0.002)
    (tensor,) = load_inputs(read_file(model).graph(), [str(picture)], None, None).values()
    np.save(picture.with_name("x.npy"), tensor)
    data = call_json("run", model, "--input", picture.with_name("x.npy"), "--output", file)
    np.testing.assert_allclose(np.load(file), expected, atol=0.002)
    assert data["outputs"][0]["shape"] == list(expected.shape)
    if name == "alpha":
        assert expected[..., 1].max() == tensor[..., 3].max() == 0
    with closing(Predictor(model)) as predictor:
        (found,) = predictor({"image": [picture.read_bytes()]}).values()
    np.testing.assert_allclose(found, expected, atol=0.002)
    table = picture.with_name("r.csv")
    call("batch", model, picture, "--output", table, "--outputs", "--workers", 1)
    (row,) = csv.DictReader(table.read_text().splitlines())
    assert len([key for key in row if key[-1].isdigit()]) == expected.size


def test_alpha_of_a_picture_is_seen_by_arrays(tmp_path: Path) -> None:
    model = alpha_model(tmp_path / "m.tflite")
    Image.new("RGBA", (12, 8), (1, 2, 3, 51)).save(tmp_path / "a.png")
    graph = read_file(model).graph()
    (tensor,) = load_inputs(graph, [str(tmp_path / "a.png")], None, None).values()
    np.testing.assert_allclose(tensor[..., 3], 0.2, rtol=1e-6)


def is_classifier(rows: Rows) -> bool:
    return bool(rows) and rows[0].keys() == {"class", "label", "score"}


@pytest.mark.parametrize("antialias", [True, False])
@pytest.mark.parametrize("shown", ["made", "face.jpg"])
@pytest.mark.parametrize("name", [*MADE, *SHIPPED])
def test_the_cpu_gives_alike_rows(antialias: bool, model: Path, picture: Path) -> None:
    """LiteRT's kernels and numpy's sampling: to half a color step and a rounding."""
    pytest.importorskip("ai_edge_litert")
    image = mp.Image(mp.ImageFormat.SRGB, pixels(picture))
    rows = [
        opened(mp.BaseOptions(model, delegate=delegate, antialias=antialias), image, None)[0]
        for delegate in (mp.BaseOptions.Delegate.GPU, mp.BaseOptions.Delegate.CPU)
    ]
    assert_alike(rows[0], rows[1], 0.02)
    flag = "--antialias" if antialias else "--no-antialias"
    again = by_run(model, picture, flag)
    assert again == rows[0][: len(again)]
