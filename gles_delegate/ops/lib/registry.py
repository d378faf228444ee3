"""The op registry, and what a lowering sees of the graph.

An op is one function, decorated with `op`. It takes a `NodeView` and the op's options, and returns
the steps that compute the node. The lowering is the support check: it raises `Unsupported` if
the node cannot run. There is no second list of supported ops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import Field, dataclass, fields
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

import numpy as np

from gles_delegate.dispatch import (
    Call,
    Const,
    Define,
    Dispatch,
    Grid,
    Kind,
    Operand,
    Shape,
    Step,
    Value,
    complex_value,
)
from gles_delegate.limits import Limits
from gles_delegate.model.dtypes import EXPECTED
from gles_delegate.model.graph import Array, Graph, Node, Tensor
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.packing import phwc4

Bool: TypeAlias = Annotated[bool, "bool"]
Int8: TypeAlias = Annotated[int, "int8"]
Int32: TypeAlias = Annotated[int, "int32"]
Uint64: TypeAlias = Annotated[int, "uint64"]
Float32: TypeAlias = Annotated[float, "float32"]
Ints: TypeAlias = Annotated[tuple[int, ...], "ints"]
Longs: TypeAlias = Annotated[tuple[int, ...], "longs"]
Floats: TypeAlias = Annotated[tuple[float, ...], "floats"]


class Unsupported(Exception):
    """Raised by a lowering: why the node cannot run on the GPU."""


class RunTimeParameter(Unsupported):
    """Integers that must be constant, such as a shape or an axis, are computed at run time.

    Args:
        inputs: The inputs of the node that hold them.
    """

    def __init__(self, message: str, *inputs: int) -> None:
        super().__init__(message)
        self.inputs = inputs


WITHOUT_OUTPUTS = ("ASSIGN_VARIABLE", "CALL_ONCE")
"""Ops that are run for what they do to variables."""


@dataclass(frozen=True)
class Options:
    """Base class of an op's options: the fields of its schema table, in slot order."""

    @classmethod
    def read(cls: type[OptionsT], node: Node) -> OptionsT:
        """The options of a node; the defaults where the model stores none.

        Raises:
            ModelError: The stored table is damaged.
        """
        table = node.options
        if table is None:
            return cls()
        values: dict[str, Any] = {}
        for slot, (field, kind) in enumerate(kinds_of(cls)):
            if kind == "ints":
                values[field.name] = table.ints(slot)
            elif kind == "longs":
                values[field.name] = tuple(table.array(slot, "int64").tolist())
            elif kind == "floats":
                values[field.name] = tuple(table.array(slot, "float32").tolist())
            else:
                values[field.name] = table.scalar(slot, kind, field.default)
        return cls(**values)


OptionsT = TypeVar("OptionsT", bound=Options)


_KINDS: dict[Any, tuple[tuple[Field[Any], str], ...]] = {}


def kinds_of(options: type[Options]) -> tuple[tuple[Field[Any], str], ...]:
    """The fields of options, and the kind of each in the file."""
    if options not in _KINDS:
        hints = get_type_hints(options, include_extras=True)
        _KINDS[options] = tuple((f, get_args(hints[f.name])[1]) for f in fields(options))
    return _KINDS[options]


@dataclass(frozen=True)
class NodeView:
    """A node as its lowering sees it.

    Attributes:
        shapes: Shapes of the tensors known so far; they differ from the graph's after a resize.
        quantized: Whether 8-bit tensors are supported (`quantized_models_allowed`).
        choice: Which way to choose register tiles; see `ops.lib.tiles`.
    """

    graph: Graph
    node: Node
    shapes: Mapping[int, Shape]
    limits: Limits
    quantized: bool = True
    choice: int = 0

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
        choice: int = 0,
        passes: int = 0,
    ) -> Dispatch:
        """Make a dispatch of this node; see `Dispatch`."""
        return Dispatch(
            self.index, shader, reads, output, grid, defines, epilogue, flops=flops, choice=choice,
            passes=passes,
        )  # fmt: skip

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
        found = self._kind(tensor, f"input {i}", kind, weights)
        if tensor.is_constant:
            _require_32_bits(tensor, i)
            return Const(phwc4, (index,), tensor.shape, kind=found)
        return Value(index, self.shapes[index], kind=found)

    def complex_input(self, i: int) -> Value:
        """Input `i`, of complex numbers; see `dispatch.COMPLEX`.

        Raises:
            Unsupported: It is missing, of another type, or a constant.
        """
        index = self._index(i)
        tensor = self.graph.tensors[index]
        if tensor.dtype != "complex64" or tensor.is_constant:
            found = "constant " * tensor.is_constant + tensor.dtype
            raise Unsupported(f"input {i} is {found}; expected complex64 computed at run time")
        return complex_value(index, self.shapes[index])

    def complex_output(self, shape: Iterable[int]) -> Value:
        """Output 0, of complex numbers, with the shape that the lowering inferred.

        Raises:
            Unsupported: It is of another type.
        """
        tensor = self.graph.tensors[self.outputs[0]]
        if tensor.dtype != "complex64":
            raise Unsupported(f"output 0 is {tensor.dtype}; expected complex64")
        return complex_value(tensor.index, tuple(shape))

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
            raise Unsupported(f"output {i} of shape {list(sizes)}; expected sizes of 0 or more")
        return Value(tensor.index, sizes, kind=kind)

    def scratch(self, shape: Iterable[int], name: str, kind: Kind = "float") -> Value:
        """An intermediate tensor between two dispatches of the node."""
        return Value(self.outputs[0], tuple(int(size) for size in shape), name, kind)

    def _kind(self, tensor: Tensor, what: str, wanted: Kind | None, weights: bool = False) -> Kind:
        """Check a tensor's lane type against `wanted` (None: any), and return it."""
        found = tensor.lanes
        if found is None or wanted not in (None, found):
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
        if tensor.is_quantized and (reason := tensor.quantization.damage(*tensor.limits)):
            raise Unsupported(f"{what} is quantized with {reason}")
        return found

    def _index(self, i: int) -> int:
        if not self.has_input(i):
            raise Unsupported(f"input {i} is missing; the node has {len(self.inputs)} inputs")
        return self.inputs[i]


Lowering: TypeAlias = Callable[[NodeView, Any], list[Step]]


@dataclass(frozen=True)
class _Op:
    lower: Lowering
    options: type[Options]
    max_version: int


_OPS: dict[str, _Op] = {}


def op(
    *names: str, options: type[Options] = Options, max_version: int = 1
) -> Callable[[Lowering], Lowering]:
    """Register the decorated function as the lowering of ops, up to `max_version` of each."""

    def register(lower: Lowering) -> Lowering:
        for name in names:
            _OPS[name] = _Op(lower, options, max_version)
        return lower

    return register


def supported_ops() -> dict[str, int]:
    """Every op that has a lowering, with the highest supported version."""
    return {
        name: entry.max_version for name, entry in sorted(_OPS.items()) if not name.startswith("(")
    }


def lower(node: NodeView) -> list[Step]:
    """The steps that compute a node.

    Raises:
        Unsupported: It cannot run on the GPU; the message says why.
        ModelError: The model's bytes are damaged.
    """
    entry = _OPS.get(node.op)
    if entry is None:
        raise Unsupported("the op has no GPU implementation")
    if node.node.version > entry.max_version:
        raise Unsupported(
            f"version {node.node.version} of the op; expected at most {entry.max_version}"
        )
    if not node.outputs and node.op not in WITHOUT_OUTPUTS:
        raise Unsupported("the node has no outputs; expected at least one")
    return entry.lower(node, entry.options.read(node.node))


def activation(number: int) -> tuple[Call, ...]:
    """The epilogue of a fused activation, by its number in the schema.

    Raises:
        Unsupported: LiteRT's kernels do not apply it to floats.
    """
    name = ACTIVATIONS[number] if 0 <= number < len(ACTIVATIONS) else f"activation {number}"
    if name == "NONE":
        return ()
    if name not in ("RELU", "RELU_N1_TO_1", "RELU6"):
        raise Unsupported(
            f"the fused activation {name}, which LiteRT's CPU kernels ignore; expected RELU, "
            "RELU_N1_TO_1 or RELU6"
        )
    return (Call(name),)


def _require_32_bits(tensor: Tensor, i: int) -> None:
    """Raise `Unsupported` if a constant of int64 has a number that is no int32."""
    if tensor.dtype == "int64" and not tensor.is_quantized:
        array, bounds = tensor.array(), np.iinfo(np.int32)
        large = array[(array < bounds.min) | (array > bounds.max)]
        if large.size:
            raise Unsupported(
                f"input {i} has the number {large[0]}; the GPU computes int64 as int32"
            )


def one_integer(node: NodeView, i: int, what: str) -> int:
    """The value of input `i`, a constant.

    Raises:
        Unsupported: It is computed at run time, or is not one integer.
    """
    array = node.array(i)
    if array.size != 1:
        raise Unsupported(f"{what} of shape {list(array.shape)}; expected one integer")
    return int(array.item())
