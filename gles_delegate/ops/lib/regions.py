"""Subgraphs that combine two elements."""

from __future__ import annotations

from gles_delegate.ops.lib.node import NodeView, Unsupported

REGIONS = {
    **dict.fromkeys(("ADD", "STABLEHLO_ADD"), "SUM"),
    **dict.fromkeys(("MUL", "STABLEHLO_MULTIPLY"), "PRODUCT"),
    **dict.fromkeys(("MAXIMUM", "STABLEHLO_MAXIMUM", "LOGICAL_OR"), "LARGEST"),
    **dict.fromkeys(("MINIMUM", "STABLEHLO_MINIMUM", "LOGICAL_AND", "STABLEHLO_AND"), "SMALLEST"),
}
"""Macros of shaders by the op of a subgraph that combines two elements."""


def region(node: NodeView, index: int, dtype: str) -> str:
    """How a subgraph combines two elements: a macro, or "LATER" if its result is the second."""
    if not 0 <= index < len(node.graph.subgraphs):
        raise Unsupported(f"no subgraph {index}")
    body = node.graph.subgraphs[index]
    if not body.nodes and body.outputs == body.inputs[1:] != ():
        return "LATER"
    names = ", ".join(inner.op for inner in body.nodes)
    (inner,) = body.nodes if len(body.nodes) == 1 else (None,)
    is_sum = inner is not None and (
        sorted(inner.inputs) == sorted(body.inputs)
        and (len(body.inputs), inner.outputs) == (2, body.outputs)
        and not (inner.op in ("ADD", "MUL") and inner.options and inner.options.scalar(0, "int8"))
    )
    is_logical = names in ("LOGICAL_OR", "LOGICAL_AND", "STABLEHLO_AND")
    if not is_sum or names not in REGIONS or dtype == "float16" or is_logical != (dtype == "bool"):
        raise Unsupported(f"{dtype} combined by {names}")
    return REGIONS[names]
