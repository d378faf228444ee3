"""Fast Fourier transforms along the axes of matrices, by glsl/fft_stage.glsl."""

from __future__ import annotations

from math import ceil

import numpy as np

from gles_delegate.dispatch import Const, Define, Operand, Step, Value
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView
from gles_delegate.ops.lib.views import Region, View, view

MOST_POINTS = 1 << 20


def transform_rows(
    node: NodeView, x: Operand, columns: int, width: int, result: Value, steps: list[Step]
) -> None:
    """Append the steps that transform the first `width` elements of each row of `columns`.

    Args:
        result: A complex value.
    """
    rows, points = result.pixels // 2, width // 2
    groups = ceil(rows / 4)
    work = node.scratch((groups, points, 8), "rows")
    # Of each row, the even elements are the real parts, and the odd ones the imaginary parts.
    pairs = View((groups, points, 2, 4), (4 * columns, 2, 1, columns))
    steps.append(view(x, work, pairs, node.limits, node.index))
    table = turns(width)
    work = _transform(node, work, table, width, steps)
    defines: dict[str, Define] = {"POINTS": points, "ROWS": rows, "GROUPS": groups}
    grid = make_grid(rows, result.slices, node.limits)
    steps.append(node.dispatch("fft_real", (work, table), result, grid, defines).sized(*defines))


def transform_columns(
    node: NodeView, rows: Value, output: Value, size: tuple[int, int, int], steps: list[Step]
) -> None:
    """Append the steps that transform the columns of a complex value of that size."""
    batch, height, bins = size
    slices = rows.slices
    index, limits = node.index, node.limits
    work = node.scratch((batch * slices, height, 8), "columns")
    parts = work.pixels
    for part in range(2):
        # Lanes past the last column are transformed, too.
        first = part * batch * height * bins
        lanes = View((batch, slices, height, 4), (height * bins, 4, bins, 1), first)
        region = Region(parts, 4, parts, parts, out_channel=4 * part)
        steps.append(view(rows, work, lanes, limits, index, region))
    work = _transform(node, work, turns(height), height, steps)
    wide = node.scratch((2, batch, height, 4 * slices), "wide")
    back = View((2, batch, height, slices, 4), (4, slices * height * 8, 8, height * 8, 1))
    steps.append(view(work, wide, back, limits, index))
    cut = View((2 * batch * height, bins), (4 * slices, 1))
    steps.append(view(wide, output, cut, limits, index))


def _transform(node: NodeView, work: Value, table: Const, angles: int, steps: list[Step]) -> Value:
    """Append the stages of glsl/fft_stage.glsl; return what the last one writes."""
    groups, points, _ = work.shape
    span = 1
    while span < points:
        radix = 4 if points // span % 4 == 0 else 2
        result = node.scratch(work.shape, f"{work.part}{span}")
        defines: dict[str, Define] = {
            "RADIX": radix,
            "POINTS": points,
            "SPAN": span,
            "TWIDDLE": angles // (span * radix),
            "GROUPS": groups,
        }
        grid = make_grid(groups * points // radix, 1, node.limits)
        stage = node.dispatch("fft_stage", (work, table), result, grid, defines)
        steps.append(stage.sized("POINTS", "SPAN", "TWIDDLE", "GROUPS"))
        work, span = result, span * radix
    return work


def turns(count: int) -> Const:
    """The table of `count` angles, which make a turn."""
    return Const(turn_table, (), (count, 4), (count,))


def turn_table(count: int) -> Array:
    """[count, 4]: the cosine and the sine of each angle, and zeros."""
    angles = 2 * np.pi / count * np.arange(count)
    zeros = np.zeros(count)
    return np.stack([np.cos(angles), np.sin(angles), zeros, zeros], 1)
