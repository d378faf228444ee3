"""Fusion: where it must happen, and where it must not."""

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.ops.lib.elementwise import combination
from gles_delegate.planning.contraction import contract
from gles_delegate.planning.fusion import fuse_elementwise
from gles_delegate.planning.plan import Plan
from gles_delegate.planning.rewriting import MAX_CALLS, Edit, Listing, Scope
from gles_delegate.shaders.dispatch import Call, Dispatch, Value
from tests.support.sketch import Sketch
from tests.support.tflite_builder import quantization
from tests.unit.test_plan import ROOMY, plan_of

POOL = {"filter_width": 2, "filter_height": 2, "stride_w": 1, "stride_h": 1}


class Net(Sketch):
    """A sketch with 4-channel tensors, whose inputs and outputs need no conversion."""

    def __init__(self) -> None:
        super().__init__(np.random.default_rng(0))
        self.x = self.feed((1, 6, 6, 4))

    def conv(
        self, x: int | None = None, depth: int = 4, of: int = 4, size: int = 1, **options: Any
    ) -> int:
        weights, bias = self.normal((depth, size, size, of)), self.normal((depth,))
        inputs = [self.x if x is None else x, self.constant(weights), self.constant(bias)]
        return self.op("CONV_2D", inputs, stride_h=1, stride_w=1, **options)

    def depthwise(self, multiplier: int = 1, **options: Any) -> int:
        weights, bias = self.normal((1, 3, 3, 4 * multiplier)), self.normal((4 * multiplier,))
        inputs = [self.x, self.constant(weights), self.constant(bias)]
        options = {"stride_h": 1, "stride_w": 1, "depth_multiplier": multiplier, **options}
        return self.op("DEPTHWISE_CONV_2D", inputs, **options)

    def pad(self, x: int, *pads: tuple[int, int]) -> int:
        return self.op("PAD", [x, self.constant(np.array(pads, np.int32))])

    def reshape(self, x: int, *shape: int) -> int:
        return self.op("RESHAPE", [x, self.constant(np.array(shape, np.int32))])

    def plan(self, *outputs: int, limits: Limits = Limits()) -> Plan:  # noqa: B008
        return plan_of(self.build(outputs), limits)


@pytest.fixture
def net() -> Net:
    return Net()


def shaders(plan: Plan) -> list[str]:
    return [dispatch.shader for dispatch in plan.dispatches]


def functions(plan: Plan) -> list[str]:
    return [call.function for dispatch in plan.dispatches for call in dispatch.epilogue]


def test_activations_join_their_producer(net: Net) -> None:
    y = net.op("TANH", [net.op("LOGISTIC", [net.conv(fused_activation_function="RELU6")])])
    plan = net.plan(y)
    assert shaders(plan) == ["conv_2d"]
    assert functions(plan) == ["RELU6", "LOGISTIC", "TANH"]
    assert plan.dispatches[0].output in plan.outputs.values()


def test_a_residual_joins_the_later_producer(net: Net) -> None:
    first = net.conv()
    second = net.conv(net.op("MAX_POOL_2D", [first], **POOL))
    plan = net.plan(net.op("ADD", [first, second]))
    assert shaders(plan) == ["conv_2d", "pool_2d", "conv_2d"]
    (call,) = plan.dispatches[2].epilogue
    assert (call.function, call.operand_first) == ("ADD", True)
    assert call.operand == plan.dispatches[0].output


def test_it_goes_through_a_reshape(net: Net) -> None:
    plan = net.plan(net.op("RELU", [net.reshape(net.conv(), 36, 4)]))
    assert shaders(plan) == ["conv_2d"]


def test_not_into_a_producer_with_two_consumers(net: Net) -> None:
    y = net.conv()
    plan = net.plan(net.op("RELU", [y]), net.op("TANH", [y]))
    assert shaders(plan) == ["conv_2d", "elementwise", "elementwise"]


def test_with_itself(net: Net) -> None:
    y = net.conv()
    plan = net.plan(net.op("MUL", [y, y]))
    assert shaders(plan) == ["conv_2d"]
    assert str(plan.dispatches[0].epilogue[0]) == "MUL(., .)"


def test_not_into_an_output(net: Net) -> None:
    y = net.conv()
    assert shaders(net.plan(net.op("RELU", [y]), y)) == ["conv_2d", "elementwise"]


def test_not_into_an_output_behind_a_reshape(net: Net) -> None:
    y = net.conv()
    same = net.reshape(y, 36, 4)
    assert shaders(net.plan(net.op("RELU", [y]), same)) == ["conv_2d", "elementwise"]


def test_not_into_an_input(net: Net) -> None:
    assert shaders(net.plan(net.op("RELU", [net.x]), net.x)) == ["elementwise"]


def test_not_into_partial_writes(net: Net) -> None:
    y = net.op("CONCATENATION", [net.conv(), net.conv()], axis=3)
    plan = net.plan(net.op("RELU", [y]))
    assert functions(plan) == ["RELU"]
    assert "elementwise" in shaders(plan)
    assert sum(dispatch.partial for dispatch in plan.dispatches) + len(plan.inside) == 2


def test_not_where_the_result_is_broadcast(net: Net) -> None:
    small = net.op("MEAN", [net.conv(), net.constant(np.array([1, 2], np.int32))], keep_dims=True)
    plan = net.plan(net.op("ADD", [small, net.x]))
    assert shaders(plan)[-1] == "elementwise"


def test_not_where_one_channel_is_broadcast(net: Net) -> None:
    plan = net.plan(net.op("MUL", [net.conv(depth=1), net.conv()]))
    assert shaders(plan) == ["conv_2d", "conv_2d", "elementwise"]


def test_not_with_more_tensors_than_a_shader_may_read(net: Net) -> None:
    y = net.conv()
    for _ in range(4):
        y = net.op("ADD", [y, net.feed((1, 6, 6, 4))])
    floor, roomy = net.plan(y), net.plan(y, limits=ROOMY)
    assert max(len(d.operands) for d in floor.dispatches) == 3
    assert shaders(floor)[0] == "conv_2d"
    assert len(floor.dispatches) > 1
    assert len(roomy.dispatches) < len(floor.dispatches)


def test_an_operand_that_comes_later_keeps_its_place(net: Net) -> None:
    """ADD(early, late) cannot move up to where `late` is not computed yet."""
    early = net.conv()
    late = net.op("MAX_POOL_2D", [net.x], padding="SAME", **POOL)
    late = net.op("SOFTMAX", [late], beta=1.0)
    plan = net.plan(net.op("ADD", [early, late]))
    place = {dispatch.output: i for i, dispatch in enumerate(plan.dispatches)}
    for i, dispatch in enumerate(plan.dispatches):
        assert all(place.get(operand, -1) < i for operand in dispatch.operands)


@pytest.mark.parametrize("is_read_twice", [False, True])
def test_an_early_operand_is_computed_when_the_other_has_been(
    net: Net, is_read_twice: bool
) -> None:
    """As in instance normalization: x * scale + offset, which comes after the product."""
    mean = net.op("MEAN", [net.x, net.constant(np.array([1, 2], np.int32))], keep_dims=True)
    early = net.op("MUL", [net.x, mean])
    offset = net.op("SOFTMAX", [mean], beta=1.0)
    outputs = [net.op("RELU", [net.op("ADD", [early, offset])])]
    if is_read_twice:
        outputs.append(net.op("SOFTMAX", [early], beta=1.0))
    plan = net.plan(*outputs, limits=ROOMY)
    others = [shader for shader in shaders(plan) if shader not in ("reduce", "softmax")]
    assert others == ["elementwise"] * (1 + is_read_twice)
    assert functions(plan) == (["RELU"] if is_read_twice else ["ADD", "RELU"])


NONE = (0, 0)


@pytest.mark.parametrize("first", ["conv", "shortcut"])
@pytest.mark.parametrize("depth", [6, 8, 12])
def test_a_shortcut_with_fewer_channels_joins_the_convolution(
    net: Net, depth: int, first: str
) -> None:
    shortcut = net.op("MAX_POOL_2D", [net.x], padding="SAME", **POOL)
    y = net.conv(shortcut, depth)
    wide = net.pad(shortcut, NONE, NONE, NONE, (0, depth - 4))
    operands = [y, wide] if first == "conv" else [wide, y]
    plan = net.plan(net.reshape(net.op("ADD", operands), 1, -1))
    assert shaders(plan)[:2] == ["pool_2d", "conv_2d"]
    (call,) = plan.dispatches[1].epilogue
    assert call.operand == plan.dispatches[0].output
    assert call.operand_first == (first == "shortcut")


@pytest.mark.parametrize(
    ("op", "pads"),
    [
        ("PAD", (NONE, NONE, NONE, (4, 0))),
        ("PAD", (NONE, NONE, (0, 1), (0, 4))),
        ("PAD", (NONE, (1, 0), NONE, (0, 4))),
        ("MIRROR_PAD", (NONE, NONE, NONE, (0, 3))),
        ("PADV2", (NONE, NONE, NONE, (0, 4))),
    ],
)
def test_not_where_the_new_channels_are_not_zeros_at_the_end(
    net: Net, op: str, pads: tuple[tuple[int, int], ...]
) -> None:
    inputs = [net.x, net.constant(np.array(pads, np.int32))]
    wide = net.op(op, inputs + [net.constant(np.float32(1))] * (op == "PADV2"))
    height, width, depth = (n + sum(pad) for n, pad in zip((6, 6, 4), pads[1:], strict=True))
    y = net.feed((1, height, width, 4))
    plan = net.plan(net.op("ADD", [net.conv(y, depth), wide]))
    assert "view" in shaders(plan)
    assert all(operand.channels == depth for d in plan.dispatches for operand in d.operands[2:])


def test_not_where_a_single_channel_was_widened(net: Net) -> None:
    """One channel read beside several would be repeated."""
    wide = net.pad(net.feed((1, 6, 6, 1)), NONE, NONE, NONE, (0, 3))
    plan = net.plan(net.op("ADD", [net.conv(), wide]))
    assert shaders(plan).count("view") == 1
    assert all(operand.channels == 4 for d in plan.dispatches for operand in d.operands[2:])


@pytest.mark.parametrize("readers", [1, 2])
def test_a_copy_reads_the_input_itself(net: Net, readers: int) -> None:
    """The rows of a packed input, unless its texels are needed anyway."""
    x = net.feed((1, 6, 4, 3))
    axis = net.constant(np.array([1], np.int32))
    results = [net.op("REVERSE_V2", [x, axis]), *(net.op("TANH", [x]) for _ in range(1, readers))]
    plan = net.plan(*results)
    (reverse,) = [d for d in plan.dispatches if d.node == 0]
    assert (reverse.reads == (plan.inputs[x],)) == (readers == 1)


HALF: dict[str, Any] = {"filter_width": 2, "filter_height": 2, "stride_w": 2, "stride_h": 2}


@pytest.mark.parametrize("depth", [4, 8])
def test_the_largest_of_2x2_pixels_joins_the_convolution(net: Net, depth: int) -> None:
    large = net.feed((1, 12, 12, 4))
    pooled = net.op("MAX_POOL_2D", [large], **HALF)
    shortcut = net.pad(pooled, NONE, NONE, NONE, (0, 4)) if depth == 8 else pooled
    plan = net.plan(net.op("ADD", [net.conv(depth=depth), shortcut]))
    dispatch = plan.dispatches[0]
    (call,) = dispatch.epilogue
    assert (dispatch.shader, call.operand, call.rows) == ("conv_2d", plan.inputs[large], 6)
    assert "| ADD 2x2 of" in str(dispatch)
    assert "pool_2d" not in shaders(plan)


@pytest.mark.parametrize(
    ("shape", "op", "options"),
    [
        ((1, 12, 12, 4), "AVERAGE_POOL_2D", {}),
        ((1, 12, 12, 4), "MAX_POOL_2D", {"fused_activation_function": "RELU"}),
        ((1, 12, 12, 4), "MAX_POOL_2D", {"filter_width": 3, "padding": "SAME"}),
        ((1, 13, 12, 4), "MAX_POOL_2D", {"padding": "VALID"}),
        ((1, 11, 12, 4), "MAX_POOL_2D", {"padding": "SAME"}),
        ((1, 24, 6, 4), "MAX_POOL_2D", {"stride_w": 1, "stride_h": 4, "padding": "SAME"}),
        ((1, 7, 7, 4), "MAX_POOL_2D", {"stride_w": 1, "stride_h": 1, "padding": "VALID"}),
    ],
)
def test_not_another_pool(
    net: Net, shape: tuple[int, ...], op: str, options: dict[str, Any]
) -> None:
    pooled = net.op(op, [net.feed(shape)], **{**HALF, **options})
    assert "pool_2d" in shaders(net.plan(net.op("ADD", [net.conv(), pooled])))


def test_not_a_pool_with_another_reader(net: Net) -> None:
    pooled = net.op("MAX_POOL_2D", [net.feed((1, 12, 12, 4))], **HALF)
    plan = net.plan(net.op("ADD", [net.conv(), pooled]), net.op("TANH", [pooled]))
    assert not any(call.rows for d in plan.dispatches for call in d.epilogue)


def test_a_widened_tensor_with_another_reader_stays(net: Net) -> None:
    wide = net.pad(net.x, NONE, NONE, NONE, (0, 4))
    plan = net.plan(net.op("ADD", [net.conv(depth=8), wide]), net.op("TANH", [wide]))
    assert sorted(functions(plan)) == ["ADD", "TANH"]
    assert shaders(plan).count("conv_2d") == 1


def test_reshaped_and_joined_results_are_copied_once(net: Net) -> None:
    heads = [net.reshape(net.conv(depth=depth), 1, 9 * depth, 4) for depth in (2, 6, 8)]
    plan = net.plan(net.reshape(net.op("CONCATENATION", heads, axis=1), 1, -1, 8))
    assert shaders(plan) == ["conv_2d"] * 3 + ["view"] * 3
    assert {d.output for d in plan.dispatches[3:]} == set(plan.outputs.values())
    assert {d.reads[0] for d in plan.dispatches[3:]} == {d.output for d in plan.dispatches[:3]}


@pytest.mark.parametrize("sizes", [(9, 7), (2, 6)])
def test_not_where_a_joined_part_begins_inside_a_texel(net: Net, sizes: tuple[int, ...]) -> None:
    parts = [net.op("TANH", [net.feed((1, size, 3))]) for size in sizes]
    plan = net.plan(net.op("CONCATENATION", parts, axis=1))
    (copied,) = [d for d in plan.dispatches if d.partial]
    assert copied.output not in plan.outputs.values()
    assert [(outer, at) for outer, at in plan.inside.values()] == [(copied.output, 0)]


@pytest.mark.parametrize(("first", "second"), [((1, 5, 8), (1, 5, 4)), ((2, 5, 4), (2, 3, 4))])
def test_not_where_joined_parts_lie_side_by_side(
    net: Net, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    parts = [net.op("TANH", [net.feed(shape)]) for shape in (first, second)]
    axis = 1 if first[2] == second[2] else 2
    plan = net.plan(net.reshape(net.op("CONCATENATION", parts, axis=axis), -1, 2))
    assert sum(d.partial for d in plan.dispatches) + len(plan.inside) == 2
    assert plan.dispatches[-1].reads == (plan.dispatches[-2].output,)


def transpose(net: Net, x: int, *order: int) -> int:
    return net.op("TRANSPOSE", [x, net.constant(np.array(order, np.int32))])


def test_copies_in_a_row_are_one(net: Net) -> None:
    turned = transpose(net, net.conv(depth=6), 0, 2, 1, 3)
    plan = net.plan(net.reshape(turned, 1, -1))
    assert shaders(plan) == ["conv_2d", "view"]
    between = net.op("RELU", [transpose(net, net.conv(depth=6), 0, 2, 1, 3)])
    plan = net.plan(net.op("RELU6", [transpose(net, between, 0, 3, 1, 2)]))
    assert shaders(plan) == ["conv_2d", "view"]
    assert functions(plan) == ["RELU", "RELU6"]


def test_transpositions_that_undo_each_other_are_none(net: Net) -> None:
    there = transpose(net, net.conv(), 0, 3, 1, 2)
    plan = net.plan(net.conv(transpose(net, there, 0, 2, 3, 1)))
    assert shaders(plan) == ["conv_2d", "conv_2d"]


def test_copies_that_only_copies_read_are_none(net: Net) -> None:
    there = transpose(net, net.conv(), 0, 3, 1, 2)
    back = net.conv(transpose(net, there, 0, 2, 3, 1))
    assert shaders(net.plan(back, there)) == ["conv_2d", "conv_2d", "view"]
    there = transpose(net, net.conv(), 0, 3, 1, 2)
    back = net.conv(transpose(net, there, 0, 2, 3, 1))
    plan = net.plan(back, net.op("NEG", [there]))
    assert shaders(plan)[:4] == ["conv_2d", "view", "view", "conv_2d"]


def test_pixels_are_moved_after_a_product_only_by_what_reads_it(net: Net) -> None:
    product = net.conv(transpose(net, net.conv(), 0, 2, 1, 3), depth=8)
    padded = net.pad(product, (0, 0), (1, 1), (0, 0), (0, 0))
    plan = net.plan(net.op("NEG", [padded]))
    assert shaders(plan)[:4] == ["conv_2d", "view", "conv_2d", "view"]


def test_copies_that_others_read_stay(net: Net) -> None:
    added = net.op("ADD", [transpose(net, net.conv(), 0, 2, 1, 3), net.x])
    assert shaders(net.plan(transpose(net, added, 0, 2, 1, 3))).count("view") == 2


def test_factors_of_1_are_none(net: Net) -> None:
    one = net.constant(np.array(1, np.float32))
    y = net.op("MUL", [one, net.op("DIV", [net.op("MUL", [net.conv(), one]), one])])
    plan = net.plan(net.op("ADD", [y, net.constant(np.array(0, np.float32))]))
    assert functions(plan) == ["ADD"]
    assert functions(net.plan(net.op("DIV", [one, net.conv()]))) == ["DIV"]


def test_a_pointwise_convolution_computes_the_depthwise_one_before_it(net: Net) -> None:
    y = net.conv(net.depthwise(fused_activation_function="RELU6"))
    plan = net.plan(net.op("TANH", [net.op("ADD", [y, net.x])]), limits=ROOMY)
    (dispatch,) = plan.dispatches
    assert dispatch.shader == "depthwise_product"
    assert [call.function for call in dispatch.inner] == ["RELU6"]
    assert [call.function for call in dispatch.epilogue] == ["ADD", "TANH"]
    assert "| RELU6)" in str(dispatch)


def test_not_a_depthwise_convolution_on_a_gpu(net: Net) -> None:
    plan = net.plan(net.conv(net.depthwise()))
    assert shaders(plan) == ["depthwise_conv_2d", "conv_2d"]


def run_time_weights(net: Net) -> list[int]:
    inputs = [net.depthwise(), net.feed((4, 1, 1, 4)), net.constant(net.normal((4,)))]
    return [net.op("CONV_2D", inputs, stride_h=1, stride_w=1)]


def many_operands(net: Net) -> list[int]:
    y = net.conv(net.depthwise())
    for _ in range(3):
        y = net.op("ADD", [y, net.feed((1, 6, 6, 4))])
    return [y]


APART: dict[str, Callable[[Net], list[int]]] = {
    "multiplier": lambda net: [net.conv(net.depthwise(2), of=8)],
    "operand": lambda net: [net.conv(net.op("ADD", [net.depthwise(), net.x]))],
    "window": lambda net: [net.conv(net.depthwise(), size=3)],
    "run-time weights": run_time_weights,
    "many operands": many_operands,
    "two readers": lambda net: [net.conv(d := net.depthwise()), net.conv(d)],
    "output": lambda net: [d := net.depthwise(), net.conv(d)],
    "computed too often": lambda net: [net.conv(net.depthwise(), depth=1024)],
}


@pytest.mark.parametrize("case", APART)
def test_not_this_depthwise_convolution(net: Net, case: str) -> None:
    if case == "computed too often":
        net.x = net.feed((1, 64, 64, 4))
    actual = shaders(net.plan(*APART[case](net), limits=ROOMY))
    assert ("depthwise_conv_2d" in actual, "depthwise_product" in actual) == (True, False)


def test_a_dispatch_names_the_nodes_that_it_does_the_work_of(net: Net) -> None:
    y = net.op("TANH", [net.op("ADD", [net.conv(net.depthwise()), net.x])])
    (first,) = (d for d in net.plan(y, limits=ROOMY).dispatches if d.shader == "depthwise_product")
    assert (first.node, first.fused) == (1, (0, 2, 3))
    assert str(first).endswith("node 1 with 0, 2, 3")


@pytest.mark.parametrize("length", [16, 17, 18, 100])
def test_a_long_chain_is_cut_into_shaders_that_compile_soon(net: Net, length: int) -> None:
    x = net.conv()
    for i in range(length):
        x = net.op(("TANH", "NEG")[i % 2], [x])
    plan = net.plan(x)
    assert max(len(dispatch.epilogue) for dispatch in plan.dispatches) == MAX_CALLS
    assert len(plan.dispatches) == 1 + ceil((length - MAX_CALLS) / MAX_CALLS)
    assert functions(plan) == ["TANH", "NEG"] * (length // 2) + ["TANH"] * (length % 2)


def test_a_tensor_that_is_written_between_two_reads_is_read_twice() -> None:
    x, sigmoid, y = (Value(i, (1, 6, 6, 4)) for i in range(3))
    limits = Limits()

    def made(output: Value, *reads: Value, function: str = "", calls: str = "") -> Dispatch:
        return combination(0, limits, reads, output, function, (Call(calls),) if calls else ())

    pieces = [
        made(sigmoid, x, calls="LOGISTIC"),
        made(x, x, calls="NEG"),
        made(y, x, sigmoid, function="MUL"),
    ]

    def contracted(*pieces: Dispatch) -> list[Dispatch]:
        listing = Listing(pieces, Scope({x, y}, (), limits))
        contract(listing)
        return listing.operations

    assert contracted(*pieces) == pieces
    assert len(contracted(pieces[0], pieces[2])) == 1


def test_not_where_a_tensor_is_read_through_two_shapes(net: Net) -> None:
    """x[:, None] - x[None]: no expression of the elements of x."""
    rows, columns = net.reshape(x := net.feed((6, 4)), 6, 1, 4), net.reshape(x, 1, 6, 4)
    plan = net.plan(net.op("SUB", [rows, columns]))
    (difference,) = [d for d in plan.dispatches if d.shader == "elementwise"]
    assert len(difference.reads) == 2
    assert not functions(plan)


def test_no_edit_reads_a_tensor_with_another_size() -> None:
    small, large = Value(0, (6, 4)), Value(1, (6, 6, 4))
    sizes = ((small, large), (large, small))
    for operands in sizes:
        old = combination(0, Limits(), operands, large, "SUB", ())
        as_large = combination(0, Limits(), (large,), large, "", ())
        listing = Listing([old], Scope({small, large}, (), Limits()))
        assert not listing.apply_if_sound(Edit(replace(as_large, reads=(small,)), old))


def test_no_write_moves_up_past_a_read() -> None:
    x, y, z, state = (Value(i, (1, 6, 6, 4)) for i in range(4))

    def made(output: Value, read: Value, function: str) -> Dispatch:
        return combination(0, Limits(), (read,), output, "", (Call(function),))

    pieces = [made(y, x, "NEG"), made(z, state, "TANH"), made(state, y, "LOGISTIC")]
    listing = Listing(pieces, Scope({x, z, state}, (), Limits()))
    fuse_elementwise(listing)
    assert listing.operations == pieces
    listing = Listing(pieces[::2], Scope({x, state}, (), Limits()))
    fuse_elementwise(listing)
    assert len(listing.operations) == 1


def test_bytes_that_only_move_are_neither_rounded_nor_copied(net: Net) -> None:
    kind = {"quantization": quantization(1 / 256, -128)}
    x = net.input((1, 8, 8, 4), np.int8, quantization=quantization(0.05, 3))
    halves = []
    for _ in range(2):
        halves.append(net.tensor((1, 8, 8, 4), np.int8, **kind))
        net.op("LOGISTIC", [x], [halves[-1]])
    both = net.tensor((1, 8, 8, 8), np.int8, **kind)
    net.op("CONCATENATION", halves, [both], axis=3)
    plan = net.plan(both)
    assert len(plan.inside) == 2
    assert functions(plan).count("QUANTIZED") == 2


ONE = (1, 1)


@pytest.mark.parametrize(
    ("pads", "shader"),
    [
        ((NONE, ONE, ONE, NONE), "conv_2d"),
        ((NONE, (0, 1), (2, 0), NONE), "conv_2d"),
        ((NONE, ONE, ONE, (0, 4)), "view"),
        ((ONE, ONE, ONE, NONE), "view"),
    ],
)
def test_padding_joins_the_window(net: Net, pads: tuple[tuple[int, int], ...], shader: str) -> None:
    wide = net.pad(net.x, *pads)
    plan = net.plan(net.conv(wide, size=3, of=4 + sum(pads[3]), padding="VALID"))
    assert shaders(plan)[0] == shader
    if shader == "conv_2d":
        (conv,) = plan.dispatches
        assert (conv.sizes["PAD_H"], conv.sizes["PAD_W"]) == (pads[1][0], pads[2][0])
        assert conv.fused == (0,)


@pytest.mark.parametrize(
    ("size", "pads"), [((6, 6), ((2, 2), NONE)), ((4, 6), (ONE, ONE))], ids=str
)
def test_padding_that_is_reshaped_stays(
    net: Net, size: tuple[int, int], pads: tuple[tuple[int, int], ...]
) -> None:
    """Also where the other shape without the padding would have as many pixels."""
    wide = net.pad(net.feed((1, *size, 4)), NONE, *pads, NONE)
    height, width = (n + sum(pad) for n, pad in zip(size, pads, strict=True))
    turned = net.reshape(wide, 1, width, height, 4)
    plan = net.plan(net.conv(turned, size=3, of=4, padding="VALID"))
    assert shaders(plan) == ["view", "conv_2d"]


def test_padding_that_is_read_elsewhere_stays_for_its_reader(net: Net) -> None:
    wide = net.pad(net.x, NONE, ONE, ONE, NONE)
    plan = net.plan(net.conv(wide, size=3, padding="VALID"), net.op("TANH", [wide]))
    assert sorted(shaders(plan)) == ["conv_2d", "view"]
