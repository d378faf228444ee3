"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from gles_delegate.dispatch import Define, Dispatch, Kind, Operand, Shape, Step, Value
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import make_grid, with_reduction_lanes
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.options import Bool, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.strides import merged, normal_axis, row_major
from gles_delegate.ops.lib.views import reshape_view, same_texels

ENOUGH = 256
"""Elements that one invocation may add up; more are reduced one dimension after the other."""


@dataclass(frozen=True)
class ReducerOptions(Options):
    keep_dims: Bool = False


@dataclass(frozen=True)
class Reduction:
    """How glsl/reduce.glsl combines elements, and its initial value."""

    combine: str
    initial: dict[Kind, Define]


LEAST: dict[Kind, Define] = {"float": -3.402823466e38, "int": "(-0x7fffffff - 1)"}
MOST: dict[Kind, Define] = {"float": 3.402823466e38, "int": 0x7FFFFFFF}
IN_ORDER = ("LARGEST", "SMALLEST")
"""The result of these depends on the order of the elements if there are NaNs."""

_REDUCTIONS = {
    "MEAN": Reduction("SUM", {"float": 0, "int": 0}),
    "SUM": Reduction("SUM", {"float": 0, "int": 0}),
    "REDUCE_PROD": Reduction("PRODUCT", {"float": 1, "int": 1}),
    "REDUCE_MAX": Reduction("LARGEST", LEAST),
    "REDUCE_MIN": Reduction("SMALLEST", MOST),
    "REDUCE_ANY": Reduction("LARGEST", {"int": 0}),
    "REDUCE_ALL": Reduction("SMALLEST", {"int": 1}),
}


def _folded_by(function: Callable[..., Any]) -> Callable[[NodeView], Array | None]:
    def fold(node: NodeView) -> Array | None:
        x, axes = constants(node)
        if x.dtype.kind == "f" and function not in (np.max, np.min):
            return None  # LiteRT adds floats in another order
        along = tuple({normal_axis(axis, x.ndim) for axis in axes.reshape(-1).tolist()})
        keep = ReducerOptions.read(node.node).keep_dims
        return np.asarray(function(x, axis=along, keepdims=keep), x.dtype)

    return fold


_reduction = partial(op, options=ReducerOptions, rows=rows.along_axes)


@_reduction("MEAN", max_version=3)
@_reduction("REDUCE_MAX", max_version=3, fold=_folded_by(np.max))
@_reduction("REDUCE_MIN", max_version=3, fold=_folded_by(np.min))
@_reduction("SUM", max_version=2, fold=_folded_by(np.sum))
@_reduction("REDUCE_PROD", max_version=2, fold=_folded_by(np.prod))
@_reduction("REDUCE_ANY", fold=_folded_by(np.any))
@_reduction("REDUCE_ALL", fold=_folded_by(np.all))
def reduce(node: NodeView, options: ReducerOptions) -> list[Step]:
    x = node.input(0, None)
    reduction, name = _REDUCTIONS[node.op], node.op
    logical = name in ("REDUCE_ANY", "REDUCE_ALL")
    if (node.dtype(0) == "bool") != logical:
        raise Unsupported(f"input 0 is {'not ' * logical}bool")
    axes = sorted({normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()})
    count = prod(x.shape[axis] for axis in axes)
    if name == "MEAN" and not count:
        raise Unsupported("the mean of no elements")
    if name == "MEAN" and x.kind == "int" and node.dtype(0) in ("int8", "uint8", "int16"):
        raise Unsupported(f"{node.dtype(0)} without a scale, of which LiteRT's mean is 0")
    kept = reduced(x.shape, axes)
    if not options.keep_dims:
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    output = node.output(kept, kind=x.kind, dtype=node.dtype(0))
    stages = [axes] if count <= ENOUGH else [[axis] for axis in reversed(axes)]
    steps: list[Step] = []
    for i, stage in enumerate(stages):
        result = node.scratch(reduced(x.shape, stage), f"stage{i}", x.kind)
        last = stage is stages[-1]
        if last and same_texels(result, output):
            result = output
        defines: dict[str, Define] = {
            "COMBINE": reduction.combine,
            "INITIAL": reduction.initial[x.kind],
            "DIVISOR": count if last and name == "MEAN" else 1,
        }
        steps.append(reduction_stage(node, x, result, stage, defines))
        x = result
    return steps if x == output else [*steps, reshape_view(node.index, x, output, node.limits)]


def reduced(shape: Shape, axes: list[int]) -> Shape:
    """`shape` with ones at `axes`."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def reduction_stage(
    node: NodeView, x: Operand, output: Value, axes: list[int], defines: dict[str, Define]
) -> Dispatch:
    """Reduce `x` over `axes`; `output` has the same elements in any shape."""
    pixels = x.shape[:-1]
    strides = row_major(pixels)
    walk: Shape = tuple(n if axis in axes else 1 for axis, n in enumerate(pixels))
    sizes, kept_strides = merged(reduced(pixels, axes), strides)
    reduced_sizes, reduced_strides = merged(walk, strides)
    dims = max(len(sizes), len(reduced_sizes))
    channels = len(x.shape) - 1 in axes
    defines = {
        **defines,
        "IN_PIXELS": x.pixels,
        "DIMS": dims,
        "SIZES": _of_rank(dims, sizes, 1),
        "STRIDES": _of_rank(dims, kept_strides, 0),
        "REDUCED_SIZES": _of_rank(dims, reduced_sizes, 1),
        "REDUCED_STRIDES": _of_rank(dims, reduced_strides, 0),
        "REDUCED": prod(reduced_sizes),
        "REDUCE_CHANNELS": int(channels),
    }
    if channels:
        defines["IN_CHANNELS"] = x.channels
    grid = make_grid(output.pixels, output.slices, node.limits)
    if x.kind == "int" or defines["COMBINE"] not in IN_ORDER:
        inputs = x.slices if channels else prod(reduced_sizes)
        grid = with_reduction_lanes(grid, inputs, node.limits)
    passes = prod(reduced_sizes) * (x.slices + 2 if channels else 1)
    dispatch = node.dispatch("reduce", (x,), output, grid, defines, passes=passes)
    if node.limits.profile.row_loops and not node.limits.profile.short_loops:
        return dispatch.sized(*("REDUCED", "IN_CHANNELS")[: 1 + channels])
    return dispatch


def _of_rank(dims: int, numbers: Shape, fill: int) -> Shape:
    """Pad `numbers` in front with `fill` to the length `dims`."""
    return (fill,) * (dims - len(numbers)) + numbers
