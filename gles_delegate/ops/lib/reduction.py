"""Reductions along axes, by glsl/reduce.glsl."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Define, Dispatch, Kind, Operand, Shape, Value
from gles_delegate.ops.lib.grid import make_grid, with_reduction_lanes
from gles_delegate.ops.lib.index import merged, row_major
from gles_delegate.ops.lib.node import NodeView

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
    """A reduction of ``reads[0]``.

    Attributes:
        divisor: What the result is divided by.
        over_channels: Each result combines the channels of one pixel.
    """

    combination: Combination
    divisor: int
    over_channels: bool


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
    }
    if channels:
        defines["IN_CHANNELS"] = x.channels
    grid = make_grid(output.pixels, output.slices, node.limits)
    if x.kind == "int" or not combination.in_order:
        inputs = x.slices if channels else prod(reduced_sizes)
        grid = with_reduction_lanes(grid, inputs, node.limits)
    passes = prod(reduced_sizes) * (x.slices + 2 if channels else 1)
    dispatch = Reduction(
        node.index, "reduce", (x,), output, grid, defines, passes=passes,
        combination=combination, divisor=divisor,
        over_channels=channels and prod(reduced_sizes) == 1,
    )  # fmt: skip
    if node.limits.profile.row_loops and not node.limits.profile.short_loops:
        return dispatch.sized(*("REDUCED", "IN_CHANNELS")[: 1 + channels])
    return dispatch


def _of_rank(dims: int, numbers: Shape, fill: int) -> Shape:
    """Pad `numbers` in front with `fill` to the length `dims`."""
    return (fill,) * (dims - len(numbers)) + numbers
