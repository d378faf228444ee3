"""Files that are given by mistake: named, recognized, and refused at every door."""

import os
import re
import signal
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from types import FrameType
from typing import Any
from zipfile import ZipFile

import pytest
from PIL import Image

import gles_delegate as gd
from gles_apps import tasks
from gles_apps.tasks.assets import Assets
from gles_delegate.model.reader import load_model
from tests.support.command import call, saved
from tests.support.small import small_model


def zipped(*names: str) -> bytes:
    target = BytesIO()
    with ZipFile(target, "w") as file:
        for name in names:
            file.writestr(name, "x")
    return target.getvalue()


WRONG = {
    "pointer.tflite": (
        b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
        "a Git LFS pointer: .*git lfs pull",
    ),
    "page.tflite": (b"\n<!DOCTYPE html>\n<html lang='en'>", "a web page: download the file"),
    "photo.jpg": (b"\xff\xd8\xff\xe0\0\x10JFIF\0", "a picture: the model comes first"),
    "photo.png": (b"\x89PNG\r\n\x1a\n\0\0", "a picture: the model comes first"),
    "page.task": (b"<!-- x -->\n<html>\n", "a web page: download the file"),
    "m.onnx": (b"\x08\x0a\x12\x07pytorch\x1a\x052.5.1:\x9c\x01", "an ONNX model: .*onnx2tf"),
    "other.onnx": (b"\x08\x07\x3a\x9c\x01\x0a\x20", "an ONNX model: .*onnx2tf"),
    "m.ort": (b"\x18\0\0\0ORTM\0\0\0\0", "an ONNX model: .*onnx2tf"),
    "m.pt": (zipped("m/data.pkl", "m/data/0"), "a PyTorch file: .*litert-torch"),
    "old.pth": (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M", "a PyTorch file"),
    "m.safetensors": (b'\x40\0\0\0\0\0\0\0{"a":{"dtype":"F32"}}', "weights of PyTorch without"),
    "m.keras": (
        zipped("metadata.json", "config.json", "model.weights.h5"),
        "a Keras model: .*from_keras_model",
    ),
    "m.h5": (b"\x89HDF\r\n\x1a\n\0\0", "a Keras model: .*from_keras_model"),
    "saved_model.pb": (b"\x08\x01\x12\xf5\x0b\x0a", "a SavedModel .*from_saved_model"),
    "saved.zip": (zipped("m/saved_model.pb"), "a SavedModel .*from_saved_model"),
    "m.tflite.gz": (b"\x1f\x8b\x08\0\0\0\0\0", "a compressed file: unpack it"),
    "v.mp4": (b"\0\0\0 ftypisom\0\0\2\0isom", "a video: the model comes first"),
    "empty.tflite": (b"", "an empty file: download or copy it again"),
    "README.md": (b"# A model\n\nTo be read.\n", "a text: give the file that ends in .tflite"),
    "other.tflite": (b"another\x01 file", r"a file with b'her\\x01' at byte 4, where a model"),
}
READERS: dict[str, Callable[[Path], object]] = {
    "Interpreter": gd.Interpreter,
    "load_model": load_model,
    "task": lambda path: Assets(str(path)).model(),
    "bundle": lambda path: Assets(str(path)).member("face_detector.tflite"),
}


def commands(path: Path) -> Iterator[tuple[object, ...]]:
    """Commands that read a model before anything else."""
    yield from ((name, path) for name in ("inspect", "run", "compare", "benchmark"))
    yield "batch", path, path, "--output", path.with_name("r.csv")


@pytest.mark.parametrize("name", WRONG)
def test_files_of_other_formats(name: str, tmp_path: Path) -> None:
    content, message = WRONG[name]
    path = saved(tmp_path / name, content)
    for read in READERS.values():
        with pytest.raises(
            gd.ModelError, match=f"'{path}': expected a .tflite model, found .*{message}"
        ):
            read(path)
    litert_text = r"\(The model is not a valid Flatbuffer buffer\)$"
    with pytest.raises(
        gd.ModelError, match=f"^expected a .tflite model, found .*{message}.*{litert_text}"
    ):
        gd.Interpreter(model_content=content)
    for command in commands(path):
        text = call(*command, status=1)
        assert text.startswith(f"gles-delegate: '{path}': expected a .tflite model, found ")
        assert "buffer" not in text
        assert text.count("\n") == 1


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("saved_model.pb", "SavedModel of TensorFlow: .*from_saved_model"),
        ("a.tflite", "found a folder with a.tflite: give the path"),
        ("README.md", "found a folder without one"),
    ],
)
def test_folders(file: str, message: str, tmp_path: Path) -> None:
    saved(tmp_path / file, b"")
    for name, read in READERS.items():
        kind = OSError if name in ("task", "bundle") else gd.ModelError
        with pytest.raises(kind, match=message) as caught:
            read(tmp_path)
        assert str(tmp_path) in str(caught.value)
    for command in commands(tmp_path):
        text = call(*command, status=1)
        assert re.match(f"gles-delegate: Could not open '{tmp_path}': expected .*{message}", text)


def test_every_command_says_the_same_of_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "no.tflite"
    absent = "No such file or directory"
    reasons = {
        path: f"{absent}$",
        "https://a.b/c.tflite": "it is an address: download the file first$",
        "yolo11n.pt": f"{absent}; it would be a PyTorch file: .*litert-torch.*yolo export",
        "m.onnx": f"{absent}; it would be an ONNX model: .*onnx2tf",
        "hand_landmarker": f"{absent}; `gles-delegate models get hand_landmarker.task` downloads",
        "m/hand_landmarker.task": f"{absent}; `gles-delegate models get hand_landmarker.task`",
        "yolo11n": f"{absent}; `gles-delegate models yolo11n.tflite` says where",
    }
    for model, reason in reasons.items():
        every = [*commands(Path(model)), ("watch", model, "--picture", path, "--headless")]
        for command in every:
            text = call(*command, status=1)
            assert re.search(f"Could not open '{model}': {reason}", text.strip()), command


@pytest.fixture
def alarm() -> Iterator[None]:
    """Ends a test that would hang."""

    def end(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture(params=["pipe", "/dev/zero"])
def endless(request: pytest.FixtureRequest, tmp_path: Path, alarm: None) -> Path:
    """A file without an end: a pipe that nobody writes to, or a link to a device."""
    path = tmp_path / "endless"
    if request.param == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(request.param)
    return path


def test_what_is_no_regular_file(endless: Path, tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "p.png")
    model = saved(tmp_path / "m.tflite", small_model())
    array = tmp_path / "x.npy"
    array.symlink_to(endless)
    message = "it is not a regular file, but a pipe or a device"
    for read in READERS.values():
        with pytest.raises((gd.ModelError, OSError), match=message):
            read(endless)
    with pytest.raises(RuntimeError, match=message):
        tasks.Image.create_from_file(endless)
    classifier = "examples/models/digit_classifier.tflite"
    files: tuple[tuple[Any, ...], ...] = (
        *commands(endless),
        ("watch", endless, "--picture", tmp_path / "p.png", "--headless"),
        ("run", model, "--input", array),
        ("run", classifier, "--input", endless),
        ("run", classifier, "--input", tmp_path / "p.png", "--labels", endless),
        ("models", "--check", endless),
    )
    for arguments in files:
        assert message in call(*arguments, status=1), arguments


def test_sources_that_are_no_regular_files(endless: Path) -> None:
    live = pytest.importorskip("gles_apps.live")
    for source in (live.Picture, live.Video):
        with pytest.raises(OSError, match=f"{endless}: it is not a regular file"):
            source(endless)
