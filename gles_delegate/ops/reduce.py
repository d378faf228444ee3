"""Reductions and SOFTMAX."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Define, Dispatch, Operand, Shape, Step, Value
from gles_delegate.ops.grid import make_grid
from gles_delegate.ops.movement import reshape_view
from gles_delegate.ops.registry import Bool, Float32, NodeView, Options, Unsupported, op
from gles_delegate.ops.strides import merged, normal_axis, row_major

ENOUGH = 256
"""Elements that one invocation may add up; more are reduced one dimension after the other."""


@dataclass(frozen=True)
class SoftmaxOptions(Options):
    beta: Float32 = 0.0


@op("SOFTMAX", max_version=4, options=SoftmaxOptions)
def softmax(node: NodeView, options: SoftmaxOptions) -> list[Step]:
    x = node.input(0)
    if not x.shape:
        raise Unsupported("a scalar; expected at least rank 1")
    output = node.output(x.shape)
    grid = make_grid(output.pixels, 1, node.limits)
    return [Dispatch(node.node.index, "softmax", (x,), output, grid, {"BETA": options.beta})]


@dataclass(frozen=True)
class ReducerOptions(Options):
    keep_dims: Bool = False


@op("MEAN", max_version=3, options=ReducerOptions)
def mean(node: NodeView, options: ReducerOptions) -> list[Step]:
    x = node.input(0)
    axes = sorted({normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()})
    count = prod(x.shape[axis] for axis in axes)
    if not count:
        raise Unsupported("the mean of no elements")
    if not options.keep_dims:
        shape = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    else:
        shape = tuple(1 if axis in axes else n for axis, n in enumerate(x.shape))
    output = node.output(shape)
    stages = [axes] if count <= ENOUGH else [[axis] for axis in reversed(axes)]
    steps: list[Step] = []
    source: Operand = x
    for i, stage in enumerate(stages):
        kept = tuple(1 if axis in stage else n for axis, n in enumerate(source.shape))
        result = node.scratch(kept, f"stage{i}")
        finish = 1.0 / count if stage is stages[-1] else 1.0
        steps.append(_sum(node, source, result, stage, finish))
        source = result
    return [*steps, reshape_view(node.node.index, source, output, node.limits)]


def _sum(node: NodeView, x: Operand, output: Value, axes: list[int], finish: float) -> Dispatch:
    """`finish` times the sums over `axes`, which become dimensions of 1."""
    pixels, reduced = output.shape[:-1], [axis for axis in axes if axis < len(x.shape) - 1]
    strides = row_major(x.shape[:-1])
    walk: Shape = tuple(x.shape[axis] if axis in reduced else 1 for axis in range(len(pixels)))
    sizes, kept_strides = merged(pixels, strides)
    reduced_sizes, reduced_strides = merged(walk, strides)
    channels = len(x.shape) - 1 in axes
    defines: dict[str, Define] = {
        "IN_PIXELS": x.pixels,
        "DIMS": len(sizes),
        "SIZES": sizes,
        "STRIDES": kept_strides,
        "REDUCED_DIMS": len(reduced_sizes),
        "REDUCED_SIZES": reduced_sizes,
        "REDUCED_STRIDES": reduced_strides,
        "REDUCED": prod(reduced_sizes),
        "REDUCED_SLICES": x.slices if channels else 1,
        "REDUCE_CHANNELS": int(channels),
        "FINISH": finish,
    }
    grid = make_grid(output.pixels, output.slices, node.limits)
    return Dispatch(node.node.index, "reduce", (x,), output, grid, defines)
