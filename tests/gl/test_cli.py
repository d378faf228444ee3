"""The commands that need a GPU."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import gles_delegate as gd
from gles_delegate.gl.libegl import DEBIAN_PACKAGES
from tests.support.command import bars, call, call_json, picture_model, saved
from tests.support.example import EXAMPLES
from tests.support.small import INPUT, expected, small_model
from tests.support.tflite_builder import ModelBuilder

README = Path(__file__).parents[2] / "README.md"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return saved(tmp_path / "model.tflite", small_model())


def doctor(*arguments: str, **environment: str) -> tuple[int, str, Any]:
    """Status, text and JSON of the command in a separate process."""
    command = [sys.executable, "-m", "gles_delegate", "doctor", *arguments]
    settings = {**os.environ, **environment}
    text = subprocess.run(command, env=settings, capture_output=True, text=True, check=False)
    data = subprocess.run([*command, "--json"], env=settings, capture_output=True, check=False)
    assert text.returncode == data.returncode
    assert "Traceback" not in text.stderr
    return text.returncode, text.stdout, json.loads(data.stdout)


@pytest.mark.parametrize("command", ["verify", "report"])
def test_the_status_where_there_is_no_such_device(command: str) -> None:
    call(command, "--device", "9", "--quick", status=1)


def test_verify_ends_with_a_verdict() -> None:
    short, verbose = (call("verify", "--quick", *more) for more in ((), ("--verbose",)))
    assert short.splitlines()[0] == verbose.splitlines()[0]
    assert re.fullmatch(r"\d+ runs of \d+ cases: all right\.", short.splitlines()[1])
    assert re.search(r"^ADD +\d", verbose, re.MULTILINE)


def test_doctor_on_a_healthy_machine() -> None:
    status, text, data = doctor()
    assert (status, data["healthy"], data["reason"]) == (0, True, "")
    assert text.startswith("The delegate works here.\n\n")
    assert "storage_blocks" not in text
    count = len(data["checks"])
    assert f"self-test        {count} of {count} checks passed" in text
    (_, verbose, _) = doctor("--verbose")
    assert re.search(rf"  storage_blocks +{data['limits']['storage_blocks']}\n", verbose)
    assert verbose.count("passed, off by") == count
    assert data["egl"] in text
    assert data["devices"]
    assert data["device"]["renderer"] in text
    assert data["checks"]
    assert all(check["passed"] for check in data["checks"])
    assert data["litert"] in text
    assert data["compiled_model"] == (data["litert"] >= "2.2")


@pytest.mark.parametrize(
    ("library", "reason"),
    [("/missing/libEGL.so", "cannot be loaded"), ("libc.so.6", "is another library: expected")],
)
def test_doctor_without_egl(library: str, reason: str) -> None:
    status, text, data = doctor(GLES_DELEGATE_EGL=library)
    assert (status, data["healthy"], data["devices"], data["egl"]) == (1, False, [], None)
    assert "not found" in text
    assert f"Not usable: GLES_DELEGATE_EGL={library} {reason}" in text
    assert f"GLES_DELEGATE_EGL={library} is set: try without it." in text


@pytest.mark.mesa
def test_doctor_names_a_variable_that_hides_the_driver(tmp_path: Path) -> None:
    status, text, _ = doctor(__EGL_VENDOR_LIBRARY_DIRS=str(tmp_path))
    assert status == 1
    assert f"__EGL_VENDOR_LIBRARY_DIRS={tmp_path} hides /" in text


def test_doctor_without_opengl_es_3_1() -> None:
    status, text, data = doctor(MESA_GLES_VERSION_OVERRIDE="3.0")
    assert (status, data["healthy"]) == (0, True)
    assert "There is no OpenGL ES 3.1 here; '4.5 (Core Profile)" in text
    assert "MESA_GLES_VERSION_OVERRIDE=3.0 is set: try without it." in text
    status, text, data = doctor(MESA_GLES_VERSION_OVERRIDE="3.0", MESA_GL_VERSION_OVERRIDE="3.3")
    assert (status, data["healthy"], data["devices"]) == (1, False, [])
    assert "no device gave an OpenGL ES 3.1 context" in text
    assert "OpenGL ES 3: got only 'OpenGL ES 3.0 Mesa" in text
    assert "OpenGL 4.5: eglCreateContext: EGL_BAD_MATCH" in text
    assert f"apt install {DEBIAN_PACKAGES}" in text
    assert "MESA_GLES_VERSION_OVERRIDE=3.0 is set: try without it." in text


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
    path = saved(tmp_path / "picture.tflite", picture_model())
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


def test_run_writes_the_other_outputs_into_a_folder(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "a=x.npy", INPUT)
    arguments = ("run", model, "--input", f"x={tmp_path / 'a=x.npy'}", "--output-dir")
    (output,) = call_json(*arguments, tmp_path / "new" / "folder")["outputs"]
    path = tmp_path / "new" / "folder" / f"{output['index']}_{output['name']}.npy"
    assert output["file"] == str(path)
    np.testing.assert_allclose(np.load(path), expected(), rtol=1e-5, atol=1e-5)
    assert call("run", model, "--output-dir", model, status=2)


def test_the_first_command_of_readme_works_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what the picture on the front shows is right."""
    (command,) = re.findall(r"^\$ gles-delegate (run .*)$", README.read_text("utf-8"), re.M)
    monkeypatch.chdir(tmp_path)
    shown = call_json(*command.split())
    assert sorted(row["label"] for row in shown["results"]) == [*"00122334578899"]
    with Image.open("drawn.jpg") as drawn:
        assert drawn.size == (720, 480)


def test_inspect_plans_for_a_device(model: Path) -> None:
    renderer = gd.list_devices()[0].renderer
    assert call_json("inspect", model, "--device", 0)["planned_for"] == renderer


def test_a_device_that_is_not_there(model: Path) -> None:
    assert "no device 99" in call("inspect", model, "--device", 99, status=1)
    status, text, data = doctor("--device", "99")
    assert (status, data["healthy"], data["device"]) == (1, False, None)
    assert data["devices"]
    assert "Not usable: no device 99" in text


def test_a_reader_that_has_seen_enough() -> None:
    command = [sys.executable, "-m", "gles_delegate", "doctor", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert b"gles-delegate" not in process.stderr.read()  # drivers may say something


@pytest.mark.parametrize(
    "name", ["super_resolution_x2", "ball_segmenter", "digit_classifier", "digit_detector"]
)
def test_pictures_are_the_same_for_the_api_and_the_command_line(name: str, tmp_path: Path) -> None:
    path = EXAMPLES / "models" / f"{name}.tflite"
    with gd.Interpreter(path) as interpreter:
        (image,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
        height, width = image["shape"][1:3].tolist()
        pixels = np.random.default_rng(0).integers(0, 256, (height, width, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "in.png")
        transform = gd.ImageTransform.for_input(interpreter, image["index"])
        interpreter.allocate_tensors()
        interpreter.set_tensor(image["index"], transform.apply(pixels, (height, width)))
        interpreter.invoke()
        wanted = interpreter.get_tensor(result["index"])
        with pytest.raises(ValueError, match=r"expected an input, one of \[0\], found 9"):
            gd.ImageTransform.for_input(interpreter, 9)
    call("run", path, "--input", tmp_path / "in.png", "--output", tmp_path / "out.npy")
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), wanted, atol=1e-5)
    if name == "super_resolution_x2":
        assert abs(wanted.mean() - 0.5) < 0.05


def test_run_names_the_class(
    tmp_path: Path, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    model = saved(tmp_path / "m.tflite", real_model("mobilenet_v2_1.0_224_quant"))
    text = call("run", model, "--input", real_picture("cat_720p.jpg"))
    assert "Egyptian cat" in text
    assert "argmax" not in text
    shown = call_json("run", model, "--input", real_picture("cat_720p.jpg"))
    (best,) = shown["results"]
    assert (shown["task"], best["label"], best["class"]) == ("classify", "Egyptian cat", 286)
    assert shown["outputs"][0]["argmax"] == 286
    assert 0.7 < best["score"] < 0.9


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    """A model that gives its input [1, 4] back, and an input with the maximum at 2."""
    b = ModelBuilder()
    content = b.build([b.op("NEG", [b.op("NEG", [b.input((1, 4))], [(1, 4)])], [(1, 4)])])
    np.save(tmp_path / "x.npy", np.array([[0, 3, 7, -1]], np.float32))
    return saved(tmp_path / "m.tflite", content)


def test_run_shows_the_likeliest(scores: Path, tmp_path: Path) -> None:
    saved(tmp_path / "labels.txt", b"a\nb\nc\nd\n")
    arguments = ("run", scores, "--input", tmp_path / "x.npy", "--top")
    named = (*arguments, 3, "--labels", tmp_path / "labels.txt")
    shares = np.exp([7, 3, 0, -1]) / np.exp([7, 3, 0, -1]).sum()
    assert call_json(*named)["results"] == [
        {"class": i, "label": name, "score": pytest.approx(share)}
        for i, name, share in zip((2, 1, 0), "cba", shares, strict=False)
    ]
    assert [line.split()[:2] for line in call(*named).splitlines()[-3:]] == [
        ["2", "c"], ["1", "b"], ["0", "a"],
    ]  # fmt: skip
    assert call_json("run", scores, "--input", tmp_path / "x.npy")["results"] == []
    rows = call_json(*arguments, 9)["results"]
    assert [row["label"] for row in rows] == [f"class {i}" for i in (2, 1, 0, 3)]


def test_options_for_classes_of_what_has_none(model: Path, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", INPUT)
    text = call("run", model, "--input", tmp_path / "x.npy", "--top", 2, status=1)
    assert "expected outputs [1, classes] for --top and --labels, found" in text


def test_run_tells_the_share_of_each_class(
    tmp_path: Path, real_model: Callable[[str], bytes], real_picture: Callable[[str], Path]
) -> None:
    model = saved(tmp_path / "m.tflite", real_model("deeplabv3_257_mv_gpu"))
    saved(tmp_path / "labels.txt", b"background\n" + b"".join(b"x%d\n" % i for i in range(1, 21)))
    shown = call_json(
        "run", model, "--input", real_picture("pets.jpg"), "--mean", 127.5, "--std", 127.5,
        "--labels", tmp_path / "labels.txt", "--output", tmp_path / "mask.png",
    )  # fmt: skip
    assert [row["label"] for row in shown["results"]] == ["background", "x12"]  # a dog
    assert sum(row["share"] for row in shown["results"]) == pytest.approx(1)
    with Image.open(tmp_path / "mask.png") as drawn, Image.open(real_picture("pets.jpg")) as before:
        changed = (np.asarray(drawn) != np.asarray(before.convert("RGB"))).any(2)
    assert changed.mean() == pytest.approx(shown["results"][1]["share"], abs=0.05)


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_bar_shows_that_shaders_compile(flags: tuple[str, ...], scores: Path) -> None:
    command = ("run", scores, "--input", scores.parent / "x.npy", *flags)
    assert ("compiling shaders" in bars(*command)) == (not flags)
