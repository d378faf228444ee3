"""Weights of convolutions as shaders read them, and the defines of runs and tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil
from typing import TypeAlias

from gles_delegate.dispatch import (
    TEXTURE_WIDTH,
    Const,
    Define,
    DispatchT,
    Operand,
    Step,
)
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.ops.lib.tiles import option_of
from gles_delegate.ops.lib.views import Region, View, view

WeightInputs: TypeAlias = tuple[int, int]
"""Which inputs of a node are the weights and, if it has them, the biases."""


def packed_constants(
    node: NodeView,
    pack: Callable[..., Array],
    tensors: tuple[int, int],
    texels: int,
    args: tuple[Define, ...] = (),
) -> Const:
    """Weights and biases that are packed while planning; see `Const`."""
    fits = texels <= TEXTURE_WIDTH * node.limits.texture_size
    texture = option_of(node.limits.profile.weight_textures, node.choice) and fits
    return Const(pack, tensors, (texels, 4), args, texture=texture)


def with_small_weights(
    dispatch: DispatchT, limits: Limits, tensors: Sequence[Tensor], half: bool
) -> DispatchT:
    """Read weights as float16, int8 or int4 where they may be, and where that pays.

    Args:
        half: Precision may be lost, so all may be float16.
    """

    def may_be_half(index: int) -> bool:
        return half or tensors[index].is_half

    profile = limits.profile
    in_pairs = option_of(profile.weight_pairs, dispatch.choice)
    as_bytes = dispatch.output.pixels <= option_of(profile.weight_bytes, dispatch.choice)
    reads, defines = list(dispatch.reads), dispatch.defines
    for i, read in enumerate(reads):
        if not isinstance(read, Const) or read.kind != "float":
            continue
        is_matrix = read.pack is packing.conv_weights
        in_bytes = as_bytes and is_matrix and _is_in_bytes(tensors[read.tensors[0]])
        if read.texture and not in_bytes:
            if all(may_be_half(tensor) for tensor in read.tensors if tensor >= 0):
                reads[i] = replace(read, kind="half")
            continue
        if not is_matrix:
            continue
        slices = read.args[1]
        assert isinstance(slices, int)
        first = packing.bias_texels(slices)
        columns, weights = read.shape[0] - first, tensors[read.tensors[0]]
        if in_bytes:
            pack: Callable[..., Array] = packing.conv_weight_bytes
            args, per_texel, header = (*read.args, weights.quantization.scales), 4, 2 * first
            if profile.weight_nibbles and weights.dtype != "int8":
                pack, per_texel = packing.conv_weight_nibbles, 8
        elif in_pairs and may_be_half(weights.index):
            pack, args, per_texel, header = packing.conv_weight_pairs, read.args, 2, first
        else:
            continue
        shape = (header + ceil(columns / per_texel), 4)
        reads[i] = replace(read, pack=pack, args=args, shape=shape, kind="int", texture=False)
        defines = {**defines, "WEIGHT_COLUMNS": per_texel, "WEIGHT_TEXTURE": 0}
    return replace(dispatch, reads=tuple(reads), defines=defines)


def _is_in_bytes(weights: Tensor) -> bool:
    """Whether they are int8 or smaller, times a scale or one for each index of the first axis."""
    how = weights.quantization
    return (
        weights.is_quantized
        and weights.dtype in ("int8", "int4", "int2")
        and not (how.block or any(how.zero_points) or 0.0 in how.scales)
        and (len(how.scales) == 1 or how.axis == 0)
    )


def weight_defines(weights: Operand) -> dict[str, Define]:
    """Defines of glsl/lib/weights.glsl; see `with_small_weights`, too."""
    texture = isinstance(weights, Const) and weights.texture
    return {"WEIGHT_TEXTURE": int(texture), "WEIGHT_COLUMNS": 1}


def constant_weights(node: NodeView, inputs: WeightInputs) -> tuple[int, int] | None:
    """Tensor indices of the weights and the biases, -1 if absent; None if not all are constant.

    Raises:
        Unsupported: They are quantized in a way that LiteRT's kernels ignore.
    """
    if not all(node.is_constant(i) for i in inputs if node.has_input(i)):
        return None
    found = node.constant(inputs[0]), node.constant(inputs[1])
    weights = node.graph.tensors[found[0]]
    zeros = weights.quantization.zero_points
    ignored = op_of(node.op).has_symmetric_weights and weights.dtype in ("int8", "int4")
    if ignored and any(zeros):
        raise Unsupported(f"{weights.dtype} weights with the zero points {list(zeros)}; expected 0")
    return found


def packed(
    node: NodeView, source: Operand, bias_input: int, slices: int, texels: int, how: View
) -> tuple[Operand, list[Step]]:
    """Pack weights at run time: `slices` texels of biases, then the texels of `how`."""
    weights = node.scratch((texels, 4), "weights")
    bias = node.input(bias_input) if node.has_input(bias_input) else None
    biases = View((4 * slices,), (1,), upper=(4 * slices if bias else 0,))
    rest = texels - slices
    parts = (
        (bias or source, biases, Region(slices, 4, slices, slices)),
        (source, how, Region(rest, 4, rest, rest, out_pixel=slices)),
    )
    index = node.index
    return weights, [view(x, weights, v, node.limits, index, r) for x, v, r in parts]
