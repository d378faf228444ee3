"""Independence of the rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Graph
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.registry import keeps_rows
from gles_delegate.ops.variables import ASSIGN, CALL_ONCE
from gles_delegate.planning.inlining import called_by
from gles_delegate.planning.lowering import Lowerings, is_folded
from gles_delegate.shaders.dispatch import Shape


def rows_are_independent(lowerings: Lowerings, shapes: Mapping[int, Shape]) -> bool:
    """Whether each row of a batch certainly has the same results as it has alone.

    Rows lie along axis 0 of every input and output. An op without a rule, or that the GPU does not
    support, makes it uncertain.

    Args:
        shapes: Shapes of the inputs by tensor index, with the rows of the batch.
    """
    graph = lowerings.graph
    sizes = {shapes.get(index, graph.tensors[index].shape)[:1] for index in graph.inputs}
    if len(sizes) != 1 or sizes <= {(), (0,)}:
        return False
    ((rows,),) = sizes
    lowered = lowerings.lower(shapes)
    graph, having = lowered.graph, {*graph.inputs}
    for node in graph.in_order:
        if having.isdisjoint(node.inputs) or is_folded(graph, node):
            continue
        if node.index in lowered.reasons:
            return False
        try:
            if not keeps_rows(NodeView(graph, node, lowered.shapes, Limits()), having, rows):
                return False
        except Unsupported:  # a parameter is computed at run time
            return False
        having.update(node.outputs)
    return all(i in having and lowered.shapes[i][:1] == (rows,) for i in graph.outputs)


def keeps_states(graph: Graph) -> bool:
    """Whether a run starts with tensors from the last run, such as the state of an LSTM."""
    return any(tensor.is_variable for each in _run_with(graph) for tensor in each.tensors)


def keeps_resources(graph: Graph) -> bool:
    """Whether a run may change resource variables that the next run reads."""
    return any(node.op == ASSIGN for each in _run_with(graph) for node in each.nodes)


def _run_with(graph: Graph) -> list[Graph]:
    """The graph and the subgraphs that may run in each of its runs."""
    nodes = [node for node in graph.nodes if node.op != CALL_ONCE]
    return [graph, *(graph.subgraphs[index] for index in called_by(graph, nodes))]
