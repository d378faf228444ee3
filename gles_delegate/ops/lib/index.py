"""Arithmetic of shapes and strides."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

import numpy as np

from gles_delegate.ops.lib.node import UnfitSizes, Unsupported
from gles_delegate.shaders.dispatch import Shape


def row_major(shape: Sequence[int]) -> Shape:
    """Strides, in elements, of a dense tensor with the last dimension fastest."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def broadcast_shapes(*shapes: Shape) -> Shape:
    """The shape of an element-wise result; raises `Unsupported` if the shapes do not broadcast."""
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        names = " and ".join(str(list(shape)) for shape in shapes)
        raise UnfitSizes(f"the shapes {names} do not broadcast") from None


def broadcast_strides(shape: Shape, target: Shape) -> Shape:
    """Row-major strides of `shape` over the dimensions of `target`: 0 where it is repeated."""
    full = (1,) * (len(target) - len(shape)) + shape
    strides = zip(row_major(full), full, strict=True)
    return tuple(stride if size > 1 else 0 for stride, size in strides)


@lru_cache(1 << 12)  # equal layers ask for the same
def merged(sizes: Shape, *strides: Shape) -> tuple[Shape, ...]:
    """Simplify strided dimensions: drop each of size 1, merge contiguous neighbors.

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
    """`axis` counted from the front; raises `Unsupported` if it is outside the rank."""
    if not -rank <= axis < rank:
        raise Unsupported(f"the axis {axis} of a tensor of rank {rank}")
    return axis % rank


def rank_4(shape: Sequence[int], name: str) -> tuple[int, int, int, int]:
    """The four sizes of `shape`; raises `Unsupported` for another rank."""
    if len(shape) != 4:
        raise Unsupported(f"{name} of shape {list(shape)}; expected rank 4")
    a, b, c, d = shape
    return a, b, c, d
