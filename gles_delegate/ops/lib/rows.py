"""Rules for ops that compute each row of a batch independently.

A tensor *has rows* if its elements, in row-major order, divide into equal ranges, one per row of
the batch, and each range depends only on its row. A rule says whether a node's outputs have rows if
some of its inputs do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from gles_delegate.ops.lib.node import NodeView
from gles_delegate.shaders.dispatch import Shape


@dataclass(frozen=True)
class Rows:
    """A node in a batch.

    Attributes:
        inputs: The positions of the inputs that have rows.
        count: The number of rows.
    """

    node: NodeView
    inputs: tuple[int, ...]
    count: int

    @property
    def shapes(self) -> list[Shape]:
        """The shapes of the inputs that have rows, and of the outputs."""
        node = self.node
        return [node.shape(i) for i in self.inputs] + [node.shapes[index] for index in node.outputs]

    @property
    def rank(self) -> int:
        """The rank of the first input that has rows."""
        return len(self.shapes[0])

    @property
    def are_divided(self) -> bool:
        """Whether axis 0 of all `shapes` divides into rows."""
        return all(shape and shape[0] and not shape[0] % self.count for shape in self.shapes)

    @property
    def are_along_axis_0(self) -> bool:
        """Whether axis 0 of all `shapes` has the same size and divides into rows."""
        return self.are_divided and len({shape[0] for shape in self.shapes}) == 1

    def share(self, i: int, rank: int) -> bool:
        """Whether input `i`, broadcast to `rank`, has the same values for all rows."""
        shape = self.node.shape(i)
        if len(shape) < rank or shape[0] == 1:
            return True
        tensor = self.node.graph.tensors[self.node.inputs[i]]
        if not tensor.is_constant:
            return False
        array = tensor.array()
        return bool((array == array[:1]).all())


RowRule: TypeAlias = Callable[[Rows, Any], bool]
"""Called with a node and its options."""


def within(*inputs: int, where: RowRule = lambda rows, options: True) -> RowRule:
    """The rule of ops that never combine or move elements along axis 0 of `inputs`.

    Args:
        where: A further condition.
    """

    def keeps_rows(rows: Rows, options: Any) -> bool:
        return rows.are_along_axis_0 and rows.inputs == inputs and where(rows, options)

    return keeps_rows


images = within(0)
"""The rule of ops on images [batch, ...]."""

last_axis = within(0, where=lambda rows, options: rows.rank > 1)
"""The rule of ops along the last axis."""


along_axes = within(
    0, where=lambda rows, options: all(n % rows.rank for n in rows.node.array(1).ravel().tolist())
)
"""The rule of ops along the axes that input 1 lists."""


def reshaping(rows: Rows, options: Any) -> bool:
    """The rule of ops that keep the order of the elements of input 0."""
    return set(rows.inputs) <= {0}


def elementwise(rows: Rows, options: Any) -> bool:
    """The rule of ops on corresponding elements of all inputs, which broadcast."""
    if not rows.are_along_axis_0:
        return False
    rank = len(rows.shapes[-1])
    return all(
        len(rows.node.shape(i)) == rank if i in rows.inputs else rows.share(i, rank)
        for i in range(len(rows.node.inputs))
    )


def joined(rows: Rows, options: Any) -> bool:
    """The rule of ops that combine their inputs only along ``options.axis``."""
    if not rows.are_along_axis_0:
        return False
    return options.axis % len(rows.shapes[-1]) != 0 and all(
        i in rows.inputs or rows.share(i, len(rows.node.shape(i)))
        for i in range(len(rows.node.inputs))
    )
