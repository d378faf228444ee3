"""Ops along axes: reductions, running sums, and what divides channels by a sum over them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Define, Dispatch, Grid, Kind, Operand, Shape, Step, Value
from gles_delegate.limits import Limits
from gles_delegate.ops.grid import WORK_GROUP, make_grid
from gles_delegate.ops.movement import reshape_view, same_texels
from gles_delegate.ops.registry import Bool, Float32, NodeView, Options, Unsupported, op
from gles_delegate.ops.strides import merged, normal_axis, row_major

ENOUGH = 256
"""Elements that one invocation may add up; more are reduced one dimension after the other."""

MANY_SLICES = 16
"""From here on a work group shares the channels of a pixel, where it runs in parallel ..."""

VERY_MANY_SLICES = 512
"""... and from here on, for each pixel, where it is a loop over SIMD vectors (by measurement)."""


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    beta: Float32 = 0.0


@op("SOFTMAX", max_version=4, options=SoftmaxOptions)
def softmax(node: NodeView, options: SoftmaxOptions) -> list[Step]:
    if not node.shape(0):
        raise Unsupported("a scalar; expected at least rank 1")
    return [_over_channels(node, "softmax", {"BETA": options.beta, "LOGARITHM": 0})]


@op("LOG_SOFTMAX", max_version=2)
def log_softmax(node: NodeView, options: Options) -> list[Step]:
    return [_over_channels(node, "softmax", {"BETA": 1.0, "LOGARITHM": 1})]


@op("L2_NORMALIZATION", max_version=2)
def l2_normalization(node: NodeView, options: Options) -> list[Step]:
    return [_over_channels(node, "l2_normalization", {})]


def _over_channels(node: NodeView, shader: str, defines: dict[str, Define]) -> Dispatch:
    """A shader whose work groups each see all channels of their pixels."""
    x = node.input(0)
    output = node.output(x.shape)
    grid = _pixel_grid(output, node.limits)
    return Dispatch(node.node.index, shader, (x,), output, grid, defines)


def _pixel_grid(output: Value, limits: Limits) -> Grid:
    """An invocation for each pixel; a work group where there are many slices and few pixels."""
    enough = VERY_MANY_SLICES * output.pixels if limits.cpu else MANY_SLICES
    if output.slices < enough or output.pixels > 4 * WORK_GROUP:
        return make_grid(output.pixels, 1, limits)
    return Grid(output.pixels, WORK_GROUP, 1, WORK_GROUP, True)


@dataclass(frozen=True)
class ReducerOptions(Options):
    keep_dims: Bool = False


@dataclass(frozen=True)
class Reduction:
    """How glsl/reduce.glsl combines elements, and what it starts from."""

    combine: str
    initial: dict[Kind, Define]


_LEAST: dict[Kind, Define] = {"float": -3.402823466e38, "int": "(-0x7fffffff - 1)"}
_MOST: dict[Kind, Define] = {"float": 3.402823466e38, "int": 0x7FFFFFFF}
_REDUCTIONS = {
    "MEAN": Reduction("SUM", {"float": 0, "int": 0}),
    "SUM": Reduction("SUM", {"float": 0, "int": 0}),
    "REDUCE_PROD": Reduction("PRODUCT", {"float": 1, "int": 1}),
    "REDUCE_MAX": Reduction("LARGEST", _LEAST),
    "REDUCE_MIN": Reduction("SMALLEST", _MOST),
    "REDUCE_ANY": Reduction("LARGEST", {"int": 0}),
    "REDUCE_ALL": Reduction("SMALLEST", {"int": 1}),
}


@op("MEAN", "REDUCE_MAX", "REDUCE_MIN", max_version=3, options=ReducerOptions)
@op("SUM", "REDUCE_PROD", max_version=2, options=ReducerOptions)
@op("REDUCE_ANY", "REDUCE_ALL", max_version=1, options=ReducerOptions)
def reduce(node: NodeView, options: ReducerOptions) -> list[Step]:
    x = node.input(0, None)
    reduction, name = _REDUCTIONS[node.node.op], node.node.op
    logical = name in ("REDUCE_ANY", "REDUCE_ALL")
    if (node.graph.tensors[node.node.inputs[0]].dtype == "bool") != logical:
        raise Unsupported(f"input 0 is {'not ' * logical}bool")
    axes = sorted({normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()})
    count = prod(x.shape[axis] for axis in axes)
    if name == "MEAN" and not count:
        raise Unsupported("the mean of no elements")
    kept = _reduced(x.shape, axes)
    if not options.keep_dims:
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    output = node.output(kept, kind=x.kind)
    stages = [axes] if count <= ENOUGH else [[axis] for axis in reversed(axes)]
    steps: list[Step] = []
    for i, stage in enumerate(stages):
        result = node.scratch(_reduced(x.shape, stage), f"stage{i}", x.kind)
        last = stage is stages[-1]
        if last and same_texels(result, output):
            result = output
        defines: dict[str, Define] = {
            "COMBINE": reduction.combine,
            "INITIAL": reduction.initial[x.kind],
            "DIVISOR": count if last and name == "MEAN" else 1,
        }
        steps.append(_stage(node, x, result, stage, defines))
        x = result
    return steps if x == output else [*steps, reshape_view(node.node.index, x, output, node.limits)]


def _reduced(shape: Shape, axes: list[int]) -> Shape:
    """`shape` with ones at `axes`."""
    return tuple(1 if axis in axes else n for axis, n in enumerate(shape))


def _stage(
    node: NodeView, x: Operand, output: Value, axes: list[int], defines: dict[str, Define]
) -> Dispatch:
    """The reduction of `x` over `axes`; `output` has just its elements, whatever its shape."""
    pixels = x.shape[:-1]
    strides = row_major(pixels)
    walk: Shape = tuple(n if axis in axes else 1 for axis, n in enumerate(pixels))
    sizes, kept_strides = merged(_reduced(pixels, axes), strides)
    reduced_sizes, reduced_strides = merged(walk, strides)
    channels = len(x.shape) - 1 in axes
    defines = {
        **defines,
        "IN_PIXELS": x.pixels,
        "DIMS": len(sizes),
        "SIZES": sizes,
        "STRIDES": kept_strides,
        "REDUCED_DIMS": len(reduced_sizes),
        "REDUCED_SIZES": reduced_sizes,
        "REDUCED_STRIDES": reduced_strides,
        "REDUCED": prod(reduced_sizes),
        "REDUCE_CHANNELS": int(channels),
    }
    if channels:
        defines["IN_CHANNELS"] = x.channels
    grid = make_grid(output.pixels, output.slices, node.limits)
    return Dispatch(node.node.index, "reduce", (x,), output, grid, defines)


@op("ARG_MAX", "ARG_MIN", max_version=3)
def arg_max(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    axis = _one_axis(node, len(x.shape))
    largest = node.node.op == "ARG_MAX"
    infinity = f"uintBitsToFloat({'0xff800000u' if largest else '0x7f800000u'})"
    if not x.shape[axis]:
        raise Unsupported("an axis of no elements")
    output = node.output(x.shape[:axis] + x.shape[axis + 1 :], kind="int")
    places = node.scratch(_reduced(x.shape, [axis]), "places", "int")
    places = output if same_texels(places, output) else places
    defines: dict[str, Define] = {
        "BEST": "LARGEST" if largest else "SMALLEST",
        "WORST": infinity if x.kind == "float" else (_LEAST if largest else _MOST)["int"],
        "IN_PIXELS": x.pixels,
        **_walk(x.shape, axis),
    }
    grid = make_grid(places.pixels, places.slices, node.limits)
    dispatch = Dispatch(node.node.index, "arg_max", (x,), places, grid, defines)
    if places == output:
        return [dispatch]
    return [dispatch, reshape_view(node.node.index, places, output, node.limits)]


@dataclass(frozen=True)
class CumsumOptions(Options):
    exclusive: Bool = False
    reverse: Bool = False


@op("CUMSUM", max_version=1, options=CumsumOptions)
def cumsum(node: NodeView, options: CumsumOptions) -> list[Step]:
    x = node.input(0, None)
    axis = _one_axis(node, len(x.shape))
    output = node.output(x.shape, kind=x.kind)
    lines, slices = output.pixels // max(x.shape[axis], 1), output.slices
    if axis == len(x.shape) - 1:
        lines, slices = output.pixels, 1
    defines: dict[str, Define] = {
        "EXCLUSIVE": int(options.exclusive),
        "REVERSE": int(options.reverse),
        "LINES": lines,
        "LINE_SLICES": slices,
        **_walk(x.shape, axis),
    }
    grid = make_grid(lines, slices, node.limits)
    return [Dispatch(node.node.index, "cumsum", (x,), output, grid, defines)]


def _one_axis(node: NodeView, rank: int) -> int:
    axes = node.array(1).ravel().tolist()
    if len(axes) != 1 or not rank:
        raise Unsupported(f"the axes {axes} of rank {rank}; expected one")
    return normal_axis(axes[0], rank)


def _walk(shape: Shape, axis: int) -> dict[str, Define]:
    """Where the elements along an axis lie."""
    over_channels = axis == len(shape) - 1
    return {
        "OVER_CHANNELS": int(over_channels),
        "LENGTH": shape[axis],
        "STRIDE": prod(shape[axis + 1 : -1]),
    }
