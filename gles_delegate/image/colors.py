"""Channels of pictures, and the colors of video's Y, U and V."""

from __future__ import annotations

import numpy as np

from gles_delegate.model.graph import Array

CHANNELS: dict[str, int] = {"rgb": 3, "bgr": 3, "gray": 1, "rgba": 4, "rgb0": 4}

LUMA: dict[str, tuple[float, float, float]] = {
    "bt601": (0.299, 0.587, 0.114),
    "bt709": (0.2126, 0.7152, 0.0722),
    "bt2020": (0.2627, 0.678, 0.0593),
}
"""Shares of red, green and blue in Y': ITU-R BT.601-7, 2.5.1, BT.709-6, 3.2, BT.2020-2, table 4."""

BYTES = {"yuyv": (0, 2, 1, 3), "uyvy": (1, 3, 0, 2)}
"""The bytes of both Y, of U and of V in a packed pair of pixels, by `ImageTransform.packed`."""

SITING = {"center": 0.0, "left": 0.25}
"""Distance of chroma samples to the left of their pixels' center, in samples, by
`ImageTransform.siting`."""

RANGES = {False: (16, 219, 224), True: (0, 255, 255)}
"""Y' of black, and the ranges of Y' and of U and V, in 8-bit steps, by `ImageTransform.full_range`:
BT.601-7, 2.5.3, and JFIF."""


def yuv_to_rgb(yuv: str, full_range: bool) -> Array:
    """The shares of Y, U, V and 1 in red, green and blue, all from 0 to 1: [3, 4].

    ITU-R BT.601-7, 2.5.1 and 2.5.3, solved for the colors.
    """
    red, green, blue = LUMA[yuv]
    black, luma, chroma = RANGES[full_range]
    of_red, of_blue = 2 * (1 - red), 2 * (1 - blue)
    colors = np.array(
        [[1, 0, of_red], [1, -blue / green * of_blue, -red / green * of_red], [1, of_blue, 0]]
    )
    colors *= np.array([255 / luma, 255 / chroma, 255 / chroma])
    return np.column_stack([colors, colors @ -np.array([black, 128, 128]) / 255])
