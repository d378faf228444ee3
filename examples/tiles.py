"""Large pictures through a network that takes any size, in tiles of one size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import ceil

import numpy as np
from imaging import FloatArray

TILE = 512
"""Most pixels of a tile's side for super_resolution_x2.tflite: a photograph of 12 megapixels in one
piece would take gigabytes of memory."""
REACH = 8
"""How many pixels away that network sees: a convolution of 5x5 and six of 3x3."""


def doubled(run: Callable[[FloatArray], FloatArray], image: FloatArray) -> FloatArray:
    """`run_in_tiles` with super_resolution_x2.tflite."""
    return run_in_tiles(run, image, TILE, REACH, 2)


def run_in_tiles(
    run: Callable[[FloatArray], FloatArray], image: FloatArray, tile: int, reach: int, scale: int
) -> FloatArray:
    """What `run` makes of the image in one piece, with less memory, and programs for one size.

    Tiles overlap. The outer ones end at the image's edges, where the network pads them alike.

    Args:
        run: Makes [1, scale * height, scale * width, channels] of [1, height, width, channels].
        tile: The most rows and columns of a tile, more than twice `reach`.
        reach: How many pixels away the network sees.
    """
    height, width = image.shape[1:3]
    result = np.empty((1, scale * height, scale * width, image.shape[3]), np.float32)
    (tall, tops), (wide, lefts) = (_tiles(size, tile, reach) for size in (height, width))
    for top, left in product(tops, lefts):
        made = run(np.ascontiguousarray(image[:, top : top + tall, left : left + wide]))
        # Its last pixels do not see enough either: the next tile writes them again.
        above, before = (scale * reach * (start > 0) for start in (top, left))
        part = made[:, above:, before:]
        y, x = scale * top + above, scale * left + before
        result[:, y : y + part.shape[1], x : x + part.shape[2]] = part
    return result


def _tiles(size: int, most: int, reach: int) -> tuple[int, list[int]]:
    """The pixels of a tile along an axis of `size`, and where the tiles begin."""
    count = max(ceil((size - 2 * reach) / (most - 2 * reach)), 1)
    tile = ceil((size + 2 * reach * (count - 1)) / count)
    return tile, [min(i * (tile - 2 * reach), size - tile) for i in range(count)]
