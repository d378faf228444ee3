"""Layers over a frame: masks, colored classes, pictures that networks make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from PIL import Image

from gles_delegate.image.colors import LUMA
from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class Layer:
    """A picture over a frame.

    Attributes:
        picture: RGBA as `ImageOutput` makes it, first row first: a texture, or an array [height,
            width, 4] of 0 to 1. Colors are premultiplied by alpha.
        matrix: The map from positions in the picture to positions in the frame, as
            `ImageTransform.affine`. None: the picture is stretched over the frame.
        opacity: 0 to 1.
        fill: If set, the picture's red is a mask for `fill`: a color (0 to 255), or another
            picture, uint8 [height, width, 3], stretched over the frame.
        edges: The mask or alpha is mapped to 0 up to the first number, to 1 from the second, and
            smoothly in between. None: it is not changed.
        inverse: Invert the mask.
        tint: Keep the brightness of the frame, and replace only the color.
        smooth: Enlarge by a cubic B-spline, without corners; otherwise bilinear, which is sharper.
        contour: Width, in pixels of the frame, of an opaque line where the mask or alpha is one
            half; 0: no line. With it, `smooth` first blurs the picture by a pixel, which rounds
            the stairs of a mask.

    Examples:
        >>> def make(app):
        ...     network = app.network(Path("ball_segmenter.tflite"))
        ...     network.pictures[0] = gd.ImageOutput()  # stays on the GPU, as a texture
        ...     def see(frame, canvas):
        ...         (mask,) = network(frame)
        ...         canvas.layer(live.Layer(mask, fill=(32, 64, 96), inverse=True))
        ...     return see
        >>> options = live.ShowOptions(headless=True, frames=1)
        >>> app = live.show(make, live.Picture(Path("face.jpg")), options)
    """

    picture: Any
    matrix: Array | None = None
    opacity: float = 1.0
    fill: tuple[int, int, int] | Array | None = None
    edges: tuple[float, float] | None = None
    inverse: bool = False
    tint: bool = False
    smooth: bool = True
    contour: float = 0.0

    @property
    def is_softened(self) -> bool:
        """Whether the picture is blurred first."""
        return self.smooth and self.contour > 0

    def to_layer(self, frame: tuple[int, int], layer: tuple[int, int]) -> Array:
        """The map [2, 3] from positions in the frame to those in the picture.

        Args:
            frame: Height and width.
            layer: Height and width of the picture.
        """
        if self.matrix is None:
            return np.array([[layer[1] / frame[1], 0, 0], [0, layer[0] / frame[0], 0]])
        inverse = np.linalg.inv(np.vstack([self.matrix, [0, 0, 1]]))
        mapping: Array = inverse[:2]
        return mapping

    def over(self, frame: Array) -> Array:
        """The frame, uint8 [height, width, 3], under this layer, computed on the CPU.

        ``glsl/live/layer.frag`` has the same formulas.
        """
        height, width = frame.shape[:2]
        mapping = self.to_layer((height, width), self.picture.shape[:2]).ravel().tolist()
        kind = Image.Resampling.BICUBIC if self.smooth else Image.Resampling.BILINEAR
        picture = self.picture if self.fill is None else self.picture[..., :1]
        picture = _softened(picture) if self.is_softened else picture
        picture = _spline(picture) if self.smooth else picture
        planes = [
            np.asarray(
                Image.fromarray(np.ascontiguousarray(plane, np.float32)).transform(
                    (width, height), Image.Transform.AFFINE, mapping, kind
                )
            )
            for plane in np.moveaxis(picture, 2, 0)
        ]
        above = np.stack(planes, -1).clip(0, 1)
        below = frame / np.float32(255)
        coverage = above[..., -1]  # alpha, or the mask
        share = coverage
        if self.edges is not None:
            low, high = self.edges
            step = ((coverage - low) / (high - low)).clip(0, 1)
            share = step * step * (3 - 2 * step)
        if self.fill is None:
            over = above[..., :3] / np.maximum(coverage, 1e-3)[..., None]
        elif isinstance(self.fill, tuple):
            over = np.broadcast_to(np.array(self.fill, np.float32) / 255, below.shape)
        else:
            over = np.asarray(Image.fromarray(self.fill).resize((width, height))) / np.float32(255)
        if self.tint:
            luma = LUMA["bt601"]
            ratio = below @ luma / np.maximum(over @ luma, 0.05)
            over = (over * ratio[..., None]).clip(0, 1)
        share = self.opacity * (1 - share if self.inverse else share)
        if self.contour:
            # The distance to the line, in pixels, by the slope.
            away = np.abs(coverage - 0.5) / np.maximum(_slope(coverage), 1e-4)
            share = np.maximum(share, (self.contour / 2 + 0.5 - away).clip(0, 1))
        mixed: Array = below + (over - below) * share[..., None]
        return (mixed.clip(0, 1) * 255 + 0.5).astype(np.uint8)


def _softened(picture: Array) -> Array:
    """The picture filtered by the weights 1, 4, 6, 4, 1 along both axes."""
    for axis in (0, 1):
        ends = [(2, 2) if i == axis else (0, 0) for i in range(3)]
        padded, size = np.pad(picture, ends, "edge"), picture.shape[axis]
        parts = (np.take(padded, range(i, i + size), axis) for i in range(5))
        picture = sum(
            weight / np.float32(16) * part
            for weight, part in zip((1, 4, 6, 4, 1), parts, strict=True)
        )
    return picture


def _slope(plane: Array) -> Array:
    """The length of the gradient, for blocks of 2 x 2 pixels as GLSL's dFdx and dFdy."""
    height, width = plane.shape
    even = np.pad(plane, ((0, height % 2), (0, width % 2)), "edge")
    down = np.repeat(even[1::2] - even[::2], 2, 0)
    across = np.repeat(even[:, 1::2] - even[:, ::2], 2, 1)
    slope: Array = np.hypot(down, across)[:height, :width]
    return slope


def _spline(picture: Array) -> Array:
    """The uniform cubic B-spline with these control points, at the pixels' centers."""
    padded = np.pad(picture, ((1, 1), (1, 1), (0, 0)), "edge")
    rows = (padded[:-2] + 4 * padded[1:-1] + padded[2:]) / 6
    spline: Array = (rows[:, :-2] + 4 * rows[:, 1:-1] + rows[:, 2:]) / 6
    return spline
