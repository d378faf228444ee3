"""Ops that add elements around others: PAD, MIRROR_PAD, DILATE and others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gles_delegate.dispatch import Dispatch, Operand, Step
from gles_delegate.ops.lib.elementwise import refuse_rescaling
from gles_delegate.ops.lib.index import row_major
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Longs, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.rows import within
from gles_delegate.ops.lib.views import View, bordered, moved, moved_output, view

_beside_rows = within(0, where=lambda batch, options: not batch.node.array(1)[0].any())


@op("PAD", "PADV2", max_version=6, rows=_beside_rows)
def pad(node: NodeView, options: Options) -> list[Step]:
    x, pads = node.input(0, None), _paddings(node)
    fill = node.input(2, x.kind) if node.op == "PADV2" else None
    if fill and fill.elements != 1:
        raise Unsupported(f"a pad value of shape {list(fill.shape)}; expected one element")
    layout = bordered(x.shape, pads)
    return [moved(node, x, layout.sizes, layout, fill=fill)]


@dataclass(frozen=True)
class MirrorPadOptions(Options):
    mode: Int8 = 0


@op("MIRROR_PAD", max_version=3, options=MirrorPadOptions, rows=_beside_rows)
def mirror_pad(node: NodeView, options: MirrorPadOptions) -> list[Step]:
    x, pads = node.input(0, None), _paddings(node)
    mirrored = [n - (options.mode == 0) for n in x.shape]
    if any(max(pair) > n for pair, n in zip(pads, mirrored, strict=True)):
        raise Unsupported(f"paddings {pads} of {list(x.shape)}, which has too little to mirror")
    layout = bordered(x.shape, pads, "SYMMETRIC" if options.mode else "REFLECT")
    return [moved(node, x, layout.sizes, layout)]


@op("DILATE", max_version=1)
def dilate(node: NodeView, options: Options) -> list[Step]:
    """Each element with its fill behind it, then all but the fill behind the last."""
    refuse_rescaling(node)
    x, dilations, fill = node.input(0, None), node.array(1), node.input(2, None)
    if (
        dilations.shape != (len(x.shape),)
        or dilations.min(initial=1) < 1
        or 0 in (*x.shape, len(x.shape))
    ):
        raise Unsupported(
            f"dilations {dilations.tolist()} of {list(x.shape)}; expected a positive number for "
            "each dimension, none of them empty"
        )
    if fill.kind != x.kind or node.dtype(2) != node.dtype(0) or not fill.elements:
        raise Unsupported(
            f"{node.dtype(0)} filled with {fill.elements} elements of {node.dtype(2)}"
        )
    steps = dilations.tolist()
    shape = tuple((n - 1) * step + 1 for n, step in zip(x.shape, steps, strict=True))
    output = moved_output(node, x, shape)
    spread = _spread(node, x, steps, fill)
    part = View(shape, row_major(spread.output.shape))
    return [spread, view(spread.output, output, part, node.limits, node.index)]


def _spread(node: NodeView, x: Operand, steps: Sequence[int], fill: Operand) -> Dispatch:
    """The elements spread out by `steps` along each dimension, with a fill between them."""
    pairs = list(zip(x.shape, steps, strict=True))
    whole = node.scratch((n * step for n, step in pairs), "whole", x.kind)
    layout = View(
        sizes=tuple(n for pair in pairs for n in pair),
        strides=tuple(step for stride in row_major(x.shape) for step in (stride, 0)),
        lower=(0,) * (2 * len(pairs)),
        upper=tuple(n for size, _ in pairs for n in (size, 1)),
    )
    return view(x, whole, layout, node.limits, node.index, fill=fill)


@dataclass(frozen=True)
class StablehloPadOptions(Options):
    low: Longs = ()
    high: Longs = ()
    interior: Longs = ()


@op("STABLEHLO_PAD", max_version=1, options=StablehloPadOptions)
def stablehlo_pad(node: NodeView, options: StablehloPadOptions) -> list[Step]:
    """Elements around and between others; negative paddings drop some."""
    refuse_rescaling(node)
    x, fill = node.input(0, None), node.input(1, None)
    low, high, interior, rank = options.low, options.high, options.interior, len(x.shape)
    if (
        {len(low), len(high), len(interior)} != {rank}
        or not rank
        or min(interior) < 0
        or 0 in x.shape
        or fill.elements != 1
        or node.dtype(1) != node.dtype(0)
    ):
        raise Unsupported(f"{options} of {list(x.shape)}; expected a number for each dimension")
    steps = [n + 1 for n in interior]
    sizes = [(n - 1) * step + 1 for n, step in zip(x.shape, steps, strict=True)]
    shape = tuple(a + n + b for a, n, b in zip(low, sizes, high, strict=True))
    if min(shape) < 1:
        raise Unsupported(f"the shape {list(shape)}; expected positive numbers")
    pads = [[a, b + 1 - step] for a, b, step in zip(low, high, steps, strict=True)]
    if max(steps) == 1:
        return [moved(node, x, shape, bordered(x.shape, pads), fill=fill)]
    spread, output = _spread(node, x, steps, fill), moved_output(node, x, shape)
    layout = bordered(spread.output.shape, pads)
    return [spread, view(spread.output, output, layout, node.limits, node.index, fill=fill)]


def _paddings(node: NodeView) -> list[list[int]]:
    """Elements to add before and after each dimension of input 0."""
    pads, rank = node.array(1), len(node.shape(0))
    if pads.shape != (rank, 2) or pads.min(initial=0) < 0:
        raise Unsupported(
            f"paddings {pads.tolist()} for rank {rank}; expected a pair each, none negative"
        )
    found: list[list[int]] = pads.tolist()
    return found
