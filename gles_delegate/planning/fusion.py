"""Rewrites of the dispatch list: each a pure function, same results in fewer dispatches."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Set
from dataclasses import replace
from math import ceil

from gles_delegate.dispatch import Call, Dispatch, Operand, Value
from gles_delegate.limits import Limits
from gles_delegate.ops.depthwise import depthwise_product
from gles_delegate.ops.elementwise import Elementwise
from gles_delegate.ops.lib.views import Copy, Region, View, view
from gles_delegate.ops.pooling import Pooling
from gles_delegate.planning.memory import ALIGNMENT


def fuse_elementwise(
    dispatches: list[Dispatch], kept: Set[Value], limits: Limits
) -> list[Dispatch]:
    """Let the producer of a tensor do what its only consumer does element by element.

    `kept` are the tensors that must exist after the run.
    """
    writes: Counter[Operand] = Counter(d.output for d in dispatches)
    reads: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    narrow: dict[Operand, Operand]
    narrow = {d.output: d.reads[0] for d in dispatches if isinstance(d, Copy) and d.is_wider}
    pools: dict[Operand, Pooling] = {
        d.output: d
        for d in dispatches
        if isinstance(d, Pooling) and d.halves and reads[d.output] == 1
    }

    def ready(operand: Operand) -> int:
        """After which dispatch the result there is, or what it may be computed from."""
        pool = pools.get(operand)
        return place.get(pool.reads[0] if pool else operand, -1)

    def without(
        dispatch: Dispatch, operands: tuple[Operand, ...], call: tuple[Call, ...]
    ) -> list[Dispatch]:
        """The dispatches that nobody needs once it is fused."""
        fused = {c.operand for c in call}
        replaced = set(dispatch.reads) - set(operands) | (set(operands) & pools.keys() - fused)
        return [d for d in dispatches if d.output in replaced and reads[d.output] == 1]

    result: list[Dispatch] = []
    place: dict[Operand, int] = {}
    for dispatch in dispatches:
        # Rather with operands as they were before channels of zeros were added to them.
        narrower = tuple(narrow.get(operand, operand) for operand in dispatch.reads)
        for operands in dict.fromkeys((narrower, dispatch.reads)):
            # The producer that runs last: what the other operand holds is there by then.
            source = max(operands, key=ready)
            call = _as_call(replace(dispatch, reads=operands), source, pools)
            producer = place.get(source)
            if (
                call is not None
                and producer is not None
                and source not in kept
                and writes[source] == reads[source] == 1
                and len(result[producer].operands) + len(call) <= limits.reads
            ):
                before = result[producer]
                epilogue = before.epilogue + call + dispatch.epilogue
                joined = before.joined(dispatch, *without(dispatch, operands, call))
                result[producer] = replace(joined, output=dispatch.output, epilogue=epilogue)
                place[dispatch.output] = producer
                break
        else:
            place[dispatch.output] = len(result)
            result.append(dispatch)
    return result


def _as_call(
    dispatch: Dispatch, source: Operand, pools: Mapping[Operand, Pooling]
) -> tuple[Call, ...] | None:
    """What an element-wise dispatch does to the texels of `source`; None if it is something else.

    The texels must be those of the output, one to one, and the other operand must have the same
    texels, or the first of them, or one pixel, or one element. It may be a result of `pools`.
    """
    if not isinstance(dispatch, Elementwise) or not _same_texels(source, dispatch.output):
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


def skip_copies(dispatches: list[Dispatch], kept: Set[Value], limits: Limits) -> list[Dispatch]:
    """Copy elements from where they were before they were reshaped, or joined one after another.

    Not from `kept` tensors: what the CPU reads and writes there may be new by then.
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
    """Copies that do the same from what the writers of its input read; none if there are none."""
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
    """Let pointwise convolutions compute the depthwise ones that they alone read, on llvmpipe."""
    if not limits.cpu:
        return dispatches
    readers: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    makers: dict[Operand, Dispatch]
    makers = {d.output: d for d in dispatches if d.output not in kept and readers[d.output] == 1}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        first = makers.get(dispatch.reads[0])
        both = None
        if first and len(dispatch.operands) < limits.reads:
            both = depthwise_product(first, dispatch, limits)
        result.append(both.joined(first) if first and both else dispatch)
    return result


def join_in_place(
    dispatches: list[Dispatch], kept: Set[Value]
) -> tuple[list[Dispatch], dict[Value, tuple[Value, int]]]:
    """Compute tensors where they are joined with others, instead of copying them there.

    Not `kept` tensors: those have buffers of their own.

    Returns:
        The dispatches without such copies; and by each tensor that lies inside another, which
        itself lies in no third one: that other, and from which byte on.
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


def drop_unused(dispatches: list[Dispatch], kept: Set[Value]) -> list[Dispatch]:
    """Without the dispatches whose results nobody reads."""
    needed: set[Operand] = set(kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(dispatch.operands)
            result.append(dispatch)
    return result[::-1]
