"""What a model's metadata says of its inputs."""

from __future__ import annotations

from collections.abc import Sequence

import flatbuffers
import numpy as np
import pytest

from gles_delegate.errors import ModelError
from gles_delegate.model.graph import Graph, Tensor
from gles_delegate.model.metadata import normalization

NORMALIZATION, SCORE_CALIBRATION = 1, 3
Unit = tuple[int, Sequence[float], Sequence[float]]


def table(builder: flatbuffers.Builder, offsets: dict[int, int], kind: int = 0) -> int:
    """A table of offsets by slot, and in slot 0 of a union's kind."""
    builder.StartObject(5)
    builder.PrependUint8Slot(0, kind, 0)
    for slot, offset in offsets.items():
        builder.PrependUOffsetTRelativeSlot(slot, offset, 0)
    return builder.EndObject()


def vector(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return builder.EndVector()


def graph(*inputs: Sequence[Unit]) -> Graph:
    """A graph of two pictures in, whose metadata has these process units for each."""
    b = flatbuffers.Builder()
    tensors = []
    for units in inputs:
        made = []
        for kind, mean, std in units:
            numbers = [b.CreateNumpyVector(np.float32(values)) for values in (mean, std)]
            made.append(table(b, {1: table(b, dict(enumerate(numbers)))}, kind))
        tensors.append(table(b, {4: vector(b, made)}))
    main = table(b, {2: vector(b, tensors)})
    b.Finish(table(b, {3: vector(b, [main])}))
    pictures = tuple(Tensor(i, f"picture {i}", "float32", (1, 8, 8, 3), ()) for i in (0, 1))
    data = np.frombuffer(bytes(b.Output()), np.uint8)
    return Graph(pictures, (), (1, 0), (), metadata={"TFLITE_METADATA": data})


def numbers(graph: Graph, tensor: int, *given: float | None) -> tuple[list[float], list[float]]:
    mean, std = normalization(graph, tensor, *given)
    return mean.tolist(), std.tolist()


OF_ALL: Unit = (NORMALIZATION, [0], [255])
OF_EACH: Unit = (NORMALIZATION, [1, 2, 3], [4, 5, 6])


def test_each_input_has_its_own() -> None:
    both = graph([OF_ALL], [(SCORE_CALIBRATION, [], []), OF_EACH])
    assert numbers(both, 1) == ([0], [255])
    assert numbers(both, 0) == ([1, 2, 3], [4, 5, 6])


def test_what_is_given_wins() -> None:
    each = graph([OF_EACH])
    assert numbers(each, 1, 7) == ([7], [4, 5, 6])
    assert numbers(each, 1, None, 8) == ([1, 2, 3], [8])
    assert numbers(each, 1, 0, 9) == ([0], [9])


@pytest.mark.parametrize(
    "silent", [graph(), graph([]), graph([(SCORE_CALIBRATION, [], [])]), graph([OF_ALL])]
)
def test_it_is_127_5_where_metadata_says_nothing(silent: Graph) -> None:
    assert numbers(silent, 0) == ([127.5], [127.5])
    assert numbers(Graph(silent.tensors, (), (0,), ()), 0) == ([127.5], [127.5])


@pytest.mark.parametrize("unit", [([1, 2], [1]), ([0], [0]), ([0], []), ([1] * 3, [-1] * 3)])
def test_what_does_not_fit_is_refused(unit: tuple[list[float], list[float]]) -> None:
    wrong = graph([(NORMALIZATION, *unit)])
    with pytest.raises(ModelError, match=r"each of 3, channels of the input 'picture 1', found \["):
        normalization(wrong, 1)
    assert numbers(wrong, 1, 0, 1) == ([0], [1])


def test_damaged_metadata_is_refused() -> None:
    data = graph([OF_ALL]).metadata["TFLITE_METADATA"]
    for size in range(0, len(data), 4):
        cut = Graph(graph().tensors, (), (0,), (), metadata={"TFLITE_METADATA": data[:size]})
        with pytest.raises(ModelError, match="damaged"):
            normalization(cut, 0)
