"""compare and benchmark, as a user of the command line sees them."""

import json
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import gles_delegate as gd
from gles_delegate.bench import comparison as compare
from gles_delegate.cli.group import gles_delegate
from gles_delegate.model.reader import ModelFile, read_model
from gles_delegate.runtime.session import Session
from tests.support.command import call, call_json, saved
from tests.support.lies import lying_driver
from tests.support.oracle import complete
from tests.support.sketch import Sketch
from tests.support.small import check, run, small_model, with_a_detour
from tests.support.tflite_builder import ModelBuilder, quantization


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.tflite", small_model())


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return saved(tmp_path / "mixed.tflite", with_a_detour()[1])


@pytest.mark.parametrize("per_op", [False, True])
def test_compare_agrees(per_op: bool, model: Path, mixed: Path) -> None:
    flags = ["--per-op"] if per_op else []
    text = "tensors agree" if per_op else "the tensor agrees"
    assert text in call("compare", model, *flags)
    data = call_json("compare", mixed, *flags)
    assert data["passed"]
    assert [row["node"] for row in data["tensors"]] == ([0, 1, 4, 5] if per_op else [5])


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """TANH on the GPU does nothing."""
    from gles_delegate.ops.lib import registry

    right = registry._OPS["TANH"]

    def lower(node: Any, options: Any) -> list[Any]:
        return [replace(step, epilogue=()) for step in right.lower(node, options)]

    monkeypatch.setitem(registry._OPS, "TANH", replace(right, lower=lower))


@pytest.mark.parametrize("per_op", [False, True])
@pytest.mark.usefixtures("wrong_tanh")
def test_compare_names_the_first_that_differs(per_op: bool, mixed: Path) -> None:
    flags = ["--per-op"] if per_op else []
    arguments = ["compare", str(mixed), *flags]
    result = CliRunner().invoke(gles_delegate, arguments)
    if per_op:
        assert result.exit_code == 1
        assert "1 of 4 tensors differ, the first is tensor" in result.stdout
        assert "of node 5 TANH: off by" in result.stdout
    else:  # TANH is in the smaller segment, which the CPU runs
        assert result.exit_code == 0


def test_no_bar_is_drawn_into_a_file(model: Path) -> None:
    result = CliRunner().invoke(gles_delegate, ["compare", str(model), "--per-op"])
    assert (result.exit_code, result.stderr) == (0, "")


def test_compare_names_writes_elsewhere(model: Path) -> None:
    assert "each dispatch writes its output, and nothing else" in call("compare", model, "--writes")
    assert call_json("compare", model, "--writes")["writes"] == []
    with lying_driver("if (q >= REGION_PIXELS ||", "if (q >= REGION_PIXELS - 1 ||"):
        result = CliRunner().invoke(gles_delegate, ["compare", str(model), "--writes"])
    assert "leaves bytes of its output unwritten" in result.output
    assert result.exit_code == 1


def test_compare_needs_litert(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert "pip install ai-edge-litert" in call("compare", model, status=1)


def test_compare_with_nan_and_infinity() -> None:
    s = Sketch(np.random.default_rng(0))
    content = complete(s, [s.op("LOG", [s.feed((1, 3))])])
    feeds = {0: np.array([[0, -1, 2]], np.float32)}
    (difference,) = compare.compare_outputs(ModelFile(content), feeds)
    assert difference.passed
    assert difference.error < 1e-6


@pytest.mark.parametrize("compared", [compare.compare_outputs, compare.compare_nodes])
def test_compare_takes_scalars(compared: Callable[..., Iterable[compare.Difference]]) -> None:
    s = Sketch(np.random.default_rng(0))
    content = complete(s, [s.op("SUM", [s.feed((3,)), s.constant(np.array([0], np.int32))])])
    (difference,) = compared(ModelFile(content), {0: np.array([1, 2, 4], np.float32)})
    assert difference.shape == ()
    assert difference.passed


def test_compare_finds_a_wrong_scalar(monkeypatch: pytest.MonkeyPatch) -> None:
    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array += 1

    monkeypatch.setattr(Session, "read", wrong)
    s = Sketch(np.random.default_rng(0))
    content = complete(s, [s.op("SUM", [s.feed((3,)), s.constant(np.array([0], np.int32))])])
    (difference,) = compare.compare_nodes(ModelFile(content), {0: np.array([1, 2, 4], np.float32)})
    assert (difference.error, difference.passed) == (1, False)


@pytest.mark.parametrize(
    ("name", "ops"),
    [
        ("selfie_segmenter", {"HARD_SWISH", "Convolution2DTransposeBias"}),
        ("hair_segmentation", {"MaxPoolingWithArgmax2D", "PRELU"}),
    ],
)
def test_compare_nodes_that_only_xnnpack_has(
    name: str, ops: set[str], real_model: Callable[[str], bytes]
) -> None:
    file = ModelFile(real_model(name))
    differences = list(compare.compare_nodes(file, compare.random_feeds(file)))
    assert {d.op for d in differences} >= ops
    assert "DEQUANTIZE" not in {d.op for d in differences}  # of constants: nothing is computed
    assert not [d for d in differences if not d.passed]


def test_a_published_model(real_model: Callable[[str], bytes], tmp_path: Path) -> None:
    path = saved(tmp_path / "model.tflite", real_model("mobilenet_v1_0.25_128_quant"))
    assert "all 31 tensors agree" in call("compare", path, "--per-op")


def test_a_healthy_8_bit_network_is_judged_node_by_node(
    real_model: Callable[[str], bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its outputs are further from LiteRT's than these are from each other."""
    monkeypatch.setattr(compare, "MARGIN", 0)
    path = saved(tmp_path / "model.tflite", real_model("mobilenet_v1_0.25_128_quant"))
    text = call("compare", path, "--seed", 3)
    assert "as LiteRT's own kernels and XNNPACK may; node by node" in text
    assert "all 31 tensors agree" in text
    data = call_json("compare", path, "--seed", 3)
    (output,) = data["tensors"]
    assert data["passed"]
    assert output["error"] > 1
    assert output["apart"] > 1
    assert all(node["passed"] for node in data["nodes"])


def steep(first: float = 1) -> bytes:
    """Weights of 8 bits, by which LiteRT's kernels are about 1 % apart, and a steep step after.

    Args:
        first: Factor of the first channel, which has no weights.
    """
    s = Sketch(np.random.default_rng(0))
    x, shape = s.input((1, 8, 8, 16), name="x"), (1, 8, 8, 8)
    numbers = s.rng.integers(-127, 128, (8, 3, 3, 16)).astype(np.int8)
    if first != 1:
        numbers[..., 0] = 0
        factors = np.ones(16, np.float32)
        factors[0] = first
        x = s.op("MUL", [x, s.constant(factors)], [(1, 8, 8, 16)])
    weights = s.constant(numbers, quantization=quantization(0.01))
    filters = [weights, s.constant(np.zeros(8, np.float32))]
    y = s.op("CONV_2D", [x, *filters], [shape], stride_w=1, stride_h=1)
    z = s.op("MUL", [y, s.constant(np.float32([1000]))], [shape])
    return s.build([s.op("LOGISTIC", [z], [s.tensor(shape, name="scores")])])


@pytest.mark.parametrize("is_halved", [False, True])
def test_compare_says_where_it_cannot_judge(
    is_halved: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if a wrong result is that of the whole network, and each node is right."""
    path = saved(tmp_path / "model.tflite", steep())
    if is_halved:
        get = gd.Interpreter.get_tensor
        monkeypatch.setattr(gd.Interpreter, "get_tensor", lambda *a: get(*a) / np.float32(2))
    text = call("compare", path, status=3, errors_at="stdout")
    assert "all 3 tensors agree" in text
    assert "cannot judge: rounding" in text
    data = json.loads(call("compare", path, "--json", status=3, errors_at="stdout"))
    (scores,) = data["tensors"]
    assert (data["passed"], scores["passed"]) == (None, False)
    assert scores["apart"] > 0.4
    assert scores["allowed"] == pytest.approx(0.25)
    assert len(data["nodes"]) == 3


def test_compare_cannot_judge_nodes_of_rounded_activations(tmp_path: Path) -> None:
    path = saved(tmp_path / "model.tflite", steep(20))
    text = call("compare", path, status=3, errors_at="stdout")
    assert "1 of 4 tensors differ" in text
    assert "cannot judge: rounding" in text
    wrong = saved(tmp_path / "wrong.tflite", steep(1000))
    assert "cannot judge" not in call("compare", wrong, status=1, errors_at="stdout")


def test_a_halved_8_bit_output_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 64), "int8", quantization=quantization(0.1, -128))
    kind = quantization(1 / 256, -128)
    y = s.op("LOGISTIC", [x], [s.tensor((1, 64), "int8", quantization=kind)])
    path = saved(tmp_path / "model.tflite", s.build([y]))
    get = gd.Interpreter.get_tensor
    halved = lambda *a: ((get(*a).astype(int) - 128) // 2).astype(np.int8)  # noqa: E731
    monkeypatch.setattr(gd.Interpreter, "get_tensor", halved)
    assert "cannot judge" in call("compare", path, status=3, errors_at="stdout")


def test_a_wrong_8_bit_node_is_found(wrong_tanh: None, tmp_path: Path) -> None:
    s = Sketch(np.random.default_rng(0))
    kinds = [quantization(0.05, 3), quantization(1 / 128), quantization(1 / 128)]
    x = s.input((3, 40), "int8", quantization=kinds[0])
    results = [s.tensor((3, 40), "int8", quantization=kind) for kind in kinds[1:]]
    s.op("TANH", [x], [results[0]])
    s.op("RELU", [results[0]], [results[1]])
    path = saved(tmp_path / "model.tflite", s.build(results[1:]))
    text = call("compare", path, status=1, errors_at="stdout")
    assert "1 of 2 tensors differ, the first is tensor 1 " in text


def test_benchmark(model: Path, tmp_path: Path) -> None:
    files = ("--picture", tmp_path / "ops.png")
    peers = "litert,litert-builtin"
    text = call("benchmark", model, "--runs", 7, "--against", peers, "--profile", *files)
    assert "2 of 2 nodes run on the GPU" in text
    assert "litert-builtin" in text
    assert "the CPU's part " in text
    with Image.open(tmp_path / "ops.png") as picture:
        assert picture.width > 500
    data = call_json("benchmark", model, "--runs", 7, "--against", "litert", "--profile")
    assert 0 < data["runs"]["min"] <= data["runs"]["p50"] <= data["runs"]["max"]
    assert data["peers"]["litert"]["ratio"] == pytest.approx(
        data["runs"]["p50"] / data["peers"]["litert"]["p50"]
    )
    assert 0 < data["cpu"] < data["first"]
    assert data["memory"]["constants"] > 7 * 5 * 4
    (product,) = data["profile"]["dispatches"]
    assert (product["op"], product["shader"]) == ("FULLY_CONNECTED and 1 more", "chain")
    assert product["flops"] == 2 * 3 * 5 * 7
    assert product["gflops"] == pytest.approx(product["flops"] / product["seconds"] / 1e9)


def test_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    name, b = "\x1b[31m$x{$\x9b", ModelBuilder()
    y = b.op("NEG", [b.input((1, 4), name=name)], [b.tensor((1, 4), name=name)])
    model, picture = saved(tmp_path / "$x{$.tflite", b.build([y])), tmp_path / "p.png"
    np.save(tmp_path / "x.npy", np.zeros((1, 4), np.float32))
    for arguments in (
        ("run", model, "--input", tmp_path / "x.npy"),
        ("compare", model),
        ("benchmark", model, "--runs", 2, "--profile", "--picture", picture),
    ):
        assert not re.search(r"[\0-\x09\x0b-\x1f\x7f-\x9f]", call(*arguments))
    assert picture.exists()


@pytest.mark.parametrize("command", ["benchmark --against litert --runs 2", "compare"])
def test_litert_s_notices_are_not_shown(command: str, model: Path) -> None:
    """In another process, as LiteRT writes each notice once."""
    name, *options = command.split()
    arguments = [sys.executable, "-m", "gles_delegate", name, str(model), *options]
    ended = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ended.stderr == ""
    if name == "benchmark":
        times = r"\d+\.\d times as (long|fast) as LiteRT's CPU kernels \([\d.e-]+ ms\)"
        assert re.match(rf"model takes [\d.]+ ms on [^,\n]+, {times}\n", ended.stdout)


def test_standard_error_may_be_closed(model: Path) -> None:
    arguments = [sys.executable, "-m", "gles_delegate", "compare", str(model)]
    command = f"{shlex.join(arguments)} 2>&-"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("the tensor agrees\n")


def test_benchmark_of_a_mixed_model(mixed: Path) -> None:
    data = call_json("benchmark", mixed, "--runs", 2, "--profile", "--half")
    assert {d["op"] for d in data["profile"]["dispatches"]} == {"RELU and 1 more"}
    assert "in 1 segment" in data["report"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "x"], "expected peers from ['litert', 'litert-builtin'], found 'x'"),
        (["--runs", "0"], "0 is not in the range x>=1"),
        (["--warmup", "-1"], "-1 is not in the range x>=0"),
        (["--threads", "0"], "0 is not in the range x>=1"),
    ],
)
def test_benchmark_refuses(arguments: list[str], message: str, model: Path) -> None:
    assert message in call("benchmark", model, *arguments, status=2)


def test_a_report_says_how_far_networks_are_from_litert() -> None:
    networks = call_json("report", "--quick")["networks"]
    for speed in networks.values():
        assert 0 < speed["agreement"]["largest"] < 1e-5
        assert speed["agreement"]["passed"]


def test_a_run_without_work_leaves_the_model_as_it_was() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        with pytest.raises(gd.DelegateError, match="not prepared"):
            delegate.profile()
        interpreter.allocate_tensors()
        with delegate.bound.first.idle():
            assert not run(interpreter).any()
        delegate.profile()
        check(interpreter)


def test_no_random_strings() -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((2,), name="text")
    content = s.build([s.op("NEG", [x], [(2,)])])
    graph = read_model(content)
    strings = replace(graph, tensors=(replace(graph.tensors[0], dtype="string"), graph.tensors[1]))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelFile, "graph", lambda file: strings)
        with pytest.raises(gd.ModelError, match="no random string for input 0 'text'"):
            compare.random_feeds(ModelFile(content))


def test_deep_8_bit_networks_are_judged_by_litert_s_own_kernels(
    real_model: Callable[[str], bytes], tmp_path: Path
) -> None:
    model = saved(tmp_path / "m.tflite", real_model("tf2_mobilenet_v2_1.0_224_ptq"))
    (tensor,) = call_json("compare", model)["tensors"]
    assert 1 < tensor["error"] <= tensor["allowed"] == 2 * tensor["apart"]
    assert tensor["passed"]
