"""Ops along axes: reductions, softmax and norms, running sums."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import ceil, prod
from typing import Any

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import inputs, refuse_quantized, wrapped
from gles_delegate.ops.lib.grid import (
    by_texel,
    make_grid,
    pixel_grid,
    pixel_passes,
    with_reduction_lanes,
)
from gles_delegate.ops.lib.index import merged, normal_axis, rank_4, row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, constants
from gles_delegate.ops.lib.options import Bool, Float32, Int8, Int32, Longs, Options
from gles_delegate.ops.lib.regions import region
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import reshaped_as, same_texels
from gles_delegate.shaders.dispatch import (
    Call,
    Define,
    Dispatch,
    Grid,
    Kind,
    Operand,
    Shape,
    Step,
    Value,
    integer,
)

LEAST: dict[Kind, Define] = {"float": -3.402823466e38, "int": "(-0x7fffffff - 1)"}
MOST: dict[Kind, Define] = {"float": 3.402823466e38, "int": 0x7FFFFFFF}


@dataclass(frozen=True)
class Combination:
    """How a shader combines elements.

    Attributes:
        function: The macro or function of glsl/reduce.glsl or glsl/scatter.glsl.
        initial: The value before the first element.
        in_order: The result depends on the order of the elements if there are NaNs.
    """

    function: str
    initial: Mapping[Kind, Define]
    in_order: bool = False


SUM = Combination("SUM", {"float": 0, "int": 0})
PRODUCT = Combination("PRODUCT", {"float": 1, "int": 1})
LARGEST = Combination("LARGEST", LEAST, in_order=True)
SMALLEST = Combination("SMALLEST", MOST, in_order=True)


@dataclass(frozen=True, kw_only=True)
class Reduction(Dispatch):
    """A reduction of ``reads[0]``, or, with ``reads[1]``, of squared differences from it.

    Attributes:
        divisor: Number that results are divided by.
    """

    combination: Combination
    divisor: int


def reduced(shape: Shape, axes: Sequence[int]) -> Shape:
    """`shape` with ones at `axes`."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def reduction(
    node: NodeView,
    x: Operand,
    output: Value,
    axes: Sequence[int],
    combination: Combination,
    divisor: int = 1,
) -> Reduction:
    """Reduce `x` over `axes`; `output` has the same elements in any shape."""
    pixels = x.shape[:-1]
    strides = row_major(pixels)
    walk: Shape = tuple(n if axis in axes else 1 for axis, n in enumerate(pixels))
    sizes, kept_strides = merged(reduced(pixels, axes), strides)
    reduced_sizes, reduced_strides = merged(walk, strides)
    dims = max(len(sizes), len(reduced_sizes))
    channels = len(x.shape) - 1 in axes
    defines: dict[str, Define] = {
        "COMBINE": combination.function,
        "INITIAL": combination.initial[x.kind],
        "DIVISOR": divisor,
        "IN_PIXELS": x.pixels,
        "DIMS": dims,
        "SIZES": _of_rank(dims, sizes, 1),
        "STRIDES": _of_rank(dims, kept_strides, 0),
        "REDUCED_SIZES": _of_rank(dims, reduced_sizes, 1),
        "REDUCED_STRIDES": _of_rank(dims, reduced_strides, 0),
        "REDUCED": prod(reduced_sizes),
        "REDUCE_CHANNELS": int(channels),
        "SQUARES": 0,
    }
    if channels:
        defines["IN_CHANNELS"] = x.channels
    grid = _reduction_grid(x, output, axes, combination, node.limits)
    passes = prod(reduced_sizes) * (x.slices + 2 if channels else 1)
    dispatch = Reduction(
        node.index, "reduce", (x,), output, grid, defines, passes=passes,
        combination=combination, divisor=divisor,
    )  # fmt: skip
    if node.limits.profile.row_loops and not node.limits.profile.short_loops:
        return dispatch.sized("REDUCED", *(("IN_CHANNELS",) if channels else ()))
    return dispatch


def _reduction_grid(
    x: Operand, output: Value, axes: Sequence[int], combination: Combination, limits: Limits
) -> Grid:
    grid = make_grid(output.pixels, output.slices, limits)
    if x.kind != "int" and combination.in_order:
        return grid
    channels = len(x.shape) - 1 in axes
    shared = x.slices if channels else prod(x.shape[axis] for axis in axes)
    return with_reduction_lanes(grid, shared, limits)


def _of_rank(dims: int, numbers: Shape, fill: int) -> Shape:
    """Pad `numbers` in front with `fill` to the length `dims`."""
    return (fill,) * (dims - len(numbers)) + numbers


class CumsumOptions(Options):
    exclusive: Bool = False
    reverse: Bool = False


def _fold_cumsum(node: NodeView) -> Array | None:
    (x, axis), options = constants(node), CumsumOptions.read(node.node)
    if x.dtype.kind == "f":
        return None  # LiteRT adds floats in another order
    along = axis.item()
    turned = np.flip(x, along) if options.reverse else x
    sums = np.cumsum(turned, along, x.dtype) - (turned if options.exclusive else 0)
    return np.flip(sums, along) if options.reverse else sums


@op("CUMSUM", options=CumsumOptions, rows=rows.along_axes, fold=_fold_cumsum)
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


class ArgMaxOptions(Options):
    output_type: Int8 = 0


@op(
    "ARG_MAX", "ARG_MIN", max_version=3, options=ArgMaxOptions, rows=rows.along_axes,
    ends_networks=True,
)  # fmt: skip
def arg_max(node: NodeView, options: ArgMaxOptions) -> list[Step]:
    x = node.input(0, None)
    axis = _one_axis(node, len(x.shape))
    largest = node.op == "ARG_MAX"
    infinity = f"uintBitsToFloat({'0xff800000u' if largest else '0x7f800000u'})"
    if not x.shape[axis]:
        raise UnfitSizes("an axis of no elements")
    kept = x.shape[:axis] + x.shape[axis + 1 :]
    stored = node.graph.tensors[node.outputs[0]].dtype
    dtype = "int64" if stored == "int64" else "int32"
    output = node.output(kept, kind="int", dtype=dtype)
    if SCHEMA_NUMBERS[stored] != options.output_type:
        raise Unsupported(
            f"a result of {stored}, with the output_type {options.output_type}; expected the same"
        )
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
    return [dispatch, reshaped_as(node, result, output)]


def _one_axis(node: NodeView, rank: int) -> int:
    axes = node.array(1).ravel().tolist()
    if len(axes) != 1 or not rank:
        raise Unsupported(f"the axes {axes} of rank {rank}; expected one")
    return normal_axis(axes[0], rank)


def _walk(shape: Shape, axis: int) -> dict[str, Define]:
    return {
        "OVER_CHANNELS": int(axis == len(shape) - 1),
        "LENGTH": shape[axis],
        "STRIDE": prod(shape[axis + 1 : -1]),
    }


ENOUGH, ENOUGH_SHARED = 256, 64
"""Maximum elements that one invocation adds up, and one of several that share a result.

More are reduced dimension by dimension.
"""


class ReducerOptions(Options):
    keep_dims: Bool = False


_COMBINATIONS = {
    "MEAN": SUM,
    "SUM": SUM,
    "REDUCE_PROD": PRODUCT,
    "REDUCE_MAX": LARGEST,
    "REDUCE_MIN": SMALLEST,
    "REDUCE_ANY": Combination("LARGEST", {"int": 0}),
    "REDUCE_ALL": Combination("SMALLEST", {"int": 1}),
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
    combination, name = _COMBINATIONS[node.op], node.op
    axes = sorted({normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()})
    count = prod(x.shape[axis] for axis in axes)
    logical = name in ("REDUCE_ANY", "REDUCE_ALL")
    if (node.dtype(0) == "bool") != logical:
        raise Unsupported(f"input 0 is {'not ' * logical}bool")
    if name == "MEAN" and not count:
        raise UnfitSizes("the mean of no elements")
    if name == "MEAN" and x.kind == "int" and node.dtype(0) in ("int8", "uint8", "int16"):
        raise Unsupported(f"{node.dtype(0)} without a scale, of which LiteRT's mean is 0")
    kept = reduced(x.shape, axes)
    if not options.keep_dims:
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    output = node.output(kept, kind=x.kind, dtype=node.dtype(0))
    steps: list[Step] = []
    whole = node.scratch(reduced(x.shape, axes), "", x.kind)
    lanes = _reduction_grid(x, whole, axes, combination, node.limits).reduction_lanes
    is_long = count > (ENOUGH if lanes == 1 else ENOUGH_SHARED * lanes)
    stages = [[axis] for axis in reversed(axes)] if is_long else [axes]
    for i, stage in enumerate(stages):
        result = node.scratch(reduced(x.shape, stage), f"stage{i}", x.kind)
        last = stage is stages[-1]
        if last and same_texels(result, output):
            result = output
        divisor = count if last and name == "MEAN" else 1
        steps.append(reduction(node, x, result, stage, combination, divisor))
        x = result
    return steps if x == output else [*steps, reshaped_as(node, x, output)]


class StablehloReduceWindowOptions(Options):
    window_dimensions: Longs = ()
    window_strides: Longs = ()
    base_dilations: Longs = ()
    window_dilations: Longs = ()
    padding: Longs = ()
    body_subgraph_index: Int32 = 0


@op("STABLEHLO_REDUCE_WINDOW", options=StablehloReduceWindowOptions)
def reduce_window(node: NodeView, options: StablehloReduceWindowOptions) -> list[Step]:
    """The elements under windows, combined one after another with a first value."""
    refuse_quantized(node)
    x, initial = inputs(node, (0, 1), "float32", "int32", "int8", "uint8", "int16", "bool")
    shape, rank, dtype = x.shape, len(x.shape), node.dtype(0)
    window, strides, base = (
        options.window_dimensions, options.window_strides, options.base_dilations,
    )  # fmt: skip
    dilations, low, high = options.window_dilations, options.padding[::2], options.padding[1::2]
    lists = (window, strides, base, dilations, low, high)
    if (
        {*map(len, lists)} != {rank}
        or not rank
        or initial.elements != 1
        or min(*window, *strides, *base, *dilations) < 1
    ):
        raise Unsupported(f"{options} of {list(shape)} from {initial.elements} values")
    function = region(node, options.body_subgraph_index, dtype)
    if function == "LATER":
        raise Unsupported("a window of which the last element is taken")
    room = [
        (n - 1) * b + 1 + lo + hi - (w - 1) * d - 1 if n else -1
        for n, b, lo, hi, w, d in zip(shape, base, low, high, window, dilations, strict=True)
    ]
    sizes = tuple(max(r // s + 1, 0) for r, s in zip(room, strides, strict=True))
    along = (window[-1], strides[-1], base[-1], low[-1], high[-1]) != (1, 1, 1, 0, 0)
    dims = slice(None) if along or rank == 1 else slice(-1)
    defines: dict[str, Define] = {
        "COMBINE": function,
        "CHANNELS": int(along or rank == 1),
        "COUNT": prod(window),
        "DIMS": len(shape[dims]),
        "SIZES": sizes[dims],
        "IN_SIZES": shape[dims],
        "WINDOW": window[dims],
        "STRIDES": strides[dims],
        "DILATIONS": dilations[dims],
        "BASE": base[dims],
        "LOW": low[dims],
        "X_STRIDES": row_major(shape[dims]),
        "IN_PIXELS": x.pixels,
        "IN_CHANNELS": max(x.channels, 1),
    }
    output, passes = node.output(sizes, kind=x.kind, dtype=dtype), 4 * (prod(window) + 1)
    reads, epilogue = (x, initial), wrapped(dtype)
    return [by_texel(node, "reduce_window", reads, output, defines, epilogue, passes=passes)]


LARGEST_STEP = 5.0
"""Limit of an int16 step times beta, above which LiteRT's 32-bit integers overflow."""


class SoftmaxOptions(Options):
    beta: Float32 = 0.0


@op(
    "SOFTMAX", max_version=4, options=SoftmaxOptions, rows=rows.last_axis, results="shares",
    ends_networks=True,
)  # fmt: skip
def softmax(node: NodeView, options: SoftmaxOptions) -> list[Step]:
    _refuse_scalars(node)
    x = node.graph.tensors[node.inputs[0]]
    if x.dtype == "int16" and not abs(options.beta) * max(x.quantization.scales) < LARGEST_STEP:
        raise Unsupported(f"the beta {options.beta} of int16, for which LiteRT's integers overflow")
    output = node.graph.tensors[node.outputs[0]]
    if output.dtype == "uint8" and any(output.quantization.zero_points):
        raise Unsupported(
            f"a uint8 result with the zero point {output.quantization.zero_points[0]}, which "
            "LiteRT ignores; expected 0"
        )
    return _softmax(node, options.beta)


@op("LOG_SOFTMAX", max_version=2, rows=rows.last_axis)
def log_softmax(node: NodeView, options: Options) -> list[Step]:
    _refuse_scalars(node)
    return _softmax(node, 1.0, logarithm=True)


ROW_BLOCK = 4
"""Maximum texels of a row that an invocation of a softmax reads at once, and keeps in registers."""
ROW_PART = 1 << 11
"""Minimum number of slices of a part of a row that has its own work group."""
ROW_GROUPS = 64
"""Maximum number of work groups that share rows: enough to occupy a GPU."""


def _softmax(node: NodeView, beta: float, logarithm: bool = False) -> list[Step]:
    x = node.input(0)
    output = node.output(x.shape)
    whole = softmax_dispatch(node.index, x, output, node.limits, beta, logarithm)
    lanes = whole.grid.reduction_lanes
    parts = min(ROW_GROUPS // max(x.pixels, 1), x.slices // ROW_PART) if lanes > 1 else 1
    if parts < 2:
        return [whole]
    per_pass = integer(whole.defines["BLOCK"]) * lanes
    size = ceil(x.slices / (parts * per_pass)) * per_pass
    parts, passes = ceil(x.slices / size), pixel_passes(size, lanes)
    results = {**whole.defines, "PART": size, "ONE_BLOCK": 0, "PARTS": parts}
    defines = {name: value for name, value in results.items() if name not in RESULTS}
    sums = node.scratch((parts, x.pixels, 4), "sums", "int")
    grid = replace(whole.grid, pixels=sums.pixels)
    return [
        node.dispatch("softmax_part", (x,), sums, grid, defines, passes=passes),
        node.dispatch("softmax", (x, sums), output, grid, results, passes=parts + 1 + passes),
    ]


RESULTS = ("LOGARITHM", "ONE_BLOCK", "PARTS")
"""Defines of softmax.glsl that softmax_part.glsl does not have."""


def softmax_dispatch(
    node: int,
    x: Operand,
    output: Value,
    limits: Limits,
    beta: float = 1.0,
    logarithm: bool = False,
    epilogue: tuple[Call, ...] = (),
) -> Dispatch:
    """The softmax of each pixel's channels multiplied by `beta`, or its logarithm."""
    grid = pixel_grid(output, limits)
    lanes = grid.reduction_lanes
    block = min(ROW_BLOCK, max(1, ceil(x.slices / lanes)))
    even = int(x.channels % (4 * block * lanes) == 0)
    # Of one element, drivers simplify the logarithm of the exponential, and lose NaN.
    one_block = int(1 < x.channels <= 4 * block * lanes)
    defines: dict[str, Define] = {"BETA": beta, "BLOCK": block, "EVEN": even}
    defines |= x.size_defines("IN")
    defines |= {"LOGARITHM": int(logarithm), "ONE_BLOCK": one_block, "PARTS": 1}
    passes = pixel_passes(x.slices, lanes)
    return Dispatch(node, "softmax", (x,), output, grid, defines, epilogue, passes=passes)


class L2NormalizationOptions(Options):
    fused_activation: Int8 = 0


@op("L2_NORMALIZATION", max_version=2, options=L2NormalizationOptions, rows=rows.last_axis)
def l2_normalization(node: NodeView, options: L2NormalizationOptions) -> list[Step]:
    x = node.input(0)
    if options.fused_activation:
        raise Unsupported(f"the fused activation {options.fused_activation}, which LiteRT refuses")
    output = node.output(x.shape)
    grid = pixel_grid(output, node.limits)
    passes = pixel_passes(output.slices, grid.reduction_lanes)
    return [node.dispatch("l2_normalization", (x,), output, grid, {}, passes=passes)]


def _refuse_scalars(node: NodeView) -> None:
    if not node.shape(0):
        raise Unsupported("a scalar; expected at least rank 1")


class LocalResponseNormalizationOptions(Options):
    radius: Int32 = 0
    bias: Float32 = 0.0
    alpha: Float32 = 0.0
    beta: Float32 = 0.0


@op("LOCAL_RESPONSE_NORMALIZATION", options=LocalResponseNormalizationOptions, rows=rows.images)
def local_response_normalization(
    node: NodeView, options: LocalResponseNormalizationOptions
) -> list[Step]:
    x = node.input(0)
    rank_4(x.shape, "input 0")
    if options.radius < 0:
        raise Unsupported(f"the radius {options.radius}; expected 0 or more channels")
    output = node.output(x.shape)
    radius = min(options.radius, x.channels)
    defines: dict[str, Define] = {
        "RADIUS": radius,
        "BIAS": options.bias,
        "ALPHA": options.alpha,
        "BETA": options.beta,
    }
    passes = 4 * (min(2 * radius + 1, x.channels) + 2)
    shader = "local_response_normalization"
    return [by_texel(node, shader, (x,), output, defines, passes=passes)]
