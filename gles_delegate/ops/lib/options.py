"""The options of ops, as the file stores them."""

from __future__ import annotations

from dataclasses import Field, dataclass, fields
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, get_args, get_type_hints

from gles_delegate.dispatch import Call
from gles_delegate.model.graph import Node
from gles_delegate.model.schema import ACTIVATIONS
from gles_delegate.ops.lib.node import Unsupported

Bool: TypeAlias = Annotated[bool, "bool"]
Int8: TypeAlias = Annotated[int, "int8"]
Int32: TypeAlias = Annotated[int, "int32"]
Uint64: TypeAlias = Annotated[int, "uint64"]
Float32: TypeAlias = Annotated[float, "float32"]
Ints: TypeAlias = Annotated[tuple[int, ...], "ints"]
Longs: TypeAlias = Annotated[tuple[int, ...], "longs"]
Floats: TypeAlias = Annotated[tuple[float, ...], "floats"]


@dataclass(frozen=True)
class Options:
    """Base class of an op's options: the fields of its schema table, in slot order."""

    @classmethod
    def kinds(cls) -> tuple[tuple[Field[Any], str], ...]:
        """The fields, and the kind of each in the file."""
        options: Any = cls  # not Hashable to mypy
        return _kinds_of(options)

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
        for slot, (field, kind) in enumerate(cls.kinds()):
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


@cache
def _kinds_of(options: Any) -> tuple[tuple[Field[Any], str], ...]:
    hints = get_type_hints(options, include_extras=True)
    return tuple((f, get_args(hints[f.name])[1]) for f in fields(options))


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
