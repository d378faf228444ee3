"""Ops that write elements by index: SCATTER_ND, SPARSE_TO_DENSE and segments."""

from __future__ import annotations

from math import ceil, prod
from typing import Any

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.axis import LARGEST, LEAST, PRODUCT, SMALLEST, SUM, Combination
from gles_delegate.ops.lib.elementwise import inputs, refuse_quantized, wrapped
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, constants, one_integer
from gles_delegate.ops.lib.options import Bool, Int32, Longs, Options, Uint64
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.regions import region
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, reshaped_as, viewed
from gles_delegate.shaders.dispatch import Const, Define, Operand, Shape, Step

_COMBINATIONS = {
    "UNSORTED_SEGMENT_SUM": SUM,
    "UNSORTED_SEGMENT_PROD": PRODUCT,
    "UNSORTED_SEGMENT_MAX": LARGEST,
    "UNSORTED_SEGMENT_MIN": SMALLEST,
}
_FOLDS: dict[str, Any] = {"SUM": np.add, "PROD": np.multiply, "MAX": np.maximum, "MIN": np.minimum}


@op("SCATTER_ND", sized_by=(2,))
def scatter_nd(node: NodeView, options: Options) -> list[Step]:
    """The sums of updates with the same index."""
    shape = tuple(node.array(2).ravel().tolist())
    refuse_quantized(node)
    (updates,) = inputs(node, (1,), "float32", "int32", "int8", "uint8")
    indices = node.shape(0)
    depth = indices[-1] if indices else 0
    if not 0 < depth <= len(shape) or updates.shape != (*indices[:-1], *shape[depth:]):
        raise UnfitSizes(
            f"updates of shape {list(updates.shape)} by indices of shape {list(indices)} into "
            f"{list(shape)}"
        )
    return _scattered(node, (0, 1), updates, shape, depth, SUM)


@op("SPARSE_TO_DENSE", max_version=3, sized_by=(1,))
def sparse_to_dense(node: NodeView, options: Options) -> list[Step]:
    """The last value with each index, and a constant for other indices."""
    shape = tuple(node.array(1).ravel().tolist())
    refuse_quantized(node)
    (values,) = inputs(node, (2,), "float32", "int32", "int8", "uint8")
    indices = node.shape(0)
    count = indices[0] if indices else 0
    depth = indices[1] if len(indices) == 2 else 1
    if (
        len(indices) not in (1, 2)
        or not 0 < depth == len(shape) <= 4
        or values.shape not in ((), (count,))
        or node.dtype(2) == "float16"
    ):
        raise Unsupported(
            f"{node.dtype(2)} values of shape {list(values.shape)} by indices of shape "
            f"{list(indices)} into {list(shape)}"
        )
    if not node.is_constant(3):
        raise Unsupported("input 3 is computed at run time; expected a constant")
    others = node.graph.tensors[node.inputs[3]].array().ravel()
    steps: list[Step] = []
    if not values.shape:
        row = node.scratch((count,), "values", values.kind)
        steps.append(viewed(node, values, row, View((count,), (0,))))
        values = row
    number: Define = others[0].item()
    initial = LEAST["int"] if number == -(2**31) else number
    combination = Combination("LATER", {values.kind: initial})
    return steps + _scattered(node, (0, 2), values, shape, depth, combination)


class StablehloScatterOptions(Options):
    indices_are_sorted: Bool = False
    update_window_dims: Longs = ()
    inserted_window_dims: Longs = ()
    scatter_dims_to_operand_dims: Longs = ()
    index_vector_dim: Uint64 = 0
    unique_indices: Bool = False
    update_computation: Int32 = 0


@op("STABLEHLO_SCATTER", options=StablehloScatterOptions)
def stablehlo_scatter(node: NodeView, options: StablehloScatterOptions) -> list[Step]:
    """A tensor with windows of updates combined into it at indices."""
    refuse_quantized(node)
    x, updates = inputs(node, (0, 2), "float32", "int32", "int8", "uint8", "int16", "bool")
    indices, dtype = node.input(1, "int"), node.dtype(0)
    rank, axes, batch = len(x.shape), options.scatter_dims_to_operand_dims, indices.shape
    along, inserted = options.index_vector_dim, options.inserted_window_dims
    if along != len(batch) - 1:  # along other axes, LiteRT reads beyond the indices
        raise Unsupported(f"indices along axis {along} of {list(batch)}; expected the last")
    batch, depth = batch[:-1], batch[-1]
    function = region(node, options.update_computation, dtype)
    kept = [axis for axis in range(rank) if axis not in inserted]
    dims = options.update_window_dims
    if dims != tuple(sorted({*dims} & {*range(len(updates.shape))})):
        raise Unsupported(f"windows in the dimensions {list(dims)} of {list(updates.shape)}")
    order = [*(axis for axis in range(len(updates.shape)) if axis not in dims), *dims]
    steps: list[Step] = []
    if order != sorted(order):
        shape, places = updates.shape, row_major(updates.shape)
        moved = node.scratch(tuple(shape[axis] for axis in order), "moved", updates.kind)
        across = View(moved.shape, tuple(places[axis] for axis in order))
        steps.append(viewed(node, updates, moved, across))
        updates = moved
    window = updates.shape[len(batch) :]
    if (
        not rank
        or len(axes) != depth
        or sorted({*axes}) != sorted(axes)
        or not {*axes, *inserted} <= {*range(rank)}
        or updates.shape[: len(batch)] != batch
        or len(window) != len(kept)
        or len(dims) != len(window)
    ):
        raise Unsupported(
            f"{options} of {list(x.shape)} by indices of {list(indices.shape)} and updates of "
            f"{list(updates.shape)}"
        )
    sizes, strides = [1] * rank, [0] * rank
    for axis, size, stride in zip(kept, window, row_major(window), strict=True):
        sizes[axis], strides[axis] = size, stride
    count = prod(batch)
    defines: dict[str, Define] = {
        "COMBINE": function,
        "COUNT": count,
        "DIMS": rank,
        "SIZES": x.shape,
        "INDEX_OF": tuple(axes.index(axis) if axis in axes else -1 for axis in range(rank)),
        "DEPTH": depth,
        **indices.size_defines("INDEX"),
        "WINDOW": prod(window),
        "WINDOW_SIZES": tuple(sizes),
        "WINDOW_STRIDES": tuple(strides),
        **updates.size_defines("UPDATE"),
    }
    output = node.output(x.shape, kind=x.kind, dtype=dtype)
    reads, epilogue, passes = (x, indices, updates), wrapped(dtype), 4 * (count + 1) + 1
    made = by_texel(node, "stablehlo_scatter", reads, output, defines, epilogue, passes=passes)
    return [*steps, made]


def _segment_count(node: NodeView) -> int:
    """The number of segments; raises `Unsupported` for what LiteRT refuses."""
    if node.op == "SEGMENT_SUM":
        ids = node.array(1)
        steps = (ids[1:] - ids[:-1]).ravel()
        if ids.ndim != 1 or ids[:1].any() or ((steps < 0) | (steps > 1)).any():
            found = f"the segments {ids.tolist()}"
            raise Unsupported(f"{found}; expected 0 and then the same or the next")
        return int(ids.max(initial=-1)) + 1
    count = one_integer(node, 2, "the number of segments")
    if count < 0:
        raise Unsupported(f"{count} segments")
    return count


def _fold_segments(node: NodeView) -> Array | None:
    x, ids = constants(node)[:2]
    name = node.op.rsplit("_", 1)[-1]
    combine = _FOLDS[name]
    if ids.shape != x.shape[:1] or x.dtype not in (np.int32, np.float32):
        return None
    limits = np.iinfo(x.dtype) if x.dtype.kind == "i" else np.finfo(x.dtype)
    initial = {"MAX": limits.min, "MIN": limits.max}.get(name, combine.identity)
    result = np.full((_segment_count(node), *x.shape[1:]), initial, x.dtype)
    combine.at(result, ids[ids >= 0], x[ids >= 0])
    return result


@op("SEGMENT_SUM", sized_by=(1,), fold=_fold_segments)
@op(*_COMBINATIONS, sized_by=(2,), fold=_fold_segments)
def segments(node: NodeView, options: Options) -> list[Step]:
    count = _segment_count(node)
    (x,) = inputs(node, (0,), "float32", "int32")
    refuse_quantized(node)
    if not x.shape or node.shape(1) != x.shape[:1]:
        raise UnfitSizes(f"segments of shape {list(node.shape(1))} for {list(x.shape)}")
    combination = _COMBINATIONS.get(node.op, SUM)
    return _scattered(node, (1, 0), x, (count, *x.shape[1:]), 1, combination)


def _scattered(
    node: NodeView,
    positions: tuple[int, int],
    x: Operand,
    shape: Shape,
    depth: int,
    combination: Combination,
) -> list[Step]:
    """Combine the elements of `x` that have the same index in the first `depth` axes of `shape`.

    `positions` are the inputs with the indices and `x`. Negative indices of segments are dropped.
    """
    i, values = positions
    indices, dtype = node.input(i, "int"), node.dtype(values)
    types = ("int32", "int64") if node.op == "SPARSE_TO_DENSE" else ("int32",)
    if node.dtype(i) not in types:
        raise Unsupported(f"{node.dtype(i)} indices; expected {' or '.join(types)}")
    sizes, inner = shape[:depth], prod(shape[depth:])
    output = node.output(shape, kind=x.kind, dtype=dtype)
    count = indices.elements // depth
    passes, where = count, dict[str, Define]()
    if node.is_constant(i):
        constant = node.array(i).reshape(-1, depth)
        if ((constant >= sizes) | (constant < 0) & (i == 0)).any():
            raise UnfitSizes(f"indices outside the sizes {list(sizes)} that they count in")
        starts = rows_by_result(constant, sizes).ravel()[: prod(sizes) + 1]
        passes = int(np.diff(starts).max(initial=0))
        texels = ceil((prod(sizes) + 1 + count) / 4)
        indices = Const(rows_by_result, (node.inputs[i],), (texels, 4), (sizes,), "int")
    else:
        where = {
            **indices.size_defines("INDEX"),
            "DEPTH": depth,
            "AXIS_SIZES": sizes,
            "AXIS_STRIDES": row_major(sizes),
        }
    rows = node.scratch((count, inner), "rows", x.kind)
    result = node.scratch((prod(sizes), inner), "result", x.kind)
    defines: dict[str, Define] = {
        "COMBINE": combination.function,
        "INITIAL": combination.initial[x.kind],
        "COUNT": count,
        "SORTED": int(not where),
        **where,
    }
    return [
        reshaped_as(node, x, rows),
        by_texel(node, "scatter", (rows, indices), result, defines, wrapped(dtype), passes=passes),
        reshaped_as(node, result, output),
    ]


def rows_by_result(indices: Array, sizes: Shape) -> Array:
    """Pack which rows go to each result, for glsl/scatter.glsl: texels of integers.

    Args:
        indices: [rows, len(sizes)].
        sizes: Of the results; rows beyond them go nowhere.

    Returns:
        The position of each result's first row, and of the end; then the rows, in order.
    """
    counted, total = indices.reshape(-1, len(sizes)).astype(np.int64), prod(sizes)
    to = counted @ np.array(row_major(sizes), np.int64)
    to[((counted < 0) | (counted >= sizes)).any(1)] = total
    starts = np.searchsorted(np.sort(to), np.arange(total + 1))
    packed: Array = phwc4(np.concatenate([starts, np.argsort(to, kind="stable")]).astype(np.int32))
    return packed
