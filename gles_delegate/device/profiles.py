"""Profiles of device families: the kernels that suit their compilers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

Tiles: TypeAlias = tuple[tuple[int, int], ...]
"""Register tiles: pixels and slices that one invocation computes."""
Blocks: TypeAlias = tuple[tuple[int, int, int, int], ...]
"""Pixels and slices of an invocation, and invocations of the work group along both."""
LARGE = 96 * 96
"""Pixels of the smallest large image."""


@dataclass(frozen=True)
class TileSearch:
    """The tiles from which a cost model of llvmpipe chooses one for each convolution.

    Attributes:
        texels: Maximum output texels per invocation. More overflow the caches, as code or as data.
        fused: Maximum output texels of a convolution fused with a depthwise one.
        products: Maximum unrolled matrix-vector products.
        pixels: Maximum pixels per invocation.
        slices: Maximum slices per invocation.
        compile_cost: Run-time cost (ns) charged per unrolled product, to trade against its compile
            time of about 5 ms.
        along: Whether lanes of a vector may lie along the pixels, and along the slices.
        few: Allow only a few sizes, so that more layers share programs.
        one: With `few`, allow only the largest that fits.
    """

    texels: int
    fused: int
    products: int
    pixels: int = 32
    slices: int = 4
    compile_cost: int = 550
    along: tuple[bool, bool] = (True, True)
    few: bool = False
    one: bool = False


@dataclass(frozen=True)
class Profile:
    """The kernels that suit a family of devices; the defaults are safe on an unknown GPU.

    The first entry of each list is the default. SUSTAINED_SPEED tries the second entries of all
    lists together, then the third; a shorter list repeats its last entry.

    Attributes:
        pointwise: Tiles of convolutions whose output pixels read one input pixel each.
        half_pointwise: The defaults of `pointwise` for tensors stored as float16, if others: for
            images with an even number of pixels, whose tiles are neighbors of which two are one
            load, and for other images.
        half_windows: The default of `windows` for tensors stored as float16, if another.
        windows: Tiles of all other convolutions, which go through the window tap by tap.
        large_windows: The default of `windows` for outputs of `LARGE` pixels and more, if another.
        others: Tiles of transposed convolutions and products of two tensors.
        blocks: Tiles of products of single pixels, and of two tensors, whose work groups load what
            they multiply into shared memory: pixels and slices of an invocation, and invocations
            along both. Each entry is several, of which `Tile.of_block` takes one; (): none, the
            lists above apply.
        window_blocks: The same of convolutions with a window.
        depthwise: Pixels of a depthwise convolution; half the number if it has a stride.
        columns: Maximum pixels of an input row that a depthwise convolution reads; a wide window
            takes shorter runs, and a wider one goes tap by tap.
        row_loops: Rows of depthwise windows and lengths of reductions are uniforms: an unrolled
            loop takes registers.
        short_loops: Windows of pools, depths of products and lengths of reductions are constants,
            so that the compiler unrolls short loops over them.
        by_taps: Convolutions go through a window tap by tap, not row by row.
        constant_sizes: The sizes of convolutions with a window are constants, not uniforms.
        searches: If any, tiles are chosen from these, depthwise convolutions are fused with
            pointwise ones if the cost model favors it, and the lists above only apply to images of
            less than 8 pixels.
        first_search: Tiles that compile soon, for the runs until a thread has compiled the better
            ones in the background; None: all runs wait for these.
        tiles_unrolled: The assembler unrolls loops over register tiles, however long; if not,
            every marked loop that stays short.
        shared_pixels: Minimum slices for which a work group shares the channels of a pixel, and the
            slices that each pixel adds to this number.
        lanes: Maximum invocations of a convolution's work group, along the pixels and the slices.
        wave: Invocations that a core computes together: a work group has a multiple of it.
        image_reads: Tensors are read through buffer textures, not storage blocks.
        weight_textures: Weights are read through textures, not storage blocks.
        weight_pairs: Weights that may be float16 are read as such from storage blocks, two columns
            of a matrix at once.
        weight_bytes: Maximum output pixels for which weights of 8 bits or less are read as int8
            from storage blocks or buffer textures, four columns at once. With more pixels, they are
            read often, and unpacking takes longer than loading.
        winograd: Minimum channels of input and output for which convolutions with windows of 3 x 3
            and float32 storage are computed by `kernels.winograd`; 0: never.
        winograd_columns: Columns of a tile that its transforms hold in registers: 6 or 3.
        winograd_pixels: Minimum pixels of the output for it.
        winograd_bytes: Limit for its numbers and sums in memory between the dispatches, which a
            cache should hold. Larger images are computed in bands, some rows of tiles at a time.
        weight_nibbles: Weights of 4 bits or less are read as int4, eight columns at once: half
            the memory and up to twice the instructions, for devices bound by memory.
        per_lane: Pixels of an invocation of an element-wise dispatch.
        general: Shaders and work groups have the most general form, so that more dispatches share
            programs, even if they then do more than they need to.
        stepped: Convolutions keep addresses and add to them for each input slice, instead of
            computing them from its number.
        occupancy: Invocations that keep all cores busy. If there are fewer results, several
            invocations share each; 0: never.
        shared_sums: Whether this also holds for convolutions of 8 pixels and more.
        shared_texels: Maximum texels of the tensors of dispatches that share a program by uniforms
            for the numbers in which they differ. It saves compiling 10 to 50 ms on llvmpipe, and
            makes a dispatch up to a tenth slower.
        chained: Maximum passes of SIMD vectors through the loops of a dispatch that one work group
            computes together with its neighbors (`planning/chains.py`), unless it has only one
            work group; 0: no chains.
        half_storage: Storing tensors as float16 gains enough speed for its loss of precision.
        half_weights: With half storage, constants are float16 as well; if not, because a core takes
            longer to unpack them than to load twice as much.
        slice_sums: Convolutions add up the products of a slice before they add them, as a processor
            that does not multiply and add in one does as fast; always with `half_products`.
        half_products: With half storage, 1 x 1 convolutions multiply and add the products of a
            slice in float16, and add slices in float32.
    """

    pointwise: Tiles = ((2, 2),)
    half_pointwise: Tiles = ()
    half_windows: Tiles = ()
    windows: Tiles = ((2, 2),)
    large_windows: Tiles = ()
    others: Tiles = ((2, 2),)
    blocks: tuple[Blocks, ...] = ((),)
    window_blocks: tuple[Blocks, ...] = ((),)
    depthwise: tuple[int, ...] = (3,)
    columns: int = 6
    row_loops: bool = False
    short_loops: bool = False
    by_taps: bool = True
    constant_sizes: tuple[bool, ...] = (False,)
    searches: tuple[TileSearch, ...] = ()
    first_search: TileSearch | None = None
    tiles_unrolled: bool = False
    shared_pixels: tuple[int, int] = (16, 0)
    lanes: tuple[int, int] = (8, 8)
    wave: int = 64
    image_reads: bool = False
    weight_textures: tuple[bool, ...] = (False,)
    weight_pairs: tuple[bool, ...] = (False,)
    weight_bytes: tuple[int, ...] = (8,)
    winograd: tuple[int, ...] = (0,)
    winograd_columns: int = 6
    winograd_pixels: int = 64
    winograd_bytes: int = 16 << 20
    weight_nibbles: bool = False
    per_lane: int = 4
    general: bool = False
    stepped: bool = False
    occupancy: int = 4096
    shared_sums: tuple[bool, ...] = (False,)
    shared_texels: int = 1 << 13
    chained: int = 0
    half_storage: bool = True
    half_weights: bool = True
    slice_sums: bool = False
    half_products: bool = False

    @property
    def first(self) -> Profile | None:
        """The profile for the first runs, if it is another: programs that compile sooner."""
        if self.first_search is None:
            return None
        return replace(
            self,
            searches=(self.first_search,),
            depthwise=(self.first_search.pixels,),
            short_loops=False,
            general=True,
            shared_texels=1 << 30,
            chained=0,
        )

    @property
    def with_small_weights(self) -> Profile:
        """The profile that reads weights as small as the model has them."""
        return replace(
            self,
            weight_pairs=(True,),
            weight_bytes=(1 << 30,),
            weight_nibbles=True,
            half_weights=True,
        )

    @property
    def tiles(self) -> tuple[Tiles | tuple[int, ...], ...]:
        """Every list of tiles."""
        return self.pointwise, self.windows, self.others, self.depthwise

    @property
    def large_tiles(self) -> bool:
        """Whether registers suffice for more than 4 texels of results."""
        return prod(self.others[0]) > 4

    @property
    def choices(self) -> int:
        """Length of the longest list; a choice of kernels is an index below it."""
        weights = self.weight_textures, self.weight_pairs, self.weight_bytes
        others = self.constant_sizes, self.shared_sums, self.winograd, self.searches
        blocks = self.blocks, self.window_blocks
        return max(map(len, (*self.tiles, *weights, *blocks, *others)))


UNKNOWN = Profile()
# A GPU is bound by memory; on a processor unpacking float16 costs more than it saves.
SOFTWARE = Profile(occupancy=0, weight_bytes=(0,), half_storage=False, slice_sums=True)
LLVMPIPE = Profile(
    pointwise=((7, 1),),
    windows=((8, 1),),
    others=((7, 1),),
    depthwise=(8,),
    columns=1 << 16,
    per_lane=1,
    row_loops=True,
    short_loops=True,
    by_taps=False,
    constant_sizes=(False, True),
    # The first compiles fastest, the others may run faster.
    searches=(
        TileSearch(32, 48, 100, 8, compile_cost=1000, few=True),
        # More than 170 unrolled products are slower on most processors.
        TileSearch(52, 52, 170),
        TileSearch(104, 104, 250, slices=6, along=(True, False)),
        TileSearch(104, 104, 250, slices=6, along=(False, True)),
    ),
    first_search=TileSearch(4, 4, 100, 4, 1, along=(True, False), few=True, one=True),
    tiles_unrolled=True,
    # llvmpipe gathers from storage blocks lane by lane, from buffer textures by vectors.
    image_reads=True,
    # A work group is a loop over SIMD vectors.
    shared_pixels=(0, 512),
    weight_nibbles=True,
    occupancy=0,
    chained=2048,
    half_storage=False,
    slice_sums=True,
    # Its programs take another 0.3 s to compile: only for SUSTAINED_SPEED.
    winograd=(0, 64, 0),
    winograd_pixels=400,
)
# V3D has one texture unit for several cores, so loads count.
V3D = Profile(
    pointwise=((2, 2), (2, 1), (2, 2)),
    half_pointwise=((4, 1), (4, 1)),
    windows=((2, 2), (2, 1), (2, 2)),
    others=((2, 2),),
    depthwise=(2,),
    columns=4,
    wave=16,
    weight_pairs=(True, True, False),
    stepped=True,
    occupancy=1024,
    winograd=(32, 32, 0),
)
# Mali is bound by its loads from storage blocks.
MIDGARD = Profile(
    pointwise=((4, 1), (3, 1), (4, 1)),
    windows=((2, 1),),
    others=((2, 1),),
    depthwise=(2,),
    columns=4,
    row_loops=True,
    occupancy=1024,
    weight_textures=(True, True, False),
    weight_bytes=(1 << 20,),
    half_products=True,
    winograd=(16, 16, 0),
    winograd_columns=3,
)
MALI_G = Profile(
    pointwise=((3, 2), (4, 1), (2, 2), (3, 2)),
    half_pointwise=((4, 1), (3, 2)),
    windows=((4, 1), (3, 1), (4, 1)),
    others=((2, 2),),
    depthwise=(3, 2, 3),
    wave=16,
    weight_textures=(True, True, True, False),
    weight_bytes=(8, 8, 8, 8, 1 << 20),
    half_products=True,
    winograd=(32, 32, 32, 32, 0),
)
# Its load/store unit is the bottleneck, and texels of half the size leave room in its texture unit.
VALHALL = replace(MALI_G, half_windows=((3, 2),))
_LARGE = ((4, 2), (4, 4), (8, 2), (2, 2))
_BASE = Profile(
    pointwise=_LARGE,
    windows=_LARGE,
    others=_LARGE,
    depthwise=(8, 4),
    columns=12,
    row_loops=True,
    weight_nibbles=True,
    occupancy=16384,
)
# Of 64 pixels and more, 32 and more, and of few channels, for the tuner.
_BLOCKS: tuple[Blocks, ...] = (((8, 1, 8, 16),), ((4, 1, 8, 16),), ((4, 1, 16, 8), (4, 1, 32, 4)))
_WINDOW_BLOCKS: tuple[Blocks, ...] = (
    ((8, 2, 16, 8), (8, 2, 32, 4), (8, 2, 64, 2)),
    ((8, 2, 8, 8), (8, 2, 16, 4), (8, 2, 32, 2)),
    ((4, 1, 16, 8), (4, 1, 32, 4)),
)
_NO_BLOCKS: tuple[Blocks, ...] = ((),) * len(_LARGE)
AMD = replace(_BASE, blocks=(*_NO_BLOCKS, *_BLOCKS), window_blocks=(*_NO_BLOCKS, *_WINDOW_BLOCKS))
# Measured on an H200. Convolutions of small images leave most of its cores idle, whatever the tile.
NVIDIA = replace(
    _BASE,
    pointwise=((4, 2), (4, 4), (8, 2)),
    windows=((4, 1), (2, 1), (4, 2)),
    large_windows=((2, 1),),
    depthwise=(4, 8),
    blocks=(((8, 1, 8, 16), (4, 1, 16, 8), (4, 1, 32, 4)), (), (), *_BLOCKS),
    window_blocks=(
        ((8, 2, 8, 8), (8, 2, 16, 4), (4, 1, 16, 8), (4, 1, 32, 4)),
        *((),) * 2,
        *_WINDOW_BLOCKS,
    ),
    occupancy=1 << 15,
    shared_sums=(True,),
    winograd=(128, 64, 0),
    winograd_pixels=64 * 64,
    winograd_bytes=32 << 20,
)
# Adreno reads storage blocks word by word.
_ADRENO = replace(_BASE, image_reads=True, stepped=True)
ADRENO_7XX = replace(_ADRENO, row_loops=False)
ADRENO_6XX = replace(_ADRENO, windows=((4, 2), (4, 1)), columns=10, occupancy=4096)
# Lanes of one slice read the same weights, which Intel then loads once.
INTEL = Profile(
    pointwise=((4, 4), (2, 4), (4, 4)),
    windows=((2, 4), (2, 2), (2, 4)),
    others=((2, 2),),
    depthwise=(4,),
    columns=6,
    lanes=(8, 1),
    stepped=True,
    half_weights=False,
    weight_bytes=(8, 8, 1 << 20),
    weight_nibbles=True,
    winograd=(128, 128, 0),
    winograd_bytes=4 << 20,
)
# Its execution units compute 16 lanes at once, not 8.
XE2 = replace(INTEL, pointwise=((2, 4), (2, 2), (4, 2)), lanes=(16, 1))

NAMED: Mapping[str, Profile] = {
    name: value
    for name, value in globals().items()
    if isinstance(value, Profile) and not name.startswith("_")
}
"""Every profile by its name."""

_ADRENO_SERIES = ((r"[456]\d\d", ADRENO_6XX), ("", ADRENO_7XX))
_FAMILIES = (
    ("llvmpipe", LLVMPIPE),
    ("softpipe|SwiftShader", SOFTWARE),
    ("V3D", V3D),
    ("Mali-T", MIDGARD),
    (r"Immortalis|Mali-G(57|68|77|78|\d{3})", VALHALL),
    ("Mali", MALI_G),
    # Mesa takes some 15 instructions to unpack one float16.
    *(
        (rf"(\bFD|Turnip\D*){series}", replace(profile, half_storage=False))
        for series, profile in _ADRENO_SERIES
    ),
    *((rf"Adreno\D*{series}", profile) for series, profile in _ADRENO_SERIES),
    (r"Intel.*\b(LNL|BMG|PTL|1[34]0V|B\d{3})\b", XE2),
    ("Intel", INTEL),
    (r"\bAMD\b|\bATI\b|Radeon", AMD),
    (r"NVIDIA|nouveau|\bNV[0-9A-F]{2,3}\b", NVIDIA),
)
"""Patterns of device names and their profiles; the first match counts."""


def profile_of(vendor: str, renderer: str) -> Profile:
    """The profile of a device, by the names that its driver reports."""
    name = f"{vendor} {renderer}"
    return next((profile for names, profile in _FAMILIES if re.search(names, name)), UNKNOWN)
