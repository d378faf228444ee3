"""Signatures run their subgraphs, in both hosts."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter as LiteRt
from numpy.typing import NDArray

import gles_delegate as gd
from tests.support.hosts import Host, both_hosts
from tests.support.oracle import in_ours
from tests.support.tflite_builder import ModelBuilder

Floats = NDArray[np.float32]
SHAPE = (2, 5)
X = np.linspace(-1, 1, 10, dtype=np.float32).reshape(SHAPE)


def weights(seed: int) -> Floats:
    return np.random.default_rng(seed).standard_normal((5, 5)).astype(np.float32)


def layers(count: int, seed: int) -> Callable[[ModelBuilder], list[int]]:
    """FULLY_CONNECTED with its own weights, then EXP: all subgraphs have the same indices."""

    def build(b: ModelBuilder) -> list[int]:
        inputs = [b.input(SHAPE, name="x"), b.constant(weights(seed))]
        y = b.op("FULLY_CONNECTED", [*inputs, b.constant(np.zeros(5, np.float32))], [SHAPE])
        for _ in range(count - 1):
            y = b.op("TANH", [y], [SHAPE])
        return [y]

    return build


def model(*counts: int) -> bytes:
    """Signature i runs subgraph i, which has `counts[i]` nodes; the input is x and the output y."""
    b = ModelBuilder()
    for seed, count in enumerate(counts[1:], 1):
        b.subgraph(layers(count, seed))
    (y,) = layers(counts[0], 0)(b)
    tensors = 0, 3, *range(4, 9)
    signatures = {
        f"number {i}": ({"x": 0}, {"y": tensors[count]}, i) for i, count in enumerate(counts)
    }
    return b.build([y], signatures=signatures)


def expected(content: bytes, key: str, x: Floats) -> Floats:
    result: Floats = LiteRt(model_content=content).get_signature_runner(key)(x=x)["y"]
    return result


def check(interpreter: Any, content: bytes, key: str, x: Floats = X) -> None:
    runner = interpreter.get_signature_runner(key)
    np.testing.assert_allclose(runner(x=x)["y"], expected(content, key, x), rtol=0, atol=1e-5)
    assert tuple(runner.get_input_details()["x"]["shape"]) == x.shape
    assert tuple(runner.get_output_details()["y"]["shape"]) == x.shape


ONE_NODE = gd.GpuDelegateOptions(last_delegate_node_index=0)
"""Subgraphs of more nodes need the CPU."""


@both_hosts
@pytest.mark.parametrize("counts", [(1, 1, 1), (1, 2, 1), (2, 1), (2, 2), (1, 2)])
def test_signatures_of_all_subgraphs(host: Host, counts: tuple[int, ...]) -> None:
    content = model(*counts)
    with gd.GpuDelegate(ONE_NODE, model=content) as delegate:
        interpreter = host(delegate, content)
        theirs = LiteRt(model_content=content)
        assert interpreter.get_signature_list() == theirs.get_signature_list()
        assert interpreter.num_subgraphs() == theirs.num_subgraphs() == len(counts)
        for x in (X, X[:1], np.tile(X, (3, 1))):
            for i in (*range(len(counts)), 0):
                check(interpreter, content, f"number {i}", x)
        nodes = [(n.subgraph, n.index, n.delegated) for n in delegate.report.nodes]
        assert nodes == [(i, n, n == 0) for i, count in enumerate(counts) for n in range(count)]
        assert delegate.report.fully_delegated is (set(counts) == {1})
        assert delegate.report.segments == len(counts)
        assert "subgraph  node" in str(delegate.report)


@both_hosts
def test_a_published_model(host: Host, real_model: Callable[[str], bytes]) -> None:
    content = real_model("litert/multi_signature_model")
    inputs = {"a": np.array([2, 3], np.float32), "b": np.array([5, -7], np.float32)}
    theirs = LiteRt(model_content=content)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        for key in ("add", "mul", "sub"):
            shape = theirs.get_signature_runner(key).get_input_details()["a"]["shape"]
            feeds = {name: np.resize(array, shape) for name, array in inputs.items()}
            wanted = theirs.get_signature_runner(key)(**feeds)["output"]
            runner = interpreter.get_signature_runner(key)
            np.testing.assert_array_equal(runner(**feeds)["output"], wanted)
        assert delegate.report.fully_delegated


def test_the_host_of_each_subgraph() -> None:
    content = model(1, 2)
    with gd.GpuDelegate(ONE_NODE) as delegate:
        interpreter = in_ours(delegate, content)
        assert interpreter._litert is None
        check(interpreter, content, "number 1")
        assert interpreter._litert is not None
        check(interpreter, content, "number 0")


def test_tensors_of_other_subgraphs() -> None:
    content = model(1, 1, 2)
    theirs = LiteRt(model_content=content)
    with gd.GpuDelegate(ONE_NODE) as delegate:
        interpreter = in_ours(delegate, content)
        for i in range(3):
            names = [
                [(d["name"], d["index"], *d["shape"]) for d in host.get_tensor_details(i)]
                for host in (interpreter, theirs)
            ]
            assert names[0] == names[1]
        assert np.array_equal(interpreter.get_tensor(1, 1), weights(1))
        with pytest.raises(ValueError, match="not ready: call its signature's runner first"):
            interpreter.get_tensor(0, 1)
        with pytest.raises(ValueError, match="subgraph_index is out of range: there are 3"):
            interpreter.get_tensor_details(3)


def test_a_subgraph_without_a_signature() -> None:
    b = ModelBuilder()
    b.subgraph(layers(1, 1))
    content = b.build(layers(1, 0)(b))
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        assert [d["index"] for d in interpreter.get_tensor_details(1)] == [0, 1, 2, 3]
        assert [n.subgraph for n in delegate.report.nodes] == [0]
        with pytest.raises(ValueError, match=r"expected one of the subgraphs \[0\], found 1"):
            interpreter.get_tensor(0, 1)


def test_wrong_calls() -> None:
    content = model(1, 2)
    with gd.GpuDelegate() as delegate:
        runner = in_ours(delegate, content).get_signature_runner("number 1")
        for inputs in ({}, {"z": X}, {"x": X, "z": X}):
            with pytest.raises(ValueError, match=r"expected the inputs \['x'\]"):
                runner(**inputs)
        with pytest.raises(ValueError, match="expected the dtype float32, found float64"):
            runner(x=X.astype(np.float64))
        with pytest.raises(gd.UnsupportedModelError, match="1 of 2 nodes of subgraph 1 cannot"):
            runner(x=X[:, :4])


@both_hosts
@pytest.mark.parametrize("is_whole", [True, False])
def test_names_have_litert_s_order(host: Host, is_whole: bool) -> None:
    """Sorted, whatever their order in the file: apps take results by position."""
    b = ModelBuilder()
    inputs = {f"args_{i}": b.input((1, 2), name=f"x{i}") for i in (2, 10, 0, 1)}
    outputs = {}
    for i, x in zip((11, 0, 2, 1), inputs.values(), strict=True):
        last = b.op("ADD", [x, b.constant(np.full((1, 2), i, np.float32))], [(1, 2)])
        outputs[f"output_{i}"] = last
    content = b.build([*outputs.values()], signatures={"main": (inputs, outputs, 0)})
    options = gd.GpuDelegateOptions() if is_whole else ONE_NODE
    feeds = {name: np.float32([[i, -i]]) for i, name in enumerate(inputs)}
    with gd.GpuDelegate(options, model=content) as delegate:
        ours, theirs = host(delegate, content), LiteRt(model_content=content)
        assert ours.get_signature_list() == theirs.get_signature_list()
        listed = ours.get_signature_list()["main"]
        assert listed["outputs"] == ["output_0", "output_1", "output_11", "output_2"]
        runners = [each.get_signature_runner() for each in (ours, theirs)]
        details = [(r.get_input_details(), r.get_output_details()) for r in runners]
        for one, other in zip(*details, strict=True):
            assert [*one] == [*other]
            assert [d["index"] for d in one.values()] == [d["index"] for d in other.values()]
        actual, expected = (runner(**feeds) for runner in runners)
        assert [*actual] == [*expected]
        for one, other in zip(actual.values(), expected.values(), strict=True):
            np.testing.assert_array_equal(one, other)


def test_without_litert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures that need no CPU run."""
    content = model(1, 2)
    wanted = expected(content, "number 0", X)
    monkeypatch.setitem(sys.modules, "ai_edge_litert", None)
    with gd.GpuDelegate(ONE_NODE) as delegate:
        interpreter = in_ours(delegate, content)
        result = interpreter.get_signature_runner("number 0")(x=X)["y"]
        np.testing.assert_allclose(result, wanted, rtol=0, atol=1e-5)
        with pytest.raises(gd.UnsupportedModelError, match=r"of subgraph 1 .*not installed"):
            interpreter.get_signature_runner("number 1")


@both_hosts
def test_all_entry_points_must_run_where_all_nodes_must(host: Host) -> None:
    options = gd.GpuDelegateOptions(last_delegate_node_index=0, require_full_delegation=True)
    content = model(1, 2)
    with (
        gd.GpuDelegate(options, model=content) as delegate,
        pytest.raises(gd.UnsupportedModelError, match="1 of 2 nodes of subgraph 1 cannot run"),
    ):
        host(delegate, content)


@pytest.mark.parametrize("preference", ["FAST_SINGLE_ANSWER", "SUSTAINED_SPEED"])
def test_subgraphs_share_a_store(tmp_path: Path, preference: str) -> None:
    """Tensors of equal indices have other weights."""
    content = model(1, 1)
    options = gd.GpuDelegateOptions(
        inference_preference=getattr(gd.InferencePreference, preference), serialization_dir=tmp_path
    )
    for _ in range(2):
        with gd.GpuDelegate(options) as delegate:
            interpreter = in_ours(delegate, content)
            for i in range(2):
                check(interpreter, content, f"number {i}")
    assert len([*tmp_path.glob("*.gles")]) == 1


@both_hosts
def test_memory_and_profile_have_all_subgraphs(host: Host) -> None:
    content = model(2, 1)
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        before, dispatches = delegate.memory(), len(delegate.profile())
        check(interpreter, content, "number 1")
        assert delegate.memory().constants > before.constants
        assert len(delegate.profile()) > dispatches
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=content, experimental_delegates=[delegate])
        check(interpreter, content, "number 1")
        assert len(delegate.profile()) == dispatches


@both_hosts
def test_subgraphs_share_weights(host: Host) -> None:
    """The same bytes of the file are in one buffer until the last subgraph is released."""

    def build(b: ModelBuilder) -> list[int]:
        x, matrix = b.input(SHAPE, name="x"), b.constant(weights(0))
        bias = b.constant(np.zeros(5, np.float32))
        b.tensors[matrix]["buffer"], b.tensors[bias]["buffer"] = 1, 2
        return [b.op("FULLY_CONNECTED", [x, matrix, bias], [SHAPE])]

    b = ModelBuilder()
    b.subgraph(build)
    outputs = build(b)
    signatures = {f"number {i}": ({"x": 0}, {"y": 3}, i) for i in range(2)}
    content = b.build(outputs, signatures=signatures)
    wide = np.concatenate([X, X])
    with gd.GpuDelegate(model=content) as delegate:
        interpreter = host(delegate, content)
        sizes = []
        for key, x in (("number 0", X), ("number 1", X), ("number 0", wide), ("number 1", wide)):
            check(interpreter, content, key, x)
            sizes.append(delegate.memory().constants)
        assert sizes == sizes[:1] * 4


def test_runners_go_on_with_another_delegate() -> None:
    content = model(1, 1)
    with gd.GpuDelegate() as delegate:
        interpreter = in_ours(delegate, content)
        check(interpreter, content, "number 1")
        runner = interpreter.get_signature_runner("number 1")
    with pytest.raises(gd.DelegateError, match="closed"):
        runner(x=X)
    with gd.GpuDelegate() as delegate:
        interpreter.modify_graph_with_delegate(delegate)
        np.testing.assert_allclose(
            runner(x=X)["y"], expected(content, "number 1", X), rtol=0, atol=1e-5
        )
