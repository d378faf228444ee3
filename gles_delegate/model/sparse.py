"""Sparse constants: TFLite's compressed storage, expanded to dense arrays.

The format of Chou, Kjolstad and Amarasinghe, "Format Abstraction for Sparse Tensor Algebra
Compilers", 2018: one level per dimension, outermost first, dense or compressed. A dimension may be
split into blocks; its second level then counts inside a block.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gles_delegate.errors import ModelError

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Level:
    """Dense with `size` entries, or compressed: entry p has indices[segments[p]:segments[p + 1]].

    `segments` is None for a dense level.
    """

    size: int
    segments: Array | None = field(default=None, compare=False)
    indices: Array | None = field(default=None, compare=False)

    def expand(self, entries: Array) -> tuple[Array, Array, Array | int]:
        """Numbers, coordinates and counts of this level's entries below `entries`."""
        if self.segments is None or self.indices is None:
            if self.size < 0:
                raise ValueError("a negative size")
            coordinates = np.tile(np.arange(self.size), entries.size)
            children = np.repeat(entries * self.size, self.size) + coordinates
            return children, coordinates, self.size
        starts, ends = self.segments[entries], self.segments[entries + 1]
        if (starts < 0).any() or (ends < starts).any() or (ends > self.indices.size).any():
            raise ValueError("segments outside the indices")
        counts = ends - starts
        before = np.repeat(np.cumsum(counts) - counts, counts)
        following = np.repeat(starts, counts) + np.arange(counts.sum()) - before
        return following, self.indices[following], counts


@dataclass(frozen=True)
class Sparsity:
    """Levels in storage order.

    Attributes:
        traversal_order: The dimension of each level; dimensions past the tensor's rank are blocks.
        block_map: The dimension that each block splits.
    """

    traversal_order: tuple[int, ...]
    block_map: tuple[int, ...]
    levels: tuple[Level, ...]


def to_dense(values: Array, shape: tuple[int, ...], sparsity: Sparsity) -> Array:
    """Expand stored values to a dense tensor; raises ModelError if they contradict the shape."""
    try:
        return _to_dense(values, shape, sparsity)
    except (IndexError, ValueError, MemoryError) as error:
        raise ModelError(f"damaged model: a sparse constant of shape {list(shape)}") from error


def _to_dense(values: Array, shape: tuple[int, ...], sparsity: Sparsity) -> Array:
    rank = len(shape)
    if sorted(sparsity.traversal_order) != list(range(rank + len(sparsity.block_map))):
        raise ValueError("the traversal order is not a permutation")
    entries = np.zeros(1, np.int64)
    coordinates: dict[int, Array] = {}
    block_size = [1] * rank
    for dimension, level in zip(sparsity.traversal_order, sparsity.levels, strict=True):
        if level.segments is None and entries.size * level.size > np.prod(shape):
            raise ValueError("more entries than elements")
        entries, innermost, repeats = level.expand(entries)
        coordinates = {d: np.repeat(c, repeats) for d, c in coordinates.items()}
        coordinates[dimension] = innermost
        if dimension >= rank:
            block_size[sparsity.block_map[dimension - rank]] = level.size
    for block, dimension in enumerate(sparsity.block_map):
        outer, inner = coordinates[dimension], coordinates[rank + block]
        coordinates[dimension] = outer * block_size[dimension] + inner
    dense = np.zeros(shape, values.dtype)
    index = tuple(coordinates[d] for d in range(rank))
    if any(((i < 0) | (i >= n)).any() for i, n in zip(index, shape, strict=True)):
        raise ValueError("a coordinate outside the shape")
    dense[index] = values[entries]
    return dense
