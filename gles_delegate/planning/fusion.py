"""Rewrites of the dispatch list: pure functions that leave the results as they are."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from math import ceil
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.depthwise import Depthwise, depthwise_product
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.elementwise import DIV, MUL, Elementwise
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.product import Convolution
from gles_delegate.ops.lib.views import Copy, Target, View, same_texels, view
from gles_delegate.ops.lib.window import Window
from gles_delegate.planning.in_place import is_range
from gles_delegate.shaders.dispatch import (
    Call,
    Const,
    Dispatch,
    Operand,
    Value,
    call_operands,
    every_call,
)

MOST_CALLS = 16
"""Maximum calls of an epilogue: compile time grows faster than a shader's length. Published models
have up to 9."""

SMALLEST, LARGEST = (float(n) for n in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
"""The range of float32's normal numbers."""


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


_IDENTITIES = (Call(MUL, number=1), Call(MUL, number=1, operand_first=True), Call(DIV, number=1))
"""Calls that return their argument; adding 0 is none, as it changes the sign of -0."""

Rewrite: TypeAlias = Callable[[list[Dispatch], Scope], list[Dispatch]]


def fuse_elementwise(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Fuse element-wise dispatches into the epilogue of the dispatch that produces their input."""
    return _ElementwiseFusion(dispatches, scope).run()


class _ElementwiseFusion:
    def __init__(self, dispatches: list[Dispatch], scope: Scope) -> None:
        self._dispatches = dispatches
        self._scope = scope
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
        call = _as_call(replace(dispatch, reads=operands), source, self._scope.tensors, self._pools)
        producer = self._producers.get(source)
        if call is None or producer is None or source in self._scope.kept:
            return False
        before = self._result[producer]
        if isinstance(before, Copy) and self._is_read_in_place(before):
            return False
        epilogue = before.epilogue + call + dispatch.epilogue
        most = self._scope.limits.reads_for(dispatch.output.nbytes)
        own = call_operands(dispatch.epilogue)
        if (
            not len(self._writers[source]) == self._reads[source] == 1
            or len(before.operands) + len(call_operands(call) + own) > most
            or sum(1 for _ in every_call(epilogue)) > MOST_CALLS
            or any(self._producers.get(operand, -1) > producer for operand in own)
        ):
            return False
        joined = before.joined(dispatch, *self._unread(dispatch, operands, call))
        self._result[producer] = replace(joined, output=dispatch.output, epilogue=epilogue)
        self._producers[dispatch.output] = producer
        return True

    def _is_read_in_place(self, copy: Copy) -> bool:
        """Whether its readers will read the input itself; see `drop_copies`."""
        alignment = self._scope.limits.offset_alignment * (2 if self._scope.half else 1)
        source = copy.reads[0]
        return (
            source in self._producers
            and source not in self._scope.kept
            and copy.output not in self._scope.kept
            and is_range(copy, alignment)
        )

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
    dispatch: Dispatch, source: Operand, tensors: Sequence[Tensor], pools: Mapping[Operand, Pooling]
) -> tuple[Call, ...] | None:
    """The calls that an element-wise dispatch makes on the texels of `source`, or None.

    None if the function has loops: the source may store its results in one. Otherwise as
    `operand_call`, for numbers of one type.
    """
    if (
        not isinstance(dispatch, Elementwise)
        or dispatch.passes
        or any(operand.kind != "float" for operand in (*dispatch.reads, dispatch.output))
    ):
        return None
    return operand_call(dispatch, source, tensors, pools)


def operand_call(
    dispatch: Elementwise,
    source: Operand,
    tensors: Sequence[Tensor],
    pools: Mapping[Operand, Pooling] = MappingProxyType({}),
) -> tuple[Call, ...] | None:
    """The call of a function of `source` and another operand, or none for `source` alone.

    None if the texels of `source` and the output do not match one to one, or unless the other
    operand has the same texels, the first of them, one pixel, or one element. It may be a result
    of `pools`.
    """
    if (source.channels, source.pixels) != (dispatch.output.channels, dispatch.output.pixels):
        return None
    if len(dispatch.reads) == 1:
        return (Call(dispatch.function),) if dispatch.function else ()
    if len(dispatch.reads) > 2:
        return None
    first, second = dispatch.reads
    other = second if first == source else first
    channels = dispatch.output.channels
    same_pixels = other.pixels == dispatch.output.pixels and (
        min(2, channels) <= other.channels <= channels
    )
    one_pixel = other.pixels == 1 and other.channels in (1, channels)
    if first == second or not (same_pixels or one_pixel):
        return None
    number = number_of(other, tensors)
    if number is not None:
        call = Call(dispatch.function, number=number, operand_first=first != source)
        return () if call in _IDENTITIES else (call,)
    pool = pools.get(other)
    if pool is None or not same_pixels:
        return (Call(dispatch.function, operand=other, operand_first=first != source),)
    rows = pool.window.out_w
    return (Call(dispatch.function, (), pool.reads[0], first != source, rows),)


def number_of(operand: Operand, tensors: Sequence[Tensor]) -> float | None:
    """The only element of a constant of real numbers, if GLSL ES has a literal for it."""
    if not isinstance(operand, Const) or operand.pack is not phwc4 or operand.kind == "int":
        return None
    if not operand.elements == len(operand.tensors) == 1:
        return None
    number = float(tensors[operand.tensors[0]].values().item())
    return number if number == 0 or SMALLEST <= abs(number) <= LARGEST else None


def propagate_copies(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Copy propagation: read from the source of a copy instead of from its result.

    Not from kept tensors: a dispatch may have changed them in the meantime. Inputs that none
    changes are read, if the copy's result is then no longer needed.
    """
    writers: defaultdict[Operand, list[Dispatch]] = defaultdict(list)
    readers: Counter[Operand] = Counter(operand for d in dispatches for operand in d.operands)
    unchanged = scope.kept - {dispatch.output for dispatch in dispatches}
    same: dict[Operand, Operand] = {}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        if same:
            dispatch = dispatch.reading(lambda operand: same.get(operand, operand))
        if isinstance(dispatch, Copy):
            dispatch = _through(dispatch, writers, scope, readers)
            if _is_same(dispatch, scope):
                same[dispatch.output] = dispatch.reads[0]
        copies: list[Dispatch] = [dispatch]
        if isinstance(dispatch, Copy):
            is_last = readers[dispatch.reads[0]] == 1
            kept = scope.kept - unchanged if is_last else scope.kept
            copies = [*_shortcuts(dispatch, writers, kept, scope.limits)] or copies
        writers[dispatch.output] += copies
        result += copies
    return result


def _through(
    copy: Copy,
    writers: Mapping[Operand, list[Dispatch]],
    scope: Scope,
    readers: Mapping[Operand, int],
) -> Copy:
    """One copy instead of two in a row, such as two transpositions, or the same copy."""
    old, *fill = copy.reads
    before = writers[old][0] if len(writers[old]) == readers[old] == 1 else None
    if not isinstance(before, Copy) or before.target or len(before.reads) > 1:
        return copy
    source = before.reads[0]
    if old in scope.kept or source in scope.kept or call_operands(before.epilogue):
        return copy
    layout = copy.layout.through(before.layout)
    if layout is None:
        return copy
    calls = (*before.epilogue, *copy.epilogue)
    made = view(source, copy.output, layout, scope.limits, copy.node, copy.target, calls, *fill)
    return made.joined(copy, before)


def _is_same(copy: Copy, scope: Scope) -> bool:
    """Whether its readers can read its source instead."""
    source, output = copy.reads[0], copy.output
    return (
        copy.span == (0, output.elements)
        and same_texels(source, output)
        and isinstance(source, Value)
        and source.kind == output.kind
        and not {source, output} & scope.kept
    )


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


def absorb_padding(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Read what is padded with zeros instead, where the window of a convolution can be padded."""
    copies: dict[Operand, Copy] = {}
    result: list[Dispatch] = []
    for dispatch in dispatches:
        copy = copies.get(dispatch.reads[0]) if dispatch.reads else None
        if copy and isinstance(dispatch, Convolution | Depthwise) and dispatch.window:
            dispatch = _with_padding(dispatch, dispatch.window, copy)
        # Whatever is written again no longer holds what was copied.
        copies = {o: c for o, c in copies.items() if dispatch.output not in (o, c.reads[0])}
        if isinstance(dispatch, Copy) and dispatch.borders:
            copies[dispatch.output] = dispatch
        result.append(dispatch)
    return result


def _with_padding(
    dispatch: Convolution | Depthwise, window: Window, copy: Copy
) -> Convolution | Depthwise:
    """The convolution of the source of a copy that adds rows and columns, if it is one."""
    source, borders = copy.reads[0], copy.borders
    padded = copy.output.shape
    if borders is None or padded[-1] != source.channels:
        return dispatch
    if len(padded) != 4 or padded[1:3] != (window.in_h, window.in_w):  # reshaped in between
        return dispatch
    (top, bottom), (left, right) = borders
    wider = replace(
        window,
        in_h=window.in_h - top - bottom,
        in_w=window.in_w - left - right,
        pad_h=window.pad_h + top,
        pad_w=window.pad_w + left,
    )
    numbers = {**wider.defines("KERNEL"), "IN_PIXELS": source.pixels}
    defines = {name: numbers.get(name, value) for name, value in dispatch.defines.items()}
    sizes = {name: int(str(numbers.get(name, n))) for name, n in dispatch.sizes.items()}
    reads = (source, *dispatch.reads[1:])
    return replace(dispatch.joined(copy), reads=reads, defines=defines, sizes=sizes, window=wider)


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


def eliminate_dead_code(dispatches: list[Dispatch], scope: Scope) -> list[Dispatch]:
    """Drop the dispatches whose results nothing reads."""
    needed: set[Operand] = set(scope.kept)
    result: list[Dispatch] = []
    for dispatch in reversed(dispatches):
        if dispatch.output in needed:
            needed.update(dispatch.operands)
            result.append(dispatch)
    return result[::-1]
