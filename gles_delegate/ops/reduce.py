"""Reductions along axes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import prod
from typing import Any

import numpy as np

from gles_delegate.dispatch import Kind, Step
from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import normal_axis
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.options import Bool, Options
from gles_delegate.ops.lib.reduction import (
    LARGEST,
    PRODUCT,
    SMALLEST,
    SUM,
    Combination,
    reduced,
    reduction,
)
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import reshape_view, same_texels

ENOUGH = 256
"""Elements that one invocation may add up; more are reduced one dimension after the other."""


@dataclass(frozen=True)
class ReducerOptions(Options):
    keep_dims: Bool = False


_COMBINATIONS = {
    "MEAN": SUM,
    "SUM": SUM,
    "REDUCE_PROD": PRODUCT,
    "REDUCE_MAX": LARGEST,
    "REDUCE_MIN": SMALLEST,
    "REDUCE_ANY": Combination("LARGEST", {"int": 0}),
    "REDUCE_ALL": Combination("SMALLEST", {"int": 1}),
}


def _folded_by(function: Callable[..., Any]) -> Callable[[NodeView], Array | None]:
    def fold(node: NodeView) -> Array | None:
        x, axes = constants(node)
        if x.dtype.kind == "f" and function not in (np.max, np.min):
            return None  # LiteRT adds floats in another order
        along = tuple({normal_axis(axis, x.ndim) for axis in axes.reshape(-1).tolist()})
        keep = ReducerOptions.read(node.node).keep_dims
        return np.asarray(function(x, axis=along, keepdims=keep), x.dtype)

    return fold


_reduction = partial(op, options=ReducerOptions, rows=rows.along_axes)


@_reduction("MEAN", max_version=3)
@_reduction("REDUCE_MAX", max_version=3, fold=_folded_by(np.max))
@_reduction("REDUCE_MIN", max_version=3, fold=_folded_by(np.min))
@_reduction("SUM", max_version=2, fold=_folded_by(np.sum))
@_reduction("REDUCE_PROD", max_version=2, fold=_folded_by(np.prod))
@_reduction("REDUCE_ANY", fold=_folded_by(np.any))
@_reduction("REDUCE_ALL", fold=_folded_by(np.all))
def reduce(node: NodeView, options: ReducerOptions) -> list[Step]:
    x = node.input(0, None)
    combination, name = _COMBINATIONS[node.op], node.op
    axes = sorted({normal_axis(axis, len(x.shape)) for axis in node.array(1).ravel().tolist()})
    count = prod(x.shape[axis] for axis in axes)
    _check_elements(node, x.kind, count)
    kept = reduced(x.shape, axes)
    if not options.keep_dims:
        kept = tuple(n for axis, n in enumerate(x.shape) if axis not in axes)
    output = node.output(kept, kind=x.kind, dtype=node.dtype(0))
    stages = [axes] if count <= ENOUGH else [[axis] for axis in reversed(axes)]
    steps: list[Step] = []
    for i, stage in enumerate(stages):
        result = node.scratch(reduced(x.shape, stage), f"stage{i}", x.kind)
        last = stage is stages[-1]
        if last and same_texels(result, output):
            result = output
        divisor = count if last and name == "MEAN" else 1
        steps.append(reduction(node, x, result, stage, combination, divisor))
        x = result
    return steps if x == output else [*steps, reshape_view(node.index, x, output, node.limits)]


def _check_elements(node: NodeView, kind: Kind, count: int) -> None:
    """Raise `Unsupported` if LiteRT does not reduce `count` elements of the input's type."""
    logical = node.op in ("REDUCE_ANY", "REDUCE_ALL")
    if (node.dtype(0) == "bool") != logical:
        raise Unsupported(f"input 0 is {'not ' * logical}bool")
    if node.op == "MEAN" and not count:
        raise Unsupported("the mean of no elements")
    if node.op == "MEAN" and kind == "int" and node.dtype(0) in ("int8", "uint8", "int16"):
        raise Unsupported(f"{node.dtype(0)} without a scale, of which LiteRT's mean is 0")
