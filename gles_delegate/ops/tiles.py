"""How much of an output one invocation computes, by what that costs on llvmpipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from math import ceil

from gles_delegate.dispatch import Grid, Operand
from gles_delegate.limits import Limits
from gles_delegate.ops.grid import VECTOR, WORK_GROUP
from gles_delegate.ops.window import Window

MOST_PIXELS = 32
"""Pixels of one invocation: Mesa unrolls no longer loop, and slowly goes through arrays in one."""

MOST_TEXELS = 104
"""Sums of one invocation: more take long to compile, and soon do not fit the first-level cache."""

COMPILE = 550
"""Nanoseconds that a run may take longer for a product less to compile, which takes 7 ms, once."""

DISPATCH = 30000
"""Nanoseconds that a dispatch takes to wake llvmpipe's threads, by measurement."""


def time_of(groups: int, depth: int, loads: int, products: float, stores: int) -> float:
    """Nanoseconds on llvmpipe, by measurement, for work groups of one vector of invocations.

    Each takes `depth` steps of loads and of products of a matrix and a vector, then stores. The
    groups are dealt out evenly to two or more threads. The time to compile counts a little.
    """
    steps = depth * (8 * loads + 3.1 * products)
    return ceil(groups / 2) * (steps + 40 * stores) + COMPILE * products


@dataclass(frozen=True)
class Tile:
    """What one invocation of a convolution computes, and its work group."""

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False

    @classmethod
    def choose(cls, pixels: int, slices: int, depth: int, limits: Limits, choice: int = 0) -> Tile:
        """The tile for an output of that many pixels and slices, and `depth` slices of inputs.

        Args:
            choice: Which of the `CHOICES` ways to choose it; the first is the best guess.
        """
        if pixels < 8 and slices > pixels:
            return cls(max(pixels, 1), 1, 1, 64, True)
        if not limits.cpu:
            p, s = _GPU_TILES[choice]
            return cls(p, min(slices, s), VECTOR, WORK_GROUP // VECTOR)
        tiles = _CPU_TILES[choice].of(range(1, MOST_PIXELS + 1), slices)
        return min(tiles, key=lambda tile: tile.time(pixels, slices, depth))

    @classmethod
    def of_run(
        cls, window: Window, batch: int, x: Operand, slices: int, limits: Limits, choice: int = 0
    ) -> Tile:
        """The tile for an output of that many slices whose pixels are computed by runs."""
        pixels = batch * window.out_h * window.out_w
        if pixels < 8 and slices > pixels:
            return cls(run_length(window, 8), 1, 1, 64, True)
        if not limits.cpu:
            p, s = _GPU_TILES[choice]
            return cls(run_length(window, p), min(slices, s), VECTOR, WORK_GROUP // VECTOR)
        lanes, width = min(x.channels, 4), window.kernel_w

        def time(tile: Tile) -> float:
            p, s = tile.pixels, tile.slices
            runs = batch * window.out_h * runs_of(window, p)
            loads = min((p - 1) * window.stride_w + width, p * width) + width * lanes * s
            depth, products = window.kernel_h * x.slices, width * p * s * lanes / 4
            return tile._time(runs, slices, depth, loads, products)

        # What a run reads of a row it holds all at once.
        widest = max((MOST_PIXELS - width) // window.stride_w, 0) + 1
        lengths = sorted({run_length(window, most) for most in range(1, widest + 1)})
        tiles = _CPU_TILES[choice].of(lengths, slices, width)
        return min(tiles, key=time, default=cls(1, 1, VECTOR, 1))

    def time(self, pixels: int, slices: int, depth: int) -> float:
        """See `time_of`: for a product with an output of that many pixels and slices."""
        texels = self.pixels * self.slices
        return self._time(
            ceil(pixels / self.pixels), slices, depth, self.pixels + 4 * self.slices, texels
        )

    def _time(self, tiles: int, slices: int, depth: int, loads: int, products: float) -> float:
        groups = ceil(tiles / self.pixel_lanes) * ceil(slices / (self.slices * self.slice_lanes))
        time = time_of(groups, depth, loads, products, self.pixels * self.slices)
        # Weights and results of lanes that have a slice each lie far apart.
        return 1.03 * time if self.slices_in_x else time

    def grid(self, pixels: int, slices: int) -> Grid:
        """Invocations for that many tiles."""
        return Grid(pixels, slices, self.pixel_lanes, self.slice_lanes, self.slices_in_x)


@dataclass(frozen=True)
class _Tiles:
    """The tiles to choose from on llvmpipe.

    Attributes:
        lanes: Along the pixels, or along the slices, or both.
        slices, texels: The most that one invocation computes.
        products: The most that it takes where they are not in a loop.
    """

    lanes: tuple[tuple[int, int, bool], ...]
    slices: int
    texels: int
    products: int

    def of(self, lengths: Iterable[int], slices: int, width: int = 1) -> Iterator[Tile]:
        """Those with so many pixels and at most so many slices, for a window of a width."""
        for lanes, s, p in product(self.lanes, range(1, min(slices, self.slices) + 1), lengths):
            if p * s <= (self.texels if width == 1 else self.products // width):
                yield Tile(p, s, *lanes)


_ALONG_PIXELS, _ALONG_SLICES = (VECTOR, 1, False), (1, VECTOR, True)

# More products that are not in a loop than these 170 are slower on most processors.
_CPU_TILES = (
    _Tiles((_ALONG_PIXELS, _ALONG_SLICES), 4, MOST_TEXELS, 170),
    _Tiles((_ALONG_PIXELS,), 6, 156, 250),
    _Tiles((_ALONG_SLICES,), 6, 156, 250),
    _Tiles((_ALONG_PIXELS, _ALONG_SLICES), 4, 48, 80),
)
_GPU_TILES = ((4, 2), (4, 4), (8, 2), (2, 2))

CHOICES = len(_CPU_TILES)
"""Ways to choose a tile, the first of which needs no measurement."""


def run_length(window: Window, most: int) -> int:
    """How many outputs of a row one invocation computes, `most` or a little less."""
    if window.stride_w > 1 and window.dilation_w > 1:
        return 1  # neighbours share no inputs
    width = ceil(window.out_w / _step(window)) or 1
    return ceil(width / ceil(width / most))


def runs_of(window: Window, pixels: int) -> int:
    """How many runs of that many pixels there are in a row."""
    step = _step(window)
    return ceil(window.out_w / (pixels * step)) * step


def _step(window: Window) -> int:
    return window.dilation_w if window.stride_w == 1 else 1
