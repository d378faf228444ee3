"""The graph of a model: frozen tensors and nodes.

Indices are TFLite's own: a tensor's place in the subgraph's tensor list, a node's place
in its operator list.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gles_delegate.errors import ModelError
from gles_delegate.flat import FlatTable

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Quantization:
    """``real = scale * (stored - zero_point)``, one pair per tensor or per index of `axis`."""

    scales: tuple[float, ...] = ()
    zero_points: tuple[int, ...] = ()
    axis: int = 0


@dataclass(frozen=True)
class Tensor:
    """A tensor of the model.

    Attributes:
        dtype: The TFLite type's name, numpy's name where numpy has the type.
        shape: As stored; the sizes a resized input leads to are the plan's affair.
        shape_signature: `shape` with -1 where the size is free; empty if the model stores none.
        data: The bytes of a constant, None otherwise.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]
    shape_signature: tuple[int, ...]
    quantization: Quantization = Quantization()
    is_variable: bool = False
    data: Array | None = field(default=None, repr=False, compare=False)

    @property
    def is_constant(self) -> bool:
        return self.data is not None

    def array(self) -> Array:
        """The constant's values, read-only, in `shape` and `dtype`.

        Raises:
            ModelError: The tensor is no constant, numpy has no such type, or the bytes
                do not fill the shape.
        """
        if self.data is None:
            raise ModelError(f"tensor {self.index} {self.name!r} is not a constant")
        try:
            dtype = np.dtype(self.dtype).newbyteorder("<")
            array: Array = self.data.view(dtype).reshape(self.shape)
            return array
        except (TypeError, ValueError) as error:
            raise ModelError(
                f"damaged model: constant tensor {self.index} {self.name!r} of type {self.dtype} "
                f"and shape {list(self.shape)} has {self.data.size} bytes"
            ) from error


@dataclass(frozen=True)
class Node:
    """An operator: builtin or custom name, version, tensor indices (-1: optional, absent)."""

    index: int
    op: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: FlatTable | None = field(default=None, repr=False, compare=False)
    custom_options: Array | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True)
class Signature:
    """A named entry point: argument and result names to tensor indices."""

    key: str
    inputs: dict[str, int]
    outputs: dict[str, int]


@dataclass(frozen=True)
class Graph:
    """The first subgraph of a model, nodes in execution order."""

    tensors: tuple[Tensor, ...]
    nodes: tuple[Node, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    signatures: tuple[Signature, ...] = ()
    description: str = ""
    metadata: dict[str, Array] = field(default_factory=dict, repr=False, compare=False)
