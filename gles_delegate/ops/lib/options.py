"""The options of ops, read from the model."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

from flatbuffers import flexbuffers

from gles_delegate.model.graph import Node
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.shaders.dispatch import Call

Bool: TypeAlias = Annotated[bool, "bool"]
Int8: TypeAlias = Annotated[int, "int8"]
Int32: TypeAlias = Annotated[int, "int32"]
Uint32: TypeAlias = Annotated[int, "uint32"]
Int64: TypeAlias = Annotated[int, "int64"]
Uint64: TypeAlias = Annotated[int, "uint64"]
Float32: TypeAlias = Annotated[float, "float32"]
Ints: TypeAlias = Annotated[tuple[int, ...], "ints"]
Longs: TypeAlias = Annotated[tuple[int, ...], "longs"]
Floats: TypeAlias = Annotated[tuple[float, ...], "floats"]
_KINDS = {bool: "bool", int: "int32", float: "float32"}
"""Of fields whose types are not annotated."""


class Options:
    """Base class of an op's options: the fields of its schema table with defaults, in slot order.

    It is no dataclass, as making fifty of these would take a tenth of the package's import.

    Examples:
        >>> class LeakyReluOptions(ops.Options):
        ...     alpha: float = 0.0
    """

    def __init__(self, **values: Any) -> None:
        vars(self).update(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Options) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.kinds())
        return f"{type(self).__name__}({values})"

    def _key(self) -> tuple[object, ...]:
        return (type(self), *(getattr(self, name) for name in self.kinds()))

    @classmethod
    @cache
    def kinds(cls) -> dict[str, str]:
        """The names of the fields, and the kind of each in the file."""
        hints = get_type_hints(cls, include_extras=True)
        return {name: _KINDS.get(hint) or get_args(hint)[1] for name, hint in hints.items()}

    @classmethod
    def read(cls: type[OptionsT], node: Node) -> OptionsT:
        """The options of a node, with defaults; raises `ModelError` if they are damaged."""
        table = node.options
        if table is None:
            return cls()
        values: dict[str, Any] = {}
        for slot, (name, kind) in enumerate(cls.kinds().items()):
            if kind == "ints":
                values[name] = table.ints(slot)
            elif kind in ("longs", "floats"):
                element = "int64" if kind == "longs" else "float32"
                values[name] = tuple(table.array(slot, element).tolist())
            else:
                values[name] = table.scalar(slot, kind, getattr(cls, name))
        return cls(**values)


OptionsT = TypeVar("OptionsT", bound=Options)


def activation(number: int) -> tuple[Call, ...]:
    """The epilogue of a fused activation, by its number in the schema.

    Raises:
        Unsupported: LiteRT's kernels do not apply it to floats.

    Examples:
        >>> [call.function for call in ops.activation(1)]
        ['RELU']
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


class FlexOptions(Options):
    """Base class of a custom op's options: the entries of a FlexBuffers map, by name."""

    @classmethod
    def read(cls: type[OptionsT], node: Node) -> OptionsT:
        if node.custom_options is None or not node.custom_options.size:
            return cls()
        kinds = cls.kinds()
        try:
            entries = flexbuffers.GetRoot(bytearray(node.custom_options)).AsMap
            values = {name: _entry(entries, name, kind) for name, kind in kinds.items()}
        except Exception as error:  # flatbuffers does not check offsets
            raise Unsupported(
                f"options that are not a FlexBuffers map of {', '.join(kinds)} "
                f"({type(error).__name__}: {error})"
            ) from error
        return cls(**{name: value for name, value in values.items() if value is not None})


def _entry(entries: Any, name: str, kind: str) -> Any:
    """The value of an entry, or None."""
    try:
        entry = entries[name]
    except KeyError:
        return None
    if kind == "ints":
        values = entry.AsTypedVector if entry.IsTypedVector else entry.AsVector
        return tuple(int(value.AsInt) for value in values)
    if kind == "bool":
        return bool(entry.AsBool)
    whole = kind != "float32" and not entry.IsFloat
    number = entry.AsInt if whole else entry.AsFloat
    return float(number) if kind == "float32" else int(number)
