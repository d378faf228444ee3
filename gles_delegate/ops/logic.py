"""Ops that give or take booleans, and CAST: element-wise functions between types of lanes."""

from __future__ import annotations

from functools import reduce
from math import frexp, prod

from gles_delegate.dispatch import Call, Define, Kind, Operand, Step
from gles_delegate.ops.elementwise import (
    broadcasting,
    elementwise,
    inputs,
    refuse_quantized,
    refuse_rescaling,
    unary,
)
from gles_delegate.ops.movement import reshape_view
from gles_delegate.ops.registry import NodeView, Options, Unsupported, op
from gles_delegate.ops.strides import broadcast_shapes

TYPES = ("float32", "int32", "bool", "int8", "uint8")


@op("EQUAL", max_version=5)
@op("NOT_EQUAL", max_version=4)
def equality(node: NodeView, options: Options) -> list[Step]:
    return _comparison(node, "float32", "int32", "bool")


@op("LESS", "GREATER_EQUAL", max_version=3)
@op("LESS_EQUAL", "GREATER", max_version=2)
def order(node: NodeView, options: Options) -> list[Step]:
    return _comparison(node, "float32", "int32")


def _comparison(node: NodeView, *types: str) -> list[Step]:
    operands = inputs(node, (0, 1), *types)
    tensors = [node.graph.tensors[i] for i in node.node.inputs]
    defines: dict[str, Define] = {
        f"{name}_UNIT": 2.0 ** frexp(tensor.quantization.scales[0])[1]
        for name, tensor in zip("AB", tensors, strict=True)
        if tensor.is_quantized
    }
    return [broadcasting(node, operands, "int", defines=defines)]


@op("LOGICAL_AND", "LOGICAL_OR", max_version=1)
def conjunction(node: NodeView, options: Options) -> list[Step]:
    return [broadcasting(node, inputs(node, (0, 1), "bool"))]


@op("LOGICAL_NOT", max_version=1)
def logical_not(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,), "bool"), Call("LOGICAL_NOT"))]


@op("CAST", max_version=9)
def cast(node: NodeView, options: Options) -> list[Step]:
    refuse_quantized(node)
    (x,) = inputs(node, (0,), *TYPES)
    dtype = node.graph.tensors[node.node.outputs[0]].dtype
    kind: Kind = "float" if dtype == "float32" else "int"
    output = node.output(x.shape, kind=kind)
    function = "" if x.kind == kind == "float" else f"CAST_TO_{dtype.upper()}"
    return [elementwise(node, (x,), output, function)]


@op("SELECT", max_version=4)
def select(node: NodeView, options: Options) -> list[Step]:
    """The condition has the shape of the others, or is one element, or one for each row of them."""
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
    step = reshape_view(node.node.index, condition, column, node.limits)
    return [step, *_selection(node, column, x, y)]


@op("SELECT_V2", max_version=2)
def select_v2(node: NodeView, options: Options) -> list[Step]:
    return _selection(node, *_operands(node))


def _operands(node: NodeView) -> tuple[Operand, Operand, Operand]:
    refuse_rescaling(node)
    (condition,) = inputs(node, (0,), "bool")
    x, y = inputs(node, (1, 2), *TYPES)
    return condition, x, y


def _selection(node: NodeView, condition: Operand, x: Operand, y: Operand) -> list[Step]:
    shape = reduce(broadcast_shapes, (condition.shape, x.shape, y.shape))
    stored = node.graph.tensors[node.node.outputs[0]].shape
    if not _are_single(condition, x, y) or prod(stored) != 1:
        output = node.output(shape, kind=x.kind)
        return [elementwise(node, (condition, x, y), output, "SELECT")]
    # LiteRT leaves the output of one element in the shape that the model stores for it.
    output, result = node.output(stored, kind=x.kind), node.scratch(shape, "result", x.kind)
    return [
        elementwise(node, (condition, x, y), result, "SELECT"),
        reshape_view(node.node.index, result, output, node.limits),
    ]


def _are_single(*operands: Operand) -> bool:
    return all(operand.elements == 1 for operand in operands)
