"""Drawings on pictures, by numpy."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from gles_apps.vision import Detection, Drawing
from gles_apps.vision.drawing import Rectangle, Text, area, text_extent

WHITE, SIZE = (255, 255, 255), (40, 60)
NAN = float("nan")


def drawn(drawing: Drawing, background: tuple[int, int, int] = (0, 0, 0)) -> NDArray[np.uint8]:
    return np.asarray(drawing.on_picture(Image.new("RGB", drawing.size[::-1], background)))


def moments(picture: NDArray[np.uint8]) -> tuple[float, float, float]:
    """Center (x, y) and area of what is white, in pixels."""
    weights = picture[..., 0] / 255
    y, x = np.indices(weights.shape) + 0.5
    area = weights.sum()
    return (weights * x).sum() / area, (weights * y).sum() / area, area


@pytest.mark.parametrize("at", [(10.5, 10.5), (20, 20), (30.25, 20.75)])
def test_a_point_is_a_disc_around_its_position(at: tuple[float, float]) -> None:
    drawing = Drawing(SIZE)
    drawing.points(np.array([at]), WHITE, 9)
    assert moments(drawn(drawing)) == pytest.approx((*at, np.pi * 4.5**2), abs=0.5)
    assert moments(drawn(drawing))[:2] == pytest.approx(at, abs=0.02)


@pytest.mark.parametrize("end", [(40, 12.5), (13, 30), (35.5, 31), (10.5, 12.5)])
@pytest.mark.parametrize("width", [1, 2.5, 6])
def test_a_line_has_its_width_and_round_ends(end: tuple[float, float], width: float) -> None:
    start, drawing = (10.5, 12.5), Drawing(SIZE)
    drawing.lines(np.array([start, end]), [(0, 1)], WHITE, width)
    picture = drawn(drawing)
    middle, area = np.mean([start, end], 0), np.hypot(*np.subtract(end, start)) * width
    assert moments(picture)[:2] == pytest.approx(middle, abs=0.05)
    assert moments(picture)[2] == pytest.approx(area + np.pi * width**2 / 4, rel=0.1, abs=0.4)
    # The coverage of each pixel by its distance to the line, over all of the picture.
    y, x = np.indices(SIZE) + 0.5
    share = np.linspace(0, 1, 2001)[:, np.newaxis, np.newaxis]
    at_x, at_y = (a + share * (b - a) for a, b in zip(start, end, strict=True))
    distance = np.hypot(x - at_x, y - at_y).min(0)
    assert np.abs(picture[..., 0] / 255 - (width / 2 + 0.5 - distance).clip(0, 1)).max() < 0.02


def test_a_rectangle_has_the_pixels_whose_centers_it_holds() -> None:
    drawing = Drawing(SIZE)
    drawing.rectangle((5.4, 6, 20.6, 30.4), (10, 20, 30))
    expected = np.zeros((*SIZE, 3), np.uint8)
    expected[6:30, 5:21] = (10, 20, 30)
    assert (drawn(drawing) == expected).all()


def test_a_box_is_an_outline() -> None:
    drawing = Drawing(SIZE)
    drawing.box((10, 8, 30, 28), WHITE, 2)
    covered = drawn(drawing)[..., 0] > 127
    expected = np.zeros(SIZE, bool)
    expected[7:29, 9:31] = True
    expected[9:27, 11:29] = False
    assert (covered == expected).all()


def test_items_lie_on_each_other_and_let_shine_through() -> None:
    drawing = Drawing(SIZE)
    drawing.rectangle((0, 0, 20, 20), (200, 0, 0))
    drawing.rectangle((10, 0, 30, 20), (0, 100, 0, 51))
    drawing.lines(np.array([(0.0, 30.0), (60, 30)]), [(0, 1), (1, 0)], (255, 255, 255, 128), 4)
    picture = drawn(drawing, (0, 0, 50))
    assert picture[5, 5].tolist() == [200, 0, 0]
    assert picture[5, 15].tolist() == [160, 20, 0]
    assert picture[5, 25].tolist() == [0, 20, 40]
    half = 128 / 255
    twice = 255 * (1 - (1 - half) ** 2)
    assert np.abs(picture[30, 30] - [twice, twice, twice + 50 * (1 - half) ** 2]).max() <= 1


def test_what_is_not_finite_is_left_out() -> None:
    points = np.array([(10.0, 10), (NAN, 10), (20, np.inf), (30, 30)])
    one, other = Drawing(SIZE), Drawing(SIZE)
    one.points(points, WHITE)
    one.lines(points, [(0, 1), (1, 2), (0, 3)], WHITE)
    one.rectangle((NAN, 1, 2, 3), WHITE)
    one.text((1, NAN), "lost")
    other.points(points[[0, 3]], WHITE)
    other.lines(points, [(0, 3)], WHITE)
    assert [type(item) for item in one.items] == [type(item) for item in other.items]
    assert (drawn(one) == drawn(other)).all()
    one.rectangle((-np.inf, 30, np.inf, 1e30), WHITE)
    assert (drawn(one)[30:] == 255).all()


@pytest.mark.parametrize("far", [(-100, 5), (500, 5), (5, -100), (5, 900), (1e5, -1e5)])
def test_what_is_outside_is_cut_off(far: tuple[float, float]) -> None:
    x, y = far
    drawing = Drawing(SIZE)
    drawing.text(far, "far away", size=12)
    drawing.points(np.array([far]), WHITE, 20)
    drawing.rectangle((x, y, x + 20, y + 20), WHITE)
    assert not drawn(drawing).any()
    drawing.lines(np.array([far, (30, 20)]), [(0, 1)], WHITE, 3)
    assert drawn(drawing)[20, 30].all()


def test_nothing_changes_nothing() -> None:
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 256, (*SIZE, 3), np.uint8))
    drawing = Drawing(SIZE)
    drawing.points(np.empty((0, 2)), WHITE)
    drawing.lines(np.empty((0, 2)), (), WHITE)
    drawing.legend([], [])
    drawing.bars([], [])
    assert drawing.items == []
    assert (np.asarray(drawing.on_picture(noise)) == np.asarray(noise)).all()


def test_the_picture_stays_as_it_is_and_may_be_gray() -> None:
    gray = Image.new("L", SIZE[::-1], 7)
    drawing = Drawing(SIZE)
    drawing.rectangle((0, 0, 1, 1), WHITE)
    actual = drawing.on_picture(gray)
    assert (actual.mode, actual.getpixel((0, 0)), actual.getpixel((1, 1))) == (
        "RGB",
        WHITE,
        (7,) * 3,
    )
    assert gray.getpixel((0, 0)) == 7


def test_a_picture_of_another_size() -> None:
    with pytest.raises(ValueError, match="expected a picture of 60x40, found 40x60"):
        Drawing(SIZE).on_picture(Image.new("RGB", SIZE))


@pytest.mark.parametrize("at", [(-50, -50), (10, 10), (500, 500), (500, -3)])
def test_labels_stay_inside(at: tuple[float, float]) -> None:
    drawing = Drawing((240, 320))
    drawing.label(at, "a cat", (255, 200, 0))
    box, text = drawing.items
    assert isinstance(box, Rectangle)
    assert isinstance(text, Text)
    left, top, right, bottom = box.box
    assert 0 <= left < right <= 320
    assert 0 <= top < bottom <= 240
    width, height = text_extent("a cat", text.size)
    assert left < text.at[0] < text.at[0] + width < right
    assert top < text.at[1] < text.at[1] + height < bottom
    if at == (10, 10):
        assert (left, top) == at


@pytest.mark.parametrize(
    ("background", "letters"),
    [((255, 255, 0), (0, 0, 0)), ((0, 0, 90), WHITE), ((255, 38, 129), (0, 0, 0))],
)
def test_letters_of_a_label_are_legible(background: Any, letters: Any) -> None:
    drawing = Drawing(SIZE)
    drawing.label((0, 0), "I", background)
    assert isinstance(drawing.items[1], Text)
    assert drawing.items[1].color == letters


def test_text() -> None:
    """Letters side by side, as Pillow sets each."""
    text, size = "Hüte, 猫g", 24
    drawing = Drawing((60, 300))
    drawing.text((12.4, 8.4), text, (255, 255, 255, 128), size)
    font = ImageFont.load_default(size)
    lengths = [8 if letter == " " else font.getlength(letter) for letter in text]
    expected = np.zeros((60, 300))
    for i, letter in enumerate(text):
        picture = Image.new("L", (300, 60))
        at = round(12.4 + sum(lengths[:i]))
        ImageDraw.Draw(picture).text((at, 8), letter, 255, font)
        expected += (255 - expected) * (np.asarray(picture) / 255 * 128 / 255)
    assert np.abs(drawn(drawing)[..., 0] - expected).max() <= 2
    assert text_extent(text, size)[0] == pytest.approx(sum(lengths))


@pytest.mark.parametrize("size", range(10, 25))
def test_words_are_apart(size: int) -> None:
    """Between words is a third of a letter's height; "6 93%" is not read as "693%"."""
    for start in (0.0, 0.4, 0.8):
        drawing = Drawing((40, 200))
        drawing.text((2 + start, 2), "class 6 93", size=size)
        ink = np.flatnonzero(drawn(drawing)[..., 0].max(0) > 60)
        gaps = sorted(np.diff(ink) - 1, reverse=True)
        assert gaps[1] >= size / 3 > gaps[2]


def test_what_is_far_away_is_drawn_as_far_as_it_is_seen() -> None:
    drawing = Drawing((40, 60))
    drawing.lines(np.array([[10, 20], [1e300, 20], [np.inf, 0]]), [(0, 1), (1, 2)], (255, 0, 0), 3)
    drawing.text((float("inf"), 3), "x")
    drawing.text((1e30, 3), "x")
    assert (drawn(drawing)[20, 12:, 0] > 200).all()
    assert drawn(drawing)[:, :5].max() == 0


def test_a_detection_and_its_label_above() -> None:
    drawing = Drawing((200, 300))
    drawing.detection(
        Detection((0.1, 0.5, 0.5, 0.9), 0.876, key_points=((0.2, 0.6),)), "cat", WHITE
    )
    (text,) = (item for item in drawing.items if isinstance(item, Text))
    assert text.text == "cat 88%"
    assert text.at[1] < 100 - drawing.font_size
    picture = drawn(drawing)
    assert picture[100, 100].all()
    assert picture[120, 60].all()
    assert not picture[150, 100].any()


def test_a_legend_and_bars_are_in_the_lower_left_corner() -> None:
    legend, bars = Drawing((200, 300)), Drawing((200, 300))
    legend.legend(["cat", "a longer dog"], [(255, 0, 0), (0, 255, 0, 9)])
    bars.bars(["cat", "dog"], [1.0, 0.25], (0, 0, 255))
    for drawing in (legend, bars):
        panel, *others = (item for item in drawing.items if isinstance(item, Rectangle))
        left, top, right, bottom = panel.box
        assert (left, bottom) == (0, 200)
        assert all(item.box[1] > top and item.box[2] <= right for item in others)
        assert all(item.at[0] < right for item in drawing.items if isinstance(item, Text))
    blue = (drawn(bars, (90, 90, 90)) == (0, 0, 255)).all(-1)
    assert blue[:, 99].sum() == pytest.approx(1.2 * bars.font_size, abs=1)
    assert blue[:, 24].any(0)
    assert not blue[:, 100].any()


def test_the_area_of_a_mask_lies_in_its_box() -> None:
    """Of a box that ends beyond the picture, what is inside; without a mask, nothing."""
    box = (30 / 60, 10 / 40, 70 / 60, 20 / 40)
    mask = np.repeat([[0.9, 0.2]], 3, 0)
    shares = np.interp(np.arange(60) + 0.5, (40, 60), (0.9, 0.2))  # between the mask's pixels
    expected = np.zeros(SIZE, bool)
    expected[10:20, 30:] = shares[30:] > 0.5
    np.testing.assert_array_equal(area(Detection(box, 0.9, mask=mask), SIZE), expected)
    assert not area(Detection(box, 0.9), SIZE).any()
