"""Options of custom ops that are stored as FlexBuffers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from flatbuffers import flexbuffers

from gles_delegate.model.graph import Node
from gles_delegate.ops.lib.node import Unsupported
from gles_delegate.ops.lib.options import Options, OptionsT


@dataclass(frozen=True)
class FlexOptions(Options):
    """Entries of a FlexBuffers map, by the names of the fields; an absent one has its default."""

    @classmethod
    def read(cls: type[OptionsT], node: Node) -> OptionsT:
        if node.custom_options is None or not node.custom_options.size:
            return cls()
        kinds = {field.name: kind for field, kind in cls.kinds()}
        try:
            entries = flexbuffers.GetRoot(bytearray(node.custom_options)).AsMap
            found = {name: _entry(entries, name, kind) for name, kind in kinds.items()}
        except Exception as error:  # the package checks no offset
            raise Unsupported(
                f"options that are no FlexBuffers map of {', '.join(kinds)} "
                f"({type(error).__name__}: {error})"
            ) from error
        return cls(**{name: value for name, value in found.items() if value is not None})


def _entry(entries: Any, name: str, kind: str) -> Any:
    """The value of an entry; None if there is none."""
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
