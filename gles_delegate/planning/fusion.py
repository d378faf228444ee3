"""Rewrites of the dispatch list: pure functions that leave the results as they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeAlias

from gles_delegate.dispatch import Call, Dispatch, Operand, Value
from gles_delegate.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.depthwise import depthwise_product
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.elementwise import Elementwise
from gles_delegate.ops.lib.views import Copy, Target, View, view
from gles_delegate.planning.memory import ALIGNMENT

MOST_CALLS = 16
"""Most calls of an epilogue: compile time grows faster than a shader's length. Published models
have up to 9."""


@dataclass(frozen=True)
class Scope:
    """The surroundings of the dispatches that are rewritten.

    Attributes:
        kept: Tensors that must exist after the run.
        tensors: The tensors of the graph.
        half: Tensors and weights will be stored as float16.
    """

    kept: Set[Value]
    tensors: Sequence[Tensor]
    limits: Limits
    half: bool = False


Rewrite: TypeAlias = Callable[[list[Dispatch], Scope], list[Dispatch]]


def fuse_elementwise(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Fuse element-wise dispatches into the epilogue of the dispatch that produces their input."""
    return _ElementwiseFusion(dispatches, scope).run()


class _ElementwiseFusion:
    def __init__(self, dispatches: list[Dispatch], scope: Scope) -> None:
        self._dispatches, self._scope = dispatches, scope
        self._writers: defaultdict[Operand, list[int]] = defaultdict(list)
        for i, dispatch in enumerate(dispatches):
            self._writers[dispatch.output].append(i)
        self._reads: Counter[Operand] = Counter(o for d in dispatches for o in d.operands)
        self._narrow: dict[Operand, Operand] = {
            d.output: d.reads[0] for d in dispatches if isinstance(d, Copy) and d.is_wider
        }
        self._pools: dict[Operand, Pooling] = {
            d.output: d
            for d in dispatches
            if isinstance(d, Pooling) and d.halves and self._reads[d.output] == 1
        }
        self._result: list[Dispatch] = []
        self._producers: dict[Operand, int] = {}

    def run(self) -> list[Dispatch]:
        for dispatch in self._dispatches:
            # Prefer operands without the zero channels that a copy added to them.
            narrower = tuple(self._narrow.get(operand, operand) for operand in dispatch.reads)
            if not any(
                self._fuse(dispatch, reads) for reads in dict.fromkeys((narrower, dispatch.reads))
            ):
                self._producers[dispatch.output] = len(self._result)
                self._result.append(dispatch)
        return self._result

    def _fuse(self, dispatch: Dispatch, operands: tuple[Operand, ...]) -> bool:
        # The last of the producers: by then the other operand has been computed.
        source = max(operands, key=self._ready)
        call = _as_call(replace(dispatch, reads=operands), source, self._pools)
        producer = self._producers.get(source)
        if call is None or producer is None or source in self._scope.kept:
            return False
        before = self._result[producer]
        epilogue = before.epilogue + call + dispatch.epilogue
        most = self._scope.limits.reads_for(dispatch.output.nbytes)
        if (
            not len(self._writers[source]) == self._reads[source] == 1
            or len(before.operands) + len(call) > most
            or len(epilogue) > MOST_CALLS
        ):
            return False
        joined = before.joined(dispatch, *self._unread(dispatch, operands, call))
        self._result[producer] = replace(joined, output=dispatch.output, epilogue=epilogue)
        self._producers[dispatch.output] = producer
        return True

    def _ready(self, operand: Operand) -> int:
        """Index of the dispatch that produces the operand, or the input of its pool."""
        pool = self._pools.get(operand)
        return self._producers.get(pool.reads[0] if pool else operand, -1)

    def _unread(
        self, dispatch: Dispatch, operands: tuple[Operand, ...], call: tuple[Call, ...]
    ) -> list[Dispatch]:
        """The dispatches whose results nothing reads once `dispatch` is fused."""
        fused = {c.operand for c in call}
        pools = set(operands) & self._pools.keys() - fused
        replaced = set(dispatch.reads) - set(operands) | pools
        read_once = (operand for operand in replaced if self._reads[operand] == 1)
        indices = sorted(i for operand in read_once for i in self._writers.get(operand, ()))
        return [self._dispatches[i] for i in indices]


def _as_call(
    dispatch: Dispatch, source: Operand, pools: Mapping[Operand, Pooling]
) -> tuple[Call, ...] | None:
    """The calls that an element-wise dispatch makes on the texels of `source`, or None.

    None if the texels of `source` and the output do not match one to one, or unless the other
    operand has the same texels, the first of them, one pixel, or one element. It may be a result
    of `pools`. None if the function has loops: the source may store its results in one.
    """
    if (
        not isinstance(dispatch, Elementwise)
        or dispatch.passes
        or (source.channels, source.pixels) != (dispatch.output.channels, dispatch.output.pixels)
        or any(operand.kind != "float" for operand in (*dispatch.reads, dispatch.output))
    ):
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


def propagate_copies(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Copy propagation: read from the source of a copy instead of from its result.

    Never from kept tensors: the CPU may change them in the meantime.
    """
    writers: defaultdict[Operand, list[Dispatch]] = defaultdict(list)
    result: list[Dispatch] = []
    for dispatch in dispatches:
        copies: list[Dispatch] = [dispatch]
        if isinstance(dispatch, Copy):
            copies = [*_shortcuts(dispatch, writers, scope.kept, scope.limits)] or copies
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
        node, target = copy.node, copy.target
        shorter = view(source, copy.output, copy.layout, limits, node, target, copy.epilogue, *fill)
        return _shortcuts(shorter, writers, kept, limits) or [shorter]
    in_rows = copy.target is None and copy.span and copy.output.channels == 4
    if not in_rows or len(sources) < len(writers[old]) or any(begin % 4 for begin, _ in sources):
        return []
    return [
        view(source, copy.output, View((end - begin,), (1,)), limits, copy.node,
             Target(rows := ceil((end - begin) / 4), 4, rows, rows, begin // 4))
        for (begin, end), source in sources.items()
    ]  # fmt: skip


def fuse_depthwise(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Fuse depthwise convolutions into pointwise ones, their only readers, if that is faster."""
    limits = scope.limits
    if not limits.profile.searches:
        return dispatches
    readers: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    makers: dict[Operand, Dispatch] = {
        d.output: d for d in dispatches if d.output not in scope.kept and readers[d.output] == 1
    }
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

    Never `kept` tensors, which have their own buffers.

    Returns:
        The dispatches without the copies; and for each tensor that now lies inside another: the
        outermost such tensor, and the byte offset in it.
    """
    computed = {d.output for d in dispatches} - kept
    joined = computed - {d.output for d in dispatches if not d.partial}
    copies: dict[Value, Copy] = {}
    inside: dict[Value, tuple[Value, int]] = {}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        if (
            isinstance(dispatch, Copy)
            and dispatch.output in joined
            and isinstance(source := dispatch.reads[0], Value)
            and source in computed - copies.keys()
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


def eliminate_dead_code(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Drop the dispatches whose results nothing reads."""
    needed: set[Operand] = set(scope.kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(dispatch.operands)
            result.append(dispatch)
    return result[::-1]
