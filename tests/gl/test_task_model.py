"""A task's model: read once, and opened as often and wherever an app wants."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
from gles_apps.batch import Predictor, TaskPredictor
from gles_apps.tasks.vision import TaskSettings
from gles_apps.tasks.vision.opening import TaskModel
from gles_delegate import ModelError
from tests.support.command import saved
from tests.support.example import EXAMPLES

BALL = (EXAMPLES / "models" / "ball_segmenter.tflite").read_bytes()
DIGITS = (EXAMPLES / "models" / "digit_classifier.tflite").read_bytes()
PICTURE = mp.Image.create_from_file(str(EXAMPLES / "ball.jpg"))


def rows(model: TaskModel, base: mp.BaseOptions) -> list[dict[str, Any]]:
    with model.open(base) as task:
        return task.process(PICTURE).rows(PICTURE.size)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.tflite", BALL)


def test_a_model_outlives_its_tasks(path: Path) -> None:
    """Each task is closed alone; the model can be opened again."""
    base = mp.BaseOptions(path)
    model = TaskModel.of(base)
    first = model.open(base)
    second = model.open(base)
    expected = first.process(PICTURE).rows(PICTURE.size)
    assert [row["label"] for row in expected] == ["ball"]
    first.close()
    assert second.process(PICTURE).rows(PICTURE.size) == expected
    second.close()
    assert rows(model, base) == expected
    with pytest.raises(ValueError, match="not running"):
        second.process(PICTURE)


def test_options_stay_the_callers(path: Path) -> None:
    base = mp.BaseOptions(path)
    model = TaskModel.of(base)
    with model.open(base) as task:
        assert task.options.base_options.assets is model.assets
        assert task.options.base_options.model_asset_path is None
    assert base == mp.BaseOptions(path)


@pytest.mark.parametrize("other", [DIGITS, b"no model", None])
def test_a_file_that_changes_later_does_not_matter(other: bytes | None, path: Path) -> None:
    base = mp.BaseOptions(path)
    model = TaskModel.of(base)
    expected = rows(TaskModel.of(base), base)
    if other is None:
        path.unlink()
    else:
        os.replace(saved(path.with_name("other"), other), path)
    assert model.task == "segment"
    assert rows(model, base) == expected


def test_the_model_is_its_own_not_that_of_the_options(path: Path) -> None:
    base = mp.BaseOptions(path)
    model = TaskModel.of(base)
    for other in (mp.BaseOptions("missing.tflite"), mp.BaseOptions(model_asset_buffer=DIGITS)):
        assert rows(model, other) == rows(model, base)


@pytest.mark.parametrize(
    "given", [lambda path: {"model_asset_buffer": BALL}, lambda path: {"assets": assets_at(path)}]
)
def test_contents_and_read_files_are_models_too(
    given: Callable[[Path], dict[str, Any]], path: Path
) -> None:
    by_path = mp.BaseOptions(path)
    expected = rows(TaskModel.of(by_path), by_path)
    base = mp.BaseOptions(**given(path))
    path.unlink()
    model = TaskModel.of(base)
    assert model.task == "segment"
    assert rows(model, base) == expected
    with mp.vision.ImageSegmenter.create_from_options(
        mp.vision.ImageSegmenterOptions(base_options=base)
    ) as segmenter:
        assert segmenter.labels == ["ball"]


def assets_at(path: Path) -> Any:
    return TaskModel.of(mp.BaseOptions(path)).assets


@pytest.mark.parametrize(
    "source",
    [Path, str, bytes, bytearray, memoryview, "array", "assets"],
    ids=lambda source: source if isinstance(source, str) else source.__name__,
)
@pytest.mark.parametrize("kind", [Predictor, TaskPredictor])
def test_predictors_take_a_model_in_every_form(kind: Any, source: Any, path: Path) -> None:
    if source == "array":
        model: Any = np.frombuffer(BALL, np.uint8)
    elif source == "assets":
        model = assets_at(path)
    else:
        model = source(path if source in (Path, str) else BALL)
    with closing(kind(model)) as predictor:
        results = predictor({"image": [np.zeros((9, 9, 3), np.uint8)]})
    assert [len(column) for column in results.values()] == [1]


def test_a_task_keeps_the_columns_beside_the_pictures(path: Path) -> None:
    pictures = [np.zeros((9, 9, 3), np.uint8)] * 2
    with closing(TaskPredictor(path)) as predictor:
        results = predictor({"name": ["a", "b"], "image": pictures})
        alone = predictor({"picture": pictures})
        with pytest.raises(ValueError, match=r"column 'image', found \['name', 'picture'\]"):
            predictor({"name": ["a", "b"], "picture": pictures})
    assert [*results] == ["name", "results"]
    assert results["name"].tolist() == ["a", "b"]
    assert [*alone] == ["results"]


def test_threads_share_a_model(path: Path) -> None:
    base = mp.BaseOptions(path)
    expected = rows(TaskModel.of(base), base)
    model = TaskModel.of(base)
    together = Barrier(4)

    def look() -> list[dict[str, Any]]:
        together.wait(60)
        return rows(model, base)

    with ThreadPoolExecutor(4) as pool:
        results = [each.result() for each in [pool.submit(look) for _ in range(4)]]
    assert results == [expected] * 4


@pytest.mark.parametrize("content", [b"", b"no model", BALL[:5000], b"PK\x05\x06" + bytes(18)])
def test_foreign_files(content: bytes, tmp_path: Path) -> None:
    base = mp.BaseOptions(saved(tmp_path / "m.tflite", content))
    for ask in (
        lambda: TaskModel.of(base).task,
        lambda: TaskModel.of(base).required(),
        lambda: mp.vision.open_task(base),
        lambda: TaskModel.of(base, TaskSettings("segment")).open(base),
    ):
        with pytest.raises(ModelError):
            ask()


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"Unable to open file at .*m\.tflite"):
        TaskModel.of(mp.BaseOptions(tmp_path / "m.tflite"))
    with pytest.raises(IsADirectoryError):
        TaskModel.of(mp.BaseOptions(tmp_path))
    with pytest.raises(ValueError, match="model_asset_path or model_asset_buffer"):
        TaskModel.of(mp.BaseOptions())


def test_other_settings_are_another_model(path: Path) -> None:
    """What is known of the model's task goes with the settings that it was found by."""
    model = TaskModel.of(mp.BaseOptions(path))
    assert model.task == "segment"
    assert replace(model, settings=TaskSettings("pose")).task == "pose"
