"""Rewrites of the dispatch list: each a pure function, same results in fewer dispatches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import replace

from gles_delegate.dispatch import Dispatch, Operand, Value


def fuse_epilogues(dispatches: list[Dispatch], kept: Set[Value]) -> list[Dispatch]:
    """Let the producer of a tensor apply the element-wise function of its only consumer.

    `kept` are the tensors that must exist after the run.
    """
    writes: Counter[Operand] = Counter(d.output for d in dispatches)
    reads: Counter[Operand] = Counter(operand for d in dispatches for operand in d.reads)
    result: list[Dispatch] = []
    place: dict[Value, int] = {}
    for dispatch in dispatches:
        source = dispatch.reads[0]
        producer = place.get(source) if isinstance(source, Value) else None
        if (
            producer is not None
            and is_copy(dispatch)
            and source not in kept
            and writes[source] == reads[source] == 1
        ):
            before = result[producer]
            epilogue = before.epilogue + dispatch.epilogue
            result[producer] = replace(before, output=dispatch.output, epilogue=epilogue)
            place[dispatch.output] = producer
        else:
            place[dispatch.output] = len(result)
            result.append(dispatch)
    return result


def is_copy(dispatch: Dispatch) -> bool:
    """Whether the results are the input's texels through the epilogue, and nothing else."""
    return dispatch.shader == "elementwise" and len(dispatch.reads) == 1


def drop_unused(dispatches: list[Dispatch], kept: Set[Value]) -> list[Dispatch]:
    """Without the dispatches whose results nobody reads."""
    needed = set(kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(v for v in dispatch.reads if isinstance(v, Value))
            result.append(dispatch)
    return result[::-1]
