"""TensorFlow's lists of tensors (`FlexTensorList...`), which Keras' recurrent layers fill.

A list is a tensor of real numbers, [length, *shape of an element]. An element's sizes that are not
known before one is set are 0 until then. LiteRT for Python has none of these ops.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from gles_delegate.model.graph import Array, Graph
from gles_delegate.ops.lib.node import NodeView, Unsupported, constants, one_integer
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.registry import folds, lower, op
from gles_delegate.ops.lib.views import Target, View, viewed
from gles_delegate.ops.variables import IDENTITY
from gles_delegate.shaders.dispatch import Step

LIST = "variant"
"""The element type of lists in a file."""
RESERVE, STACK, FROM_TENSOR, GET, SET = (
    f"FlexTensorList{name}" for name in ("Reserve", "Stack", "FromTensor", "GetItem", "SetItem")
)
LONGEST = 1 << 16


def with_lists(graph: Graph) -> Graph:
    """The graph with tensors of real numbers in place of lists."""
    if not any(tensor.dtype == LIST for tensor in graph.tensors):
        return graph
    return replace(_retyped(graph), subgraphs=tuple(map(_retyped, graph.subgraphs)))


def _retyped(graph: Graph) -> Graph:
    tensors = (replace(t, dtype="float32") if t.dtype == LIST else t for t in graph.tensors)
    return replace(graph, tensors=tuple(tensors))


@folds(RESERVE, is_planned=True)
def reserve(node: NodeView) -> Array | None:
    shape, count = constants(node)
    sizes = (*count.ravel().tolist(), *np.maximum(shape.ravel(), 0).tolist())
    return np.zeros(sizes, np.float32) if prod(map(int, sizes)) <= LONGEST else None


@op(FROM_TENSOR)
def from_tensor(node: NodeView, options: Options) -> list[Step]:
    return _as(node, IDENTITY, 0)


@op(STACK)
def stack(node: NodeView, options: Options) -> list[Step]:
    _require_set(node)
    return _as(node, IDENTITY, 0)


@op(GET)
def get_item(node: NodeView, options: Options) -> list[Step]:
    _require_set(node)
    return _as(node, "GATHER", 0, 1)


@op(SET)
def set_item(node: NodeView, options: Options) -> list[Step]:
    """A copy: the list before stays as it is."""
    count, *sizes = node.shape(0)
    index, item = one_integer(node, 1, "an index"), node.input(2)
    if not 0 <= index < count:
        raise Unsupported(f"element {index} of a list of {count}")
    if count > 1:
        _require_set(node)
        if item.shape != tuple(sizes):
            raise Unsupported(f"an element of shape {list(item.shape)} in a list of {sizes}")
    output, channels = node.output((count, *item.shape)), item.channels
    steps: list[Step] = []
    for first, last in ((0, index), (index, index + 1), (index + 1, count)):
        pixels = (last - first) * item.pixels
        source = item if first == index < last else node.input(0)
        start = 0 if source is item else first * item.elements
        target = Target(pixels, channels, pixels, pixels, first * item.pixels)
        layout = View((pixels, channels), (channels, 1), start)
        if pixels:
            steps.append(viewed(node, source, output, layout, target))
    return steps


def _require_set(node: NodeView) -> None:
    """Raise `Unsupported` if the list has elements of unknown sizes."""
    if 0 in node.shape(0):
        raise Unsupported("elements of the list are not set; expected a loop that sets each")


def _as(node: NodeView, name: str, *inputs: int) -> list[Step]:
    """The steps of another op with some of the node's inputs."""
    chosen = tuple(node.inputs[i] for i in inputs)
    return lower(replace(node, node=replace(node.node, op=name, inputs=chosen)))
