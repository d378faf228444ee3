"""Element-wise dispatches, whose functions are in glsl/lib/elementwise.glsl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from types import MappingProxyType

from gles_delegate.dispatch import Call, Define, Dispatch, Kind, Operand, Shape, Step, Value
from gles_delegate.model.graph import Quantization
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import broadcast_shapes, broadcast_strides, merged
from gles_delegate.ops.lib.node import NodeView, Unsupported

TYPES = ("float32", "int32", "bool", "int8", "uint8", "int16", "int64")
"""Element types that ops take which only move or choose elements."""


PER_LANE = 4


ADD, SUB, MUL, DIV, MAXIMUM = "ADD", "SUB", "MUL", "DIV", "MAXIMUM"
SQUARE, SQUARED_DIFFERENCE, RSQRT = "SQUARE", "SQUARED_DIFFERENCE", "RSQRT"
"""Functions that planning recognizes."""
DIVISION_PASSES = 602
"""Passes through the loops of FLOOR_MOD in glsl/lib/elementwise.glsl."""


NONE: Mapping[str, Define] = MappingProxyType({})


def stablehlo(node: NodeView, function: str, *types: str, swapped: bool = False) -> list[Step]:
    """A function of two tensors of one shape and one of `types`; integers wrap around."""
    refuse_quantized(node)
    a, b = inputs(node, (0, 1), *types)
    dtype = node.dtype(0)
    if a.shape != b.shape or dtype == "float16":
        raise Unsupported(f"{dtype} of shapes {list(a.shape)} and {list(b.shape)}; expected one")
    output = node.output(a.shape, kind=a.kind, dtype=dtype)
    wraps = dtype in ("int8", "uint8", "int16")
    epilogue = (Call(f"CAST_TO_{dtype.upper()}"),) if wraps else ()
    operands = (b, a) if swapped else (a, b)
    return [elementwise(node, operands, output, function, epilogue)]


def inputs(node: NodeView, which: Iterable[int], *types: str) -> tuple[Operand, ...]:
    """Inputs of a node, all of one of `types`.

    Args:
        types: "float32", the default, is any real number, and "int32" int64 too.

    Raises:
        Unsupported: They are of another type, or of several.
    """
    expected = types or ("float32",)
    operands = {i: node.input(i, None) for i in which}
    found = {
        "float32" if operand.kind == "float" else node.dtype(i) for i, operand in operands.items()
    }
    if len(found) != 1 or not {"int32" if t == "int64" else t for t in found} <= {*expected}:
        raise Unsupported(
            f"the inputs are {' and '.join(sorted(found))}; expected {' or '.join(expected)}"
        )
    return tuple(operands.values())


def refuse_quantized(node: NodeView) -> None:
    """Raise `Unsupported` for quantized tensors, of which LiteRT takes the integers as such."""
    if quantizations(node):
        raise Unsupported(f"LiteRT's {node.op} ignores the quantization")


def is_interpolated(node: NodeView) -> bool:
    """Whether LiteRT interpolates between few results, which is up to thousands of steps off."""
    return node.dtype(0) == "int16" and bool(quantizations(node))


def refuse_rescaling(node: NodeView) -> None:
    """Raise `Unsupported` unless the integers of all quantized tensors mean the same numbers."""
    if len(quantizations(node)) > 1:
        raise Unsupported(
            f"the tensors are quantized differently, and LiteRT's {node.op} ignores that"
        )


def quantizations(node: NodeView) -> set[Quantization]:
    tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs) if i >= 0]
    return {tensor.quantization for tensor in tensors if tensor.is_quantized}


def unary(node: NodeView, operands: tuple[Operand, ...], *calls: Call) -> Elementwise:
    """Functions of an operand, one after the other."""
    (x,) = operands
    output = node.output(x.shape, kind=x.kind, dtype=node.dtype(0))
    return elementwise(node, operands, output, epilogue=calls)


def broadcasting(
    node: NodeView,
    operands: tuple[Operand, ...],
    dtype: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] = NONE,
) -> Elementwise:
    """The op of the node on operands that broadcast.

    Args:
        dtype: The type of the result, if it is one of integers; "": that of the operands.
    """
    shape = reduce(broadcast_shapes, (operand.shape for operand in operands))
    kind: Kind = "int" if dtype else operands[0].kind
    output = node.output(shape, kind=kind, dtype=dtype or node.dtype(0))
    return elementwise(node, operands, output, node.op, epilogue, defines)


@dataclass(frozen=True, kw_only=True)
class Elementwise(Dispatch):
    """What `elementwise` makes: a function of glsl/lib/elementwise.glsl; "" of one operand."""

    function: str


def elementwise(
    node: NodeView,
    operands: tuple[Operand, ...],
    output: Value,
    function: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] = NONE,
) -> Elementwise:
    """`function` of the operands, which broadcast to `output`; of one operand it may be empty."""
    pixels: Shape = output.shape[:-1]
    dense = broadcast_strides(pixels, pixels)
    strides = [broadcast_strides(operand.shape[:-1], pixels) for operand in operands]
    sizes, *walks = merged(pixels, *strides)
    all_defines: dict[str, Define] = {"FUNCTION": function, "OPERANDS": len(operands), **defines}
    all_defines |= {"PER_LANE": PER_LANE, "SIZES": sizes, "DIMS": len(sizes)}
    for name, operand, full, walk in zip("ABC", operands, strides, walks, strict=False):
        all_defines |= {
            f"{name}_SAME_PIXELS": int(full == dense),
            f"{name}_STRIDES": walk,
            f"{name}_PIXELS": operand.pixels,
            f"{name}_ONE_CHANNEL": int(operand.channels == 1 and output.channels > 1),
        }
    grid = make_grid(output.pixels, output.slices, node.limits, PER_LANE)
    passes = PER_LANE * DIVISION_PASSES if function in ("FLOOR_DIV", "FLOOR_MOD") else 0
    return Elementwise(
        node.index, "elementwise", operands, output, grid, all_defines, epilogue, passes=passes,
        function=function,
    )  # fmt: skip
