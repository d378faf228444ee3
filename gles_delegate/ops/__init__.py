"""The ops: one decorated function each, in modules that are found, not listed."""

from importlib import import_module
from pkgutil import iter_modules

from gles_delegate.ops.registry import (
    NodeView,
    Options,
    Unsupported,
    activation,
    lower,
    op,
    supported_ops,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["NodeView", "Options", "Unsupported", "activation", "lower", "op", "supported_ops"]
