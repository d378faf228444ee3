"""Comparisons, logical ops and CAST: element-wise functions between lane types."""

from __future__ import annotations

from math import frexp

from gles_delegate.dispatch import Call, Define, Kind, Step
from gles_delegate.ops.elementwise import (
    TYPES,
    broadcasting,
    elementwise,
    inputs,
    refuse_quantized,
    refuse_rescaling,
    unary,
)
from gles_delegate.ops.lib.registry import NodeView, Options, Unsupported, op


@op("EQUAL", max_version=5)
@op("NOT_EQUAL", max_version=4)
def equality(node: NodeView, options: Options) -> list[Step]:
    return _comparison(node, "float32", "int32", "bool")


@op("LESS", "GREATER_EQUAL", max_version=3)
@op("LESS_EQUAL", "GREATER", max_version=2)
def order(node: NodeView, options: Options) -> list[Step]:
    exact = node.dtype(0) == "int16"
    if exact:
        refuse_rescaling(node)
    return _comparison(node, "float32", "int32", exact=exact)


def _comparison(node: NodeView, *types: str, exact: bool = False) -> list[Step]:
    """Compare, after the rounding of LiteRT's kernels for quantized tensors unless `exact`."""
    operands = inputs(node, (0, 1), *types)
    if len(node.inputs) > 2:
        raise Unsupported(f"{len(node.inputs)} inputs; expected 2")
    tensors = [node.graph.tensors[i] for i in node.inputs]
    defines: dict[str, Define] = {
        f"{name}_UNIT": 2.0 ** frexp(tensor.quantization.scales[0])[1]
        for name, tensor in zip("AB", tensors, strict=True)
        if tensor.is_quantized and not exact
    }
    return [broadcasting(node, operands, "bool", defines=defines)]


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
    dtype = node.graph.tensors[node.outputs[0]].dtype
    kind: Kind = "float" if dtype in ("float32", "float16") else "int"
    output = node.output(x.shape, kind=kind)
    function = "" if x.kind == kind == "float" else f"CAST_TO_{dtype.upper()}"
    return [elementwise(node, (x,), output, function)]
