"""BATCH_MATMUL."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, prod

from gles_delegate.dispatch import Define, Operand, Step
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import broadcast_shapes, broadcast_strides, merged
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Bool, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import Rows
from gles_delegate.ops.lib.tiles import Tile
from gles_delegate.ops.lib.views import View, view


@dataclass(frozen=True)
class BatchMatMulOptions(Options):
    adj_x: Bool = False
    adj_y: Bool = False


def _multiplies_within_rows(batch: Rows, options: BatchMatMulOptions) -> bool:
    return len(batch.shapes[-1]) > 2 and rows.elementwise(batch, options)


@op(
    "BATCH_MATMUL", max_version=4, options=BatchMatMulOptions, rows=_multiplies_within_rows,
    results="unbounded",
)  # fmt: skip
def batch_matmul(node: NodeView, options: BatchMatMulOptions) -> list[Step]:
    a, b = node.input(0), node.input(1, may_have_scales=True)
    if min(len(a.shape), len(b.shape)) < 2:
        raise Unsupported(f"the shapes {list(a.shape)} and {list(b.shape)}; expected matrices")
    steps: list[Step] = []
    if options.adj_x:
        a, transposition = _transposed(node, a)
        steps.append(transposition)
    rows, depth = a.shape[-2:]
    columns, b_depth = b.shape[-2:] if options.adj_y else b.shape[:-3:-1]
    if depth != b_depth:
        raise Unsupported(f"rows of {depth} elements on columns of {b_depth}")
    batches = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    output = node.output((*batches, rows, columns))
    sizes, a_strides, b_strides = merged(
        batches, broadcast_strides(a.shape[:-2], batches), broadcast_strides(b.shape[:-2], batches)
    )
    others = node.limits.profile.others
    tile = Tile.choose(rows, output.slices, ceil(depth / 4), node.limits, node.choice, others)
    tiles = ceil(rows / tile.pixels)
    defines: dict[str, Define] = {
        "BATCHES": prod(batches),
        "DIMS": len(sizes),
        "SIZES": sizes,
        "A_STRIDES": a_strides,
        "B_STRIDES": b_strides,
        "A_PIXELS": a.pixels,
        "B_PIXELS": b.pixels,
        "ROWS": rows,
        "B_ROWS": b.shape[-2],
        "DEPTH": depth,
        "B_ADJOINT": int(options.adj_y),
        "TILES": tiles,
        "PIXELS": tile.pixels,
        "SLICES": tile.slices,
    }
    grid = tile.grid(prod(batches) * tiles, ceil(output.slices / tile.slices))
    flops = 2 * output.elements * depth
    dispatch = node.dispatch(
        "batch_matmul", (a, b), output, grid, defines, flops=flops, passes=ceil(depth / 4)
    )
    return [*steps, dispatch if node.limits.profile.short_loops else dispatch.sized("DEPTH")]


def _transposed(node: NodeView, x: Operand) -> tuple[Operand, Step]:
    """Swap the last two dimensions."""
    *batches, rows, columns = x.shape
    result = node.scratch((*batches, columns, rows), "transposed")
    how = View((prod(batches), columns, rows), (rows * columns, 1, columns))
    return result, view(x, result, how, node.limits, node.index)
