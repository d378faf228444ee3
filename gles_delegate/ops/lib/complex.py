"""Tensors of complex numbers: values of all real parts, then all imaginary ones."""

from __future__ import annotations

from collections.abc import Iterable

from gles_delegate.dispatch import Value, complex_value
from gles_delegate.ops.lib.node import NodeView, Unsupported


def complex_input(node: NodeView) -> Value:
    """Input 0, of complex numbers computed at run time."""
    shape, dtype = node.shape(0), node.dtype(0)
    if dtype != "complex64" or node.is_constant(0):
        dtype = "constant " * node.is_constant(0) + dtype
        raise Unsupported(f"input 0 is {dtype}; expected complex64 computed at run time")
    return complex_value(node.inputs[0], shape)


def complex_output(node: NodeView, shape: Iterable[int]) -> Value:
    """Output 0, of complex numbers, with the shape that the lowering inferred."""
    tensor = node.graph.tensors[node.outputs[0]]
    if tensor.dtype != "complex64":
        raise Unsupported(f"output 0 is {tensor.dtype}; expected complex64")
    return complex_value(tensor.index, tuple(shape))
