"""The ops: one decorated function each, in modules that are found, not listed.

An op of one's own, builtin or custom, is declared in the same way from outside: a function
decorated with `op` that returns `Dispatch` objects, whose shader may be a file of one's own
(by its absolute path without ``.glsl``) that includes ``lib/tensor.glsl``. It holds for every
delegate made afterwards, and replaces an op of the same name. examples/custom_op.py shows one.
"""

from importlib import import_module
from pkgutil import iter_modules

from gles_delegate.dispatch import Dispatch, Value
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.registry import (
    NodeView,
    Options,
    RunTimeParameter,
    Unsupported,
    activation,
    lower,
    op,
    supported_ops,
)

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Dispatch",
    "NodeView",
    "Options",
    "RunTimeParameter",
    "Unsupported",
    "Value",
    "activation",
    "lower",
    "make_grid",
    "op",
    "supported_ops",
]
