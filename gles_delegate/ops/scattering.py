"""Ops that put elements where indices say: SCATTER_ND, SEGMENT_SUM and unsorted segments."""

from __future__ import annotations

from math import prod

from gles_delegate.dispatch import Call, Define, Operand, Shape, Step
from gles_delegate.ops.elementwise import inputs, refuse_quantized
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.registry import NodeView, Options, Unsupported, one_integer, op
from gles_delegate.ops.lib.strides import row_major
from gles_delegate.ops.lib.views import reshape_view
from gles_delegate.ops.reduce import LEAST, MOST, Reduction

_REDUCTIONS = {
    "UNSORTED_SEGMENT_SUM": Reduction("SUM", {"float": 0, "int": 0}),
    "UNSORTED_SEGMENT_PROD": Reduction("PRODUCT", {"float": 1, "int": 1}),
    "UNSORTED_SEGMENT_MAX": Reduction("LARGEST", LEAST),
    "UNSORTED_SEGMENT_MIN": Reduction("SMALLEST", MOST),
}
_SUM = _REDUCTIONS["UNSORTED_SEGMENT_SUM"]


@op("SCATTER_ND")
def scatter_nd(node: NodeView, options: Options) -> list[Step]:
    """The sums of the updates that go to the same place."""
    shape = tuple(node.array(2).ravel().tolist())
    refuse_quantized(node)
    (updates,) = inputs(node, (1,), "float32", "int32", "int8", "uint8")
    indices = node.shape(0)
    depth = indices[-1] if indices else 0
    if not 0 < depth <= len(shape) or updates.shape != (*indices[:-1], *shape[depth:]):
        raise Unsupported(
            f"updates of shape {list(updates.shape)} by indices of shape {list(indices)} into "
            f"{list(shape)}"
        )
    return _scattered(node, 0, updates, shape, depth, _SUM)


@op("SEGMENT_SUM")
def segment_sum(node: NodeView, options: Options) -> list[Step]:
    ids = node.array(1)
    (x,) = inputs(node, (0,), "float32", "int32")
    steps = (ids[1:] - ids[:-1]).ravel()
    if ids.ndim != 1 or ids[:1].any() or ((steps < 0) | (steps > 1)).any():
        raise Unsupported(f"the segments {ids.tolist()}; expected 0 and then the same or the next")
    return _segments(node, x, int(ids.max(initial=-1)) + 1, _SUM)


@op(*_REDUCTIONS)
def unsorted_segments(node: NodeView, options: Options) -> list[Step]:
    count = one_integer(node, 2, "the number of segments")
    (x,) = inputs(node, (0,), "float32", "int32")
    if count < 0:
        raise Unsupported(f"{count} segments")
    return _segments(node, x, count, _REDUCTIONS[node.op])


def _segments(node: NodeView, x: Operand, count: int, reduction: Reduction) -> list[Step]:
    refuse_quantized(node)
    if not x.shape or node.shape(1) != x.shape[:1]:
        raise Unsupported(f"segments of shape {list(node.shape(1))} for {list(x.shape)}")
    return _scattered(node, 1, x, (count, *x.shape[1:]), 1, reduction)


def _scattered(
    node: NodeView, i: int, x: Operand, shape: Shape, depth: int, reduction: Reduction
) -> list[Step]:
    """Combine in the output, of `shape`, what of `x` goes to each place of its axes up to `depth`.

    Args:
        i: Which input the indices are; negative ones of segments go nowhere.
    """
    indices, dtype = node.input(i, "int"), node.dtype(1 - i)
    if node.dtype(i) != "int32":
        raise Unsupported(f"{node.dtype(i)} indices; expected int32")
    sizes, inner = shape[:depth], prod(shape[depth:])
    if node.is_constant(i):
        found = node.array(i).reshape(-1, depth)
        if ((found >= sizes) | (found < 0) & (node.op == "SCATTER_ND")).any():
            raise Unsupported(f"indices outside the sizes {list(sizes)} that they count in")
    output = node.output(shape, kind=x.kind, dtype=dtype)
    count = indices.elements // depth
    rows = node.scratch((count, inner), "rows", x.kind)
    result = node.scratch((prod(sizes), inner), "result", x.kind)
    defines: dict[str, Define] = {
        "COMBINE": reduction.combine,
        "INITIAL": reduction.initial[x.kind],
        "COUNT": count,
        "INDEX_CHANNELS": max(indices.channels, 1),
        "INDEX_PIXELS": indices.pixels,
        "DEPTH": depth,
        "AXIS_SIZES": sizes,
        "AXIS_STRIDES": row_major(sizes),
    }
    grid = make_grid(result.pixels, result.slices, node.limits)
    wrapped = (Call(f"CAST_TO_{dtype.upper()}"),) if dtype in ("int8", "uint8") else ()
    return [
        reshape_view(node.index, x, rows, node.limits),
        node.dispatch("scatter", (rows, indices), result, grid, defines, wrapped, passes=count),
        reshape_view(node.index, result, output, node.limits),
    ]
