"""Ops that only move elements: reshapes, transpositions, tiles, paddings, diagonals ..."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import refuse_rescaling
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import broadcast_strides, normal_axis, row_major
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, one_integer
from gles_delegate.ops.lib.options import Int8, Int32, Ints, Longs, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import View, bordered, moved, moved_output, reshaped_input, viewed
from gles_delegate.shaders.dispatch import Define, Dispatch, Operand, Shape, Step


class ReshapeOptions(Options):
    new_shape: Ints = ()


@op(
    "RESHAPE", options=ReshapeOptions, rows=rows.reshaping,
    moves="elements", ends_networks=True,
    example=lambda shape, count, output: (-1, *(1,) * (count - 1)),
)  # fmt: skip
def reshape(node: NodeView, options: ReshapeOptions) -> list[Step]:
    old = node.shape(0)
    if node.has_input(1) and (node.dtype(1), len(node.shape(1))) == ("int32", 1):
        new_shape = node.array(1).ravel().tolist()
    else:  # LiteRT takes the shape for a vector of int32 only
        new_shape = list(options.new_shape)
        if new_shape == [0]:  # a scalar to old converters
            new_shape = []
    if new_shape.count(-1) == 1:
        others = -prod(new_shape)
        new_shape[new_shape.index(-1)] = prod(old) // others if others else 0
    if any(size < 0 for size in new_shape) or prod(new_shape) != prod(old):
        raise UnfitSizes(f"{list(old)} reshaped to {new_shape}: the elements differ in number")
    return reshaped_input(node, new_shape)


@op("EXPAND_DIMS", rows=rows.reshaping, moves="elements")
def expand_dims(node: NodeView, options: Options) -> list[Step]:
    old = node.shape(0)
    axis = normal_axis(one_integer(node, 1, "the axis"), len(old) + 1)
    return reshaped_input(node, (*old[:axis], 1, *old[axis:]))


class SqueezeOptions(Options):
    squeeze_dims: Ints = ()


@op(
    "SQUEEZE", max_version=2, options=SqueezeOptions, rows=rows.reshaping, moves="elements",
    ends_networks=True,
)  # fmt: skip
def squeeze(node: NodeView, options: SqueezeOptions) -> list[Step]:
    old = node.shape(0)
    axes = {normal_axis(axis, len(old)) for axis in options.squeeze_dims}
    if any(old[axis] != 1 for axis in axes):
        raise UnfitSizes(f"the dimensions {sorted(axes)} of {list(old)} squeezed; expected 1s")
    if not axes:
        axes = {axis for axis, size in enumerate(old) if size == 1}
    return reshaped_input(node, (size for axis, size in enumerate(old) if axis not in axes))


@op(
    "TRANSPOSE", max_version=9, example=lambda shape, count, output: range(count),
    moves="elements", ends_networks=True,
    rows=rows.within(0, where=lambda batch, _: batch.node.array(1).flat[0] % batch.rank == 0),
)  # fmt: skip
def transpose(node: NodeView, options: Options) -> list[Step]:
    x, rank = node.input(0, None), len(node.shape(0))
    axes = [normal_axis(axis, rank) for axis in node.array(1).ravel().tolist()]
    if sorted(axes) != list(range(rank)):
        raise Unsupported(f"the permutation {axes} of {rank} dimensions")
    shape, strides = (tuple(row[axis] for axis in axes) for row in (x.shape, row_major(x.shape)))
    return [moved(node, x, shape, View(shape, strides))]


@op("REVERSE_V2", max_version=4, rows=rows.along_axes)
def reverse(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    axes = {normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()}
    dense = row_major(x.shape)
    strides = tuple(-step if axis in axes else step for axis, step in enumerate(dense))
    offset = sum((x.shape[axis] - 1) * dense[axis] for axis in axes)
    return [moved(node, x, x.shape, View(x.shape, strides, offset))]


class ReverseSequenceOptions(Options):
    seq_dim: Int32 = 0
    batch_dim: Int32 = 0


@op("REVERSE_SEQUENCE", options=ReverseSequenceOptions)
def reverse_sequence(node: NodeView, options: ReverseSequenceOptions) -> list[Step]:
    x, lengths = node.input(0, None), node.input(1, "int")
    along, batch, rank = options.seq_dim, options.batch_dim, len(x.shape)
    if not (0 <= along < rank and 0 <= batch < rank and along != batch):
        raise Unsupported(f"axis {along} reversed for each of axis {batch}, of {list(x.shape)}")
    if node.dtype(0) not in ("float32", "int32", "uint8"):
        raise Unsupported(f"input 0 is {node.dtype(0)}; expected float32, int32 or uint8")
    if lengths.shape != x.shape[batch : batch + 1] or node.dtype(1) not in ("int32", "int64"):
        raise UnfitSizes(f"{node.dtype(1)} lengths of shape {list(lengths.shape)} of {batch}")
    if node.is_constant(1):
        constant = node.array(1)
        if ((constant < 0) | (constant > x.shape[along])).any():
            raise UnfitSizes(f"lengths {constant.tolist()} of an axis of size {x.shape[along]}")
    output, strides = moved_output(node, x, x.shape), row_major(x.shape)
    defines: dict[str, Define] = {
        "LENGTH": x.shape[along],
        "STRIDE": strides[along],
        "BATCH": x.shape[batch],
        "BATCH_STRIDE": strides[batch],
    }
    return [by_texel(node, "reverse_sequence", (x, lengths), output, defines)]


@op(
    "TILE", max_version=3, moves="elements",
    rows=rows.within(0, where=lambda batch, options: batch.node.array(1).reshape(-1)[0] == 1),
)  # fmt: skip
def tile(node: NodeView, options: Options) -> list[Step]:
    x, multiples = node.input(0, None), node.array(1).ravel().tolist()
    if len(multiples) != len(x.shape) or min(multiples, default=0) < 0:
        raise Unsupported(f"the multiples {multiples} of {list(x.shape)}; expected one for each")
    shape = tuple(n * size for n, size in zip(multiples, x.shape, strict=True))
    sizes = tuple(n for pair in zip(multiples, x.shape, strict=True) for n in pair)
    strides = tuple(step for stride in row_major(x.shape) for step in (0, stride))
    return [moved(node, x, shape, View(sizes, strides))]


@op(
    "BROADCAST_TO", max_version=4, rows=rows.elementwise,
    example=lambda shape, count, output: (*(1,) * (count - len(shape)), *shape),
)  # fmt: skip
def broadcast_to(node: NodeView, options: Options) -> list[Step]:
    x, shape = node.input(0, None), tuple(node.array(1).ravel().tolist())
    matching = shape[len(shape) - len(x.shape) :]
    if len(shape) < len(x.shape) or any(
        size not in (1, n) for size, n in zip(x.shape, matching, strict=True)
    ):
        raise UnfitSizes(f"{list(x.shape)} does not broadcast to {list(shape)}")
    return [moved(node, x, shape, View(shape, broadcast_strides(x.shape, shape)))]


@op("FILL", max_version=5)
def fill(node: NodeView, options: Options) -> list[Step]:
    shape, x = tuple(node.array(0).ravel().tolist()), node.input(1, None)
    if x.shape or min(shape, default=0) < 0:
        raise Unsupported(f"{list(shape)} filled with {list(x.shape)}; expected a scalar")
    return [moved(node, x, shape, View(shape, (0,) * len(shape)))]


@op("ZEROS_LIKE", rows=rows.elementwise)
def zeros_like(node: NodeView, options: Options) -> list[Step]:
    x = node.input(0, None)
    beyond = View((x.elements,), (0,), offset=x.elements)
    return [moved(node, x, x.shape, beyond)]


@op("MATRIX_DIAG")
def matrix_diag(node: NodeView, options: Options) -> list[Step]:
    diagonal = node.input(0, None)
    tensor = node.graph.tensors[node.inputs[0]]
    if tensor.is_quantized and any(tensor.quantization.zero_points):
        raise Unsupported(
            f"the zero point {tensor.quantization.zero_points[0]}; expected 0, which LiteRT stores "
            "off the diagonal"
        )
    return _with_diagonal(node, diagonal, (*diagonal.shape, *diagonal.shape[-1:]))


@op("MATRIX_SET_DIAG")
def matrix_set_diag(node: NodeView, options: Options) -> list[Step]:
    x, diagonal = node.input(0, None), node.input(1, None)
    if len(x.shape) < 2 or diagonal.shape != (*x.shape[:-2], min(x.shape[-2:])):
        raise UnfitSizes(f"a diagonal of shape {list(diagonal.shape)} for {list(x.shape)}")
    moved_output(node, x, x.shape)
    return _with_diagonal(node, diagonal, x.shape, x)


def _with_diagonal(node: NodeView, diagonal: Operand, shape: Shape, *matrix: Operand) -> list[Step]:
    """Matrices with this diagonal, and the elements of `matrix` or 0 elsewhere."""
    if not diagonal.shape or node.dtype(0) == "bool":
        raise Unsupported(
            f"a {node.dtype(0)} diagonal of shape {list(diagonal.shape)}; expected numbers, of "
            "rank 1 or more (LiteRT takes bool for float32)"
        )
    output = moved_output(node, diagonal, shape)
    defines: dict[str, Define] = {
        "ROWS": shape[-2],
        "DIAGONAL_PIXELS": diagonal.pixels,
        "HAS_MATRIX": len(matrix),
    }
    return [by_texel(node, "matrix_diag", (diagonal, *matrix), output, defines)]


_beside_rows = rows.within(0, where=lambda batch, options: not batch.node.array(1)[0].any())


@op("PAD", "PADV2", max_version=6, rows=_beside_rows)
def pad(node: NodeView, options: Options) -> list[Step]:
    x, pads = node.input(0, None), _paddings(node)
    fill = node.input(2, x.kind) if node.op == "PADV2" else None
    if fill and fill.elements != 1:
        raise Unsupported(f"a pad value of shape {list(fill.shape)}; expected one element")
    layout = bordered(x.shape, pads)
    return [moved(node, x, layout.sizes, layout, fill=fill)]


class MirrorPadOptions(Options):
    mode: Int8 = 0


@op("MIRROR_PAD", max_version=3, options=MirrorPadOptions, rows=_beside_rows)
def mirror_pad(node: NodeView, options: MirrorPadOptions) -> list[Step]:
    x, pads = node.input(0, None), _paddings(node)
    if options.mode not in (0, 1):
        raise Unsupported(f"the mode {options.mode}; expected 0 (REFLECT) or 1 (SYMMETRIC)")
    mirrored = [n - (options.mode == 0) for n in x.shape]
    if any(max(pair) > n for pair, n in zip(pads, mirrored, strict=True)):
        raise UnfitSizes(f"paddings {pads} of {list(x.shape)}, which has too little to mirror")
    layout = bordered(x.shape, pads, "SYMMETRIC" if options.mode else "REFLECT")
    return [moved(node, x, layout.sizes, layout)]


@op("DILATE")
def dilate(node: NodeView, options: Options) -> list[Step]:
    """Each element followed by fill, except the last."""
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
        raise Unsupported(f"{node.dtype(0)} filled with {fill.elements} of {node.dtype(2)}")
    steps = dilations.tolist()
    shape = tuple((n - 1) * step + 1 for n, step in zip(x.shape, steps, strict=True))
    output = moved_output(node, x, shape)
    spread = _spread(node, x, steps, fill)
    beginning = View(shape, row_major(spread.output.shape))
    return [spread, viewed(node, spread.output, output, beginning)]


def _spread(node: NodeView, x: Operand, steps: Sequence[int], fill: Operand) -> Dispatch:
    """The elements `steps` apart along each dimension, with fill after each."""
    pairs = list(zip(x.shape, steps, strict=True))
    whole = node.scratch((n * step for n, step in pairs), "whole", x.kind)
    layout = View(
        sizes=tuple(n for pair in pairs for n in pair),
        strides=tuple(step for stride in row_major(x.shape) for step in (stride, 0)),
        lower=(0,) * (2 * len(pairs)),
        upper=tuple(n for size, _ in pairs for n in (size, 1)),
    )
    return viewed(node, x, whole, layout, fill=fill)


class StablehloPadOptions(Options):
    low: Longs = ()
    high: Longs = ()
    interior: Longs = ()


@op("STABLEHLO_PAD", options=StablehloPadOptions)
def stablehlo_pad(node: NodeView, options: StablehloPadOptions) -> list[Step]:
    """Fill around and between elements; negative paddings drop elements."""
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
        raise UnfitSizes(f"the shape {list(shape)}; expected positive numbers")
    pads = [[a, b + 1 - step] for a, b, step in zip(low, high, steps, strict=True)]
    if max(steps) == 1:
        return [moved(node, x, shape, bordered(x.shape, pads), fill=fill)]
    spread, output = _spread(node, x, steps, fill), moved_output(node, x, shape)
    layout = bordered(spread.output.shape, pads)
    return [spread, viewed(node, spread.output, output, layout, fill=fill)]


def _paddings(node: NodeView) -> list[list[int]]:
    """Elements to add before and after each dimension of input 0."""
    pads, rank = node.array(1), len(node.shape(0))
    if pads.shape != (rank, 2) or pads.min(initial=0) < 0:
        raise Unsupported(f"paddings {pads.tolist()} for rank {rank}; expected pairs from 0 up")
    pairs: list[list[int]] = pads.tolist()
    return pairs
