"""Ops that compute over windows, axes and sequences, for the table in op_table.py."""

from __future__ import annotations

from tests.op_base import Attributes, Op

OPS: dict[str, Op] = {}

LEFT_TO_LITERT: tuple[tuple[str, Attributes], ...] = ()

LITERT_REFUSES: tuple[tuple[str, Attributes], ...] = ()
