"""One picture, all ways into a network: each has the same numbers."""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageOps

import gles_delegate as gd
from gles_apps.batch import Predictor
from gles_apps.batch.pool import picture_rows
from tests.support.app import App
from tests.support.command import call, saved
from tests.support.tflite_builder import ModelBuilder, quantization

SIZES = [(97, 143), (720, 1280), (24, 24), (61, 9)]
SIDE = 24
TURN = 0x0112
"""The EXIF tag of how the camera was held."""


def itself(dtype: str) -> bytes:
    """A picture [1, 24, 24, 3] as it enters the network."""
    builder = ModelBuilder()
    scale = quantization(1 / 255, 3) if dtype != "float32" else None
    x = builder.input((1, SIDE, SIDE, 3), dtype, name="picture", quantization=scale)
    y = builder.tensor((1, SIDE, SIDE, 3), dtype, name="seen", quantization=scale)
    return builder.build([builder.op("RESHAPE", [x], [y], new_shape=[1, SIDE, SIDE, 3])])


def by_for_input(model: Path, picture: Path) -> NDArray[Any]:
    with gd.Interpreter(model) as interpreter:
        (image,), (seen,) = interpreter.get_input_details(), interpreter.get_output_details()
        transform = gd.ImageTransform.for_input(interpreter, image["index"])
        array = transform.apply(
            np.asarray(ImageOps.exif_transpose(Image.open(picture)).convert("RGB")),
            (SIDE, SIDE),
            dtype=np.dtype(image["dtype"]).name,
            quantization=image["quantization"],
        )
        interpreter.allocate_tensors()
        interpreter.set_tensor(image["index"], array)
        interpreter.invoke()
        return np.asarray(interpreter.get_tensor(seen["index"]))


def by_run(model: Path, picture: Path) -> NDArray[Any]:
    file = picture.with_suffix(".npy")
    call("run", model, "--input", picture, "--output", file)
    return np.asarray(np.load(file))


def by_predictor(model: Path, picture: Path) -> NDArray[Any]:
    with closing(Predictor(model)) as predictor:
        return np.asarray(predictor({"picture": [picture.read_bytes()]})["seen"])


def by_batch(model: Path, picture: Path) -> NDArray[Any]:
    with closing(Predictor(model)) as predictor:
        (row,) = picture_rows(predictor, [str(picture)])
    assert row["error"] is None
    return np.asarray(row["seen"]).reshape(1, SIDE, SIDE, 3)


WAYS = (by_run, by_predictor, by_batch)


@pytest.fixture(params=["float32", "uint8"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return saved(tmp_path / "m.tflite", itself(request.param))


@pytest.fixture
def pictures(tmp_path: Path) -> list[Path]:
    rng, paths = np.random.default_rng(0), []
    for i, size in enumerate(SIZES):
        paths.append(tmp_path / f"{i}.png")
        exif = Image.Exif()
        exif[TURN] = 6 if i == 0 else 1
        Image.fromarray(rng.integers(0, 256, (*size, 3), np.uint8)).save(paths[-1], exif=exif)
    return paths


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_all_ways_give_a_network_the_same_bytes(
    way: Callable[[Path, Path], NDArray[Any]], model: Path, pictures: list[Path]
) -> None:
    for picture in pictures:
        expected = by_for_input(model, picture)
        assert np.ptp(expected.astype(float)) > 0.01
        actual = way(model, picture)
        assert actual.dtype == expected.dtype
        np.testing.assert_array_equal(actual, expected)


def test_a_texture_gives_the_same_to_a_rounding(
    model: Path, pictures: list[Path], app: App
) -> None:
    interpreter = app.interpreter(model.read_bytes())
    (image,), (seen,) = interpreter.get_input_details(), interpreter.get_output_details()
    transform = gd.ImageTransform.for_input(interpreter, image["index"])
    for picture in pictures[1:]:
        texture = app.texture(np.asarray(Image.open(picture).convert("RGBA")))
        for given in (None, transform):
            app.delegate.bind_texture_to_tensor(image["index"], texture, transform=given)
            interpreter.invoke()
            expected = by_for_input(model, picture).astype(float)
            actual = interpreter.get_tensor(seen["index"]).astype(float)
            step = 1 if image["dtype"] == np.uint8 else 0.5 / 255
            assert np.abs(actual - expected).max() <= step
