"""Transposed convolutions, by glsl/transpose_conv.glsl."""

from __future__ import annotations

from math import ceil

from gles_delegate.kernels.convolution import weight_block, with_weights
from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import Tile
from gles_delegate.ops.lib.product import TransposedConvolution
from gles_delegate.ops.lib.window import by_side
from gles_delegate.shaders.dispatch import Define, Dispatch


def transposed(product: TransposedConvolution, setting: Setting) -> list[Dispatch]:
    """A transposed convolution, the pixels of each phase of the strides after those of another."""
    x, output, window = product.x, product.output, product.window
    out_h, out_w = window.in_h, window.in_w
    phases = window.stride_h * window.stride_w
    pixels = product.batch * ceil(out_h / window.stride_h) * ceil(out_w / window.stride_w)
    taps = ceil(window.kernel_h / window.stride_h) * ceil(window.kernel_w / window.stride_w)
    sizes = pixels, output.slices, x.slices * taps
    tile = Tile.choose(*sizes, setting.limits, setting.choice, setting.profile.others)
    groups = ceil(pixels / (tile.pixels * tile.pixel_lanes))
    defines: dict[str, Define] = {
        **window.defines("KERNEL"),
        **by_side(IN=product.image, OUT=(out_h, out_w)),
        "BATCH": product.batch,
        "GROUPS": groups,
    }
    grid = tile.grid(phases * groups * tile.pixel_lanes, ceil(output.slices / tile.slices))
    passes = taps * (x.slices + 4) + tile.texels + 2
    dispatch = product.dispatch(
        "transpose_conv", (x,), grid, defines, passes=passes, unrolled=tile.texels
    )
    block = weight_block(tile, True, setting)
    return with_weights(product, dispatch, tile, block, setting, True)
