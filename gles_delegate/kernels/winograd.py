"""Winograd's F(4 x 4, 3 x 3): windows of 3 x 3 with a quarter of the multiplications.

Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks", 2015. A tile of 4 x 4 outputs
is computed from 6 x 6 sums over the input channels, of transformed inputs times transformed
weights: three dispatches, of which the second is a grouped convolution of single pixels. The points
of the transforms are 0, +-3/4, +-3/2 and infinity: every factor is exact in float32, and errors are
about half of those with the usual points, 0, +-1 and +-2.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil, gcd

import numpy as np

from gles_delegate.kernels.convolution import with_product_defines
from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import Tile
from gles_delegate.kernels.weights import packed_constants, small_weights
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.product import Convolution
from gles_delegate.ops.lib.window import Window, even_part
from gles_delegate.shaders.dispatch import Define, Dispatch, Value

EDGE, SIDE = 4, 6
"""Rows and columns of a tile of outputs, and of the numbers that it is computed from."""
NUMBERS = SIDE * SIDE
POINTS = (0.0, 0.75, -0.75, 1.5, -1.5)

_SIZES = {
    *("BATCH", "TILES_H", "TILES_W", "IN_H", "IN_W", "PAD_H", "PAD_W", "IN_SLICES", "IN_PIXELS"),
    *("OUT_H", "OUT_W", "ROWS", "FIRST_LINE"),
}
"""Sizes that are uniforms. A loop over ROWS, of known length, would be unrolled, and then all of
its loads take registers."""


def weight_transform() -> Array:
    """[SIDE, 3]: the numbers of three weights, their polynomial at the points, each divided by the
    product of its distances from the others.
    """
    rows = []
    for point in POINTS:
        distances = np.prod([point - other for other in POINTS if other != point])
        rows.append(np.array([1.0, point, point**2]) / distances)
    return np.array([*rows, [0.0, 0.0, 1.0]])


def sum_transform() -> Array:
    """[EDGE, SIDE]: four outputs of six sums."""
    rows: Array = np.array([[point**power for point in POINTS] for power in range(EDGE)])
    return np.column_stack([rows, np.eye(EDGE)[-1]])


def winograd_weights(weights: Array, bias: Array | None, slices: int, block: int) -> Array:
    """[O, 3, 3, I], [O] -> `packing.conv_weights` of a product in NUMBERS groups.

    A bias becomes a bias of the sums that the last transform turns into it.
    """
    outputs, inputs = weights.shape[0], weights.shape[-1]
    both = np.kron(weight_transform(), weight_transform())  # along rows and columns at once
    taps = weights.reshape(outputs, 9, inputs).transpose(1, 0, 2).reshape(9, -1)
    wide = np.zeros((NUMBERS, ceil(outputs / 4) * 4, inputs), np.float32)
    wide[:, :outputs] = (both @ taps.astype(np.float64)).reshape(NUMBERS, outputs, inputs)
    biases = np.zeros(wide.shape[:2], np.float32)
    if bias is not None:
        one = np.linalg.lstsq(sum_transform(), np.ones(EDGE), rcond=None)[0]
        biases[:, :outputs] = np.outer(np.outer(one, one), bias)
    flat = wide.reshape(-1, 1, 1, inputs)
    return packing.conv_weights(flat, biases, (NUMBERS, 1), slices, block)


def by_winograd(conv: Convolution, setting: Setting) -> list[Dispatch] | None:
    """Three dispatches for each band of a convolution, where that is faster and accurate.

    float16 has too few bits for the numbers. Transformed weights are larger: those that are read as
    the model has them stay as they are. See also `Profile.winograd`.
    """
    window, constants, output = conv.window, conv.weights.constants, conv.output
    if setting.half or window is None or constants is None or conv.groups != (1, 1):
        return None
    shape = (window.kernel_h, window.kernel_w, window.stride_h, window.stride_w)
    channels = setting.option(setting.profile.winograd)
    # Bytes of the numbers and sums of a row of tiles.
    line = ceil(window.out_w / EDGE) * NUMBERS * (conv.x.slices + output.slices) * 16
    most = min(setting.profile.winograd_bytes, setting.limits.block_bytes)
    if (
        not 0 < channels <= min(conv.x.channels, output.channels)
        or (*shape, window.dilation_h, window.dilation_w) != (3, 3, 1, 1, 1, 1)
        or output.pixels < setting.profile.winograd_pixels
        or line > most
        or _are_small(conv, constants, setting)
    ):
        return None
    lines = window.batch(output) * ceil(window.out_h / EDGE)
    count = even_part(lines, most // line)
    dispatches: list[Dispatch] = []
    for first in range(0, lines, count):
        rows = min(count, lines - first)
        dispatches += _band(conv, constants, window, first, rows, lines, setting)
    return dispatches


def _are_small(conv: Convolution, constants: tuple[int, int], setting: Setting) -> bool:
    """Whether the weights are read as the model has them, and smaller than float32."""
    texels = packing.bias_texels(conv.output.slices)
    texels += conv.output.slices * conv.taps * conv.in_slices * 4
    args = ((1, 1), conv.output.slices, 1)
    weights = packed_constants(setting, packing.conv_weights, constants, texels, args)
    return small_weights(weights, conv.output.pixels, setting) != (weights, 0)


def _band(
    conv: Convolution,
    constants: tuple[int, int],
    window: Window,
    first: int,
    count: int,
    lines: int,
    setting: Setting,
) -> list[Dispatch]:
    """The dispatches for `count` rows of tiles from `first` on; the images have `lines`."""
    x, output, limits = conv.x, conv.output, setting.limits
    tiles_h, tiles_w = ceil(window.out_h / EDGE), ceil(window.out_w / EDGE)
    tiles = count * tiles_w
    name = f"{output.name}from {first} on"
    numbers = Value(output.tensor, (count, tiles_w, NUMBERS * 4 * x.slices), f"{name}, numbers")
    sums = Value(output.tensor, (count, tiles_w, NUMBERS * 4 * output.slices), f"{name}, sums")
    common: dict[str, Define] = {
        "TILES_H": tiles_h,
        "TILES_W": tiles_w,
        "FIRST_LINE": first,
        "COLUMNS": limits.profile.winograd_columns,
    }
    into: dict[str, Define] = {
        **common,
        "ROWS": SIDE,
        "BATCH": window.batch(output),
        "IN_H": window.in_h,
        "IN_W": window.in_w,
        "IN_SLICES": x.slices,
        "PAD_H": window.pad_h,
        "PAD_W": window.pad_w,
    }
    out_of = {**common, "ROWS": SIDE, "IN_PIXELS": tiles}
    out_of |= {"OUT_H": window.out_h, "OUT_W": window.out_w}
    start, end = (
        (line % tiles_h * EDGE + line // tiles_h * window.out_h) * window.out_w
        for line in (first, first + count)
    )
    transform = Dispatch(
        conv.node, "winograd_in", (x,), numbers, make_grid(tiles, SIDE * x.slices, limits), into,
        passes=SIDE + 1,
    )  # fmt: skip
    result = Dispatch(
        conv.node, "winograd_out", (sums,), output,
        make_grid(tiles, EDGE * output.slices, limits), out_of, conv.epilogue, fused=conv.fused,
        partial=count < lines, pixels=(start, end - start) if count < lines else None,
        passes=SIDE + 1,
    )  # fmt: skip
    return [
        transform.sized(*(name for name in into if name in _SIZES)),
        _products(conv, constants, numbers, sums, setting),
        result.sized(*(name for name in out_of if name in _SIZES)),
    ]


def _products(
    conv: Convolution, constants: tuple[int, int], numbers: Value, sums: Value, setting: Setting
) -> Dispatch:
    """The sums over the channels, of each number in its own group."""
    x_slices, out_slices = numbers.slices // NUMBERS, sums.slices // NUMBERS
    tile = Tile.choose(sums.pixels, sums.slices, x_slices, setting.limits, setting.choice)
    tile = replace(tile, slices=gcd(tile.slices, out_slices))
    grid = tile.grid(ceil(sums.pixels / tile.pixels), sums.slices // tile.slices)
    block = sums.slices if grid.slices_in_x else tile.slices
    texels = packing.bias_texels(sums.slices) + sums.slices * x_slices * 4
    args = (sums.slices, block)
    packed = packed_constants(setting, winograd_weights, constants, texels, args)
    defines: dict[str, Define] = {
        "POINTWISE": 1,
        "KERNEL_H": 1,
        "KERNEL_W": 1,
        "GROUP_SLICES": out_slices,
        "ADJACENT": 0,
        "STEPPED": int(setting.profile.stepped),
    }
    products = Dispatch(
        conv.node, "conv_2d", (numbers, packed), sums, grid, defines,
        flops=conv.flops * sums.pixels * EDGE**2 // conv.output.pixels,
        passes=x_slices + tile.texels + 2, unrolled=tile.texels,
    )  # fmt: skip
    sizes = (x_slices, sums.slices, block)
    return with_product_defines(products, tile, sizes, setting, by_runs=False)
