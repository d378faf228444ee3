"""The numpy side of pictures in and out: by hand, and what is refused."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from gles_delegate import ImageOutput, ImageTransform
from gles_delegate.image.transform import colors_at

RNG = np.random.default_rng(0)
PICTURE = RNG.integers(0, 256, (30, 44, 3), np.uint8)


def pixels(picture: Any, size: tuple[int, int], **options: Any) -> NDArray[Any]:
    """Colors of 0 to 255, [height, width, channels]."""
    transform = ImageTransform(mean=0, std=1, **options)
    return np.asarray(transform.apply(picture, size))[0]


PHOTOGRAPH = np.random.default_rng(5).integers(0, 256, (60, 90, 3)).astype(np.uint8)


def test_a_mean_is_over_the_area_of_each_pixel() -> None:
    blocks = PHOTOGRAPH.reshape(10, 6, 18, 5, 3).mean((1, 3)) / 255
    actual = ImageTransform().apply(PHOTOGRAPH, (10, 18))[0]
    np.testing.assert_allclose(actual, blocks, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"fit": "letterbox", "padding": 40.0},
        {"fit": "crop", "flip_y": True, "channels": "gray"},
        {"roi": (-30, -20, 100, 70), "padding": 200.0, "channels": "rgba"},
        {"roi": (10, 10, 3, 3)},
    ],
)
def test_means_by_rows_and_columns_are_those_of_all_points(options: dict[str, Any]) -> None:
    transform = ImageTransform(**options)
    picture, size = PHOTOGRAPH / 255, (7, 9)
    actual = transform.apply(PHOTOGRAPH, size)[0] * 255
    matrix = transform.affine(picture.shape[:2], size)
    along, across = transform.samples(picture.shape[:2], size)
    points = [
        colors_at(np.array([x, y]), [picture], size, matrix, transform)
        for y in (np.arange(across) + 0.5) / across
        for x in (np.arange(along) + 0.5) / along
    ]
    np.testing.assert_allclose(actual.reshape(63, -1), np.mean(points, 0), atol=1e-4)


def test_nothing_to_smooth_where_a_picture_grows() -> None:
    assert ImageTransform().samples((10, 10), (10, 30)) == (1, 1)
    assert ImageTransform().samples((10000, 100), (10, 50)) == (2, 16)


def test_a_region() -> None:
    np.testing.assert_allclose(
        pixels(PICTURE, (10, 20), roi=(7, 5, 20, 10)), PICTURE[5:15, 7:27], atol=1e-3
    )


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        ({"flip_x": True}, np.fliplr),
        ({"flip_y": True}, np.flipud),
        ({"rotation": 90}, lambda a: np.rot90(a, 1)),
        ({"rotation": 180}, lambda a: np.rot90(a, 2)),
        ({"rotation": -90}, lambda a: np.rot90(a, 3)),
        ({"rotation": 90, "flip_x": True}, lambda a: np.rot90(np.fliplr(a), 1)),
    ],
)
def test_flips_and_quarter_turns_move_pixels_whole(
    options: dict[str, Any], moved: Callable[[Any], Any]
) -> None:
    expected = moved(PICTURE)
    np.testing.assert_allclose(pixels(PICTURE, expected.shape[:2], **options), expected, atol=1e-3)


def test_letterbox_and_crop() -> None:
    boxed = pixels(PICTURE, (44, 44), fit="letterbox", padding=7)
    np.testing.assert_allclose(boxed[7:37], PICTURE, atol=1e-3)
    assert (boxed[:7] == 7).all()
    assert (boxed[37:] == 7).all()
    np.testing.assert_allclose(pixels(PICTURE, (30, 30), fit="crop"), PICTURE[:, 7:37], atol=1e-3)


def by_opencv(picture: NDArray[Any], matrix: NDArray[Any], size: tuple[int, int]) -> Any:
    """cv::warpPerspective's bilinear way, with integers: remap's tables have 32 x 32 weights that
    sum up to 32768, and black is around the picture."""
    rows, columns = picture.shape[:2]
    around = np.zeros((rows + 2, columns + 2, 3), np.int64)
    around[1:-1, 1:-1] = picture
    result = np.zeros((*size, 3), np.int64)
    for y, x in np.ndindex(size):
        at_x, at_y = (int(np.rint(32 * at)) for at in matrix @ (x, y, 1))
        if not (-32 <= at_x < 32 * columns and -32 <= at_y < 32 * rows):
            continue
        i, j, v, u = at_y // 32 + 1, at_x // 32 + 1, at_y % 32, at_x % 32
        top = around[i, j] * (32 - u) + around[i, j + 1] * u
        bottom = around[i + 1, j] * (32 - u) + around[i + 1, j + 1] * u
        result[y, x] = ((top * (32 - v) + bottom * v) * 32 + 16384) >> 15
    return result


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"fit": "letterbox"},
        {"roi": (-5.25, 7.5, 30, 22), "rotation": 29.0},
        {"roi": (3, 3, 8, 8), "rotation": 90.0},
    ],
)
def test_opencv_samples_as_its_integers_do(options: dict[str, Any]) -> None:
    transform = ImageTransform(antialias=False, opencv=True, **options)
    size = (19, 23)
    expected = by_opencv(PICTURE, transform.affine(PICTURE.shape[:2], size), size)
    actual = pixels(PICTURE, size, antialias=False, opencv=True, **options)
    np.testing.assert_allclose(actual, expected, atol=1e-3)


def test_opencv_sees_a_flipped_picture_as_the_picture() -> None:
    options: dict[str, Any] = {"antialias": False, "opencv": True, "rotation": 20.0}
    upright = pixels(PICTURE, (19, 23), **options)
    for axis, flip in ((0, "flip_y"), (1, "flip_x")):
        actual = pixels(np.flip(PICTURE, axis), (19, 23), **options, **{flip: True})
        np.testing.assert_array_equal(actual, upright)


def test_opencv_has_no_antialiasing() -> None:
    with pytest.raises(ValueError, match="set antialias=False"):
        ImageTransform(opencv=True)


def test_a_letterbox_and_a_crop_at_the_corner() -> None:
    corner: dict[str, Any] = {"align": "corner", "padding": 7}
    boxed = pixels(PICTURE, (44, 44), fit="letterbox", **corner)
    np.testing.assert_allclose(boxed[:30], PICTURE, atol=1e-3)
    assert (boxed[30:] == 7).all()
    cropped = pixels(PICTURE, (30, 30), fit="crop", **corner)
    np.testing.assert_allclose(cropped, PICTURE[:, :30], atol=1e-3)
    turned = pixels(PICTURE, (44, 44), fit="letterbox", rotation=90, **corner)
    np.testing.assert_allclose(turned[:, :30], np.rot90(PICTURE), atol=1e-3)
    assert (turned[:, 30:] == 7).all()


def by_ultralytics(picture: NDArray[Any], size: tuple[int, int]) -> tuple[Any, Any]:
    """LetterBox(auto=False), resized as by cv2.INTER_LINEAR without rounding; and the tensor's
    corners in the picture, by scale_boxes."""
    (rows, columns), (height, width) = picture.shape[:2], size
    ratio = min(height / rows, width / columns)
    shown = round(rows * ratio), round(columns * ratio)
    top, left = (round((size[i] - shown[i]) / 2 - 0.1) for i in (0, 1))
    resized = picture.astype(np.float64)
    for axis in (0, 1):
        length = resized.shape[axis]
        at = (np.arange(shown[axis]) + 0.5) * length / shown[axis] - 0.5
        at = at.clip(0, length - 1)
        low = np.minimum(at.astype(int), length - 2)
        share = np.moveaxis(np.expand_dims(at - low, (1, 2)), 0, axis)
        resized = resized.take(low, axis) * (1 - share) + resized.take(low + 1, axis) * share
    boxed = np.full((*size, 3), 114.0)
    boxed[top : top + shown[0], left : left + shown[1]] = resized
    return boxed, np.array([(0 - left, width - left), (0 - top, height - top)]) / ratio


@pytest.mark.parametrize("shape", [(30, 43), (43, 30), (29, 45), (61, 83), (83, 62), (8, 90)])
@pytest.mark.parametrize("size", [(32, 32), (33, 32), (48, 64), (31, 95)])
def test_a_letterbox_of_whole_pixels(shape: tuple[int, int], size: tuple[int, int]) -> None:
    """As Ultralytics' LetterBox and scale_boxes."""
    picture = np.random.default_rng(2).integers(0, 256, (*shape, 3)).astype(np.uint8)
    options: dict[str, Any] = {"fit": "letterbox", "align": "pixels", "padding": 114.0}
    expected, corners = by_ultralytics(picture, size)
    actual = pixels(picture, size, antialias=False, **options)
    np.testing.assert_allclose(actual, expected, atol=1e-3)
    matrix = ImageTransform(**options).affine(shape, size)
    actual = matrix @ [(0, size[1]), (0, size[0]), (1, 1)]
    np.testing.assert_allclose(actual, corners, atol=1e-9)


def test_turned_regions_of_whole_pixels() -> None:
    """29 x 45 pixels, turned: 45 x 29 become 32 x 20.62, of which 21 are shown, from 5 on."""
    picture = np.random.default_rng(4).integers(0, 256, (29, 45, 3)).astype(np.uint8)
    options: dict[str, Any] = {"align": "pixels", "antialias": False}
    for turn, k in ((90, 1), (180, 2), (270, 3)):
        expected, _ = by_ultralytics(np.rot90(picture, k), (32, 32))
        turned = {"fit": "letterbox", "rotation": turn, "padding": 114.0, **options}
        np.testing.assert_allclose(pixels(picture, (32, 32), **turned), expected, atol=1e-3)
    turned = {"fit": "letterbox", "roi": (3, 2, 40, 25), "padding": 114.0, **options}
    expected, _ = by_ultralytics(picture[2:27, 3:43], (31, 50))
    actual = pixels(picture, (31, 50), **turned)
    np.testing.assert_allclose(actual[1:-1, 2:-2], expected[1:-1, 2:-2], atol=1e-3)


@pytest.mark.parametrize("antialias", [False, True])
def test_a_replicated_border_is_that_of_a_padded_picture(antialias: bool) -> None:
    """As np.pad makes it, in a box, turned, and in planes of video."""
    padded = np.pad(PICTURE, ((40, 40), (40, 40), (0, 0)), "edge")
    for roi, rotation in (((-20, -15, 70, 50), 0.0), ((-5, 10, 60, 28), 30.0)):
        left, top, *extent = roi
        edge = {"rotation": rotation, "antialias": antialias}
        actual = pixels(PICTURE, (9, 13), roi=roi, border="replicate", padding=99, **edge)
        moved = pixels(padded, (9, 13), roi=(left + 40, top + 40, *extent), **edge)
        np.testing.assert_allclose(actual, moved, atol=1e-3)
    luma, chroma = PICTURE[..., 0], PICTURE[::2, ::2, 1:]
    planes = (
        [luma, chroma],
        [np.pad(luma, 40, "edge"), np.pad(chroma, ((20,) * 2,) * 2 + ((0,) * 2,), "edge")],
    )
    actual, moved = (
        pixels(p, (9, 13), roi=(x - 20, x - 15, 70, 50), border="replicate", antialias=antialias)
        for p, x in zip(planes, (0, 40), strict=True)
    )
    np.testing.assert_allclose(actual, moved, atol=1e-3)


@pytest.mark.parametrize("border", ["padding", "replicate"])
def test_what_is_too_far_away_is_padding(border: Any) -> None:
    actual = pixels(PICTURE, (2, 2), matrix=((1, 0, 1e30), (0, 1, 0)), border=border, padding=7)
    assert (actual == 7).all()


def test_a_letterboxed_region_shows_its_surroundings() -> None:
    boxed = pixels(PICTURE, (20, 20), roi=(10, 10, 20, 10), fit="letterbox")
    np.testing.assert_allclose(boxed, PICTURE[5:25, 10:30], atol=1e-3)


def test_a_matrix_is_taken_as_it_is() -> None:
    shift = ((1, 0, 3), (0, 1, 4))
    np.testing.assert_allclose(
        pixels(PICTURE, (10, 10), matrix=shift), PICTURE[4:14, 3:13], atol=1e-3
    )


def test_a_matrix_may_repeat_a_row_or_a_column() -> None:
    picture = RNG.integers(0, 256, (8, 8, 3), np.uint8)
    actual = pixels(picture, (3, 8), matrix=((1, 0, 0), (0, 0, 2.5)), antialias=False)
    np.testing.assert_allclose(actual, picture[[2, 2, 2]])
    actual = pixels(picture, (8, 3), matrix=((0, 0, 2.5), (0, 1, 0)), antialias=False)
    np.testing.assert_allclose(actual, picture[:, [2, 2, 2]])
    actual = pixels(picture, (3, 8), matrix=((1, 0, 0), (1, 0, 0)), antialias=False)
    np.testing.assert_allclose(actual[1], picture[range(8), range(8)])


def test_affine_leads_back_to_the_picture() -> None:
    transform = ImageTransform(rotation=90, fit="letterbox")
    x, y = transform.affine((30, 44), (44, 44)) @ [44 / 2, 44 / 2, 1]
    assert (x, y) == pytest.approx((22, 15))
    x, y = transform.affine((30, 44), (44, 44)) @ [7, 0, 1]  # the top left corner
    assert (x, y) == pytest.approx((44, 0))


@pytest.mark.parametrize("dtype", ["float32", "uint8", "int8"])
@pytest.mark.parametrize("scaling", [{}, {"mean": 127.5, "std": 60}])
def test_alpha_that_is_not_seen_is_0(dtype: str, scaling: dict[str, Any]) -> None:
    alpha = RNG.integers(0, 256, (30, 44, 1), np.uint8)
    clear, seen = (np.concatenate([PICTURE, each], 2) for each in (alpha * 0, alpha))
    for quantization in ((0.0, 0), (1 / 64, 3)):
        wanted, found = (
            ImageTransform(channels=channels, **scaling).apply(
                picture, (30, 44), dtype=dtype, quantization=quantization
            )
            for channels, picture in (("rgba", clear), ("rgb0", seen))
        )
        np.testing.assert_array_equal(found, wanted)


def test_channels() -> None:
    rgba = pixels(PICTURE, (30, 44), channels="rgba")
    np.testing.assert_allclose(rgba[..., :3], PICTURE, atol=1e-4)
    assert (rgba[..., 3] == 255).all()
    bgr = pixels(PICTURE, (30, 44), channels="bgr")
    np.testing.assert_allclose(bgr, PICTURE[..., ::-1], atol=1e-4)
    of_gray = pixels(PICTURE[..., 0], (30, 44))
    np.testing.assert_allclose(of_gray, PICTURE[..., :1].repeat(3, 2), atol=1e-4)


def test_normalisation() -> None:
    mean, std = (123.7, 116.8, 103.9), (58.4, 57.1, 57.4)
    actual = ImageTransform(mean=mean, std=std).apply(PICTURE, (30, 44))[0]
    np.testing.assert_allclose(actual, (PICTURE - np.array(mean)) / std, atol=1e-5)
    np.testing.assert_allclose(
        ImageTransform().apply(PICTURE, (30, 44))[0], PICTURE / 255, atol=1e-6
    )


@pytest.mark.parametrize(("dtype", "zero"), [("uint8", 0), ("int8", -128)])
def test_bytes(dtype: str, zero: int) -> None:
    actual = ImageTransform().apply(PICTURE, (30, 44), dtype=dtype, quantization=(1 / 128, 128))
    assert actual.dtype == dtype
    np.testing.assert_array_equal(actual[0], PICTURE.astype(int) + zero)
    real = ImageTransform(mean=127.5, std=127.5)
    steps = real.apply(PICTURE, (30, 44), dtype=dtype, quantization=(1 / 64, 10))
    expected = np.floor((PICTURE / 127.5 - 1) * 64 + 10.5).clip(zero, zero + 255)
    np.testing.assert_array_equal(steps[0], expected)


RED, GREEN, WHITE = (255, 0, 0), (0, 255, 0), (255, 255, 255)


@pytest.mark.parametrize(
    ("yuv", "options", "rgb"),
    [  # the tables of color bars in BT.601 and BT.709, and JFIF's equations
        ((81, 90, 240), {}, RED),
        ((145, 54, 34), {}, GREEN),
        ((235, 128, 128), {}, WHITE),
        ((63, 102, 240), {"yuv": "bt709"}, RED),
        ((173, 42, 26), {"yuv": "bt709"}, GREEN),
        ((74, 97, 240), {"yuv": "bt2020"}, RED),
        ((76, 85, 255), {"full_range": True}, RED),
    ],
)
def test_planes(yuv: tuple[int, int, int], options: dict[str, Any], rgb: Any) -> None:
    y = np.full((5, 7), yuv[0], np.uint8)
    u, v = (np.full((3, 4), value, np.uint8) for value in yuv[1:])
    for planes in ([y, u, v], [y, np.stack([u, v], -1)]):
        np.testing.assert_allclose(
            pixels(planes, (5, 7), **options), np.full((5, 7, 3), rgb), atol=2
        )


@pytest.mark.parametrize(
    ("options", "shares"),
    [
        ({}, [-40, -35, -25, -15, -5, 5, 15, 20]),
        ({"siting": "left"}, [-40, -30, -20, -10, 0, 10, 20, 20]),
    ],
    ids=["middle", "left"],
)
def test_chroma_stands_in_the_middle_of_its_pixels_or_left(
    options: dict[str, Any], shares: list[int]
) -> None:
    y, v = np.full((2, 8), 128, np.uint8), np.full((1, 4), 128, np.uint8)
    u = np.array([[88, 108, 128, 148]], np.uint8)
    blue = pixels([y, u, v], (2, 8), full_range=True, **options)[0, :, 2]
    np.testing.assert_allclose(blue, 128 + 1.772 * np.array(shares), atol=1e-3)


@pytest.mark.parametrize(("packed", "order"), [("yuyv", [0, 1, 2, 3]), ("uyvy", [1, 0, 3, 2])])
def test_packed_pixels_are_planes(packed: Any, order: list[int]) -> None:
    y, u, v = (RNG.integers(0, 256, (6, width), np.uint8) for width in (8, 4, 4))
    pairs = np.stack([y[:, ::2], u, y[:, 1::2], v], -1)[..., order]
    expected = pixels([y, u, v], (6, 8))
    for frame in (pairs, pairs.reshape(6, 8, 2)):
        np.testing.assert_array_equal(pixels(frame, (6, 8), packed=packed), expected)


@pytest.mark.parametrize("shape", [(6, 7, 2), (6, 8), (6, 8, 3)])
def test_packed_pixels_come_in_pairs(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"expected yuyv bytes .height, an even width, 2"):
        ImageTransform(packed="yuyv").apply(np.zeros(shape, np.uint8), (4, 4))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fit": "zoom"}, "fit must be one of"),
        ({"channels": "hsv"}, "channels must be one of"),
        ({"yuv": "bt2100"}, "yuv must be one of"),
        ({"siting": "top"}, "siting must be one of"),
        ({"packed": "nv12"}, "packed must be one of"),
        ({"mean": 1}, "give both or neither"),
        ({"mean": (1, 2), "std": 1}, "mean must be a number or 3 numbers"),
        ({"mean": (1, 2, 3), "std": 1, "channels": "gray"}, "mean must be a number or 1 numbers"),
        ({"mean": 0, "std": (1, 0, 1)}, "std is a divisor"),
        ({"roi": (0, 0, 5, 0)}, "positive size"),
        ({"roi": (0, 0, 5)}, "positive size"),
        ({"matrix": ((1, 0), (0, 1))}, "two rows of three"),
        ({"matrix": ((1, 0, 0), (0, 1, 0)), "rotation": 3}, "leave them out"),
        ({"matrix": ((1, 0, 0), (0, 1, 0)), "align": "corner"}, "fit and align: leave them out"),
        ({"align": "left"}, "align must be one of"),
        ({"rotation": float("nan")}, "rotation must be finite"),
        ({"padding": float("inf")}, "padding must be finite"),
    ],
)
def test_a_transform_that_cannot_be(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ImageTransform(**options)


@pytest.mark.parametrize(
    "picture", [PICTURE[0, 0], np.zeros((0, 4, 3)), np.zeros((4, 4, 5)), [PICTURE, PICTURE]]
)
def test_what_is_no_picture(picture: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        ImageTransform().apply(picture, (4, 4))


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int32", "int64", "complex64", "U1"])
def test_a_picture_of_another_type_than_bytes_or_floats(dtype: str) -> None:
    with pytest.raises(ValueError, match=rf"found {np.dtype(dtype)}.*convert.*uint8"):
        ImageTransform().apply(np.ones((4, 4, 3), dtype), (4, 4))


def test_a_sharpened_picture_of_floats() -> None:
    picture = np.full((4, 4, 3), 1.5, np.float32)
    np.testing.assert_allclose(ImageTransform().apply(picture, (4, 4)), 1.5)
    with pytest.raises(ValueError, match=r"found up to 1\.51"):
        ImageTransform().apply(picture + np.float32(0.01), (4, 4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_picture_of_floats_up_to_255(dtype: str) -> None:
    with pytest.raises(ValueError, match=r"from 0 to 1, found up to 255.*divide by 255"):
        ImageTransform().apply(PICTURE.clip(0, 255).astype(dtype), (4, 4))
    floats = (PICTURE / 255).astype(dtype)
    expected = ImageTransform().apply(PICTURE, (4, 4))
    np.testing.assert_allclose(ImageTransform().apply(floats, (4, 4)), expected, atol=1e-3)


def test_floats_that_a_filter_made_a_little_too_bright() -> None:
    picture = np.full((4, 4, 3), 1.1, np.float32)
    picture[0, 0] = np.nan
    assert np.isclose(ImageTransform().apply(picture, (4, 4))[0, -1, -1], 1.1).all()


def test_scores_to_colors() -> None:
    colors = [(0, 0, 0, 0), (255, 0, 0, 255), (0, 0, 255, 128)]
    output = ImageOutput(palette=colors)
    scores = np.array([[[[1, 2, 0], [5, 4, 4]], [[0, 0, 1], [1, 1, 0]]]], np.float32)
    expected = np.array([[colors[1], colors[0]], [colors[2], colors[0]]]) / 255
    np.testing.assert_allclose(output.apply(scores), expected, atol=1e-6)
    single = np.array([[[[0.2], [0.8]]]], np.float32)
    np.testing.assert_allclose(output.apply(single) * 255, [[colors[0], colors[1]]])
    classes = np.array([[[[2], [9]]]], np.int32)
    np.testing.assert_allclose(output.apply(classes) * 255, [[colors[2], colors[2]]])


def test_values_to_colors() -> None:
    tensor = np.array([[[[0.5]], [[2]]]], np.float32)
    output = ImageOutput(scale=0.5, offset=0.25, flip_y=True)
    np.testing.assert_allclose(output.apply(tensor), [[[1.25] * 3 + [1]], [[0.5] * 3 + [1]]])


@pytest.mark.parametrize(
    "options",
    [
        {"scale": float("nan")},
        {"palette": [(0, 0, 0, 0)]},
        {"palette": [(0, 0, 0), (1, 1, 1)]},
        {"palette": [(0, 0, 0, 0), (0, 0, 0, 256)]},
        {"palette": [(0, 0, 0, 0), (0, 0, 0, 0.5)]},
    ],
)
def test_an_output_that_cannot_be(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be"):
        ImageOutput(**options)
