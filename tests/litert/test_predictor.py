"""`Predictor` in this process: columns, pictures, batches."""

import io
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from gles_apps.batch import Predictor, TaskPredictor, machine
from gles_apps.tasks.vision import TaskSettings
from tests.support.chained import KINDS, chained, expected_of, row_of
from tests.support.example import EXAMPLES
from tests.support.sketch import Sketch
from tests.support.small import means
from tests.support.tflite_builder import ModelBuilder

Array = NDArray[Any]


def dense() -> bytes:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 4), name="x")
    weights = [s.constant(s.normal((3, 4))), s.constant(s.normal((3,)))]
    y = s.op("FULLY_CONNECTED", [x, *weights], [s.tensor((1, 3), name="y")])
    return s.build([y])


def alone(content: bytes, row: Array) -> Array:
    with gd.Interpreter(model_content=content) as interpreter:
        name = interpreter.get_input_details()[0]["name"]
        (actual,) = interpreter.run({name: row[np.newaxis]}).values()
    return np.asarray(actual[0])


def test_batches_of_every_size() -> None:
    predictor = Predictor(dense())
    rng = np.random.default_rng(0)
    for rows in (5, 2, 5, 0, 7, 1):
        x = rng.standard_normal((rows, 4)).astype(np.float32)
        actual = predictor({"x": x, "id": np.arange(rows)})
        assert actual.keys() == {"id", "y"}
        assert actual["y"].shape == (rows, 3)
        np.testing.assert_array_equal(actual["id"], np.arange(rows))
        for row, y in zip(x, actual["y"], strict=True):
            np.testing.assert_allclose(y, alone(dense(), row), rtol=0, atol=1e-6)
    predictor.close()


@pytest.fixture
def no_temporary_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As in a container whose file system is read-only."""
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr("tempfile._candidate_tempdir_list", lambda: ["/nonexistent"])
    machine.cache_folder.cache_clear()
    yield
    machine.cache_folder.cache_clear()


@pytest.mark.usefixtures("no_temporary_folder")
def test_nothing_is_kept_without_a_temporary_folder(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LP_NUM_THREADS", "2")
    machine.take_processors(1)
    with closing(Predictor(dense())) as predictor:
        assert predictor({"x": np.zeros((2, 4), np.float32)})["y"].shape == (2, 3)
    model = EXAMPLES / "models" / "digit_classifier.tflite"
    with closing(TaskPredictor(model, TaskSettings(top=1))) as tasks:
        assert len(tasks({"image": [np.zeros((9, 9, 3), np.uint8)]})["results"]) == 1
    (warning,) = (text for text in caplog.messages if "kept" in text)
    assert warning.startswith("no programs are kept for the next start: No usable temporary")


def test_a_smaller_batch_compiles_nothing() -> None:
    predictor = Predictor(dense())
    prepared: list[tuple[int, ...]] = []
    run = predictor._run

    def noted(feeds: dict[str, Array]) -> Any:
        prepared.append(feeds["x"].shape)
        return run(feeds)

    predictor._run = noted
    for rows in (8, 8, 3, 1):
        predictor({"x": np.ones((rows, 4), np.float32)})
    assert prepared == [(8, 4)] * 4
    predictor.close()


def test_a_model_of_one_batch_size() -> None:
    """Its RESHAPE keeps it from being resized; rows are computed one by one."""
    s = Sketch(np.random.default_rng(0))
    x = s.input((2, 3), name="x")
    flat = s.op("RESHAPE", [x, s.constant(np.int32([6]))], [(6,)])
    y = s.op("RESHAPE", [flat, s.constant(np.int32([2, 3]))], [s.tensor((2, 3), name="y")])
    predictor = Predictor(s.build([y]))
    for rows in (4, 5, 1):
        x_rows = np.arange(3.0 * rows, dtype=np.float32).reshape(rows, 3)
        np.testing.assert_array_equal(predictor({"x": x_rows})["y"], x_rows)
    predictor.close()


def test_a_run_that_gives_another_number_of_rows() -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((2, 3), name="x")
    with closing(Predictor(s.build([s.op("NEG", [x], [s.tensor((2, 3), name="y")])]))) as predictor:
        predictor._run = lambda feeds: {"y": np.zeros((3, 3), np.float32)}
        message = r"expected outputs of 2 rows, found the shapes \{'y': \[3, 3\]\}"
        with pytest.raises(ValueError, match=message):
            predictor({"x": np.zeros((2, 3), np.float32)})


def test_rows_that_depend_on_each_other_are_computed_one_by_one() -> None:
    """The model subtracts the mean over all rows, which a batch would change."""
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 3), name="x")
    mean = s.op("MEAN", [x, s.constant(np.int32([0]))], [(1, 3)], keep_dims=True)
    half = s.op("MUL", [mean, s.constant(np.float32(0.5))], [(1, 3)])
    y = s.op("SUB", [x, half], [s.tensor((1, 3), name="y")])
    predictor = Predictor(s.build([y]))
    rows = np.arange(12, dtype=np.float32).reshape(4, 3)
    np.testing.assert_allclose(predictor({"x": rows})["y"], rows / 2)
    predictor.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(1, 5, 3), (4, 4, 1)])
def test_no_row_reaches_another(kind: str, sizes: tuple[int, ...]) -> None:
    predictor = Predictor(chained(kind))
    number = 0
    for size in sizes:
        rows = [row_of(kind, number + i) for i in range(size)]
        (actual,) = predictor({"x": np.stack(rows)}).values()
        expected = [expected_of(kind, row) for row in rows]
        np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-5)
        number += size
    predictor.close()


@pytest.mark.parametrize("shape", [(6,), (2, 3)])
def test_whole_inputs_of_a_model_without_a_batch(shape: tuple[int, ...]) -> None:
    b = ModelBuilder()
    b.op("NEG", [b.input(shape, name="sound")], [y := b.tensor(shape, name="y")])
    predictor = Predictor(b.build([y]))
    rows = np.arange(18, dtype=np.float32).reshape(3, *shape)
    np.testing.assert_array_equal(predictor({"sound": rows})["y"], -rows)
    predictor.close()


def test_an_output_without_a_dimension_for_rows() -> None:
    s = Sketch(np.random.default_rng(0))
    x, y = s.input((1, 4), name="x"), s.tensor((4,), name="y")
    s.op("RESHAPE", [x, s.constant(np.int32([4]))], [y])
    predictor = Predictor(s.build([y]))
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(predictor({"x": rows})["y"], rows)
    predictor.close()


def encoded(picture: Array) -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "png")
    return file.getvalue()


@pytest.mark.parametrize("kind", ["arrays", "files"])
def test_pictures_of_any_size(kind: str) -> None:
    colors = [(255, 0, 0), (0, 51, 102), (255, 255, 255)]
    sizes = [(4, 4), (9, 5), (30, 20)]
    pictures = [
        np.full((*size, 3), color, np.uint8) for color, size in zip(colors, sizes, strict=True)
    ]
    column = np.empty(3, object)
    column[:] = [encoded(p) for p in pictures] if kind == "files" else pictures
    predictor = Predictor(means())
    actual = predictor({"image": column, "name": np.array(["a", "b", "c"])})
    assert actual.keys() == {"name", "color"}
    np.testing.assert_allclose(actual["color"], np.array(colors) / 255, atol=1e-6)
    predictor.close()


def test_mean_and_std() -> None:
    predictor = Predictor(means(), mean=127.5, std=127.5)
    actual = predictor({"image": np.full((2, 4, 4, 3), 255, np.uint8)})
    np.testing.assert_allclose(actual["color"], 1, atol=1e-6)
    predictor.close()


COLORS = ["red", "green", "blue"]


def test_the_classes_of_pictures() -> None:
    for labels, expected in ((None, ["class 2", "class 0"]), (COLORS, ["blue", "red"])):
        predictor = TaskPredictor(means(), TaskSettings("classify", top=2, labels=labels))
        pictures = np.full((1, 4, 4, 3), (50, 40, 60), np.uint8)
        actual = predictor({"image": pictures, "name": ["a"]})
        assert actual["name"].tolist() == ["a"]
        (rows,) = actual["results"]
        assert [row["label"] for row in rows] == expected
        shares = [row["score"] for row in rows]
        np.testing.assert_allclose(shares, [60 / 255, 50 / 255], atol=1e-6)
        with pytest.raises(ValueError, match="expected a column 'image', found"):
            predictor({"a": pictures, "b": pictures})
        predictor.close()


def test_a_context_of_its_own_is_released(monkeypatch: pytest.MonkeyPatch) -> None:
    """At the end, and if the task cannot be made."""
    made: list[gd.EglContext] = []

    class Noted(gd.EglContext):
        def __init__(self, **options: Any) -> None:
            super().__init__(**options)
            made.append(self)

    monkeypatch.setattr("gles_apps.batch.tasks.EglContext", Noted)
    options = gd.GpuDelegateOptions(device_index=0)
    predictor = TaskPredictor(means(), TaskSettings("classify"), options=options)
    with made[0]:
        pass
    predictor.close()
    with pytest.raises(ValueError, match="expected"):
        TaskPredictor(means(), TaskSettings("classify", labels=COLORS[:2]), options=options)
    assert len(made) == 2
    for context in made:
        with pytest.raises(gd.ContextError, match="is released"), context:
            pass


@pytest.mark.parametrize("labels", [COLORS[:2], [*COLORS, "x"]])
def test_labels_that_do_not_suit(labels: list[str]) -> None:
    with pytest.raises(ValueError, match=f"a label for each of 3 classes, found {len(labels)}"):
        TaskPredictor(means(), TaskSettings("classify", labels=labels))


def test_signatures_have_names_of_their_own() -> None:
    b = ModelBuilder()
    x, y = b.input((1, 2), name="serving_x:0"), b.tensor((1, 2), name="out:0")
    b.op("NEG", [x], [y])
    content = b.build([y], signatures={"go": ({"a": x}, {"b": y}, 0)})
    predictor = Predictor(content, signature="go")
    actual = predictor({"a": np.float32([[1, 2], [3, 4]])})
    np.testing.assert_array_equal(actual["b"], [[-1, -2], [-3, -4]])
    predictor.close()


def test_several_inputs() -> None:
    b = ModelBuilder()
    x, z = b.input((1, 2), name="x"), b.input((1, 2), name="z")
    y = b.op("ADD", [x, z], [b.tensor((1, 2), name="y")])
    predictor = Predictor(b.build([y]))
    batch = {"x": np.float32([[1, 2]] * 3), "z": np.float32([[10, 20]] * 3)}
    np.testing.assert_array_equal(predictor(batch)["y"], [[11, 22]] * 3)
    with pytest.raises(ValueError, match=r"each of the inputs \['x', 'z'\], found \['x'\]"):
        predictor({"x": batch["x"]})
    predictor.close()


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"a": np.zeros((2, 4)), "b": np.zeros(2)}, r"inputs \['x'\], found \['a', 'b'\]"),
        ({"x": np.zeros((2, 4))}, r"float32 \[4\] for the input 'x', found float64 \[4\]"),
        ({"x": np.zeros((2, 4, 1), np.float32)}, r"found float32 \[4, 1\]"),
    ],
)
def test_wrong_batches(batch: dict[str, Array], message: str) -> None:
    predictor = Predictor(dense())
    with pytest.raises(ValueError, match=message):
        predictor(batch)
    predictor.close()


def test_what_is_no_picture() -> None:
    predictor = Predictor(means())
    column = np.empty(1, object)
    for row, message in ((b"text", "expected a picture, found bytes"), (np.zeros(3), "float64")):
        column[0] = row
        with pytest.raises(ValueError, match=message):
            predictor({"image": column})
    predictor.close()


def test_a_network_without_a_task() -> None:
    b = ModelBuilder()
    y = b.op("NEG", [b.input((1, 4, 4))], [(1, 4, 4)])
    with pytest.raises(ValueError, match="outputs show its task"):
        TaskPredictor(b.build([y]))


def test_an_unreadable_model() -> None:
    with pytest.raises(gd.ModelError, match="it is a text"):
        Predictor(b"no model at all")
