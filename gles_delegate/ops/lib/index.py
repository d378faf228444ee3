"""Arithmetic of shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from gles_delegate.dispatch import Shape
from gles_delegate.ops.lib.node import Unsupported


def row_major(shape: Sequence[int]) -> Shape:
    """Strides, in elements, of a dense tensor with the last dimension fastest."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def broadcast_shapes(a: Shape, b: Shape) -> Shape:
    """The shape of an element-wise result by numpy's rule.

    Raises:
        Unsupported: The shapes do not broadcast.
    """
    rank = max(len(a), len(b))
    pairs = zip(padded(a, rank), padded(b, rank), strict=True)
    if any(m != n and 1 not in (m, n) for m, n in pairs):
        raise Unsupported(f"the shapes {list(a)} and {list(b)} do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(padded(a, rank), padded(b, rank), strict=True))


def padded(shape: Shape, rank: int) -> Shape:
    """`shape` with ones in front up to `rank` dimensions."""
    return (1,) * (rank - len(shape)) + shape


def broadcast_strides(shape: Shape, target: Shape) -> Shape:
    """Row-major strides of `shape` over the dimensions of `target`: 0 where it is repeated."""
    full = padded(shape, len(target))
    return tuple(
        stride if size > 1 else 0 for stride, size in zip(row_major(full), full, strict=True)
    )


def merged(sizes: Shape, *strides: Shape) -> tuple[Shape, ...]:
    """Simplify a strided walk: drop dimensions of size 1, merge contiguous neighbors.

    Returns:
        The sizes, then each of `strides`, with at least one dimension.
    """
    columns: list[list[int]] = []
    for column in zip(sizes, *strides, strict=True):
        size = column[0]
        if size == 1:
            continue
        last = columns[-1] if columns else None
        if last and all(
            outer == inner * size for outer, inner in zip(last[1:], column[1:], strict=True)
        ):
            columns[-1] = [last[0] * size, *column[1:]]
        else:
            columns.append(list(column))
    columns = columns or [[1] + [0] * len(strides)]
    return tuple(tuple(row) for row in zip(*columns, strict=True))


def normal_axis(axis: int, rank: int) -> int:
    """`axis` counted from the front.

    Raises:
        Unsupported: It is outside the rank.
    """
    if not -rank <= axis < rank:
        raise Unsupported(f"the axis {axis} of a tensor of rank {rank}")
    return axis % rank


def rank_4(shape: Sequence[int], what: str) -> tuple[int, int, int, int]:
    """The four sizes of `shape`.

    Raises:
        Unsupported: It has another rank.
    """
    if len(shape) != 4:
        raise Unsupported(f"{what} of shape {list(shape)}; expected rank 4")
    a, b, c, d = shape
    return a, b, c, d
