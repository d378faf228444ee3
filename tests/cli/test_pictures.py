"""Pictures read by Pillow: the numpy side of pictures against it, and a model's metadata."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gles_delegate.cli import tensor_files
from tests.unit.test_image import PICTURE, pixels
from tests.unit.test_metadata import OF_EACH, graph


@pytest.mark.parametrize("size", [(60, 88), (30, 44), (71, 50)])
def test_enlarged_as_pillow_does_it(size: tuple[int, int]) -> None:
    expected = Image.fromarray(PICTURE).resize(size[::-1], Image.Resampling.BILINEAR)
    np.testing.assert_allclose(pixels(PICTURE, size), expected, atol=1.01)  # it rounds twice


def test_gray_as_pillow_makes_it() -> None:
    gray = pixels(PICTURE, (30, 44), channels="gray")[..., 0]
    np.testing.assert_allclose(gray, Image.fromarray(PICTURE).convert("L"), atol=0.51)


def test_pictures_are_normalised_by_the_metadata(tmp_path: Path) -> None:
    colors = np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8)
    Image.fromarray(colors).save(tmp_path / "a.png")
    array = tensor_files.load_input(tmp_path / "a.png", graph([OF_EACH]), 1, None, 2)
    np.testing.assert_allclose(array[0], (colors - np.array([1.0, 2, 3])) / 2, rtol=1e-6)


def test_gray_of_16_bits(tmp_path: Path) -> None:
    gray = np.array([[0, 1000], [40000, 65535]], np.uint16)
    Image.fromarray(gray).resize((8, 8), Image.Resampling.NEAREST).save(tmp_path / "a.png")
    array = tensor_files.load_input(tmp_path / "a.png", graph([OF_EACH]), 1, 0, 1)
    np.testing.assert_array_equal(array[0, ::4, ::4, 0], [[0, 3], [156, 255]])
