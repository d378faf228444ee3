"""A model's file is opened once and parsed once at a start, whichever way it goes in."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps import live
from gles_apps.batch import Predictor, TaskPredictor, pool
from gles_apps.live import FrameHandler
from gles_apps.tasks import vision
from gles_apps.tasks.assets import Assets
from gles_delegate import DelegateError, Interpreter
from gles_delegate.model import reader
from gles_delegate.model.reader import read_file
from gles_delegate.planning import outputs
from tests.support.command import call, saved
from tests.support.example import EXAMPLES
from tests.support.small import with_a_detour

MODEL, PICTURE = EXAMPLES / "models" / "ball_segmenter.tflite", EXAMPLES / "ball.jpg"
OPENED: list[str] = []
INSTALLED: list[bool] = []


def note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and isinstance(arguments[0], str | os.PathLike):
        OPENED.append(os.fspath(arguments[0]))


def by_task(model: Path, folder: Path) -> None:
    with vision.open_task(mp.BaseOptions(model)) as task:
        task.process(mp.Image.create_from_file(PICTURE))


def void(_: object) -> None: ...


def by_live(model: Path, folder: Path) -> None:
    options = live.ShowOptions(headless=True, frames=1, quiet=True)
    live.show(lambda app: live.frame_handler_for(app, str(model)), live.Picture(PICTURE), options)


def by_network(model: Path, folder: Path) -> None:
    def make(app: live.App) -> FrameHandler:
        network = app.network(str(model))
        return lambda frame, canvas: void(network(frame))

    live.show(make, live.Picture(PICTURE), live.ShowOptions(headless=True, frames=1, quiet=True))


def by_run(model: Path, folder: Path) -> None:
    call("run", model, "--input", PICTURE)


def by_arrays(model: Path, folder: Path) -> None:
    np.save(folder / "x.npy", np.zeros((1, 144, 256, 3), np.float32))
    call("run", model, "--input", folder / "x.npy")


def by_watch(model: Path, folder: Path) -> None:
    call("watch", model, "--picture", PICTURE, "--headless", "--frames", 1, "--json")


def by_batch(model: Path, folder: Path) -> None:
    call("batch", model, PICTURE, "--output", folder / "r.csv", "--workers", 1, "--json")


def by_compare(model: Path, folder: Path) -> None:
    call("compare", model)


def by_predictor(model: Path, folder: Path) -> None:
    with closing(Predictor(model)) as predictor:
        predictor({"image": [np.zeros((9, 9, 3), np.uint8)]})


def by_task_predictor(model: Path, folder: Path) -> None:
    with closing(TaskPredictor(model)) as predictor:
        predictor({"image": [np.zeros((9, 9, 3), np.uint8)]})


WAYS: tuple[Callable[[Path, Path], None], ...] = (
    by_task, by_live, by_network, by_run, by_arrays, by_watch, by_batch, by_compare,
    by_predictor, by_task_predictor,
)  # fmt: skip


@pytest.fixture
def opened() -> Iterator[list[str]]:
    """The files that Python opens. A hook stays in the process."""
    if not any(INSTALLED):
        sys.addaudithook(note)
        INSTALLED.append(True)
    OPENED.clear()
    yield OPENED
    OPENED.clear()


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Models and metadata that are parsed, in any module."""
    calls: list[str] = []
    for function in (reader.read_model, outputs.parse_metadata):

        def counted(*arguments: Any, function: Any = function) -> Any:
            calls.append(function.__name__)
            return function(*arguments)

        for module in [*sys.modules.values()]:
            if vars(module).get(function.__name__) is function:
                monkeypatch.setattr(module, function.__name__, counted)
    return calls


@pytest.mark.parametrize("is_inside", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_a_model_is_read_once(
    way: Callable[[Path, Path], None],
    is_inside: bool,
    tmp_path: Path,
    opened: list[str],
    parsed: list[str],
) -> None:
    """Also by a path into a bundle."""
    file = tmp_path / "two.task"
    with ZipFile(file, "w") as bundle:
        bundle.write(MODEL, "ball.tflite")
        bundle.write(EXAMPLES / "models" / "digit_classifier.tflite", "digits.tflite")
    model = file / "ball.tflite"
    if not is_inside:
        model = file = saved(tmp_path / "model.tflite", MODEL.read_bytes())
    opened.clear()
    way(model, tmp_path)
    assert opened.count(str(file)) == 1
    assert parsed.count("read_model") == 1
    assert parsed.count("parse_metadata") <= 1


def test_a_file_that_is_replaced_gives_no_second_model(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.tflite", with_a_detour()[1])
    file = read_file(path)
    other = saved(tmp_path / "other.tflite", MODEL.read_bytes())
    os.replace(other, path)
    with Interpreter(file) as interpreter:  # with LiteRT for some nodes
        assert interpreter.get_input_details()[0]["shape"].tolist() == [2, 5, 3]
        interpreter.allocate_tensors()
        interpreter.invoke()


def test_workers_refuse_a_file_that_was_replaced(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.tflite", MODEL.read_bytes())
    assets = Assets(path)
    saved(path, (EXAMPLES / "models" / "digit_classifier.tflite").read_bytes())
    with pytest.raises(DelegateError, match=r"model\.tflite has changed meanwhile"):
        list(pool.compute(assets, {}, [[str(PICTURE)]], 1, print))


def test_a_path_into_a_bundle_leads_to_a_file(tmp_path: Path) -> None:
    with ZipFile(tmp_path / "inner.task", "w") as inner:
        inner.write(MODEL, "ball.tflite")
    with ZipFile(tmp_path / "outer.task", "w") as outer:
        outer.write(tmp_path / "inner.task", "inner.task")
        outer.writestr("notes.txt", "of no use")
    for within in ("inner.task/ball.tflite", "inner.task"):  # the only model
        with vision.ImageSegmenter.create_from_model_path(tmp_path / "outer.task" / within) as task:
            assert task.labels == ["ball"]
    with pytest.raises(FileNotFoundError, match=r"All files in the .* are: inner.task, notes.txt"):
        Assets(tmp_path / "outer.task" / "ball.tflite")
    with pytest.raises(DelegateError, match=r"expected a \.tflite model"):
        Assets(tmp_path / "outer.task" / "notes.txt").model()
