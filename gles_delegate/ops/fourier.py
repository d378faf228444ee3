"""RFFT2D, and ops on its complex results."""

from __future__ import annotations

from math import prod

from gles_delegate.dispatch import Step
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.complex import complex_input, complex_output
from gles_delegate.ops.lib.fourier import MOST_POINTS, transform_columns, transform_rows
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, view


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
        layout = View(size, (rows * columns, columns, 1), 0, (0, 0, 0), (batch, rows, columns))
        steps.append(view(x, fitted, layout, limits, index))
        x, columns = fitted, width
    output = complex_output(node, (*batches, height, bins))
    result = output if height == 1 else node.scratch((2, batch, height, bins), "of_rows")
    transform_rows(node, x, columns, width, result, steps)
    if height > 1:
        transform_columns(node, result, output, (batch, height, bins), steps)
    return steps


@op("REAL", "IMAG", rows=rows.elementwise)
def part(node: NodeView, options: Options) -> list[Step]:
    x = complex_input(node)
    output = node.output(node.shape(0))
    first = output.elements if node.op == "IMAG" else 0
    layout = View((output.elements,), (1,), first)
    return [view(x, output, layout, node.limits, node.index)]


@op("COMPLEX_ABS", rows=rows.elementwise)
def complex_abs(node: NodeView, options: Options) -> list[Step]:
    x = complex_input(node)
    output = node.output(node.shape(0))
    return [by_texel(node, "complex_abs", (x,), output, {})]
