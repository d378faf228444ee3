"""The command line, as a user sees it."""

from __future__ import annotations

import json
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
from gles_delegate import compare
from gles_delegate.cli import main
from tests.gl.small import INPUT, expected, small_model
from tests.litert.test_mixed import with_a_detour
from tests.sketch import Sketch

pytestmark = pytest.mark.usefixtures("gl")


def call(*arguments: object, status: int = 0) -> str:
    """What a command prints; what it says on standard error if it fails."""
    result = CliRunner().invoke(main, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == status, result.output
    return result.stdout if status == 0 else result.stderr


def call_json(*arguments: object) -> Any:
    return json.loads(call(*arguments, "--json"))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.tflite"
    path.write_bytes(small_model())
    return path


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    path = tmp_path / "mixed.tflite"
    path.write_bytes(with_a_detour()[1])
    return path


def picture_model() -> bytes:
    """NEG of a picture, and the picture in uint8 as it is."""
    s = Sketch(np.random.default_rng(0))
    x, y = s.input((1, 4, 6, 3), name="real"), s.input((1, 4, 6, 1), np.uint8, name="bytes")
    outputs = [
        s.op("NEG", [x], [(1, 4, 6, 3)]),
        s.op("RESHAPE", [y, s.constant(np.array((1, 4, 6, 1), np.int32))], [(1, 4, 6, 1)]),
    ]
    return s.build(outputs)


def doctor(**environment: str) -> tuple[int, str, Any]:
    """Status, text and JSON of the command in a process of its own."""
    import os

    command = [sys.executable, "-m", "gles_delegate", "doctor"]
    settings = {**os.environ, **environment}
    text = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    data = subprocess.run([*command, "--json"], env=settings, capture_output=True, check=False)
    assert text.returncode == data.returncode
    assert "Traceback" not in text.stderr
    return text.returncode, text.stdout, json.loads(data.stdout)


def test_doctor_on_a_healthy_machine() -> None:
    status, text, data = doctor()
    assert (status, data["healthy"], data["reason"]) == (0, True, "")
    assert text.endswith("The delegate works here.\n")
    assert data["devices"]
    assert data["device"]["renderer"] in text
    assert data["checks"]
    assert all(check["passed"] for check in data["checks"])
    assert data["litert"] in text


def test_doctor_without_egl() -> None:
    status, text, data = doctor(GLES_DELEGATE_EGL="/missing/libEGL.so")
    assert (status, data["healthy"], data["devices"]) == (1, False, [])
    assert "Not usable: GLES_DELEGATE_EGL=/missing/libEGL.so cannot be loaded" in text
    assert "GLES_DELEGATE_EGL=/missing/libEGL.so is set: try without it." in text


@pytest.mark.mesa
def test_doctor_without_opengl_es_3_1() -> None:
    status, text, data = doctor(MESA_GLES_VERSION_OVERRIDE="3.0")
    assert (status, data["healthy"]) == (0, True)
    assert "There is no OpenGL ES 3.1 here; '4.5 (Core Profile)" in text
    assert "MESA_GLES_VERSION_OVERRIDE=3.0 is set: try without it." in text
    status, text, data = doctor(MESA_GLES_VERSION_OVERRIDE="3.0", MESA_GL_VERSION_OVERRIDE="3.3")
    assert (status, data["healthy"]) == (1, False)
    assert "got only 'OpenGL ES 3.0" in text
    assert "apt install" in text
    assert "MESA_GLES_VERSION_OVERRIDE=3.0 is set: try without it." in text


def test_a_wrong_driver_is_not_supported(monkeypatch: pytest.MonkeyPatch) -> None:
    from gles_delegate.session import Session

    right = gd.CompatibilityList()
    assert right.is_delegate_supported_on_this_device
    assert right.best_options_for_this_device == gd.GpuDelegateOptions(precision_loss_allowed=False)
    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array += 1

    monkeypatch.setattr(Session, "read", wrong)
    found = gd.CompatibilityList()
    assert not found.is_delegate_supported_on_this_device
    assert "computes wrong results (FAILED: matrix product, off by" in found.reason


def test_half_storage_is_recommended_where_it_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    from gles_delegate.gl.context import GpuContext

    read_limits = GpuContext._read_limits

    def as_on_a_gpu(self: GpuContext) -> None:
        read_limits(self)
        self.limits = replace(self.limits, half_storage=True, buffer_texels=0)

    monkeypatch.setattr(GpuContext, "_read_limits", as_on_a_gpu)
    best = gd.CompatibilityList(0).best_options_for_this_device
    assert best == gd.GpuDelegateOptions(precision_loss_allowed=True, device_index=0)


def test_inspect(model: Path, mixed: Path) -> None:
    assert "2 of 2 nodes run on the GPU" in call("inspect", model)
    text = call("inspect", mixed)
    assert "node 2" not in text
    assert "2     CAST  1        CPU      output 0 is int64" in text
    assert "segment 0: 2 nodes in" in text
    data = call_json("inspect", mixed, "--partitions", 9)
    assert [part["nodes"] for part in data["segments"]] == [[0, 1], [4, 5]]
    assert all(part["activation_bytes"] > 0 for part in data["segments"])
    assert [node["delegated"] for node in data["report"]["nodes"]] == [1, 1, 0, 0, 1, 1]
    assert "conv_2d(" in call("inspect", model, "--dispatches", "--device", 0)


def test_run_on_arrays(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", INPUT)
    call("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.npy")
    np.testing.assert_allclose(np.load(tmp_path / "y.npy"), expected(), rtol=1e-5, atol=1e-5)
    (output,) = call_json("run", model, "--input", f"x={tmp_path / 'x.npy'}")["outputs"]
    assert (output["shape"], output["argmax"]) == ([3, 7], int(expected().argmax()))
    np.save(tmp_path / "x.npy", INPUT[:2])
    (output,) = call_json("run", model, "--input", tmp_path / "x.npy")["outputs"]
    assert output["shape"] == [2, 7]


def test_run_on_pictures(tmp_path: Path) -> None:
    path = tmp_path / "picture.tflite"
    path.write_bytes(picture_model())
    pixels = np.random.default_rng(0).integers(0, 256, (4, 6, 3)).astype(np.uint8)
    source, grey = tmp_path / "source.png", tmp_path / "grey.png"
    Image.fromarray(pixels).save(source)
    call(
        "run", path, "--input", f"real={source}", "--input", f"1={source}", "--mean", 255,
        "--std", 255, "--output", f"4={grey}", "--output", f"2={tmp_path / 'negative.png'}",
    )  # fmt: skip
    with Image.open(tmp_path / "negative.png") as picture:
        assert np.array_equal(np.asarray(picture), 255 - pixels)
    with Image.open(source) as picture, Image.open(grey) as result:
        assert np.array_equal(np.asarray(result), np.asarray(picture.convert("L")))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["inspect", "{folder}/missing.tflite"], "cannot read the model file"),
        (["inspect", "{folder}"], "Is a directory"),
        (["inspect", "{folder}/x.npy"], "not a .tflite model"),
        (["inspect", "{model}", "--device", "9"], "no device 9"),
        (["run", "{model}"], "missing: 'x' (index 0), float32 [3, 5]"),
        (["run", "{model}", "--input", "y={folder}/x.npy"], "no input 'y'; the model has 'x'"),
        (["run", "{model}", "--input", "{folder}/x.npy"], "found float64 [2]"),
        (["run", "{model}", "--input", "{folder}/a.png"], "a picture suits an input [1, height"),
        (["run", "{model}", "--input", "x=a", "--input", "0=b"], "input 0 is given twice"),
        (["run", "{pictures}", "--input", "a.png"], "the model has 2 inputs: give --input NAME=F"),
        (["run", "{pictures}", "--input", "0=no.png", "--input", "1=no.png"], "No such file"),
        (["run", "{pictures}", "--input", "0={model}", "--input", "1=a"], "cannot identify image"),
    ],
)
def test_what_is_wrong_ends_in_a_sentence(
    arguments: list[str], message: str, tmp_path: Path, model: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    pictures = tmp_path / "pictures.tflite"
    pictures.write_bytes(picture_model())
    filled = [a.format(folder=tmp_path, model=model, pictures=pictures) for a in arguments]
    said = call(*filled, status=1)
    assert said.startswith("gles-delegate: ")
    assert message in said


def test_an_output_that_is_no_picture(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", INPUT)
    arguments = ("run", model, "--input", tmp_path / "x.npy", "--output", tmp_path / "y.png")
    assert "cannot make the picture" in call(*arguments, status=1)


@pytest.mark.parametrize("per_op", [False, True])
def test_compare_agrees(per_op: bool, model: Path, mixed: Path) -> None:
    flags = ["--per-op"] if per_op else []
    assert "tensors agree" in call("compare", model, *flags)
    data = call_json("compare", mixed, *flags)
    assert data["passed"]
    assert [row["node"] for row in data["tensors"]] == ([0, 1, 4, 5] if per_op else [5])


@pytest.fixture
def wrong_tanh(monkeypatch: pytest.MonkeyPatch) -> None:
    """TANH on the GPU does nothing."""
    from gles_delegate.ops import registry

    right = registry._OPS["TANH"]

    def lower(node: Any, options: Any) -> list[Any]:
        return [replace(step, epilogue=()) for step in right.lower(node, options)]

    monkeypatch.setitem(registry._OPS, "TANH", replace(right, lower=lower))


@pytest.mark.parametrize("per_op", [False, True])
@pytest.mark.usefixtures("wrong_tanh")
def test_compare_names_the_first_that_differs(per_op: bool, mixed: Path) -> None:
    flags = ["--per-op"] if per_op else []
    arguments = ["compare", str(mixed), *flags]
    result = CliRunner().invoke(main, arguments)
    if per_op:
        assert result.exit_code == 1
        assert "1 of 4 tensors differ, the first is tensor" in result.stdout
        assert "of node 5 TANH: off by" in result.stdout
    else:  # TANH is in the smaller segment, which the CPU runs
        assert result.exit_code == 0


def test_compare_needs_litert(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ai_edge_litert.interpreter", None)
    assert "gles_delegate[litert]" in call("compare", model, status=1)


def test_compare_with_nan_and_infinity() -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.complete([s.op("LOG", [s.feed((1, 3))])])
    feeds = {0: np.array([[0, -1, 2]], np.float32)}
    (difference,) = compare.compare_outputs(content, feeds)
    assert difference.passed
    assert difference.error < 1e-6


@pytest.mark.parametrize("compared", [compare.compare_outputs, compare.compare_nodes])
def test_compare_takes_scalars(compared: Callable[..., Iterable[compare.Difference]]) -> None:
    s = Sketch(np.random.default_rng(0))
    content = s.complete([s.op("SUM", [s.feed((3,)), s.constant(np.array([0], np.int32))])])
    (difference,) = compared(content, {0: np.array([1, 2, 4], np.float32)})
    assert difference.shape == ()
    assert difference.passed


def test_compare_finds_a_wrong_scalar(monkeypatch: pytest.MonkeyPatch) -> None:
    from gles_delegate.session import Session

    read = Session.read

    def wrong(self: Session, index: int, array: Any) -> None:
        read(self, index, array)
        array += 1

    monkeypatch.setattr(Session, "read", wrong)
    s = Sketch(np.random.default_rng(0))
    content = s.complete([s.op("SUM", [s.feed((3,)), s.constant(np.array([0], np.int32))])])
    (difference,) = compare.compare_nodes(content, {0: np.array([1, 2, 4], np.float32)})
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
    content = real_model(name)
    differences = list(compare.compare_nodes(content, compare.random_feeds(content)))
    assert {d.op for d in differences} >= ops
    assert "DEQUANTIZE" not in {d.op for d in differences}  # of constants: nothing is computed
    assert not [d for d in differences if not d.passed]


@pytest.mark.parametrize("missing", ["click", "PIL", "rich.console"])
def test_without_the_extra(missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; import gles_delegate.cli"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 1
    assert "pip install 'gles_delegate[cli]'" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_published_model(real_model: Callable[[str], bytes], tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(real_model("mobilenet_v1_0.25_128_quant"))
    assert "all 31 tensors agree" in call("compare", path, "--per-op")


def test_benchmark(model: Path, tmp_path: Path) -> None:
    files = ("--csv", tmp_path / "ops.csv", "--picture", tmp_path / "ops.png")
    peers = "litert,litert-builtin"
    text = call("benchmark", model, "--runs", 7, "--against", peers, "--profile", *files)
    assert "2 of 2 nodes run on the GPU" in text
    assert "litert-builtin" in text
    assert "the CPU's part of a run" in text
    header, *rows = (tmp_path / "ops.csv").read_text().splitlines()
    assert header == "node,op,shader,seconds,flops,dispatch"
    assert len(rows) == int(text.splitlines()[-1].split()[0])
    with Image.open(tmp_path / "ops.png") as picture:
        assert picture.width > 500
    data = call_json("benchmark", model, "--runs", 7, "--against", "litert", "--profile")
    assert 0 < data["runs"]["min"] <= data["runs"]["p50"] <= data["runs"]["max"]
    assert data["peers"]["litert"]["ratio"] == pytest.approx(
        data["runs"]["p50"] / data["peers"]["litert"]["p50"]
    )
    assert 0 < data["cpu"] < data["first"]
    assert data["constant_bytes"] > 7 * 5 * 4
    product = next(d for d in data["dispatches"] if d["op"] == "FULLY_CONNECTED" and d["flops"])
    assert product["flops"] == 2 * 3 * 5 * 7
    assert product["gflops"] == pytest.approx(product["flops"] / product["seconds"] / 1e9)


def test_benchmark_of_a_mixed_model(mixed: Path) -> None:
    data = call_json("benchmark", mixed, "--runs", 2, "--profile", "--half")
    assert data["dispatches"]
    assert "in 1 segment" in data["report"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--against", "ncnn"], "expected peers out of ['litert', 'litert-builtin'], found 'ncnn'"),
        (["--runs", "0"], "expected one run or more"),
        (["--device", "9"], "no device 9"),
    ],
)
def test_benchmark_refuses(arguments: list[str], message: str, model: Path) -> None:
    assert message in call("benchmark", model, *arguments, status=1)


def test_a_run_without_work_leaves_the_model_as_it_was() -> None:
    with gd.GpuDelegate() as delegate:
        interpreter = gd.Interpreter(model_content=small_model(), experimental_delegates=[delegate])
        with pytest.raises(gd.DelegateError, match="not prepared"):
            delegate.profile()
        interpreter.allocate_tensors()
        interpreter.set_tensor(0, INPUT)
        with delegate.delegation.idle():
            interpreter.invoke()
            assert not interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).any()
        delegate.profile()
        interpreter.invoke()
        result = interpreter.get_tensor(interpreter.get_output_details()[0]["index"])
        np.testing.assert_allclose(result, expected(), rtol=1e-5, atol=1e-5)
