"""`InteractiveSegmenterLegacy`, with a network that shows what it sees."""

from typing import Any

import numpy as np
import pytest

import gles_apps.tasks as mp
import gles_delegate as gd
from gles_apps.tasks.components.containers import NormalizedKeypoint
from gles_apps.tasks.options import ImageProcessingOptions
from gles_apps.tasks.vision.interactive_segmenter_legacy import disc
from tests.support.fake_networks import MARKED, a_channel, last_channel

Segmenter = mp.vision.InteractiveSegmenterLegacy
Options = mp.vision.InteractiveSegmenterLegacyOptions
Region = mp.vision.InteractiveSegmenterLegacyRegionOfInterest
SIZE = MARKED


def at(x: float | None, y: float | None) -> Any:
    return Region(Region.Format.KEYPOINT, NormalizedKeypoint(x, y))


def segmenter(model: bytes | None = None, delegate: Any = None, **options: Any) -> Any:
    base = mp.BaseOptions(model_asset_buffer=model or last_channel(), delegate=delegate)
    return Segmenter.create_from_options(Options(base, **options))


def picture(size: tuple[int, int] = SIZE, channels: int = 3) -> mp.Image:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, channels), np.uint8)
    return mp.Image({3: mp.ImageFormat.SRGB, 4: mp.ImageFormat.SRGBA}[channels], pixels)


@pytest.mark.parametrize("delegate", [None, mp.BaseOptions.Delegate.CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("channels", [3, 4])
def test_the_network_sees_the_point(delegate: Any, channels: int) -> None:
    with segmenter(delegate=delegate, output_category_mask=True) as task:
        for x, y in ((0.5, 0.5), (0.1, 0.9), (0.0, 0.0)):
            result = task.segment(picture(channels=channels), at(x, y))
            (mask,) = result.confidence_masks
            wanted = disc((x, y), SIZE)
            np.testing.assert_allclose(mask.numpy_view()[..., 0], wanted, atol=1e-2)
            assert ((result.category_mask.numpy_view()[..., 0] == 0) == wanted).all()
            assert wanted[int(y * SIZE[0]), int(x * SIZE[1])]


def test_a_larger_and_a_turned_picture() -> None:
    """MediaPipe's graph does not turn pictures for a network of four channels."""
    with segmenter() as task:
        for degrees in (0, 180):
            turned = ImageProcessingOptions(rotation_degrees=degrees)
            (mask,) = task.segment(picture((480, 640)), at(0.25, 0.75), turned).confidence_masks
            seen = mask.numpy_view()[..., 0]
            row, column = np.unravel_index(seen.argmax(), seen.shape)
            assert np.hypot(row - 360, column - 160) < 12


SHAPES = {
    1: ["010", "111", "010"],
    2: ["00100", "01110", "11111", "01110", "00100"],
    3: ["0001000", "0111110", "0111110", "1111111", "0111110", "0111110", "0001000"],
    4: [
        *("000010000", "001111100", "011111110", "011111110", "111111111"),
        *("011111110", "011111110", "001111100", "000010000"),
    ],
}
"""OpenCV's filled circles."""


@pytest.mark.parametrize("radius", SHAPES)
def test_discs_are_opencv_s(radius: int) -> None:
    found = disc((0.5, 0.5), (512 * radius, 512 * radius))
    rows, columns = np.nonzero(found)
    part = found[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    assert ["".join(map(str, row)) for row in part.astype(int).tolist()] == SHAPES[radius]
    assert found[256 * radius, 256 * radius]


@pytest.mark.parametrize("point", [(1.5, 0.5), (0.5, -0.1), (float("nan"), 0.5)])
def test_points_outside_mark_nothing(point: tuple[float, float]) -> None:
    assert not disc(point, SIZE).any()


def test_points_at_the_edges_are_cut_off() -> None:
    assert disc((1.0, 1.0), SIZE).sum() == 0
    assert disc((0.999, 0.999), SIZE)[-1, -1]
    assert disc((0.0, 0.0), (2048, 2048))[:4, :4].sum() > 8


def test_wrong_calls() -> None:
    with segmenter() as task:
        with pytest.raises(ValueError, match="Unrecognized format"):
            task.segment(picture(), Region(Region.Format.KEYPOINT))
        with pytest.raises(ValueError, match="Unrecognized format"):
            task.segment(picture(), at(None, 0.5))
        unspecified = Region(Region.Format.UNSPECIFIED, NormalizedKeypoint(0, 0))
        with pytest.raises(ValueError, match="format not specified"):
            task.segment(picture(), unspecified)
        gray = mp.Image(mp.ImageFormat.GRAY8, np.zeros(SIZE, np.uint8))
        with pytest.raises(ValueError, match="expected an array of colors"):
            task.segment(gray, at(0.5, 0.5))
    with pytest.raises(ValueError, match="not running"):
        task.segment(picture(), at(0.5, 0.5))
    with pytest.raises(gd.ModelError, match=r"input \[1, height, width, 4\]"):
        segmenter(last_channel(3))


@pytest.mark.parametrize("delegate", [None, mp.BaseOptions.Delegate.CPU], ids=["gpu", "cpu"])
@pytest.mark.parametrize("degrees", [0, 90, 180])
@pytest.mark.parametrize("alpha", [None, 0, 100, 255])
def test_a_segmenter_of_four_channels(delegate: Any, degrees: int, alpha: int | None) -> None:
    """Its pictures are not turned, as in MediaPipe's graph, and their alpha is not seen, as in the
    graph if the second label is "hair".
    """
    if delegate is not None:
        pytest.importorskip("ai_edge_litert")
    pixels = np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8)
    seen = mp.Image(mp.ImageFormat.SRGB, pixels)
    if alpha is not None:
        last = np.full((*SIZE, 1), alpha, np.uint8)
        seen = mp.Image(mp.ImageFormat.SRGBA, np.concatenate([pixels, last], 2))
    for channel in (1, 3):
        base = mp.BaseOptions(model_asset_buffer=a_channel(channel), delegate=delegate)
        with mp.vision.ImageSegmenter(mp.vision.ImageSegmenterOptions(base)) as task:
            turned = ImageProcessingOptions(rotation_degrees=degrees)
            (mask,) = task.segment(seen, turned).confidence_masks or ()
            wanted = pixels[..., channel] / 255 if channel < 3 else np.zeros(SIZE)
            np.testing.assert_allclose(mask.numpy_view()[..., 0], wanted, atol=1e-2)
