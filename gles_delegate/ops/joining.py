"""Ops that join tensors: CONCATENATION and PACK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from gles_delegate.dispatch import Operand, Shape, Step, Value
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.index import normal_axis
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Int8, Int32, Options
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import Region, View, moved_output, reshape_view, view


@dataclass(frozen=True)
class ConcatenationOptions(Options):
    axis: Int32 = 0
    fused_activation: Int8 = 0


@op(
    "CONCATENATION", max_version=7, options=ConcatenationOptions, rows=rows.joined,
    moves="ranges", ends_networks=True,
)  # fmt: skip
def concatenation(node: NodeView, options: ConcatenationOptions) -> list[Step]:
    if options.fused_activation:
        raise Unsupported("a fused activation, which LiteRT does not apply here; expected NONE")
    inputs = _inputs(node)
    axis = normal_axis(options.axis, len(inputs[0].shape))
    others = [(x.shape[:axis], x.shape[axis + 1 :]) for x in inputs]
    if any(len(x.shape) <= axis for x in inputs) or others.count(others[0]) != len(others):
        raise Unsupported(f"the shapes {[list(x.shape) for x in inputs]} differ beside axis {axis}")
    total = sum(x.shape[axis] for x in inputs)
    shape = (*inputs[0].shape[:axis], total, *inputs[0].shape[axis + 1 :])
    output = node.output(shape, kind=inputs[0].kind, dtype=node.dtype(0))
    return _joined(node, inputs, [x.shape[axis] for x in inputs], output, axis)


@dataclass(frozen=True)
class PackOptions(Options):
    values_count: Int32 = 0
    axis: Int32 = 0


@op("PACK", max_version=5, options=PackOptions, rows=rows.joined, moves="elements")
def pack(node: NodeView, options: PackOptions) -> list[Step]:
    inputs = _inputs(node)
    shapes = [x.shape for x in inputs]
    if shapes.count(shapes[0]) != len(shapes):
        raise Unsupported(f"the shapes {[list(shape) for shape in shapes]} differ")
    axis = normal_axis(options.axis, len(shapes[0]) + 1)
    shape = (*shapes[0][:axis], len(inputs), *shapes[0][axis:])
    outputs = [moved_output(node, x, shape) for x in inputs]
    return _joined(node, inputs, [1] * len(inputs), outputs[0], axis)


def _inputs(node: NodeView) -> list[Operand]:
    """All inputs, at least one, of one kind."""
    kind = node.input(0, None).kind
    return [node.input(i, kind) for i in range(len(node.inputs))]


def _joined(
    node: NodeView, inputs: Sequence[Operand], lengths: Sequence[int], output: Value, axis: int
) -> list[Step]:
    """Concatenate the inputs along the output's `axis`; each covers its length."""
    steps: list[Step] = []
    begin = 0
    for x, length in zip(inputs, lengths, strict=True):
        shape: Shape = (*output.shape[:axis], length, *output.shape[axis + 1 :])
        layout = View((x.pixels, x.channels), (x.channels, 1))
        if x.elements:
            region = _region(shape, output, axis, begin)
            steps.append(view(x, output, layout, node.limits, node.index, region))
        begin += length
    # The step of an output without elements gives its shape.
    return steps or [reshape_view(node.index, inputs[0], output, node.limits)]


def _region(shape: Shape, output: Value, axis: int, begin: int) -> Region:
    """The region of the output that an input of `shape` covers, from `begin` of its `axis`."""
    pixels, channels = prod(shape[:-1]), shape[-1]
    if axis == len(shape) - 1:
        return Region(pixels, channels, pixels, pixels, out_channel=begin)
    inner = prod(shape[axis + 1 : -1])
    return Region(pixels, channels, shape[axis] * inner, output.shape[axis] * inner, begin * inner)
