"""Ops that run subgraphs. Planning puts the nodes of the subgraphs in their place."""

from __future__ import annotations

from gles_delegate.ops.lib.registry import declare

COMPOSITE, IF, WHILE = "STABLEHLO_COMPOSITE", "IF", "WHILE"
TEST = "(while)"
"""The op of nodes that end or continue a WHILE: the condition's result, then the values."""

INLINED = (COMPOSITE, IF, WHILE, TEST)

declare(IF, WHILE, "CALL", sized_by=(0,))
