"""A model's metadata, completed by what its graph computes."""

from __future__ import annotations

from dataclasses import replace

from gles_delegate.device.limits import Limits
from gles_delegate.model.graph import Graph
from gles_delegate.model.metadata import Metadata, TensorMetadata, parse_metadata
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.planning.lowering import Lowerings


def read_metadata(graph: Graph) -> Metadata:
    """The metadata of a model, parsed once; raises `ModelError` if it is damaged."""
    known: Metadata | None = graph.memo.get(read_metadata)
    if known is None:
        metadata = parse_metadata(graph)
        pairs = zip(metadata.outputs, graph.outputs, strict=True)
        outputs = (replace(each, is_share=_is_share(each, graph, index)) for each, index in pairs)
        known = replace(metadata, outputs=tuple(outputs))
        graph.memo[read_metadata] = known
    return known


def prepared(graph: Graph) -> Graph:
    """The graph with the shapes of its outputs by shape inference, if the file leaves them open."""
    found = [graph.tensors[index] for index in graph.outputs]
    if all(tensor.shape and -1 not in tensor.shape_signature[1:] for tensor in found):
        return graph
    tensors = list(graph.tensors)
    shapes = Lowerings(graph, Limits()).default.shapes
    for index in graph.outputs:
        tensors[index] = replace(tensors[index], shape=shapes[index])
    return replace(graph, tensors=tuple(tensors))


def _is_share(metadata: TensorMetadata, graph: Graph, output: int) -> bool | None:
    """Whether an output is from 0 to 1, by the ops that compute it, or else by its metadata.

    Published detectors have metadata of 0 to 1 for logits.
    """
    results = _results(graph, output)
    if results in ({"shares"}, {"unbounded"}):
        return results == {"shares"}
    if metadata.minimum and metadata.maximum:
        return min(metadata.minimum) >= 0 and max(metadata.maximum) <= 1
    return None


def _results(graph: Graph, output: int) -> set[str]:
    """`Op.results` of the ops that compute the numbers of an output; "" for an input."""
    makers = {tensor: node for node in graph.nodes for tensor in node.outputs}
    reached, results = [output], set[str]()
    for tensor in reached:
        node = makers.get(tensor)
        op = op_of(node.op if node is not None else "")
        if node is not None and (op.moves or op.results == "inputs"):
            sources = [i for i in node.inputs if i >= 0 and not graph.tensors[i].is_constant]
            reached += [i for i in sources if i not in reached]
        else:
            results.add(op.results)
    return results
