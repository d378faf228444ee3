"""Register tiles: how much of an output one invocation computes, by a cost model of llvmpipe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from math import ceil, prod

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LARGE, Profile, Tiles, TileSearch
from gles_delegate.kernels.setting import option_of
from gles_delegate.ops.lib.grid import WORK_GROUP
from gles_delegate.ops.lib.window import Window, even_part
from gles_delegate.shaders.dispatch import Define, Grid, Operand

DISPATCH = 30000
"""Nanoseconds that llvmpipe's threads take to wake up for a dispatch, measured."""
FEW_PIXELS = 8
"""With fewer pixels, lanes may lie along the slices or along the sum."""
MAX_COLUMNS = 32
"""Pixels of an input row that an invocation on llvmpipe reads."""
DEPTHS = (4, 2, 1)
"""Input slices that a work group may load at once, the best first."""
PADDING = 2
"""Texels behind each row of weights in shared memory, as in glsl/lib/blocks.glsl."""
MAX_COMPUTED, FEW_IN_VAIN = 1.75, 1.3
"""Blocks are taken if they compute at most the first times the output's texels, best the second."""
SHORT_SUM = 64
"""Slices that a block sums up in the time that other kernels need to join their sums."""
_KEPT = 1 << 12
"""Searches whose results are kept: layers of a network are alike, and are planned several times."""
FEW_SIZES = (1, 2, 4, 8)
"""Pixels per invocation if `TileSearch.few`."""


def time_of(groups: int, depth: int, loads: int, products: float, stores: int) -> float:
    """Cost model of llvmpipe, in nanoseconds, for work groups of one SIMD vector of invocations.

    Each invocation takes `depth` steps of texel loads and matrix-vector products, then stores. At
    least two threads share the groups evenly. The constants are measured.
    """
    steps = depth * (8 * loads + 3.1 * products)
    return ceil(groups / 2) * (steps + 40 * stores)


@dataclass(frozen=True)
class Tile:
    """A register tile: the texels that an invocation of a convolution computes; its work group.

    Attributes:
        depth: Input slices that the work group loads at once, for all of its invocations; 0: each
            invocation loads what it needs.
        parts: 2: there is shared memory for the next ones, too.
    """

    pixels: int
    slices: int
    pixel_lanes: int
    slice_lanes: int
    slices_in_x: bool = False
    depth: int = 0
    parts: int = 2

    @classmethod
    def of_block(
        cls, pixels: int, slices: int, depth: int, limits: Limits, choice: int, taps: int = 0
    ) -> Tile | None:
        """The tile of a product whose work groups share what they load, if one suits it.

        Of several, one that computes few texels in vain; in choice 0, that which keeps the most
        cores busy; then the first of those. Choice 0 takes none for long sums of small images.

        Args:
            depth: Input slices.
            taps: Taps of the convolution's window; 0: it has none.
        """
        profile = limits.profile
        blocks = option_of(profile.window_blocks if taps else profile.blocks, choice)

        busy = profile.occupancy // 2

        def invocations(tile: Tile) -> int:
            return min(tile.block_grid(pixels, slices).invocations, busy)

        def cost(tile: Tile) -> tuple[bool, int]:
            wastes = tile._computed(pixels, slices) > FEW_IN_VAIN * pixels * slices
            return wastes, 0 if choice else -invocations(tile).bit_length()

        tiles = [cls._fitted(block, pixels, slices, depth, limits) for block in blocks]
        tile = min(filter(None, tiles), key=cost, default=None)
        if tile is None or choice or invocations(tile) == busy:
            return tile
        groups = prod(tile.block_grid(pixels, slices).groups)
        return tile if depth * max(taps, 1) <= SHORT_SUM + 2 * groups else None

    @classmethod
    def _fitted(
        cls, block: tuple[int, ...], pixels: int, slices: int, depth: int, limits: Limits
    ) -> Tile | None:
        """The tile with the input slices that are loaded at once, if it fits and pays."""
        pixels_each, slices_each, pixel_lanes, slice_lanes = block
        tile, texels = cls(pixels_each, slices_each, pixel_lanes, slice_lanes), pixels * slices
        if not texels or tile._computed(pixels, slices) > MAX_COMPUTED * texels:
            return None
        if pixel_lanes * slice_lanes > limits.invocations:
            return None
        along, across = tile.block
        fitting = limits.shared_bytes // (16 * (along + 4 * (across + PADDING)))
        at_once = next((d for d in DEPTHS if d <= fitting and depth % d == 0), 0)
        parts = 2 if 2 * at_once <= fitting else 1
        return replace(tile, depth=at_once, parts=parts) if depth and at_once else None

    def _computed(self, pixels: int, slices: int) -> int:
        """Texels that whole work groups compute."""
        along, across = self.block
        return ceil(pixels / along) * along * ceil(slices / across) * across

    @classmethod
    def choose(
        cls,
        pixels: int,
        slices: int,
        depth: int,
        limits: Limits,
        choice: int = 0,
        on_gpu: Tiles | None = None,
        count: int = 1,
    ) -> Tile:
        """Choose the tile for outputs of that many pixels and slices, and `depth` input slices.

        Args:
            choice: Index among the profile's choices; see `Profile.choices`.
            on_gpu: The profile's tiles; None: its tiles for pointwise convolutions.
            count: Number of outputs.
        """
        slices, profile = max(slices, 1), limits.profile
        p, s = option_of(on_gpu or profile.pointwise, choice)
        if pixels < FEW_PIXELS and slices > pixels:
            return cls(max(min(pixels, p), 1), 1, 1, 64, True)
        if not profile.searches:
            s = even_part(slices, s)
            return cls(p, s, *gpu_lanes(ceil(pixels / p), ceil(slices / s), profile))
        size = pixels, slices, depth
        return _fastest_tile(profile.searches[choice], limits.simd_lanes, size, count)

    @classmethod
    def of_run(
        cls, window: Window, batch: int, x: Operand, slices: int, limits: Limits, choice: int = 0
    ) -> Tile:
        """Choose the tile for an output of `slices` slices, computed in runs."""
        pixels, slices = batch * window.out_h * window.out_w, max(slices, 1)
        profile = limits.profile
        p, s = option_of(profile.windows, choice)
        if profile.large_windows and choice == 0 and pixels >= LARGE:
            p, s = profile.large_windows[0]
        length = window.run_length(p)
        if pixels < FEW_PIXELS and slices > pixels:
            return cls(length, 1, 1, 64, True)
        if not profile.searches:
            runs = batch * window.out_h * window.runs(length)
            s = even_part(slices, s)
            return cls(length, s, *gpu_lanes(runs, ceil(slices / s), profile))
        size = batch, slices, x.slices
        lanes = limits.simd_lanes, min(x.channels, 4)
        return _fastest_run(profile.searches[choice], window, size, lanes)

    @property
    def texels(self) -> int:
        """Texels that an invocation computes."""
        return self.pixels * self.slices

    @property
    def block(self) -> tuple[int, int]:
        """Pixels and slices of a work group."""
        return self.pixels * self.pixel_lanes, self.slices * self.slice_lanes

    def block_grid(self, pixels: int, slices: int) -> Grid:
        """Whole work groups for that many pixels and slices."""
        along, across = self.block
        lanes = self.pixel_lanes, self.slice_lanes
        return Grid(ceil(pixels / along) * lanes[0], ceil(slices / across) * lanes[1], *lanes)

    @property
    def loads(self) -> int:
        """Input texels that an invocation of a block loads at once."""
        return ceil(self.block[0] * self.depth / (self.pixel_lanes * self.slice_lanes))

    def block_defines(self, depth: int) -> dict[str, Define]:
        """Defines of glsl/lib/blocks.glsl for `depth` input slices."""
        return {
            "BLOCK_DEPTH": self.depth,
            "STEPS": depth // self.depth,
            "PARTS": self.parts,
            "X_LOADS": self.loads,
        }

    def block_passes(self, depth: int) -> int:
        """Passes through the loops of glsl/lib/blocks.glsl for `depth` input slices."""
        lanes = self.pixel_lanes * self.slice_lanes
        weights = ceil(4 * self.block[1] * self.depth / lanes)
        places = ceil(self.block[0] * self.depth / lanes) + 1
        step = 3 * (weights + 1) + self.depth * (1 + 5 * self.slices) + 1
        return depth // self.depth * step + places + self.pixels * self.slices + 2

    def time(self, pixels: int, slices: int, depth: int) -> float:
        """`time_of` for an output of that many pixels and slices."""
        loads, texels = self.pixels + 4 * self.slices, self.pixels * self.slices
        return self.time_of_tiles(ceil(pixels / self.pixels), slices, depth, loads, texels)

    def time_of_tiles(
        self, tiles: int, slices: int, depth: int, loads: int, products: float
    ) -> float:
        """`time_of` for that many tiles along the pixels."""
        groups = ceil(tiles / self.pixel_lanes) * ceil(slices / (self.slices * self.slice_lanes))
        time = time_of(groups, depth, loads, products, self.pixels * self.slices)
        # Lanes along the slices read and write far apart.
        return 1.03 * time if self.slices_in_x else time

    def grid(self, pixels: int, slices: int) -> Grid:
        """The grid for that many tiles."""
        return Grid(pixels, slices, self.pixel_lanes, self.slice_lanes, self.slices_in_x)


@lru_cache(_KEPT)
def _fastest_tile(search: TileSearch, lanes: int, size: tuple[int, int, int], count: int) -> Tile:
    """The tile for `count` outputs, whose pixels, slices and input slices are `size`."""
    pixels, slices, depth = size

    def cost(tile: Tile) -> float:
        return count * tile.time(pixels, slices, depth) + search.compile_cost * tile.texels

    return min(_searched(search, lanes, slices, _sizes(search, search.pixels)), key=cost)


@lru_cache(_KEPT)
def _fastest_run(
    search: TileSearch, window: Window, size: tuple[int, int, int], lanes: tuple[int, int]
) -> Tile:
    """The tile for images and their window.

    Args:
        size: Images, slices of the output, and of the input.
        lanes: Those of a SIMD vector, and the channels in a texel of the input.
    """
    batch, slices, in_slices = size
    vector, channels = lanes
    width = window.kernel_w

    def cost(tile: Tile) -> float:
        p, s = tile.pixels, tile.slices
        runs = batch * window.out_h * window.runs(p)
        loads = min(window.columns(p), p * width) + width * channels * s
        depth = window.kernel_h * in_slices
        products = width * p * s * channels / 4
        time = tile.time_of_tiles(runs, slices, depth, loads, products)
        return time + search.compile_cost * products

    # A run holds everything that it reads from a row at once.
    widest = max(window.pixels_within(MAX_COLUMNS), 1)
    sizes = _sizes(search, min(widest, search.pixels))
    lengths = sorted({searched_length(search, window, size) for size in sizes})
    tiles = _searched(search, vector, slices, lengths, width)
    return min(tiles, key=cost, default=Tile(1, 1, vector, 1))


def _searched(
    search: TileSearch, lanes: int, slices: int, lengths: Iterable[int], width: int = 1
) -> Iterator[Tile]:
    """The tiles of `lengths` pixels, for `slices` slices, a vector's lanes and a window's width."""
    along_pixels, along_slices = search.along
    groups = [(lanes, 1, False)] if along_pixels else []
    if along_slices:
        groups.append((1, lanes, True))
    most = min(search.texels, search.products // width)
    for group, s, p in product(groups, _sizes(search, min(slices, search.slices)), lengths):
        if p * s <= most:
            yield Tile(p, s, *group)


def fused_slices(search: TileSearch, pixels: int, slices: int) -> list[int]:
    """Allowed numbers of slices of a tile that computes `pixels` of a depthwise convolution too."""
    return _sizes(search, max(min(slices, search.fused // pixels), 1), (1, 2, 4, 6, 8, 12))


def searched_length(search: TileSearch, window: Window, most: int) -> int:
    """Pixels per run: `most` or a little less."""
    fitting = window.run_length(most)
    return min(size for size in FEW_SIZES if size >= fitting) if search.few else fitting


def _sizes(search: TileSearch, most: int, few: tuple[int, ...] = FEW_SIZES) -> list[int]:
    if not search.few:
        return [*range(1, most + 1)]
    sizes = [size for size in few if size <= most]
    return sizes[-1:] if search.one else sizes


def gpu_lanes(pixels: int, slices: int, profile: Profile) -> tuple[int, int]:
    """Lanes of a work group along `pixels` and `slices` tiles, with the fewest idle ones."""
    along, across = profile.lanes
    shapes = [(along * across // lanes, lanes) for lanes in (8, 4, 2, 1) if lanes <= across]
    if profile.wave < WORK_GROUP:
        shapes += [(lanes, profile.wave) for lanes in range(8, 2, -1)]
    return min(shapes, key=lambda s: ceil(pixels / s[0]) * ceil(slices / s[1]) * s[0] * s[1])
