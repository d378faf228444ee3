"""`load_delegate`, as LiteRT's and TFLite's Python packages have it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import NoneType
from typing import Any, get_args, get_type_hints

from gles_delegate.hosts.delegate import GpuDelegate
from gles_delegate.options import GpuDelegateOptions

_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def load_delegate(
    library: str = "gles_delegate", options: Mapping[str, object] | None = None
) -> GpuDelegate:
    """Return a delegate, as LiteRT's function of this name does.

    Args:
        library: "gles_delegate", or the file name of TFLite's GPU delegate, which is not loaded:
            this package takes its place.
        options: Fields of `GpuDelegateOptions`, as values or as strings, such as "true", "2" or
            "SUSTAINED_SPEED"; and "model", `GpuDelegate`'s argument.

    Raises:
        ValueError: The library is another one; an option is unknown or has an invalid value.
        TypeError: An option has a value of the wrong type.

    Examples:
        >>> delegate = gd.load_delegate("libtensorflowlite_gpu_delegate.so", {"own_thread": "true"})
        >>> delegate.options.own_thread
        True
    """
    if not any(name in library for name in ("gles_delegate", "gpu_delegate")):
        raise ValueError(
            f"expected 'gles_delegate' or TFLite's GPU delegate, found the library {library!r}: "
            "load it with LiteRT's load_delegate"
        )
    given = dict(options or {})
    model: Any = given.pop("model", None)
    types = get_type_hints(GpuDelegateOptions)
    unknown = given.keys() - types.keys()
    if unknown:
        names = ", ".join([*types, "model"])
        raise ValueError(f"expected options of {names}; found {', '.join(sorted(unknown))}")
    values: Any = {name: _value(name, value, types[name]) for name, value in given.items()}
    return GpuDelegate(GpuDelegateOptions(**values), model=model)


def _value(name: str, value: object, kind: Any) -> object:
    """A value of an option's type; a text stands for one."""
    if not isinstance(value, str):
        return value
    kinds = get_args(kind) or (kind,)
    if value == "None" and NoneType in kinds:
        return None
    try:
        if bool in kinds:
            return _TRUTH[value.lower()]
        if issubclass(kinds[0], IntEnum):
            return kinds[0][value] if not value.isdigit() else kinds[0](int(value))
        return int(value) if int in kinds else value
    except (KeyError, ValueError):
        names = [kind.__name__ for kind in kinds if kind is not NoneType]
        raise ValueError(f"{name} must be {' or '.join(names)}, not {value!r}") from None
