"""Ops that cut and join tensors: SLICE, SPLIT, DYNAMIC_UPDATE_SLICE, CONCATENATION ..."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from gles_delegate.ops.gathering import Lookup, gathered
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import elementwise, refuse_rescaling
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import normal_axis, row_major
from gles_delegate.ops.lib.node import (
    NodeView,
    RunTimeParameter,
    UnfitSizes,
    Unsupported,
    one_integer,
)
from gles_delegate.ops.lib.options import Bool, Int8, Int32, Options
from gles_delegate.ops.lib.packing import integers
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Target, View, moved, moved_output, reshaped_as, viewed
from gles_delegate.shaders.dispatch import Const, Define, Operand, Shape, Step, Value


@op("SLICE", max_version=8, rows=rows.within(0), moves="ranges", sized_by=(1, 2))
def slice_(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    if node.has_input(1) and not node.is_constant(1):
        return [_slice_from(node, x, tuple(node.array(2).ravel().tolist()))]
    begin, size = (tuple(node.array(i).ravel().tolist()) for i in (1, 2))
    if not len(begin) == len(size) == len(x.shape):
        raise Unsupported(f"begin {begin} and size {size} for rank {len(x.shape)}")
    sizes = tuple(n - a if s == -1 else s for n, a, s in zip(x.shape, begin, size, strict=True))
    if any(min(a, s) < 0 or a + s > n for n, a, s in zip(x.shape, begin, sizes, strict=True)):
        raise UnfitSizes(f"begin {begin} and size {size} reach beyond {list(x.shape)}")
    return [_slice(node, x, begin, sizes, sizes)]


def _slice_from(node: NodeView, x: Operand, sizes: Shape) -> Step:
    """`sizes` elements of `x` from an index that is computed at run time."""
    begin = _indices(node, 1, len(x.shape))
    if -1 in sizes:
        raise RunTimeParameter(f"the size {list(sizes)}; expected no -1 if a run decides begin", 1)
    starts = tuple(n - size + 1 for n, size in zip(x.shape, sizes, strict=True))
    if min(sizes) < 0 or min(starts) < 1:
        raise UnfitSizes(f"the size {list(sizes)} of {list(x.shape)}")
    dims = [(n, stride, 0) for n, stride in zip(sizes, row_major(x.shape), strict=True)]
    return gathered(node, x, begin, Lookup(dims, tuple(range(len(sizes))), starts))


def _indices(node: NodeView, i: int, rank: int) -> Operand:
    """Input `i`: an index for each of `rank` dimensions."""
    indices, dtype = node.input(i, "int"), node.dtype(i)
    if indices.shape != (rank,) or not rank or dtype not in ("int32", "int64"):
        raise Unsupported(f"{dtype} indices of shape {list(indices.shape)} for rank {rank}")
    return indices


@op("DYNAMIC_UPDATE_SLICE", max_version=6)
def dynamic_update_slice(node: NodeView, options: Options) -> list[Step]:
    x, update = node.input(0, None), node.input(1, None)
    output = moved_output(node, x, x.shape)
    moved_output(node, update, x.shape)
    if len(update.shape) != len(x.shape) or any(
        n > size for n, size in zip(update.shape, x.shape, strict=True)
    ):
        raise UnfitSizes(f"{list(x.shape)} updated with {list(update.shape)}, which is larger")
    starts = _indices(node, 2, len(x.shape))
    if node.is_constant(2) and (node.array(2) != node.array(2).astype("int32")).any():
        raise Unsupported(f"the index {node.array(2).tolist()}; expected 32-bit integers")
    defines: dict[str, Define] = {
        "DIMS": len(x.shape),
        "SIZES": x.shape,
        "UPDATE_SIZES": update.shape,
        "UPDATE_STRIDES": row_major(update.shape),
        **update.size_defines("UPDATE"),
    }
    reads = (x, starts, update)
    return [by_texel(node, "dynamic_update_slice", reads, output, defines)]


def _slice(
    node: NodeView, x: Operand, begin: Sequence[int], sizes: Shape, shape: Shape, i: int = 0
) -> Step:
    """Output `i`, of that shape: `sizes` elements of `x` from `begin` on."""
    strides = row_major(x.shape)
    offset = sum(at * stride for at, stride in zip(begin, strides, strict=True))
    return moved(node, x, shape, View(sizes, strides, offset), i)


class StridedSliceOptions(Options):
    begin_mask: Int32 = 0
    end_mask: Int32 = 0
    ellipsis_mask: Int32 = 0
    new_axis_mask: Int32 = 0
    shrink_axis_mask: Int32 = 0
    offset: Bool = False


NEW_AXIS, WHOLE_AXIS = -1, -2


def _takes_whole_rows(batch: rows.Rows, options: StridedSliceOptions) -> bool:
    adds = options.ellipsis_mask or options.new_axis_mask or options.shrink_axis_mask & 1
    return not adds and bool(batch.node.array(3).reshape(-1)[0] == 1)


@op(
    "STRIDED_SLICE", max_version=8, options=StridedSliceOptions, moves="ranges", ends_networks=True,
    rows=rows.within(0, where=_takes_whole_rows),
)  # fmt: skip
def strided_slice(node: NodeView, options: StridedSliceOptions) -> list[Step]:
    x = node.input(0, None)
    masks = options.end_mask | options.ellipsis_mask | options.new_axis_mask
    if options.offset and (masks or prod(node.shape(1)) < len(x.shape)):
        raise Unsupported(
            "ends that are offsets with an end mask, an ellipsis, new axes or an axis without an "
            "entry, with which LiteRT reads beyond the input"
        )
    if not (node.is_constant(1) and node.is_constant(2)):
        return _strided_from(node, options, x)
    entries = list(zip(*(node.array(i).ravel().tolist() for i in (1, 2, 3)), strict=False))
    dims, dense = _dims(options, entries, x.shape), row_major(x.shape)
    axes = [dim for dim in dims if dim.entry != NEW_AXIS]
    offset = sum((dim.start or 0) * dense[dim.axis] for dim in axes)
    layout = View(tuple(dim.size for dim in axes), tuple(dim.stride for dim in axes), offset)
    return [moved(node, x, (dim.size for dim in dims if dim.kept), layout)]


def _strided_from(node: NodeView, options: StridedSliceOptions, x: Operand) -> list[Step]:
    """A slice of constant size from a beginning that a run decides."""
    begin, strides = node.input(1, "int"), node.array(3).ravel().tolist()
    count = len(strides)
    if {node.shape(1), node.shape(2)} != {(count,)} or {node.dtype(1), node.dtype(2)} != {"int32"}:
        raise Unsupported(f"indices that are not {count} of int32")
    known = (node.array(i).tolist() if node.is_constant(i) else [None] * count for i in (1, 2))
    dims = _dims(options, list(zip(*known, strides, strict=True)), x.shape)
    by_entry = {dim.entry: dim for dim in dims}
    unused = _Dim(NEW_AXIS)
    indexed = [by_entry.get(entry, unused) for entry in range(count)]
    # An index is the beginning modulo the size of the axis, or modulo 1 plus a constant.
    moduli = tuple(x.shape[dim.axis] if dim.start is None else 1 for dim in indexed)
    divisors, added = (
        Const(integers, (), (count,), numbers, "int")
        for numbers in (moduli, tuple(dim.start or 0 for dim in indexed))
    )
    own, indices = (node.scratch((count,), name, "int") for name in ("own", "places"))
    kept = [(dim.size, dim.stride, 0) for dim in dims if dim.kept]
    ends_alike = bool(kept) and kept[-1][1] == 1
    lookup = Lookup(kept, tuple(dim.axis for dim in indexed), channels_last=ends_alike)
    return [
        elementwise(node, (begin, divisors), own, "FLOOR_MOD"),
        elementwise(node, (own, added), indices, "ADD"),
        gathered(node, x, indices, lookup),
    ]


Entry: TypeAlias = tuple[int | None, int | None, int]
"""The begin and end of an entry, None if a run decides them, and its stride."""


@dataclass(frozen=True)
class _Dim:
    """A dimension of a strided slice.

    Attributes:
        entry: The index of its entry, or NEW_AXIS or WHOLE_AXIS.
        axis: The axis of the input.
        start: The first index along that axis; None: a run decides it.
        stride: In elements of the input.
        kept: It is a dimension of the output, too.
    """

    entry: int
    axis: int = 0
    start: int | None = 0
    stride: int = 0
    size: int = 1
    kept: bool = True


def _dims(options: StridedSliceOptions, entries: Sequence[Entry], source: Shape) -> list[_Dim]:
    if (options.new_axis_mask | options.ellipsis_mask) >> len(entries):
        raise Unsupported(f"a new axis or an ellipsis beyond the {len(entries)} entries")
    dense, dims = row_major(source), list[_Dim]()
    axes = iter(range(len(source)))
    for entry in _entries(options, len(entries), len(source)):
        if entry == NEW_AXIS:
            dims.append(_Dim(entry))
            continue
        axis = next(axes)
        start: int | None = 0
        step, size = 1, source[axis]
        if entry != WHOLE_AXIS:
            start, step, size = _range(options, entry, entries[entry], source[axis])
        kept = entry == WHOLE_AXIS or not options.shrink_axis_mask >> entry & 1
        dims.append(_Dim(entry, axis, start, step * dense[axis], size, kept))
    return dims


def _range(
    options: StridedSliceOptions, entry: int, limits: Entry, size: int
) -> tuple[int | None, int, int]:
    """Start (None: a run decides it), step and count of the elements that an entry selects."""
    begin, end, step = limits
    has_start = begin is not None or bool(options.begin_mask >> entry & 1)
    dropped = bool(options.shrink_axis_mask >> entry & 1)
    has_end = end is not None or bool(options.end_mask >> entry & 1)
    if not dropped and not (has_end and (has_start or options.offset)):
        raise RunTimeParameter(
            f"a run decides the size of axis {entry} of the slice; expected one that is dropped, "
            "has constants or masks, or starts and sizes",
            1,
            2,
        )
    if has_start:
        return _constant_range(options, entry, (begin or 0, end or 0, step), size)
    length = 1 if dropped else end or 0
    if step <= 0 or not 0 <= length <= size or not size:
        raise UnfitSizes(f"{length} elements by steps of {step} of an axis of size {size}")
    return None, step, -(-length // step)


def _entries(options: StridedSliceOptions, count: int, rank: int) -> list[int]:
    """The index of each dimension's entry, or WHOLE_AXIS or NEW_AXIS."""
    entries: list[int] = []
    new_axes = options.new_axis_mask & ~options.ellipsis_mask & ((1 << count) - 1)
    spare = rank - (count - bin(new_axes).count("1"))
    if spare < 0:
        raise Unsupported(f"{count} entries for {rank} axes; expected one each at most")
    for entry in range(count):
        if options.ellipsis_mask >> entry & 1:
            entries += [WHOLE_AXIS] * (spare + 1)
            spare = 0
        else:
            entries.append(NEW_AXIS if new_axes >> entry & 1 else entry)
    return entries + [WHOLE_AXIS] * spare


def _constant_range(
    options: StridedSliceOptions, entry: int, limits: tuple[int, int, int], size: int
) -> tuple[int, int, int]:
    begin, end, step = limits
    if not step:
        raise Unsupported(f"a stride of 0 in entry {entry}")
    first, last = (0, size) if step > 0 else (-1, size - 1)

    def clamped(index: int) -> int:
        return min(max(index + size if index < 0 else index, first), last)

    start = clamped(begin)
    if options.begin_mask >> entry & 1:
        start = 0 if step > 0 else size - 1
    if options.shrink_axis_mask >> entry & 1:
        if not 0 <= start < size or step < 0:
            raise UnfitSizes(
                f"index {begin} by steps of {step} of an axis of size {size} in entry {entry}; "
                "expected one of its elements and a positive step"
            )
        return start, 1, 1
    if options.end_mask >> entry & 1:
        stop = size if step > 0 else -1
    elif not options.offset:
        stop = clamped(end)
    else:
        stop = start + end
        if not first <= stop <= last:
            raise UnfitSizes(f"{end} from index {start} on, of an axis of size {size}")
    return start, step, max(0, -((start - stop) // step))


@op(
    "SPLIT", max_version=5, moves="ranges",
    rows=rows.within(1, where=lambda batch, options: batch.node.array(0).item() % batch.rank),
)  # fmt: skip
def split(node: NodeView, options: Options) -> list[Step]:
    axis, x = one_integer(node, 0, "the axis"), node.input(1, None)
    axis, count = normal_axis(axis, len(x.shape)), len(node.outputs)
    if not count or x.shape[axis] % count:
        raise UnfitSizes(f"axis {axis} of {list(x.shape)} split into {count} equal parts")
    return _split(node, x, axis, [x.shape[axis] // count] * count)


@op(
    "SPLIT_V", max_version=3, moves="ranges",
    rows=rows.within(0, where=lambda batch, options: batch.node.array(2).item() % batch.rank),
)  # fmt: skip
def split_v(node: NodeView, options: Options) -> list[Step]:
    x, lengths = node.input(0, None), node.array(1).ravel().tolist()
    axis = normal_axis(one_integer(node, 2, "the axis"), len(x.shape))
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = x.shape[axis] - sum(lengths) - 1
    if min(lengths, default=0) < 0 or sum(lengths) != x.shape[axis]:
        raise UnfitSizes(f"axis {axis} of {list(x.shape)} split into {lengths}")
    return _split(node, x, axis, lengths)


class PackOptions(Options):
    count: Int32 = 0
    axis: Int32 = 0


@op(
    "UNPACK", max_version=6, options=PackOptions, moves="elements",
    rows=rows.within(0, where=lambda batch, options: options.axis % batch.rank),
)  # fmt: skip
def unpack(node: NodeView, options: PackOptions) -> list[Step]:
    x = node.input(0, None)
    axis = normal_axis(options.axis, len(x.shape))
    return _split(node, x, axis, [1] * x.shape[axis], drop_axis=True)


def _split(
    node: NodeView, x: Operand, axis: int, lengths: Sequence[int], drop_axis: bool = False
) -> list[Step]:
    """One output per length along the axis; `drop_axis`: without that dimension."""
    if len(lengths) != len(node.outputs):
        raise UnfitSizes(f"{len(lengths)} parts for {len(node.outputs)} outputs")
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    steps: list[Step] = []
    at = 0
    for i, length in enumerate(lengths):
        begin = [at if a == axis else 0 for a in range(len(x.shape))]
        shape = (*before, *after) if drop_axis else (*before, length, *after)
        steps.append(_slice(node, x, begin, (*before, length, *after), shape, i))
        at += length
    return steps


class ConcatenationOptions(Options):
    axis: Int32 = 0
    fused_activation: Int8 = 0


@op(
    "CONCATENATION", max_version=7, options=ConcatenationOptions, rows=rows.joined,
    moves="ranges", ends_networks=True,
)  # fmt: skip
def concatenation(node: NodeView, options: ConcatenationOptions) -> list[Step]:
    if options.fused_activation:
        raise Unsupported("a fused activation, which LiteRT does not apply here; expected NONE")
    inputs = _inputs(node)
    axis = normal_axis(options.axis, len(inputs[0].shape))
    others = [(x.shape[:axis], x.shape[axis + 1 :]) for x in inputs]
    if any(len(x.shape) <= axis for x in inputs) or others.count(others[0]) != len(others):
        raise UnfitSizes(f"the shapes {[list(x.shape) for x in inputs]} differ beside axis {axis}")
    total = sum(x.shape[axis] for x in inputs)
    shape = (*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :])
    output = node.output(shape, kind=inputs[0].kind, dtype=node.dtype(0))
    if node.graph.tensors[output.tensor].type.bits > 8:
        refuse_rescaling(node)
    return _joined(node, inputs, [x.shape[axis] for x in inputs], output, axis)


@op("PACK", max_version=5, options=PackOptions, rows=rows.joined, moves="elements")
def pack(node: NodeView, options: PackOptions) -> list[Step]:
    inputs = _inputs(node)
    shapes = [x.shape for x in inputs]
    if shapes.count(shapes[0]) != len(shapes):
        raise UnfitSizes(f"the shapes {[list(shape) for shape in shapes]} differ")
    axis = normal_axis(options.axis, len(shapes[0]) + 1)
    shape = (*shapes[0][:axis], len(inputs), *shapes[0][axis:])
    outputs = [moved_output(node, x, shape) for x in inputs]
    return _joined(node, inputs, [1] * len(inputs), outputs[0], axis)


def _inputs(node: NodeView) -> list[Operand]:
    kind = node.input(0, None).kind
    return [node.input(i, kind) for i in range(len(node.inputs))]


def _joined(
    node: NodeView, inputs: Sequence[Operand], lengths: Sequence[int], output: Value, axis: int
) -> list[Step]:
    """Concatenate the inputs along the output's `axis`; each covers its length."""
    steps: list[Step] = []
    begin = 0
    for x, length in zip(inputs, lengths, strict=True):
        shape: Shape = (*output.shape[:axis], length, *output.shape[axis + 1 :])
        layout = View((x.pixels, x.channels), (x.channels, 1))
        pixels, channels, inner = prod(shape[:-1]), shape[-1], prod(shape[axis + 1 : -1])
        lines = length * inner, output.shape[axis] * inner
        target = Target(pixels, channels, *lines, begin * inner)
        if axis == len(shape) - 1:
            target = Target(pixels, channels, pixels, pixels, out_channel=begin)
        if x.elements:
            steps.append(viewed(node, x, output, layout, target))
        begin += length
    # The step of an output without elements gives its shape.
    return steps or [reshaped_as(node, inputs[0], output)]
