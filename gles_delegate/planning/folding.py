"""Folding: planning computes, with numpy, nodes that depend only on constants and shapes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import prod
from operator import is_

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import lower, op_of
from gles_delegate.ops.lib.views import Copy, View
from gles_delegate.shaders.dispatch import Alias, Const, Operand, Shape, Value

MAX_ELEMENTS = 1 << 16
"""Maximum elements of a result that is larger than its inputs; the GPU computes larger ones."""
SMALL_BYTES, MOST_SMALL = 128, 256
"""Maximum bytes of an input, and of the outputs, that are kept by value, and how many nodes are."""
COMPUTES = "a step computes more than a copy"


@dataclass(frozen=True)
class _Fold:
    """A node's constants, and what they follow from.

    Attributes:
        tensors: The node's inputs and outputs.
        shapes: Of these, as far as they are known.
    """

    tensors: Sequence[Tensor]
    shapes: Sequence[Shape | None]
    results: Sequence[Tensor] | None


class Folds:
    """The constants of a graph's own nodes, for the sizes that were lowered last.

    A tensor that comes out equal for other sizes stays the same object, and so do those that
    follow from it.
    """

    def __init__(self) -> None:
        self._last: dict[int, _Fold] = {}
        self._small: dict[Hashable, Sequence[Array]] = {}

    def fold(self, node: NodeView, is_sized: Callable[[int], bool]) -> Sequence[Tensor] | None:
        """What `fold` returns, which is called for inputs that have changed."""
        if not _is_foldable(node, is_sized):
            return None
        tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs) if i >= 0]
        shapes = [node.shapes.get(tensor.index) for tensor in tensors]
        last = self._last.get(node.index)
        if last and shapes == last.shapes and all(map(is_, tensors, last.tensors)):
            return last.results
        results = self._folded(node)
        if results and last and last.results:
            pairs = zip(results, last.results, strict=True)
            results = [old if _are_equal(new, old) else new for new, old in pairs]
        self._last[node.index] = _Fold(tensors, shapes, results)
        return results

    def _folded(self, node: NodeView) -> Sequence[Tensor] | None:
        """What `fold` returns for a foldable node; equal nodes of few numbers are computed once."""
        key = _key(node)
        if key is not None and key in self._small:
            return _constants(node, self._small[key])
        arrays = _computed(node)
        if arrays is None:
            return None
        if key is not None and sum(array.nbytes for array in arrays) <= SMALL_BYTES:
            if len(self._small) == MOST_SMALL:
                del self._small[next(iter(self._small))]
            self._small[key] = arrays
        return _constants(node, arrays)


def fold(node: NodeView, is_sized: Callable[[int], bool]) -> Sequence[Tensor] | None:
    """The outputs of a node that depends only on constants and shapes; None for any other.

    Args:
        is_sized: Returns whether the shape of a tensor is known.
    """
    arrays = _computed(node) if _is_foldable(node, is_sized) else None
    return None if arrays is None else _constants(node, arrays)


def _computed(node: NodeView) -> Sequence[Array] | None:
    """The outputs of a node that is foldable; None if the GPU computes them."""
    try:
        with np.errstate(all="ignore"):
            results = _results(node)
    except ModelError:
        raise
    except (Unsupported, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    if results is None:
        return None
    tensors = node.graph.tensors
    most = max(MAX_ELEMENTS, *(prod(tensors[i].shape) for i in node.inputs if i >= 0))
    fits = (
        array.size <= most and array.dtype == np.dtype(tensors[index].dtype)
        for array, index in zip(results, node.outputs, strict=True)
    )
    return results if all(fits) else None


def _key(node: NodeView) -> Hashable:
    """Equal for nodes that compute the same; None for one with a large or computed input."""
    own, tensors = node.node, node.graph.tensors
    if own.subgraphs or (own.custom_options is not None and own.custom_options.size):
        return None
    contents: list[Hashable] = []
    for tensor in (tensors[i] if i >= 0 else None for i in own.inputs):
        if tensor is None:
            contents.append(None)
        elif tensor.data is None or tensor.data.nbytes > SMALL_BYTES or tensor.sparsity:
            return None
        else:
            facts = tensor.dtype, tensor.shape, tensor.quantization
            contents.append((*facts, tensor.data.tobytes()))
    results = tuple((tensors[i].dtype, tensors[i].quantization) for i in own.outputs)
    options = op_of(own.op).options.read(own)
    return own.op, own.version, options, tuple(contents), results


def _is_foldable(node: NodeView, is_sized: Callable[[int], bool]) -> bool:
    """Whether a node depends only on constants and shapes."""
    inputs = [i for i in node.inputs if i >= 0]
    if not inputs or not node.outputs:
        return False
    if op_of(node.op).folds_shapes:
        return all(map(is_sized, inputs))
    return all(node.graph.tensors[i].is_constant for i in inputs)


def _are_equal(one: Tensor, other: Tensor) -> bool:
    """Whether two constants have the same values and facts."""
    a, b = one.data, other.data
    return one == other and a is not None and b is not None and np.array_equal(a, b)


def require_foldable(node: NodeView) -> None:
    """Raise `Unsupported` if the constants of a node that planning computes are not possible."""
    compute = op_of(node.op).fold
    with suppress(ArithmeticError, LookupError, TypeError, ValueError):
        if compute is not None:
            compute(node)


def _constants(node: NodeView, results: Sequence[Array]) -> Sequence[Tensor]:
    """A node's outputs as constants."""
    tensors = node.graph.tensors
    is_half = [tensors[i].dtype for i in node.inputs] == ["float16"]
    return [
        folded(tensors[index], array, is_half and array.dtype == np.float32)
        for index, array in zip(node.outputs, results, strict=True)
    ]


def folded(tensor: Tensor, array: Array, is_half: bool = False) -> Tensor:
    """The tensor as a constant with the values of `array`."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return replace(tensor, shape=array.shape, data=data, is_derived=True, is_half=is_half)


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
        match step:
            case Alias():
                values[step.output] = elements(step.source)
            case Copy(epilogue=()):
                source, *fill = map(elements, step.reads)
                empty = np.zeros(step.output.elements, source.dtype)
                _copy(step, source, values.setdefault(step.output, empty), fill[0] if fill else 0)
            case _:
                raise Unsupported(COMPUTES)
    results = {v.tensor: array.reshape(v.shape) for v, array in values.items() if not v.name}
    return [results[index] for index in node.outputs]


def _copy(copy: Copy, source: Array, result: Array, fill: Array | int) -> None:
    """The same as glsl/view.glsl, on elements in row-major order."""
    target, output = copy.target, copy.output
    is_whole = copy.layout.is_whole(copy.reads[0]) and source.size == copy.reads[0].elements
    elements = source if is_whole else _shown(copy.layout, source, fill)
    if target is None:
        result[:] = elements
        return
    pixel = np.arange(target.pixels)
    pixel = pixel // target.row * target.out_row + pixel % target.row + target.out_pixel
    channels = slice(target.out_channel, target.out_channel + target.channels)
    elements = elements.reshape(target.pixels, target.channels)
    result.reshape(output.pixels, output.channels)[pixel, channels] = elements


def _shown(layout: View, source: Array, fill: Array | int) -> Array:
    """The elements of a view, in order."""
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
    return elements.reshape(-1)
