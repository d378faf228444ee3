"""Shapes and text over a picture: a list that Pillow draws, or one instanced draw of OpenGL."""

from __future__ import annotations

from collections.abc import Sequence
from colorsys import hsv_to_rgb
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.vision.detection import Box, Detection, Point

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont

Colour: TypeAlias = tuple[int, int, int] | tuple[int, int, int, int]
"""Red, green, blue, and alpha if it is not 255."""
Extent: TypeAlias = tuple[int, int]
"""Height and width, as `gles_delegate.image.transform.Size`."""

SMOOTH = 2
"""Times the resolution at which Pillow draws, to have smooth edges."""


@dataclass(frozen=True)
class Strokes:
    """Lines of one colour and width with round ends; points are lines of no length.

    Attributes:
        ends: Float32 [n, 4]: x and y of the start and of the end.
        width: In pixels.
        colour: Of all.
    """

    ends: Array
    width: float
    colour: Colour


@dataclass(frozen=True)
class Rectangle:
    """A filled rectangle."""

    box: Box
    colour: Colour


@dataclass(frozen=True)
class Text:
    """A line of text.

    Attributes:
        at: Its top left corner.
        text: The line.
        size: The font's, in pixels.
        colour: Of the letters.
    """

    at: Point
    text: str
    size: int
    colour: Colour


@dataclass
class Drawing:
    """What is to be drawn over a picture, the first item lowest. Positions are in its pixels.

    Attributes:
        size: Height and width of the picture.
        items: See above.
    """

    size: Extent
    items: list[Strokes | Rectangle | Text] = field(default_factory=list)

    @property
    def unit(self) -> float:
        """A line's width that suits the picture: 2 pixels of 720 rows, at least 1."""
        return max(1.0, min(self.size) / 360)

    @property
    def font_size(self) -> int:
        """A font's size that suits the picture: 24 pixels of 720 rows, at least 10."""
        return max(10, round(min(self.size) / 30))

    def points(self, points: Array, colour: Colour, width: float | None = None) -> None:
        """Discs around points [n, 2 or more]; those that are not finite are left out."""
        pairs = np.asarray(points, np.float32)[:, :2]
        self._strokes(np.hstack([pairs, pairs]), colour, 2 * self.unit if width is None else width)

    def lines(
        self,
        points: Array,
        edges: Sequence[tuple[int, int]],
        colour: Colour,
        width: float | None = None,
    ) -> None:
        """Lines between points [n, 2 or more], as `edges` name their indices."""
        pairs, ends = np.asarray(points, np.float32)[:, :2], np.asarray(edges, int).reshape(-1, 2)
        self._strokes(pairs[ends].reshape(-1, 4), colour, self.unit if width is None else width)

    def box(self, box: Box, colour: Colour, width: float | None = None) -> None:
        """The outline of a rectangle."""
        left, top, right, bottom = box
        corners = np.array([(left, top), (right, top), (right, bottom), (left, bottom)])
        self.lines(corners, ((0, 1), (1, 2), (2, 3), (3, 0)), colour, width)

    def rectangle(self, box: Box, colour: Colour) -> None:
        """A filled rectangle."""
        self.items.append(Rectangle(box, colour))

    def text(
        self, at: Point, text: str, colour: Colour = (255, 255, 255), size: int | None = None
    ) -> None:
        """A line of text, by its top left corner."""
        self.items.append(Text(at, text, size or self.font_size, colour))

    def label(self, at: Point, text: str, background: Colour, size: int | None = None) -> None:
        """A line of text on a filled rectangle, moved into the picture where it would leave it."""
        size = size or self.font_size
        width, height = text_extent(text, size)
        margin = size / 4
        x = min(max(at[0], 0.0), self.size[1] - width - 2 * margin)
        y = min(max(at[1], 0.0), self.size[0] - height - margin)
        self.rectangle((x, y, x + width + 2 * margin, y + height + margin), background)
        light = np.dot(background[:3], (0.299, 0.587, 0.114)) > 140
        self.text((x + margin, y + margin / 2), text, (0, 0, 0) if light else (255, 255, 255), size)

    def detection(self, found: Detection, label: str, colour: Colour) -> None:
        """The box of a detection, its name and score, and its key points."""
        height, width = self.size
        left, top, right, bottom = np.multiply(found.box, (width, height) * 2).tolist()
        self.box((left, top, right, bottom), colour, 1.5 * self.unit)
        if found.key_points:
            self.points(np.multiply(found.key_points, (width, height)), colour, 3 * self.unit)
        high = top - 1.5 * self.font_size
        above = (left, high if high > 0 else top)
        self.label(above, f"{label} {found.score:.0%}".strip(), colour)

    def skeleton(self, points: Array, edges: Sequence[tuple[int, int]], colour: Colour) -> None:
        """Points [n, 2 or more] and lines between them; those that are not finite are left out."""
        self.lines(points, edges, colour, 2.5 * self.unit)
        self.points(points, (255, 255, 255), 4 * self.unit)

    def legend(self, names: Sequence[str], colours: Sequence[Colour]) -> None:
        """Names of classes beside their colours, in the lower left corner."""
        pad, indent = self.font_size / 2, 2 * self.font_size
        _, rows = self._panel(names, indent)
        for y, name, colour in zip(rows, names, colours, strict=True):
            square = (pad, y, pad + self.font_size, y + self.font_size)
            self.rectangle(square, (*colour[:3], 255))
            self.text((indent, y), name)

    def bars(
        self, names: Sequence[str], shares: Sequence[float], colour: Colour = (40, 130, 230)
    ) -> None:
        """Names and shares (0 to 1) over bars as long as these, in the lower left corner."""
        texts = [f"{share:.0%} {name}" for name, share in zip(names, shares, strict=True)]
        width, rows = self._panel(texts, self.font_size / 2, least=self.size[1] / 3)
        for y, text, share in zip(rows, texts, shares, strict=True):
            self.rectangle((0, y, width * share, y + 1.2 * self.font_size), colour)
            self.text((self.font_size / 2, y), text)

    def _panel(
        self, texts: Sequence[str], indent: float, least: float = 0
    ) -> tuple[float, list[float]]:
        """A dark rectangle for lines of text; its width, and where each line begins."""
        if not texts:
            return 0.0, []
        line, pad = 1.4 * self.font_size, self.font_size / 2
        top = self.size[0] - line * len(texts) - 2 * pad
        widest = max(text_extent(text, self.font_size)[0] for text in texts)
        width = max(indent + widest + pad, least)
        self.rectangle((0, top, width, self.size[0]), (0, 0, 0, 140))
        return width, [top + pad + row * line for row in range(len(texts))]

    def on_picture(self, picture: Image) -> Image:
        """The picture with the shapes over it, by Pillow, in RGB."""
        from PIL import Image as Pictures
        from PIL import ImageDraw

        if picture.size != self.size[::-1]:
            raise ValueError(
                f"expected a picture of {self.size[1]}x{self.size[0]}, found "
                f"{picture.width}x{picture.height}"
            )
        if not self.items:
            return picture.convert("RGB")
        # Pixels doubled are exactly themselves when they are halved again.
        doubled = (SMOOTH * picture.width, SMOOTH * picture.height)
        whole = picture.convert("RGB").resize(doubled, Pictures.Resampling.NEAREST)
        draw = ImageDraw.Draw(whole, "RGBA")
        for item in self.items:
            colour = (*item.colour, 255)[:4]
            if isinstance(item, Text):
                at = (SMOOTH * item.at[0], SMOOTH * item.at[1])
                draw.text(at, item.text, colour, load_font(SMOOTH * item.size))
            elif isinstance(item, Rectangle):
                left, top, right, bottom = (SMOOTH * x for x in item.box)
                if right > left and bottom > top:
                    draw.rectangle((left, top, right - 1, bottom - 1), colour)
            else:
                radius = SMOOTH * item.width / 2
                for x, y, to_x, to_y in (SMOOTH * item.ends).tolist():
                    if (x, y) != (to_x, to_y):
                        draw.line((x, y, to_x, to_y), colour, max(1, round(2 * radius)))
                    elif radius > 0:
                        draw.ellipse((x - radius, y - radius, x + radius, y + radius), colour)
        return whole.reduce(SMOOTH)

    def _strokes(self, ends: Array, colour: Colour, width: float) -> None:
        ends = ends[np.isfinite(ends).all(1)]
        if len(ends):
            self.items.append(Strokes(ends.astype(np.float32), float(width), colour))


@lru_cache(maxsize=8)
def load_font(size: int) -> FreeTypeFont:
    """Pillow's own font; `size` in pixels.

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
    return float(load_font(size).getlength(text)), 1.2 * size


def palette(count: int) -> list[tuple[int, int, int]]:
    """Distinct colours: hues a golden section apart."""
    hues = ((0.93 + 0.618034 * i) % 1 for i in range(count))
    colours = (hsv_to_rgb(hue, 0.85, 1.0) for hue in hues)
    return [(round(255 * r), round(255 * g), round(255 * b)) for r, g, b in colours]
