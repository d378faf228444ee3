"""Layers over a frame: masks, colored classes, pictures that networks make."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gles_apps.vision.drawing import OVERLAID
from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class Layer:
    """A picture over a frame.

    Attributes:
        picture: RGBA as `ImageOutput` makes it, first row first: a texture, or an array [height,
            width, 4], uint8 or of 0 to 1. Colors are premultiplied by alpha.
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
        return np.linalg.inv(np.vstack([self.matrix, [0, 0, 1]]))[:2]

    @classmethod
    def of_areas(cls, picture: Any, unit: float) -> Layer:
        """Colored areas over the whole frame: they shine through, and a line surrounds them.

        Args:
            picture: See the attribute.
            unit: See `Drawing.unit`.
        """
        return cls(picture, opacity=OVERLAID, edges=(0.3, 0.7), contour=max(2.0, unit))
