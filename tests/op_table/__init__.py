"""The table of single-op models and small graphs that every test of the ops draws from.

A row has one function that puts the op into a model, one that lists its fixed attributes and one
that draws attributes at random. To add an op: write the three in the module of its subject and
name them in that module's ``OPS``.
"""

from importlib import import_module

from tests.op_table.base import Cases, Op
from tests.op_table.case import Case, make_case
from tests.op_table.sampling import one_of_each, sample, some_of_each

__all__ = [
    "CASES", "LEFT_TO_LITERT", "LEFT_TO_THE_DRIVER", "LITERT_REFUSES", "OPS", "Case",
    "one_of_each", "sample", "some_of_each",
]  # fmt: skip

_SUBJECTS = (
    *("windows", "volumes", "arithmetic", "axes", "products", "randomness", "recurrent", "fourier"),
    *("rearrangement", "scattering", "joins", "parts", "blocks", "indices", "detection", "bits"),
    *("stablehlo", "elementwise", "eight_bit", "graphs"),
)
_MODULES = [import_module(f"{__name__}.{subject}") for subject in _SUBJECTS]

OPS: dict[str, Op] = {op: row for module in _MODULES for op, row in module.OPS.items()}


def _cases(name: str) -> list[Case]:
    """The cases of every module's tuple of this name."""
    tables: list[Cases] = [getattr(module, name, ()) for module in _MODULES]
    return [make_case(op, OPS[op], attributes) for table in tables for op, attributes in table]


CASES = [make_case(op, row, attributes) for op, row in OPS.items() for attributes in row.fixed()]

LEFT_TO_LITERT = _cases("LEFT_TO_LITERT")
"""LiteRT runs these, and the delegate leaves them to it."""

LITERT_REFUSES = _cases("LITERT_REFUSES")
"""Cases that the table leaves out because there is no reference for them."""

LEFT_TO_THE_DRIVER = {
    "RSQRT special=1 span=1e-38x3e+38",
    "LOG special=1 span=1e-38x3e+38",
    "POW special=2 dtype=float32",
    "ATAN2 special=2",
}
"""Denormals and the signs of zero, which GLSL leaves to the driver; Mesa keeps them."""
