"""TensorFlow's lists of tensors, which the loops of recurrent layers fill (`FlexTensorList...`).

A list exists while planning only, as its elements: loops are unrolled, so each index is a constant.
LiteRT needs TensorFlow for these ops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gles_delegate.dispatch import Shape
from gles_delegate.model.graph import Node, Tensor
from gles_delegate.ops.lib.registry import Unsupported
from gles_delegate.ops.variables import IDENTITY

RESERVE, SET, GET, STACK, FROM = (
    f"FlexTensorList{name}" for name in ("Reserve", "SetItem", "GetItem", "Stack", "FromTensor")
)
MAKERS = (RESERVE, FROM)
INPUTS = {RESERVE: 2, SET: 3, GET: 2, STACK: 1, FROM: 1, IDENTITY: 1}
"""By op, how many inputs it needs."""
MOST_ELEMENTS = 1 << 12
UNSET = -1


class Lists:
    """The elements of each list of a graph whose nodes are lowered one after the other.

    Args:
        tensors: Those of the graph, to which it adds elements.
    """

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = tensors
        self._elements: dict[int, tuple[int, ...]] = {}

    def has(self, tensor: int) -> bool:
        """Whether a tensor is a list that a node has made."""
        return tensor in self._elements

    def concerns(self, node: Node) -> bool:
        """Whether `expand` replaces the node: an op of lists, or a list's IDENTITY."""
        if node.op == IDENTITY:
            return self.has(node.inputs[0])
        return node.op in INPUTS

    def expand(self, node: Node, shapes: Mapping[int, Shape]) -> list[Node]:
        """What takes the place of a node that `concerns` lists.

        Raises:
            Unsupported: An index or a size is not a constant, or an element was not set.
        """
        inputs, count = node.inputs[: INPUTS[node.op]], INPUTS[node.op]
        if len(node.outputs) != 1 or len(inputs) < count or min(inputs) < 0:
            raise Unsupported(
                f"{len(node.inputs)} inputs and {len(node.outputs)} outputs; expected {count} and 1"
            )
        (output,) = node.outputs
        if node.op == RESERVE:
            self._elements[output] = (UNSET,) * self._integer(node, 1, MOST_ELEMENTS + 1)
            return []
        if node.op == FROM:
            return self._unpacked(node, shapes[inputs[0]])
        elements = self._elements.get(node.inputs[0])
        if elements is None:
            raise Unsupported("input 0 is no list of tensors that a node before it makes")
        if node.op == IDENTITY:
            self._elements[output] = elements
            return []
        if node.op == STACK:
            self._require_set(elements)
            return [self._node(node, "PACK", elements, (output,))]
        index = self._integer(node, 1, len(elements))
        if node.op == SET:
            self._elements[output] = (*elements[:index], node.inputs[2], *elements[index + 1 :])
            return []
        found = elements[index : index + 1]
        self._require_set(found, index)
        return [self._node(node, IDENTITY, found, (output,))]

    def _require_set(self, elements: tuple[int, ...], first: int = 0) -> None:
        if not elements:
            raise Unsupported("the list is empty; expected at least one element")
        if UNSET in elements:
            raise Unsupported(f"element {first + elements.index(UNSET)} of the list is not set")

    def _unpacked(self, node: Node, shape: Shape) -> list[Node]:
        if not shape or shape[0] > MOST_ELEMENTS:
            raise Unsupported(f"a list of a tensor of shape {list(shape)}")
        first, source = len(self._tensors), self._tensors[node.inputs[0]]
        for index in range(first, first + shape[0]):
            part = replace(
                source, index=index, shape=tuple(shape[1:]), shape_signature=(), data=None,
                is_derived=True,
            )  # fmt: skip
            self._tensors.append(part)
        self._elements[node.outputs[0]] = elements = (*range(first, len(self._tensors)),)
        return [self._node(node, "UNPACK", node.inputs[:1], elements)]

    def _integer(self, node: Node, i: int, end: int) -> int:
        """Input `i`, which must be a constant from 0 to below `end`."""
        tensor = self._tensors[node.inputs[i]]
        if not tensor.is_constant:
            raise Unsupported(f"input {i} is computed at run time; expected a constant")
        values = tensor.array().ravel().tolist()
        if tensor.dtype != "int32" or len(values) != 1 or not 0 <= values[0] < end:
            raise Unsupported(f"input {i} is {tensor.dtype} {values}; expected 0 to {end - 1}")
        return int(values[0])

    def _node(self, node: Node, op: str, inputs: tuple[int, ...], outputs: tuple[int, ...]) -> Node:
        """A builtin node, with options for axis 0, in its place."""
        return Node(node.index, op, 1, inputs, outputs)
