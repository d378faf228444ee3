"""Nodes that no converter writes: each is lowered or refused with a reason."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from flatbuffers import flexbuffers
from numpy.typing import NDArray

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LLVMPIPE, SOFTWARE, UNKNOWN, Profile
from gles_delegate.errors import ModelError
from gles_delegate.kernels.volumes import weights_3d
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.reader import read_model
from gles_delegate.ops import NodeView, Options, op
from gles_delegate.ops.lib import registry
from gles_delegate.ops.lib.grid import make_grid
from gles_delegate.ops.lib.packing import conv_weight_bytes
from gles_delegate.planning import folding
from gles_delegate.planning.lowering import Lowerings, lower_graph
from gles_delegate.shaders.dispatch import Dispatch, Step
from tests.op_table import CASES, OPS
from tests.op_table.recurrent import bidirectional_rnn, integer_lstm
from tests.support.lowered import lowered_dispatches
from tests.support.schema import pack_model
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder, quantization

CONVOLUTIONS = ("Conv2DOptions", "Conv3DOptions", "DepthwiseConv2DOptions")
INFINITY = float("inf")


def reason(content: bytes) -> str:
    (why,) = lower_graph(read_model(content), Limits()).reasons.values()
    return why


def dispatch_of(content: bytes, shader: str, limits: Limits = Limits()) -> Dispatch:  # noqa: B008
    """The only dispatch of a shader."""
    dispatches = lowered_dispatches(read_model(content), limits)
    (found,) = (dispatch for dispatch in dispatches if dispatch.shader == shader)
    return found


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


@pytest.mark.parametrize(
    "entries",
    [
        dict(dct_coefficient_count=6),
        dict(dct_coefficient_count=0),
        dict(lower_frequency_limit=4000.0),
        dict(lower_frequency_limit=-1.0),
    ],
)
def test_coefficients_that_litert_does_not_compute(entries: dict[str, float]) -> None:
    b = ModelBuilder()
    x, rate = b.input((1, 4, 65)), b.constant(np.array([16000], np.int32))
    usual = dict(
        filterbank_channel_count=5, dct_coefficient_count=5, lower_frequency_limit=20.0,
        upper_frequency_limit=4000.0,
    )  # fmt: skip
    options = flexbuffers.Dumps(usual | entries)
    content = b.build([b.op("Mfcc", [x, rate], [(1, 4, 5)], custom_options=options)])
    assert "no more than bands, and a range above 0" in reason(content)


def test_a_comparison_of_three() -> None:
    b = ModelBuilder()
    x = b.input((2, 2))
    content = b.build([b.op("EQUAL", [x, x, x], [b.tensor((2, 2), np.bool_)])])
    assert "3 inputs; expected 2" in reason(content)


@pytest.mark.parametrize(
    ("name", "options", "problem"),
    [
        ("LSTM", {"kernel_type": 2}, "the kernel 2"),
        ("UNIDIRECTIONAL_SEQUENCE_LSTM", {"proj_clip": -1.0}, "clipping to [0.0, -1.0]"),
        ("ARG_MAX", {"output_type": SCHEMA_NUMBERS["int64"]}, "a result of int32"),
    ],
)
def test_options_that_litert_refuses(name: str, options: dict[str, Any], problem: str) -> None:
    case = next(case for case in CASES if case.op.partition(" ")[0] == name)
    sketch, outputs = case.sketch()
    table, values = sketch._operators[-1]["builtin_options"]
    sketch._operators[-1]["builtin_options"] = table, {**values, **options}
    assert problem in reason(sketch.build(outputs))


def test_a_slice_of_more_elements_than_there_are() -> None:
    b = ModelBuilder()
    x, begin = b.input((3,)), b.input((1,), np.int32)
    size, step = b.constant(np.int32([5])), b.constant(np.int32([1]))
    content = b.build([b.op("STRIDED_SLICE", [x, begin, size, step], [(5,)], offset=True)])
    assert "5 elements by steps of 1 of an axis of size 3" in reason(content)


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
    [(INFINITY, 0), (np.nan, 0), (0.5, 256), (0.5, -1), (0.5, 1 << 31), (0.5, 1 << 20)],
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
    "fail",
    [
        lambda: 1 // 0,
        lambda: [][0],
        lambda: {}["x"],
        lambda: int("x"),
        lambda: np.ones(2).reshape(3),
    ],
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
    """Converters give every tensor its own buffer, an empty one if it is computed."""
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


LONG: dict[str, tuple[tuple[int, ...], list[Any], dict[str, int]]] = {
    "CUMSUM": ((101, 1), [np.int32(0)], {}),
    "SUM": ((101, 1), [np.array([0], np.int32)], {}),
    "REDUCE_MAX": ((1, 404), [np.array([1], np.int32)], {}),
    "ARG_MIN": ((1, 101), [np.int32(1)], {"output_type": 2}),
    "SOFTMAX": ((1000, 200), [], {}),
    "L2_NORMALIZATION": ((1, 10000), [], {}),
    "AVERAGE_POOL_2D": ((1, 10, 10, 1), [], {"filter_height": 10, "filter_width": 10}),
    "CONV_2D": ((1, 10, 10, 44), [np.ones((1, 10, 10, 44), np.float32)], {}),
    "DEPTHWISE_CONV_2D": ((1, 101, 1, 1), [np.ones((1, 101, 1, 1), np.float32)], {}),
    "FULLY_CONNECTED": ((1, 404), [np.ones((1, 404), np.float32)], {}),
    "BATCH_MATMUL": ((1, 404), [np.ones((404, 1), np.float32)], {}),
}


@pytest.mark.parametrize("name", LONG)
def test_loops_that_the_device_would_end(name: str) -> None:
    shape, constants, options = LONG[name]
    kind = np.int32 if name == "ARG_MIN" else np.float32
    windows = ("AVERAGE_POOL_2D", "CONV_2D", "DEPTHWISE_CONV_2D")
    sliding = {"padding": 1, "stride_h": 1, "stride_w": 1} if name in windows else {}
    b = ModelBuilder()
    inputs = [b.input(shape), *map(b.constant, constants)]
    graph = read_model(b.build([b.op(name, inputs, [b.tensor(shape, kind)], **options, **sliding)]))
    assert not lower_graph(graph, Limits()).reasons
    (why,) = lower_graph(graph, Limits(loop_passes=100, profile=SOFTWARE)).reasons.values()
    assert "passes through the loops" in why
    assert "ends them after 100" in why


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


def test_strides_beyond_the_result_of_a_transposed_convolution() -> None:
    def work_of(stride: int) -> object:
        b = ModelBuilder()
        size = b.constant(np.array([1, 3, 3, 5], np.int32))
        inputs = [size, b.constant(np.ones((5, 1, 1, 5), np.float32)), b.input((1, 1, 1, 5))]
        y = b.tensor((1, 3, 3, 5))
        b.op("TRANSPOSE_CONV", inputs, [y], stride_h=3, stride_w=stride, padding="VALID")
        (dispatch,) = lowered_dispatches(read_model(b.build([y])), Limits())
        return dispatch.grid, dispatch.defines

    assert work_of(1 << 28) == work_of(3)


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


def test_the_running_sum_of_bools() -> None:
    """LiteRT refuses it."""
    b = ModelBuilder()
    inputs = [b.input((2, 2), np.bool_), b.constant(np.int32(0))]
    content = b.build([b.op("CUMSUM", inputs, [b.tensor((2, 2), np.bool_)])])
    assert reason(content) == "input 0 is bool; expected float32 or int32"


QUANTIZED = quantization(0.5, 3)


@pytest.mark.parametrize("result", [np.float32, np.uint8])
@pytest.mark.parametrize("name", ["ADD", "MAXIMUM", "RELU", "MEAN"])
def test_real_numbers_of_two_types(name: str, result: type) -> None:
    """LiteRT reads the result's bytes as the inputs' type."""
    b = ModelBuilder()
    inputs = [b.input((2, 2), np.int8, quantization=QUANTIZED)]
    if name in ("ADD", "MAXIMUM"):
        inputs.append(b.input((2, 2), np.int8, quantization=QUANTIZED))
    if name == "MEAN":
        inputs.append(b.constant(np.array([0], np.int32)))
    quantized = QUANTIZED if result == np.uint8 else None
    y = b.op(name, inputs, [b.tensor((2, 2), result, quantization=quantized)])
    types = " and ".join(sorted((np.dtype(result).name, "int8")))
    assert f"real numbers of the types {types}" in reason(b.build([y]))


def test_integers_of_32_bits_are_no_quantized_operands() -> None:
    b = ModelBuilder()
    x = b.input((2, 2), np.int32)
    y = b.constant(np.ones((2, 2), np.int32), quantization=QUANTIZED)
    content = b.build([b.op("ADD", [x, y], [b.tensor((2, 2), np.int32)])])
    assert "input 1 is quantized int32; expected that of biases only" in reason(content)


def test_an_operand_that_is_quantized_per_channel() -> None:
    b = ModelBuilder()
    x = b.input((2, 2), np.int8, quantization=QUANTIZED)
    scales = quantization([0.5, 0.25], [0, 0], dimension=1)
    y = b.constant(np.ones((2, 2), np.int8), quantization=scales)
    content = b.build([b.op("ADD", [x, y], [b.tensor((2, 2), np.int8, quantization=QUANTIZED)])])
    assert "input 1 is quantized per channel; expected that of weights only" in reason(content)


def test_an_input_with_the_data_of_a_constant() -> None:
    """LiteRT would write what it is fed into the model's own memory."""
    b = ModelBuilder()
    x = b.constant(np.ones((2, 2), np.float32))
    tables = b.model([b.op("RELU", [x], [(2, 2)])])
    tables["subgraphs"][0]["inputs"] = [x]
    with pytest.raises(ModelError, match="its input, tensor 0, has the data of a constant"):
        lower_graph(read_model(pack_model(tables)), Limits())


def test_an_input_that_is_a_variable() -> None:
    """As in LiteRT, the app sets it like any other input."""
    b = ModelBuilder()
    x = b.input((2, 2), variable=True)
    graph = read_model(b.build([b.op("RELU", [x], [(2, 2)])]))
    assert not graph.tensors[x].is_variable
    assert not lower_graph(graph, Limits()).reasons


def test_a_variable_that_is_an_output() -> None:
    """LiteRT would return the array of the output, which the GPU does not write."""
    b = ModelBuilder()
    x = b.input((1, 2))
    constants = [b.constant(np.ones(shape, np.float32)) for shape in ((2, 2), (2, 2), (2,))]
    state = b.variable((1, 2))
    b.op("RNN", [x, *constants, state], [(1, 2)])
    assert "its variable, tensor 4, is an output of the model" in reason(b.build([state]))


@pytest.mark.parametrize("mask", ["end_mask", "ellipsis_mask", "new_axis_mask", None])
def test_offsets_with_which_litert_reads_beyond_the_input(mask: str | None) -> None:
    """A mask alone, and an axis without an entry alone; neither is lowered."""
    entries = ([0, 0], [2, 1], [1, 1]) if mask else ([0], [2], [1])
    b = ModelBuilder()
    inputs = [b.input((2, 2)), *(b.constant(np.array(v, np.int32)) for v in entries)]
    masks = {mask: 1} if mask else {}
    content = b.build([b.op("STRIDED_SLICE", inputs, [(2, 2)], offset=True, **masks)])
    assert "ends that are offsets" in reason(content)


@pytest.mark.parametrize("mask", ["ellipsis_mask", "new_axis_mask"])
def test_a_slice_with_masks_beyond_its_entries(mask: str) -> None:
    """LiteRT gives these axes to the result, and other elements."""
    b = ModelBuilder()
    inputs = [b.input((2, 2)), *(b.constant(np.array(v, np.int32)) for v in ([0], [2], [1]))]
    content = b.build([b.op("STRIDED_SLICE", inputs, [(2, 2)], **{mask: 2})])
    assert reason(content) == "a new axis or an ellipsis beyond the 1 entries"


@pytest.mark.parametrize(
    ("name", "axis", "others"), [("CONV_2D", 0, (1, 2, 3)), ("DEPTHWISE_CONV_2D", 3, (1, 2))]
)
def test_weights_with_scales_along_another_axis(
    name: str, axis: int, others: tuple[int, ...]
) -> None:
    """LiteRT takes them for scales of the output channels."""
    for other in (axis, *others):
        b = ModelBuilder()
        x = b.input((1, 2, 2, 2), np.int8, quantization=QUANTIZED)
        scales = quantization(np.array([0.25, 0.5]), 0, other)
        weights = b.constant(np.ones((2, 2, 2, 2), np.int8)[: 2 - axis // 3], quantization=scales)
        y = b.tensor((1, 2, 2, 2), np.int8, quantization=QUANTIZED)
        content = b.build([b.op(name, [x, weights], [y], padding="SAME", stride_h=1, stride_w=1)])
        reasons = lower_graph(read_model(content), Limits()).reasons
        expected = f"scales along axis {other} of the weights; expected axis {axis}"
        assert [*reasons.values()] == ([expected] if other != axis else [])


PRODUCTS = {
    "CONV_2D": ((1, 4, 4, 8), (6, 1, 1, 8)),
    "DEPTHWISE_CONV_2D": ((1, 4, 4, 6), (1, 3, 3, 6)),
    "FULLY_CONNECTED": ((3, 8), (6, 8)),
    "TRANSPOSE_CONV": ((1, 4, 4, 8), (6, 1, 1, 8)),
    "CONV_3D": ((1, 4, 4, 4, 8), (1, 1, 1, 8, 6)),
}
"""Shapes of an input and of weights for six channels."""


@pytest.mark.parametrize("name", PRODUCTS)
@pytest.mark.parametrize("runtime", [False, True])
def test_products_have_a_bias_for_each_channel(name: str, runtime: bool) -> None:
    for count in (6, 5, 1):
        s = Sketch(np.random.default_rng(0))
        size = s.constant(np.int32([1, 4, 4, 6]))
        inputs = [s.feed(shape) for shape in PRODUCTS[name]]
        if not runtime:
            inputs[1] = s.constant(s.normal(PRODUCTS[name][1]))
        inputs.append(s.constant(s.normal((count,))))
        if name == "TRANSPOSE_CONV":
            inputs = [size, inputs[1], inputs[0], inputs[2]]
        axes = {"FULLY_CONNECTED": "", "CONV_3D": "dhw"}.get(name, "hw")
        strides = {f"stride_{axis}": 1 for axis in axes}
        content = s.build([s.op(name, inputs, [s.tensor(None)], **strides)])
        reasons = [*lower_graph(read_model(content), Limits()).reasons.values()]
        assert ("biases" in str(reasons)) == (count != 6), reasons


def test_a_damaged_node_with_biases_of_another_scale() -> None:
    """The biases with the products' scale are a new tensor, which the message lists, too."""
    b = ModelBuilder()
    x = b.input((), np.int8, quantization=QUANTIZED)
    size = b.constant(np.array([1, 2, 2, 2], np.int32))
    weights = b.constant(np.ones((2, 1, 1, 2), np.int8), quantization=quantization([0.25, 0.5], 0))
    bias = b.constant(np.ones(2, np.int32), quantization=quantization([0.7, 0.7]))
    y = b.tensor((1, 2, 2, 2), np.int8, quantization=QUANTIZED)
    inputs = [size, weights, x, bias]
    content = b.build([b.op("TRANSPOSE_CONV", inputs, [y], padding="SAME", stride_h=1, stride_w=1)])
    assert "shapes [[4], [2, 1, 1, 2], [], [2]] and 1 outputs" in reason(content)


@pytest.mark.parametrize(
    ("i", "pair", "expected"),
    [
        (20, (0.5, 4), "an output of the scale and zero point (0.5, 4)"),
        (19, (2.0**-11, 1), "a cell state of (0.00048828125, 1)"),
        (12, (1.0, 0), "biases of the scale 1.0"),
        (16, (0.004, 1), "input 16 has a zero point"),
        (17, (0.5, 0), "biases of the scale 0.5"),
        (17, (0.004 * 0.008, 9), "input 17 has a zero point"),
    ],
)
def test_an_8_bit_lstm_with_a_quantization_that_litert_does_not_read(
    i: int, pair: tuple[float, int], expected: str
) -> None:
    s, name = Sketch(np.random.default_rng(0)), "UNIDIRECTIONAL_SEQUENCE_LSTM"
    y = integer_lstm(s, name, features=("projection", "projection bias"))
    tables = s.model([y])
    (graph,) = tables["subgraphs"]
    (node,) = graph["operators"]
    assert not lower_graph(read_model(pack_model(tables)), Limits()).reasons
    index = [*node["inputs"][:20], y][i]
    graph["tensors"][index]["quantization"] = quantization(*pair)
    assert expected in reason(pack_model(tables))


@pytest.mark.parametrize("channels", [6, 8])
def test_weights_of_a_layer_for_another_number_of_channels(channels: int) -> None:
    s = Sketch(np.random.default_rng(0))
    tables = s.model([integer_lstm(s, "UNIDIRECTIONAL_SEQUENCE_LSTM", x=(2, 3, 7))])
    (graph,) = tables["subgraphs"]
    (x,) = graph["inputs"]
    graph["tensors"][x]["shape"] = [2, 3, channels]
    expected = f"weights for 7 channels on an input of shape [2, 3, {channels}]"
    assert expected in reason(pack_model(tables))


@pytest.mark.parametrize("time_major", [True, False])
def test_a_second_input_of_another_length(time_major: bool) -> None:
    """With the time first, LiteRT's backward layer takes as many steps as the first input has."""
    s = Sketch(np.random.default_rng(0))
    op = "BIDIRECTIONAL_SEQUENCE_RNN"
    tables = s.model(bidirectional_rnn(s, op, x=(2, 3, 7), aux=7, time_major=time_major))
    assert not lower_graph(read_model(pack_model(tables)), Limits()).reasons
    (graph,) = tables["subgraphs"]
    graph["tensors"][graph["inputs"][1]]["shape"] = [4, 3, 7]
    reasons = [*lower_graph(read_model(pack_model(tables)), Limits()).reasons.values()]
    wrong = ["inputs of shapes [2, 3, 7] and [4, 3, 7] with the time first"] * time_major
    assert [why.partition(", of which")[0] for why in reasons] == wrong


def test_16_bit_tensors_of_several_scales_are_not_concatenated() -> None:
    """LiteRT copies their integers; it rescales 8-bit ones."""
    for dtype, expected in ((np.int16, ["LiteRT's CONCATENATION ignores that"]), (np.uint8, [])):
        b = ModelBuilder()
        x, y = (b.input((1, 2), dtype, quantization=quantization(n)) for n in (0.5, 0.25))
        z = b.op("CONCATENATION", [x, y], [b.tensor((1, 4), dtype, quantization=quantization(0.5))])
        reasons = lower_graph(read_model(b.build([z])), Limits()).reasons.values()
        assert [why.partition("; ")[2] for why in reasons] == expected


@pytest.mark.parametrize(("size", "expected"), [(1, ()), (3, (1, 1))])
def test_the_shape_of_a_selection_of_one_element(size: int, expected: tuple[int, ...]) -> None:
    """LiteRT keeps the stored shape if all tensors have had one element."""
    b = ModelBuilder()
    operands = [b.input((1, 1), np.bool_), b.input((1, size)), b.input((1, 1))]
    y = b.op("SELECT_V2", operands, [b.tensor(())])
    lowered = lower_graph(read_model(b.build([y])), Limits(), {1: (1, 1)})
    assert lowered.shapes[y] == expected


@pytest.mark.parametrize("dims", [np.array([[-1]], np.int32), np.array([-1], np.int64)])
def test_a_shape_that_is_not_a_vector_of_int32(dims: NDArray[Any]) -> None:
    """LiteRT takes the shape from the options."""
    b = ModelBuilder()
    x, shape = b.input((2, 3)), b.constant(dims)
    y = b.op("RESHAPE", [x, shape], [(6,)], new_shape=[3, 2])
    assert lower_graph(read_model(b.build([y])), Limits()).shapes[y] == (3, 2)


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 1)])
def test_biases_are_packed_whatever_their_shape(shape: tuple[int, ...]) -> None:
    """LiteRT only counts them."""
    bias = np.float32([3, 4]).reshape(shape)
    kernel = np.ones((1, 1, 1, 1, 2), np.float32)
    np.testing.assert_array_equal(weights_3d(kernel, bias, 0)[:4], [3, 4, 0, 0])
    rows = conv_weight_bytes(np.ones((2, 1, 1, 1), np.float32), bias, (1, 1), 1, 1, (0.5, 2.0))
    np.testing.assert_array_equal(rows.view(np.float32)[:4], [6, 2, 0, 0])


def test_alpha_of_another_type_than_litert_reads() -> None:
    for dtype, of_alpha, expected in (
        (np.int16, np.int16, "alpha is int16, which LiteRT reads as int8"),
        (np.int16, np.int8, ""),
        (np.int8, np.uint8, "alpha is uint8, which LiteRT reads as int8"),
    ):
        b = ModelBuilder()
        x = b.input((1, 2), dtype, quantization=quantization(0.5))
        alpha = b.constant(np.ones((1, 2), of_alpha), quantization=quantization(0.25))
        y = b.op("PRELU", [x, alpha], [b.tensor((1, 2), dtype, quantization=quantization(0.5))])
        reasons = lower_graph(read_model(b.build([y])), Limits()).reasons
        assert reasons.get(0, "") == expected


def test_a_handle_that_is_not_of_a_resource() -> None:
    b = ModelBuilder()
    b.input((2, 2))
    y = b.op("VAR_HANDLE", [], [b.tensor((2, 2), np.bool_)], shared_name="x")
    assert "output 0 is bool; expected resource" in reason(b.build([y]))


@pytest.mark.parametrize(
    ("i", "pair", "expected"),
    [(2, (6e-5, 1), "input 2 has a zero"), (3, (1.0, 0), "biases of the scale 1.0")],
)
def test_an_8_bit_svdf_with_a_quantization_that_litert_does_not_read(
    i: int, pair: tuple[float, int], expected: str
) -> None:
    s = Sketch(np.random.default_rng(0))
    *_, y = OPS["SVDF (8-bit)"].model(s, "SVDF", units=2, memory=2, rank=1)
    tables = s.model([y])
    (graph,) = tables["subgraphs"]
    assert not lower_graph(read_model(pack_model(tables)), Limits()).reasons
    for node in graph["operators"]:
        graph["tensors"][node["inputs"][i]]["quantization"] = quantization(*pair)
    reasons = lower_graph(read_model(pack_model(tables)), Limits()).reasons.values()
    assert all(expected in why for why in reasons)
    assert reasons


def test_a_uint8_softmax_with_a_zero_point() -> None:
    b = ModelBuilder()
    x = b.input((2, 2), np.uint8, quantization=QUANTIZED)
    y = b.tensor((2, 2), np.uint8, quantization=quantization(1 / 256, 7))
    content = b.build([b.op("SOFTMAX", [x], [y], beta=1.0)])
    assert "a uint8 result with the zero point 7, which LiteRT ignores" in reason(content)


@pytest.mark.parametrize(
    ("zeros", "expected"),
    [([0, 0], ""), ([0, 1], "int8 weights with the zero points [0, 1]; expected 0")],
)
@pytest.mark.parametrize("name", ["DEPTHWISE_CONV_2D", "TRANSPOSE_CONV"])
def test_weights_whose_quantization_litert_ignores(
    name: str, zeros: list[int], expected: str
) -> None:
    b = ModelBuilder()
    shape, scales, axis = (1, 2, 2, 2), np.array([0.25, 0.5]), 3
    x = b.input(shape, np.int8, quantization=QUANTIZED)
    if name == "TRANSPOSE_CONV":
        shape, axis = (2, 1, 1, 2), 0
    ones = b.constant(np.ones(shape, np.int8), quantization=quantization(scales, zeros, axis))
    bias = b.constant(np.ones(2, np.int32), quantization=quantization(scales * 0.5))
    inputs = [x, ones, bias]
    if name == "TRANSPOSE_CONV":
        inputs = [b.constant(np.array([1, 2, 2, 2], np.int32)), ones, x, bias]
    y = b.tensor((1, 2, 2, 2), np.int8, quantization=QUANTIZED)
    content = b.build([b.op(name, inputs, [y], padding="SAME", stride_h=1, stride_w=1)])
    reasons = lower_graph(read_model(content), Limits()).reasons
    assert reasons.get(0, "").startswith(expected)
    assert bool(reasons) == bool(expected)


def test_the_mean_of_integers_without_a_scale_is_left_to_litert() -> None:
    b = ModelBuilder()
    axis = b.constant(np.int32([1]))
    y = b.op("MEAN", [b.input((2, 3), np.int8), axis], [b.tensor((2,), np.int8)])
    assert "without a scale" in lower_graph(read_model(b.build([y])), Limits()).reasons[0]


def test_inputs_that_give_sizes_are_looked_for_once() -> None:
    """Behind a size that data give, each of many residual layers doubles the ways to the input."""
    b = ModelBuilder()
    x = b.input((1, 3))
    for _ in range(1500):
        x = b.op("ADD", [x, x], [(1, 3)])
    place = b.op("ARG_MAX", [x, b.constant(np.int32(1))], [b.tensor((1,), np.int32)])
    y = b.op("FILL", [place, b.constant(np.float32(1))], [b.tensor((1,))])
    assert not Lowerings(read_model(b.build([y])), Limits()).default.values


def test_a_result_of_a_negative_size() -> None:
    b = ModelBuilder()
    shape = b.constant(np.array([-1], np.int32))
    values, other = b.input((3,)), b.constant(np.float32(0))
    indices = b.input((3, 1), np.int32)
    result = b.op("SPARSE_TO_DENSE", [indices, shape, values, other], [b.tensor((1,))])
    actual = reason(b.build([result]))
    assert "of shape [-1]; expected sizes of 0 or more" in actual


@pytest.mark.parametrize(
    ("begin", "size"), [((0, 1), (1, 3)), ((0, -1), (1, 1)), ((3, 0), (-1, 1)), ((0, 0), (1, -2))]
)
def test_a_slice_beyond_its_input(begin: tuple[int, int], size: tuple[int, int]) -> None:
    b = ModelBuilder()
    ends = [b.constant(np.int32(end)) for end in (begin, size)]
    why = reason(b.build([b.op("SLICE", [b.input((2, 3)), *ends], [(1, 1)])]))
    assert why.endswith("reach beyond [2, 3]")


@pytest.mark.parametrize("size", [(1, 4), (1, -2)])
def test_a_slice_from_a_computed_index_that_is_larger_than_its_input(size: tuple[int, int]) -> None:
    b = ModelBuilder()
    x, begin = b.input((2, 3)), b.input((2,), np.int32)
    why = reason(b.build([b.op("SLICE", [x, begin, b.constant(np.int32(size))], [(1, 1)])]))
    assert why == f"the size {list(size)} of [2, 3]"


@pytest.mark.parametrize("name", ["NEG", "RESHAPE"])
def test_a_constant_whose_bytes_do_not_fit_its_shape(name: str) -> None:
    b = ModelBuilder()
    x = b.tensor((3,), np.int32, data=np.zeros(2, np.int32))
    inputs = [x, b.constant(np.int32([3, 1]))][: 1 + (name == "RESHAPE")]
    y = b.op(name, inputs, [b.tensor((3,), np.int32)])
    graph = read_model(b.build([y]))
    with pytest.raises(ModelError, match=r"shape \[3\] has 8 bytes"):
        lower_graph(graph, Limits())


@pytest.mark.parametrize(
    ("dtype", "data", "problem"),
    [
        (np.float32, None, "float32"),
        (np.complex64, np.zeros(2, np.complex64), "constant complex64"),
    ],
)
def test_complex_numbers_are_computed(dtype: type, data: Any, problem: str) -> None:
    b = ModelBuilder()
    x = b.input((2,), dtype) if data is None else b.constant(data)
    why = reason(b.build([b.op("COMPLEX_ABS", [x], [b.tensor((2,), np.float32)])]))
    assert why == f"input 0 is {problem}; expected complex64 computed at run time"


NOT_ZERO = {
    **{f"{name}.dilation_{side}": 1 for name in CONVOLUTIONS for side in "wh"},
    "Conv3DOptions.dilation_d": 1,
    "DetectionOptions.detections_per_class": 100,
    "MatrixOptions.left_rotation_idx": -1,
    "MatrixOptions.right_rotation_idx": -1,
    "BidirectionalLstmOptions.time_major": True,
}
"""Fields whose default, in the schema or of a custom op, is not 0, false or empty."""


@pytest.mark.parametrize(
    ("name", "shape", "constants", "options", "problem"),
    [
        ("TOPK_V2", (2, 3), (np.int32(4),), {}, "the 4 largest of 3 elements"),
        ("TOPK_V2", (2, 3), (np.int32(-1),), {}, "the -1 largest of 3 elements"),
        ("TOPK_V2", (), (np.int32(0),), {}, "the 0 largest of float32 []"),
        (
            "BATCH_TO_SPACE_ND", (4, 1, 1, 3), (np.int32([2, 2]), np.int32([[0, 0], [-1, 0]])), {},
            "expected none negative",
        ),
        (
            "SPACE_TO_BATCH_ND", (1, 2, 2, 3), (np.int32([2, 0]), np.int32([[0, 0], [0, 0]])), {},
            "expected none negative",
        ),
        (
            "SPACE_TO_BATCH_ND", (1, 2, 2, 3), (np.int32([2]), np.int32([[0, 0]])), {},
            "expected rank 3 with one block or rank 4 with two",
        ),
        ("DEPTH_TO_SPACE", (1, 2, 2, 4), (), {"block_size": 0}, "block size 0 on 4 channels"),
        ("DEPTH_TO_SPACE", (1, 2, 2, 6), (), {"block_size": 2}, "block size 2 on 6 channels"),
        (
            "REVERSE_SEQUENCE", (2, 3), (np.int32([1, 4]),), {"seq_dim": 1},
            "lengths [1, 4] of an axis of size 3",
        ),
        ("LOCAL_RESPONSE_NORMALIZATION", (1, 2, 2, 3), (), {"radius": -1}, "the radius -1"),
        (
            "L2_NORMALIZATION", (1, 3), (), {"fused_activation_function": 1},
            "the fused activation 1, which LiteRT refuses",
        ),
        ("MIRROR_PAD", (4,), (np.int32([[1, 1]]),), {"mode": 2}, "the mode 2"),
        ("PRELU", (1, 3), (np.ones((2, 3), np.float32),), {}, "alpha [2, 3] does not broadcast"),
        (
            "TransformLandmarks", (1, 5, 4), (np.zeros((1, 4, 4), np.float32),), {"version": 2},
            "expected [1, landmarks, 2 or 3]",
        ),
    ],
)  # fmt: skip
def test_operands_out_of_range(
    name: str,
    shape: tuple[int, ...],
    constants: tuple[NDArray[Any], ...],
    options: dict[str, int],
    problem: str,
) -> None:
    b = ModelBuilder()
    inputs = [b.input(shape), *(b.constant(np.asarray(value)) for value in constants)]
    outputs = [shape, b.tensor(shape, np.int32)] if name == "TOPK_V2" else [shape]
    assert problem in reason(b.build([b.op(name, inputs, outputs, **options)]))


@pytest.mark.parametrize(
    ("dtype", "zero_point", "axis", "found"),
    [
        ("uint8", 0, 0, "rows of uint8 with the zero points [0] along axis 0"),
        ("int8", 3, 0, "rows of int8 with the zero points [3] along axis 0"),
        ("int8", 0, 1, "rows of int8 with the zero points [0] along axis 1"),
    ],
)
def test_rows_that_litert_dequantizes_otherwise(
    dtype: str, zero_point: int, axis: int, found: str
) -> None:
    b = ModelBuilder()
    rows = b.constant(np.ones((3, 5), dtype), quantization=quantization(0.5, zero_point, axis))
    inputs = [b.input((2,), np.int32), rows]
    why = reason(b.build([b.op("EMBEDDING_LOOKUP", inputs, [b.tensor((2, 5))])]))
    assert found in why
    assert "expected int8 or smaller, zero points of 0, and axis 0" in why


def test_fields_that_a_file_leaves_out() -> None:
    defaults: dict[str, Any] = {}
    classes = [Options]
    for each in classes:
        classes += [c for c in each.__subclasses__() if c.__module__.startswith("gles_delegate.")]
        defaults |= {f"{each.__name__}.{name}": getattr(each, name) for name in each.kinds()}
    assert len(defaults) > 100
    assert {name: value for name, value in defaults.items() if value not in (0, ())} == NOT_ZERO


def test_options_of_plain_types_are_equal_by_their_values() -> None:
    class Plain(Options):
        alpha: float = 0.5
        axis: int = -1
        keeps: bool = True

    assert Plain.kinds() == {"alpha": "float32", "axis": "int32", "keeps": "bool"}
    assert {Plain(), Plain(axis=-1), Plain(alpha=0.5)} == {Plain()}
    assert Plain(axis=1) != Plain() != Options()


def test_a_version_that_is_left_out() -> None:
    """Writers leave out the schema's default."""
    b = ModelBuilder()
    y = b.op("ABS", [b.input((1, 2))], [(1, 2)], version=None)
    (node,) = read_model(b.build([y])).nodes
    assert node.version == 1


def test_sizes_behind_a_node_whose_inputs_have_others_than_in_the_file() -> None:
    """The file has placeholders for sizes that follow from shapes."""
    b = ModelBuilder()
    x = b.input((1, 6, 4))
    y = b.op("REVERSE_V2", [x, b.constant(np.array([1], np.int32))], [(1, 6, 4)])
    y = b.op("TILE", [y, b.constant(np.array([1, 2, 1], np.int32))], [(1, 1, 1)])
    y = b.op("Unknown", [y], [(1, 1, 1)])
    lowered = lower_graph(read_model(b.build([b.op("ABS", [y], [(1, 1, 1)])])), Limits())
    assert "known only at run time" in lowered.reasons[3]


@pytest.mark.parametrize("name", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize("size", [(0, 3), (4, -1), (3,), (2, 3, 4)])
def test_a_picture_of_no_size(name: str, size: tuple[int, ...]) -> None:
    b = ModelBuilder()
    x, sides = b.input((1, 4, 5, 3)), b.constant(np.array(size, np.int32))
    content = b.build([b.op(name, [x, sides], [(1, 4, 5, 3)])])
    assert reason(content) == f"the new size {list(size)}; expected a positive height and width"


@pytest.mark.parametrize("dtype", ["float32", "int8"])
@pytest.mark.parametrize("mode", [None, "align_corners", "half_pixel_centers"])
def test_bytes_are_resized_with_litert_s_fixed_point(dtype: str, mode: str | None) -> None:
    """Only where the corners of pixels map to each other."""
    b = ModelBuilder()
    about = {} if dtype == "float32" else {"quantization": QUANTIZED}
    x, y = b.input((1, 4, 5, 3), dtype, **about), b.tensor((1, 7, 9, 3), dtype, **about)
    modes = {mode: True} if mode else {}
    b.op("RESIZE_NEAREST_NEIGHBOR", [x, b.constant(np.int32([7, 9]))], [y], **modes)
    assert dispatch_of(b.build([y]), "resize_nearest").defines["FIXED_POINT"] == (
        dtype == "int8" and mode is None
    )


def test_a_branch_that_several_numbers_choose() -> None:
    b = ModelBuilder()
    for name in ("NEG", "ABS"):
        b.subgraph(lambda inner, name=name: [inner.op(name, [inner.input((2, 2))], [(2, 2)])])
    condition, x = b.input((2,), np.bool_), b.input((2, 2))
    y = b.op("IF", [condition, x], [b.tensor((2, 2))], then_subgraph_index=1, else_subgraph_index=2)
    assert "its branch is chosen by [2]" in reason(b.build([y]))


def test_channels_of_a_transposed_convolution_in_3d() -> None:
    """Those of the output are the weights', or LiteRT writes beyond the output."""
    b = ModelBuilder()
    shape = b.constant(np.int32([1, 2, 2, 2, 5]))
    weights, x = b.constant(np.ones((1, 1, 1, 3, 4), np.float32)), b.input((1, 2, 2, 2, 4))
    strides = dict(stride_d=1, stride_h=1, stride_w=1)
    y = b.op("CONV_3D_TRANSPOSE", [shape, weights, x], [b.tensor((1, 2, 2, 2, 5))], **strides)
    why = reason(b.build([y]))
    assert "weights of [1, 1, 1, 3, 4] for an output of [1, 2, 2, 2, 5]" in why


@pytest.mark.parametrize("is_constant", [False, True])
def test_biases_that_are_no_integers_may_be_large(is_constant: bool) -> None:
    b = ModelBuilder()
    x, weights = b.input((1, 4)), b.constant(np.ones((2, 4), np.float32))
    biases = b.constant(np.float32([1e30, 0])) if is_constant else b.input((2,))
    y = b.op("FULLY_CONNECTED", [x, weights, biases], [(1, 2)])
    assert not lower_graph(read_model(b.build([y])), Limits()).reasons


@pytest.mark.parametrize("profile", [UNKNOWN, LLVMPIPE], ids=["unknown", "llvmpipe"])
def test_work_groups_of_depthwise_convolutions(profile: Profile) -> None:
    """Where few kinds of programs are wanted, the layer's size does not decide."""
    limits, kinds = Limits(profile=profile), set()
    for width in (5, 33, 65):
        b = ModelBuilder()
        shape = (1, width, width, 8)
        x, weights = b.input(shape), b.constant(np.ones((1, 3, 3, 8), np.float32))
        options = dict(stride_h=1, stride_w=1, depth_multiplier=1, padding="SAME")
        y = b.op("DEPTHWISE_CONV_2D", [x, weights, -1], [shape], **options)
        grid = dispatch_of(b.build([y]), "depthwise_conv_2d", limits).grid
        kinds.add((grid.pixel_lanes, grid.slice_lanes))
        if profile is UNKNOWN:
            assert grid == make_grid(grid.pixels, grid.slices, limits)
    assert profile is UNKNOWN or len(kinds) == 1


def test_constants_that_no_size_touches_are_folded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 6, 4))
    sizes = s.op("SHAPE", [x], [s.tensor((3,), "int32")], out_type=SCHEMA_NUMBERS["int32"])
    one, two = s.constant(np.int32([1])), s.constant(np.int32([2]))
    length = s.op("STRIDED_SLICE", [sizes, one, two, one], [s.tensor((1,), "int32")])
    twice = s.op("MUL", [length, two], [s.tensor((1,), "int32")])
    half = s.op("MUL", [s.constant(np.int32([2])), two], [s.tensor((1,), "int32")])
    shape = s.op("CONCATENATION", [twice, half], [s.tensor((2,), "int32")], axis=0)
    same = s.op("MUL", [length, two], [s.tensor((1,), "int32")])  # as a layer after the first has
    graph = read_model(s.build([s.op("RESHAPE", [x, shape], [(12, 2)]), same]))
    lowerings = Lowerings(graph, Limits())
    computed: list[str] = []
    compute = folding._results

    def counted(node: NodeView) -> Any:
        computed.append(node.op)
        return compute(node)

    monkeypatch.setattr(folding, "_results", counted)
    for batch in (2, 3):  # the length stays the same, and all that follows from it
        computed.clear()
        lowered = lowerings.lower({x: (batch, 6, 4)})
        assert computed == ["SHAPE", "STRIDED_SLICE"]
        assert lowered.graph.tensors[shape].array().tolist() == [12, 4]
        assert lowered.graph.tensors[shape] is lowerings.default.graph.tensors[shape]
    computed.clear()
    lowered = lowerings.lower({x: (1, 8, 4)})
    assert computed == ["SHAPE", "STRIDED_SLICE", "MUL", "CONCATENATION"]
    assert lowered.graph.tensors[shape].array().tolist() == [16, 4]
    assert lowerings.default.graph.tensors[shape].array().tolist() == [12, 4]
