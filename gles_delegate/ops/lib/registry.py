"""The op registry: one entry per op, with everything that other packages ask about it.

An op is one function, decorated with `op`. It takes a `NodeView` and the op's options, and returns
the steps that compute the node. The lowering is the support check: it raises `Unsupported` if
the node cannot run. There is no second list of supported ops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from gles_delegate.model.graph import Array
from gles_delegate.model.schema import TENSORFLOW, TENSORFLOW_OP
from gles_delegate.ops.lib.node import NodeView, Unsupported
from gles_delegate.ops.lib.options import Options
from gles_delegate.ops.lib.rows import RowRule, Rows
from gles_delegate.shaders.dispatch import Shape, Step

Lowering: TypeAlias = Callable[[NodeView, Any], list[Step]]
Fold: TypeAlias = np.ufunc | Callable[[NodeView], Array | None]
Example: TypeAlias = Callable[[Shape, int, Shape], Sequence[int]]


@dataclass(frozen=True)
class Op:
    """The facts about an op.

    Attributes:
        lower: Returns the steps of a node; None: only planning or LiteRT computes it.
        options: The class of its options.
        max_version: The highest version that `lower` supports.
        fold: Computes output 0 from constants while planning. A ufunc is called with the arrays of
            the inputs; any other function with the node, and returns None to leave it to `lower`.
        folds_shapes: `fold` needs the shapes of the inputs, not their values.
        is_planned: Only `fold` computes it.
        rows: Whether a node computes each row of a batch independently; None: never.
        biases: The inputs that are the source, the weights and the biases of a convolution.
        sized_by: The inputs whose values decide the shapes of the outputs.
        example: Called with the shape of input 0, the size of a vector that `lower` needs as a
            constant, and the stored shape of output 0; returns example values of the vector.
        checks_types: `lower` accepts real numbers of several types, or checks them itself.
        has_symmetric_weights: LiteRT's kernels ignore the zero points of int8 weights.
        expands: The inputs of which LiteRT's kernel expands a sparse constant.
        rounds_evenly: It rounds halves of a real number's step to even, and of an integer's up;
            other ops round them away from zero.
        has_outputs: A node without outputs is an error.
        moves: The outputs consist of the inputs' "elements", in another shape or order, or of
            "ranges" of them, joined or cut. "": they are computed.
        results: The outputs are "shares" from 0 to 1, "unbounded" sums, or the "inputs" in another
            type; "": anything else.
        ends_networks: Networks end in it, and apps expect the channels of its inputs.
        runs_subgraphs: Its subgraphs may have side effects: LiteRT keeps the order of such nodes.
        opaque_outputs: Outputs that LiteRT writes in another form; only ops of the same family read
            them.
    """

    lower: Lowering | None = None
    options: type[Options] = Options
    max_version: int = 1
    fold: Fold | None = None
    folds_shapes: bool = False
    is_planned: bool = False
    rows: RowRule | None = None
    biases: tuple[int, int, int] | None = None
    sized_by: tuple[int, ...] = ()
    example: Example | None = None
    checks_types: bool = False
    has_symmetric_weights: bool = False
    expands: tuple[int, ...] = ()
    rounds_evenly: bool = False
    has_outputs: bool = True
    moves: Literal["", "elements", "ranges"] = ""
    results: Literal["", "shares", "unbounded", "inputs"] = ""
    ends_networks: bool = False
    runs_subgraphs: bool = False
    opaque_outputs: tuple[int, ...] = ()


_OPS: dict[str, Op] = {}
_UNKNOWN = Op()


def op(*names: str, **facts: Any) -> Callable[[Lowering], Lowering]:
    """Register the decorated function as the lowering of ops.

    Args:
        facts: The other attributes of `Op`, such as `max_version` and `options`.

    Examples:
        >>> @ops.op("Posterize", max_version=2)
        ... def posterize(node, options):
        ...     x = node.input(0)
        ...     output = node.output(x.shape)
        ...     grid = ops.make_grid(output.pixels, output.slices, node.limits)
        ...     return [node.dispatch("/path/to/posterize", (x,), output, grid, {"LEVELS": 4})]
        >>> ops.supported_ops()["Posterize"]
        2
    """

    def register(lower: Lowering) -> Lowering:
        for name in names:
            _OPS[name] = Op(lower, **facts)
        return lower

    return register


def declare(*names: str, **facts: Any) -> None:
    """Register ops without a lowering; see `Op`."""
    _OPS.update(dict.fromkeys(names, Op(**facts)))


def folds(*names: str, **facts: Any) -> Callable[[Fold], Fold]:
    """Register the decorated function as `Op.fold` of ops without a lowering."""

    def register(fold: Fold) -> Fold:
        declare(*names, fold=fold, **facts)
        return fold

    return register


def op_of(name: str) -> Op:
    """The entry of an op, or an entry with the defaults."""
    return _OPS.get(name, _UNKNOWN)


def supported_ops() -> dict[str, int]:
    """Every op that has a lowering, with the highest supported version.

    Examples:
        >>> "CONV_2D" in ops.supported_ops()
        True
    """
    return {
        name: entry.max_version
        for name, entry in sorted(_OPS.items())
        if entry.lower and not name.startswith("(")
    }


def lower(node: NodeView) -> list[Step]:
    """The steps that compute a node.

    Raises:
        Unsupported: The node cannot run on the GPU; the message is the reason.
        ModelError: The model's bytes are damaged.

    Examples:
        >>> @ops.op("AliasOfRelu")
        ... def alias(node, options):
        ...     return ops.lower(dataclasses.replace(node, node=node.node))
    """
    entry, version = op_of(node.op), node.node.version
    if entry.lower is None:
        raise Unsupported(_without_lowering(node, entry))
    if version > entry.max_version:
        raise Unsupported(f"version {version} of the op; expected at most {entry.max_version}")
    if reason := dict(node.limits.wrong_ops).get(node.op):
        raise Unsupported(reason)
    if not node.outputs and entry.has_outputs:
        raise Unsupported("the node has no outputs; expected at least one")
    return entry.lower(node, entry.options.read(node.node))


def _without_lowering(node: NodeView, entry: Op) -> str:
    """Why a node of an op that has no lowering does not run on the GPU."""
    if node.op.startswith(TENSORFLOW):
        return TENSORFLOW_OP
    unsized = [i for i in node.inputs if i not in node.shapes]
    if entry.folds_shapes and unsized:
        return f"tensor {unsized[0]} has a size known only at run time"
    if entry.fold is not None:
        return "planning computes it, but not from inputs and to outputs of these types and sizes"
    return "the op has no GPU implementation"


def keeps_rows(node: NodeView, having: Set[int], count: int) -> bool:
    """Whether a node's outputs have `count` rows if the tensors `having` do; see `ops.lib.rows`.

    Raises `Unsupported` if a parameter that decides it is not a constant.
    """
    entry = op_of(node.op)
    positions = tuple(i for i, index in enumerate(node.inputs) if index in having)
    rows = Rows(node, positions, count)
    return entry.rows is not None and entry.rows(rows, entry.options.read(node.node))
