"""Graphs of several ops, for what one op alone does not show: fusion, buffers, odd outputs."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from tests.op_table.base import Op
from tests.op_table.typed import ints
from tests.support.keras import KerasLayer
from tests.support.pytorch import TorchLayer
from tests.support.sketch import Sketch

Graph = Callable[[Sketch], int | Sequence[int]]
GRAPHS: dict[str, Graph] = {}


def _graph(build: Graph) -> Graph:
    GRAPHS[build.__name__] = build
    return build


def _conv(s: Sketch, x: int, depth: int, out: int, size: int = 3, **options: Any) -> int:
    weights = s.constant(s.normal((out, size, size, depth), 1.5 / np.sqrt(depth * size * size)))
    options = {"stride_h": 1, "stride_w": 1, **options}
    return s.op("CONV_2D", [x, weights, s.constant(s.normal((out,)))], **options)


def _depthwise(s: Sketch, x: int, depth: int, size: int = 3, **options: Any) -> int:
    weights = s.constant(s.normal((1, size, size, depth), 0.5))
    inputs = [x, weights, s.constant(s.normal((depth,)))]
    options = {"stride_h": 1, "stride_w": 1, "depth_multiplier": 1, **options}
    return s.op("DEPTHWISE_CONV_2D", inputs, fused_activation_function="RELU6", **options)


@_graph
def conv_then_activation(s: Sketch) -> list[int]:
    x = s.feed((1, 7, 6, 5))
    activations = ("RELU", "RELU6", "RELU_N1_TO_1", "TANH", "LOGISTIC")
    return [s.op(activation, [_conv(s, x, 5, 6)]) for activation in activations]


def _joined(parts: Callable[[Sketch, int, int], Sequence[int]]) -> None:
    """Copies beside what is computed in its place, of sizes that work groups do not divide."""

    def build(s: Sketch) -> list[int]:
        outputs = []
        for pixels, depth, other in ((1, 8, 4), (1, 12, 32), (4, 36, 8), (16, 20, 32), (2, 68, 4)):
            x, y = s.feed((1, 1, pixels, depth)), s.feed((1, 1, pixels, other))
            outputs.append(s.op("CONCATENATION", parts(s, x, s.op("RELU", [y])), axis=3))
        return outputs

    GRAPHS[f"{parts.__name__.strip('_')}_joined"] = build


@_joined
def _input_and_computed(s: Sketch, x: int, y: int) -> Sequence[int]:
    return [x, y]


@_joined
def _computed_and_input(s: Sketch, x: int, y: int) -> Sequence[int]:
    return [y, x]


@_joined
def _constant_and_computed(s: Sketch, x: int, y: int) -> Sequence[int]:
    shape = s.tensors[x]["shape"]
    return [s.constant(s.normal(tuple(shape))), y, x]


@_joined
def _twice_and_computed(s: Sketch, x: int, y: int) -> Sequence[int]:
    z = s.op("ABS", [x])
    return [z, z, y]


@_graph
def joined_and_read(s: Sketch) -> list[int]:
    x, y = s.feed((1, 1, 1, 12)), s.feed((1, 1, 1, 32))
    z = s.op("CONCATENATION", [x, s.op("RELU", [y])], axis=3)
    return [s.op("NEG", [z]), _conv(s, z, 44, 8, size=1)]


@_graph
def conv_with_two_consumers(s: Sketch) -> int:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    return s.op("ADD", [s.op("RELU", [conv]), conv])


@_graph
def conv_with_two_activations(s: Sketch) -> list[int]:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    return [s.op("RELU", [conv]), s.op("TANH", [conv])]


@_graph
def conv_that_is_an_output(s: Sketch) -> list[int]:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    return [s.op("RELU6", [conv]), conv]


@_graph
def clamped_conv_then_activation(s: Sketch) -> int:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6, fused_activation_function="RELU_N1_TO_1")
    return s.op("RELU", [s.op("LOGISTIC", [conv])])


@_graph
def conv_then_channel_vectors(s: Sketch) -> int:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    scaled = s.op("MUL", [s.constant(s.normal((6,))), conv])
    return s.op("ADD", [scaled, s.constant(s.normal((1, 1, 1, 6)))])


@_graph
def conv_then_full_constant(s: Sketch) -> int:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    return s.op("SUB", [conv, s.constant(s.normal((1, 7, 6, 6)))])


@_graph
def conv_plus_wider_operand(s: Sketch) -> int:
    """The sum has more elements than the convolution's result."""
    return s.op("ADD", [_conv(s, s.feed((1, 1, 6, 5)), 5, 6), s.feed((3, 4, 6, 6))])


@_graph
def conv_minus_itself_squashed(s: Sketch) -> int:
    conv = _conv(s, s.feed((1, 7, 6, 5)), 5, 6)
    return s.op("SUB", [s.op("TANH", [conv]), conv])


@_graph
def padded_conv(s: Sketch) -> int:
    pads = s.constant(np.array([[0, 0], [2, 1], [1, 3], [0, 0]], np.int32))
    padded = s.op("PAD", [s.feed((2, 9, 8, 5)), pads])
    return _conv(s, padded, 5, 6, padding="VALID", stride_h=2, stride_w=2)


@_graph
def padding_with_two_consumers(s: Sketch) -> list[int]:
    pads = s.constant(np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    padded = s.op("PAD", [s.feed((1, 5, 6, 5)), pads])
    return [_conv(s, padded, 5, 6, padding="VALID"), s.op("RELU", [padded])]


@_graph
def residual_chain(s: Sketch) -> int:
    x = s.feed((1, 7, 6, 5))
    for _ in range(4):
        x = s.op("ADD", [x, _conv(s, x, 5, 5)], fused_activation_function="RELU6")
    return x


@_graph
def inverted_residual(s: Sketch) -> int:
    x = s.feed((1, 9, 8, 6))
    wide = _depthwise(s, _conv(s, x, 6, 18, 1, fused_activation_function="RELU6"), 18)
    return s.op("ADD", [_conv(s, wide, 18, 6, 1), x])


@_graph
def diamond(s: Sketch) -> int:
    top = s.op("TANH", [s.feed((2, 5, 4, 7))])
    return s.op("MUL", [s.op("RELU", [top]), s.op("LOGISTIC", [top])])


@_graph
def output_that_is_consumed(s: Sketch) -> list[int]:
    first = s.op("TANH", [s.feed((1, 5, 4, 7))])
    second = s.op("LOGISTIC", [first])
    return [s.op("EXP", [second]), first, second]


@_graph
def input_that_is_an_output(s: Sketch) -> list[int]:
    x = s.feed((1, 4, 3, 5))
    return [x, s.op("RELU", [x])]


@_graph
def only_an_input(s: Sketch) -> int:
    return s.feed((2, 3))


@_graph
def reshaped_input(s: Sketch) -> list[int]:
    x = s.feed((2, 3, 4))
    return [s.op("RESHAPE", [x, ints(s, 6, 4)]), s.op("RELU", [x])]


@_graph
def reshapes_in_a_row(s: Sketch) -> int:
    x = s.op("RESHAPE", [s.op("TANH", [s.feed((1, 4, 6, 5))]), ints(s, 24, 5)])
    return s.op("RELU", [s.op("RESHAPE", [x, ints(s, 1, 10, 4, 3)])])


@_graph
def output_twice(s: Sketch) -> list[int]:
    return [s.op("RELU", [s.feed((1, 4, 3, 5))])] * 2


@_graph
def constant_output(s: Sketch) -> list[int]:
    return [s.constant(s.normal((2, 3))), s.op("RELU", [s.feed((3,))])]


@_graph
def op_on_constants(s: Sketch) -> int:
    folded = s.op("MUL", [s.constant(s.normal((4, 5))), s.constant(s.normal((5,)))])
    return s.op("ADD", [s.feed((3, 4, 5)), s.op("RELU", [folded])])


@_graph
def unused_input(s: Sketch) -> int:
    s.feed((3, 5))
    return s.op("RELU", [s.feed((1, 4, 3, 5))])


@_graph
def unused_result(s: Sketch) -> int:
    x = s.feed((1, 4, 3, 5))
    s.op("EXP", [x])
    return s.op("RELU", [x])


@_graph
def shared_constant(s: Sketch) -> list[int]:
    """One constant is the weights of a convolution and of a dense layer, and an operand."""
    weights, bias = s.constant(s.normal((8, 1, 1, 6))), s.constant(s.normal((8,)))
    conv = s.op("CONV_2D", [s.feed((1, 5, 4, 6)), weights, bias], stride_h=1, stride_w=1)
    other = s.op("CONV_2D", [s.feed((2, 3, 3, 6)), weights, bias], stride_h=2, stride_w=2)
    return [conv, other, s.op("ADD", [weights, s.feed((8, 2, 1, 6))]), s.op("RELU", [bias])]


@_graph
def concat_of_concat(s: Sketch) -> int:
    a, b, c = (s.op("RELU", [s.feed((1, 5, 4, depth))]) for depth in (3, 4, 6))
    inner = s.op("CONCATENATION", [a, b], axis=3)
    outer = s.op("CONCATENATION", [c, inner, a], axis=3)
    return s.op("CONCATENATION", [outer, outer], axis=1)


@_graph
def concat_of_consumed(s: Sketch) -> list[int]:
    a, b = (_conv(s, s.feed((2, 5, 4, 3)), 3, depth) for depth in (4, 5))
    return [s.op("CONCATENATION", [a, b, a], axis=-1), s.op("TANH", [a]), b]


@_graph
def concat_of_what_is_read_as_well(s: Sketch) -> list[int]:
    """Each tensor is joined to all before it, of sizes with which it is computed in its place."""
    x = _conv(s, s.feed((1, 8, 4, 3)), 3, 8)
    depth = 8
    for more in (4, 8, 5):
        y = _conv(s, x, depth, more, 3)
        x, depth = s.op("CONCATENATION", [x, y], axis=3), depth + more
    twice = s.op("CONCATENATION", [y, y, s.op("TANH", [y])], axis=1)
    return [_conv(s, x, depth, 4), s.op("EXP", [twice])]


@_graph
def detection_heads(s: Sketch) -> int:
    heads = []
    for size, anchors in ((6, 3), (3, 6), (1, 6)):
        scores = _conv(s, s.feed((1, size, size, 8)), 8, anchors * 5)
        heads.append(s.op("RESHAPE", [scores, ints(s, 1, -1, 5)]))
    return s.op("LOGISTIC", [s.op("CONCATENATION", heads, axis=1)])


@_graph
def joined_with_functions_of_slices(s: Sketch) -> list[int]:
    """Texels of the results hold lanes of several parts, each with its own function."""
    x = s.feed((1, 6, 14))

    def part(first: int, depth: int, function: str = "") -> int:
        sliced = s.op("SLICE", [x, ints(s, 0, 0, first), ints(s, 1, 6, depth)])
        return s.op(function, [sliced]) if function else sliced

    scaled = s.op("ADD", [part(3, 6, "TANH"), s.feed((1, 6, 6))])
    return [
        s.op("CONCATENATION", [part(0, 2), part(2, 2, "EXP"), part(4, 10, "LOGISTIC")], axis=2),
        s.op("CONCATENATION", [part(8, 3, "ABS"), scaled, part(1, 1)], axis=2),
    ]


@_graph
def joined_in_rows(s: Sketch) -> list[int]:
    """The first inputs end at whole texels of the result, except for the second output."""
    parts = [
        _conv(s, s.feed((1, 4, size, 5)), 5, depth) for size, depth in ((3, 6), (5, 3), (1, 9))
    ]
    rows = [s.op("RESHAPE", [part, ints(s, 1, -1, 3)]) for part in parts]
    return [s.op("CONCATENATION", rows[i:], axis=1) for i in (0, 2)] + [
        s.op("CONCATENATION", [s.op("TANH", [s.feed((2, size, 4))]) for size in (3, 2)], axis=1),
        s.op("CONCATENATION", rows[::-1], axis=1),
    ]


@_graph
def depthwise_separable(s: Sketch) -> list[int]:
    strided = {"stride_h": 2, "stride_w": 2}
    dilated = {"dilation_h_factor": 3, "dilation_w_factor": 2}
    x = s.feed((2, 19, 17, 6))
    windows = ({}, strided, dilated, {**strided, "padding": "VALID", "size": 5})
    return [
        _conv(s, _depthwise(s, x, 6, **window), 6, depth, 1)
        for window, depth in zip(windows, (5, 8, 61, 14), strict=True)
    ]


@_graph
def pooled_residuals(s: Sketch) -> list[int]:
    """Past each convolution with stride 2 leads a pool, and once zeros for more channels."""
    x = s.op("TANH", [s.feed((2, 12, 20, 5))])
    two: dict[str, int] = {"stride_h": 2, "stride_w": 2}
    pool: dict[str, int] = {"filter_height": 2, "filter_width": 2, **two}
    pads = s.constant(np.array([[0, 0], [0, 0], [0, 0], [0, 5]], np.int32))
    pooled = s.op("MAX_POOL_2D", [x], **pool)
    wide = s.op("ADD", [s.op("PAD", [pooled, pads]), _conv(s, x, 5, 10, **two)])
    same = s.op("SUB", [_conv(s, wide, 10, 10, **two), s.op("MAX_POOL_2D", [wide], **pool)])
    return [same, s.op("MUL", [s.op("MAX_POOL_2D", [same], **pool), _conv(s, same, 10, 10, **two)])]


@_graph
def widened_residuals(s: Sketch) -> int:
    x = s.feed((2, 6, 5, 4))
    for depth in (4, 9, 14):
        pads = s.constant(np.array([[0, 0], [0, 0], [0, 0], [0, 5]], np.int32))
        y = _conv(s, _depthwise(s, x, depth), depth, depth + 5, 1)
        widened = s.op("PAD", [x, pads])
        x = s.op("ADD", [y, widened] if depth == 9 else [widened, y])
    return x


@_graph
def classifier(s: Sketch) -> int:
    features = _conv(s, s.feed((2, 12, 12, 3)), 3, 10, stride_h=2, stride_w=2)
    pooled = s.op("MEAN", [features, ints(s, 1, 2)])
    weights, bias = s.constant(s.normal((7, 10))), s.constant(s.normal((7,)))
    return s.op("SOFTMAX", [s.op("FULLY_CONNECTED", [pooled, weights, bias])], beta=1.0)


@_graph
def squeeze_and_excite(s: Sketch) -> int:
    x = _conv(s, s.feed((2, 7, 6, 5)), 5, 9)
    gate = s.op("MEAN", [x, ints(s, 1, 2)], keep_dims=True)
    gate = s.op("LOGISTIC", [_conv(s, gate, 9, 9, 1, fused_activation_function="RELU")])
    return s.op("MUL", [gate, x])


@_graph
def feature_pyramid(s: Sketch) -> list[int]:
    fine = _conv(s, s.feed((1, 12, 10, 3)), 3, 8)
    coarse = _conv(s, fine, 8, 8, stride_h=2, stride_w=2, fused_activation_function="RELU")
    larger = s.op("RESIZE_BILINEAR", [coarse, ints(s, 12, 10)], half_pixel_centers=True)
    return [s.op("ADD", [fine, larger]), coarse]


@_graph
def pointwise_of_two_sizes_twice_each(s: Sketch) -> int:
    """One program serves all four, with another between them."""
    x = _conv(s, s.feed((1, 9, 8, 8)), 8, 8)
    for depth, out in ((8, 8), (8, 12), (12, 12), (12, 12)):
        x = _conv(s, x, depth, 6 * depth, 1, fused_activation_function="RELU6")
        x = _conv(s, x, 6 * depth, out)
    return x


@_graph
def long_chain(s: Sketch) -> int:
    x = first = s.feed((1, 9, 8, 7))
    for i in range(40):
        op = ("TANH", "ADD", "RELU6", "MUL", "LOGISTIC")[i % 5]
        x = s.op(op, [x, first] if op in ("ADD", "MUL") else [x])
    return x


@_graph
def sums_of_empty_constants(s: Sketch) -> list[int]:
    x, pixels, channels = s.feed((1, 3)), s.normal((1, 0, 3)), s.normal((1, 3, 0))
    sums = [
        s.op("SUM", [s.constant(empty), ints(s, axis)])
        for empty, axis in ((pixels, 1), (channels, 2))
    ]
    return [s.op("SUB", [x, each]) for each in sums]


@_graph
def many_live_tensors(s: Sketch) -> int:
    x = s.feed((1, 3, 5, 7))
    values = [s.op("MUL", [x, s.constant(s.normal((7,)))]) for _ in range(12)]
    while len(values) > 1:
        values.append(s.op("SUB", [values.pop(), values.pop(0)]))
    return values[0]


def _in_a_loop(s: Sketch, **options: Any) -> list[int]:
    layer = KerasLayer(**options)
    outputs = layer.add(s, *layer.feeds(s))
    return [s.op("TANH", [outputs[2]]), *outputs[3 : 3 + layer.states]]


def _unrolled(s: Sketch, **options: Any) -> list[int]:
    layer = KerasLayer(**options)
    return layer.unroll(s, *layer.feeds(s))


def _of_pytorch(s: Sketch, **options: Any) -> list[int]:
    return TorchLayer(**options).add(s)


GRAPHS |= {
    "lstm_in_a_loop": partial(_in_a_loop, steps=3, batch=2, depth=3, units=6),
    "basic_lstm_in_a_loop": partial(_in_a_loop, cell="basic lstm", steps=3, depth=3, units=4),
    "gru_in_a_loop": partial(_in_a_loop, cell="gru", steps=3, depth=4, units=4),
    "gru_in_a_loop_reset_first": partial(
        _in_a_loop, cell="gru, reset first", steps=2, units=5, all_results=False
    ),
    "lstm_unrolled": partial(_unrolled, steps=3, depth=3, units=4),
    "gru_unrolled": partial(_unrolled, cell="gru", steps=2, depth=4, units=4),
    "lstm_of_pytorch": partial(_of_pytorch, steps=3, batch=2, depth=3, units=4, backward=True),
    "gru_of_pytorch": partial(_of_pytorch, cell="gru", steps=3, depth=3, units=5, shown=(1,)),
}


def graph(s: Sketch, op: str, of: str) -> int | Sequence[int]:
    return GRAPHS[of](s)


OPS = {"GRAPH": Op(graph, lambda: ({"of": name} for name in GRAPHS))}
