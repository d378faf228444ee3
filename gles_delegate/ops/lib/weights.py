"""The weights of products, as a model has them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from gles_delegate.ops.lib.node import NodeView, UnfitSizes, Unsupported
from gles_delegate.ops.lib.registry import op_of
from gles_delegate.shaders.dispatch import Operand, Shape


@dataclass(frozen=True)
class Weights:
    """Weights and biases.

    Attributes:
        shape: The shape of the weights.
        constants: Tensor indices of the weights and the biases, -1 if absent; None: a run computes
            one of them, and the product's `reads` have them.
    """

    shape: Shape
    constants: tuple[int, int] | None

    @classmethod
    def of(
        cls, node: NodeView, inputs: tuple[int, int], outputs: int
    ) -> tuple[Weights, tuple[Operand, ...]]:
        """The weights at these positions, and the operands of those that a run computes.

        Raises `UnfitSizes` unless there is a bias for each of the output channels, or none.
        """
        biases = prod(node.shape(inputs[1])) if node.has_input(inputs[1]) else outputs
        if biases != outputs:
            raise UnfitSizes(f"{biases} biases for {outputs} channels")
        constants = constant_weights(node, inputs)
        operands: tuple[Operand, ...] = ()
        if constants is None:
            operands = tuple(node.input(i) for i in inputs if node.has_input(i))
        return cls(node.shape(inputs[0]), constants), operands


def constant_weights(node: NodeView, inputs: tuple[int, int]) -> tuple[int, int] | None:
    """Tensor indices of the weights and the biases, -1 if absent; None unless all are constant.

    LiteRT's kernels take zero points of 0, and scales along the output channels, whatever the model
    says; it has to say the same.
    """
    if not all(node.is_constant(i) for i in inputs if node.has_input(i)):
        return None
    indices = node.constant(inputs[0]), node.constant(inputs[1])
    weights = node.graph.tensors[indices[0]]
    zeros, axis = weights.quantization.zero_points, weights.quantization.axis
    ignored = op_of(node.op).has_symmetric_weights and weights.dtype in ("int8", "int4")
    if ignored and any(zeros):
        raise Unsupported(f"{weights.dtype} weights with the zero points {list(zeros)}; expected 0")
    channels = len(weights.shape) - 1 if node.op == "DEPTHWISE_CONV_2D" else 0
    is_divided = len(weights.quantization.scales) > 1 and not weights.quantization.block
    if is_divided and axis != channels:
        raise Unsupported(f"scales along axis {axis} of the weights; expected axis {channels}")
    return indices
