"""Comparisons, logical ops, CAST, SELECT: element-wise functions between lane types."""

from __future__ import annotations

from math import frexp, prod

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.ops.lib import rows
from gles_delegate.ops.lib.elementwise import (
    TYPES,
    broadcasting,
    elementwise,
    inputs,
    refuse_quantized,
    refuse_rescaling,
    stablehlo,
    unary,
)
from gles_delegate.ops.lib.grid import by_texel
from gles_delegate.ops.lib.index import broadcast_shapes
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported, constants
from gles_delegate.ops.lib.options import Floats, Options
from gles_delegate.ops.lib.packing import vector
from gles_delegate.ops.lib.registry import op
from gles_delegate.ops.lib.views import (
    View,
    complex_output,
    complex_part,
    reshaped,
    reshaped_as,
    reshaped_input,
    viewed,
)
from gles_delegate.ops.planned import CHOICE
from gles_delegate.shaders.dispatch import Call, Const, Define, Kind, Operand, Step, Value


@op("EQUAL", max_version=5, fold=np.equal, rows=rows.elementwise)
@op("NOT_EQUAL", max_version=4, fold=np.not_equal, rows=rows.elementwise)
def equality(node: NodeView, options: Options) -> list[Step]:
    return _comparison(node, "float32", "int32", "bool")


@op("LESS", max_version=3, fold=np.less, rows=rows.elementwise)
@op("GREATER_EQUAL", max_version=3, fold=np.greater_equal, rows=rows.elementwise)
@op("LESS_EQUAL", max_version=2, fold=np.less_equal, rows=rows.elementwise)
@op("GREATER", max_version=2, fold=np.greater, rows=rows.elementwise)
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


@op("LOGICAL_AND", fold=np.logical_and, rows=rows.elementwise)
@op("LOGICAL_OR", fold=np.logical_or, rows=rows.elementwise)
def conjunction(node: NodeView, options: Options) -> list[Step]:
    return [broadcasting(node, inputs(node, (0, 1), "bool"))]


@op("STABLEHLO_AND")
def both(node: NodeView, options: Options) -> list[Step]:
    return stablehlo(node, "LOGICAL_AND", "bool", "int32", "int8", "uint8", "int16")


@op("STABLEHLO_SHIFT_LEFT")
def shift_left(node: NodeView, options: Options) -> list[Step]:
    return stablehlo(node, "SHIFT_LEFT", "int32", "int8", "int16")


@op("LOGICAL_NOT", fold=np.logical_not, rows=rows.elementwise)
def logical_not(node: NodeView, options: Options) -> list[Step]:
    return [unary(node, inputs(node, (0,), "bool"), Call("LOGICAL_NOT"))]


def _fold_cast(node: NodeView) -> Array | None:
    (x,) = constants(node)
    target = np.dtype(node.graph.tensors[node.outputs[0]].dtype)
    if x.dtype.kind == "c" and target.kind != "c":
        x = x.real
    if x.dtype.kind == "f" and target.kind in "iu":
        bounds = np.iinfo(target)
        if not ((x >= bounds.min) & (x <= bounds.max)).all():
            return None
    return x.astype(target)


@op(
    "CAST", max_version=9, fold=_fold_cast, rows=rows.elementwise, checks_types=True,
    ends_networks=True,
)  # fmt: skip
def cast(node: NodeView, options: Options) -> list[Step]:
    """Real numbers of another type; of complex numbers the real parts."""
    refuse_quantized(node)
    source, target = node.dtype(0), node.graph.tensors[node.outputs[0]].dtype
    if source == target == "complex64":
        return reshaped_input(node, node.shape(0))
    kind: Kind = "float" if target in ("float32", "float16") else "int"
    if source == "complex64":
        real = node.scratch(node.shape(0), "real")
        part = complex_part(node, real)
        return [part, _as_type(node, real, node.output(real.shape, kind=kind), target)]
    (x,) = inputs(node, (0,), *TYPES)
    if target == "complex64":
        real = node.scratch(x.shape, "real")
        numbers = complex_output(node, x.shape)
        # A view is 0 past the elements of its source, where the imaginary parts are.
        whole = View((numbers.elements,), (1,))
        return [_as_type(node, x, real, "float32"), viewed(node, real, numbers, whole)]
    return [_as_type(node, x, node.output(x.shape, kind=kind), target)]


def _as_type(node: NodeView, x: Operand, output: Value, dtype: str) -> Step:
    function = "" if x.kind == output.kind == "float" else f"CAST_TO_{dtype.upper()}"
    return elementwise(node, (x,), output, function)


def _fold_bitcast(node: NodeView) -> Array | None:
    (x,) = constants(node)
    target = np.dtype(node.graph.tensors[node.outputs[0]].dtype)
    if target.itemsize != x.dtype.itemsize:
        return None
    bits: Array = np.ascontiguousarray(x).reshape(-1).view(target).reshape(x.shape)
    return bits


@op("BITCAST", fold=_fold_bitcast)
def bitcast(node: NodeView, options: Options) -> list[Step]:
    """The bits of each element as another type of the same size."""
    refuse_quantized(node)
    (x,) = inputs(node, (0,), *TYPES)
    source, target = node.dtype(0), node.graph.tensors[node.outputs[0]].dtype
    if {source, target} not in ({"float32", "int32"}, {"int8", "uint8"}) and source != target:
        raise Unsupported(f"the bits of {source} as {target}; expected float32 and int32, or bytes")
    if source == target:
        return reshaped(node, x, x.shape)
    function = f"CAST_TO_{target.upper()}" if x.kind == "int" else "BITCAST_TO_INT32"
    function = "BITCAST_TO_FLOAT32" if target == "float32" else function
    kind: Kind = "float" if target == "float32" else "int"
    return [elementwise(node, (x,), node.output(x.shape, kind=kind), function)]


class BucketizeOptions(Options):
    boundaries: Floats = ()


@op("BUCKETIZE", options=BucketizeOptions)
def bucketize(node: NodeView, options: BucketizeOptions) -> list[Step]:
    """The number of boundaries that each element reaches; NaN reaches all of them."""
    refuse_quantized(node)
    (x,) = inputs(node, (0,), "float32", "int32")
    boundaries = options.boundaries
    if node.dtype(0) == "float16" or list(boundaries) != sorted(boundaries):
        raise Unsupported(f"{node.dtype(0)} by the boundaries {list(boundaries)}; LiteRT refuses")
    output = node.output(x.shape, kind="int", dtype="int32")
    table = Const(vector, (), (len(boundaries),), boundaries)
    return [by_texel(node, "bucketize", (x, table), output, {"BOUNDARIES": len(boundaries)},
        passes=len(boundaries),
    )]  # fmt: skip


def _fold_select_v2(node: NodeView) -> Array | None:
    """LiteRT keeps the stored shape of an output of one element."""
    chosen = np.where(*constants(node))
    stored = node.graph.tensors[node.outputs[0]].shape
    return chosen.reshape(stored) if chosen.size == prod(stored) == 1 else chosen


def _fold_select(node: NodeView) -> Array | None:
    same = len({node.shape(i) for i in range(3)}) == 1
    return _fold_select_v2(node) if same else None


@op("SELECT", max_version=4, fold=_fold_select)
def select(node: NodeView, options: Options) -> list[Step]:
    """The condition has the operands' shape, one element, or one element per row."""
    condition, x, y = _operands(node)
    single = _are_single(condition, x, y)
    if not single and (x.shape != y.shape or condition.shape not in ((), x.shape[:1], x.shape)):
        raise UnfitSizes(
            f"a condition of shape {list(condition.shape)} for {list(x.shape)} and {list(y.shape)}"
        )
    if single or condition.shape in ((), x.shape):
        return _selection(node, condition, x, y)
    column = node.scratch((*condition.shape, *(1 for _ in x.shape[1:])), "condition", "int")
    step = reshaped_as(node, condition, column)
    return [step, *_selection(node, column, x, y)]


@op("SELECT_V2", max_version=2, fold=_fold_select_v2, rows=rows.elementwise)
def select_v2(node: NodeView, options: Options) -> list[Step]:
    return _selection(node, *_operands(node))


@op(CHOICE, sized_by=(0,))
def choice(node: NodeView, options: Options) -> list[Step]:
    """The result of one of two branches; it has that branch's size, so both must have the same."""
    condition, x, y = _operands(node)
    first, second = _fixed(node, 1), _fixed(node, 2)
    if x.shape != y.shape or first != second:
        raise Unsupported(
            f"a run chooses a branch, and their results have the shapes {first} and {second}; "
            "expected equal shapes"
        )
    output = node.output(x.shape, kind=x.kind, dtype=node.dtype(1))
    single = node.scratch((1,), "condition", "int")
    steps: list[Step] = []
    if len(condition.shape) > len(x.shape):
        steps.append(reshaped_as(node, condition, single))
        condition = single
    return [*steps, elementwise(node, (condition, x, y), output, "SELECT")]


def _fixed(node: NodeView, i: int) -> list[int]:
    """The shape of an input, with -1 for each size that the file leaves open."""
    shape, signature = node.shape(i), node.graph.tensors[node.inputs[i]].shape_signature
    if len(signature) != len(shape):
        return list(shape)
    return [-1 if size < 0 else n for n, size in zip(shape, signature, strict=True)]


def _operands(node: NodeView) -> tuple[Operand, Operand, Operand]:
    refuse_rescaling(node)
    (condition,) = inputs(node, (0,), "bool")
    x, y = inputs(node, (1, 2), *TYPES)
    return condition, x, y


def _selection(node: NodeView, condition: Operand, x: Operand, y: Operand) -> list[Step]:
    shape = broadcast_shapes(condition.shape, x.shape, y.shape)
    tensors = node.graph.tensors
    stored = tensors[node.outputs[0]].shape
    were_single = all(prod(tensors[i].shape) == 1 for i in (*node.inputs, *node.outputs))
    if not _are_single(condition, x, y) or not were_single:
        output = node.output(shape, kind=x.kind, dtype=node.dtype(1))
        return [elementwise(node, (condition, x, y), output, "SELECT")]
    # LiteRT keeps the stored shape of an output that has always had one element.
    output = node.output(stored, kind=x.kind, dtype=node.dtype(1))
    result = node.scratch(shape, "result", x.kind)
    return [
        elementwise(node, (condition, x, y), result, "SELECT"),
        reshaped_as(node, result, output),
    ]


def _are_single(*operands: Operand) -> bool:
    return all(operand.elements == 1 for operand in operands)
