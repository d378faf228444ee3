"""RFFT2D, and what becomes of complex numbers.

A complex tensor is a value with the real parts of all elements, then the imaginary ones; see
`NodeView.complex_input`.
"""

from __future__ import annotations

from math import ceil, prod

import numpy as np

from gles_delegate.dispatch import Const, Define, Operand, Step, Value
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Region, View, view

MOST_POINTS = 1 << 20


@op("RFFT2D", sized_by=(1,))
def rfft2d(node: NodeView, options: Options) -> list[Step]:
    """Transform the rows, and if the height is not 1, the columns of the result."""
    x = node.input(0)
    lengths = node.array(1).ravel().tolist()
    if node.dtype(0) != "float32" or len(x.shape) < 2 or len(lengths) != 2:
        raise Unsupported(
            f"an input of {node.dtype(0)} and shape {list(x.shape)} and the lengths {lengths}; "
            "expected float32, rank 2 or more and two lengths"
        )
    height, width = lengths
    if min(height, width - 1) < 1 or height & (height - 1) or width & (width - 1):
        raise Unsupported(f"the lengths {lengths}; expected powers of two, and a width above 1")
    if max(height, width) > MOST_POINTS:
        raise Unsupported(f"the lengths {lengths}; expected at most {MOST_POINTS}")
    *batches, rows, columns = x.shape
    batch, bins = prod(batches), width // 2 + 1
    index, limits = node.index, node.limits
    steps: list[Step] = []
    if rows != height or columns < width:
        size = (batch, height, width)
        fitted = node.scratch(size, "fitted")
        how = View(size, (rows * columns, columns, 1), 0, (0, 0, 0), (batch, rows, columns))
        steps.append(view(x, fitted, how, limits, index))
        x, columns = fitted, width
    output = node.complex_output((*batches, height, bins))
    result = output if height == 1 else node.scratch((2, batch, height, bins), "of_rows")
    transform_rows(node, x, columns, width, result, steps)
    if height > 1:
        _transform_columns(node, result, output, (batch, height, bins), steps)
    return steps


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


def _transform_columns(
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
    """The table of so many angles, which make a turn."""
    return Const(turn_table, (), (count, 4), (count,))


def turn_table(count: int) -> Array:
    """[count, 4]: the cosine and the sine of each angle, and zeros."""
    angles = 2 * np.pi / count * np.arange(count)
    zeros = np.zeros(count)
    return np.stack([np.cos(angles), np.sin(angles), zeros, zeros], 1)


@op("REAL", "IMAG", rows=rows.elementwise)
def part(node: NodeView, options: Options) -> list[Step]:
    x = node.complex_input(0)
    output = node.output(node.shape(0))
    first = output.elements if node.op == "IMAG" else 0
    how = View((output.elements,), (1,), first)
    return [view(x, output, how, node.limits, node.index)]


@op("COMPLEX_ABS", rows=rows.elementwise)
def complex_abs(node: NodeView, options: Options) -> list[Step]:
    x = node.complex_input(0)
    output = node.output(node.shape(0))
    grid = make_grid(output.pixels, output.slices, node.limits)
    return [node.dispatch("complex_abs", (x,), output, grid, {})]
