"""A node as its lowering sees it: its inputs and outputs on the GPU."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gles_delegate.device.limits import Limits
from gles_delegate.model.dtypes import EXPECTED
from gles_delegate.model.graph import Array, Graph, Node, Tensor
from gles_delegate.ops.lib.packing import phwc4
from gles_delegate.shaders.dispatch import (
    Call,
    Const,
    Define,
    Dispatch,
    Grid,
    Kind,
    Operand,
    Shape,
    Value,
)


class Unsupported(Exception):
    """Raised by a lowering: why the node cannot run on the GPU."""


class UnfitSizes(Unsupported):
    """The sizes of the inputs do not fit the node, and LiteRT refuses them, too."""


class RunTimeParameter(Unsupported):
    """Integers that must be constant, such as a shape or an axis, are computed at run time.

    Args:
        inputs: The inputs of the node that hold them.
    """

    def __init__(self, message: str, *inputs: int) -> None:
        super().__init__(message)
        self.inputs = inputs


@dataclass(frozen=True)
class NodeView:
    """A node as its lowering sees it.

    Attributes:
        shapes: Shapes of the tensors known so far; they differ from the graph's after a resize.
        quantized: Whether 8-bit tensors are supported (`quantized_models_allowed`).

    Examples:
        >>> def lowering(node: ops.NodeView, options: ops.Options) -> list[ops.Dispatch]:
        ...     if node.input(0).shape[-1] % 4:
        ...         raise ops.Unsupported("the channels do not fill texels")
        ...     return []
    """

    graph: Graph
    node: Node
    shapes: Mapping[int, Shape]
    limits: Limits
    quantized: bool = True

    @property
    def index(self) -> int:
        return self.node.index

    @property
    def op(self) -> str:
        return self.node.op

    @property
    def inputs(self) -> tuple[int, ...]:
        """Tensor indices; -1 for an optional input that is absent."""
        return self.node.inputs

    @property
    def outputs(self) -> tuple[int, ...]:
        return self.node.outputs

    @property
    def custom_options(self) -> Array | None:
        """The options of a custom op, as bytes."""
        return self.node.custom_options

    def dispatch(
        self,
        shader: str,
        reads: tuple[Operand, ...],
        output: Value,
        grid: Grid,
        defines: Mapping[str, Define],
        epilogue: tuple[Call, ...] = (),
        *,
        flops: int = 0,
        passes: int = 0,
    ) -> Dispatch:
        """Make a dispatch of this node; see `Dispatch`."""
        return Dispatch(
            self.index, shader, reads, output, grid, defines, epilogue, flops=flops, passes=passes
        )

    def has_input(self, i: int) -> bool:
        return i < len(self.inputs) and self.inputs[i] >= 0

    def is_constant(self, i: int) -> bool:
        return self.graph.tensors[self.inputs[i]].is_constant

    def input(self, i: int, kind: Kind | None = "float", may_have_scales: bool = False) -> Operand:
        """Input `i` on the GPU. A constant is packed like any tensor.

        Args:
            kind: The lane type that the op supports; None: any.
            may_have_scales: A constant may be quantized per channel, as weights are.

        Raises:
            Unsupported: It is missing, or the op or the GPU does not support its type.
        """
        index = self._index(i)
        tensor = self.graph.tensors[index]
        weights = may_have_scales and tensor.is_constant
        lanes = self._kind(tensor, f"input {i}", kind, weights)
        if tensor.is_constant:
            _require_32_bits(tensor, i)
            return Const(phwc4, (index,), tensor.shape, kind=lanes)
        return Value(index, self.shapes[index], kind=lanes)

    def shape(self, i: int) -> Shape:
        """The shape of input `i`, whatever its type."""
        index = self._index(i)
        return self.shapes[index]

    def constant(self, i: int) -> int:
        """Tensor index of input `i`, which must be constant weights or biases; -1 if absent."""
        if not self.has_input(i):
            return -1
        index = self.inputs[i]
        tensor = self.graph.tensors[index]
        if not tensor.is_constant:
            raise Unsupported(f"input {i} is computed at run time; expected a constant")
        self._kind(tensor, f"input {i}", "float", weights=True)
        return index

    def array(self, i: int) -> Array:
        """The values of input `i`, which must be a constant of integers."""
        tensor = self.graph.tensors[self._index(i)]
        if not tensor.is_constant:
            raise RunTimeParameter(f"input {i} is computed at run time; expected a constant", i)
        if tensor.dtype not in ("int32", "int64"):
            raise Unsupported(f"input {i} is {tensor.dtype}; expected int32 or int64")
        return tensor.array().astype(np.int64)

    def dtype(self, i: int) -> str:
        """The element type of input `i`."""
        return self.graph.tensors[self._index(i)].dtype

    def output(
        self, shape: Iterable[int], i: int = 0, kind: Kind = "float", dtype: str = ""
    ) -> Value:
        """Output `i`, with the shape that the lowering inferred.

        Args:
            dtype: The element type that LiteRT gives it, if its lanes are integers; "": any.

        Raises:
            Unsupported: It is missing, of another lane type, of another element type, or a size is
                less than 0.
        """
        if i >= len(self.outputs):
            raise Unsupported(f"output {i} is missing")
        tensor = self.graph.tensors[self.outputs[i]]
        self._kind(tensor, f"output {i}", kind)
        if kind == "int" and tensor.dtype != (dtype or tensor.dtype):
            raise Unsupported(f"output {i} is {tensor.dtype}; expected {dtype}")
        sizes = tuple(map(int, shape))
        if min(sizes, default=0) < 0:
            raise UnfitSizes(f"output {i} of shape {list(sizes)}; expected sizes of 0 or more")
        return Value(tensor.index, sizes, kind=kind)

    def scratch(self, shape: Iterable[int], name: str, kind: Kind = "float") -> Value:
        """An intermediate tensor between two dispatches of the node."""
        return Value(self.outputs[0], tuple(int(size) for size in shape), name, kind)

    def _kind(self, tensor: Tensor, what: str, wanted: Kind | None, weights: bool = False) -> Kind:
        """Check a tensor's lane type against `wanted` (None: any), and return it."""
        kind = tensor.lanes
        if kind is None or wanted not in (None, kind):
            raise Unsupported(f"{what} is {tensor.dtype}; expected {EXPECTED[wanted]}")
        if tensor.is_quantized and not self.quantized:
            raise Unsupported(f"{what} is quantized, which quantized_models_allowed=False excludes")
        if tensor.is_quantized and not weights:
            if len(tensor.quantization.scales) > 1:
                raise Unsupported(f"{what} is quantized per channel; expected that of weights only")
            if not tensor.type.may_be_steps:
                raise Unsupported(
                    f"{what} is quantized {tensor.dtype}; expected that of biases only"
                )
        if tensor.is_quantized and (reason := tensor.quantization.damage(*tensor.limits, weights)):
            raise Unsupported(f"{what} is quantized with {reason}")
        return kind

    def _index(self, i: int) -> int:
        if not self.has_input(i):
            raise Unsupported(f"input {i} is missing; the node has {len(self.inputs)} inputs")
        return self.inputs[i]


def _require_32_bits(tensor: Tensor, i: int) -> None:
    """Raise `Unsupported` if a constant of int64 has a number outside int32."""
    if tensor.dtype == "int64" and not tensor.is_quantized:
        array, bounds = tensor.array(), np.iinfo(np.int32)
        large = array[(array < bounds.min) | (array > bounds.max)]
        if large.size:
            raise Unsupported(
                f"input {i} has the number {large[0]}; the GPU computes int64 as int32"
            )


def one_integer(node: NodeView, i: int, what: str) -> int:
    """The value of input `i`, which must be a constant of one integer."""
    array = node.array(i)
    if array.size != 1:
        raise Unsupported(f"{what} of shape {list(array.shape)}; expected one integer")
    return int(array.item())


def constants(node: NodeView) -> list[Array]:
    """The arrays of all inputs, for folding; quantized ones are not supported."""
    tensors = [node.graph.tensors[i] for i in (*node.inputs, *node.outputs) if i >= 0]
    if any(tensor.is_quantized for tensor in tensors):
        raise Unsupported("quantized numbers, which the GPU computes")
    return [node.graph.tensors[i].array() for i in node.inputs if i >= 0]
