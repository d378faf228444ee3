"""Subgraphs that combine two elements, or compare them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gles_delegate.model.graph import Graph, Node
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options, Uint32

REGIONS = {
    **dict.fromkeys(("ADD", "STABLEHLO_ADD"), "SUM"),
    **dict.fromkeys(("MUL", "STABLEHLO_MULTIPLY"), "PRODUCT"),
    **dict.fromkeys(("MAXIMUM", "STABLEHLO_MAXIMUM", "LOGICAL_OR"), "LARGEST"),
    **dict.fromkeys(("MINIMUM", "STABLEHLO_MINIMUM", "LOGICAL_AND", "STABLEHLO_AND"), "SMALLEST"),
}
"""Macros of shaders by the op of a subgraph that combines two elements."""


def region(node: NodeView, index: int, dtype: str) -> str:
    """How a subgraph combines two elements: a macro, or "LATER" if its result is the second."""
    body = _subgraph(node, index)
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


@dataclass(frozen=True)
class Order:
    """The order of the elements of an axis.

    Attributes:
        operand: The number of the operand whose elements are compared.
        key: The macro of glsl/lib/keys.glsl by which the first elements have the largest keys.
    """

    operand: int
    key: str


class StablehloCompareOptions(Options):
    direction: Uint32 = 0
    type: Uint32 = 0


_DIRECTIONS = ("EQUAL", "NOT_EQUAL", "GREATER_EQUAL", "GREATER", "LESS_EQUAL", "LESS")
"""Comparisons by their number in ``enum StablehloComparisonDirection``."""
_TOTAL_ORDER = 2
"""The number of FLOAT_TOTAL_ORDER in ``enum StablehloComparisonType``."""
_SELECTIONS = ("SELECT", "SELECT_V2", "STABLEHLO_SELECT")


def comparator(node: NodeView, index: int, operands: int) -> Order:
    """The order of a subgraph that is called with two elements of each operand in turn.

    It compares two elements of an operand. Zeros of both signs may be made one before, and NaNs,
    too, as JAX does.
    """
    body = _subgraph(node, index)
    makers = {made: inner for inner in body.nodes for made in inner.outputs}
    last = makers.get(*body.outputs) if len(body.outputs) == 1 else None
    comparison = _comparison(last)
    if last is None or len(last.inputs) != 2 or comparison not in _DIRECTIONS[2:]:
        raise _other_comparator(body)
    (a, a_made), (b, b_made) = (_element(body, makers, tensor) for tensor in last.inputs)
    if b < a:
        a, b = b, a
        comparison = {"GREATER": "LESS", "LESS": "GREATER"}[comparison.removesuffix("_EQUAL")]
    is_total = last.op == "STABLEHLO_COMPARE" and (
        StablehloCompareOptions.read(last).type == _TOTAL_ORDER
    )
    made = {a_made, b_made}
    if len(body.inputs) != 2 * operands or a % 2 or b != a + 1 or len(made) > 1:
        raise _other_comparator(body)
    key = "DESCENDING" if comparison.startswith("GREATER") else "ASCENDING"
    if is_total and body.tensors[body.inputs[a]].dtype == "float32":
        if made == {frozenset()}:
            return Order(a // 2, f"{key}_IN_TOTAL")
        if made != {frozenset({"EQUAL", "NOT_EQUAL"})}:
            raise _other_comparator(body)
    return Order(a // 2, key)


def _subgraph(node: NodeView, index: int) -> Graph:
    if not 0 <= index < len(node.graph.subgraphs):
        raise Unsupported(f"no subgraph {index}")
    return node.graph.subgraphs[index]


def _other_comparator(body: Graph) -> Unsupported:
    names = ", ".join(inner.op for inner in body.nodes) or "no nodes"
    return Unsupported(
        f"a comparator of {names}; expected LESS or GREATER of two elements of one operand"
    )


def _comparison(node: Node | None) -> str:
    """Which of `_DIRECTIONS` a node computes; or its op."""
    if node is None or node.op != "STABLEHLO_COMPARE":
        return node.op if node else ""
    number = StablehloCompareOptions.read(node).direction
    return _DIRECTIONS[number] if number < len(_DIRECTIONS) else node.op


def _element(body: Graph, makers: dict[int, Node], tensor: int) -> tuple[int, frozenset[str]]:
    """The argument that a comparator compares, and the tests by which others replace it before.

    EQUAL to 0, which becomes 0, and NOT_EQUAL to itself, which becomes NaN.
    """
    path, tests = [tensor], list[tuple[str, Node]]()
    while path[-1] in makers and len(path) <= len(body.nodes):
        inner = makers[path[-1]]
        is_selection = inner.op in _SELECTIONS and len(inner.inputs) == 3
        test = makers.get(inner.inputs[0]) if is_selection else None
        if test is None or len(test.inputs) != 2:
            raise _other_comparator(body)
        number = _number(body, inner.inputs[1])
        name = "NOT_EQUAL" if number is not None and np.isnan(number) else "EQUAL"
        if _comparison(test) != name or (name == "EQUAL" and number != 0):
            raise _other_comparator(body)
        tests.append((name, test))
        path.append(inner.inputs[2])
    for name, test in tests:
        others = [i for i in test.inputs if i not in path]
        is_zero = len(others) == 1 and _number(body, others[0]) == 0
        if not (is_zero if name == "EQUAL" else not others):
            raise _other_comparator(body)
    if path[-1] not in body.inputs:
        raise _other_comparator(body)
    return body.inputs.index(path[-1]), frozenset(name for name, _ in tests)


def _number(body: Graph, tensor: int) -> float | None:
    """A constant of one number; None for others."""
    constant = body.tensors[tensor] if tensor >= 0 else None
    if constant is None or not constant.is_constant:
        return None
    array = constant.array()
    return float(array.item()) if array.size == 1 and array.dtype.kind == "f" else None
