"""Rewrites of the dispatch list. Each is a pure function; the results stay the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace
from math import ceil

from gles_delegate.dispatch import Call, Dispatch, Operand, Value
from gles_delegate.limits import Limits
from gles_delegate.ops.lib.depthwise import depthwise_product
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.views import Copy, Region, View, view
from gles_delegate.ops.pooling import Pooling
from gles_delegate.planning.memory import ALIGNMENT

MOST_CALLS = 16
"""Calls of an epilogue: the compile time of a shader grows faster than its length. The longest of a
published model has 9."""


def fuse_elementwise(
    dispatches: list[Dispatch], kept: Set[Value], limits: Limits
) -> list[Dispatch]:
    """Fuse element-wise dispatches into the epilogue of the dispatch that produces their input.

    Args:
        kept: Tensors that must exist after the run.
    """
    writers: defaultdict[Operand, list[int]] = defaultdict(list)
    for i, dispatch in enumerate(dispatches):
        writers[dispatch.output].append(i)
    reads: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    narrow: dict[Operand, Operand]
    narrow = {d.output: d.reads[0] for d in dispatches if isinstance(d, Copy) and d.is_wider}
    pools: dict[Operand, Pooling] = {
        d.output: d
        for d in dispatches
        if isinstance(d, Pooling) and d.halves and reads[d.output] == 1
    }

    def ready(operand: Operand) -> int:
        """Index of the dispatch after which the operand, or the input of its pool, is there."""
        pool = pools.get(operand)
        return producer_of.get(pool.reads[0] if pool else operand, -1)

    def without(
        dispatch: Dispatch, operands: tuple[Operand, ...], call: tuple[Call, ...]
    ) -> list[Dispatch]:
        """The dispatches whose results nothing reads once `dispatch` is fused."""
        fused = {c.operand for c in call}
        replaced = set(dispatch.reads) - set(operands) | (set(operands) & pools.keys() - fused)
        read_once = (operand for operand in replaced if reads[operand] == 1)
        return [dispatches[i] for i in sorted(i for o in read_once for i in writers.get(o, ()))]

    result: list[Dispatch] = []
    producer_of: dict[Operand, int] = {}
    for dispatch in dispatches:
        # Prefer operands without the zero channels that a copy added to them.
        narrower = tuple(narrow.get(operand, operand) for operand in dispatch.reads)
        for operands in dict.fromkeys((narrower, dispatch.reads)):
            # The producer that runs last: by then the other operand has been computed.
            source = max(operands, key=ready)
            call = _as_call(replace(dispatch, reads=operands), source, pools)
            producer = producer_of.get(source)
            if (
                call is not None
                and producer is not None
                and source not in kept
                and len(writers[source]) == reads[source] == 1
                and len(result[producer].operands) + len(call)
                <= limits.reads_for(dispatch.output.nbytes)
                and len(epilogue := result[producer].epilogue + call + dispatch.epilogue)
                <= MOST_CALLS
            ):
                before = result[producer]
                joined = before.joined(dispatch, *without(dispatch, operands, call))
                result[producer] = replace(joined, output=dispatch.output, epilogue=epilogue)
                producer_of[dispatch.output] = producer
                break
        else:
            producer_of[dispatch.output] = len(result)
            result.append(dispatch)
    return result


def _as_call(
    dispatch: Dispatch, source: Operand, pools: Mapping[Operand, Pooling]
) -> tuple[Call, ...] | None:
    """The calls that an element-wise dispatch makes on the texels of `source`, or None.

    None if the texels of `source` are not those of the output, one to one, or if the other operand
    has other than the same texels, the first of them, one pixel, or one element. The other
    operand may be a result of `pools`. None if the function has loops: the source may store its
    results in one.
    """
    if not isinstance(dispatch, Elementwise) or dispatch.passes:
        return None
    if not _same_texels(source, dispatch.output):
        return None
    if any(operand.kind != "float" for operand in (*dispatch.reads, dispatch.output)):
        return None
    if len(dispatch.reads) == 1:
        return ()
    first, second = dispatch.reads
    other = second if first == source else first
    channels = dispatch.output.channels
    same_pixels = other.pixels == dispatch.output.pixels and (
        min(2, channels) <= other.channels <= channels
    )
    one_pixel = other.pixels == 1 and other.channels in (1, channels)
    if first == second or not (same_pixels or one_pixel):
        return None
    pool = pools.get(other)
    if pool is None or not same_pixels:
        return (Call(dispatch.function, operand=other, operand_first=first != source),)
    rows = pool.window.out_w
    return (Call(dispatch.function, (), pool.reads[0], first != source, rows),)


def _same_texels(a: Operand, b: Operand) -> bool:
    return (a.channels, a.pixels) == (b.channels, b.pixels)


def propagate_copies(
    dispatches: list[Dispatch], kept: Set[Value], limits: Limits
) -> list[Dispatch]:
    """Copy propagation: read from the source of a copy instead of from its result.

    Never from `kept` tensors, which the CPU may have changed in the meantime.
    """
    writers: defaultdict[Operand, list[Dispatch]] = defaultdict(list)
    result: list[Dispatch] = []
    for dispatch in dispatches:
        copies: list[Dispatch] = [dispatch]
        if isinstance(dispatch, Copy):
            copies = [*_shortcuts(dispatch, writers, kept, limits)] or copies
        writers[dispatch.output] += copies
        result += copies
    return result


def _shortcuts(
    copy: Copy, writers: Mapping[Operand, list[Dispatch]], kept: Set[Value], limits: Limits
) -> list[Copy]:
    """Equivalent copies that read the original sources directly, or [] if there are none."""
    old, *fill = copy.reads
    sources = {
        w.span: w.reads[0]
        for w in writers[old]
        if isinstance(w, Copy) and w.span and w.reads[0] not in kept
    }
    if list(sources) == [(0, old.elements)]:
        source = sources[0, old.elements]
        node, region = copy.node, copy.region
        shorter = view(source, copy.output, copy.how, limits, node, region, copy.epilogue, *fill)
        return _shortcuts(shorter, writers, kept, limits) or [shorter]
    in_rows = copy.region is None and copy.span and copy.output.channels == 4
    if not in_rows or len(sources) < len(writers[old]) or any(begin % 4 for begin, _ in sources):
        return []
    return [
        view(source, copy.output, View((end - begin,), (1,)), limits, copy.node,
             Region(rows := ceil((end - begin) / 4), 4, rows, rows, begin // 4))
        for (begin, end), source in sources.items()
    ]  # fmt: skip


def fuse_depthwise(dispatches: list[Dispatch], kept: Set[Value], limits: Limits) -> list[Dispatch]:
    """Fuse depthwise convolutions into the pointwise ones that alone read them, if it pays."""
    if not limits.profile.searches:
        return dispatches
    readers: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    makers: dict[Operand, Dispatch]
    makers = {d.output: d for d in dispatches if d.output not in kept and readers[d.output] == 1}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        first = makers.get(dispatch.reads[0])
        both = None
        if first and len(dispatch.operands) < limits.reads_for(dispatch.output.nbytes):
            both = depthwise_product(first, dispatch, limits)
        result.append(both.joined(first) if first and both else dispatch)
    return result


def concatenate_in_place(
    dispatches: list[Dispatch], kept: Set[Value]
) -> tuple[list[Dispatch], dict[Value, tuple[Value, int]]]:
    """In-place concatenation: compute tensors inside the tensor that they are concatenated to.

    Never `kept` tensors, which have buffers of their own.

    Returns:
        The dispatches without the copies; and for each tensor that now lies inside another: that
        other, which lies in no third one, and the byte offset in it.
    """
    made = {d.output for d in dispatches} - kept
    in_parts = made - {d.output for d in dispatches if not d.partial}
    copies: dict[Value, Copy] = {}
    inside: dict[Value, tuple[Value, int]] = {}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        if (
            isinstance(dispatch, Copy)
            and dispatch.output in in_parts
            and isinstance(source := dispatch.reads[0], Value)
            and source in made - copies.keys()
            and (offset := dispatch.first_byte) is not None
            and offset % ALIGNMENT == 0
        ):
            copies[source], inside[source] = dispatch, (dispatch.output, offset)
        else:
            result.append(dispatch)
    for value, (outer, offset) in reversed(inside.items()):
        if outer in inside:
            outermost, more = inside[outer]
            inside[value] = outermost, offset + more
    for i, dispatch in enumerate(result):
        output = dispatch.output
        while output in copies:
            result[i], output = result[i].joined(copies[output]), copies[output].output
    return result, inside


def eliminate_dead_code(dispatches: list[Dispatch], kept: Set[Value]) -> list[Dispatch]:
    """Drop the dispatches whose results nothing reads."""
    needed: set[Operand] = set(kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(dispatch.operands)
            result.append(dispatch)
    return result[::-1]
