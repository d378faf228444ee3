"""Errors that name the shapes of inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from gles_delegate.errors import GLError, LiteRtError, UnsupportedModelError
from gles_delegate.model.graph import Graph, Tensor


def label(tensor: Tensor) -> str:
    """A tensor's name, index, type and shape."""
    return f"{tensor.name!r} (index {tensor.index}), {tensor.dtype} {list(tensor.shape)}"


@contextmanager
def naming_new_shapes(graph: Graph, arrays: Mapping[int, Any]) -> Iterator[None]:
    """Make errors that shapes may cause name the inputs that were resized.

    `arrays` has what the model's inputs are set to, by index.
    """
    try:
        yield
    except (UnsupportedModelError, GLError, LiteRtError) as error:
        tensors = [graph.tensors[index] for index in arrays]
        resized = [
            f"{label(t)}, found {list(arrays[t.index].shape)}{_advice(t.shape, arrays[t.index])}"
            for t in tensors
            if arrays[t.index].shape != t.shape
        ]
        if resized:
            error.args = (f"expected {'; '.join(resized)}; with that shape, {error}",)
        raise


def _advice(expected: tuple[int, ...], array: Any) -> str:
    found = tuple(array.shape)
    if found == expected[1:]:
        return ", without the batch axis: pass array[numpy.newaxis]"
    if len(expected) == len(found) == 4 and found[1:] == (expected[3], *expected[1:3]):
        return ", with channels first: pass array.transpose(0, 2, 3, 1)"
    return ""
