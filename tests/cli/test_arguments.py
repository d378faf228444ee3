"""The command line where there is no GPU: inspect, and what is wrong with arguments."""

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import click
import numpy as np
import pytest
from PIL import Image

from gles_delegate.cli import benchmark, common, diagram, tensor_files
from gles_delegate.cli.common import ForShell
from gles_delegate.model.graph import Array, Graph, Quantization, Tensor
from gles_delegate.report import ProfileReport
from gles_delegate.runtime.programs import COMPILING, KEEPING
from tests.support.command import call, call_json, picture_model, saved
from tests.support.described_detectors import DescribedDetector
from tests.support.example import EXAMPLES
from tests.support.keras import KerasLayer, keras_model
from tests.support.process import run_python
from tests.support.sketch import Sketch
from tests.support.small import small_model, with_a_detour
from tests.support.tflite_builder import ModelBuilder, quantization


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.tflite", small_model())


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    return saved(tmp_path / "mixed.tflite", with_a_detour()[1])


def test_inspect(model: Path, mixed: Path) -> None:
    text = call("inspect", model)
    assert "2 of 2 nodes run on the GPU" in text
    assert "planned for any device with OpenGL ES 3.1\n" in text
    text = call("inspect", mixed)
    assert "2     CAST  1        CPU      output 0 is float64" in text
    assert "segment 0: 2 nodes in" in text
    data = call_json("inspect", mixed, "--partitions", 9)
    assert [part["nodes"] for part in data["segments"]] == [[0, 1], [4, 5]]
    assert all(0 < part["peak_bytes"] <= part["activation_bytes"] for part in data["segments"])
    assert [node["delegated"] for node in data["report"]["nodes"]] == [1, 1, 0, 0, 1, 1]
    assert "conv_2d(" in call("inspect", model, "--dispatches")


def test_inspect_plans_for_float16(model: Path) -> None:
    half, whole = (call_json("inspect", model, *option) for option in (["--half"], []))
    assert (half["report"]["storage"], whole["report"]["storage"]) == ("float16", "float32")
    assert half["segments"][0]["activation_bytes"] < whole["segments"][0]["activation_bytes"]


def test_inspect_lists_what_a_model_has(tmp_path: Path) -> None:
    b = ModelBuilder()
    b.subgraph(lambda inner: [inner.op("EXP", [inner.input((1, 4))], [(1, 4)])])
    x = b.input((1, 4), np.int8, name="x", quantization=quantization(0.5, 3))
    b.tensors[x]["shape_signature"] = [-1, 4]
    y = b.op("Mystery", [b.op("Mystery", [b.op("NEG", [x], [(1, 4)])], [(1, 4)])], [(1, 4)])
    signatures = {"main": ({"a": x}, {"b": y}), "other": ({"c": 0}, {"d": 1}, 1)}
    model = saved(tmp_path / "m.tflite", b.build([y], signatures=signatures))
    text = call("inspect", model)
    assert "inputs:\n  0 'x' int8 [?, 4], (x - 3) * 0.5\n" in text
    assert "signatures:\n  main: a -> b\n  other: c -> d, subgraph 1\n" in text
    assert "1         0     EXP" not in text
    assert "1     Mystery  1        CPU      the op has no GPU implementation" in text
    assert "1         0     EXP      1        GPU" in call("inspect", model, "--nodes")
    assert "on the CPU: 2 Mystery: the op has no GPU implementation\n" in text
    data = call_json("inspect", model)
    assert [s["key"] for s in data["signatures"]] == ["main", "other"]
    assert data["inputs"] == [{"index": 0, "name": "x", "dtype": "int8", "shape": [1, 4]}]
    assert data["causes"][0]["nodes"] == [1, 2]


EVIL = "\x1b]0;title\a\x1b[31mred\r\x9b2J\u202ex</title>[/b]$"
"""A name that would set a terminal's title and its colors, clear it, and turn the text around."""


def test_names_do_not_control_the_terminal(tmp_path: Path) -> None:
    b = ModelBuilder()
    x = b.input((1, 4), name=EVIL)
    y = b.op(EVIL, [b.op("NEG", [x], [(1, 4)])], [b.tensor((1, 4), name=EVIL)])
    content = b.build([y], signatures={EVIL: ({EVIL: x}, {EVIL: y}, 0)})
    model = saved(tmp_path / "m.tflite", content)
    texts = [
        call("inspect", model, "--nodes", "--dispatches"),
        call("run", model, status=2),
        call("inspect", tmp_path / EVIL.replace("/", ""), status=1),
    ]
    for text in texts:
        assert not re.search(r"[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)
        assert r"\x1b]0;title\x07\x1b[31mred" in text
    assert call_json("inspect", model)["inputs"][0]["name"] == EVIL
    call("inspect", model, "--graph", tmp_path / "g.dot")
    text = (tmp_path / "g.dot").read_text("utf-8")
    assert not re.search(r"[\0-\x09\x0b-\x1f\x7f-\x9f\u202e]", text)


def test_tables_and_pairs_do_not_control_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_table([{"name": f"a\n{EVIL}"}])
    common.print_pairs([("name", EVIL)])
    text = capsys.readouterr().out
    assert text.count(r"\x1b]0;title\x07\x1b[31mred\r\x9b2J\u202ex</title>[/b]$") == 2
    assert text.count("\n") == 3


def test_inspect_of_sizes_that_the_file_leaves_open(tmp_path: Path) -> None:
    s = Sketch(np.random.default_rng(0))
    x = s.input((1, 1, 1, 3))
    s.tensors[x]["shape_signature"] = [1, -1, -1, 3]
    weights = [s.constant(s.normal((4, 3, 3, 3))), s.constant(s.normal((4,)))]
    y = s.op("CONV_2D", [x, *weights], [(1, 1, 1, 4)], padding="VALID", stride_w=1, stride_h=1)
    text = call("inspect", saved(tmp_path / "open.tflite", s.build([y])))
    assert "1 of 1 nodes run on the GPU" in text
    assert "node 0: its segment is planned when the sizes that the file leaves open" in text
    assert "a window of 3 over 1 pixels" in text
    assert "segment 0" not in text


def test_inspect_counts_the_bytes_of_custom_metadata(tmp_path: Path) -> None:
    zeros = np.zeros((1, 2, 4), np.float32)
    detector = DescribedDetector(zeros, zeros, zeros[0])
    data = call_json("inspect", saved(tmp_path / "m.tflite", detector.build()))
    assert data["metadata"]["custom"] == {"DETECTOR_METADATA": len(detector.decoding())}


def test_inspect_shows_metadata() -> None:
    text = call("inspect", EXAMPLES / "models" / "ball_segmenter.tflite")
    assert text.startswith(
        "name: ball segmenter\n"
        "description: finds the ball of the live examples' synthetic camera\n"
        "version: 1\nauthor: gles_delegate\nlicense: Apache-2.0\ninputs:\n"
    )
    assert "float32 [1, 144, 256, 3] - image; an RGB frame; rgb image; (x - 127.5) / 127.5" in text
    assert "; 1 labels: ball\n" in text


def test_inspect_shows_all_models_of_a_bundle(tmp_path: Path) -> None:
    path = tmp_path / "two.task"
    with ZipFile(path, "w") as bundle:
        bundle.writestr("a.tflite", small_model())
        bundle.writestr("b.tflite", with_a_detour()[1])
    text = call("inspect", path)
    assert text.index("\na.tflite\n---") < text.index("2 of 2 nodes") < text.index("\nb.tflite\n")
    assert {*call_json("inspect", path)["models"]} == {"a.tflite", "b.tflite"}


@pytest.mark.parametrize("damage", ["", "old cell"])
def test_why_a_loop_is_unrolled(tmp_path: Path, damage: str) -> None:
    s, _ = keras_model(KerasLayer(damage=damage))
    model = saved(tmp_path / "m.tflite", s.build([len(s.tensors) - 1]))
    lines = [line for line in call("inspect", model).splitlines() if "unrolled" in line]
    assert len(lines) == len(call_json("inspect", model)["unrolled"]) == bool(damage)
    for line in lines:
        assert line.startswith(
            "node 0: its iterations are unrolled, because it is not a recurrent "
        )


def test_inspect_needs_no_gpu(model: Path) -> None:
    environment = {**os.environ, "GLES_DELEGATE_EGL": "/missing/libEGL.so"}
    command = [sys.executable, "-m", "gles_delegate", "inspect", str(model)]
    for extra, status, text in (
        ([], 0, "2 of 2 nodes run on the GPU"),
        (["--device", "0"], 1, "GLES_DELEGATE_EGL=/missing/libEGL.so cannot be loaded"),
    ):
        ended = subprocess.run(
            command + extra, env=environment, capture_output=True, text=True, check=False
        )
        assert ended.returncode == status, ended.stderr
        assert text in ended.stdout + ended.stderr


WRONG = (
    (["inspect", "{folder}/missing.tflite"], "Could not open"),
    (["inspect", "{folder}/cut.tflite"], "was the file cut off?"),
    (["run", "{model}"], "missing: 'x' (index 0), float32 [3, 5]"),
    (
        ["run", "{model}", "--input", "y={folder}/x.npy"],
        "which names no input; the model's inputs are 'x' (ind",
    ),
    (["run", "{model}", "--input", "{folder}/x.npy"], "found float64 [2]"),
    (["run", "{model}", "--input", "{folder}/empty.npy"], "cannot read the array"),
    (["run", "{model}", "--input", "{folder}/zip.npy"], "cannot read the array"),
    (["run", "{model}", "--input", "{folder}/objects.npy"], "cannot read the array"),
    (["run", "{model}", "--input", "{folder}/missing.npy"], "cannot open {folder}/missing.npy: No"),
    (["inspect", "{model}", "--graph", "{folder}/no/a.dot"], "cannot open {folder}/no/a.dot: No"),
    (["run", "{model}", "--input", "{folder}/a.png"], "a picture suits an input [1, height"),
    (["run", "{model}", "--input", "x=a", "--input", "0=b"], "input 0 is given twice: a and b"),
    (["run", "{pictures}", "--input", "a.png"], "found 'a.png'; the model's inputs are 'real' (in"),
    (["run", "{pictures}", "--input", "0=no.png", "--input", "1=no.png"], "No such file"),
    (
        ["run", "{pictures}", "--input", "0={model}", "--input", "1=a"],
        "found bytes of another kind",
    ),
    (["run", "{pictures}", "--input", "0={folder}", "--input", "1=a"], "Is a directory"),
    (
        ["run", "{pictures}", "--input", "0={folder}/v.mp4", "--input", "1=a"],
        "found a video: `gles-delegate watch MODEL --video {folder}/v.mp4` reads it",
    ),
    (["run", "digit_detector", "--input", "{folder}/v.mp4"], "found a video: `gles-delegate watch"),
    (
        ["run", "{pictures}", "--input", "0=https://a.b/c.png", "--input", "1=a"],
        "expected a file, found the address https://a.b/c.png: download the file first",
    ),
    (
        ["watch", "digit_detector", "--picture", "http://a.b/c.png"],
        "found the address http://a.b/c",
    ),
    (["watch", "digit_detector", "--video", "http://a.b/c.mp4"], "found the address http://a.b/c"),
    (
        ["run", "digit_detector", "--input", "digits.jpg", "--labels", "{folder}/labels.txt"],
        "expected a label for each of 9 or 10 classes, found 2, for a YOLO network",
    ),
)


@pytest.mark.parametrize(("arguments", "message"), WRONG)
def test_what_is_wrong_ends_in_a_sentence(
    arguments: list[str], message: str, tmp_path: Path, model: Path
) -> None:
    np.save(tmp_path / "x.npy", np.zeros(2))
    np.save(tmp_path / "objects.npy", np.array([{}], object))
    saved(tmp_path / "empty.npy", b"")
    with (tmp_path / "zip.npy").open("wb") as file:
        np.savez(file, np.zeros(2))
    saved(tmp_path / "v.mp4", b"\0\0\0 ftypisom\0\0\2\0isomiso2")
    saved(tmp_path / "labels.txt", b"a\nb\n")
    saved(tmp_path / "cut.tflite", small_model()[:-20])
    pictures = saved(tmp_path / "pictures.tflite", picture_model())
    filled = [a.format(folder=tmp_path, model=model, pictures=pictures) for a in arguments]
    message = message.format(folder=tmp_path)
    usage = any(
        text in message for text in ("missing: ", "inputs are", "is given twice", "address")
    )
    said = call(*filled, status=2 if usage else 1)
    assert said.startswith("Usage: " if usage else "gles-delegate: ")
    assert message in said
    assert "[Errno" not in said
    error = json.loads(call(*filled, "--json", status=2 if usage else 1, errors_at="stdout"))
    assert list(error) == ["error"]
    assert message in error["error"]


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect",),
        ("frobnicate",),
        ("run", "model", "--std", "0"),
        ("run", "model", "--std", "inf"),
        ("run", "model", "--mean", "nan"),
        ("inspect", "m", "--device=x"),
        ("compare", "m", "--tolerance", "-1"),
        ("compare", "m", "--steps", "-1"),
        ("compare", "m", "--seed", "-1"),
    ],
)
def test_usage_errors_end_with_status_2(arguments: tuple[str, ...]) -> None:
    assert "Usage: " in call(*arguments, status=2)
    assert json.loads(call(*arguments, "--json", status=2, errors_at="stdout"))["error"]


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("predict", "run computes a model's results for a picture, watch for a video"),
        ("detect", "run computes a model's results for a picture, watch for a video"),
        ("track", "watch --track"),
        ("help", "gles-delegate COMMAND --help has the options"),
        ("get", "models get NAME"),
    ],
)
def test_other_tools_names_of_commands(name: str, meant: str) -> None:
    for arguments in ((name,), (name, "run")):
        assert re.search(f"No such command '{name}'; .*{meant}", call(*arguments, status=2))


def test_the_package_s_networks_by_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("digit_detector", "digit_detector.tflite"):
        assert call("inspect", name).startswith("name: digit detector\n")
    saved(tmp_path / "digit_detector", b"mine")  # a file comes first
    assert "expected a .tflite model" in call("inspect", "digit_detector", status=1)
    assert "No such file" in call("inspect", "models/digit_classifier", status=1)


@pytest.mark.parametrize("has_cache", [False, True])
def test_the_log_s_advice_is_an_option(has_cache: bool) -> None:
    for_shell = ForShell(has_cache)
    first, second = (
        logging.makeLogRecord({"msg": COMPILING, "args": (1, total, KEEPING)}) for total in (2, 9)
    )
    assert [for_shell.filter(first), for_shell.filter(second)] == [True, False]
    advice = "; --cache FOLDER keeps them for later" if has_cache else ""
    assert first.getMessage() == f"compiling shaders: 1 of 2 programs are ready{advice}"


def test_help_beside_json() -> None:
    assert "Usage: " in call("run", "--json", "--help")


def test_paths_with_an_equals_sign(tmp_path: Path) -> None:
    folder = tmp_path / "a=b"
    folder.mkdir()
    graph = only(picture_tensor((1, 4, 6), "uint8"))
    saved(folder / "x.png", b"")
    for argument in (f"{folder}/x.png", f"picture={folder}/x.png", f"0={folder}/x.png"):
        assert tensor_files.files_by_tensor(graph, (0,), [argument], "input") == {
            0: folder / "x.png"
        }
    new = tensor_files.files_by_tensor(graph, (0,), [f"{folder}/new.npy"], "output")
    assert new == {0: folder / "new.npy"}
    with pytest.raises(click.UsageError, match=r"found 'y=x.png', which names no input"):
        tensor_files.files_by_tensor(graph, (0,), ["y=x.png"], "input")


def test_json_has_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    common.print_json({"a": [np.nan, (np.inf, 1.5)], "b": 2})
    assert capsys.readouterr().out == '{"a": [null, [null, 1.5]], "b": 2}\n'


PICTURE = np.random.default_rng(0).integers(0, 256, (4, 6, 4)).astype(np.uint8)


def picture_tensor(shape: tuple[int, ...], dtype: str, *quantization: float) -> Tensor:
    pairs = Quantization(quantization[:1], tuple(map(int, quantization[1:])))
    return Tensor(0, "picture", dtype, shape, (), pairs)


def only(tensor: Tensor) -> Graph:
    return Graph((tensor,), (), (0,), (0,))


@pytest.mark.parametrize(
    ("tensor", "back"),
    [
        (picture_tensor((1, 4, 6, 4), "float32"), PICTURE),
        (picture_tensor((1, 4, 6, 4), "uint8", 0.1, 7), PICTURE),
        (picture_tensor((1, 4, 6, 4), "int8", 1 / 255, -128), PICTURE),
        (picture_tensor((1, 4, 6, 3), "float16"), PICTURE[..., :3]),
        (picture_tensor((1, 4, 6, 3), "uint8"), PICTURE[..., :3]),
        (picture_tensor((1, 4, 6), "float32"), PICTURE[..., 0]),
        (picture_tensor((1, 4, 6, 1), "uint8"), PICTURE[..., 0]),
    ],
    ids=lambda value: value.dtype if isinstance(value, Tensor) else None,
)
def test_pictures_come_back(tensor: Tensor, back: Array, tmp_path: Path) -> None:
    Image.fromarray(back).save(tmp_path / "in.png")
    array = tensor_files.load_input(tmp_path / "in.png", only(tensor), 0, 0, 255)
    assert (array.shape, array.dtype) == (tensor.shape, tensor.dtype)
    tensor_files.save_output(tmp_path / "out.png", array, tensor)
    with Image.open(tmp_path / "out.png") as picture:
        assert np.array_equal(np.asarray(picture), back)


@pytest.mark.parametrize(
    ("shape", "dtype", "number"),
    [((1, 4, 6), "int32", -1), ((1, 4, 6), "int32", 256), ((1, 4, 6, 3), "int32", 0)],
)
def test_what_is_no_picture(
    shape: tuple[int, ...], dtype: str, number: int, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=r"cannot make the picture .*out.png of 'picture'"):
        tensor_files.save_output(
            tmp_path / "out.png", np.full(shape, number, dtype), picture_tensor(shape, dtype)
        )


@pytest.mark.parametrize("suffix", [".dot", ".gv"])
def test_inspect_writes_the_graph(suffix: str, tmp_path: Path, mixed: Path) -> None:
    file = (tmp_path / "graph").with_suffix(suffix)
    call("inspect", mixed, "--graph", file)
    text = file.read_text("utf-8")
    boxes = dict(re.findall(r'^ {4}g0(\w+) ?\[(?:label=)?"(.*?)(?<!\\)"', text, re.MULTILINE))
    edges = re.findall(r"^ {4}g0(\w+) --?> g0(\w+)$", text, re.MULTILINE)
    assert [*boxes] == ["i0", *(f"n{i}" for i in range(6)), "o0"]
    assert re.fullmatch(r"2 CAST\\n2 x 5 x 3\\noutput 0 is float64.*", boxes["n2"])
    assert len(edges) == len(set(edges)) >= 7
    assert {key for edge in edges for key in edge} == boxes.keys()
    colors = {"n0": "#c9e7cb", "n2": "#ffcf9e", "o0": "#dde6f3"}
    assert all(re.search(rf"g0{key} ?\[.*({color})", text) for key, color in colors.items())


def test_a_drawing_of_another_kind(mixed: Path) -> None:
    for name in ("graph.svg", "graph", "graph.png"):
        text = call("inspect", mixed, "--graph", name, status=2)
        assert "run 'dot -Tsvg model.dot -o model.svg'" in text


def test_names_in_drawings_are_escaped() -> None:
    assert diagram._quoted('a\\"b\n\x1b') == r'"a\\\"b\n?"'


def test_arrays_of_another_byte_order(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.array([1, 2], ">f4"))
    array = tensor_files.load_input(
        tmp_path / "x.npy", only(picture_tensor((2,), "float32")), 0, 0, 1
    )
    assert (array.dtype.isnative, array.tolist()) == (True, [1, 2])


@pytest.mark.parametrize("missing", ["click", "PIL", "rich.console"])
def test_without_the_extra(missing: str) -> None:
    code = (
        f"import sys; sys.modules[{missing!r}] = None; from gles_delegate.cli import main; main()"
    )
    ended = run_python(code)
    assert ended.returncode == 1
    assert "the command line needs the extra cli (" in ended.stderr
    assert ended.stderr.endswith("pip install 'gles_delegate[cli]'\n")
    assert "Traceback" not in ended.stderr


def test_a_chart_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ValueError, match=r"--picture needs the extra plot .*gles_delegate\[plot\]"):
        benchmark._draw(tmp_path / "times.png", "title", ProfileReport("", False, ()))


def test_a_picture_without_its_option() -> None:
    text = call("run", "examples/models/digit_classifier.tflite", "face.jpg", status=2)
    assert "expected --input before a file, found 'face.jpg'" in text
