"""Constant folding: unpack float16, 8-bit and sparse weights while planning."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gles_delegate.model.graph import Graph


def fold_constants(graph: Graph) -> Graph:
    """Turn the results of DEQUANTIZE and DENSIFY on constants into constants.

    The nodes stay in the graph. Their outputs are constants, so they need no steps.

    Raises:
        ModelError: A constant's bytes do not fit its shape.
    """
    tensors = list(graph.tensors)
    for node in graph.nodes:
        if (
            node.op not in ("DEQUANTIZE", "DENSIFY")
            or len(node.inputs) != 1
            or len(node.outputs) != 1
        ):
            continue
        source, output = tensors[node.inputs[0]], tensors[node.outputs[0]]
        if not source.is_constant or output.is_constant:
            continue
        if node.op == "DENSIFY":
            values = source.array()
        elif output.dtype == "float32" and (source.is_quantized or source.dtype == "float16"):
            values = source.values()
        else:
            continue
        data = np.ascontiguousarray(values).ravel().view(np.uint8)
        is_half = source.dtype == "float16"
        tensors[output.index] = replace(output, shape=source.shape, data=data, is_half=is_half)
    return replace(graph, tensors=tuple(tensors))
