"""Rewrites of the dispatch list: each a pure function, same results in fewer dispatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from gles_delegate.dispatch import Call, Dispatch, Operand, Value
from gles_delegate.limits import Limits


def fuse_elementwise(
    dispatches: list[Dispatch], kept: Set[Value], limits: Limits
) -> list[Dispatch]:
    """Let the producer of a tensor do what its only consumer does element by element.

    `kept` are the tensors that must exist after the run.
    """
    writes: Counter[Operand] = Counter(d.output for d in dispatches)
    reads: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    result: list[Dispatch] = []
    place: dict[Operand, int] = {}
    for dispatch in dispatches:
        # The producer that runs last: what the other operand holds is there by then.
        source = max(dispatch.reads, key=lambda operand: place.get(operand, -1))
        call = _as_call(dispatch, source)
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
            result[producer] = replace(before, output=dispatch.output, epilogue=epilogue)
            place[dispatch.output] = producer
        else:
            place[dispatch.output] = len(result)
            result.append(dispatch)
    return result


def _as_call(dispatch: Dispatch, source: Operand) -> tuple[Call, ...] | None:
    """What an element-wise dispatch does to the texels of `source`; None if it is something else.

    The texels must be those of the output, one to one, and the other operand must have the same
    texels, or one pixel, or one element.
    """
    if dispatch.shader != "elementwise" or not _same_texels(source, dispatch.output):
        return None
    if any(operand.kind != "float" for operand in (*dispatch.reads, dispatch.output)):
        return None
    if len(dispatch.reads) == 1:
        return ()
    first, second = dispatch.reads
    other = second if first == source else first
    channels = dispatch.output.channels
    if first == second or not (
        _same_texels(other, dispatch.output)
        or (other.pixels == 1 and other.channels in (1, channels))
    ):
        return None
    function = str(dispatch.defines["FUNCTION"])
    return (Call(function, operand=other, operand_first=first != source),)


def _same_texels(a: Operand, b: Operand) -> bool:
    return (a.channels, a.pixels) == (b.channels, b.pixels)


def drop_unused(dispatches: list[Dispatch], kept: Set[Value]) -> list[Dispatch]:
    """Without the dispatches whose results nobody reads."""
    needed: set[Operand] = set(kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(dispatch.operands)
            result.append(dispatch)
    return result[::-1]
