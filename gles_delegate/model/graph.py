"""The graph of a model: frozen tensors and nodes.

Indices are TFLite's: positions in the subgraph's lists of tensors and operators.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.dtypes import BY_NAME, ElementType, Lanes
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.sparse import Sparsity, to_dense

Array = np.ndarray[Any, Any]
SMALLEST_SCALE, LARGEST_SCALE = 2.0**-126, 2.0**64
"""Scales whose real numbers, and products of two of them, are float32."""


@dataclass(frozen=True)
class Quantization:
    """``real = scale * (stored - zero_point)``, one pair per tensor or per index of `axis`.

    Attributes:
        block: If not 0, the number of elements along the last dimension that share a pair.
    """

    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0

    @property
    def pair(self) -> tuple[float, int]:
        """The scale and zero point (0 if missing) of a tensor with one pair."""
        (scale,) = self.scales
        return scale, (*self.zero_points, 0)[0]

    def damage(self, low: int, high: int, weights: bool = False) -> str:
        """The reason why it is invalid for integers from `low` to `high`; "" if it is valid.

        Args:
            weights: A scale may be 0, or a denormal.
        """
        least = 0.0 if weights else SMALLEST_SCALE
        scales = [scale for scale in self.scales if not least <= scale <= LARGEST_SCALE]
        if scales:
            return f"the scale {scales[0]:g}; expected {least:g} to {LARGEST_SCALE:g}"
        zeros = [zero for zero in self.zero_points if not low <= zero <= high]
        return f"the zero point {zeros[0]}; expected {low} to {high}" if zeros else ""


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model.

    Attributes:
        dtype: The TFLite type's name, numpy's name where numpy has the type.
        shape: As stored in the model; `Lowered.shapes` has the shapes after a resize.
        shape_signature: `shape` with -1 where the size is free; empty if the model stores none.
        data: The bytes of a constant, None otherwise.
        is_half: Whether float16 can represent all numbers of a constant.
        is_external: Whether a constant's bytes are in a separate file.
        is_derived: Whether planning added the tensor or its data.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...]
    quantization: Quantization = Quantization()
    is_variable: bool = False
    sparsity: Sparsity | None = field(default=None, repr=False)
    data: Array | None = field(default=None, repr=False, compare=False)
    is_half: bool = False
    is_external: bool = False
    is_derived: bool = False

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    @property
    def type(self) -> ElementType:
        return BY_NAME[self.dtype]

    @property
    def lanes(self) -> Lanes | None:
        """Its lanes on the GPU; None if the GPU does not support its type."""
        if self.is_quantized:
            return "float"
        return self.type.constant_lanes if self.is_constant else self.type.lanes

    def array(self) -> Array:
        """The constant's values, read-only, in `shape` and `dtype`.

        Raises ModelError if the tensor is computed, or its bytes do not fit the shape or type.
        """
        if self.data is None:
            raise ModelError(f"tensor {self.index} {self.name!r} is not a constant")
        if self.dtype == "bool" and self.data.size and self.data.max() > 1:
            raise ModelError(
                f"damaged model: constant tensor {self.index} {self.name!r} of type bool has the "
                f"byte {self.data.max()}; expected 0 or 1"
            )
        try:
            if self.type.bits < 8:
                array = _unpacked(self.data, self.type.bits, prod(self.shape))
            else:
                array = self.data.view(np.dtype(self.dtype).newbyteorder("<"))
            if self.sparsity is None:
                return array.reshape(self.shape)
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"damaged model: constant tensor {self.index} {self.name!r} of type {self.dtype} "
                f"and shape {list(self.shape)} has {self.data.size} bytes"
            ) from error
        return to_dense(array, self.shape, self.sparsity)

    @property
    def is_quantized(self) -> bool:
        """Whether its integers are quantized real numbers; int32 only in constants (biases)."""
        if not self.quantization.scales or self.type.limits is None:
            return False
        return self.type.may_be_steps or self.is_constant

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and largest number that a quantized tensor stores."""
        limits = self.type.limits
        if limits is None:
            raise TypeError(f"tensor {self.index} is {self.dtype}, which is not quantized")
        return limits

    @property
    def reset_value(self) -> int:
        """The elements of a variable before the first run."""
        return self.quantization.pair[1] if self.is_quantized and self.dtype == "int8" else 0

    def values(self) -> Array:
        """The constant's values for the GPU: float32, or int32 for bool and integers.

        Raises ModelError as `array` does, or if the quantization does not fit the shape.
        """
        array = self.array()
        if array.dtype.kind in "biu" and not self.is_quantized:
            bounds = np.iinfo(np.int32)
            return np.clip(array, bounds.min, bounds.max).astype(np.int32)
        if not self.is_quantized:
            return array.astype(np.float32)
        scales = np.array(self.quantization.scales, np.float32)
        zeros = np.array(self.quantization.zero_points or (0,), np.float32)
        block, axis = self.quantization.block, self.quantization.axis
        try:
            numbers = array.astype(np.float32)
            if block:
                numbers = numbers.reshape(scales.size, block)
                scales, zeros = scales.reshape(-1, 1), zeros.reshape(-1, 1)
            elif scales.size > 1 or zeros.size > 1:
                if not 0 <= axis < array.ndim:
                    raise ModelError(
                        f"damaged model: tensor {self.index} is quantized along no axis"
                    )
                shape = [-1 if i == axis else 1 for i in range(array.ndim)]
                scales, zeros = scales.reshape(shape), zeros.reshape(shape if zeros.size > 1 else 1)
            real: Array = (numbers - zeros) * scales
            return real.reshape(self.shape)
        except ModelError:
            raise
        except ValueError as error:
            raise ModelError(
                f"damaged model: tensor {self.index} {self.name!r} of shape {list(self.shape)} has "
                f"{scales.size} scales and {zeros.size} zero points"
                + (f" for blocks of {block}" if block else "")
            ) from error


def _unpacked(data: Array, bits: int, count: int) -> Array:
    """Signed integers of less than a byte, from the lowest bits up."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = (data[:, None] >> shifts).reshape(-1)
    if not 0 <= fields.size - count < len(shifts):
        raise ValueError(f"{data.size} bytes for {count} integers of {bits} bits")
    up = 8 - bits
    integers: Array = (fields[:count] << up).view(np.int8) >> up
    return integers


@dataclass(frozen=True)
class Node:
    """An operator: builtin or custom name, version, tensor indices (-1: optional, absent).

    Attributes:
        subgraphs: Indices of the subgraphs that it runs: a composite's decomposition, IF's
            branches, WHILE's condition and body.
        intermediates: Tensors that only hold the quantization of intermediate results.
    """

    index: int
    op: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: FlatTable | None = field(default=None, repr=False, compare=False)
    custom_options: Array | None = field(default=None, repr=False, compare=False)
    subgraphs: tuple[int, ...] = ()
    intermediates: tuple[int, ...] = ()


@dataclass(frozen=True)
class Signature:
    """A named entry point: argument and result names to tensor indices of a subgraph.

    The names are sorted, as LiteRT sorts them, whatever their order in the file.
    """

    key: str
    inputs: dict[str, int]
    outputs: dict[str, int]
    subgraph: int = 0


@dataclass(frozen=True)
class Graph:
    """A subgraph of a model.

    Attributes:
        nodes: In the order of their indices; see `in_order`.
        index: Its index in `subgraphs`.
        subgraphs: All subgraphs of the model. Each is read at its first use, which raises
            ModelError if it is damaged.
        signatures: The model's entry points; see `entries`.
        description, metadata: The model's.
        content: The bytes it was read from.
        weights: The bytes of the files with the model's external weights.
        memo: Results that functions of the graph keep, by the function. A changed copy has none.
    """

    tensors: Sequence[Tensor]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    index: int = 0
    subgraphs: Sequence[Graph] = field(default=(), repr=False, compare=False)
    signatures: tuple[Signature, ...] = ()
    description: str = ""
    metadata: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)
    content: Content = field(default=b"", repr=False, compare=False)
    weights: tuple[Content, ...] = field(default=(), repr=False, compare=False)
    memo: dict[object, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def entries(self) -> tuple[int, ...]:
        """The subgraphs that an app runs: the first, and the signatures' subgraphs."""
        return tuple(sorted({0, *(signature.subgraph for signature in self.signatures)}))

    @cached_property
    def in_order(self) -> tuple[Node, ...]:
        """The nodes in an order in which they can run; nodes in cycles come last."""
        missing = {tensor for node in self.nodes for tensor in node.outputs}
        ordered: list[Node] = []
        pending = list(self.nodes)
        while pending:
            late = []
            for node in pending:
                if missing.intersection(node.inputs):
                    late.append(node)
                else:
                    ordered.append(node)
                    missing.difference_update(node.outputs)
            if len(late) == len(pending):
                break
            pending = late
        return (*ordered, *pending)

    @cached_property
    def positions(self) -> Mapping[int, int]:
        """The position of each node, by its index, in `in_order`."""
        return {node.index: position for position, node in enumerate(self.in_order)}

    @cached_property
    def readers(self) -> Mapping[int, Set[int]]:
        """The nodes that read each tensor."""
        readers: defaultdict[int, set[int]] = defaultdict(set)
        for node in self.nodes:
            for tensor in node.inputs:
                readers[tensor].add(node.index)
        return readers


def one_node_graph(op: str, arrays: Sequence[Array], options: FlatTable | None = None) -> Graph:
    """A graph of one node; its input, its constants and its output are like these arrays."""
    last, tensors = len(arrays) - 1, []
    for index, array in enumerate(arrays):
        data = np.frombuffer(array.tobytes(), np.uint8) if 0 < index < last else None
        name, dtype = f"tensor {index}", array.dtype.name
        tensors.append(Tensor(index, name, dtype, array.shape, (), data=data))
    node = Node(0, op, 1, tuple(range(last)), (last,), options)
    return Graph(tensors, (node,), (0,), (last,))
