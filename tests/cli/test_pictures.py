"""Pictures read by Pillow: the numpy side of pictures against it, and a model's metadata."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gles_apps.tasks as mp
from gles_apps.batch.pool import picture_rows
from gles_apps.batch.predictor import picture_of
from gles_apps.batch.tasks import TaskPredictor
from gles_apps.live import Picture
from gles_delegate.cli import tensor_files
from gles_delegate.image.pictures import FORMATS, picture_suffixes
from gles_delegate.image.pictures import converted as converted_picture
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


DOORS: dict[str, Callable[[Path], Any]] = {
    "tasks": lambda path: mp.Image.create_from_file(path).numpy_view(),
    "run": tensor_files.read_picture,
    "batch": lambda path: converted_picture(picture_of(path.read_bytes()), "RGB"),
    "live": lambda path: Picture(str(path)).read()[..., :3],
}
UPRIGHT = np.arange(3 * 5, dtype=np.uint8).reshape(3, 5) * 17
HELD = {  # what a camera stores, by the EXIF number of how it was held
    1: UPRIGHT, 2: UPRIGHT[:, ::-1], 3: UPRIGHT[::-1, ::-1], 4: UPRIGHT[::-1], 5: UPRIGHT.T,
    6: np.rot90(UPRIGHT), 7: np.rot90(UPRIGHT.T, 2), 8: np.rot90(UPRIGHT, -1),
}  # fmt: skip


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("suffix", [".jpg", ".png", ".webp", ".tif"])
@pytest.mark.parametrize("held", HELD)
def test_pictures_are_upright(held: int, suffix: str, door: str, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = held
    large = HELD[held].repeat(16, 0).repeat(16, 1)  # whole blocks of JPEG
    lossless = {"lossless": True} if suffix == ".webp" else {}
    Image.fromarray(large).save(tmp_path / f"a{suffix}", exif=exif, **lossless)
    seen = np.asarray(DOORS[door](tmp_path / f"a{suffix}"))
    assert seen.shape == (48, 80, 3)
    assert np.abs(seen[8::16, 8::16, 1].astype(int) - UPRIGHT).max() <= 2


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("name", ["a.png", "a.tif", "a.pgm"])
def test_16_bits_are_read_by_their_upper_8(name: str, door: str, tmp_path: Path) -> None:
    gray = np.array([[0, 1000, 40000, 65535]], np.uint16)
    if name == "a.pgm":
        (tmp_path / name).write_bytes(b"P5 4 1 65535\n" + gray.astype(">u2").tobytes())
    else:
        Image.fromarray(gray).save(tmp_path / name)
    assert np.asarray(DOORS[door](tmp_path / name))[0, :, 1].tolist() == [0, 3, 156, 255]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("mode", ["F", "I"])
def test_numbers_of_an_unknown_range_are_refused(mode: str, door: str, tmp_path: Path) -> None:
    Image.new(mode, (4, 4)).save(tmp_path / "a.tif")
    found = {"F": "found floats", "I": "found 32-bit integers"}[mode]
    with pytest.raises((OSError, ValueError, RuntimeError), match=f"expected a picture.*{found}"):
        DOORS[door](tmp_path / "a.tif")


@pytest.mark.parametrize("door", DOORS)
def test_damaged_exif_data_are_ignored(door: str, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.jpg", exif=b"Exif\0\0XX*\0\x08\0\0\0\x01")
    assert np.asarray(DOORS[door](tmp_path / "a.jpg")).shape == (8, 8, 3)


@pytest.fixture
def picture() -> Image.Image:
    return Image.fromarray(UPRIGHT.repeat(16, 0).repeat(16, 1)).convert("RGB")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", FORMATS)
def test_formats_that_every_door_reads(
    kind: str, door: str, picture: Image.Image, tmp_path: Path
) -> None:
    if kind not in Image.SAVE:
        pytest.skip(f"this Pillow writes no {kind}")
    picture.save(tmp_path / "a", kind, **({"quality": 95} if kind == "AVIF" else {}))
    seen = np.asarray(DOORS[door](tmp_path / "a")).astype(int)
    assert np.abs(seen[8::16, 8::16] - UPRIGHT[..., np.newaxis]).max() <= 8


@pytest.mark.source
def test_the_page_lists_these_formats() -> None:
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text(encoding="utf-8")
    (listed,) = re.findall(r"Pictures are ([\w ,]+), for every command", page)
    names = re.split(", | and ", listed)
    assert sorted(name.replace(" ", "").upper() for name in names) == sorted(FORMATS)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("kind", ["ICO", "PCX", "SGI", "EPS"])
def test_other_formats_are_named(
    kind: str, door: str, picture: Image.Image, tmp_path: Path
) -> None:
    picture.save(tmp_path / "a", kind)
    message = f"expected a picture, found bytes of another kind, {kind}: not one of BMP, GIF, "
    with pytest.raises((OSError, ValueError, RuntimeError), match=message):
        DOORS[door](tmp_path / "a")


@pytest.mark.parametrize("door", DOORS)
def test_an_empty_file_is_no_picture(door: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").touch()
    with pytest.raises((OSError, ValueError, RuntimeError), match=r"found no bytes: .* is empty"):
        DOORS[door](tmp_path / "a.png")


def test_formats_without_a_mark_are_named_by_their_suffix(
    picture: Image.Image, tmp_path: Path
) -> None:
    photo = b"\0\0\0\x24ftypheic\0\0\0\0"
    for name, found in (
        ("a.tga", "bytes of another kind, TGA: not one of BMP, "),
        ("b.tga", "bytes of another kind, TGA: not one of BMP, "),
        ("a.heic", "bytes of another kind, HEIF: not one of BMP, "),
        ("a.txt", "bytes of another kind"),
        ("a.png", "bytes of another kind"),
    ):
        content = photo if name == "a.heic" else b"no picture"
        (tmp_path / name).write_bytes(content)
        if name == "b.tga":
            picture.save(tmp_path / name)
        with pytest.raises(ValueError, match=f"expected a picture, found {found}"):
            tensor_files.read_picture(tmp_path / name)
        (row,) = picture_rows(RecordedPictures(), [str(tmp_path / name)])
        assert found in row["error"]


class RecordedPictures(TaskPredictor):
    """A predictor without a model."""

    def __init__(self) -> None:
        self.inputs = {"image": {}}


def test_suffixes_of_pictures() -> None:
    suffixes = picture_suffixes()
    assert suffixes > {".avif", ".jpg", ".jpeg", ".mpo", ".png", ".tif", ".webp"}
    assert not suffixes & {".tga", ".eps", ".pdf", ".mp4", ".txt"}
