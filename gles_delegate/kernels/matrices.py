"""Products of the matrices of two tensors, by glsl/batch_matmul.glsl."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from gles_delegate.kernels.setting import Setting
from gles_delegate.kernels.tiles import Tile
from gles_delegate.ops.lib.elementwise import MUL
from gles_delegate.ops.lib.grid import with_loop_lengths
from gles_delegate.ops.lib.product import MatrixProduct
from gles_delegate.shaders.dispatch import Call, Define, Dispatch, integer


def matrices(product: MatrixProduct, setting: Setting) -> list[Dispatch]:
    """Products by blocks, whose work groups share what they load, or by tiles of invocations."""
    output, count, limits, profile = product.output, product.count, setting.limits, setting.profile
    size = (product.rows, output.slices, ceil(product.depth / 4))
    block = Tile.of_block(*size, limits, setting.choice)
    tile = block or Tile.choose(*size, limits, setting.choice, profile.others, count)
    tiles = ceil(product.rows / (tile.block[0] if block else tile.pixels))
    scale, epilogue = _scale(product.epilogue)
    defines: dict[str, Define] = {
        **_whole(product, "A"),
        **_whole(product, "B"),
        **product.defines,
        "SCALE": scale,
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
    dispatch = replace(product, epilogue=epilogue).dispatch(
        "batch_matmul", product.reads, grid, defines, passes=passes, unrolled=tile.texels
    )
    return [with_loop_lengths(dispatch, limits, length)]


def _whole(product: MatrixProduct, name: str) -> dict[str, Define]:
    """The defines of an operand that holds the matrices one after another, and nothing else."""
    rows = integer(product.defines["ROWS" if name == "A" else "B_ROWS"])
    pixels = integer(product.defines[f"{name}_PIXELS"])
    dims = integer(product.defines["DIMS"])
    return {
        f"{name}_MATRICES": (pixels // max(rows, 1), *(1,) * (dims - 1)),
        f"{name}_STEPS": (rows, *(0,) * (dims - 1)),
        f"{name}_FIRST": 0,
        f"{name}_LENGTH": rows,
        f"{name}_JUMPS": (0, 1),
        f"{name}_IN_LINE": 1,
    }


def _scale(calls: tuple[Call, ...]) -> tuple[float, tuple[Call, ...]]:
    """The number that results are multiplied by first, and the other calls."""
    if calls and calls[0].function == MUL and calls[0].number is not None:
        return float(calls[0].number), calls[1:]
    return 1.0, calls
