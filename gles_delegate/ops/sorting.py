"""Ops that put the elements of an axis in order: TOPK_V2 and STABLEHLO_SORT."""

from __future__ import annotations

from math import ceil, prod

from gles_delegate.ops.gathering import Lookup, gathered
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import normal_axis, row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, one_integer
from gles_delegate.ops.lib.options import Bool, Int32, Int64, Options
from gles_delegate.ops.lib.regions import comparator
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, moved_output, viewed
from gles_delegate.shaders.dispatch import Define, Dispatch, Operand, Step, Value


@op("TOPK_V2", max_version=3, rows=rows.last_axis, sized_by=(1,))
def top_k(node: NodeView, options: Options) -> list[Step]:
    k, x = one_integer(node, 1, "the count"), node.input(0, None)
    if not x.shape or node.dtype(0) == "bool":
        raise Unsupported(f"the {k} largest of {node.dtype(0)} {list(x.shape)}")
    if not 0 <= k <= x.channels:
        raise UnfitSizes(f"the {k} largest of {x.channels} elements")
    shape = (*x.shape[:-1], k)
    values, indices = moved_output(node, x, shape), node.output(shape, 1, "int", "int32")
    found = Lookup([(x.pixels, x.channels, k), (k, 0, 1)], (len(shape) - 1,))
    return [
        *_first(node, x, k, "key_of", indices),
        gathered(node, x, indices, found, output=values),
    ]


class StablehloSortOptions(Options):
    axis: Int64 = 0
    is_stable: Bool = False
    comparator_subgraph_index: Int32 = 0


@op("STABLEHLO_SORT", options=StablehloSortOptions, rows=rows.joined)
def sort(node: NodeView, options: StablehloSortOptions) -> list[Step]:
    """Every operand in the order of one of them; equal elements stay in order."""
    operands = [node.input(i, None) for i in range(len(node.inputs))]
    shapes = [operand.shape for operand in operands]
    if len({*shapes}) != 1 or len(node.outputs) != len(operands):
        raise UnfitSizes(
            f"operands of the shapes {[*map(list, shapes)]} and {len(node.outputs)} results; "
            "expected operands of one shape, and a result for each"
        )
    shape = shapes[0]
    axis = normal_axis(options.axis, len(shape))
    order = comparator(node, options.comparator_subgraph_index, len(operands))
    others, n = (*shape[:axis], *shape[axis + 1 :]), shape[axis]
    dense = row_major(shape)
    lines = View((*others, n), (*dense[:axis], *dense[axis + 1 :], dense[axis]))
    key = operands[order.operand]
    x = node.scratch((prod(others), n), "lines", key.kind)
    indices = node.scratch(x.shape, "order", "int")
    along = row_major(lines.sizes)
    steps_in_order = (*along[:axis], 1, *along[axis:-1])
    dims = [
        (size, 0 if dim == axis else dense[dim], steps_in_order[dim])
        for dim, size in enumerate(shape)
    ]
    lookup = Lookup(dims, (axis,), channels_last=False)
    return [
        viewed(node, key, x, lines),
        *_first(node, x, n, order.key, indices),
        *(
            gathered(node, operand, indices, lookup, output=moved_output(node, operand, shape, i))
            for i, operand in enumerate(operands)
        ),
    ]


def _first(node: NodeView, x: Operand, k: int, key: str, indices: Value) -> list[Step]:
    """The channels of the `k` elements of each pixel with the largest keys, in order.

    Args:
        key: The function or macro of glsl/lib/keys.glsl that gives an element's key.
        indices: The result: rows of `k` channels.
    """
    pairs, span = _sorted_blocks(node, x, k, key), BLOCK
    steps: list[Step] = [pairs]
    while span < x.channels:
        pairs = _merged_runs(node, pairs.output, x.channels, span, k)
        steps.append(pairs)
        span *= RUNS
    second = View((x.pixels, k), (4 * k, 4), 1)
    return [*steps, viewed(node, pairs.output, indices, second)]


BLOCK = 256
"""Elements of a block, the part of a row that is sorted first."""
ONE_BY_ONE = 16
"""Maximum elements of a block that are found in sequence, each by one pass over the block."""
RUNS = 4
"""Sorted runs that are merged into one; each pair is searched for in all of them."""


def _sorted_blocks(node: NodeView, x: Operand, k: int, key: str) -> Dispatch:
    """Pairs of keys and channels: the first `k` of each block of a row, in order."""
    width, slices, one_by_one = _kept(x.channels, BLOCK, k), BLOCK // 4, k <= ONE_BY_ONE
    output = node.scratch((x.pixels, width, 4), "blocks", "int")
    defines: dict[str, Define] = {
        **x.size_defines("IN"),
        "BLOCK": slices,
        "KEPT": min(BLOCK, k),
        "WIDTH": width,
        "KEY": key,
        "ONE_BY_ONE": int(one_by_one),
    }
    parts = ceil(x.slices / slices) if one_by_one else x.slices
    passes = k * (slices + 2) + 1 if one_by_one else slices + 1
    grid = make_grid(parts * x.pixels, 1, node.limits)
    dispatch = node.dispatch("top_k", (x,), output, grid, defines, passes=passes)
    return dispatch.sized("IN_CHANNELS", "IN_PIXELS", "KEPT", "WIDTH")


def _merged_runs(node: NodeView, pairs: Value, channels: int, span: int, k: int) -> Dispatch:
    """`pairs` with `RUNS` runs merged into one, where a run has the first `k` of a `span`."""
    rows, width, _ = pairs.shape
    length, kept = min(span, k), _kept(channels, RUNS * span, k)
    output = node.scratch((rows, kept, 4), f"merged{span}", "int")
    defines: dict[str, Define] = {
        "IN_PIXELS": pairs.pixels,
        "IN_WIDTH": width,
        "LENGTH": length,
        "RUNS": RUNS,
        "KEPT": min(RUNS * span, k),
        "WIDTH": kept,
    }
    grid = make_grid(pairs.pixels, 1, node.limits)
    passes = RUNS * (length.bit_length() + 2) + 1
    dispatch = node.dispatch("top_k_merge", (pairs,), output, grid, defines, passes=passes)
    return dispatch.sized("IN_PIXELS", "IN_WIDTH", "LENGTH", "KEPT", "WIDTH")


def _kept(channels: int, span: int, k: int) -> int:
    """How many of a row's elements are among the first `k` of their `span`."""
    whole, rest = divmod(channels, span)
    return whole * min(span, k) + min(rest, k)
