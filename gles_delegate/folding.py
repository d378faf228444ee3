"""Constants computed before anything runs: fp16 and 8-bit weights behind DEQUANTIZE nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gles_delegate.graph import Graph, Tensor


def fold_constants(graph: Graph) -> Graph:
    """The graph with the results of DEQUANTIZE on constants as float32 constants.

    The nodes stay where they are; their outputs are constants then, so nothing is left to do.

    Raises:
        ModelError: A constant's bytes do not fit its shape.
    """
    tensors = list(graph.tensors)
    for node in graph.nodes:
        if node.op != "DEQUANTIZE" or len(node.inputs) != 1 or len(node.outputs) != 1:
            continue
        source, output = tensors[node.inputs[0]], tensors[node.outputs[0]]
        if _is_foldable(source) and output.dtype == "float32" and not output.is_constant:
            values = np.ascontiguousarray(source.values(), np.float32)
            data = values.ravel().view(np.uint8)
            tensors[output.index] = replace(output, shape=source.shape, data=data)
    return replace(graph, tensors=tuple(tensors))


def _is_foldable(tensor: Tensor) -> bool:
    return tensor.is_constant and (tensor.dtype in ("float16", "float32") or tensor.is_quantized)
