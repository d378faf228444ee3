"""Ops along one axis: running sums, and the largest or smallest elements."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Define, Shape, Step
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import by_texel, make_grid
from gles_delegate.ops.lib.index import normal_axis
from gles_delegate.ops.lib.node import NodeView, Unsupported, one_integer
from gles_delegate.ops.lib.options import Bool, Options
from gles_delegate.ops.lib.reduction import LEAST, MOST, reduced
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import moved_output, reshape_view, same_texels


@dataclass(frozen=True)
class CumsumOptions(Options):
    exclusive: Bool = False
    reverse: Bool = False


@op("CUMSUM", max_version=1, options=CumsumOptions, rows=rows.along_axes)
def cumsum(node: NodeView, options: CumsumOptions) -> list[Step]:
    x = node.input(0, None)
    if node.dtype(0) == "bool":
        raise Unsupported("input 0 is bool; expected float32 or int32")
    axis = _one_axis(node, len(x.shape))
    output = node.output(x.shape, kind=x.kind, dtype=node.dtype(0))
    lines, slices, passes = output.pixels // max(x.shape[axis], 1), output.slices, x.shape[axis]
    if axis == len(x.shape) - 1:
        lines, slices, passes = output.pixels, 1, output.slices
    defines: dict[str, Define] = {
        "EXCLUSIVE": int(options.exclusive),
        "REVERSE": int(options.reverse),
        "LINES": lines,
        "LINE_SLICES": slices,
        **_walk(x.shape, axis),
    }
    grid = make_grid(lines, slices, node.limits)
    return [node.dispatch("cumsum", (x,), output, grid, defines, passes=passes)]


@op("ARG_MAX", "ARG_MIN", max_version=3, rows=rows.along_axes, ends_networks=True)
def arg_max(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    axis = _one_axis(node, len(x.shape))
    largest = node.op == "ARG_MAX"
    infinity = f"uintBitsToFloat({'0xff800000u' if largest else '0x7f800000u'})"
    if not x.shape[axis]:
        raise Unsupported("an axis of no elements")
    kept = x.shape[:axis] + x.shape[axis + 1 :]
    dtype = "int64" if node.graph.tensors[node.outputs[0]].dtype == "int64" else "int32"
    output = node.output(kept, kind="int", dtype=dtype)
    result = node.scratch(reduced(x.shape, [axis]), "places", "int")
    result = output if same_texels(result, output) else result
    defines: dict[str, Define] = {
        "BEST": "LARGEST" if largest else "SMALLEST",
        "WORST": infinity if x.kind == "float" else (LEAST if largest else MOST)["int"],
        "IN_PIXELS": x.pixels,
        **_walk(x.shape, axis),
    }
    dispatch = by_texel(node, "arg_max", (x,), result, defines, passes=x.shape[axis])
    if result == output:
        return [dispatch]
    return [dispatch, reshape_view(node.index, result, output, node.limits)]


@op("TOPK_V2", max_version=3, rows=rows.last_axis, sized_by=(1,))
def top_k(node: NodeView, options: Options) -> list[Step]:
    k, x = one_integer(node, 1, "the count"), node.input(0, None)
    if not x.shape or not 0 <= k <= x.channels or node.dtype(0) == "bool":
        raise Unsupported(f"the {k} largest of {node.dtype(0)} {list(x.shape)}")
    shape = (*x.shape[:-1], k)
    outputs = moved_output(node, x, shape), node.output(shape, 1, "int", "int32")
    passes = k * (x.channels + 2)
    return [
        by_texel(node, "top_k", (x,), y, {"INDICES": i, "IN_CHANNELS": x.channels}, passes=passes)
        for i, y in enumerate(outputs)
    ]


def _one_axis(node: NodeView, rank: int) -> int:
    axes = node.array(1).ravel().tolist()
    if len(axes) != 1 or not rank:
        raise Unsupported(f"the axes {axes} of rank {rank}; expected one")
    return normal_axis(axes[0], rank)


def _walk(shape: Shape, axis: int) -> dict[str, Define]:
    """Defines for walking along an axis."""
    return {
        "OVER_CHANNELS": int(axis == len(shape) - 1),
        "LENGTH": shape[axis],
        "STRIDE": prod(shape[axis + 1 : -1]),
    }
