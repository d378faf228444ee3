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


@pytest.mark.parametrize(
    ("name", "options", "shape"),
    [
        ("CONCATENATION", {"axis": 1}, (4, 2, 0)),
        ("PACK", {"axis": 1, "values_count": 2}, (4, 2, 1, 0)),
    ],
)
def test_joined_parts_of_no_elements_have_a_shape(
    name: str, options: dict[str, int], shape: tuple[int, ...]
) -> None:
    b = ModelBuilder()
    x, y = b.input((2, 1, 0)), b.input((2, 1, 0))
    joined = b.op(name, [x, y], [(2, 2, 0)], **options)
    lowered = lower_graph(read_model(b.build([joined])), Limits(), {x: (4, 1, 0), y: (4, 1, 0)})
    assert lowered.shapes[joined] == shape


@pytest.mark.parametrize("name", ["CONV_2D", "DEPTHWISE_CONV_2D", "MAX_POOL_2D", "TRANSPOSE_CONV"])
def test_a_padding_that_no_enumerator_names(name: str) -> None:
    b = ModelBuilder()
    x = b.input((1, 4, 4, 3))
    weights = b.constant(np.ones((1 if "DEPTHWISE" in name else 3, 1, 1, 3), np.float32))
    inputs = [x, weights]
    options = {"filter_height": 1, "filter_width": 1} if "POOL" in name else {}
    if name == "TRANSPOSE_CONV":
        inputs = [b.constant(np.array([1, 4, 4, 3], np.int32)), weights, x]
    output = b.tensor((1, 4, 4, 3))
    y = b.op(name, inputs, [output], stride_h=1, stride_w=1, padding=7, **options)
    assert reason(b.build([y])) == "padding 7; expected 0 (SAME) or 1 (VALID)"


@pytest.mark.parametrize(
    ("name", "dtype", "declared", "expected"),
    [
        ("EQUAL", np.float32, np.int32, "bool"),
        ("LESS", np.int32, np.int32, "bool"),
        ("LOGICAL_OR", np.bool_, np.int32, "bool"),
        ("ADD", np.int32, np.bool_, "int32"),
        ("SELECT_V2", np.int32, np.bool_, "int32"),
        ("CONCATENATION", np.int32, np.int8, "int32"),
        ("ARG_MAX", np.float32, np.bool_, "int32"),
        ("SUM", np.int32, np.bool_, "int32"),
        ("CUMSUM", np.int32, np.bool_, "int32"),
    ],
)
def test_a_result_of_another_type_than_declared(
    name: str, dtype: type, declared: type, expected: str
) -> None:
    """LiteRT changes the type of the tensor, or refuses the model."""
    b = ModelBuilder()
    inputs = [b.input((2, 2), dtype), b.input((2, 2), dtype)]
    if name == "SELECT_V2":
        inputs.insert(0, b.input((2, 2), np.bool_))
    if name in ("ARG_MAX", "SUM", "CUMSUM"):
        inputs[1] = b.constant(np.int32(0))
    content = b.build([b.op(name, inputs, [b.tensor((2, 2), declared)])])
    assert reason(content) == f"output 0 is {np.dtype(declared)}; expected {expected}"
