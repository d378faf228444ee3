"""Rules that fuse or split dispatches, or spare copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import replace
from math import ceil
from types import MappingProxyType

import numpy as np

from gles_delegate.kernels.depthwise import is_computed_at_once
from gles_delegate.model.graph import Tensor
from gles_delegate.ops.axis import SUM, Reduction
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.elementwise import DIV, MUL, PRELU, SQUARED_DIFFERENCE, Elementwise
from gles_delegate.ops.lib.index import merged
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.product import Convolution, Depthwise, DepthwisePointwise
from gles_delegate.ops.lib.views import Copy, Target, View, same_texels, view
from gles_delegate.planning.in_place import is_range
from gles_delegate.planning.rewriting import Edit, Is, Listing, Rule, has_texels_of, rule
from gles_delegate.shaders.dispatch import (
    Call,
    Const,
    Operand,
    Operation,
    Value,
    call_operands,
    every_call,
    integers,
)

_FOLDED_WITH_0 = {MUL, DIV, PRELU}
"""Functions that compilers fold with a literal 0, to 0 where the other operand is NaN, too."""

SMALLEST, LARGEST = (float(n) for n in (np.finfo(np.float32).tiny, np.finfo(np.float32).max))
"""The range of float32's normal numbers."""

_IDENTITIES = (Call(MUL, number=1), Call(MUL, number=1, operand_first=True), Call(DIV, number=1))
"""Calls that return their argument; adding 0 is none, as it changes the sign of -0."""


@rule(Is(Elementwise))
def fuse_elementwise(listing: Listing, dispatch: Elementwise) -> Iterator[Edit]:
    """Fuse element-wise dispatches into the epilogue of the dispatch that computes an operand.

    Preferably of operands without the zero channels that a copy added to them.
    """
    makers = {read: listing.maker(read, dispatch) for read in dispatch.reads}
    wider = {o: d for o, d in makers.items() if isinstance(d, Copy) and d.is_wider}
    copied = {operand: copy.reads[0] for operand, copy in wider.items()}
    for reads in dict.fromkeys((tuple(copied.get(o, o) for o in dispatch.reads), dispatch.reads)):
        made_for_it = {o: listing.maker(o, dispatch) for o in reads if listing.reads(o) == 1}
        pools = {o: d for o, d in made_for_it.items() if isinstance(d, Pooling) and d.halves}
        sources = {o: pools[o].reads[0] if o in pools else o for o in reads}
        made_by = {o: listing.maker(s, dispatch) for o, s in sources.items()}
        places = {o: listing.place(maker) if maker else -1 for o, maker in made_by.items()}
        # First of the last to be computed: by then the other operand has been. An earlier one can
        # be computed later.
        by_place = sorted(sources, key=places.__getitem__, reverse=True)
        for source in by_place:
            before = listing.maker(source, dispatch)
            if before is None or not listing.is_read_once(source):
                continue
            if _is_read_in_place(listing, before):
                continue
            # No function with loops: the source may store its results in one.
            if dispatch.passes or any(x.kind != "float" for x in (*reads, dispatch.output)):
                continue
            reader = replace(dispatch, reads=reads)
            call = operand_call(reader, source, listing.scope.tensors, pools)
            if call is not None:
                epilogue = before.epilogue + call + dispatch.epilogue
                made = replace(before, output=dispatch.output, epilogue=epilogue)
                first = (before, dispatch) if source == by_place[0] else (dispatch, before)
                yield Edit(made, *first, *wider.values(), *pools.values())


def _is_read_in_place(listing: Listing, copy: Operation) -> bool:
    """Whether the readers of a copy will read its input itself; see `drop_copies`."""
    source = copy.reads[0] if copy.reads else None
    return (
        isinstance(copy, Copy)
        and source is not None
        and listing.maker(source, copy) is not None
        and listing.scope.kept.isdisjoint({source, copy.output})
        and _is_range(listing, copy)
    )


def _is_range(listing: Listing, copy: Operation) -> bool:
    scope = listing.scope
    return is_range(copy, scope.limits.offset_alignment * (2 if scope.half else 1))


def _are_views(listing: Listing, value: Value, layout: View) -> bool:
    """Whether only copies read a tensor, each of which `layout` could be a part of."""
    readers = listing.readers(value)
    return bool(readers) and all(isinstance(r, Copy) and r.layout.through(layout) for r in readers)


def operand_call(
    dispatch: Elementwise,
    source: Operand,
    tensors: Sequence[Tensor],
    pools: Mapping[Operand, Pooling] = MappingProxyType({}),
) -> tuple[Call, ...] | None:
    """The call of a function of `source` and another operand, or none for `source` alone.

    None if the texels of `source` and the output do not match one to one, or unless the other
    operand is one that `Call` lists. It may be a result of `pools`.
    """
    if not has_texels_of(source, dispatch.output):
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
    spread = () if same_pixels or one_pixel else _spread(dispatch, "AB"[second == other])
    if first == second or not (same_pixels or one_pixel or spread):
        return None
    if spread and other.channels not in (1, channels):
        return None
    number = number_of(other, tensors)
    if number == 0 and dispatch.function in _FOLDED_WITH_0:
        number = None
    if number is not None:
        call = Call(dispatch.function, number=number, operand_first=first != source)
        return () if call in _IDENTITIES else (call,)
    pool = pools.get(other)
    if pool is None or not same_pixels:
        call = Call(dispatch.function, operand=other, operand_first=first != source, spread=spread)
        return (call,)
    rows = pool.window.out_w
    return (Call(dispatch.function, (), pool.reads[0], first != source, rows),)


def _spread(dispatch: Elementwise, name: str) -> tuple[int, ...]:
    """`Call.spread` of the read of that name; () if it has none."""
    dims = merged(
        integers(dispatch.numbers["SIZES"]), integers(dispatch.numbers[f"{name}_STRIDES"])
    )
    match [*zip(*dims, strict=True)]:
        case [(_, 0), (inner, 1)]:
            return dispatch.output.pixels, 0, inner
        case [(_, 1), (share, 0)]:
            return share, 1, 1
        case [(_, outer), (share, 0), (inner, 1)] if outer == inner:
            return share * inner, inner, inner
    return ()


def is_repeated(dispatch: Elementwise, name: str) -> bool:
    """Whether each pixel of a read belongs to as many pixels in a row of the output."""
    numbers = dispatch.numbers
    is_simple = numbers[f"{name}_SAME_PIXELS"] or numbers[f"{name}_PIXELS"] == 1
    return bool(is_simple) or _spread(dispatch, name)[1:] == (1, 1)


def number_of(operand: Operand, tensors: Sequence[Tensor]) -> float | None:
    """The only element of a constant of real numbers, if GLSL ES has a literal for it."""
    number = only_element(operand, tensors)
    has_literal = number is not None and (number == 0 or SMALLEST <= abs(number) <= LARGEST)
    return number if has_literal else None


def only_element(operand: Operand, tensors: Sequence[Tensor]) -> float | None:
    """The element of a constant of one real number."""
    if not isinstance(operand, Const) or operand.pack is not phwc4 or operand.kind == "int":
        return None
    if not operand.elements == len(operand.tensors) == 1:
        return None
    return float(tensors[operand.tensors[0]].values().item())


def _direct_reads(listing: Listing, copy: Copy, kept: Set[Value]) -> list[Copy]:
    old, *fill = copy.reads
    limits, writers = listing.scope.limits, listing.writers(old)
    sources = {
        w.span: w.reads[0]
        for w in writers
        if isinstance(w, Copy) and w.span and w.reads[0] not in kept
    }
    if list(sources) == [(0, old.elements)]:
        source = sources[0, old.elements]
        node, target = copy.node, copy.target
        shorter = view(source, copy.output, copy.layout, limits, node, target, copy.epilogue, *fill)
        return _direct_reads(listing, shorter, kept) or [shorter]
    in_rows = copy.target is None and copy.span and copy.output.channels == 4
    if not in_rows or len(sources) < len(writers) or any(begin % 4 for begin, _ in sources):
        return []
    return [
        view(source, copy.output, View((end - begin,), (1,)), limits, copy.node,
             Target(rows := ceil((end - begin) / 4), 4, rows, rows, begin // 4))
        for (begin, end), source in sources.items()
    ]  # fmt: skip


class _CopyPropagation:
    """The copies of a listing: the places of those that change nothing, and what is read once."""

    def __init__(self, listing: Listing) -> None:
        self._same: set[int] = set()
        outputs = {copy.output for copy in listing.operations if isinstance(copy, Copy)}
        self._read_once = set(filter(listing.is_read_once, outputs))

    def read_past(self, listing: Listing, dispatch: Operation) -> Iterator[Edit]:
        """A dispatch that reads from the sources of copies that change nothing."""
        makers = {operand: listing.maker(operand, dispatch) for operand in dispatch.operands}
        same = {o: d.reads[0] for o, d in makers.items() if d and listing.place(d) in self._same}
        if same:
            yield Edit(dispatch.reading(lambda operand: same.get(operand, operand)), dispatch)

    def through(self, listing: Listing, copy: Copy, before: Copy) -> Iterator[Edit]:
        """One copy instead of two in a row, such as two transpositions, or the same copy."""
        (source, *more), fill, limits = before.reads, copy.reads[1:], listing.scope.limits
        if before.target or more or call_operands(before.epilogue) or copy.counts_lanes:
            return
        between, kept = before.output, listing.scope.kept
        # Each of several parts reads the source; one that is a range of bytes there is no copy.
        if source in kept or not (
            between in self._read_once
            or (
                between not in kept
                and _are_views(listing, between, before.layout)
                and not any(_is_range(listing, part) for part in listing.readers(between))
            )
        ):
            return
        if layout := copy.layout.through(before.layout):
            calls = (*before.epilogue, *copy.epilogue)
            made = view(source, copy.output, layout, limits, copy.node, copy.target, calls, *fill)
            yield Edit(made, copy, before)

    def read_sources(self, listing: Listing, copy: Copy) -> Iterator[Edit]:
        """Equivalent copies that read the original sources directly.

        Not kept tensors, except inputs, if the texels of the input are then no longer needed.
        """
        source, output, kept = copy.reads[0], copy.output, listing.scope.kept
        if (
            copy.span == (0, output.elements)
            and same_texels(source, output)
            and isinstance(source, Value)
            and source.kind == output.kind
            and not {source, output} & kept
        ):
            self._same.add(listing.place(copy))
            return
        is_last = listing.reads(source) == 1
        kept = {value for value in kept if not is_last or listing.writers(value)}
        if not copy.counts_lanes and (copies := _direct_reads(listing, copy, kept)):
            yield Edit(copies, copy)


def propagate_copies(listing: Listing) -> None:
    """Copy propagation: read from the source of a copy instead of from its result.

    Not from kept tensors: a dispatch may have changed them in the meantime.
    """
    copies = _CopyPropagation(listing)
    listing.rewrite(
        Rule(Is(Operation), copies.read_past),
        Rule(Is(Copy, Is(Copy)), copies.through),
        Rule(Is(Copy), copies.read_sources),
    )


@rule(Is(Copy))
def join_parts(listing: Listing, last: Copy) -> Iterator[Edit]:
    """Replace two copies of parts of a tensor that change places in its rows, as of a roll."""
    x, output, writers = last.reads[0], last.output, listing.writers(last.output)
    if len(writers) != 2 or writers[1] is not last:
        return
    lengths, offsets = [], []
    for part in writers:
        if not isinstance(part, Copy) or not (area := part.target) or part.reads != (x,):
            return
        if part.epilogue or part.counts_lanes or area.channels != output.channels:
            return
        row = min(area.row, area.pixels)
        length = area.out_row if area.pixels > row else output.pixels
        sizes = area.pixels // row, row, area.channels
        rows = merged(sizes, (length * area.channels, area.channels, 1))
        layout = part.layout
        if merged(layout.sizes, layout.strides) != rows or layout.has_bounds:
            return
        lengths.append((row, length, area.out_pixel))
        offsets.append(layout.offset)
    (first, length, at), (second, _, then) = lengths
    channels = output.channels
    is_all = (first + second, at, then, *offsets) == (length, 0, first, second * channels, 0)
    if is_all and output.pixels % length == 0:
        sizes = output.pixels // length, length, channels
        bounds = (0, -second, 0), (sizes[0], first, channels)
        layout = View(sizes, (length * channels, channels, 1), second * channels, *bounds, "WRAP")
        yield Edit(view(x, output, layout, listing.scope.limits, last.node), last, writers[0])


def _of_channels(copy: Copy, channels: int) -> View | None:
    """How a copy moves pixels, for pixels of so many channels; None unless it moves whole ones."""
    (*sizes, last), (*strides, step), own = copy.layout.sizes, copy.layout.strides, copy.layout
    x, old = copy.reads[0], copy.output.channels
    if not (copy.is_view and isinstance(x, Value)):
        return None
    is_whole = (last, step, x.channels) == (old, 1, old)
    if not is_whole or any(n % old for n in (own.offset, *strides)):
        return None
    strides = [stride // old * channels for stride in strides]
    return View((*sizes, channels), (*strides, 1), own.offset // old * channels)


def _ignores_pixels(calls: Sequence[Call]) -> bool:
    """Whether the calls do the same to each pixel."""
    operands = (call for call in every_call(calls) if call.operand is not None)
    return all(call.operand.pixels == 1 and not call.spread for call in operands)  # type: ignore


def _pixels_later(listing: Listing, product: Convolution, copy: Copy) -> Iterator[Edit]:
    """The product of what a copy reads; the copies that read it move its pixels, too."""
    source, output = copy.reads[0], product.output
    layout = _of_channels(copy, output.channels)
    if (
        layout
        and source.pixels <= output.pixels
        and not copy.epilogue
        and _ignores_pixels(product.epilogue)
        and _are_views(listing, output, layout)
    ):
        shape = *source.shape[:-1], output.channels
        seen = replace(output, shape=shape, name=f"{output.name}of all pixels")
        first = replace(product, reads=(source, *product.reads[1:]), output=seen)
        moved = view(seen, output, layout, listing.scope.limits, copy.node)
        yield Edit((first, moved), product, copy)


def _pixels_earlier(
    listing: Listing, copy: Copy, product: Convolution, first: Copy
) -> Iterator[Edit]:
    """The product of pixels that are moved before, by the copy that it reads."""
    output, x = copy.output, first.reads[0]
    layout = _of_channels(copy, first.output.channels)
    both = layout.through(first.layout) if layout else None
    if (
        both
        and output.pixels <= product.output.pixels
        and first.is_view
        and not call_operands(first.epilogue)
        and _ignores_pixels(product.epilogue)
    ):
        seen = replace(
            output, shape=(*output.shape[:-1], first.output.channels), name=f"{output.name}read"
        )
        moved = view(x, seen, both, listing.scope.limits, first.node, None, first.epilogue)
        made = replace(
            product, reads=(seen, *product.reads[1:]), output=output,
            epilogue=product.epilogue + copy.epilogue,
        )  # fmt: skip
        yield Edit((moved, made), copy, product, first)


def _is_pointwise(product: Convolution) -> bool:
    return product.window is None


def move_copies(listing: Listing) -> None:
    """Move pixels before or after products of single pixels, where one copy then does for two."""
    first = Is(Copy, read_once=True)
    listing.rewrite(
        Rule(Is(Convolution, first, where=_is_pointwise), _pixels_later),
        Rule(Is(Copy, Is(Convolution, first, True, _is_pointwise)), _pixels_earlier),
    )


@rule(Is(Convolution | Depthwise, Is(Copy)))
def absorb_padding(
    listing: Listing, dispatch: Convolution | Depthwise, copy: Copy
) -> Iterator[Edit]:
    """Read what is padded with zeros instead, where the window of a convolution can be padded."""
    source, borders, window = copy.reads[0], copy.borders, dispatch.window
    padded = copy.output.shape
    if borders is None or window is None or padded[-1] != source.channels:
        return
    if len(padded) != 4 or padded[1:3] != (window.in_h, window.in_w):  # reshaped in between
        return
    (top, bottom), (left, right) = borders
    wider = replace(
        window,
        in_h=window.in_h - top - bottom,
        in_w=window.in_w - left - right,
        pad_h=window.pad_h + top,
        pad_w=window.pad_w + left,
    )
    reads = (source, *dispatch.reads[1:])
    yield Edit(replace(dispatch.joined(copy), reads=reads, window=wider), dispatch, copy)


@rule(Is(Reduction, Is(Elementwise, read_once=True)))
def sum_squares(listing: Listing, total: Reduction, squares: Elementwise) -> Iterator[Edit]:
    """Square differences from a mean where they are summed, as in instance normalization."""
    if total.combination is not SUM or total.defines["REDUCE_CHANNELS"]:
        return
    numbers = squares.numbers
    if squares.function != SQUARED_DIFFERENCE or squares.epilogue or "A_UNIT" in numbers:
        return
    (x, name), (mean, other) = sorted(
        zip(squares.reads, "AB", strict=True), key=lambda read: -read[0].pixels
    )
    is_whole = has_texels_of(x, squares.output) and has_texels_of(x, total.reads[0])
    is_float = all(each.kind == "float" for each in (x, mean, squares.output, total.output))
    is_mean = mean.channels == x.channels and mean.pixels > 0 and x != mean
    if not (is_whole and is_float and is_mean and numbers[f"{name}_SAME_PIXELS"]):
        return
    # A pixel of the mean belongs to `share` pixels in a row, which a sum must not leave.
    share = x.pixels // mean.pixels
    reduced = (integers(total.defines[key]) for key in ("REDUCED_SIZES", "REDUCED_STRIDES"))
    is_inside = all(n == 1 or n * stride <= share for n, stride in zip(*reduced, strict=True))
    if is_repeated(squares, other) and (mean.pixels == 1 or is_inside):
        defines = {**total.defines, "SQUARES": 1, "M_PIXELS": mean.pixels, "M_SHARE": share}
        yield Edit(replace(total, reads=(x, mean), defines=defines), total, squares)


def _is_plain(product: Convolution) -> bool:
    """Whether each output texel is a sum of constants times all channels of its pixel."""
    is_constant = product.weights.constants is not None
    return product.window is None and product.divisions == 1 and is_constant


@rule(Is(Convolution, Is(Depthwise, read_once=True), where=_is_plain))
def pair_depthwise(listing: Listing, product: Convolution, first: Depthwise) -> Iterator[Edit]:
    """Pair depthwise convolutions with pointwise ones that alone read them, if a kernel fits."""
    if first.multiplier != 1 or call_operands(first.epilogue):
        return
    pair = DepthwisePointwise(
        node=product.node,
        reads=first.reads,
        output=product.output,
        epilogue=product.epilogue,
        flops=first.flops + product.flops,
        fused=product.fused,
        first=first,
        second=product,
    )
    if listing.scope.is_tuned or is_computed_at_once(pair, listing.scope.setting(product.node)):
        yield Edit(pair, product, first)
