"""``gles-delegate models``: the list of published models, and checks of fetched files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gles_delegate.cli.published import digest_of, published
from tests.conftest import MODELS
from tests.support.command import call, call_json, saved


def test_the_list() -> None:
    listed = published()
    short = {model.name.removesuffix(".tflite").removesuffix(".task") for model in listed}
    assert len(short) == len(listed) > 20
    assert "get" not in short, "it is a command"
    for model in listed:
        assert re.fullmatch("[0-9a-f]{64}" if model.bytes else "", model.sha256)
        assert model.url.startswith("https://")
        assert "/latest/" not in model.url, "another file may lie there tomorrow"
    text = call("models")
    assert re.search(r"^yamnet.tflite +4.13 MB +521 sounds", text, re.MULTILINE)
    assert [row["name"] for row in call_json("models")] == [model.name for model in listed]


def test_one_model() -> None:
    text = call("models", "selfie_segmenter.tflite")
    assert "sha256   191ac952" in text
    assert "curl --location --output selfie_segmenter.tflite 'https://" in text
    assert call("models", "selfie_segmenter") == text
    assert "task     hand points" in call("models", "hand_landmarker")
    exported = call("models", "yolo11n.tflite")
    assert "curl" not in exported
    assert "license  AGPL-3.0" in exported
    message = call("models", "nosuch.tflite", status=2)
    assert "expected a name that `gles-delegate models` lists, found 'nosuch.tflite'\n" in message
    message = call("models", "Selfie_segmentor.tflite", status=2)
    assert "found 'Selfie_segmentor.tflite'; did you mean selfie_segmenter.tflite?\n" in message
    assert "found 'selfie'; did you mean selfie_segmenter.tflite?\n" in call(
        "models", "get", "selfie", status=2
    )


def test_a_truncated_file(tmp_path: Path) -> None:
    file = saved(tmp_path / "yamnet.tflite", b"TFL3")
    text = call("models", "--check", file, status=1, errors_at="stdout")
    assert "expected 4126810 bytes with the SHA-256 10c95ea3" in text
    assert "found 4 bytes with" in text
    assert "get the file again from https://" in text


def test_another_file(tmp_path: Path) -> None:
    file = saved(tmp_path / "other.tflite", b"")
    text = call("models", "--check", file, status=1, errors_at="stdout")
    assert "none of the listed models has its SHA-256, e3b0c442" in text
    assert "expected names or --check" in call("models", "yamnet.tflite", "--check", file, status=2)
    assert "is a directory" in call("models", "--check", tmp_path, status=2)


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    file = saved(tmp_path / "large", bytes(5 << 20))
    assert 1 << 20 < digest_of(file, 1 << 20)[1] < 5 << 20


def test_the_models_at_hand() -> None:
    """Files of the same name are the published ones, whatever their folder."""
    names = {model.name for model in published()}
    files = [path for path in MODELS.glob("*.tflite") if path.name in names]
    if not files:
        pytest.skip(f"{MODELS} has no published models; GLES_DELEGATE_MODELS names their folder")
    for file in files:
        assert call("models", "--check", file).startswith(f"{file}: {file.name}, ")
