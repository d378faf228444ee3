"""The graph of a model: frozen tensors and nodes.

Indices are TFLite's own: a tensor's place in the subgraph's tensor list, a node's place
in its operator list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import isfinite, prod
from typing import Any

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.model.dtypes import BY_NAME, ElementType, Lanes
from gles_delegate.model.flatbuffer import Content, FlatTable
from gles_delegate.model.sparse import Sparsity, to_dense

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Quantization:
    """``real = scale * (stored - zero_point)``, one pair per tensor or per index of `axis`.

    Attributes:
        block: If not 0, the elements along the last dimension that share a pair.
    """

    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0
    block: int = 0

    @property
    def pair(self) -> tuple[float, int]:
        """The scale and the zero point (0 if missing) of a tensor that has one pair."""
        (scale,) = self.scales
        return scale, (*self.zero_points, 0)[0]

    def damage(self, low: int, high: int) -> str:
        """The reason why it is meaningless for integers from `low` to `high`; "" if it is not."""
        scales = [scale for scale in self.scales if not isfinite(scale)]
        if scales:
            return f"the scale {scales[0]}; expected finite numbers"
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
        is_half: Whether float16 has all numbers of a constant.
        is_external: Whether the bytes of a constant are in another file than the model's.
        is_derived: Whether planning gave it its index or data, not the file.
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

        Raises:
            ModelError: The tensor is computed, numpy has no such type, or the bytes
                do not fill the shape, or do not hold bools.
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
        """Whether its integers are quantized real numbers; int32 ones are only in a bias."""
        holds_steps = self.type.may_be_steps or self.is_constant
        return bool(self.quantization.scales) and self.type.limits is not None and holds_steps

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number that a quantized tensor stores."""
        limits = self.type.limits
        if limits is None:
            raise TypeError(f"tensor {self.index} is {self.dtype}, which is not quantized")
        return limits

    def values(self) -> Array:
        """The constant as the GPU computes with it: float32, or int32 for bool and integers.

        Raises:
            ModelError: As for `array`; or the quantization does not fit the shape.
        """
        array = self.array()
        if array.dtype.kind in "biu" and not self.is_quantized:
            bounds = np.iinfo(np.int32)
            return np.clip(array, bounds.min, bounds.max).astype(np.int32)
        if not self.is_quantized:
            return array.astype(np.float32)
        scales = np.array(self.quantization.scales, np.float32)
        zeros = np.array(self.quantization.zero_points or (0,), np.float32)
        if self.quantization.block:
            return self._blockwise(array, scales, zeros)
        if scales.size > 1 or zeros.size > 1:
            shape = [1] * array.ndim
            if not 0 <= self.quantization.axis < array.ndim:
                raise ModelError(f"damaged model: tensor {self.index} is quantized along no axis")
            shape[self.quantization.axis] = -1
            scales, zeros = scales.reshape(shape), zeros.reshape(shape if zeros.size > 1 else 1)
        try:
            real: Array = (array.astype(np.float32) - zeros) * scales
            return real.reshape(self.shape)
        except ValueError as error:
            raise self._unscalable(scales, zeros) from error

    def _blockwise(self, array: Array, scales: Array, zeros: Array) -> Array:
        """The real numbers of integers that have a scale for each block."""
        try:
            blocks = array.astype(np.float32).reshape(scales.size, self.quantization.block)
            real: Array = (blocks - zeros.reshape(-1, 1)) * scales.reshape(-1, 1)
            return real.reshape(self.shape)
        except ValueError as error:
            raise self._unscalable(scales, zeros) from error

    def _unscalable(self, scales: Array, zeros: Array) -> ModelError:
        blocks = self.quantization.block
        return ModelError(
            f"damaged model: tensor {self.index} {self.name!r} of shape {list(self.shape)} has "
            f"{scales.size} scales and {zeros.size} zero points"
            + (f" for blocks of {blocks}" if blocks else "")
        )


def _unpacked(data: Array, bits: int, count: int) -> Array:
    """Signed integers of less than a byte; the first lies in a byte's lowest bits."""
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
        subgraphs: Indices of the subgraphs that it runs: of a composite the decomposition, of IF
            its branches, of WHILE the condition and the body.
        intermediates: Tensors that only say how numbers in the middle are quantized.
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
    """A named entry point: argument and result names to tensor indices of a subgraph."""

    key: str
    inputs: dict[str, int]
    outputs: dict[str, int]
    subgraph: int = 0


@dataclass(frozen=True)
class Graph:
    """A subgraph of a model; indices of tensors and nodes are its own.

    Attributes:
        nodes: By their index; see `in_order`.
        index: Which of `subgraphs` it is.
        subgraphs: All of the model, this one included. Each is read at its first use, which raises
            ModelError if it is damaged.
        signatures: The entry points of the model; see `entries`.
        description, metadata: The model's.
        content: The bytes it was read from.
        weights: The bytes of the files that have the model's external weights.
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

    @property
    def entries(self) -> tuple[int, ...]:
        """The subgraphs that an app runs: the first, and the signatures' subgraphs."""
        return tuple(sorted({0, *(signature.subgraph for signature in self.signatures)}))

    @cached_property
    def in_order(self) -> tuple[Node, ...]:
        """The nodes in an order in which they can run; those that never can come last."""
        unmade = {tensor for node in self.nodes for tensor in node.outputs}
        ordered: list[Node] = []
        pending = list(self.nodes)
        while pending:
            late = []
            for node in pending:
                if unmade.intersection(node.inputs):
                    late.append(node)
                else:
                    ordered.append(node)
                    unmade.difference_update(node.outputs)
            if len(late) == len(pending):
                break
            pending = late
        return (*ordered, *pending)
