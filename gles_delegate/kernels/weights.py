"""Weights of products in the layouts that shaders read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil

from gles_delegate.kernels.setting import Setting
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.product import WeightedProduct
from gles_delegate.ops.lib.views import Target, View, view
from gles_delegate.shaders.dispatch import (
    TEXTURE_WIDTH,
    Const,
    Define,
    Dispatch,
    Operand,
    Shape,
    Value,
    integer,
)


def packed_constants(
    setting: Setting,
    pack: Callable[..., Array],
    tensors: tuple[int, ...],
    texels: int,
    args: tuple[Define, ...] = (),
) -> Const:
    """Weights and biases that are packed while planning; see `Const`."""
    fits = texels <= TEXTURE_WIDTH * setting.limits.texture_size
    texture = setting.option(setting.profile.weight_textures) and fits
    return Const(pack, tensors, (texels, 4), args, texture=texture)


def with_small_weights(dispatch: Dispatch, setting: Setting) -> Dispatch:
    """Read weights as float16, int8 or int4 where precision allows it and where it is faster."""
    reads = list(dispatch.reads)
    defines = dispatch.defines
    for i, read in enumerate(reads):
        if isinstance(read, Const) and read.kind == "float":
            reads[i], columns = small_weights(read, dispatch.output.pixels, setting)
            if columns:
                defines = {**defines, "WEIGHT_COLUMNS": columns, "WEIGHT_TEXTURE": 0}
            if columns == 4:
                defines = {**defines, "WEIGHT_ZERO": _zero(setting.tensors[read.tensors[0]])}
    result = replace(dispatch, reads=tuple(reads), defines=defines)
    return result.sized("WEIGHT_ZERO") if result.sizes and defines.get("WEIGHT_ZERO") else result


def small_weights(read: Const, out_pixels: int, setting: Setting) -> tuple[Const, int]:
    """The weights to read instead, and the columns of a matrix in a texel; 0: in the same layout.

    Args:
        out_pixels: Pixels of the product's output.
    """
    weights = setting.tensors[read.tensors[0]] if read.pack is packing.conv_weights else None
    if weights and (columns := _small_columns(weights, out_pixels, setting)):
        zeros = (_zero(weights),) if columns == 4 else ()
        return _repacked(read, columns, (weights.quantization.scales, *zeros)), columns
    if read.texture:
        are_half = all(setting.half or setting.tensors[t].is_half for t in read.tensors if t >= 0)
        return (replace(read, kind="half") if are_half else read), 0
    in_pairs = setting.option(setting.profile.weight_pairs)
    if weights and in_pairs and (setting.half or weights.is_half):
        return _repacked(read, 2), 2
    return read, 0


_PACKS: dict[int, Callable[..., Array]] = {
    2: packing.conv_weight_pairs,
    4: packing.conv_weight_bytes,
    8: packing.conv_weight_nibbles,
}
"""How weights are packed, by the columns in a texel."""


def _repacked(read: Const, columns: int, steps: tuple[Define | packing.Scales, ...] = ()) -> Const:
    """Weights with `columns` in a texel; `steps`: the scales of integers, and their zero."""
    first = packing.bias_texels(integer(read.args[1]))
    header = 2 * first if steps else first
    shape = (header + ceil((read.shape[0] - first) / columns), 4)
    args = (*read.args, *steps)
    pack = _PACKS[columns]
    return replace(read, pack=pack, args=args, shape=shape, kind="int", texture=False)


def _small_columns(weights: Tensor, out_pixels: int, setting: Setting) -> int:
    """Columns in a texel: 8 of int4, 4 of int8; 0 unless the weights and their scales fit."""
    profile = setting.profile
    if out_pixels > setting.option(profile.weight_bytes):
        return 0
    q, is_byte = weights.quantization, weights.dtype in ("int8", "uint8")
    is_symmetric = not any(q.zero_points)
    fits = (
        weights.is_quantized
        and (is_byte or weights.dtype in ("int4", "int2"))
        and not (q.block or 0.0 in q.scales)
        and (len(q.scales) == 1 or (q.axis == 0 and is_symmetric))
        and (is_byte or is_symmetric)
    )
    return (4 if is_byte or not profile.weight_nibbles else 8) if fits else 0


def _zero(weights: Tensor) -> int:
    """The difference of a weight's steps and the int8 that it is stored as."""
    zeros = weights.quantization.zero_points
    return (128 if weights.dtype == "uint8" else 0) - (zeros[0] if zeros else 0)


def weight_defines(weights: Operand) -> dict[str, Define]:
    """Defines of glsl/lib/weights.glsl; `with_small_weights` may change them."""
    texture = isinstance(weights, Const) and weights.texture
    return {"WEIGHT_TEXTURE": int(texture), "WEIGHT_COLUMNS": 1}


def packed_by_run(
    product: WeightedProduct,
    slices: int,
    texels: int,
    layout: View,
    setting: Setting,
    shape: Shape | None = None,
) -> tuple[Value, list[Dispatch]]:
    """Weights that a run packs: `slices` texels of biases, then the weights in that layout.

    Args:
        shape: The shape of the weights with their channels padded to whole slices, of which
            `layout` counts the elements; None: it counts those that there are.
    """
    _, source, *biases = product.reads
    bias = biases[0] if biases else None
    weights = Value(product.output.tensor, (texels, 4), "weights")
    seen = source if shape is None else replace(source, shape=shape)
    of_biases = View((4 * slices,), (1,), upper=(4 * slices if bias else 0,))
    rest = texels - slices
    copies = (
        (bias or seen, of_biases, Target(slices, 4, slices, slices)),
        (seen, layout, Target(rest, 4, rest, rest, out_pixel=slices)),
    )
    made: list[Dispatch] = []
    for x, each, target in copies:
        copy = view(x, weights, each, setting.limits, product.node, target)
        # A constant is packed with the padding; another tensor has it in its texels.
        is_padded = x == seen and isinstance(source, Value)
        made.append(replace(copy, reads=(source,)) if is_padded else copy)
    return weights, made
