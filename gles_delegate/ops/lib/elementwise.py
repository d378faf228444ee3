"""Element-wise dispatches, whose functions are in glsl/lib/elementwise.glsl."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Quantization
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.index import broadcast_shapes, broadcast_strides, merged
from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.shaders.dispatch import Call, Define, Dispatch, Kind, Operand, Shape, Step, Value

TYPES = ("float32", "int32", "bool", "int8", "uint8", "int16", "int64")
"""Element types of ops that only move or choose elements."""

ADD, SUB, MUL, DIV, MAXIMUM = "ADD", "SUB", "MUL", "DIV", "MAXIMUM"
EXP, LOG, PRELU = "EXP", "LOG", "PRELU"
NEG, SQUARE, SQUARED_DIFFERENCE, RSQRT = "NEG", "SQUARE", "SQUARED_DIFFERENCE", "RSQRT"
"""Functions that planning recognizes."""
DIVISION_PASSES = 602
"""Passes through the loops of FLOOR_MOD in glsl/lib/elementwise.glsl."""


def stablehlo(node: NodeView, function: str, *types: str, swapped: bool = False) -> list[Step]:
    """A function of two tensors of one shape and one of `types`; integers wrap around."""
    refuse_quantized(node)
    a, b = inputs(node, (0, 1), *types)
    dtype = node.dtype(0)
    if dtype == "float16":
        raise Unsupported("the inputs are float16; expected float32")
    if a.shape != b.shape:
        raise UnfitSizes(f"the shapes {list(a.shape)} and {list(b.shape)}; expected one")
    output = node.output(a.shape, kind=a.kind, dtype=dtype)
    return [elementwise(node, (b, a) if swapped else (a, b), output, function, wrapped(dtype))]


def wrapped(dtype: str) -> tuple[Call, ...]:
    """The epilogue that makes integers smaller than a lane wrap around."""
    return (Call(f"CAST_TO_{dtype.upper()}"),) if dtype in ("int8", "uint8", "int16") else ()


DIFFERENCES = ("SUB", "SQUARED_DIFFERENCE")
"""Functions of two operands that are 0 where these are equal and finite."""


def inputs(node: NodeView, positions: Iterable[int], *types: str) -> tuple[Operand, ...]:
    """Inputs of a node, which must all have the same one of `types`.

    Args:
        types: "float32", the default, stands for any real number, and "int32" for int64, too.
    """
    expected = types or ("float32",)
    operands = {i: node.input(i, None) for i in positions}
    dtypes = {"float32" if x.kind == "float" else node.dtype(i) for i, x in operands.items()}
    if len(dtypes) != 1 or not {t.replace("int64", "int32") for t in dtypes} <= {*expected}:
        raise Unsupported(
            f"the inputs are {' and '.join(sorted(dtypes))}; expected {' or '.join(expected)}"
        )
    return tuple(operands.values())


def refuse_quantized(node: NodeView) -> None:
    """Raise `Unsupported` for quantized tensors: LiteRT computes with the stored integers."""
    if quantizations(node):
        raise Unsupported(f"LiteRT's {node.op} ignores the quantization")


def is_interpolated(node: NodeView) -> bool:
    """Whether LiteRT interpolates from a table, with errors of up to thousands of steps."""
    return node.dtype(0) == "int16" and bool(quantizations(node))


def refuse_rescaling(node: NodeView) -> None:
    """Raise `Unsupported` unless all quantized tensors have the same quantization."""
    if len(quantizations(node)) > 1:
        raise Unsupported(f"the tensors are quantized differently; LiteRT's {node.op} ignores that")


def quantizations(node: NodeView) -> set[Quantization]:
    tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs) if i >= 0]
    return {tensor.quantization for tensor in tensors if tensor.is_quantized}


def unary(node: NodeView, operands: tuple[Operand, ...], *calls: Call) -> Elementwise:
    """Functions of one operand, applied in order."""
    (x,) = operands
    output = node.output(x.shape, kind=x.kind, dtype=node.dtype(0))
    return elementwise(node, operands, output, epilogue=calls)


def broadcasting(
    node: NodeView,
    operands: tuple[Operand, ...],
    dtype: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] | None = None,
) -> Elementwise:
    """The node's op on operands that broadcast.

    Args:
        dtype: The integer or bool type of the result; "": the type of the operands.
    """
    shape = broadcast_shapes(*(operand.shape for operand in operands))
    kind: Kind = "int" if dtype else operands[0].kind
    output = node.output(shape, kind=kind, dtype=dtype or node.dtype(0))
    return elementwise(node, operands, output, node.op, epilogue, defines)


@dataclass(frozen=True, kw_only=True)
class Elementwise(Dispatch):
    """A function of glsl/lib/elementwise.glsl; "" copies one operand."""

    function: str

    @property
    def most_passes(self) -> int:
        return self.passes or 1  # it reads one texel of each operand

    def by_pixel(self) -> Elementwise:
        grid = replace(self.grid, pixels=self.output.pixels)
        return replace(self, grid=grid, defines={**self.defines, "PER_LANE": 1})


def elementwise(
    node: NodeView,
    operands: tuple[Operand, ...],
    output: Value,
    function: str = "",
    epilogue: tuple[Call, ...] = (),
    defines: Mapping[str, Define] | None = None,
) -> Elementwise:
    """`function` of operands that broadcast to `output`; see `Elementwise`."""
    dispatch = combination(node.index, node.limits, operands, output, function, epilogue)
    return replace(dispatch, defines={**dispatch.defines, **(defines or {})})


def combination(
    node: int,
    limits: Limits,
    operands: tuple[Operand, ...],
    output: Value,
    function: str,
    epilogue: tuple[Call, ...],
) -> Elementwise:
    """`elementwise` for the node of that index."""
    per_lane = limits.profile.per_lane
    pixels: Shape = output.shape[:-1]
    dense = broadcast_strides(pixels, pixels)
    strides = [broadcast_strides(operand.shape[:-1], pixels) for operand in operands]
    sizes, *merged_strides = merged(pixels, *strides)
    defines: dict[str, Define] = {"FUNCTION": function, "OPERANDS": len(operands)}
    defines |= {"PER_LANE": per_lane, "SIZES": sizes, "DIMS": len(sizes)}
    for name, operand, full, steps in zip("ABC", operands, strides, merged_strides, strict=False):
        defines |= {
            f"{name}_SAME_PIXELS": int(full == dense),
            f"{name}_STRIDES": steps,
            f"{name}_PIXELS": operand.pixels,
            f"{name}_ONE_CHANNEL": int(operand.channels == 1 and output.channels > 1),
        }
    grid = make_grid(output.pixels, output.slices, limits, per_lane)
    passes = per_lane * DIVISION_PASSES if function in ("FLOOR_DIV", "FLOOR_MOD") else 0
    return Elementwise(
        node, "elementwise", operands, output, grid, defines, epilogue, passes=passes,
        function=function,
    )  # fmt: skip
