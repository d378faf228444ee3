"""Plans, without GL: what is dispatched, in which order, and on which buffers."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace
from itertools import permutations
from math import prod

import numpy as np
import pytest

from gles_delegate.device.limits import Limits
from gles_delegate.device.profiles import LLVMPIPE, UNKNOWN
from gles_delegate.errors import ModelError
from gles_delegate.image.output import ImageOutput
from gles_delegate.image.transform import ImageTransform
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import Plan, make_plan
from gles_delegate.planning.ports import Elements, Pixels, Port, SampledPicture
from gles_delegate.shaders.dispatch import Dispatch, Grid, Value
from tests.op_table.graphs import GRAPHS
from tests.support.models import REAL_MODELS
from tests.support.process import run_python
from tests.support.sketch import Sketch
from tests.support.tflite_builder import ModelBuilder

FLOOR = Limits()
ROOMY = Limits(
    storage_blocks=6, image_units=5, invocations=1024, buffer_texels=1 << 27, profile=LLVMPIPE
)


def plan_of(content: bytes, limits: Limits = FLOOR) -> Plan:
    lowered = lower_graph(read_model(content), limits)
    assert not lowered.reasons
    return make_plan(lowered, lowered.steps, limits)


def sketched(name: str) -> bytes:
    sketch = Sketch(np.random.default_rng(0))
    outputs = GRAPHS[name](sketch)
    return sketch.build([outputs] if isinstance(outputs, int) else outputs)


def around(plan: Plan, value: Value) -> set[Value]:
    """The values that `value` lies inside or that lie inside it, and itself."""
    outer, _ = plan.inside.get(value, (value, 0))
    one = plan.allocations[value]
    beside = [outer, *(v for v, (other, _) in plan.inside.items() if other == outer)]
    others = [(v, plan.allocations[v]) for v in beside]
    return {
        v
        for v, other in others
        if (other.offset <= one.offset and one.end <= other.end)
        or (one.offset <= other.offset and other.end <= one.end)
    }


def check_floor(plan: Plan, limits: Limits) -> None:
    for dispatch in plan.dispatches:
        assert len(dispatch.operands) + 1 <= limits.storage_blocks, dispatch
        grid = dispatch.grid
        assert prod(grid.local_size) <= limits.invocations, dispatch
        for sizes, most in ((grid.local_size, limits.local_size), (grid.groups, limits.groups)):
            assert all(1 <= n <= top for n, top in zip(sizes, most, strict=True)), dispatch
        texels = max(operand.texels for operand in (*dispatch.operands, dispatch.output))
        assert 16 * texels <= limits.block_bytes, dispatch


def check_flow(plan: Plan) -> None:
    """No aliases are left, no work is useless, and every value has one whole write at most."""
    made: set[Value] = set(plan.inputs.values())
    whole: set[Value] = set(made)
    for dispatch in plan.dispatches:
        assert isinstance(dispatch, Dispatch)
        assert {v for v in dispatch.operands if isinstance(v, Value)} <= made, dispatch
        assert dispatch.output not in whole, f"{dispatch} computes anew"
        made |= around(plan, dispatch.output)
        if not dispatch.partial:
            whole.add(dispatch.output)
    used = {v for d in plan.dispatches for v in d.operands if isinstance(v, Value)}
    used |= set(plan.outputs.values())
    used |= {value for each in used for value in around(plan, each)}
    assert {d.output for d in plan.dispatches} <= used


def check(content: bytes) -> None:
    """That buffers are sound is checked of every plan; see `tests.support.soundness`."""
    for limits in (FLOOR, ROOMY):
        plan = plan_of(content, limits)
        check_flow(plan)
        check_floor(plan, limits)


PORTS: dict[str, tuple[Port, Port, list[str]]] = {
    "rows": (Elements(), Elements(), ["view", "conv_2d", "view"]),
    "texels": (Elements(packed=True), Elements(packed=True), ["conv_2d"]),
    "texels of float16": (
        *(Elements(packed=True, half=True), Elements(packed=True, half=True)),
        ["view", "conv_2d", "view"],
    ),
    "pictures": (
        SampledPicture.of(ImageTransform(), planes=3, monochrome=False),
        Pixels("RGBA16F", ImageOutput()),
        ["image_in", "conv_2d", "image_out"],
    ),
}


@pytest.mark.parametrize(("into", "out", "shaders"), PORTS.values(), ids=PORTS)
def test_how_tensors_enter_and_leave(into: Port, out: Port, shaders: list[str]) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((1, 6, 5, 3))
    weights, bias = s.constant(s.normal((3, 1, 1, 3))), s.constant(s.normal((3,)))
    y = s.op("CONV_2D", [x, weights, bias], stride_h=1, stride_w=1)
    lowered = lower_graph(read_model(s.build([y])), FLOOR)
    plan = make_plan(lowered, lowered.steps, FLOOR, ports={x: into, y: out})
    check_flow(plan)
    check_floor(plan, FLOOR)
    assert [dispatch.shader for dispatch in plan.dispatches] == shaders
    assert plan.results[y].shape == lowered.shapes[y]
    assert plan.dispatches[0].textures == (3 if isinstance(into, SampledPicture) else 0)


def test_inputs_do_not_take_exits_nor_outputs_entrances() -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.feed((1, 6, 5, 3))
    y = s.op("ABS", [x])
    lowered = lower_graph(read_model(s.build([y])), FLOOR)
    picture, pixels = SampledPicture.of(ImageTransform(), 1, False), Pixels("RGBA8", ImageOutput())
    for ports, expected in (({x: pixels}, "an input"), ({y: picture}, "an output")):
        with pytest.raises(ValueError, match=f"expected the port of {expected}, found"):
            make_plan(lowered, lowered.steps, FLOOR, ports=ports)


@pytest.mark.parametrize("name", GRAPHS)
def test_graphs_of_the_table(name: str) -> None:
    check(sketched(name))


@pytest.mark.parametrize("name", REAL_MODELS)
def test_real_models(name: str, real_model: Callable[[str], bytes]) -> None:
    check(real_model(name))


def test_limits_default_to_what_es_3_1_guarantees() -> None:
    assert {field.name: field.default for field in fields(Limits)} == {
        "storage_blocks": 4,
        "image_units": 4,
        "invocations": 128,
        "local_size": (128, 128, 64),
        "groups": (65535, 65535, 65535),
        "shared_bytes": 16384,
        "block_bytes": 134217728,
        "buffer_texels": 0,
        "large_texels": 0,
        "offset_alignment": 256,
        "texture_size": 2048,
        "size_uniforms": True,
        "profile": UNKNOWN,
        "simd_lanes": 8,
        "store_loops": False,
        "chain_blocks": 0,
        "chain_images": 0,
        "loop_passes": (1 << 31) - 1,
        "wrong_ops": (),
    }


def test_a_chain_needs_two_buffers_beside_its_input() -> None:
    sketch = Sketch(np.random.default_rng(0))
    x = sketch.feed((1, 8, 8, 4))
    for _ in range(6):
        x = sketch.op("MAX_POOL_2D", [x], filter_width=3, filter_height=3, stride_w=1, stride_h=1)
    plan = plan_of(sketch.build([x]))
    assert len(plan.dispatches) == 6
    assert plan.peak_bytes == sum(plan.buffers) == 3 * (8 * 8 * 16)


def test_an_output_with_a_port_has_its_buffer_alone() -> None:
    """The elements outside come from a tensor of three channels."""
    sketch = Sketch(np.random.default_rng(0))
    x = y = sketch.feed((1, 8, 8, 3))
    for _ in range(6):
        y = sketch.op("MAX_POOL_2D", [y], filter_width=3, filter_height=3, stride_w=1, stride_h=1)
    lowered = lower_graph(read_model(sketch.build([y])), FLOOR)
    plan = make_plan(lowered, lowered.steps, FLOOR, ports={y: Elements()})
    for value in (plan.inputs[x], plan.outputs[y], plan.results[y]):
        buffers = [allocation.buffer for allocation in plan.allocations.values()]
        assert buffers.count(plan.allocations[value].buffer) == 1


def test_work_that_nobody_asked_for_is_dropped() -> None:
    sketch = Sketch(np.random.default_rng(0))
    x, unread = sketch.feed((1, 3, 3, 4)), sketch.feed((1, 3, 3, 4))
    pooled = {"filter_width": 1, "filter_height": 1, "stride_w": 1, "stride_h": 1}
    sketch.op("TANH", [sketch.op("MAX_POOL_2D", [x], **pooled)])
    plan = plan_of(sketch.build([sketch.op("RELU", [x])]))
    assert [d.epilogue[0].function for d in plan.dispatches] == ["RELU"]
    assert unread not in plan.inputs


def test_a_reshape_alone_costs_nothing() -> None:
    builder = ModelBuilder()
    x = builder.input((1, 6, 2, 4))
    shape = builder.constant(np.array([3, 4, 4], np.int32))
    y = builder.op("RESHAPE", [x, shape], [(3, 4, 4)])
    plan = plan_of(builder.build([y]))
    assert plan.dispatches == ()
    assert plan.outputs[y] == plan.inputs[x]


def test_a_tensor_may_be_an_output_twice_and_an_input_an_output() -> None:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    y = builder.op("RELU", [x], [(1, 4)])
    plan = plan_of(builder.build([y, x, y]))
    assert list(plan.outputs) == [y]
    assert len(plan.dispatches) == 1


def test_a_plan_of_some_nodes_takes_what_the_others_compute() -> None:
    builder = ModelBuilder()
    x = builder.input((1, 8))
    tensors = [x]
    for op in ("RELU", "TANH", "EXP"):
        tensors.append(builder.op(op, [tensors[-1]], [(1, 8)]))
    lowered = lower_graph(read_model(builder.build(tensors[-1:])), FLOOR)
    plan = make_plan(lowered, [1], FLOOR)
    assert (list(plan.inputs), list(plan.outputs)) == ([tensors[1]], [tensors[2]])
    assert [d.node for d in plan.dispatches] == [1]


def test_nodes_in_another_order_run_after_what_they_read() -> None:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    y = builder.op("RELU", [x], [(1, 4)])
    content = builder.build([builder.op("ADD", [x, builder.op("TANH", [y], [(1, 4)])], [(1, 4)])])
    graph = read_model(content)
    ordered = [node.op for node in graph.nodes]
    for nodes in permutations(graph.nodes):
        mixed = replace(graph, nodes=nodes)
        assert [node.op for node in mixed.in_order] == ordered
        assert not lower_graph(mixed, FLOOR).reasons


def circle() -> bytes:
    builder = ModelBuilder()
    x, y = builder.input((1, 4)), builder.tensor((1, 4))
    z = builder.op("ADD", [x, y], [(1, 4)])
    builder.op("RELU", [z], [y])
    return builder.build([z])


def computed_twice() -> bytes:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    y = builder.op("RELU", [x], [(1, 4)])
    builder.op("TANH", [x], [y])
    return builder.build([y])


@pytest.mark.parametrize(
    ("build", "reason"), [(circle, "nothing computed before it"), (computed_twice, "again")]
)
def test_an_order_that_cannot_run_is_refused(build: Callable[[], bytes], reason: str) -> None:
    with pytest.raises(ModelError, match=reason):
        lower_graph(read_model(build()), FLOOR)


def unsupported(content: bytes, limits: Limits, shapes: dict[int, Sequence[int]]) -> str:
    graph = read_model(content)
    inputs = {index: tuple(shape) for index, shape in shapes.items()}
    (reason,) = lower_graph(graph, limits, inputs).reasons.values()
    return reason


def test_a_tensor_too_large_for_the_device_is_no_gpu_work() -> None:
    builder = ModelBuilder()
    x = builder.input((1, 4))
    content = builder.build([builder.op("RELU", [x], [(1, 4)])])
    reason = unsupported(content, FLOOR, {x: (1 << 23, 5)})
    assert str(16 << 24) in reason
    assert str(1 << 27) in reason
    assert "work groups" in unsupported(content, Limits(groups=(2, 2, 2)), {x: (1 << 16, 4)})


def test_a_weight_too_large_is_named_by_its_shape() -> None:
    b = ModelBuilder()
    x, weights = b.input((1, 6000)), b.constant(np.zeros((6000, 6000), np.float32))
    content = b.build([b.op("FULLY_CONNECTED", [x, weights], [(1, 6000)])])
    reason = unsupported(content, FLOOR, {})
    assert "a constant of shape [6000, 6000], as the GPU reads it, needs 144" in reason
    assert not lower_graph(read_model(content), replace(FLOOR, block_bytes=1 << 28)).reasons


@pytest.mark.parametrize("slices_in_x", [False, True])
def test_a_grid_beyond_the_limits_has_rows(slices_in_x: bool) -> None:
    limits = (7, 5, 9)
    for pixels, slices in ((24, 3), (3, 25), (2, 7), (40, 2)):
        grid = Grid(2 * pixels, 4 * slices, 2, 4, slices_in_x).within(limits)
        along = grid.groups[slices_in_x], grid.groups[not slices_in_x]
        assert all(n <= most for n, most in zip(grid.groups, limits, strict=True)), grid
        divided = along[grid.slices_in_rows] * grid.rows
        rest = along[not grid.slices_in_rows]
        assert divided >= (pixels, slices)[grid.slices_in_rows]
        assert rest == (slices, pixels)[grid.slices_in_rows]


def test_a_plan_prints_as_a_program() -> None:
    plan = plan_of(sketched("conv_then_activation"))
    *lines, total = str(plan).splitlines()
    assert len(lines) == len(plan.dispatches)
    for line, dispatch in zip(lines, plan.dispatches, strict=True):
        assert line.startswith(f"{dispatch.output} = {dispatch.shader}(")
        assert (f"node {dispatch.node}" in line) == (dispatch.node >= 0)
        assert line.endswith(f"  -> {plan.allocations[dispatch.output]}")
    assert total == f"{len(plan.buffers)} buffers, {sum(plan.buffers)} bytes"
    assert "| TANH" in str(plan)


def test_empty_tensors_are_planned_as_float16_too() -> None:
    sketch = Sketch(np.random.default_rng(0))
    axis = sketch.constant(np.array([1], np.int32))
    total = sketch.op("SUM", [sketch.feed((0, 3)), axis], [(0,)], keep_dims=False)
    lowered = lower_graph(read_model(sketch.build([total])), FLOOR)
    assert make_plan(lowered, lowered.steps, FLOOR, half=True).outputs


DIGEST = """
from dataclasses import replace
from hashlib import sha256
from gles_delegate.device import profiles
from gles_delegate.device.limits import Limits
from gles_delegate.model.reader import read_model
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.planning.plan import make_plan
from gles_delegate.shaders.assembly import assemble
from gles_delegate.verification.cases import load_cases

digest = sha256()
for case in load_cases():
    graph = read_model(case.model)
    for profile in (profiles.LLVMPIPE, replace(profiles.V3D, winograd=(1,), winograd_pixels=1)):
        limits = Limits(storage_blocks=6, image_units=5, invocations=1024, profile=profile)
        lowered = lower_graph(graph, limits)
        plan = make_plan(lowered, lowered.steps, limits)
        digest.update(str(plan).encode())
        for dispatch in plan.dispatches:
            digest.update(assemble(dispatch, limits).text.encode())
print(digest.hexdigest())
"""


def test_every_process_plans_alike() -> None:
    """Otherwise a process does not find the programs that another one stored. The order of texts in
    a set differs between processes.
    """
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda seed: run_python(DIGEST, PYTHONHASHSEED=seed), ("1", "2"))
    first, second = (run.stdout for run in runs)
    assert len(first) > 60
    assert first == second
