"""Register tiles: how much of an output one invocation computes, by a cost model of llvmpipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, prod
from typing import TypeVar

from gles_delegate.dispatch import Grid, Operand
from gles_delegate.limits import Limits
from gles_delegate.ops.lib.window import Window
from gles_delegate.profiles import Profile, Tiles

DISPATCH = 30000
"""Nanoseconds that llvmpipe's threads take to wake up for a dispatch, by measurement."""


def time_of(groups: int, depth: int, loads: int, products: float, stores: int) -> float:
    """Cost model of llvmpipe, in nanoseconds, for work groups of one SIMD vector of invocations.

    Each invocation takes `depth` steps of texel loads and matrix-vector products, then stores. Two
    or more threads share the groups evenly. The constants are measured.
    """
    steps = depth * (8 * loads + 3.1 * products)
    return ceil(groups / 2) * (steps + 40 * stores)


@dataclass(frozen=True)
class Tile:
    """A register tile: what one invocation of a convolution computes, and its work group."""

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False

    @classmethod
    def choose(
        cls,
        pixels: int,
        slices: int,
        depth: int,
        limits: Limits,
        choice: int = 0,
        on_gpu: Tiles | None = None,
    ) -> Tile:
        """Choose the tile for an output of that many pixels and slices, and `depth` input slices.

        Args:
            on_gpu: The profile's tiles; None: those of pointwise convolutions.
            choice: Which way to choose, of `count_choices`.
        """
        slices = max(slices, 1)
        p, s = option_of(on_gpu or limits.profile.pointwise, choice)
        if pixels < 8 and slices > pixels:
            return cls(max(pixels if limits.llvmpipe else min(pixels, p), 1), 1, 1, 64, True)
        if not limits.llvmpipe:
            return cls(
                p, min(slices, s), *_lanes(ceil(pixels / p), ceil(slices / s), limits.profile)
            )
        tiles = CPU_TILES[choice]

        def cost(tile: Tile) -> float:
            products = tile.pixels * tile.slices
            return tile.time(pixels, slices, depth) + tiles.compile_cost * products

        return min(tiles.of(limits.simd_lanes, slices), key=cost)

    @classmethod
    def of_run(
        cls, window: Window, batch: int, x: Operand, slices: int, limits: Limits, choice: int = 0
    ) -> Tile:
        """Choose the tile for an output of that many slices that is computed in runs."""
        pixels = batch * window.out_h * window.out_w
        p, s = option_of(limits.profile.windows, choice)
        length = run_length(window, 8 if limits.llvmpipe else p)
        if pixels < 8 and slices > pixels:
            return cls(length, 1, 1, 64, True)
        if not limits.llvmpipe:
            runs = batch * window.out_h * runs_of(window, length)
            return cls(length, min(slices, s), *_lanes(runs, ceil(slices / s), limits.profile))
        tiles, lanes, width = CPU_TILES[choice], min(x.channels, 4), window.kernel_w

        def cost(tile: Tile) -> float:
            p, s = tile.pixels, tile.slices
            runs = batch * window.out_h * runs_of(window, p)
            loads = min((p - 1) * window.stride_w + width, p * width) + width * lanes * s
            depth, products = window.kernel_h * x.slices, width * p * s * lanes / 4
            return tile._time(runs, slices, depth, loads, products) + tiles.compile_cost * products

        # A run holds all that it reads of a row at once.
        widest = max(_pixels_of(window, MOST_PIXELS), 1)
        lengths = tiles.lengths(window, widest)
        single = Tile(1, 1, limits.simd_lanes, 1)
        return min(tiles.of(limits.simd_lanes, slices, lengths, width), key=cost, default=single)

    def time(self, pixels: int, slices: int, depth: int) -> float:
        """`time_of` for an output of that many pixels and slices."""
        loads, texels = self.pixels + 4 * self.slices, self.pixels * self.slices
        return self._time(ceil(pixels / self.pixels), slices, depth, loads, texels)

    def _time(self, tiles: int, slices: int, depth: int, loads: int, products: float) -> float:
        groups = ceil(tiles / self.pixel_lanes) * ceil(slices / (self.slices * self.slice_lanes))
        time = time_of(groups, depth, loads, products, self.pixels * self.slices)
        # Lanes along the slices read and write far apart.
        return 1.03 * time if self.slices_in_x else time

    def grid(self, pixels: int, slices: int) -> Grid:
        """The grid for that many tiles."""
        return Grid(pixels, slices, self.pixel_lanes, self.slice_lanes, self.slices_in_x)


MOST_PIXELS = 32
"""Pixels of one invocation."""

_FEW = (1, 2, 4, 8)


@dataclass(frozen=True)
class CpuTiles:
    """The tiles to choose from on llvmpipe.

    Attributes:
        texels: Most output texels per invocation. More overflow the caches, as code or as data.
        fused: Most output texels beside a fused depthwise convolution.
        products: Most unrolled matrix-vector products.
        pixels: Most pixels per invocation.
        slices: Most slices per invocation.
        compile_cost: Run-time cost (ns) charged per unrolled product, to trade against its compile
            time of about 5 ms.
        along: Whether lanes of a vector may lie along the pixels, and along the slices.
        few: Allow only a few sizes, which more layers share.
    """

    texels: int
    fused: int
    products: int
    pixels: int = MOST_PIXELS
    slices: int = 4
    compile_cost: int = 550
    along: tuple[bool, bool] = (True, True)
    few: bool = False

    def of(
        self, lanes: int, slices: int, lengths: Iterable[int] | None = None, width: int = 1
    ) -> Iterator[Tile]:
        """The tiles for an output of `slices` slices.

        Args:
            lanes: Lanes of a vector.
            lengths: Allowed numbers of pixels; None: any.
            width: Width of the window.
        """
        along_pixels, along_slices = self.along
        groups = [(lanes, 1, False)] * along_pixels + [(1, lanes, True)] * along_slices
        most = self.texels if width == 1 else min(self.texels, self.products // width)
        pixels = self._sizes(self.pixels) if lengths is None else lengths
        for group, s, p in product(groups, self._sizes(min(slices, self.slices)), pixels):
            if p * s <= most:
                yield Tile(p, s, *group)

    def slices_of(self, pixels: int, slices: int) -> list[int]:
        """Allowed numbers of slices beside a fused depthwise convolution of `pixels`."""
        return self._sizes(max(min(slices, self.fused // pixels), 1), (1, 2, 4, 6, 8, 12))

    def lengths(self, window: Window, most: int) -> list[int]:
        """Allowed numbers of pixels per run, at most `most`."""
        return sorted({self.length(window, size) for size in self._sizes(min(most, self.pixels))})

    def length(self, window: Window, most: int) -> int:
        """Pixels per run: `most` or a little less."""
        fitting = run_length(window, most)
        return min(size for size in _FEW if size >= fitting) if self.few else fitting

    def _sizes(self, most: int, few: tuple[int, ...] = _FEW) -> list[int]:
        return [size for size in few if size <= most] if self.few else [*range(1, most + 1)]


CPU_TILES = (
    CpuTiles(32, 48, 100, 8, compile_cost=1000, few=True),
    # More than 170 unrolled products are slower on most processors.
    CpuTiles(52, 52, 170),
    CpuTiles(104, 104, 250, slices=6, along=(True, False)),
    CpuTiles(104, 104, 250, slices=6, along=(False, True)),
)
"""For each choice: the first starts soonest, the others may run faster."""

Option = TypeVar("Option")


def count_choices(limits: Limits) -> int:
    """Ways to choose tiles; the first needs no measurement."""
    return len(CPU_TILES) if limits.llvmpipe else limits.profile.choices


def option_of(options: Sequence[Option], choice: int) -> Option:
    """The option with that number, or the last one."""
    return options[min(choice, len(options) - 1)]


def _lanes(pixels: int, slices: int, profile: Profile) -> tuple[int, int]:
    """Lanes of a work group along the pixels and along the slices, of which the fewest are idle.

    Args:
        pixels: Tiles along the pixels. Few take fewer lanes.
        slices: Tiles along the slices.
    """
    along, across = profile.lanes
    shapes = [(along * across // lanes, lanes) for lanes in (8, 4, 2, 1) if lanes <= across]
    along, across = min(shapes, key=lambda shape: prod(map(_padded, (pixels, slices), shape)))
    while along > 16 and along >= 2 * pixels:
        along //= 2
    return along, across


def _padded(size: int, multiple: int) -> int:
    return ceil(size / multiple) * multiple


def run_length(window: Window, most: int) -> int:
    """Pixels of a row that one invocation computes: `most` or a little less."""
    if window.stride_w > 1 and window.dilation_w > 1:
        return 1  # neighbours share no inputs
    width = ceil(window.out_w / _step(window)) or 1
    return ceil(width / ceil(width / most))


def gpu_run(window: Window, most: int, profile: Profile) -> int:
    """Pixels per run on a GPU: as many as `profile.columns` lets it compute."""
    return run_length(window, max(min(most, _pixels_of(window, profile.columns)), 1))


def columns_of(window: Window, pixels: int) -> int:
    """Pixels of an input row that a run of so many outputs sees."""
    return (pixels - 1) * window.stride_w + window.kernel_w


def _pixels_of(window: Window, columns: int) -> int:
    """Pixels of a run that reads that many of an input row; none if the window is wider."""
    return max((columns - window.kernel_w) // window.stride_w, -1) + 1


def runs_of(window: Window, pixels: int) -> int:
    """Runs of that many pixels in a row."""
    step = _step(window)
    return ceil(window.out_w / (pixels * step)) * step


def _step(window: Window) -> int:
    return window.dilation_w if window.stride_w == 1 else 1
