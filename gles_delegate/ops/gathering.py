"""Ops that look elements up by indices: GATHER, GATHER_ND, EMBEDDING_LOOKUP, ONE_HOT ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import normal_axis, row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, constants, one_integer
from gles_delegate.ops.lib.options import Int32, Longs, Options, Uint64
from gles_delegate.ops.lib.packing import integers
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import Rows
from gles_delegate.ops.lib.views import View, moved, moved_output, reshaped_as
from gles_delegate.shaders.dispatch import Const, Define, Dispatch, Operand, Shape, Step, Value

Dim: TypeAlias = tuple[int, int, int]
"""A dimension of an output: its size, and its strides in the source and in the indices."""


@dataclass(frozen=True)
class Lookup:
    """The source element of each output element.

    Coordinates times strides give an offset in the source, to which the indices add theirs, and the
    offset of the first of these indices.

    Attributes:
        axes: The axes of the source that the indices count along.
        sizes: Upper bounds of the indices; by default the sizes of `axes`.
        channels_last: Unless an index counts along the source's last dimension, the output's last
            dimension is the beginning of it.
    """

    dims: Sequence[Dim]
    axes: tuple[int, ...]
    sizes: Shape = ()
    channels_last: bool = True


def _source_dims(shape: Shape) -> list[Dim]:
    return [(n, stride, 0) for n, stride in zip(shape, row_major(shape), strict=True)]


def _index_dims(shape: Shape) -> list[Dim]:
    return [(n, 0, stride) for n, stride in zip(shape, row_major(shape), strict=True)]


def gathered(
    node: NodeView,
    source: Operand,
    indices: Operand,
    lookup: Lookup,
    i: int = 1,
    output: Value | None = None,
) -> Dispatch:
    """Look up elements of `source` by `indices`; constant ones are checked.

    Args:
        i: The input with the indices, if they are constant.
        output: The result; by default with elements of the type of `source`.
    """
    axes, dense = lookup.axes, row_major(source.shape)
    sizes = lookup.sizes or tuple(source.shape[axis] for axis in axes)
    if isinstance(indices, Const):
        constant = node.array(i).reshape(-1, len(axes))
        if ((constant < 0) | (constant >= sizes)).any():
            raise UnfitSizes(f"indices outside the sizes {list(sizes)} that they count in")
    output = output or moved_output(node, source, (n for n, _, _ in lookup.dims))
    shape, strides, walk = zip(*(lookup.dims or [(1, 0, 0)]), strict=True)
    defines: dict[str, Define] = {
        **source.size_defines("IN"),
        **indices.size_defines("INDEX"),
        "DIMS": len(shape),
        "SIZES": shape,
        "STRIDES": strides,
        "WALK": walk,
        "DEPTH": len(axes),
        "AXIS_SIZES": sizes,
        "AXIS_STRIDES": tuple(dense[axis] for axis in axes),
        "WHOLE_TEXELS": int(lookup.channels_last and max(axes) + 1 < len(source.shape)),
    }
    return by_texel(node, "gather", (source, indices), output, defines)


class GatherOptions(Options):
    axis: Int32 = 0
    batch_dims: Int32 = 0


def _fold_gather(node: NodeView) -> Array | None:
    x, indices = constants(node)
    options = GatherOptions.read(node.node)
    axis = normal_axis(options.axis, x.ndim)
    if options.batch_dims or (indices < 0).any():
        return None
    return np.take(x, indices, axis)


def _gathers_within_rows(batch: Rows, options: GatherOptions) -> bool:
    """Whether indices are the same for each row, or rows of indices look up in one table."""
    data = 0 if options.axis % len(batch.node.shape(0)) else 1
    return batch.are_along_axis_0 and not options.batch_dims and batch.inputs == (data,)


@op(
    "GATHER", max_version=8, options=GatherOptions, fold=_fold_gather, rows=_gathers_within_rows,
    moves="elements",
)  # fmt: skip
def gather(node: NodeView, options: GatherOptions) -> list[Step]:
    x, indices = node.input(0, None), node.input(1, "int")
    axis = normal_axis(options.axis, len(x.shape))
    batch_dims = options.batch_dims + (len(indices.shape) if options.batch_dims < 0 else 0)
    if (
        not 0 <= batch_dims <= min(axis, len(indices.shape))
        or x.shape[:batch_dims] != indices.shape[:batch_dims]
    ):
        raise UnfitSizes(
            f"indices of shape {list(indices.shape)} with {batch_dims} batch dimensions on axis "
            f"{axis} of {list(x.shape)}"
        )
    steps = None if batch_dims or not node.is_constant(1) else _steps(node.array(1))
    if steps and min(steps) >= 0 and max(steps) < x.shape[axis]:
        strides = list(row_major(x.shape))
        offset = steps.start * strides[axis]
        strides[axis] *= steps.step
        before, after = x.shape[:axis], x.shape[axis + 1 :]
        layout = View((*before, len(steps), *after), tuple(strides), offset)
        return [moved(node, x, (*before, *indices.shape, *after), layout)]
    source, index = _source_dims(x.shape), _index_dims(indices.shape)
    both = [(n, a, b) for (n, a, _), (_, _, b) in zip(source, index, strict=False)]
    dims = both[:batch_dims] + source[batch_dims:axis] + index[batch_dims:] + source[axis + 1 :]
    return [gathered(node, x, indices, Lookup(dims, (axis,)))]


def _steps(indices: Array) -> range | None:
    """The indices in order, if they are evenly spaced."""
    numbers: list[int] = indices.reshape(-1).tolist()
    first, second = (numbers * 2)[:2] or (0, 0)
    if not numbers or (len(numbers) > 1 and first == second):
        return None
    step = second - first or 1
    steps = range(first, first + step * len(numbers), step)
    return steps if numbers == [*steps] else None


@op("EMBEDDING_LOOKUP", max_version=5)
def embedding_lookup(node: NodeView, options: Options) -> list[Step]:
    """Rows of a table, which may be dequantized."""
    indices, rows = node.input(0, "int"), node.shape(1)
    if len(indices.shape) != 1 or len(rows) < 2 or node.dtype(0) != "int32":
        raise UnfitSizes(
            f"{node.dtype(0)} indices of shape {list(indices.shape)} into {list(rows)}; expected a "
            "vector of int32 and at least a matrix"
        )
    tensor, result = (node.graph.tensors[i] for i in (node.inputs[1], node.outputs[0]))
    shape = (*indices.shape, *rows[1:])
    output = None
    if tensor.is_quantized and tensor.dtype != result.dtype:
        q = tensor.quantization
        if tensor.dtype == "uint8" or any(q.zero_points) or q.axis:
            raise Unsupported(
                f"rows of {tensor.dtype} with the zero points {list(q.zero_points)} along axis "
                f"{q.axis}; expected int8 or smaller, zero points of 0, and axis 0"
            )
        table, output = node.input(1, may_have_scales=True), node.output(shape)
    else:
        table = node.input(1, None)
    lookup = Lookup(_index_dims(indices.shape) + _source_dims(rows)[1:], (0,))
    return [gathered(node, table, indices, lookup, 0, output)]


@op("GATHER_ND", max_version=6)
def gather_nd(node: NodeView, options: Options) -> list[Step]:
    x, indices = node.input(0, None), node.input(1, "int")
    depth = indices.channels
    if not indices.shape or not 0 < depth <= len(x.shape):
        raise UnfitSizes(f"indices of shape {list(indices.shape)} into {list(x.shape)}")
    dims = _index_dims(indices.shape)[:-1] + _source_dims(x.shape)[depth:]
    return [gathered(node, x, indices, Lookup(dims, tuple(range(depth))))]


class StablehloGatherOptions(Options):
    offset_dims: Longs = ()
    collapsed_slice_dims: Longs = ()
    start_index_map: Longs = ()
    index_vector_dim: Uint64 = 0
    slice_sizes: Longs = ()


@op("STABLEHLO_GATHER", options=StablehloGatherOptions)
def stablehlo_gather(node: NodeView, options: StablehloGatherOptions) -> list[Step]:
    """Slices that begin at indices, moved to lie inside the source."""
    x, indices = node.input(0, None), node.input(1, "int")
    axes, batch, depth = options.start_index_map, indices.shape, 1
    if options.index_vector_dim == len(indices.shape) - 1:
        *batch_sizes, depth = indices.shape
        batch = tuple(batch_sizes)
    elif options.index_vector_dim != len(indices.shape):
        raise Unsupported(f"indices along axis {options.index_vector_dim} of {list(indices.shape)}")
    starts = tuple(n - size + 1 for n, size in zip(x.shape, options.slice_sizes, strict=True))
    if not (_is_consistent(options, len(x.shape), len(batch), depth) and min(starts) > 0):
        raise UnfitSizes(f"{options} of {list(x.shape)} by indices of {list(indices.shape)}")
    offsets, dense = options.offset_dims, row_major(x.shape)
    kept = [axis for axis in range(len(x.shape)) if axis not in options.collapsed_slice_dims]
    in_slice = iter([(options.slice_sizes[axis], dense[axis], 0) for axis in kept])
    in_batch = iter(_index_dims((*batch, depth))[:-1])
    rank = len(batch) + len(kept)
    # The dimensions of the slices lie among the batch's.
    dims = [next(in_slice if dim in offsets else in_batch) for dim in range(rank)]
    ends_alike = bool(offsets) and (offsets[-1], kept[-1]) == (rank - 1, len(x.shape) - 1)
    sizes = tuple(starts[axis] for axis in axes)
    lookup = Lookup(dims, axes, sizes, channels_last=ends_alike)
    scratch = (node.scratch((*batch, depth), name, "int") for name in ("indices", "own", "places"))
    shaped, lowered, clamped = scratch
    last = Const(integers, (), (depth,), tuple(size - 1 for size in sizes), "int")
    first = Const(integers, (), (1,), (0,), "int")
    return [
        reshaped_as(node, indices, shaped),
        elementwise(node, (shaped, last), lowered, "MINIMUM"),
        elementwise(node, (lowered, first), clamped, "MAXIMUM"),
        gathered(node, x, clamped, lookup),
    ]


def _is_consistent(options: StablehloGatherOptions, rank: int, batch_rank: int, depth: int) -> bool:
    """Whether the options fit a source of that rank and `depth` indices for each slice."""
    axes, collapsed = options.start_index_map, options.collapsed_slice_dims
    offsets, kept = list(options.offset_dims), rank - len({*collapsed})
    return (
        0 < len(axes) == depth == len({*axes})
        and {*axes, *collapsed} <= {*range(rank)}
        and all(options.slice_sizes[axis] == 1 for axis in collapsed)
        and min(options.slice_sizes) > 0
        and len(offsets) == kept
        and offsets == sorted({*offsets})
        and {*offsets} <= {*range(batch_rank + kept)}
    )


class OneHotOptions(Options):
    axis: Int32 = 0


@op("ONE_HOT", options=OneHotOptions)
def one_hot(node: NodeView, options: OneHotOptions) -> list[Step]:
    indices, depth = node.input(0, "int"), one_integer(node, 1, "the depth")
    on, off = node.input(2, None), node.input(3, None)
    if depth < 0 or on.shape or off.shape or on.kind != off.kind:
        raise Unsupported("the depth, the on and the off value; expected scalars, of one type")
    axis = normal_axis(options.axis, len(indices.shape) + 1)
    output = moved_output(node, on, (*indices.shape[:axis], depth, *indices.shape[axis:]))
    defines: dict[str, Define] = {
        **indices.size_defines("INDEX"),
        "DEPTH": depth,
        "INNER": prod(indices.shape[axis:]),
    }
    return [by_texel(node, "one_hot", (indices, on, off), output, defines)]
