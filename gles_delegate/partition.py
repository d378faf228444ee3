"""Graph to lowered nodes: which nodes run on the GPU, by which steps, and why others do not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gles_delegate import ops
from gles_delegate.dispatch import Alias, Call, Dispatch, Shape, Step
from gles_delegate.errors import ModelError
from gles_delegate.folding import fold_constants
from gles_delegate.graph import QUANTIZED_TYPES, Graph
from gles_delegate.limits import Limits


@dataclass(frozen=True)
class Lowered:
    """A graph whose nodes were lowered one by one.

    Attributes:
        shapes: Of every tensor, as they follow from the shapes of the inputs.
        steps: Of each node that the GPU takes, by node index.
        reasons: Of each other node, why it does not.
    """

    graph: Graph
    shapes: Mapping[int, Shape]
    steps: Mapping[int, tuple[Step, ...]] = field(repr=False)
    reasons: Mapping[int, str]


def lower_graph(
    graph: Graph,
    limits: Limits,
    input_shapes: Mapping[int, Shape] | None = None,
    quantized: bool = True,
) -> Lowered:
    """Lower every node, in order, for inputs of the given shapes (the model's by default).

    `quantized` says whether nodes with 8-bit tensors are taken.

    Raises:
        ModelError: The model is damaged, or its nodes are not in the order of execution.
    """
    given = {t.index for t in graph.tensors if t.is_constant or t.is_variable} | set(graph.inputs)
    graph = fold_constants(graph)
    shapes = {tensor.index: tensor.shape for tensor in graph.tensors} | dict(input_shapes or {})
    known = set(given)
    steps: dict[int, tuple[Step, ...]] = {}
    reasons: dict[int, str] = {}
    for node in graph.nodes:
        missing = [i for i in node.inputs if i >= 0 and i not in known]
        if missing:
            raise ModelError(
                f"damaged model: node {node.index} {node.op} reads tensor {missing[0]}, "
                "which nothing computed before it"
            )
        repeated = known.intersection(node.outputs)
        if repeated:
            raise ModelError(
                f"damaged model: node {node.index} {node.op} computes tensor {min(repeated)} anew"
            )
        known.update(node.outputs)
        if node.outputs and all(graph.tensors[i].is_constant for i in node.outputs):
            steps[node.index] = ()
            continue
        try:
            view = ops.NodeView(graph, node, shapes, limits, quantized)
            lowered = [_simulated(step, graph) for step in ops.lower(view)]
            _check_limits(lowered, limits)
        except ops.Unsupported as error:
            reasons[node.index] = str(error)
            continue
        steps[node.index] = tuple(lowered)
        for step in lowered:
            if not step.output.part:
                shapes[step.output.tensor] = step.output.shape
    return Lowered(graph, shapes, steps, reasons)


def _simulated(step: Step, graph: Graph) -> Step:
    """With the rounding that a quantised output brings about, as the last function applied."""
    tensor = graph.tensors[step.output.tensor]
    if isinstance(step, Alias) or step.output.part or not tensor.is_quantized:
        return step
    low, high = QUANTIZED_TYPES[tensor.dtype]
    (scale,), zero = tensor.quantization.scales, (*tensor.quantization.zero_points, 0)[0]
    rounding = Call("QUANTIZED", (scale, float(low - zero), float(high - zero)))
    return replace(step, epilogue=(*step.epilogue, rounding))


def _check_limits(steps: list[Step], limits: Limits) -> None:
    """Raise `Unsupported` where a dispatch exceeds the device."""
    for step in steps:
        if not isinstance(step, Dispatch):
            continue
        for operand in (*step.reads, step.output):
            if operand.nbytes > limits.block_bytes:
                raise ops.Unsupported(
                    f"a tensor of shape {list(operand.shape)} needs {operand.nbytes} bytes; "
                    f"the device's storage blocks hold {limits.block_bytes}"
                )
        if any(n > most for n, most in zip(step.grid.groups, limits.groups, strict=True)):
            raise ops.Unsupported(
                f"{list(step.grid.groups)} work groups; the device allows {list(limits.groups)}"
            )
