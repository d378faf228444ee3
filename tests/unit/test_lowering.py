"""Nodes that no converter writes: each is lowered or refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gles_delegate.dispatch import Step
from gles_delegate.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.ops import NodeView, Options, op
from gles_delegate.ops.lib import registry
from gles_delegate.planning.lowering import lower_graph
from tests.support.schema import pack_model
from tests.support.tflite_builder import ModelBuilder, quantization

INFINITY = float("inf")


def reason(content: bytes) -> str:
    (why,) = lower_graph(read_model(content), Limits()).reasons.values()
    return why


def without_outputs(name: str, count: int) -> bytes:
    b = ModelBuilder()
    x = b.input((2, 2))
    b.op(name, [x] * count)
    tables = b.model([x])
    tables["subgraphs"][0]["operators"][0]["outputs"] = []
    return pack_model(tables)


@pytest.mark.parametrize(
    ("name", "count"),
    [("CAST", 1), ("FULLY_CONNECTED", 2), ("SELECT_V2", 3), ("RELU", 1), ("SPLIT_V", 3)],
)
def test_a_node_without_outputs(name: str, count: int) -> None:
    assert "no outputs" in reason(without_outputs(name, count))


@pytest.mark.parametrize("name", ["CAST", "FULLY_CONNECTED", "SELECT_V2", "ADD_N", "CONCATENATION"])
def test_a_node_without_inputs(name: str) -> None:
    b = ModelBuilder()
    assert reason(b.build([b.op(name, [], [(2, 2)])]))


def test_a_comparison_of_three() -> None:
    b = ModelBuilder()
    x = b.input((2, 2))
    content = b.build([b.op("EQUAL", [x, x, x], [b.tensor((2, 2), np.bool_)])])
    assert "3 inputs; expected 2" in reason(content)


@pytest.mark.parametrize("shapes", [((1, 12), (1,)), ((1,), (1, 12))])
def test_a_concatenation_of_two_ranks(shapes: tuple[tuple[int, ...], ...]) -> None:
    b = ModelBuilder()
    inputs = [b.input(shape) for shape in shapes]
    content = b.build([b.op("CONCATENATION", inputs, [(1, 13)], axis=-1)])
    assert str([list(shape) for shape in shapes]) in reason(content)


def test_a_convolution_of_no_channels() -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 0))
    weights = b.constant(np.ones((2, 3, 3, 3), np.float32))
    y = b.op("CONV_2D", [x, weights], [(1, 4, 4, 2)], stride_h=1, stride_w=1)
    assert "weights for 3 channels on an input with 0" in reason(b.build([y]))


@pytest.mark.parametrize(
    ("scale", "zero_point"),
    [(INFINITY, 0), (np.nan, 0), (0.5, 1 << 31), (0.5, -(1 << 31) - 1), (0.5, 1 << 40)],
)
@pytest.mark.parametrize("damaged", ["input", "output"])
def test_a_quantization_that_means_nothing(scale: float, zero_point: int, damaged: str) -> None:
    numbers = {"input": quantization(0.5, 3), "output": quantization(0.5, 3)}
    numbers[damaged] = quantization(scale, zero_point)
    b = ModelBuilder()
    x = b.input((1, 5), np.uint8, quantization=numbers["input"])
    y = b.op("RELU", [x], [b.tensor((1, 5), np.uint8, quantization=numbers["output"])])
    why = reason(b.build([y]))
    assert damaged in why
    assert str(zero_point or scale) in why


@pytest.mark.parametrize(
    ("name", "options", "parameter"),
    [("SOFTMAX", {"beta": np.nan}, "BETA"), ("LEAKY_RELU", {"alpha": -INFINITY}, "LEAKY_RELU")],
)
def test_a_number_that_glsl_cannot_say(
    name: str, options: dict[str, float], parameter: str
) -> None:
    b = ModelBuilder()
    why = reason(b.build([b.op(name, [b.input((1, 5))], [(1, 5)], **options)]))
    assert parameter in why
    assert "finite" in why


@pytest.mark.parametrize(
    "fail", [lambda: 1 // 0, lambda: [][0], lambda: {}["x"], lambda: int("x"), lambda: np.int8(999)]
)
def test_what_a_lowering_did_not_foresee(
    fail: Callable[[], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "_OPS", dict(registry._OPS))

    @op("TestUnforeseen")
    def lowering(node: NodeView, options: Options) -> list[Step]:
        fail()
        return []

    b = ModelBuilder()
    content = b.build([b.op("TestUnforeseen", [b.input((2, 3))], [(2, 3)])])
    why = reason(content)
    assert "TestUnforeseen" in why
    assert "[[2, 3]]" in why
    assert "Error" in why


def test_a_computed_tensor_of_no_elements_is_no_constant() -> None:
    """Converters give every tensor a buffer of its own, an empty one if it is computed."""
    b = ModelBuilder()
    x = b.input((4,))
    inputs = [x, b.constant(np.array([4, 0], np.int32)), b.constant(np.int32(0))]
    empty = b.tensor((0,))
    tables = b.model([b.op("SPLIT_V", inputs, [(4,), empty], num_splits=2)])
    tables["subgraphs"][0]["tensors"][empty]["buffer"] = len(tables["buffers"])
    tables["buffers"].append({})
    lowered = lower_graph(read_model(pack_model(tables)), Limits())
    assert not lowered.reasons
    assert len(lowered.steps[0]) == 2
