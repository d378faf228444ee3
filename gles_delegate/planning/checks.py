"""The steps of one node, checked against its tensors' types and the device's limits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.kernels.choosing import steps_dispatches
from gles_delegate.kernels.setting import Setting
from gles_delegate.model.graph import Graph
from gles_delegate.model.schema import BUILTIN_OPERATORS
from gles_delegate.ops.images import Pooling
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.registry import lower, op_of
from gles_delegate.ops.lib.views import Copy, meaning
from gles_delegate.shaders.dispatch import (
    Alias,
    Call,
    Const,
    Define,
    Dispatch,
    Operand,
    Operation,
    Step,
    values_of,
)

_HANDLES = ("resource", "variant")
"""Types of tensors without numbers, which no step writes."""
LARGEST = float(np.finfo(np.float32).max)
MAX_BIAS = (1 << 31) - 1
"""Largest bias that converters write: they clamp to it."""


def checked_steps(node: NodeView) -> list[Step]:
    """The steps of a node, rounded to the types of its outputs; raises errors as `lower` does."""
    try:
        steps = [_rounded(step, node) for step in lower(node)]
        dispatches = [*steps_dispatches(steps, Setting(node.limits, node.graph.tensors))]
    except ModelError:
        raise
    except (ArithmeticError, LookupError, ValueError) as error:
        tensors = node.graph.tensors
        shapes = [list(node.shapes.get(i, tensors[i].shape)) for i in node.inputs if i >= 0]
        raise Unsupported(
            f"inputs of shapes {shapes} and {len(node.outputs)} outputs, of which {node.op} cannot "
            f"be lowered ({type(error).__name__}: {error}); expected those of a converter"
        ) from error
    _check_outputs(node, steps)
    _check_types(node)
    _check_biases(node)
    _check_half(node)
    for dispatch in dispatches:
        _check_limits(dispatch, node)
    for dispatch in dispatches:
        _check_numbers(dispatch)
    return steps


def _rounded(step: Step, node: NodeView) -> Step:
    """Append the rounding of the output's type to the epilogue, if the GPU lacks the type."""
    graph, tensor = node.graph, node.graph.tensors[step.output.tensor]
    if isinstance(step, Alias) or step.output.name:
        return step
    if tensor.dtype == "float16":
        return replace(step, epilogue=(*step.epilogue, Call("CAST_TO_FLOAT16")))
    if not tensor.is_quantized or _is_moved(step, graph):
        return step
    low, high = tensor.limits
    scale, zero = tensor.quantization.pair
    function = "QUANTIZED"
    if op_of(node.op).rounds_evenly:
        function += "_UP" if graph.tensors[node.inputs[0]].is_quantized else "_TO_EVEN"
    rounding = Call(function, (scale, float(low - zero), float(high - zero)))
    return replace(step, epilogue=(*step.epilogue, rounding))


def _is_moved(step: Operation, graph: Graph) -> bool:
    """Whether all results are elements of its inputs, or 0, and so rounded already."""
    match step:
        case Copy() | Pooling(chooses=True) | Dispatch(shader="resize_nearest"):
            stored = meaning(graph.tensors[step.output.tensor])
            are_tensors = not any(read.name for read in values_of(step.reads))
            sources = (graph.tensors[i] for read in step.reads for i in read.tensors)
            is_same = are_tensors and all(meaning(source) == stored for source in sources)
            return is_same and not step.epilogue
    return False


def _check_outputs(node: NodeView, steps: Sequence[Step]) -> None:
    """Raise `Unsupported` for an output that no step writes, unless it is a handle."""
    written = {step.output.tensor for step in steps}
    numbers = [i for i in node.outputs if i >= 0 and node.graph.tensors[i].dtype not in _HANDLES]
    missing = [i for i in numbers if i not in written]
    if missing:
        raise Unsupported(f"{len(node.outputs)} outputs; it computes no tensor {missing[0]}")


def _check_types(node: NodeView) -> None:
    """Raise `Unsupported` if a node that converts no types has real numbers of several types.

    LiteRT's kernels check the type of one tensor, and reinterpret the bytes of the others.
    """
    if op_of(node.op).checks_types or node.op not in BUILTIN_OPERATORS:
        return
    indices = [i for i in (*node.inputs, *node.outputs) if i >= 0]
    tensors = [t for i in indices if not (t := node.graph.tensors[i]).is_constant]
    types = sorted({tensor.dtype for tensor in tensors if tensor.lanes == "float"})
    if len(types) > 1:
        raise Unsupported(f"real numbers of the types {' and '.join(types)}; expected one")


def _check_biases(node: NodeView) -> None:
    """Raise `Unsupported` for biases with which LiteRT's sums exceed 32 bits."""
    positions = op_of(node.op).biases
    if positions is None or not node.has_input(positions[2]):
        return
    biases = node.graph.tensors[node.inputs[positions[2]]]
    if biases.is_constant and biases.dtype == "int32":
        largest = np.abs(biases.array().astype(np.float64)).max(initial=0)
        if largest > MAX_BIAS:
            raise Unsupported(f"biases of up to {largest:.0f}; expected at most {MAX_BIAS}")


def _named(operand: Operand, node: NodeView) -> str:
    """The tensor that an operand is, or is computed or packed from, with its shape in the model."""
    if operand.tensor_shape is not None:
        return f"a tensor of shape {list(operand.shape)} needs"
    tensors = [node.graph.tensors[i] for i in operand.tensors if i >= 0]
    shapes = [list(node.shapes.get(t.index, t.shape)) for t in tensors]
    of = f"shape {shapes[0]}" if len(shapes) == 1 else f"shapes {shapes}"
    kind = "a constant" if isinstance(operand, Const) else "an intermediate result for a tensor"
    return f"{kind} of {of}, as the GPU reads it, needs"


def _check_half(node: NodeView) -> None:
    """Raise `Unsupported` if a float16 tensor, which only storage blocks hold, is too large."""
    for i in (*node.inputs, *node.outputs):
        tensor = node.graph.tensors[i] if i >= 0 else None
        if tensor is None or tensor.is_constant or tensor.dtype != "float16":
            continue
        shape = node.shapes.get(i, tensor.shape)
        nbytes = 8 * ceil(prod(shape) / 4)
        if node.limits.is_large(nbytes):
            raise Unsupported(
                f"a float16 tensor of shape {list(shape)} needs {nbytes} bytes; the device's "
                f"shaders reach {node.limits.block_bytes} of one"
            )


def _check_limits(step: Dispatch, node: NodeView) -> None:
    limits = node.limits
    for operand in (*step.reads, step.output):
        if limits.is_large(operand.nbytes) and operand.texels > limits.large_texels:
            most = max(limits.block_bytes, 16 * limits.large_texels)
            raise Unsupported(
                f"{_named(operand, node)} {operand.nbytes} bytes; the device's shaders reach "
                f"{most} of one"
            )
    most_reads = limits.reads_for(step.output.nbytes)
    if len(step.reads) > most_reads:
        raise Unsupported(
            f"an output of {step.output.nbytes} bytes of {len(step.reads)} inputs; the device "
            f"reads at most {most_reads} for one so large"
        )
    groups = step.grid.within(limits.groups).groups
    if any(n > most for n, most in zip(groups, limits.groups, strict=True)):
        raise Unsupported(f"{list(groups)} work groups; the limits are {list(limits.groups)}")
    if step.passes > limits.loop_passes:
        raise Unsupported(
            f"{step.passes} passes through the loops of {step.shader}.glsl; the device ends "
            f"them after {limits.loop_passes}"
        )


def _check_numbers(step: Dispatch) -> None:
    """Raise `Unsupported` for infinity and NaN, which GLSL ES cannot write as literals."""
    numbers: list[tuple[str, Define]] = [*step.defines.items()]
    numbers += [(f"a parameter of {c.function}", n) for c in step.epilogue for n in c.args]
    for name, number in numbers:
        if isinstance(number, float) and not abs(number) <= LARGEST:
            raise Unsupported(f"{name} is {number}; expected a finite float32")
