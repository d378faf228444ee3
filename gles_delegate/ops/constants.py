"""Ops that planning computes from constants and shapes, and others without a GPU implementation."""

from __future__ import annotations

from math import ceil

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.node import NodeView, constants
from gles_delegate.ops.lib.registry import declare

LONGEST = 1 << 16
"""Elements of a RANGE that planning computes."""


def _fold_shape(node: NodeView) -> Array:
    return np.array(node.shape(0), node.graph.tensors[node.outputs[0]].dtype)


def _fold_rank(node: NodeView) -> Array:
    return np.array(len(node.shape(0)), node.graph.tensors[node.outputs[0]].dtype)


def _fold_range(node: NodeView) -> Array | None:
    start, limit, step = constants(node)
    count = max(ceil((limit.item() - start.item()) / step.item()), 0)
    if count > LONGEST:
        return None
    if start.dtype.kind == "i":
        return np.asarray(start + step * np.arange(count), start.dtype)
    terms = np.full(count, step, start.dtype)
    terms[:1] = start
    return np.add.accumulate(terms)  # as LiteRT does, with its rounding


def _fold_broadcast_args(node: NodeView) -> Array:
    a, b = constants(node)
    return np.array(np.broadcast_shapes(a.tolist(), b.tolist()), a.dtype)


def _fold_where(node: NodeView) -> Array | None:
    (condition,) = constants(node)
    return np.argwhere(condition).astype(np.int64) if condition.ndim else None


def _fold_densify(node: NodeView) -> Array:
    return node.graph.tensors[node.inputs[0]].array()


declare("SHAPE", fold=_fold_shape, folds_shapes=True)
declare("RANK", fold=_fold_rank, folds_shapes=True)
declare("RANGE", fold=_fold_range, is_planned=True, sized_by=(0, 1, 2))
declare("BROADCAST_ARGS", fold=_fold_broadcast_args, is_planned=True)
declare("DENSIFY", fold=_fold_densify)
declare("WHERE", fold=_fold_where, sized_by=(0,))
declare("UNIQUE", sized_by=(0,))
declare("EMBEDDING_LOOKUP_SPARSE", sized_by=(2,))
