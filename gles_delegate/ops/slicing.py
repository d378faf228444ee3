"""Ops that take or replace parts of a tensor: SLICE, SPLIT, DYNAMIC_UPDATE_SLICE and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

from gles_delegate.dispatch import Const, Define, Operand, Shape, Step
from gles_delegate.ops.lib.elementwise import elementwise
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import normal_axis, row_major
from gles_delegate.ops.lib.lookup import Lookup, gathered
from gles_delegate.ops.lib.node import NodeView, RunTimeParameter, Unsupported, one_integer
from gles_delegate.ops.lib.options import Bool, Int32, Options
from gles_delegate.ops.lib.packing import integers
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import Rows, within
from gles_delegate.ops.lib.views import View, moved, moved_output


@op("SLICE", max_version=8, rows=within(0), moves="ranges")
def slice_(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    if node.has_input(1) and not node.is_constant(1):
        return [_slice_from(node, x, tuple(node.array(2).ravel().tolist()))]
    begin, size = (tuple(node.array(i).ravel().tolist()) for i in (1, 2))
    if not len(begin) == len(size) == len(x.shape):
        raise Unsupported(f"begin {begin} and size {size} for rank {len(x.shape)}")
    sizes = tuple(
        n - at if length == -1 else length
        for n, at, length in zip(x.shape, begin, size, strict=True)
    )
    if any(
        at < 0 or length < 0 or at + length > n
        for n, at, length in zip(x.shape, begin, sizes, strict=True)
    ):
        raise Unsupported(f"begin {begin} and size {size} reach beyond {list(x.shape)}")
    return [_part(node, x, begin, sizes)]


def _slice_from(node: NodeView, x: Operand, sizes: Shape) -> Step:
    """`sizes` elements of `x` from an index on that is computed at run time."""
    begin = _indices(node, 1, len(x.shape))
    if -1 in sizes:
        raise RunTimeParameter(
            f"the size {list(sizes)} from where a run decides; expected no -1", 1
        )
    starts = tuple(n - size + 1 for n, size in zip(x.shape, sizes, strict=True))
    if min(sizes) < 0 or min(starts) < 1:
        raise Unsupported(f"the size {list(sizes)} of {list(x.shape)}")
    axes, at_first = tuple(range(len(sizes))), (0,) * len(sizes)
    return gathered(node, x, begin, Lookup(sizes, row_major(x.shape), at_first, axes, starts))


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
        raise Unsupported(f"{list(x.shape)} updated with {list(update.shape)}, which is larger")
    starts = _indices(node, 2, len(x.shape))
    if node.is_constant(2) and (node.array(2) != node.array(2).astype("int32")).any():
        raise Unsupported(f"the index {node.array(2).tolist()}; expected 32-bit integers")
    defines: dict[str, Define] = {
        "DIMS": len(x.shape),
        "SIZES": x.shape,
        "UPDATE_SIZES": update.shape,
        "UPDATE_STRIDES": row_major(update.shape),
        "UPDATE_CHANNELS": max(update.channels, 1),
        "UPDATE_PIXELS": update.pixels,
    }
    reads = (x, starts, update)
    return [by_texel(node, "dynamic_update_slice", reads, output, defines)]


def _part(
    node: NodeView,
    x: Operand,
    begin: Sequence[int],
    sizes: Shape,
    shape: Shape | None = None,
    i: int = 0,
) -> Step:
    """Output `i`: `sizes` elements of `x` from `begin` on."""
    strides = row_major(x.shape)
    offset = sum(at * stride for at, stride in zip(begin, strides, strict=True))
    return moved(node, x, sizes if shape is None else shape, View(sizes, strides, offset), i)


@dataclass(frozen=True)
class StridedSliceOptions(Options):
    begin_mask: Int32 = 0
    end_mask: Int32 = 0
    ellipsis_mask: Int32 = 0
    new_axis_mask: Int32 = 0
    shrink_axis_mask: Int32 = 0
    offset: Bool = False


NEW_AXIS, WHOLE_AXIS = -1, -2


def _takes_whole_rows(batch: Rows, options: StridedSliceOptions) -> bool:
    adds = options.ellipsis_mask or options.new_axis_mask or options.shrink_axis_mask & 1
    return not adds and bool(batch.node.array(3).reshape(-1)[0] == 1)


@op(
    "STRIDED_SLICE", max_version=8, options=StridedSliceOptions, moves="ranges", ends_networks=True,
    rows=within(0, where=_takes_whole_rows),
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
    if (options.new_axis_mask | options.ellipsis_mask) >> len(entries):
        raise Unsupported(f"a new axis or an ellipsis beyond the {len(entries)} entries")
    dense = row_major(x.shape)
    shape: list[int] = []
    sizes: list[int] = []
    strides: list[int] = []
    offset = axis = 0
    for entry in _entries(options, len(entries), len(x.shape)):
        if entry == NEW_AXIS:
            shape.append(1)
            continue
        if entry == WHOLE_AXIS:
            start, step, count = 0, 1, x.shape[axis]
        else:
            start, step, count = _range(options, entry, entries[entry], x.shape[axis])
        sizes.append(count)
        strides.append(step * dense[axis])
        offset += start * dense[axis]
        axis += 1
        if entry == WHOLE_AXIS or not options.shrink_axis_mask >> entry & 1:
            shape.append(count)
    return [moved(node, x, shape, View(tuple(sizes), tuple(strides), offset))]


@dataclass(frozen=True)
class _Index:
    """A begin of a slice, taken modulo a number and added to a start.

    Attributes:
        modulus: The size of the axis; 1 leaves the start alone.
    """

    axis: int = 0
    modulus: int = 1
    start: int = 0


def _strided_from(node: NodeView, options: StridedSliceOptions, x: Operand) -> list[Step]:
    """A slice from where a run decides, of a size that it does not decide."""
    begin, steps = node.input(1, "int"), node.array(3).ravel().tolist()
    count = len(steps)
    if {node.shape(1), node.shape(2)} != {(count,)} or {node.dtype(1), node.dtype(2)} != {"int32"}:
        raise Unsupported(f"indices that are not {count} of int32")
    if (options.new_axis_mask | options.ellipsis_mask) >> count:
        raise Unsupported(f"a new axis or an ellipsis beyond the {count} entries")
    begins, ends = (
        node.array(i).tolist() if node.is_constant(i) else [None] * count for i in (1, 2)
    )
    limits = list(zip(begins, ends, steps, strict=True))
    indices, lookup = _walk(options, limits, x.shape)
    own, places = (node.scratch((count,), name, "int") for name in ("own", "places"))
    moduli, starts = tuple(i.modulus for i in indices), tuple(i.start for i in indices)
    divisors, added = (Const(integers, (), (count,), n, "int") for n in (moduli, starts))
    return [
        elementwise(node, (begin, divisors), own, "FLOOR_MOD"),
        elementwise(node, (own, added), places, "ADD"),
        gathered(node, x, places, lookup),
    ]


def _walk(
    options: StridedSliceOptions, limits: Sequence[Limits], source: Shape
) -> tuple[list[_Index], Lookup]:
    """The index of each entry, and the lookup by these indices in a source of that shape."""
    dense = row_major(source)
    dims: list[tuple[int, int]] = []
    indices = [_Index()] * len(limits)
    axis = 0
    for entry in _entries(options, len(limits), len(source)):
        if entry == NEW_AXIS:
            dims.append((1, 0))
            continue
        step, length = 1, source[axis]
        if entry != WHOLE_AXIS:
            start, step, length = _known_range(options, entry, limits[entry], source[axis])
            indices[entry] = _Index(axis, source[axis] if start is None else 1, start or 0)
        if entry == WHOLE_AXIS or not options.shrink_axis_mask >> entry & 1:
            dims.append((length, step * dense[axis]))
        axis += 1
    return indices, Lookup(
        shape=tuple(size for size, _ in dims),
        strides=tuple(stride for _, stride in dims),
        walk=(0,) * len(dims),
        axes=tuple(index.axis for index in indices),
        channels_last=bool(dims) and dims[-1][1] == 1,
    )


Limits: TypeAlias = tuple[int | None, int | None, int]
"""The begin and end of an entry, None if a run decides them, and its stride."""


def _known_range(
    options: StridedSliceOptions, entry: int, limits: Limits, size: int
) -> tuple[int | None, int, int]:
    """`_range`, with None for what a run decides."""
    begin, end, step = limits
    starts_at_one_place = begin is not None or bool(options.begin_mask >> entry & 1)
    dropped = bool(options.shrink_axis_mask >> entry & 1)
    ends_at_one_place = end is not None or bool(options.end_mask >> entry & 1)
    if not dropped and not (ends_at_one_place and (starts_at_one_place or options.offset)):
        raise RunTimeParameter(
            f"a run decides the size of axis {entry} of the slice; expected one that is dropped, "
            "has constants or masks, or starts and sizes",
            1,
            2,
        )
    if starts_at_one_place:
        return _range(options, entry, (begin or 0, end or 0, step), size)
    length = 1 if dropped else end or 0
    if step <= 0 or not 0 <= length <= size or not size:
        raise Unsupported(f"{length} elements by steps of {step} of an axis of size {size}")
    return None, step, -(-length // step)


def _entries(options: StridedSliceOptions, count: int, rank: int) -> list[int]:
    """For each axis of the input, the index of its entry among the `count`, or WHOLE_AXIS.

    NEW_AXIS marks an added dimension.
    """
    found: list[int] = []
    new_axes = options.new_axis_mask & ~options.ellipsis_mask & ((1 << count) - 1)
    spare = rank - (count - bin(new_axes).count("1"))
    if spare < 0:
        raise Unsupported(f"{count} entries for {rank} axes; expected one each at most")
    for entry in range(count):
        if options.ellipsis_mask >> entry & 1:
            found += [WHOLE_AXIS] * (spare + 1)
            spare = 0
        else:
            found.append(NEW_AXIS if new_axes >> entry & 1 else entry)
    return found + [WHOLE_AXIS] * spare


def _range(
    options: StridedSliceOptions, entry: int, limits: tuple[int, int, int], size: int
) -> tuple[int, int, int]:
    """Start, step and count of the elements that an entry selects along an axis."""
    begin, end, step = limits
    if not step:
        raise Unsupported(f"a stride of 0 in entry {entry}")
    first, last = (0, size) if step > 0 else (-1, size - 1)  # where a range may start and end

    def place(index: int) -> int:
        return min(max(index + size if index < 0 else index, first), last)

    start = place(begin)
    if options.begin_mask >> entry & 1:
        start = 0 if step > 0 else size - 1
    if options.shrink_axis_mask >> entry & 1:
        if not 0 <= start < size or step < 0:
            raise Unsupported(
                f"index {begin} by steps of {step} of an axis of size {size} in entry {entry}; "
                "expected one of its elements and a positive step"
            )
        return start, 1, 1
    if options.end_mask >> entry & 1:
        stop = size if step > 0 else -1
    elif not options.offset:
        stop = place(end)
    else:
        stop = start + end
        if not first <= stop <= last:
            raise Unsupported(f"{end} from index {start} on, of an axis of size {size}")
    return start, step, max(0, -((start - stop) // step))


@op(
    "SPLIT", max_version=5, moves="ranges",
    rows=within(1, where=lambda batch, options: batch.node.array(0).item() % batch.rank),
)  # fmt: skip
def split(node: NodeView, options: Options) -> list[Step]:
    axis, x = one_integer(node, 0, "the axis"), node.input(1, None)
    axis, count = normal_axis(axis, len(x.shape)), len(node.outputs)
    if not count or x.shape[axis] % count:
        raise Unsupported(f"axis {axis} of {list(x.shape)} split into {count} equal parts")
    return _split(node, x, axis, [x.shape[axis] // count] * count)


@op(
    "SPLIT_V", max_version=3, moves="ranges",
    rows=within(0, where=lambda batch, options: batch.node.array(2).item() % batch.rank),
)  # fmt: skip
def split_v(node: NodeView, options: Options) -> list[Step]:
    x, lengths = node.input(0, None), node.array(1).ravel().tolist()
    axis = normal_axis(one_integer(node, 2, "the axis"), len(x.shape))
    if lengths.count(-1) == 1:
        lengths[lengths.index(-1)] = x.shape[axis] - sum(lengths) - 1
    if min(lengths, default=0) < 0 or sum(lengths) != x.shape[axis]:
        raise Unsupported(f"axis {axis} of {list(x.shape)} split into {lengths}")
    return _split(node, x, axis, lengths)


@dataclass(frozen=True)
class UnpackOptions(Options):
    num: Int32 = 0
    axis: Int32 = 0


@op(
    "UNPACK", max_version=6, options=UnpackOptions, moves="elements",
    rows=within(0, where=lambda batch, options: options.axis % batch.rank),
)  # fmt: skip
def unpack(node: NodeView, options: UnpackOptions) -> list[Step]:
    x = node.input(0, None)
    axis = normal_axis(options.axis, len(x.shape))
    return _split(node, x, axis, [1] * x.shape[axis], drop_axis=True)


def _split(
    node: NodeView, x: Operand, axis: int, lengths: Sequence[int], drop_axis: bool = False
) -> list[Step]:
    """One output per part of the axis; `drop_axis`: without that dimension."""
    if len(lengths) != len(node.outputs):
        raise Unsupported(f"{len(lengths)} parts for {len(node.outputs)} outputs")
    before, after = x.shape[:axis], x.shape[axis + 1 :]
    steps: list[Step] = []
    at = 0
    for i, length in enumerate(lengths):
        begin = [at if a == axis else 0 for a in range(len(x.shape))]
        shape = (*before, *after) if drop_axis else (*before, length, *after)
        steps.append(_part(node, x, begin, (*before, length, *after), shape, i))
        at += length
    return steps
