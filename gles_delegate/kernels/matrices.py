"""Products of the matrices of two tensors, by glsl/batch_matmul.glsl."""

from __future__ import annotations

from math import ceil

from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import Tile
from gles_delegate.ops.lib.grid import with_loop_lengths
from gles_delegate.ops.lib.product import MatrixProduct
from gles_delegate.shaders.dispatch import Define, Dispatch


def matrices(product: MatrixProduct, setting: Setting) -> list[Dispatch]:
    """Products by blocks, whose work groups share what they load, or by tiles of invocations."""
    output, count, limits, profile = product.output, product.count, setting.limits, setting.profile
    size = (product.rows, output.slices, ceil(product.depth / 4))
    block = Tile.of_block(*size, limits, setting.choice)
    tile = block or Tile.choose(*size, limits, setting.choice, profile.others, count)
    tiles = ceil(product.rows / (tile.block[0] if block else tile.pixels))
    defines: dict[str, Define] = {
        **product.defines,
        "TILES": tiles,
        "PIXELS": tile.pixels,
        "SLICES": tile.slices,
        "IN_BLOCKS": int(block is not None),
    }
    if block:
        defines |= block.block_defines(size[-1])
        grid = block.block_grid(count * tiles * block.block[0], output.slices)
        length = "STEPS"
        passes = block.block_passes(size[-1])
    else:
        grid = tile.grid(count * tiles, ceil(output.slices / tile.slices))
        length = "DEPTH"
        passes = size[-1]
    dispatch = product.dispatch(
        "batch_matmul", product.reads, grid, defines, passes=passes, unrolled=tile.texels
    )
    return [with_loop_lengths(dispatch, limits, length)]
