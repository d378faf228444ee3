"""Bundles of models, such as MediaPipe's .task files."""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from io import BytesIO
from pathlib import Path
from zipfile import ZIP_BZIP2, ZIP_DEFLATED, ZIP_LZMA, ZIP_STORED, ZipFile

import numpy as np
import pytest

import gles_delegate as gd
from gles_apps.tasks.assets import Assets
from gles_delegate.model import reader
from gles_delegate.model.bundle import model_of
from gles_delegate.model.reader import read_models
from tests.support.bundles import aligned_bundle
from tests.support.command import call
from tests.support.oracle import in_litert
from tests.support.small import expected, run, small_model, tiny_model


def zipped(compression: int = ZIP_STORED, **files: bytes) -> bytes:
    target = BytesIO()
    with ZipFile(target, "w", compression) as bundle:
        for name, content in files.items():
            bundle.writestr(name, content)
    return target.getvalue()


def bundle(compression: int = ZIP_STORED) -> bytes:
    """As MediaPipe's: two models, one of them in a bundle inside, and other files."""
    inner = zipped(compression, **{"landmarks.tflite": small_model(), "metadata.bin": b"\0" * 9})
    return zipped(compression, **{"hand.task": inner, "tiny": tiny_model(), "labels.txt": b"a\nb"})


NAMES = "one of hand.task/landmarks.tflite, tiny; found"


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED, ZIP_BZIP2, ZIP_LZMA])
def test_damaged_members(compression: int) -> None:
    content = bytearray(zipped(compression, net=small_model()))
    middle = slice(60, len(content) - 120)
    content[middle] = bytes(byte ^ 0x5A for byte in content[middle])
    with pytest.raises(gd.ModelError):
        gd.Interpreter(model_content=bytes(content))


def test_a_model_by_itself_is_no_bundle() -> None:
    assert model_of(tiny_model(), None) == tiny_model()
    with pytest.raises(gd.ModelError, match=r"expected a bundle .* 'x'"):
        model_of(tiny_model(), "x")


@pytest.mark.parametrize("member", [None, "landmarks.tflite", "hand.task", "labels.txt"])
def test_an_error_lists_the_models(member: str | None) -> None:
    actual = "nothing" if member is None else repr(member)
    with pytest.raises(gd.ModelError, match=f"{NAMES} {actual}$"):
        model_of(bundle(), member)


@pytest.mark.parametrize("compression", [ZIP_STORED, ZIP_DEFLATED])
@pytest.mark.parametrize("name", ["a", "ab", "abc", "abcd"])
def test_bundles_of_mediapipes_writer(compression: int, name: str) -> None:
    """It aligns members with zeros before their headers, in bundles inside too."""
    inner = aligned_bundle(compression, **{f"{name}.tflite": small_model(), "x": b"1"})
    content = aligned_bundle(compression, **{name: inner, "tiny": tiny_model(), "l.txt": b"a\nb"})
    assert content[:1] == b"\0"
    for mapped in (content, memoryview(content)):
        assert bytes(model_of(mapped, f"{name}/{name}.tflite")) == small_model()
        assert bytes(model_of(mapped, "tiny")) == tiny_model()
        with pytest.raises(gd.ModelError, match=r"expected member=\.\.\., one of"):
            model_of(mapped, None)


@pytest.mark.parametrize("name", ["face", "hand", "pose"])
def test_published_bundles(name: str, real_picture: Callable[[str], Path]) -> None:
    folder = real_picture("face.jpg").parents[1] / "mediapipe-oracle" / "bundles"
    files = sorted(folder.glob(f"{name}_landmarker*.task"))
    if not files:
        pytest.skip(f"{folder} has no bundles of MediaPipe's")
    for file in files:
        models = read_models(file)
        assert len(models) >= 2
        assert all(model.graph().nodes for model in models.values())


def test_a_zip_is_known_by_its_end() -> None:
    archive = zipped(model=tiny_model(), labels=b"x")
    assert model_of(b"#!/bin/sh\n" * 9 + archive, None) == tiny_model()
    labelled = tiny_model() + zipped(labels=b"a\nb")
    assert model_of(labelled, None) == labelled


def test_bundles_that_inflate_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bundles of zeros, of zeros in several bundles inside, and of bundles in bundles."""
    monkeypatch.setattr("gles_delegate.model.bundle.MAX_INFLATED", 1 << 18)
    zeros = zipped(ZIP_DEFLATED, **{f"{i}": bytes(1 << 16) for i in range(3)})
    with pytest.raises(gd.ModelError, match=r"compressed members of \d+ bytes.*store its members"):
        model_of(zipped(ZIP_DEFLATED, a=zeros, b=zeros), "x")
    nested = zipped(model=tiny_model())
    for _ in range(8):
        nested = zipped(inside=nested)
    assert model_of(nested, None) == tiny_model()
    for _ in range(300):
        nested = zipped(inside=nested)
    with pytest.raises(gd.ModelError, match="8 deep at most"):
        model_of(nested, None)


def test_damaged_bundles() -> None:
    content = bundle(ZIP_DEFLATED)
    with pytest.raises(gd.ModelError, match="without a model"):
        model_of(zipped(labels=b"x"), None)
    rng = np.random.default_rng(0)
    for size in (4, 30, len(content) // 2, len(content) - 1):
        with pytest.raises(gd.ModelError, match="damaged bundle"):
            model_of(content[:size], "tiny")
    for _ in range(300):
        damaged = bytearray(content)
        for at in rng.integers(4, len(content), 4):
            damaged[at] = rng.integers(256)
        with suppress(gd.ModelError):
            model_of(bytes(damaged), "tiny")


def test_interpreters_take_members(tmp_path: Path) -> None:
    file = tmp_path / "hands.task"
    file.write_bytes(bundle())
    name = "hand.task/landmarks.tflite"
    for arguments in (
        dict(model_path=file, member=name),
        dict(model_path=file / name),
        dict(model_content=bundle(), member=name),
    ):
        with gd.Interpreter(**arguments) as interpreter:  # type: ignore[arg-type]
            interpreter.allocate_tensors()
            np.testing.assert_allclose(run(interpreter), expected(), rtol=1e-5)
    with gd.GpuDelegate(model=file / name) as delegate:
        run(in_litert(delegate, small_model()))
    with pytest.raises(gd.ModelError, match=NAMES):
        gd.Interpreter(file)
    with pytest.raises(TypeError, match="member must be the name"):
        gd.Interpreter(file, member=3)  # type: ignore[arg-type]


def test_commands_take_paths_through_bundles(tmp_path: Path) -> None:
    file = tmp_path / "hands.task"
    file.write_bytes(bundle())
    assert "RELU" in call("inspect", str(file / "tiny"))
    text = call("run", str(file), status=1)
    assert "hand.task/landmarks.tflite, tiny" in text


def moved(content: bytes, offset: int) -> bytes:
    """A bundle whose last member's header is said to be elsewhere."""
    entry = content.rfind(b"PK\x01\x02")
    return content[: entry + 42] + offset.to_bytes(4, "little") + content[entry + 46 :]


def resized(content: bytes, size: int) -> bytes:
    """A bundle whose last member is said to have another size."""
    entry = content.rfind(b"PK\x01\x02")
    return content[: entry + 24] + size.to_bytes(4, "little") + content[entry + 28 :]


LABELED = zipped(**{"a.tflite": small_model(), "labels.txt": b"cat\ndog\n"})
DAMAGED = {
    "an offset past the end": (moved(LABELED, 1 << 31), "labels.txt"),
    "an offset beyond the last header": (moved(LABELED, len(LABELED) - 40), "labels.txt"),
    "the offset of another member": (moved(LABELED, 0), "labels.txt"),
    "a larger size": (resized(LABELED, 9), "labels.txt"),
    "a smaller size": (resized(LABELED, 7), "labels.txt"),
    "a letter": (LABELED.replace(b"cat\n", b"bat\n"), "labels.txt"),
    "a bit of the model": (LABELED.replace(b"serve", b"sesve"), "a.tflite"),
    "a header": (LABELED.replace(b"PK\x03\x04", b"PK\x03\x05", 2)[4:], "labels.txt"),
    "a name": (LABELED.replace(b"labels.txt", b"Labels.txt", 1), "labels.txt"),
}


@pytest.mark.parametrize("mapped_from", [1, 1 << 30])
@pytest.mark.parametrize("damage", DAMAGED)
def test_damaged_bundles_of_any_size(
    damage: str, mapped_from: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAPPED_FROM", mapped_from)
    content, member = DAMAGED[damage]
    path = tmp_path / "b.task"
    path.write_bytes(content)
    doors: list[Callable[[], object]] = [
        lambda: Assets(str(path)).read(member),
        lambda: Assets(content=content).read(member),
        lambda: Assets(str(path / member)),
    ]
    if member == "a.tflite":
        doors += [lambda: read_models(path), lambda: gd.Interpreter(path)]
    for read in doors:
        with pytest.raises(gd.ModelError, match="damaged bundle of models: "):
            read()


@pytest.mark.parametrize("damage", ["", "a bit of the model"])
def test_bundles_inside_mapped_bundles(
    damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "MAPPED_FROM", 1)
    inner = DAMAGED[damage][0] if damage else LABELED
    path = tmp_path / "b.task"
    path.write_bytes(zipped(**{"inner.task": inner}))
    with pytest.raises(gd.ModelError) if damage else nullcontext():
        assert bytes(Assets(str(path)).read("inner.task/a.tflite")) == small_model()
    with pytest.raises(gd.ModelError) if damage else nullcontext():
        assert bytes(read_models(path)["inner.task/a.tflite"].content) == small_model()
