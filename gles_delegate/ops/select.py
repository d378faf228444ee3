"""Element-wise choice between two tensors."""

from __future__ import annotations

from functools import reduce
from math import prod

import numpy as np

from gles_delegate.dispatch import Operand, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import TYPES, elementwise, inputs, refuse_rescaling
from gles_delegate.ops.lib.index import broadcast_shapes
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import reshape_view


def _fold_select_v2(node: NodeView) -> Array | None:
    """LiteRT keeps the stored shape of an output of one element."""
    chosen = np.where(*constants(node))
    stored = node.graph.tensors[node.outputs[0]].shape
    return chosen.reshape(stored) if chosen.size == prod(stored) == 1 else chosen


def _fold_select(node: NodeView) -> Array | None:
    same = len({node.shape(i) for i in range(3)}) == 1
    return _fold_select_v2(node) if same else None


@op("SELECT", max_version=4, fold=_fold_select)
def select(node: NodeView, options: Options) -> list[Step]:
    """The condition is of the operands' shape, one element, or one element per row."""
    condition, x, y = _operands(node)
    if _are_single(condition, x, y):
        return _selection(node, condition, x, y)
    if x.shape != y.shape or condition.shape not in ((), x.shape[:1], x.shape):
        raise Unsupported(
            f"a condition of shape {list(condition.shape)} for {list(x.shape)} and {list(y.shape)}"
        )
    if condition.shape in ((), x.shape):
        return _selection(node, condition, x, y)
    column = node.scratch((*condition.shape, *(1 for _ in x.shape[1:])), "condition", "int")
    step = reshape_view(node.index, condition, column, node.limits)
    return [step, *_selection(node, column, x, y)]


@op("SELECT_V2", max_version=2, fold=_fold_select_v2, rows=rows.elementwise)
def select_v2(node: NodeView, options: Options) -> list[Step]:
    return _selection(node, *_operands(node))


def _operands(node: NodeView) -> tuple[Operand, Operand, Operand]:
    refuse_rescaling(node)
    (condition,) = inputs(node, (0,), "bool")
    x, y = inputs(node, (1, 2), *TYPES)
    return condition, x, y


def _selection(node: NodeView, condition: Operand, x: Operand, y: Operand) -> list[Step]:
    shape = reduce(broadcast_shapes, (condition.shape, x.shape, y.shape))
    stored = node.graph.tensors[node.outputs[0]].shape
    if not _are_single(condition, x, y) or prod(stored) != 1:
        output = node.output(shape, kind=x.kind, dtype=node.dtype(1))
        return [elementwise(node, (condition, x, y), output, "SELECT")]
    # LiteRT keeps the stored shape of an output of one element.
    output = node.output(stored, kind=x.kind, dtype=node.dtype(1))
    result = node.scratch(shape, "result", x.kind)
    return [
        elementwise(node, (condition, x, y), result, "SELECT"),
        reshape_view(node.index, result, output, node.limits),
    ]


def _are_single(*operands: Operand) -> bool:
    return all(operand.elements == 1 for operand in operands)
