"""Run large pictures through a network of any input size, in tiles of one size."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import ceil

import numpy as np
from imaging import FloatArray

TILE = 512
"""Maximum side of a tile, in pixels, for super_resolution_x2.tflite. A 12-megapixel photograph in
one piece would need gigabytes of memory."""
REACH = 8
"""The network's receptive field, in pixels to each side: one 5x5 and six 3x3 convolutions."""


def doubled(run: Callable[[FloatArray], FloatArray], image: FloatArray) -> FloatArray:
    """Call `run_in_tiles` with the settings for super_resolution_x2.tflite."""
    return run_in_tiles(run, image, TILE, REACH, 2)


def run_in_tiles(
    run: Callable[[FloatArray], FloatArray], image: FloatArray, tile: int, reach: int, scale: int
) -> FloatArray:
    """Compute `run` for the whole image with less memory, and with programs for one size.

    Tiles overlap. Outer tiles end at the image's edges, where the network pads as it does for the
    whole image.

    Args:
        run: Maps [1, height, width, channels] to [1, scale * height, scale * width, channels].
        tile: The maximum height and width of a tile, more than twice `reach`.
        reach: The network's receptive field, in pixels to each side.
    """
    height, width = image.shape[1:3]
    result = np.empty((1, scale * height, scale * width, image.shape[3]), np.float32)
    (tall, tops), (wide, lefts) = (_tiles(size, tile, reach) for size in (height, width))
    for top, left in product(tops, lefts):
        enlarged = run(np.ascontiguousarray(image[:, top : top + tall, left : left + wide]))
        # The last pixels also lack context; the next tile overwrites them.
        above, before = (scale * reach * (start > 0) for start in (top, left))
        tile_result = enlarged[:, above:, before:]
        y = scale * top + above
        x = scale * left + before
        result[:, y : y + tile_result.shape[1], x : x + tile_result.shape[2]] = tile_result
    return result


def _tiles(size: int, most: int, reach: int) -> tuple[int, list[int]]:
    """The size of a tile along an axis of `size` pixels, and the offsets of all tiles."""
    count = max(ceil((size - 2 * reach) / (most - 2 * reach)), 1)
    tile = ceil((size + 2 * reach * (count - 1)) / count)
    return tile, [min(i * (tile - 2 * reach), size - tile) for i in range(count)]
