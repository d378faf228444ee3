"""The ops: one decorated function each, in modules that are discovered, not listed.

Users declare their own ops, builtin or custom, in the same way: a function decorated with `op`
returns `Dispatch` objects. Their shader may be the user's file (given by its absolute path without
``.glsl``), which includes ``lib/tensor.glsl``. A declaration applies to delegates
created afterwards, and replaces an op of the same name. See examples/custom_op.py.
"""

from importlib import import_module
from pkgutil import iter_modules

from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.node import NodeView, RunTimeParameter, UnfitSizes, Unsupported
from gles_delegate.ops.lib.options import Options, activation
from gles_delegate.ops.lib.registry import lower, op, supported_ops
from gles_delegate.shaders.dispatch import Dispatch, Value

_modules = [module.name for module in iter_modules(__path__)]
if "conv" not in _modules:
    raise ImportError(
        f"expected the modules of {__name__} in {[*__path__]}, found {_modules}: a program that "
        "packs apps has left them out (PyInstaller: --collect-all gles_delegate)"
    )
for _name in _modules:
    import_module(f"{__name__}.{_name}")

__all__ = [
    "Dispatch",
    "NodeView",
    "Options",
    "RunTimeParameter",
    "UnfitSizes",
    "Unsupported",
    "Value",
    "activation",
    "lower",
    "make_grid",
    "op",
    "supported_ops",
]
