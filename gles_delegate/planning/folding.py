"""Folding: what depends on constants and shapes alone is computed while planning, with numpy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from gles_delegate import ops
from gles_delegate.dispatch import Alias, Const, Operand, Value
from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Array, Tensor
from gles_delegate.ops.elementwise import FusedActivation
from gles_delegate.ops.gathering import GatherOptions
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.ops.lib.registry import NodeView, Unsupported
from gles_delegate.ops.lib.strides import normal_axis
from gles_delegate.ops.lib.views import Copy, View
from gles_delegate.ops.reduce import ReducerOptions

BY_SHAPE = ("SHAPE", "RANK")
"""Ops that read no element."""

OF_SIZES = ("RANGE", "BROADCAST_ARGS")
"""Ops that planning alone computes."""

MOST_ELEMENTS = 1 << 16
"""Of a result that is larger than what it is made of; the GPU makes others."""

Results = Sequence[Array]


class _NotFolded(Exception):
    """The GPU computes it, or LiteRT refuses such numbers."""


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
    by_shape = node.op in BY_SHAPE
    if not all(is_sized(t.index) if by_shape else t.is_constant for t in inputs):
        return None
    try:
        with np.errstate(all="ignore"):
            results = _results(node, inputs)
    except ModelError:
        raise
    except (_NotFolded, Unsupported, ArithmeticError, LookupError, TypeError, ValueError):
        return None
    most = max(MOST_ELEMENTS, *(prod(tensor.shape) for tensor in inputs))
    fits = (
        array.size <= most and array.dtype == np.dtype(tensors[index].dtype)
        for array, index in zip(results, node.outputs, strict=True)
    )
    return results if all(fits) else None


def set_constants(tensors: list[Tensor], node: NodeView, results: Results) -> None:
    """Make constants of a node's outputs."""
    is_half = node.op == "DEQUANTIZE" and tensors[node.inputs[0]].dtype == "float16"
    for index, array in zip(node.outputs, results, strict=True):
        tensors[index] = replace(folded(tensors[index], array), is_half=is_half)


def folded(tensor: Tensor, array: Array) -> Tensor:
    """The tensor as a constant."""
    data = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return replace(tensor, shape=array.shape, data=data, is_derived=True)


def _results(node: NodeView, inputs: Sequence[Tensor]) -> Results:
    output = node.graph.tensors[node.outputs[0]]
    if node.op == "DENSIFY":
        return [inputs[0].array()]
    if node.op == "DEQUANTIZE":
        if not (inputs[0].is_quantized or inputs[0].dtype == "float16"):
            raise _NotFolded
        return [inputs[0].values()]
    if node.op == "SHAPE":
        return [np.array(node.shape(0), output.dtype)]
    if node.op == "RANK":
        return [np.array(len(node.shape(0)), output.dtype)]
    if node.op not in _FUNCTIONS:
        return _moved(node)
    if any(tensor.is_quantized for tensor in (*inputs, output)):
        raise _NotFolded
    return [np.asarray(_FUNCTIONS[node.op](node, *(tensor.array() for tensor in inputs)))]


def _moved(node: NodeView) -> Results:
    """The outputs of a node whose steps only move elements."""
    arrays = {i: node.graph.tensors[i].array() for i in node.inputs if i >= 0}
    wide = [i for i in {*arrays, *node.outputs} if node.graph.tensors[i].dtype == "int64"]
    if wide:  # the GPU has no int64; here its elements are moved like any others
        tensors = list(node.graph.tensors)
        for i in wide:
            data = arrays[i].astype(np.int32).reshape(-1).view(np.uint8) if i in arrays else None
            tensors[i] = replace(tensors[i], dtype="int32", data=data)
        node = replace(node, graph=replace(node.graph, tensors=tensors))
    steps = ops.lower(node)
    made: dict[Value, Array] = {}

    def elements(operand: Operand) -> Array:
        if isinstance(operand, Const):
            if operand.pack is not phwc4:
                raise _NotFolded
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
            raise _NotFolded
    shapes = {step.output.tensor: step.output.shape for step in steps if not step.output.part}
    results = {value.tensor: array for value, array in made.items() if not value.part}
    return [results[index].reshape(shapes[index]) for index in node.outputs]


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


def _quotient(a: Array, b: Array) -> Array:
    """C's division: integers are rounded towards zero."""
    if a.dtype.kind == "f":
        return np.divide(a, b)
    _require(bool(b.all()))
    quotient: Array = np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b))
    return quotient


def _floored(function: np.ufunc) -> Callable[[Array, Array], Array]:
    def divide(a: Array, b: Array) -> Array:
        _require(bool(b.all()))
        result: Array = function(a, b)
        return result

    return divide


def _power(a: Array, b: Array) -> Array:
    _require(a.dtype.kind == "i" and bool((b >= 0).all()))
    return np.power(a, b)


def _cast(node: NodeView, x: Array) -> Array:
    target = np.dtype(node.graph.tensors[node.outputs[0]].dtype)
    if x.dtype.kind == "f" and target.kind in "iu":
        bounds = np.iinfo(target)
        _require(bool(((x >= bounds.min) & (x <= bounds.max)).all()))
    return x.astype(target)


def _range(node: NodeView, start: Array, limit: Array, step: Array) -> Array:
    count = max(ceil((limit.item() - start.item()) / step.item()), 0)
    _require(count <= MOST_ELEMENTS)
    if start.dtype.kind == "i":
        return np.asarray(start + step * np.arange(count), start.dtype)
    terms = np.full(count, step, start.dtype)
    terms[:1] = start
    return np.add.accumulate(terms)  # as LiteRT does, with its rounding


def _bits(node: NodeView, x: Array) -> Array:
    target = np.dtype(node.graph.tensors[node.outputs[0]].dtype)
    _require(target.itemsize == x.dtype.itemsize)
    bits: Array = np.ascontiguousarray(x).reshape(-1).view(target).reshape(x.shape)
    return bits


def _places(node: NodeView, condition: Array) -> Array:
    _require(condition.ndim > 0)
    return np.argwhere(condition).astype(np.int64)


def _broadcast_shape(a: Array, b: Array) -> Array:
    return np.array(np.broadcast_shapes(a.tolist(), b.tolist()), a.dtype)


def _gather(node: NodeView, x: Array, indices: Array) -> Array:
    options = GatherOptions.read(node.node)
    axis = normal_axis(options.axis, x.ndim)
    _require(not options.batch_dims and bool((indices >= 0).all()))
    return np.take(x, indices, axis)


def _select(node: NodeView, condition: Array, a: Array, b: Array) -> Array:
    _require(node.op == "SELECT_V2" or condition.shape == a.shape == b.shape)
    result = np.where(condition, a, b)
    stored = node.graph.tensors[node.outputs[0]].shape
    # LiteRT keeps the stored shape of an output of one element.
    return result.reshape(stored) if result.size == prod(stored) == 1 else result


def _numbers(function: Callable[..., Array]) -> Callable[..., Array]:
    """Without options."""
    return lambda node, *arrays: function(*arrays)


def _arithmetic(function: Callable[[Array, Array], Array]) -> Callable[..., Array]:
    def compute(node: NodeView, a: Array, b: Array) -> Array:
        _require(not FusedActivation.read(node.node).fused_activation)
        return function(a, b)

    return compute


def _reduction(function: Callable[..., Array]) -> Callable[..., Array]:
    def reduce(node: NodeView, x: Array, axes: Array) -> Array:
        along = tuple({normal_axis(axis, x.ndim) for axis in axes.reshape(-1).tolist()})
        keep = ReducerOptions.read(node.node).keep_dims
        # LiteRT adds floats in another order.
        _require(x.dtype.kind != "f" or function in (np.max, np.min))
        return np.asarray(function(x, axis=along, keepdims=keep), x.dtype)

    return reduce


def _require(condition: bool) -> None:
    if not condition:
        raise _NotFolded


_FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "ADD": _arithmetic(np.add),
    "SUB": _arithmetic(np.subtract),
    "MUL": _arithmetic(np.multiply),
    "DIV": _arithmetic(_quotient),
    "FLOOR_DIV": _numbers(_floored(np.floor_divide)),
    "FLOOR_MOD": _numbers(_floored(np.mod)),
    "POW": _numbers(_power),
    "MAXIMUM": _numbers(np.maximum),
    "MINIMUM": _numbers(np.minimum),
    "ABS": _numbers(np.abs),
    "NEG": _numbers(np.negative),
    "FLOOR": _numbers(np.floor),
    "CEIL": _numbers(np.ceil),
    "EQUAL": _numbers(np.equal),
    "NOT_EQUAL": _numbers(np.not_equal),
    "LESS": _numbers(np.less),
    "LESS_EQUAL": _numbers(np.less_equal),
    "GREATER": _numbers(np.greater),
    "GREATER_EQUAL": _numbers(np.greater_equal),
    "LOGICAL_AND": _numbers(np.logical_and),
    "LOGICAL_OR": _numbers(np.logical_or),
    "LOGICAL_NOT": _numbers(np.logical_not),
    "SELECT": _select,
    "SELECT_V2": _select,
    "CAST": _cast,
    "BITCAST": _bits,
    "BROADCAST_ARGS": _numbers(_broadcast_shape),
    "WHERE": _places,
    "RANGE": _range,
    "GATHER": _gather,
    "SUM": _reduction(np.sum),
    "REDUCE_PROD": _reduction(np.prod),
    "REDUCE_MAX": _reduction(np.max),
    "REDUCE_MIN": _reduction(np.min),
    "REDUCE_ANY": _reduction(np.any),
    "REDUCE_ALL": _reduction(np.all),
}
"""By op: called with the node and the arrays of its inputs."""
