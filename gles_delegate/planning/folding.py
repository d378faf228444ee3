"""Folding: what depends on constants and shapes alone is computed while planning, with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from gles_delegate.dispatch import Alias, Const, Operand, Value
from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import lower, op_of
from gles_delegate.ops.lib.views import Copy, View

MOST_ELEMENTS = 1 << 16
"""The most elements of a result that is larger than its inputs; the GPU computes larger ones."""

COMPUTES = "a step computes more than a copy"

Results = Sequence[Array]


def fold(node: NodeView, is_sized: Callable[[int], bool]) -> Results | None:
    """The outputs of a node that depends on constants and shapes alone; None for any other.

    Args:
        is_sized: Whether the shape of a tensor is known.

    Raises:
        ModelError: A constant's bytes do not fit its shape.
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
    most = max(MOST_ELEMENTS, *(prod(tensor.shape) for tensor in inputs))
    fits = (
        array.size <= most and array.dtype == np.dtype(tensors[index].dtype)
        for array, index in zip(results, node.outputs, strict=True)
    )
    return results if all(fits) else None


def set_constants(tensors: list[Tensor], node: NodeView, results: Results) -> None:
    """Make constants of a node's outputs."""
    is_half = [tensors[i].dtype for i in node.inputs] == ["float16"]
    for index, array in zip(node.outputs, results, strict=True):
        has_half_values = is_half and array.dtype == np.float32
        tensors[index] = replace(folded(tensors[index], array), is_half=has_half_values)


def folded(tensor: Tensor, array: Array) -> Tensor:
    """The tensor as a constant."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return replace(tensor, shape=array.shape, data=data, is_derived=True)


def _results(node: NodeView) -> Results | None:
    """The outputs; None if the GPU computes them.

    Raises:
        Unsupported: Likewise.
    """
    entry = op_of(node.op)
    if entry.fold is None:
        return _moved(node)
    if getattr(entry.options.read(node.node), "fused_activation", 0):
        return None
    if isinstance(entry.fold, np.ufunc):
        return [np.asarray(entry.fold(*constants(node)))]
    result = entry.fold(node)
    return None if result is None else [result]


def _moved(node: NodeView) -> Results:
    """The outputs of a node whose steps only move elements.

    Raises:
        Unsupported: They do something else.
    """
    arrays = {i: node.graph.tensors[i].array() for i in node.inputs if i >= 0}
    steps = lower(_narrowed(node, arrays))
    made: dict[Value, Array] = {}

    def elements(operand: Operand) -> Array:
        if isinstance(operand, Const):
            if operand.pack is not phwc4:
                raise Unsupported(COMPUTES)
            return arrays[operand.tensors[0]].reshape(-1)
        return made[operand]

    for step in steps:
        if isinstance(step, Alias):
            made[step.output] = elements(step.source)
        elif isinstance(step, Copy) and not step.epilogue:
            source, *fill = map(elements, step.reads)
            empty = np.zeros(step.output.elements, source.dtype)
            _copy(step, source, made.setdefault(step.output, empty), fill[0] if fill else 0)
        else:
            raise Unsupported(COMPUTES)
    shapes = {step.output.tensor: step.output.shape for step in steps if not step.output.part}
    results = {value.tensor: array for value, array in made.items() if not value.part}
    return [results[index].reshape(shapes[index]) for index in node.outputs]


def _narrowed(node: NodeView, arrays: Mapping[int, Array]) -> NodeView:
    """The node with int32 for int64, which the GPU lacks: its elements move like any others."""
    wide = [i for i in {*arrays, *node.outputs} if node.graph.tensors[i].dtype == "int64"]
    if not wide:
        return node
    tensors = list(node.graph.tensors)
    for i in wide:
        data = arrays[i].astype(np.int32).reshape(-1).view(np.uint8) if i in arrays else None
        tensors[i] = replace(tensors[i], dtype="int32", data=data)
    return replace(node, graph=replace(node.graph, tensors=tensors))


def _copy(copy: Copy, source: Array, target: Array, fill: Array | int) -> None:
    """Do what glsl/view.glsl does, on elements in row-major order."""
    how, region, output = copy.how, copy.region, copy.output
    shown = _shown(how, source, fill)
    if region is None:
        target[:] = shown
        return
    pixel = np.arange(region.pixels)
    pixel = pixel // region.row * region.out_row + pixel % region.row + region.out_pixel
    channels = slice(region.out_channel, region.out_channel + region.channels)
    target.reshape(output.pixels, output.channels)[pixel, channels] = shown.reshape(
        region.pixels, region.channels
    )


def _shown(how: View, source: Array, fill: Array | int) -> Array:
    """The elements that a view shows."""
    index = np.array(how.offset)
    inside = np.array(True)
    lower, upper = how.lower or (0,) * len(how.sizes), how.upper or how.sizes
    for axis, size in enumerate(how.sizes):
        at, low, high = np.arange(size), lower[axis], upper[axis]
        if how.mirror:
            edge = int(how.mirror == "SYMMETRIC")
            at = np.where(at < low, 2 * low - edge - at, at)
            at = np.where(at >= high, 2 * (high - 1) + edge - at, at)
        along = (-1, *(1,) * (len(how.sizes) - axis - 1))
        inside = inside & ((low <= at) & (at < high)).reshape(along)
        index = index + (at * how.strides[axis]).reshape(along)
    inside = inside & (index >= 0) & (index < source.size)
    if not source.size:
        return np.full(prod(how.sizes), fill, source.dtype)
    shown: Array = np.where(inside, source[np.where(inside, index, 0)], fill).astype(source.dtype)
    return shown.reshape(-1)
