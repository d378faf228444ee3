"""Every command that writes a file refuses one that it reads, before it writes anything."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from gles_delegate.model import reader
from tests.support.command import call, picture_model, saved
from tests.support.example import EXAMPLES
from tests.support.small import INPUT, small_model

DOORS = {
    "run": "run ball.tflite --input {photo.png} --output photo.png",
    "run over its model": "run {ball.tflite} --input photo.png --output ball.tflite",
    "run over its labels": "run ball.tflite --input photo.png --labels {l.png} --output l.png",
    "run of arrays": "run x.tflite --input {x.npy} --output x.npy",
    "run of named arrays": "run x.tflite --input x={x.npy} --output 4=x.npy",
    "run into a folder": "run x.tflite --input {out/4_tensor_4.npy} --output-dir out",
    "watch": "watch ball.tflite --picture {photo.png} --headless --output photo.png",
    "watch of a video": "watch ball.tflite --video {photo.png} --headless --output photo.png",
    "watch over its model": (
        "watch {ball.tflite} --picture photo.png --headless --output ball.tflite"
    ),
    "watch over its labels": (
        "watch ball.tflite --picture photo.png --labels {l.png} --headless --output l.png"
    ),
    "batch": "batch ball.tflite photo.png {a.csv} --output a.csv",
    "batch over its model": "batch {m.csv} photo.png --output m.csv",
    "batch over its labels": "batch digit.tflite photo.png --labels {a.csv} --output a.csv",
    "batch over its model by the database": "batch {m.csv.sqlite} photo.png --output m.csv",
    "masks": "batch ball.tflite {photo.png} --output r.csv --masks .",
    "masks that may replace files": (
        "batch ball.tflite {photo.png} --output r.csv --masks . --overwrite"
    ),
    "benchmark": "benchmark x.tflite --input {x.npy} --picture x.npy",
    "benchmark over its model": "benchmark {x.tflite} --picture x.tflite",
    "inspect": "inspect {model.dot} --graph model.dot",
}
"""Commands that read a file, in braces, and would write it as well."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("out").mkdir()
    Image.open(EXAMPLES / "ball.jpg").resize((64, 48)).save("photo.png")
    for name in ("ball_segmenter", "digit_classifier"):
        content = (EXAMPLES / "models" / f"{name}.tflite").read_bytes()
        saved(Path(f"{name.split('_')[0]}.tflite"), content)
    for name in ("m.csv", "m.csv.sqlite"):
        saved(Path(name), Path("ball.tflite").read_bytes())
    for name in ("x.tflite", "model.dot"):
        saved(Path(name), small_model())
    for name in ("l.png", "a.csv"):
        saved(Path(name), b"ball\n")
    for name in ("x.npy", "out/4_tensor_4.npy"):
        np.save(name, INPUT)
    return tmp_path


def contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def hard(file: Path) -> Path:
    link = file.with_name(f"hard_{file.name}")
    os.link(file, link)
    return link


@pytest.mark.parametrize("spelled", [Path, hard])
@pytest.mark.parametrize("door", DOORS)
def test_what_a_command_reads_is_kept(
    door: str, spelled: Callable[[Path], Path], folder: Path
) -> None:
    """Other spellings of a file are those of tests/unit/test_outputs.py."""
    start, _, rest = DOORS[door].partition("{")
    name, _, end = rest.partition("}")
    command = [
        *start.split(" ")[:-1],
        start.split(" ")[-1] + str(spelled(Path(name))),
        *end.split(),
    ]
    before = contents(folder)
    text = call(*command, status=2)
    assert "expected outputs that are not inputs of the same run, found " in text
    assert "would be overwritten; name another file" in " ".join(text.split())
    assert contents(folder) == before
    assert "not inputs of the same run" in call(*command, "--json", status=2, errors_at="stdout")


def test_each_output_has_a_file(folder: Path) -> None:
    saved(Path("two.tflite"), picture_model())
    inputs = ("--input", "0=photo.png", "--input", "1=photo.png")
    before = contents(folder)
    outputs = ("--output", "2=new.npy", "--output", f"4={Path('new.npy').absolute()}")
    text = call("run", "two.tflite", *inputs, *outputs, status=2)
    assert "expected a file of its own for each output, found new.npy and " in text
    assert contents(folder) == before


def test_mapped_models_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is open, by a name that the command line does not have."""
    monkeypatch.setattr(reader, "MAPPED_FROM", 1)
    command = ("run", "x.tflite", "--input", "x.npy", "--output")
    call(*command, "y.npy")
    os.link("x.tflite", "z.npy")
    assert "found z.npy, the same file as" in call(*command, "z.npy", status=2)
