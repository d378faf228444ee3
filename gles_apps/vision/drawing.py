"""Shapes and text over a picture: a list that numpy draws, or one instanced draw of OpenGL."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from colorsys import hsv_to_rgb
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gles_apps.vision.detection import Box, Detection, Point
from gles_apps.vision.skeletons import COCO_EDGES, COCO_KEY_POINTS
from gles_delegate import ImageTransform
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.optional import pillow

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

Color: TypeAlias = tuple[int, int, int] | tuple[int, int, int, int]
"""Red, green, blue, and alpha if it is not 255."""
PANEL = (0, 0, 0, 160)
"""The background of legends, bars and other lines of text."""
VISIBLE = 0.5
"""Minimum score of a key point that is drawn."""
MASK_SIDE = 640
"""Limit of the larger side of a picture of masks."""
OVERLAID = 0.45
"""The opacity of colored areas."""
FAR = 1e6
"""Limit of coordinates, in pixels; larger ones are clamped."""
Indices: TypeAlias = tuple[slice | Array, slice | Array]
"""Rows and columns of pixels."""
Coverage: TypeAlias = Sequence[tuple[Indices, Array]]
"""Pixels, and the opacity of a color there, float32 of 0 to 1."""


@dataclass(frozen=True)
class Strokes:
    """Lines with round ends; points are lines of length 0.

    Attributes:
        ends: Float32 [n, 4]: x and y of the start and of the end.
        width: In pixels.
        color: Of all lines.
    """

    ends: Array
    width: float
    color: Color

    def coverage(self, size: Size) -> Coverage:
        """What its color covers of a picture of that size: each stroke a share of what earlier ones
        left uncovered.

        ``glsl/live/shape.frag`` has the same formulas.
        """
        starts = self.ends[:, :2]
        along = self.ends[:, 2:] - self.ends[:, :2]
        reach = self.width / 2 + 1
        # Step by step along the axis in which a stroke is longer, a few pixels across it.
        axis = np.abs(along).argmax(1)[:, np.newaxis]
        start, run, across, rise = (
            np.take_along_axis(pairs, indices, 1)[:, 0]
            for indices in (axis, 1 - axis)
            for pairs in (starts, along)
        )
        limit = np.array(size)[1 - axis[:, 0]]
        first = np.floor(np.minimum(start, start + run) - reach).clip(0, limit).astype(int)
        last = np.ceil(np.maximum(start, start + run) + reach).clip(0, limit).astype(int)
        count = last - first
        which = np.repeat(np.arange(len(count)), count)
        step = first[which] + np.arange(len(which)) - np.repeat(np.cumsum(count) - count, count)
        share = ((step + 0.5 - start[which]) / np.where(run == 0, 1, run)[which]).clip(0, 1)
        widest = math.sqrt(2) * reach  # half the extent of a stroke at 45 degrees
        nearby = np.floor(across[which] + share * rise[which] - widest)[:, np.newaxis]
        others = (nearby + np.arange(math.ceil(2 * widest) + 1)).clip(-1, max(size)).astype(int)
        steps = np.broadcast_to(step[:, np.newaxis], others.shape)
        x, y = np.where(axis[which] == 0, (steps, others), (others, steps))
        inside = (x >= 0) & (x < size[1]) & (y >= 0) & (y < size[0])
        which = np.broadcast_to(which[:, np.newaxis], inside.shape)[inside]
        x = x[inside]
        y = y[inside]

        from_x, from_y = np.array((x, y)) + 0.5 - starts[which].T
        dx, dy = along[which].T
        share = ((from_x * dx + from_y * dy) / np.maximum(dx * dx + dy * dy, 1e-6)).clip(0, 1)
        distance = np.hypot(from_x - share * dx, from_y - share * dy)
        covered = (self.width / 2 + 0.5 - distance).clip(0, 1) * _opacity(self.color)
        y = y[covered > 0]
        x = x[covered > 0]
        covered = covered[covered > 0]
        uncovered = np.ones(size, np.float32)
        np.multiply.at(uncovered, (y, x), (1 - covered).astype(np.float32))
        return [((y, x), 1 - uncovered[y, x])]


@dataclass(frozen=True)
class Rectangle:
    """A filled rectangle."""

    box: Box
    color: Color

    def coverage(self, size: Size) -> Coverage:
        """See `Strokes.coverage`."""
        x, y, to_x, to_y = _clip(np.ceil(np.array(self.box) - 0.5), size)
        opacity = np.full((to_y - y, to_x - x), _opacity(self.color))
        return [((slice(y, to_y), slice(x, to_x)), opacity)]


@dataclass(frozen=True)
class Text:
    """A line of text.

    Attributes:
        at: Top left corner.
        text: The characters.
        size: Font size in pixels.
        color: Of the letters.
    """

    at: Point
    text: str
    size: int
    color: Color

    def coverage(self, size: Size) -> Coverage:
        """See `Strokes.coverage`."""
        covered: list[tuple[Indices, Array]] = []
        for glyph, left, top in place_glyphs(self):
            height, width = glyph.mask.shape
            x, y, to_x, to_y = _clip((left, top, left + width, top + height), size)
            mask = glyph.mask[y - top : to_y - top, x - left : to_x - left]
            opacity = mask * (_opacity(self.color) / 255)
            covered.append(((slice(y, to_y), slice(x, to_x)), opacity))
        return covered


@dataclass(frozen=True)
class Overlay:
    """Colored areas, such as masks of classes; they shine through.

    Attributes:
        picture: Uint8 [rows, columns, 4], RGBA, over the whole picture; alpha is 0 where there is
            nothing.
    """

    picture: Array


@dataclass
class Drawing:
    """Shapes and text to draw over a picture, in its pixels.

    Items outside the picture are clipped, and items at NaN are left out.

    Attributes:
        size: Height and width of the picture.
        items: The first one is lowest.

    Examples:
        >>> drawing = vision.Drawing((200, 320))
        >>> cat = vision.Detection((0.1, 0.1, 0.5, 0.9), score=0.8)
        >>> drawing.detection(cat, "cat 0.8", (255, 140, 25))
        >>> marked = drawing.on_picture(PIL.Image.new("RGBA", (320, 200)))
    """

    size: Size
    items: list[Strokes | Rectangle | Text | Overlay] = field(default_factory=list)

    @property
    def unit(self) -> float:
        """A line width that suits the picture: 2 pixels for 720 rows, at least 1."""
        return max(1.0, min(self.size) / 360)

    @property
    def font_size(self) -> int:
        """A font size that suits the picture: 28 pixels for 720 rows, at least 12."""
        return max(12, round(min(self.size) / 26))

    def points(self, points: Array, color: Color, width: float | None = None) -> None:
        """Discs around points [n, 2 or more]; points that are not finite are left out."""
        pairs = np.asarray(points, np.float64)[:, :2]
        self._strokes(np.hstack([pairs, pairs]), color, 2 * self.unit if width is None else width)

    def lines(
        self,
        points: Array,
        edges: Sequence[tuple[int, int]],
        color: Color,
        width: float | None = None,
    ) -> None:
        """Lines between points [n, 2 or more]; `edges` has pairs of their indices."""
        pairs = np.asarray(points, np.float64)[:, :2]
        ends = np.asarray(edges, int).reshape(-1, 2)
        self._strokes(pairs[ends].reshape(-1, 4), color, self.unit if width is None else width)

    def box(self, box: Box, color: Color, width: float | None = None) -> None:
        """The outline of a rectangle."""
        left, top, right, bottom = box
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
        self.lines(corners, ((0, 1), (1, 2), (2, 3), (3, 0)), color, width)

    def rectangle(self, box: Box, color: Color) -> None:
        """A filled rectangle."""
        if not np.isnan(box).any():
            self.items.append(Rectangle(box, color))

    def masks(self, detections: Sequence[Detection]) -> None:
        """The masks of detections in the colors of their classes, the first on top."""
        masked = [each for each in detections if each.mask is not None]
        if not masked:
            return
        scale = min(1.0, MASK_SIDE / max(self.size))
        height, width = (max(1, round(scale * side)) for side in self.size)
        areas = np.zeros((height, width, 4), np.uint8)
        for detection in reversed(masked):
            areas[area(detection, (height, width))] = (*color_of(detection.class_index), 255)
        self.overlay(areas)

    def overlay(self, picture: Array) -> None:
        """Colored areas over the whole picture, uint8 [rows, columns, 4], clear if alpha is 0."""
        self.items.append(Overlay(picture))

    def text(
        self, at: Point, text: str, color: Color = (255, 255, 255), size: int | None = None
    ) -> None:
        """A line of text; `at` is its top left corner."""
        if np.isfinite(at).all():
            self.items.append(Text(at, text, size or self.font_size, color))

    def label(self, at: Point, text: str, background: Color, size: int | None = None) -> None:
        """A line of text on a filled rectangle, moved so that it stays inside the picture."""
        size = size or self.font_size
        width, height = text_extent(text, size)
        margin = size / 4
        x = min(max(at[0], 0.0), self.size[1] - width - 2 * margin)
        y = min(max(at[1], 0.0), self.size[0] - height - margin)
        self.rectangle((x, y, x + width + 2 * margin, y + height + margin), background)
        self.text((x + margin, y + margin / 2), text, _legible_on(background), size)

    def detection(self, detection: Detection, label: str, color: Color) -> None:
        """The box of a detection, its name and score, and its key points.

        Points with a score below 0.5 are left out; 17 points are a body's, with its lines.
        """
        height, width = self.size
        left, top, right, bottom = np.multiply(detection.box, (width, height) * 2).tolist()
        if detection.corners:
            corners = np.multiply(detection.corners, (width, height))
            self.lines(corners, ((0, 1), (1, 2), (2, 3), (3, 0)), color, 2 * self.unit)
        else:
            self.box((left, top, right, bottom), color, 2 * self.unit)
        if detection.key_points:
            points = np.multiply(detection.key_points, (width, height))
            if detection.key_point_scores:
                points[np.less(detection.key_point_scores, VISIBLE)] = np.nan
            if len(points) == len(COCO_KEY_POINTS):
                self.skeleton(points, COCO_EDGES, color)
            else:
                self.points(points, color, 3 * self.unit)
        text = f"{label} {detection.score:.0%}".strip()
        # As wide as the object, if that is legible.
        largest = self.font_size
        smallest = min(self.font_size, max(10, self.font_size // 2))
        wanted = largest * (right - left) / (text_extent(text, largest)[0] + largest / 2)
        size = int(min(max(wanted, smallest), largest)) if math.isfinite(wanted) else smallest
        high = top - 1.5 * size
        self.label((left, high if high > 0 else top), text, color, size)

    def skeleton(self, points: Array, edges: Sequence[tuple[int, int]], color: Color) -> None:
        """Points [n, 2 or more] and lines between them; what is not finite is left out."""
        self.lines(points, edges, color, 2.5 * self.unit)
        self.points(points, (255, 255, 255), 4 * self.unit)

    def legend(self, names: Sequence[str], colors: Sequence[Color]) -> None:
        """Names of classes beside their colors, in the lower left corner."""
        pad = self.font_size / 2
        indent = 2 * self.font_size
        _, rows = self._panel(names, indent)
        for y, name, color in zip(rows, names, colors, strict=True):
            self.rectangle((pad, y, pad + self.font_size, y + self.font_size), (*color[:3], 255))
            self.text((indent, y), name)

    def bars(
        self, names: Sequence[str], shares: Sequence[float], color: Color = (30, 100, 190)
    ) -> None:
        """Names and shares (0 to 1) over bars of proportional length, in the lower left corner."""
        texts = [f"{share:.0%} {name}" for name, share in zip(names, shares, strict=True)]
        width, rows = self._panel(texts, self.font_size / 2, least=self.size[1] / 3)
        for y, text, share in zip(rows, texts, shares, strict=True):
            self.rectangle((0, y, width * share, y + 1.2 * self.font_size), color)
            self.text((self.font_size / 2, y), text)

    def _panel(
        self, texts: Sequence[str], indent: float, least: float = 0
    ) -> tuple[float, list[float]]:
        """A dark rectangle for lines of text; its width, and the top of each line."""
        if not texts:
            return 0.0, []
        line = 1.4 * self.font_size
        pad = self.font_size / 2
        top = self.size[0] - line * len(texts) - 2 * pad
        widest = max(text_extent(text, self.font_size)[0] for text in texts)
        width = max(indent + widest + pad, least)
        self.rectangle((0, top, width, self.size[0]), PANEL)
        return width, [top + pad + row * line for row in range(len(texts))]

    def on_picture(self, picture: Image) -> Image:
        """The picture with the drawing over it, in RGB, drawn on the CPU.

        Raises:
            ValueError: The picture has another size.
        """
        pictures = pillow()
        if picture.size != self.size[::-1]:
            raise ValueError(
                f"expected a picture of {self.size[1]}x{self.size[0]}, found "
                f"{picture.width}x{picture.height}"
            )
        pixels = np.array(picture.convert("RGB"))
        for item in self.items:
            if isinstance(item, Overlay):
                below = pictures.fromarray(pixels)
                above = pictures.fromarray(item.picture)
                above = above.resize(below.size, pictures.Resampling.BILINEAR)
                share = above.getchannel("A").point(lambda alpha: round(OVERLAID * alpha))
                below.paste(above.convert("RGB"), mask=share)
                pixels = np.array(below)
                continue
            color = np.array(item.color[:3], np.float32)
            for indices, share in item.coverage(self.size):
                below = pixels[indices].astype(np.float32)
                mixed = below + (color - below) * share[..., np.newaxis]
                pixels[indices] = (mixed + 0.5).astype(np.uint8)
        made: Image = pictures.fromarray(pixels)
        return made

    def _strokes(self, ends: Array, color: Color, width: float) -> None:
        ends = ends[np.isfinite(ends).all(1)].clip(-FAR, FAR)
        if len(ends):
            self.items.append(Strokes(ends.astype(np.float32), float(width), color))


def area(detection: Detection, size: Size) -> Array:
    """Where the mask of a detection is above 0.5: bool [height, width] of a picture."""
    covered = np.zeros(size, bool)
    mask = detection.mask
    if mask is None:
        return covered
    height, width = size
    left, top, right, bottom = np.multiply(detection.box, (width, height) * 2).tolist()
    x = max(round(left), 0)
    y = max(round(top), 0)
    to_x = min(round(right), width)
    to_y = min(round(bottom), height)
    if to_x > x and to_y > y:
        across = mask.shape[1] / (right - left)
        down = mask.shape[0] / (bottom - top)
        rows = (across, 0.0, (x - left) * across), (0.0, down, (y - top) * down)
        part = ImageTransform(matrix=rows, channels="gray", border="replicate")
        covered[y:to_y, x:to_x] = part.apply(mask, (to_y - y, to_x - x))[0, :, :, 0] > 0.5
    return covered


def _opacity(color: Color) -> np.float32:
    opacity: np.float32 = np.float32((*color, 255)[3] / 255)
    return opacity


def _clip(box: Sequence[float] | Array, size: Size) -> tuple[int, int, int, int]:
    """The intersection of a box of whole pixels with the picture; it may be empty."""
    left, top, right, bottom = box
    x = int(np.clip(left, 0, size[1]))
    y = int(np.clip(top, 0, size[0]))
    return x, y, int(np.clip(right, x, size[1])), int(np.clip(bottom, y, size[0]))


@dataclass(frozen=True)
class Glyph:
    """A rendered character.

    Attributes:
        mask: Its coverage, uint8 [height, width].
        offset: The mask's left and top, from the character's position at the line's top, in pixels.
        advance: Distance to the next character's position, in pixels.
    """

    mask: Array
    offset: tuple[int, int]
    advance: float


@lru_cache(maxsize=4096)
def load_glyph(character: str, size: int) -> Glyph:
    """A character in Pillow's default font; `size` in pixels."""
    from PIL import Image as Pictures
    from PIL import ImageDraw

    font = load_font(size)
    left, top, right, bottom = (int(x) for x in font.getbbox(character))
    picture = Pictures.new("L", (max(right - left, 0), max(bottom - top, 0)))
    ImageDraw.Draw(picture).text((-left, -top), character, 255, font)
    mask = np.asarray(picture).reshape(picture.height, picture.width)
    # The font's own space, 0.22 of its size, is invisible between letters on whole pixels.
    advance = math.ceil(0.33 * size) if character == " " else font.getlength(character)
    return Glyph(mask, (left, top), advance)


def place_glyphs(text: Text) -> Iterator[tuple[Glyph, int, int]]:
    """The glyphs of a line, and the left and top of each mask, in whole pixels."""
    x, y = text.at
    for character in text.text:
        glyph = load_glyph(character, text.size)
        yield glyph, round(x) + glyph.offset[0], round(y) + glyph.offset[1]
        x += glyph.advance


@lru_cache(maxsize=8)
def load_font(size: int) -> FreeTypeFont:
    """Pillow's default font; `size` in pixels.

    Raises:
        ImportError: Pillow was built without FreeType.
    """
    from PIL import ImageFont

    font = ImageFont.load_default(size)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise ImportError("text needs a Pillow with FreeType: pip install --upgrade pillow")
    return font


def text_extent(text: str, size: int) -> tuple[float, float]:
    """Width and height in pixels of a line of text."""
    return sum(load_glyph(character, size).advance for character in text), 1.2 * size


def _legible_on(background: Color) -> Color:
    """Black or white, which has more contrast by WCAG 2: relative luminance above 0.18 or not."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in np.divide(background[:3], 255).tolist()
    ]
    luminance = np.dot(linear, (0.2126, 0.7152, 0.0722))
    return (0, 0, 0) if luminance > 0.18 else (255, 255, 255)


def palette(count: int) -> list[tuple[int, int, int]]:
    """Distinct colors: hues a golden section apart.

    Examples:
        >>> len(set(vision.palette(80)))
        80
    """
    hues = ((0.93 + 0.618034 * i) % 1 for i in range(count))
    colors = (hsv_to_rgb(hue, 0.85, 1.0) for hue in hues)
    return [(round(255 * r), round(255 * g), round(255 * b)) for r, g, b in colors]


_COLORS = palette(20)


def color_of(number: int) -> tuple[int, int, int]:
    """The color of a class in drawings."""
    return _COLORS[number % len(_COLORS)]
