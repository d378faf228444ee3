"""Tensors to pictures: how a result becomes a texture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gles_delegate.model.graph import Array


@dataclass(frozen=True)
class ImageOutput:
    """How a tensor [1, height, width, channels] becomes a texture of that width and height.

    A texture's value is ``scale * x + offset``, in RGBA8 with 0 for black and 1 for full color.
    One channel is gray; missing green and blue are 0, missing alpha is 1.

    Attributes:
        scale: See above.
        offset: See above.
        palette: Instead of scale and offset: the color (red, green, blue, alpha; 0 to 255) of
            each class. Each channel is the score of a class, and a pixel gets the color of its
            highest score. With one float channel: two colors, for scores below and above
            `threshold`. With one integer channel: the colors of its values.
        threshold: The threshold of a single score.
        flip_y: Write the lowest row first, as OpenGL draws textures.

    Raises:
        ValueError: The palette has fewer than two colors, or is not a list of colors.

    Examples:
        >>> green = gd.ImageOutput(palette=[(0, 0, 0, 0), (0, 200, 80, 160)], threshold=0.5)
        >>> green.apply(np.array([[[[0.2], [0.7]]]], np.float32)).tolist()
        [[[0.0, 0.0, 0.0, 0.0], [0.0, 0.78..., 0.31..., 0.62...]]]
    """

    scale: float = 1.0
    offset: float = 0.0
    palette: Sequence[tuple[int, int, int, int]] | None = None
    threshold: float = 0.5
    flip_y: bool = False

    def __post_init__(self) -> None:
        if not np.all(np.isfinite((self.scale, self.offset, self.threshold))):
            raise ValueError("scale, offset and threshold must be finite")
        if self.palette is None:
            return
        colors = np.asarray(self.palette)
        if colors.ndim != 2 or colors.shape[1] != 4 or len(colors) < 2:
            raise ValueError("palette must be two or more colors (red, green, blue, alpha)")
        if colors.dtype.kind not in "iu" or colors.min() < 0 or colors.max() > 255:
            raise ValueError("the colors of palette must be integers from 0 to 255")
        object.__setattr__(self, "palette", tuple(map(tuple, colors.tolist())))

    def apply(self, tensor: Array) -> Array:
        """Apply it on the CPU: [1, height, width, channels] -> RGBA [height, width, 4], float32.

        Raises ValueError for other shapes, and for more than 4 channels without a palette.
        """
        most = 4 if self.palette is None else np.inf
        if tensor.ndim != 4 or tensor.shape[0] != 1 or not 0 < tensor.shape[3] <= most:
            channels = "up to 4 channels" if self.palette is None else "channels"
            raise ValueError(
                f"expected a tensor [1, height, width, {channels}], found {list(tensor.shape)}"
            )
        pixels = tensor[0]
        if self.palette is not None:
            colors = np.asarray(self.palette, np.float32) / np.float32(255)
            single = pixels.shape[2] == 1
            classes = pixels.argmax(2) if not single else pixels[..., 0]
            if single and pixels.dtype.kind == "f":
                classes = (classes > self.threshold).astype(int)
            rgba = colors[classes.clip(0, len(colors) - 1)]
        else:
            values = pixels * np.float32(self.scale) + np.float32(self.offset)
            values = values.repeat(3, 2) if values.shape[2] == 1 else values
            rgba = np.zeros((*values.shape[:2], 4), np.float32)
            rgba[..., 3] = 1
            rgba[..., : values.shape[2]] = values
        result: Array = rgba[::-1] if self.flip_y else rgba
        return result
