"""Ops that planning computes from constants and shapes or replaces, and others without a shader."""

from __future__ import annotations

from math import ceil, isfinite

import numpy as np

from gles_delegate.model.dtypes import ELEMENT_TYPES
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.options import Int8, Options
from gles_delegate.ops.lib.registry import declare, folds

COMPOSITE, IF, CASE, WHILE = "STABLEHLO_COMPOSITE", "IF", "STABLEHLO_CASE", "WHILE"
EQUAL, CHOICE = "EQUAL", "(choice)"
"""Ops by which a run chooses among branches; planning adds the latter."""
TEST = "(while)"
"""The op of nodes that end or continue a WHILE: the condition's result, then the values."""
INLINED = (COMPOSITE, IF, CASE, WHILE, TEST)
"""Ops that planning replaces by the nodes of their subgraphs."""
LASTING = (
    "ASSIGN_VARIABLE",
    "CALL_ONCE",
    "MULTINOMIAL",
    "RANDOM_STANDARD_NORMAL",
    "RANDOM_UNIFORM",
)
"""Ops that change what a later op or run computes."""
LONGEST = 1 << 16
"""Maximum number of elements of a RANGE that planning computes."""


class ShapeOptions(Options):
    out_type: Int8 = 0


@folds("SHAPE", options=ShapeOptions, folds_shapes=True)
def shape(node: NodeView) -> Array | None:
    result = ELEMENT_TYPES[ShapeOptions.read(node.node).out_type]
    return np.array(node.shape(0), result.array) if result.name in ("int32", "int64") else None


@folds("RANGE", is_planned=True, sized_by=(0, 1, 2))
def range_(node: NodeView) -> Array | None:
    start, limit, step = constants(node)
    span, each = limit.item() - start.item(), step.item()
    if not each or not isfinite(span / each) or span / each < 0:
        raise Unsupported(
            f"from {start.item()} to {limit.item()} in steps of {each}; expected steps towards the "
            "end, as LiteRT does"
        )
    count = ceil(span / each)
    if count > LONGEST:
        raise Unsupported(f"{count} elements; expected at most {LONGEST}")
    if start.dtype.kind == "i":
        return np.asarray(start + step * np.arange(count), start.dtype)
    terms = np.full(count, step, start.dtype)
    terms[:1] = start
    return np.add.accumulate(terms)  # rounds as LiteRT does


@folds("BROADCAST_ARGS", is_planned=True)
def broadcast_args(node: NodeView) -> Array:
    a, b = constants(node)
    return np.array(np.broadcast_shapes(a.tolist(), b.tolist()), a.dtype)


@folds("WHERE", sized_by=(0,))
def where(node: NodeView) -> Array | None:
    (condition,) = constants(node)
    return np.argwhere(condition).astype(np.int64) if condition.ndim else None


declare("RANK", fold=lambda node: np.array(len(node.shape(0)), np.int32), folds_shapes=True)
declare("DENSIFY", expands=(0,), fold=lambda node: node.graph.tensors[node.inputs[0]].array())
declare("UNIQUE", sized_by=(0,))
declare("EMBEDDING_LOOKUP_SPARSE", sized_by=(2,))
declare(IF, CASE, WHILE, sized_by=(0,), runs_subgraphs=True)
declare("CALL", sized_by=(0,))
