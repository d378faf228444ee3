"""Ops on the diagonals of matrices: MATRIX_DIAG and MATRIX_SET_DIAG."""

from __future__ import annotations

from gles_delegate.dispatch import Define, Operand, Shape, Step
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import moved_output


@op("MATRIX_DIAG")
def matrix_diag(node: NodeView, options: Options) -> list[Step]:
    diagonal = node.input(0, None)
    tensor = node.graph.tensors[node.inputs[0]]
    if tensor.is_quantized and any(tensor.quantization.zero_points):
        raise Unsupported(
            f"the zero point {tensor.quantization.zero_points[0]}; expected 0, which LiteRT stores "
            "off the diagonal"
        )
    return _with_diagonal(node, diagonal, (*diagonal.shape, *diagonal.shape[-1:]))


@op("MATRIX_SET_DIAG")
def matrix_set_diag(node: NodeView, options: Options) -> list[Step]:
    x, diagonal = node.input(0, None), node.input(1, None)
    if len(x.shape) < 2 or diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise Unsupported(f"a diagonal of shape {list(diagonal.shape)} for {list(x.shape)}")
    moved_output(node, x, x.shape)
    return _with_diagonal(node, diagonal, x.shape, x)


def _with_diagonal(node: NodeView, diagonal: Operand, shape: Shape, *matrix: Operand) -> list[Step]:
    """Matrices with this diagonal, and the elements of `matrix`, or 0, beside it."""
    if not diagonal.shape or node.dtype(0) == "bool":
        raise Unsupported(
            f"a {node.dtype(0)} diagonal of shape {list(diagonal.shape)}; expected numbers, of "
            "rank 1 or more (LiteRT takes bool for float32)"
        )
    output = moved_output(node, diagonal, shape)
    defines: dict[str, Define] = {
        "ROWS": shape[-2],
        "DIAGONAL_PIXELS": diagonal.pixels,
        "HAS_MATRIX": len(matrix),
    }
    grid = make_grid(output.pixels, output.slices, node.limits)
    return [node.dispatch("matrix_diag", (diagonal, *matrix), output, grid, defines)]
