"""Weights of convolutions as shaders read them, and the defines of runs and tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod
from typing import TypeAlias

from gles_delegate.dispatch import (
    TEXTURE_WIDTH,
    Alias,
    Const,
    Define,
    Dispatch,
    DispatchT,
    Operand,
    Shape,
    Step,
)
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib import packing
from gles_delegate.ops.lib.grid import WORK_GROUP
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.ops.lib.tiles import Tile, columns_of, option_of, runs_of
from gles_delegate.ops.lib.views import Region, View, view
from gles_delegate.ops.lib.window import Window

MOST_DIVIDED = 1 << 20
"""What glsl/lib/tensor.glsl divides by a uniform is less."""


_SIZES = {
    *("BATCH", "RUNS", "IN_H", "IN_W", "OUT_H", "OUT_W", "PAD_H", "PAD_W", "KERNEL_H"),
    *("IN_PIXELS", "IN_SLICES", "W_SLICES", "BLOCK", "GROUPS", "STORES"),
}
"""What a convolution's code does not depend on."""

WeightInputs: TypeAlias = tuple[int, int]
"""Which inputs of a node are the weights and, if it has them, the biases."""


def run_defines(
    window: Window, batch: int, pixels: int, by_taps: bool = False
) -> dict[str, Define]:
    """Defines of glsl/lib/runs.glsl for runs of that many pixels.

    Args:
        by_taps: Whether they are computed tap by tap, not row by row.
    """
    runs: dict[str, Define] = {
        "BATCH": batch,
        "RUNS": runs_of(window, pixels),
        "COLUMNS": 1 if by_taps else columns_of(window, pixels),
        "BY_TAPS": int(by_taps),
    }
    return {**window.defines("KERNEL"), **window.dilation_defines(), **runs}


def with_weights(
    node: NodeView,
    dispatch: Dispatch,
    tile: Tile,
    groups: packing.Groups,
    inputs: WeightInputs,
    by_runs: bool = True,
) -> list[Step]:
    """Add the weights and biases at `inputs` to what `dispatch` reads.

    Args:
        by_runs: Whether an invocation computes a run of pixels that share inputs.
    """
    (x,), output = dispatch.reads, dispatch.output
    in_slices = x.slices * groups[1] // groups[0]
    slices = ceil(output.slices / tile.slices) * tile.slices
    # Neighbouring lanes read neighbouring weights, or all read the same.
    block = slices if dispatch.grid.slices_in_x else tile.slices
    weights, steps = _weights(node, inputs, groups, in_slices, slices, block)
    sizes = {"IN_PIXELS": x.pixels, "IN_SLICES": in_slices, "W_SLICES": slices, "BLOCK": block}
    defines = {
        "IN_LANES": min(x.channels, 4),
        **weight_defines(weights),
        **tile_defines(tile.pixels, tile.slices, node.limits, node.choice),
    }
    dispatch = replace(
        dispatch, reads=(x, weights), defines={**dispatch.defines, **defines, **sizes}
    )
    return [*steps, with_size_uniforms(dispatch, node.limits, by_runs)]


def tile_defines(pixels: int, slices: int, limits: Limits, choice: int) -> dict[str, Define]:
    """Defines of glsl/lib/product.glsl for a tile."""
    loop = limits.store_loops and choice == 0
    tile: dict[str, Define] = {"PIXELS": pixels, "SLICES": slices, "STORE_LOOP": int(loop)}
    return {**tile, "STORES": pixels * slices} if loop else tile


def with_size_uniforms(dispatch: DispatchT, limits: Limits, by_runs: bool = True) -> DispatchT:
    """Make the sizes uniforms where that costs nothing, so that other sizes share the program.

    Except those that the profile has as constants. A GPU's compiler overlaps the loads of a
    window's rows only if their number is constant, which takes registers.
    """
    if max(dispatch.output.pixels, dispatch.grid.pixels + WORK_GROUP) >= MOST_DIVIDED:
        return dispatch
    if by_runs and option_of(limits.profile.constant_sizes, dispatch.choice):
        return dispatch
    names = set(_SIZES)
    if dispatch.defines.get("BY_TAPS"):
        names.add("KERNEL_W")
    elif not limits.profile.row_loops:
        names.remove("KERNEL_H")
    return dispatch.sized(*(name for name in dispatch.defines if name in names))


def _weights(
    node: NodeView,
    inputs: WeightInputs,
    groups: packing.Groups,
    in_slices: int,
    slices: int,
    block: int,
) -> tuple[Operand, list[Step]]:
    """The weights as glsl/conv_2d.glsl reads them, and the steps that pack them at run time."""
    shape = node.shape(inputs[0])
    taps = prod(shape[1:-1])
    first = packing.bias_texels(slices)
    texels = first + slices * taps * in_slices * 4
    tensors = constant_weights(node, inputs)
    if tensors:
        how = (groups, slices, block)
        return packed_constants(node, packing.conv_weights, tensors, texels, how), []
    if groups[1] > 1:
        raise Unsupported("grouped convolution with weights computed at run time")
    outputs, depth = shape[0], 4 * in_slices
    columns = View(
        (slices // block, taps * in_slices, block, 4, 4),
        (block * 4 * taps * depth, 4, 4 * taps * depth, 1, taps * depth),
    )
    # With the channels padded to whole slices, a column's lanes are elements like any other.
    source, steps = _with_shape(node, node.input(inputs[0]), (outputs, taps, depth))
    weights, packing_steps = packed(node, source, inputs[1], first, texels, columns)
    return weights, [*steps, *packing_steps]


def _with_shape(node: NodeView, source: Operand, shape: Shape) -> tuple[Operand, list[Step]]:
    """Reinterpret the texels of `source` as a tensor of another shape."""
    if isinstance(source, Const):
        return replace(source, shape=shape), []
    other = node.scratch(shape, "wide")
    return other, [Alias(node.index, other, source)]


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
