"""Composites run on the GPU by the nodes of their decomposition."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.device.limits import Limits
from gles_delegate.errors import ModelError
from gles_delegate.model.dtypes import SCHEMA_NUMBERS
from gles_delegate.model.reader import read_model
from gles_delegate.planning import inlining
from gles_delegate.planning.lowering import lower_graph
from gles_delegate.shaders.dispatch import Dispatch
from tests.support.hosts import Host, both_hosts, run_resized
from tests.support.oracle import (
    assert_close,
    complete,
    in_litert,
    litert_interpreter,
    run,
    run_litert,
)
from tests.support.random_graphs import random_graph
from tests.support.schema import pack_model
from tests.support.sketch import Sketch
from tests.support.tflite_builder import NO_INPUT, ModelBuilder, quantization

SHAPE = (2, 5, 6)


def sketch() -> Sketch:
    return Sketch(np.random.default_rng(0))


def rms_norm(b: ModelBuilder) -> list[int]:
    """Over the last dimension, with scales for it as the second input."""
    x, scales = b.input(SHAPE), b.input(SHAPE[-1:])
    axis, epsilon = b.constant(np.array([-1], np.int32)), b.constant(np.array(1e-6, np.float32))
    mean = b.op("MEAN", [b.op("MUL", [x, x], [SHAPE]), axis], [(2, 5, 1)], keep_dims=True)
    scaled = b.op("MUL", [x, b.op("RSQRT", [b.op("ADD", [mean, epsilon], [(2, 5, 1)])])], [SHAPE])
    return [b.op("MUL", [scaled, scales], [SHAPE])]


def softmax(b: ModelBuilder) -> list[int]:
    """rms_norm with constant scales: a composite inside a composite."""
    x = b.input(SHAPE)
    scales = b.constant(np.linspace(-1, 1, SHAPE[-1], dtype=np.float32))
    normal = b.composite(b.subgraph(rms_norm), [x, scales], [SHAPE])
    exp = b.op("EXP", [normal], [SHAPE])
    axis = b.constant(np.array([2], np.int32))
    total = b.op("SUM", [exp, axis], [(2, 5, 1)], keep_dims=True)
    return [b.op("DIV", [exp, total], [SHAPE])]


def flat(b: ModelBuilder) -> list[int]:
    """All rows as one, by the shape of what the GPU computes."""
    x = b.op("EXP", [b.input(SHAPE)], [SHAPE])
    shape = b.op("SHAPE", [x], [b.tensor((3,), np.int32)], out_type=SCHEMA_NUMBERS["int32"])
    parts = [b.constant(np.array([n], np.int32)) for n in (2, 3, 1)]
    channels = b.op("STRIDED_SLICE", [shape, *parts], [b.tensor((1,), np.int32)])
    rows = b.constant(np.array([-1], np.int32))
    new = b.op("CONCATENATION", [rows, channels], [b.tensor((2,), np.int32)], axis=0)
    return [b.op("RESHAPE", [x, new], [(10, 6)])]


def with_doubles(b: ModelBuilder) -> list[int]:
    """An op that the GPU does not take, after one that it takes."""
    x = b.op("ABS", [b.input(SHAPE)], [SHAPE])
    doubles = b.op("CAST", [x], [b.tensor(SHAPE, np.float64)])
    return [x, b.op("CAST", [doubles], [b.tensor(SHAPE, np.int32)])]


def quantized(b: ModelBuilder) -> list[int]:
    shape = b.input(SHAPE, np.int8, quantization=quantization(0.1, 3))
    output = b.tensor(SHAPE, np.int8, quantization=quantization(1 / 256, -128))
    return [b.op("LOGISTIC", [shape], [output])]


def nodes(delegate: gd.GpuDelegate) -> list[tuple[str, bool]]:
    return [(node.op, node.delegated) for node in delegate.report.nodes]


def check(host: Host, content: bytes, inputs: Sequence[NDArray[Any]], on_cpu: int = 0) -> None:
    """The composites run on the GPU, all nodes but some, and results are LiteRT's."""
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert len(delegate.report.not_delegated) == on_cpu
        assert all(node.delegated for node in delegate.report.nodes if "COMPOSITE" in node.op)
        theirs = litert_interpreter(content)
        for turn in (inputs, [-array for array in inputs]):
            assert_close(run(interpreter, turn), run(theirs, turn))
        for time in delegate.profile().dispatches:
            assert time.name


@both_hosts
@pytest.mark.parametrize("name", ["group_norm_2_groups_op", "l2_norm_composite"])
def test_models_of_litert(name: str, host: Host, real_model: Callable[[str], bytes]) -> None:
    content = real_model(f"litert/{name}")
    rng = np.random.default_rng(0)
    details = litert_interpreter(content).get_input_details()
    check(host, content, [rng.normal(size=d["shape"]).astype(np.float32) for d in details])


@both_hosts
@pytest.mark.parametrize("mixed", [False, True])
def test_nested_and_twice(host: Host, mixed: bool) -> None:
    s = sketch()
    body = s.subgraph(softmax)
    x = s.feed(SHAPE)
    y = s.op("RELU", [s.composite(body, [x], [SHAPE])], [SHAPE])
    z = s.composite(body, [s.op("SUB", [x, y], [SHAPE])], [SHAPE])
    outputs = [s.op("MUL", [z, y], [SHAPE]), y]
    if mixed:
        outputs.append(
            s.op("CAST", [s.op("CAST", [z], [s.tensor(SHAPE, np.float64)])], [s.tensor(SHAPE)])
        )
    check(host, s.build(outputs), s.feeds, 2 * mixed)


@both_hosts
@pytest.mark.parametrize("seed", range(6))
def test_a_random_graph_as_one_composite(host: Host, seed: int) -> None:
    s, outputs = random_graph(random.Random(seed))
    complete(s, outputs)
    tables = s.model(outputs)
    (body,) = tables["subgraphs"]
    main = ModelBuilder()
    main.tensors += [s.tensors[i] for i in (*body["inputs"], *outputs)]
    main._inputs += range(len(s.feeds))
    results = range(len(s.feeds), len(main.tensors))
    main._buffers, main._codes, main._subgraphs = s._buffers, s._codes, [body]
    main.composite(1, main._inputs, results)
    check(host, main.build(results), s.feeds)


@both_hosts
def test_what_follows_runs_in_the_last_dispatch(host: Host) -> None:
    s = sketch()
    x, scales = s.feed(SHAPE), s.constant(s.normal(SHAPE[-1:]))
    y = s.composite(s.subgraph(rms_norm), [x, scales], [SHAPE])
    content = s.build([s.op("RELU", [y], [SHAPE])])
    check(host, content, s.feeds)
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        names = [time.name for time in delegate.profile().dispatches]
        assert [name for name in names if "RELU" in name] == [
            "0 STABLEHLO_COMPOSITE + 1 RELU tensor_3"
        ]
        del interpreter


@both_hosts
def test_resizing(host: Host) -> None:
    s = sketch()
    y = s.composite(s.subgraph(flat), [s.feed(SHAPE)], [(10, 6)])
    content = s.build([s.op("TANH", [y], [(10, 6)])])
    check(host, content, s.feeds)
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert delegate.report.fully_delegated
        theirs = litert_interpreter(content)
        for shape in ((1, 3, 6), (4, 2, 5), (0, 5, 6), SHAPE):
            inputs = [s.normal(shape)]
            assert_close(run_resized(interpreter, inputs), run_resized(theirs, inputs))


@both_hosts
def test_8_bit_tensors(host: Host) -> None:
    s = sketch()
    of = dict(values=s.normal(SHAPE, 40), dtype="int8")
    x = s.feed(SHAPE, **of)  # type: ignore[arg-type]
    s.tensors[x]["quantization"] = quantization(0.1, 3)
    y = s.tensor(SHAPE, np.int8, quantization=quantization(1 / 256, -128))
    check(host, s.build([s.composite(s.subgraph(quantized), [x], [y])]), s.feeds)


@both_hosts
def test_an_unsupported_node_inside_keeps_all_on_the_cpu(host: Host) -> None:
    s = sketch()
    outputs = [s.tensor(SHAPE), s.tensor(SHAPE, np.int32)]
    s.composite(s.subgraph(with_doubles), [s.op("NEG", [s.feed(SHAPE)], [SHAPE])], outputs)
    content = s.build([s.op("SQRT", outputs[:1], [SHAPE]), outputs[1]])
    options = gd.GpuDelegateOptions(max_delegated_partitions=9)
    with gd.GpuDelegate(options, model=content if host is in_litert else None) as delegate:
        interpreter = host(delegate, content)
        assert nodes(delegate) == [("NEG", True), ("STABLEHLO_COMPOSITE", False), ("SQRT", True)]
        ((_, _, why),) = delegate.report.not_delegated
        assert why.startswith("CAST of its subgraph: output 0 is float64")
        assert_close(run(interpreter, s.feeds), run_litert(content, s.feeds))


def reason(b: ModelBuilder, outputs: Sequence[int]) -> str:
    lowered = lower_graph(read_model(b.build(outputs)), Limits())
    (why,) = lowered.reasons.values()
    assert not lowered.steps
    return why


def test_an_unsupported_node_after_a_supported_one() -> None:
    b = ModelBuilder()
    outputs = [b.tensor(SHAPE), b.tensor(SHAPE, np.int32)]
    b.composite(b.subgraph(with_doubles), [b.input(SHAPE)], outputs)
    assert "float64" in reason(b, outputs)


def test_recursion_is_refused() -> None:
    def build(b: ModelBuilder) -> list[int]:
        return [b.composite(1, [b.op("EXP", [b.input(SHAPE)], [SHAPE])], [SHAPE])]

    b = ModelBuilder()
    y = b.composite(b.subgraph(build), [b.input(SHAPE)], [SHAPE])
    assert "contains itself" in reason(b, [y])


def test_a_decomposition_into_too_many_nodes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def twice(depth: int) -> Callable[[ModelBuilder], list[int]]:
        def build(b: ModelBuilder) -> list[int]:
            x = b.input(SHAPE)
            if not depth:
                return [b.op("EXP", [x], [SHAPE])]
            body = b.subgraph(twice(depth - 1))
            return [b.composite(body, [b.composite(body, [x], [SHAPE])], [SHAPE])]

        return build

    b = ModelBuilder()
    y = b.composite(b.subgraph(twice(6)), [b.input(SHAPE)], [SHAPE])
    lowered = lower_graph(read_model(b.build([y])), Limits())
    assert len([step for step in lowered.steps[0] if isinstance(step, Dispatch)]) == 64
    monkeypatch.setattr(inlining, "MAX_ADDED", 300)
    assert "too large" in reason(b, [y])


@pytest.mark.parametrize(
    ("why", "build"),
    [
        ("2 outputs and 1 of its subgraph", lambda b: [b.input(SHAPE)] * 2),
        ("1 inputs and 0 of its subgraph", lambda b: [b.constant(np.ones(3, np.float32))]),
        ("another type", lambda b: [b.op("CAST", [b.input(SHAPE, np.int32)], [b.tensor(SHAPE)])]),
        ("variables", lambda b: [b.op("ADD", [b.input(SHAPE), b.variable(SHAPE)], [SHAPE])]),
    ],
)
def test_odd_decompositions_are_refused(
    why: str, build: Callable[[ModelBuilder], list[int]]
) -> None:
    b = ModelBuilder()
    y = b.composite(b.subgraph(build), [b.input(SHAPE)], [SHAPE])
    assert why in reason(b, [y])


@both_hosts
def test_results_that_are_inputs_or_constants(host: Host) -> None:
    def build(b: ModelBuilder) -> list[int]:
        x = b.input(SHAPE)
        shape = b.op("SHAPE", [x], [b.tensor((3,), np.int32)], out_type=2)
        return [x, b.op("EXP", [x], [SHAPE]), x, shape, b.constant(np.ones(3, np.float32))]

    s = sketch()
    types = ((3,), np.int32), ((3,), np.float32)
    outputs = [*(s.tensor(SHAPE) for _ in range(3)), *(s.tensor(*options) for options in types)]
    s.composite(s.subgraph(build), [s.op("NEG", [s.feed(SHAPE)], [SHAPE])], outputs)
    # LiteRT's own composites return no constants, and inputs with a crash.
    content = s.build([*outputs, s.op("ABS", [outputs[2]], [SHAPE])])
    with gd.GpuDelegate(model=content if host is in_litert else None) as delegate:
        results = run(host(delegate, content), s.feeds)
        assert delegate.report.fully_delegated
    x = -s.feeds[0]
    ones = np.ones(3, np.float32)
    assert_close(results, [x, np.exp(x), x, np.array(SHAPE, np.int32), ones, np.abs(x)])


@pytest.mark.parametrize("outside", [False, True])
def test_an_input_left_out(outside: bool) -> None:
    def build(b: ModelBuilder) -> list[int]:
        x, weights, bias = b.input((2, 6)), b.input((3, 6)), b.input((3,))
        return [b.op("FULLY_CONNECTED", [x, weights, bias if outside else NO_INPUT], [(2, 3)])]

    b = ModelBuilder()
    weights, bias = (b.constant(np.ones(shape, np.float32)) for shape in ((3, 6), (3,)))
    inputs = [b.input((2, 6)), weights, NO_INPUT if outside else bias]
    y = b.composite(b.subgraph(build), inputs, [(2, 3)])
    lowered = lower_graph(read_model(b.build([y])), Limits())
    assert not lowered.reasons


def test_an_input_that_is_assigned_to_is_refused() -> None:
    s = sketch()

    def build(b: ModelBuilder) -> list[int]:
        x, before, old = (b.input((2, 6)) for _ in range(3))
        weights = b.constant(s.normal((24, 12))), b.constant(s.normal((24,)))
        outputs = [(2, 6), (2, 6), (2, 12), (2, 24)]
        inputs = [x, before, *weights, old]
        options = dict(kernel_type="BASIC", fused_activation_function="TANH")
        return [b.op("LSTM", inputs, outputs, **options)]

    y = s.composite(s.subgraph(build), [s.feed((2, 6)) for _ in range(3)], [(2, 6)])
    assert reason(s, [y]) == "LSTM of its subgraph: it assigns to an input; expected a variable"


def test_one_tensor_for_two_inputs_is_refused() -> None:
    def build(b: ModelBuilder) -> list[int]:
        b._inputs += [b.input(SHAPE)]
        return [b.op("EXP", [0], [SHAPE])]

    b = ModelBuilder()
    y = b.composite(b.subgraph(build), [b.input(SHAPE), b.input(SHAPE)], [SHAPE])
    assert "two inputs in one tensor" in reason(b, [y])


def test_a_composite_without_outputs() -> None:
    b = ModelBuilder()
    x = b.input(SHAPE)
    b.composite(b.subgraph(lambda inner: [inner.input(SHAPE)][1:]), [x], [SHAPE])
    tables = b.model([x])
    tables["subgraphs"][0]["operators"][0]["outputs"] = []
    (why,) = lower_graph(read_model(pack_model(tables)), Limits()).reasons.values()
    assert "no outputs" in why


def composite_of(build: Callable[[ModelBuilder], Sequence[int]], subgraph: int = 1) -> bytes:
    b = ModelBuilder()
    b.subgraph(build)
    return b.build([b.composite(subgraph, [b.input(SHAPE)], [SHAPE])])


@pytest.mark.parametrize("subgraph", [-1, 2])
def test_a_subgraph_that_does_not_exist(subgraph: int) -> None:
    content = composite_of(lambda b: [b.op("EXP", [b.input(SHAPE)], [SHAPE])], subgraph)
    with pytest.raises(ModelError, match=f"subgraph {subgraph} does not exist; there are 2"):
        read_model(content)


def test_damage_in_a_decomposition() -> None:
    content = composite_of(lambda b: [b.op("ADD", [b.input(SHAPE), 7], [SHAPE])])
    with pytest.raises(ModelError, match=r"in subgraph 1, node 0 ADD's inputs name tensor 7"):
        lower_graph(read_model(content), Limits())
    content = composite_of(lambda b: [b.op("ADD", [b.input(SHAPE), b.tensor(SHAPE)], [SHAPE])])
    with pytest.raises(ModelError, match=r"in subgraph 1, node 0 ADD reads tensor 1, which"):
        lower_graph(read_model(content), Limits())
