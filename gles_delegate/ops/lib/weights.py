"""Weights of convolutions in the layouts that shaders read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import Profile
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.views import Target, View, view
from gles_delegate.shaders.dispatch import TEXTURE_WIDTH, Const, Define, Dispatch, Operand, Step


def packed_constants(
    limits: Limits,
    choice: int,
    pack: Callable[..., Array],
    tensors: tuple[int, ...],
    texels: int,
    args: tuple[Define, ...] = (),
) -> Const:
    """Weights and biases that are packed while planning; see `Const`."""
    fits = texels <= TEXTURE_WIDTH * limits.texture_size
    texture = option_of(limits.profile.weight_textures, choice) and fits
    return Const(pack, tensors, (texels, 4), args, texture=texture)


def with_small_weights(
    dispatch: Dispatch, limits: Limits, tensors: Sequence[Tensor], half: bool
) -> Dispatch:
    """Read weights as float16, int8 or int4 where precision allows it and where it is faster.

    Args:
        half: All weights may be float16, at a loss of precision.
    """
    in_pairs = option_of(limits.profile.weight_pairs, dispatch.choice)

    def smaller(read: Const) -> tuple[Const, int]:
        """The weights to read instead, and the columns of a matrix in a texel; 0: unchanged."""
        weights = tensors[read.tensors[0]] if read.pack is packing.conv_weights else None
        if weights and (columns := _small_columns(weights, dispatch, limits.profile)):
            zeros = (_zero(weights),) if columns == 4 else ()
            return _repacked(read, columns, (weights.quantization.scales, *zeros))
        if read.texture:
            are_half = all(half or tensors[t].is_half for t in read.tensors if t >= 0)
            return (replace(read, kind="half") if are_half else read), 0
        if weights and in_pairs and (half or weights.is_half):
            return _repacked(read, 2)
        return read, 0

    reads, defines = list(dispatch.reads), dispatch.defines
    for i, read in enumerate(reads):
        if isinstance(read, Const) and read.kind == "float":
            reads[i], columns = smaller(read)
            if columns:
                defines = {**defines, "WEIGHT_COLUMNS": columns, "WEIGHT_TEXTURE": 0}
            if columns == 4:
                defines = {**defines, "WEIGHT_ZERO": _zero(tensors[read.tensors[0]])}
    result = replace(dispatch, reads=tuple(reads), defines=defines)
    return result.sized("WEIGHT_ZERO") if result.sizes and defines.get("WEIGHT_ZERO") else result


_PACKS: dict[int, Callable[..., Array]] = {
    2: packing.conv_weight_pairs,
    4: packing.conv_weight_bytes,
    8: packing.conv_weight_nibbles,
}
"""How weights are packed, by the columns in a texel."""


def _repacked(
    read: Const, columns: int, steps: tuple[Define | packing.Scales, ...] = ()
) -> tuple[Const, int]:
    """Weights with `columns` in a texel; `steps`: the scales of integers, and their zero."""
    slices = read.args[1]
    assert isinstance(slices, int)
    first = packing.bias_texels(slices)
    header = 2 * first if steps else first
    shape = (header + ceil((read.shape[0] - first) / columns), 4)
    args = (*read.args, *steps)
    pack = _PACKS[columns]
    read = replace(read, pack=pack, args=args, shape=shape, kind="int", texture=False)
    return read, columns


def _small_columns(weights: Tensor, dispatch: Dispatch, profile: Profile) -> int:
    """Columns in a texel: 8 of int4, 4 of int8; 0 unless the weights and their scales fit."""
    most_pixels = option_of(profile.weight_bytes, dispatch.choice)
    if dispatch.output.pixels > most_pixels:
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


def constant_weights(node: NodeView, inputs: tuple[int, int]) -> tuple[int, int] | None:
    """Tensor indices of the weights and the biases, -1 if absent; None unless all are constant.

    LiteRT's kernels take zero points of 0, and scales along the output channels, whatever the model
    says; it has to say the same.
    """
    if not all(node.is_constant(i) for i in inputs if node.has_input(i)):
        return None
    indices = node.constant(inputs[0]), node.constant(inputs[1])
    weights = node.graph.tensors[indices[0]]
    zeros, axis = weights.quantization.zero_points, weights.quantization.axis
    ignored = op_of(node.op).has_symmetric_weights and weights.dtype in ("int8", "int4")
    if ignored and any(zeros):
        raise Unsupported(f"{weights.dtype} weights with the zero points {list(zeros)}; expected 0")
    channels = len(weights.shape) - 1 if node.op == "DEPTHWISE_CONV_2D" else 0
    is_divided = len(weights.quantization.scales) > 1 and not weights.quantization.block
    if is_divided and axis != channels:
        raise Unsupported(f"scales along axis {axis} of the weights; expected axis {channels}")
    return indices


def packed(
    node: NodeView, source: Operand, bias_input: int, slices: int, texels: int, layout: View
) -> tuple[Operand, list[Step]]:
    """Pack weights at run time: `slices` texels of biases, then `source` in that layout."""
    weights = node.scratch((texels, 4), "weights")
    bias = node.input(bias_input) if node.has_input(bias_input) else None
    biases = View((4 * slices,), (1,), upper=(4 * slices if bias else 0,))
    rest = texels - slices
    copies = (
        (bias or source, biases, Target(slices, 4, slices, slices)),
        (source, layout, Target(rest, 4, rest, rest, out_pixel=slices)),
    )
    return weights, [view(x, weights, v, node.limits, node.index, r) for x, v, r in copies]
