"""Draw pictures of handwritten digits: one digit, or a page or photograph with many.

    python examples/digit_pages.py

draws examples/digit.png and examples/digits.jpg, whose digits no network was trained on.

scikit-learn's digits are scans of 8x8 pixels. They are enlarged, tilted and drawn with a random ink
on paper, or on photographs that ship with scikit-image.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from io import BytesIO
from pathlib import Path

import numpy as np
from photographs import HELD_OUT, TRAINING, Photo
from PIL import Image, ImageDraw, ImageFilter
from sklearn.datasets import load_digits

ONE_SEED = 6
PAGE_SEED = 1154
"""Seeds of the two pictures; of this page, models/digit_detector.tflite finds all digits."""

LABELS = [str(digit) for digit in range(10)]
UNSEEN = 382
"""Scans at the end of the file that training does not see: the last three of its 14 forms, each of
which one person filled in.
"""

SOURCE = (
    "Optical Recognition of Handwritten Digits, by E. Alpaydin and C. Kaynak, UCI Machine Learning "
    "Repository, https://doi.org/10.24432/C50P49: CC BY 4.0, "
    "https://creativecommons.org/licenses/by/4.0/"
)

Array = np.ndarray
Rng = np.random.Generator
Size = tuple[int, int]


@dataclass(frozen=True)
class Style:
    """How pages look; lengths are pixels, and pairs are ranges.

    Attributes:
        size: Height and width of the picture.
        heights: Heights of digits before they are tilted.
        numbers: How many numbers are written, each of several digits.
        digits: How many digits a number has.
        photos: The share of pages on photographs.
        empty: The share of pages without a digit.
        margin: Free space around a number, as a share of its digits' height.
    """

    size: Size = (256, 256)
    heights: tuple[float, float] = (14, 110)
    numbers: tuple[int, int] = (1, 14)
    digits: tuple[int, int] = (1, 4)
    photos: float = 0.35
    empty: float = 0.08
    margin: float = 0.15


ONE_DIGIT = Style((64, 64), (30, 58), (1, 1), (1, 1), photos=0.15, empty=0, margin=0)


@dataclass(frozen=True)
class Scans:
    """Scans of digits, float32 [n, 8, 8] in 0 to 1, their digits [n], and photographs.

    Attributes:
        are_mixed: Half of the digits drawn are means of two scans.
    """

    pixels: Array
    digits: Array
    photos: tuple[Photo, ...]
    are_mixed: bool

    def scan(self, rng: Rng, i: int) -> Array:
        """Scan `i`, or its mean with another one of the same digit, which has a smaller weight."""
        if not self.are_mixed or rng.random() < 0.5:
            return self.pixels[i]
        other = rng.choice(np.flatnonzero(self.digits == self.digits[i]))
        weight = rng.uniform(0, 0.35)
        return (1 - weight) * self.pixels[i] + weight * self.pixels[other]


@dataclass
class Page:
    """A picture, uint8 [height, width, 3], and its digits.

    Attributes:
        boxes: Left, top, right and bottom of each digit in pixels, float32 [n, 4].
        digits: Integers [n].
    """

    picture: Array
    boxes: Array
    digits: Array


@cache
def scans() -> tuple[Scans, Scans]:
    """The scans for training, and the others."""
    data = load_digits()
    pixels = (data.images / 16).astype(np.float32)
    digits = data.target
    free = tuple(photo for photo in TRAINING if photo.licence in ("CC0", "public domain"))
    return (
        Scans(pixels[:-UNSEEN], digits[:-UNSEEN], free, True),
        Scans(pixels[-UNSEEN:], digits[-UNSEEN:], HELD_OUT, False),
    )


@cache
def noise() -> Array:
    """Normal noise, larger than any page; parts of it are cut out."""
    return np.random.default_rng(0).standard_normal((1100, 1500)).astype(np.float32)


def noise_like(rng: Rng, size: Size) -> Array:
    y, x = (rng.integers(have - need) for have, need in zip(noise().shape, size, strict=True))
    return noise()[y : y + size[0], x : x + size[1]]


def clouds(rng: Rng, size: Size, cells: int) -> Array:
    """Smooth noise [height, width] of about 1, with this many cells along each axis."""
    small = Image.fromarray(noise_like(rng, (cells, cells)))
    return np.asarray(small.resize(size[::-1], Image.Resampling.BICUBIC))


def strokes(rng: Rng, scan: Array, height: float, tilt: float) -> Array:
    """The ink of a digit, 0 to 1, cut out at its edges."""
    side = round(1.7 * height) + 4
    angle = np.radians(tilt + rng.uniform(-10, 10))
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    slant = np.array([[1, rng.uniform(-0.3, 0.3)], [0, 1]])
    matrix = np.diag([8 / height / rng.uniform(0.7, 1.2), 8 / height]) @ slant @ turn
    corners = side / 2 * np.array([[-1, -1], [-1, 1], [1, 1], [1, -1]]) @ matrix.T
    corners += 8 + rng.normal(0, 0.7, (4, 2))
    padded = np.pad(scan + 0.05 * noise_like(rng, (8, 8)) * (scan > 0), 4)
    drawn = Image.fromarray(padded).transform(
        (side, side), Image.Transform.QUAD, corners.ravel().tolist(), Image.Resampling.BICUBIC
    )
    threshold = rng.uniform(0.25, 0.5)
    softness = rng.uniform(0.15, 0.6)
    ink = ((np.asarray(drawn) - threshold) / softness + 0.5).clip(0, 1)
    rows, columns = (np.flatnonzero((ink > 0.1).any(axis)) for axis in (1, 0))
    return ink[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]


def paper(rng: Rng, size: Size) -> Array:
    """Paper or a blackboard [height, width, 3], with stains, grain, a shadow, and maybe lines."""
    is_light = rng.random() < 0.85
    base = rng.uniform(150, 250) if is_light else rng.uniform(15, 90)
    color = base + rng.normal(0, 10, 3)
    shade = rng.uniform(0, 12) * clouds(rng, size, rng.integers(3, 12))
    shade = shade + rng.uniform(0, 8) * noise_like(rng, size)
    result = color + shade[..., np.newaxis]
    y, x = np.indices(size, np.float32)
    if rng.random() < 0.5:
        for angle in [0.0, np.pi / 2][: rng.integers(1, 3)]:
            angle += rng.normal(0, 0.05)
            along = y * np.cos(angle) + x * np.sin(angle)
            spacing = rng.uniform(10, 60) * max(size) / 256
            is_line = along % spacing < rng.uniform(0.7, 2.2)
            result[is_line] += rng.uniform(0.2, 0.9) * (rng.uniform(0, 255, 3) - result[is_line])
    if rng.random() < 0.5:
        angle = rng.uniform(0, 2 * np.pi)
        edge = rng.uniform(-0.3, 0.3) * max(size)
        distance = (y - size[0] / 2) * np.cos(angle) + (x - size[1] / 2) * np.sin(angle) - edge
        soft = 1 / (1 + np.exp(-distance.clip(-400, 400) / rng.uniform(2, 60)))
        result *= 1 - rng.uniform(0, 0.45) * soft[..., np.newaxis]
    return result


def photograph(rng: Rng, size: Size, photos: Sequence[Photo]) -> Array:
    """A part of a photograph, maybe with a sheet of paper on it, [height, width, 3]."""
    whole = loaded(photos[rng.integers(len(photos))])
    scale = rng.uniform(0.4, 1) * min(whole.width / size[1], whole.height / size[0])
    width = scale * size[1]
    height = scale * size[0]
    left = rng.uniform(0, whole.width - width)
    top = rng.uniform(0, whole.height - height)
    box = (left, top, left + width, top + height)
    part = whole.resize(size[::-1], Image.Resampling.BILINEAR, box)
    if rng.random() < 0.3:
        part = part.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    result = np.asarray(part, np.float32)
    result = (result - 128) * rng.uniform(0.3, 1) + 128 + rng.uniform(-40, 40)
    if rng.random() < 0.5:
        corners = np.array([[0.05, 0.05], [0.95, 0.05], [0.95, 0.95], [0.05, 0.95]])
        corners += rng.uniform(-0.1, 0.15, (4, 2))
        mask = Image.new("L", size[::-1])
        ImageDraw.Draw(mask).polygon([tuple(xy) for xy in corners * size[::-1]], fill=255)
        inside = np.asarray(mask)[..., np.newaxis] > 0
        result = np.where(inside, paper(rng, size), result)
    return result


@cache
def loaded(photo: Photo) -> Image.Image:
    return photo.load()


def ink_color(rng: Rng, under: Array) -> Array:
    """A color that differs from the part of a picture that a number covers."""
    light = float(under.mean())
    contrast = min(70 + under.std(), 120)
    is_darker = light > 128 if rng.random() < 0.9 else light > contrast
    shade = rng.uniform(0, light - contrast) if is_darker else rng.uniform(light + contrast, 255)
    return shade + rng.normal(0, 25, 3)


def write(rng: Rng, page: Page, scans: Scans, style: Style) -> None:
    """Write a number of several digits on a page, if there is room at a random place."""
    height = float(np.exp(rng.uniform(*np.log(style.heights))))
    tilt = rng.normal(0, 8)
    gap = rng.uniform(0.08, 0.4) * height
    chosen = rng.integers(
        len(scans.digits), size=rng.integers(style.digits[0], style.digits[1] + 1)
    )
    glyphs = [
        strokes(rng, scans.scan(rng, i), height * rng.uniform(0.9, 1.1), tilt) for i in chosen
    ]
    widths = np.array([glyph.shape[1] for glyph in glyphs])
    lefts = np.cumsum([0, *(widths[:-1] + gap)])
    middles = (lefts + widths / 2 - widths[0] / 2) * np.sin(np.radians(tilt))
    tops = middles + rng.normal(0, 0.03 * height, len(glyphs))
    tops = tops - [glyph.shape[0] / 2 for glyph in glyphs]
    boxes = np.column_stack([lefts, tops, lefts, tops]).round()
    boxes[:, 2:] += [glyph.shape[::-1] for glyph in glyphs]
    boxes -= np.tile(boxes[:, :2].min(0), 2)
    room = np.subtract(page.picture.shape[1::-1], boxes[:, 2:].max(0))
    if (room < 0).any():
        return
    boxes = (boxes + np.tile([rng.integers(space + 1) for space in room], 2)).astype(int)
    margin = style.margin * height
    grown = (*boxes[:, :2].min(0) - margin, *boxes[:, 2:].max(0) + margin)
    if overlap(np.array(grown), page.boxes).any():
        return
    left, top, right, bottom = (*boxes[:, :2].min(0), *boxes[:, 2:].max(0))
    color = ink_color(rng, page.picture[top:bottom, left:right])
    opacity = rng.uniform(0.75, 1)
    for glyph, (left, top, right, bottom) in zip(glyphs, boxes, strict=True):
        under = page.picture[top:bottom, left:right]
        under += opacity * glyph[..., np.newaxis] * (color - under)
    page.boxes = np.concatenate([page.boxes, boxes.astype(np.float32)])
    page.digits = np.concatenate([page.digits, scans.digits[chosen]])


def overlap(box: Array, boxes: Array) -> Array:
    """Whether a box [4] has pixels in common with each of others [n, 4]."""
    return (np.maximum(box[:2], boxes[:, :2]) < np.minimum(box[2:], boxes[:, 2:])).all(1)


def photographed(rng: Rng, picture: Array) -> Array:
    """A picture as a camera would store it: blurred, noisy, and often as JPEG; uint8."""
    size = picture.shape[:2]
    picture = picture + rng.uniform(0, 7) * noise_like(rng, size)[..., np.newaxis]
    picture = picture * rng.uniform(0.75, 1.1) * rng.uniform(0.93, 1.07, 3)
    image = Image.fromarray(picture.clip(0, 255).astype(np.uint8))
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0, 0.9)))
    if rng.random() < 0.4:
        file = BytesIO()
        image.save(file, "JPEG", quality=int(rng.integers(40, 96)))
        image = Image.open(file)
    return np.array(image)


def draw(rng: Rng, scans: Scans, style: Style) -> Page:
    """A random page."""
    if rng.random() < style.photos:
        background = photograph(rng, style.size, scans.photos)
    else:
        background = paper(rng, style.size)
    page = Page(background, np.empty((0, 4), np.float32), np.empty(0, int))
    if rng.random() >= style.empty:
        for _ in range(rng.integers(style.numbers[0], style.numbers[1] + 1)):
            write(rng, page, scans, style)
    page.picture = photographed(rng, page.picture)
    return page


def draw_one(rng: Rng, scans: Scans, style: Style = ONE_DIGIT) -> Page:
    """A picture of a single digit."""
    while True:
        page = draw(rng, scans, style)
        if len(page.digits):
            return page


def main() -> None:
    """Draw the two pictures, and print their digits."""
    _, unseen = scans()
    paper_only = replace(ONE_DIGIT, size=(128, 128), heights=(70, 100), photos=0)
    style = Style((480, 720), (75, 125), (12, 12), (2, 4), photos=0, empty=0, margin=0.3)
    pages = {
        "digit.png": draw_one(np.random.default_rng(ONE_SEED), unseen, paper_only),
        "digits.jpg": draw(np.random.default_rng(PAGE_SEED), unseen, style),
    }
    for name, page in pages.items():
        Image.fromarray(page.picture).save(Path(__file__).with_name(name), quality=75)
        print(f"{name}: {''.join(map(str, page.digits))}")


if __name__ == "__main__":
    main()
