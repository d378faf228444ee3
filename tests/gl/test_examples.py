"""Every example, run as a user runs it."""

import importlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import gles_delegate as gd
from tests.support.example import EXAMPLES, half_blue, pixels, run
from tests.support.live import COLORS, mean_model

ENLARGING, BALL = (
    EXAMPLES / "models" / f"{name}.tflite" for name in ("super_resolution_x2", "ball_segmenter")
)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    return half_blue(tmp_path / "picture.png")


@pytest.fixture
def labels(tmp_path: Path) -> Path:
    path = tmp_path / "labels.txt"
    path.write_text("\n".join(COLORS))
    return path


def test_classify(tmp_path: Path, picture: Path, labels: Path) -> None:
    lines = run("classify.py", mean_model(tmp_path / "m.tflite"), picture, "--labels", labels)
    lines = lines.splitlines()
    assert lines[0].endswith("blue")
    assert len(lines) == 3


def test_classify_names_the_cat(
    tmp_path: Path, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    model = tmp_path / "mobilenet.tflite"
    model.write_bytes(real_model("mobilenet_v2_1.0_224_quant"))
    printed = run("classify.py", model, real_picture("cat_720p.jpg"))
    assert printed.splitlines()[0].endswith("Egyptian cat")  # the model carries its labels


@pytest.mark.parametrize("example", ["litert_classify.py", "compiled_classify.py"])
def test_litert_says_the_same_on_the_gpu(
    example: str,
    tmp_path: Path,
    real_model: Callable[[str], bytes],
    real_picture: Callable[[str], Path],
) -> None:
    model = tmp_path / "mobilenet.tflite"
    model.write_bytes(real_model("mobilenet_v2_1.0_224_quant"))
    arguments = (example, model, real_picture("cat_720p.jpg"))
    *on_gpu, report = run(*arguments).splitlines()
    assert report.startswith("66 of 66 nodes run on the GPU")
    on_cpu = run(*arguments, "--cpu").splitlines()
    assert on_gpu[0].endswith("Egyptian cat")
    assert on_cpu[0].endswith("Egyptian cat")
    assert len(on_gpu) == len(on_cpu)


def test_wrong_files_end_in_a_sentence(tmp_path: Path, picture: Path) -> None:
    example, missing = "classify.py", tmp_path / "no.tflite"
    assert "expected a .tflite model" in run(example, picture, picture, status=1)
    assert "Could not open" in run(example, missing, picture, status=1)
    assert "cannot read the picture" in run(example, BALL, BALL, status=1)


@pytest.mark.slow
def test_demo(tmp_path: Path) -> None:
    printed = run("demo.py", "--output", tmp_path)
    assert "21 of 21 nodes run on the GPU" in printed
    assert "network 33.19 dB" in printed
    assert {path.name for path in tmp_path.iterdir()} == {"astronaut.png", "chelsea.png"}


def test_demo_doubles_a_picture(tmp_path: Path, picture: Path) -> None:
    assert "60x40 -> 120x80" in run("demo.py", picture, "--output", tmp_path)
    assert pixels(tmp_path / "doubled.png").shape == (80, 120, 3)


@pytest.mark.parametrize("size", [(70, 93), (40, 40), (33, 41), (12, 90)])
def test_tiles_are_the_whole(size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    tiles = importlib.import_module("tiles")
    image = np.random.default_rng(0).random((1, *size, 3)).astype(np.float32)
    shapes = set()
    with gd.Interpreter(model_path=ENLARGING) as interpreter:

        def enlarged(x: NDArray[np.float32]) -> NDArray[np.float32]:
            shapes.add(x.shape)
            return np.asarray(interpreter.run({"image": x})["image_x2"])

        parts = tiles.run_in_tiles(enlarged, image, tile=40, reach=tiles.REACH, scale=2)
        assert len(shapes) == 1
        np.testing.assert_allclose(parts, enlarged(image), atol=1e-6)


def test_custom_op(tmp_path: Path, picture: Path) -> None:
    with Image.open(picture) as original:
        ramp = original.resize((256, 8))
    ramp.putdata([(i % 256, 255 - i % 256, 128) for i in range(256 * 8)])
    source, output = tmp_path / "ramp.png", tmp_path / "posterized.png"
    ramp.save(source)
    assert "3 levels" in run("custom_op.py", source, "--levels", 3, "--output", output)
    assert np.unique(pixels(output)).tolist() == [0, 127, 255]


def test_custom_op_refuses_one_level(picture: Path) -> None:
    assert "invalid choice" in run("custom_op.py", picture, "--levels", 1, status=2)


@pytest.mark.parametrize(
    ("example", "model", "message"),
    [
        ("classify.py", BALL, "expected a classifier, with the output [1, classes], found [1, "),
        ("litert_classify.py", BALL, "expected a classifier, with the output [1, classes]"),
        ("litert_classify.py", EXAMPLES, "Could not open"),
        ("compiled_classify.py", BALL, "expected a classifier, with the output [1, classes]"),
        ("compiled_classify.py", EXAMPLES, "Could not open"),
    ],
)
def test_models_of_another_task_are_refused(
    example: str, model: Path, message: str, picture: Path
) -> None:
    text = run(example, model, picture, status=1)
    assert message in text
    assert len(text.strip().splitlines()[-1]) > len(message)


def test_what_the_pool_of_threads_refuses(picture: Path) -> None:
    assert "expected 1 or more" in run("thread_pool.py", picture, "--threads", 0, status=2)
    assert "File exists" in run("thread_pool.py", picture, "--output", picture, status=1)


def test_examples_keep_what_they_read(tmp_path: Path, picture: Path) -> None:
    doubled = tmp_path / "doubled.png"
    doubled.write_bytes(picture.read_bytes())
    (tmp_path / "link.png").symlink_to(picture)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    headless = ("--headless", "--output")
    commands: tuple[tuple[object, ...], ...] = (
        ("custom_op.py", picture, "--output", tmp_path / "link.png"),
        ("demo.py", doubled, "--output", tmp_path),
        ("thread_pool.py", picture, "--output", tmp_path),
        ("segment.py", BALL, "--picture", picture, *headless, picture),
        ("segment.py", picture, "--picture", doubled, *headless, picture),
        ("background.py", BALL, "--background", picture, "--picture", doubled, *headless, picture),
        ("style.py", BALL, BALL, picture, "--picture", doubled, *headless, picture),
        ("hands.py", BALL, picture, "--picture", doubled, *headless, picture),
    )
    for command in commands:
        text = run(str(command[0]), *command[1:], status=1)
        assert "it would be overwritten; name another file" in text
    text = run("thread_pool.py", picture, tmp_path / "x" / picture.name, status=1)
    assert "expected a file of its own for each output" in text
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
