"""Folding: planning computes, with numpy, nodes that depend only on constants and shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import lower, op_of
from gles_delegate.ops.lib.views import Copy
from gles_delegate.shaders.dispatch import Alias, Const, Operand, Value

MAX_ELEMENTS = 1 << 16
"""Maximum elements of a result that is larger than its inputs; the GPU computes larger ones."""
COMPUTES = "a step computes more than a copy"


def fold(node: NodeView, is_sized: Callable[[int], bool]) -> Sequence[Array] | None:
    """The outputs of a node that depends only on constants and shapes; None for any other.

    Args:
        is_sized: Returns whether the shape of a tensor is known.
    """
    tensors = node.graph.tensors
    inputs = [tensors[i] for i in node.inputs if i >= 0]
    if not inputs or not node.outputs:
        return None
    by_shapes = op_of(node.op).folds_shapes
    if not all(is_sized(t.index) if by_shapes else t.is_constant for t in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            results = _results(node)
    except ModelError:
        raise
    except (Unsupported, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    if results is None:
        return None
    most = max(MAX_ELEMENTS, *(prod(tensor.shape) for tensor in inputs))
    fits = (
        array.size <= most and array.dtype == np.dtype(tensors[index].dtype)
        for array, index in zip(results, node.outputs, strict=True)
    )
    return results if all(fits) else None


def require_foldable(node: NodeView) -> None:
    """Raise `Unsupported` if the constants of a node that planning computes are not possible."""
    compute = op_of(node.op).fold
    with suppress(ArithmeticError, LookupError, TypeError, ValueError):
        if compute is not None:
            compute(node)


def set_constants(tensors: list[Tensor], node: NodeView, results: Sequence[Array]) -> None:
    """Replace a node's outputs by constants."""
    is_half = [tensors[i].dtype for i in node.inputs] == ["float16"]
    for index, array in zip(node.outputs, results, strict=True):
        has_half_values = is_half and array.dtype == np.float32
        tensors[index] = replace(folded(tensors[index], array), is_half=has_half_values)


def folded(tensor: Tensor, array: Array) -> Tensor:
    """The tensor as a constant with the values of `array`."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return replace(tensor, shape=array.shape, data=data, is_derived=True)


def _results(node: NodeView) -> Sequence[Array] | None:
    """The outputs; returns None or raises `Unsupported` if the GPU computes them."""
    entry = op_of(node.op)
    if entry.fold is None:
        return _moved(node)
    if getattr(entry.options.read(node.node), "fused_activation", 0):
        return None
    if isinstance(entry.fold, np.ufunc):
        return [np.asarray(entry.fold(*constants(node)))]
    result = entry.fold(node)
    return None if result is None else [result]


def _moved(node: NodeView) -> Sequence[Array]:
    """The outputs of a node; raises `Unsupported` unless its steps only move elements."""
    arrays = {i: node.graph.tensors[i].array() for i in node.inputs if i >= 0}
    tensors = list(node.graph.tensors)
    for i in {*arrays, *node.outputs}:
        if tensors[i].dtype == "int64":  # which the GPU lacks
            data = arrays[i].astype(np.int32).reshape(-1).view(np.uint8) if i in arrays else None
            tensors[i] = replace(tensors[i], dtype="int32", data=data)
    steps = lower(replace(node, graph=replace(node.graph, tensors=tensors)))
    values: dict[Value, Array] = {}

    def elements(operand: Operand) -> Array:
        if isinstance(operand, Const):
            if operand.pack is not phwc4:
                raise Unsupported(COMPUTES)
            return arrays[operand.tensors[0]].reshape(-1)
        return values[operand]

    for step in steps:
        if isinstance(step, Alias):
            values[step.output] = elements(step.source)
        elif isinstance(step, Copy) and not step.epilogue:
            source, *fill = map(elements, step.reads)
            empty = np.zeros(step.output.elements, source.dtype)
            _copy(step, source, values.setdefault(step.output, empty), fill[0] if fill else 0)
        else:
            raise Unsupported(COMPUTES)
    results = {v.tensor: array.reshape(v.shape) for v, array in values.items() if not v.name}
    return [results[index] for index in node.outputs]


def _copy(copy: Copy, source: Array, result: Array, fill: Array | int) -> None:
    """The same as glsl/view.glsl, on elements in row-major order."""
    target, output, layout = copy.target, copy.output, copy.layout
    index, inside = np.array(layout.offset), np.array(True)
    dimensions = zip(layout.sizes, layout.strides, *layout.bounds, strict=True)
    for axis, (size, stride, low, high) in enumerate(dimensions):
        at = np.arange(size)
        if layout.mirror:
            edge = int(layout.mirror == "SYMMETRIC")
            at = np.where(at < low, 2 * low - edge - at, at)
            at = np.where(at >= high, 2 * (high - 1) + edge - at, at)
        along = (-1, *(1,) * (len(layout.sizes) - axis - 1))
        inside = inside & ((low <= at) & (at < high)).reshape(along)
        index = index + (at * stride).reshape(along)
    inside = inside & (index >= 0) & (index < source.size)
    elements: Array = np.full(prod(layout.sizes), fill, source.dtype)
    if source.size:
        elements = np.where(inside, source[np.where(inside, index, 0)], fill).astype(source.dtype)
    if target is None:
        result[:] = elements.reshape(-1)
        return
    pixel = np.arange(target.pixels)
    pixel = pixel // target.row * target.out_row + pixel % target.row + target.out_pixel
    channels = slice(target.out_channel, target.out_channel + target.channels)
    elements = elements.reshape(target.pixels, target.channels)
    result.reshape(output.pixels, output.channels)[pixel, channels] = elements
