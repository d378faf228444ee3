"""The API of `gles_apps.tasks` beside the recorded one of MediaPipe 1.2.2."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import gles_apps.tasks as mp
from tests.conftest import Require
from tests.support.example import EXAMPLES
from tests.support.mediapipe import FOLDER

ABSENT = {
    "audio": (
        "AudioTranscriber", "AudioTranscriberOptions", "AudioTranscriberResult",
        "ModelArchitecture", "TextToSpeech", "TextToSpeechOptions", "TranscriptionSegment",
        "TtsAudioResult", "TtsStream", "VoiceInfo", "WordTimestamp",
    ),
    "vision": (
        "InteractiveSegmenter", "InteractiveSegmenterBrushMode",
        "InteractiveSegmenterOptions", "InteractiveSegmenterStroke",
        "InteractiveSegmenterStrokePoint",
    ),
}  # fmt: skip
"""Names that raise AttributeError."""
ABSENT_MODULES = {
    *("audio.audio_embedder", "audio.audio_transcriber", "audio.text_to_speech", "text"),
    *("text.language_detector", "text.text_classifier", "text.text_embedder"),
    *("text.text_proofreader", "text.text_summarizer"),
    "vision.interactive_segmenter",
}
"""Modules that raise ModuleNotFoundError."""
OF_C = {"from_ctypes", "to_ctypes", "ctype", "create_from_ctypes", "free_ctypes"}
"""Methods of MediaPipe's binding to its library in C, whose classes begin with Mp and end in C."""
LATER = {"_result_callback_c"}
"""A field of the binding."""
EXTRA = {
    *("context", "gpu_options", "antialias", "progress", "rigid_smoothing", "output_texture"),
    *("kind", "labels", "found", "texture", "mean", "std", "requires_normalization"),
    *("probabilities", "usual_threshold", "shares", "track", "track_id", "size"),
}
"""Options and fields that MediaPipe does not have."""


@cache
def recorded() -> Any:
    return json.loads((FOLDER / "api.json").read_text("utf-8"))


@pytest.fixture(autouse=True)
def is_recorded(require: Require) -> None:
    if not FOLDER.is_dir():
        require("models", f"{FOLDER} is missing; GLES_DELEGATE_MEDIAPIPE names another folder")


def entries() -> Iterator[tuple[str, str, Any]]:
    """Path, name and description of each public name that is there."""
    for path, names in recorded()["modules"].items():
        for name in names if path not in ABSENT_MODULES else ():
            if name.endswith(("C", "from_ctypes")) or name in ABSENT.get(path, ()):
                continue
            entry = names[name]
            while "alias_of" in entry:
                where = entry["alias_of"].removeprefix("mediapipe.tasks.python.").split(".")
                entry = recorded()["modules"][".".join(where[:-1])][where[-1]]
            yield path, name, entry


def ours(path: str, name: str) -> Any:
    return getattr(importlib.import_module(f"gles_apps.tasks.{path}"), name)


def test_all_modules_and_names_are_there() -> None:
    found = [ours(path, name) for path, name, _ in entries()]
    assert len(found) > 110
    top = [name for name in recorded()["mp.tasks"] if hasattr(mp.tasks, name)]
    assert set(recorded()["mp.tasks"]) - set(top) == {"decision", "retrieval", "text"}
    assert all(hasattr(mp, name) for name in recorded()["top"])
    public = {m for m in recorded()["mp.Image"]["methods"] if not m.startswith("_")}
    assert {m for m in public - OF_C if not hasattr(mp.Image, m)} == set()
    assert {f.name: repr(f.value) for f in mp.ImageFormat} == recorded()["mp.ImageFormat"]["enum"]


def test_enums_have_the_same_members() -> None:
    compared = 0
    for path, name, entry in entries():
        nested = (entry.get("nested") or {}).items()
        for inner, each in [("", entry), *nested]:
            mine = ours(path, name)
            mine = getattr(mine, inner) if inner else mine
            if "enum" in each:
                assert {m.name: repr(m.value) for m in mine} == each["enum"], (path, name)
                compared += 1
    assert compared > 8


def test_classes_have_the_same_fields_and_defaults() -> None:
    compared = 0
    for path, name, entry in entries():
        if not entry.get("fields"):
            continue
        fields = {field.name: field for field in dataclasses.fields(ours(path, name))}
        theirs = {field["name"]: field for field in entry["fields"] if field["name"] not in LATER}
        assert theirs.keys() - fields.keys() == set(), (path, name)
        assert fields.keys() - theirs.keys() - EXTRA == set(), (path, name)
        assert list(theirs) == [field for field in fields if field in theirs], (path, name)
        for key, field in theirs.items():
            assert default_of(fields[key]) == field["default"], (path, name, key)
            compared += 1
    assert compared > 200


def default_of(field: dataclasses.Field[Any]) -> str | None:
    """As it is recorded."""
    if field.default_factory is not dataclasses.MISSING:
        return f"factory: {field.default_factory()}"
    return None if field.default is dataclasses.MISSING else repr(field.default)


def test_classes_have_the_same_methods_and_parameters() -> None:
    compared = 0
    for path, name, entry in entries():
        mine = ours(path, name)
        for method, signature in (entry.get("methods") or {}).items():
            if method in OF_C | LATER or method.startswith("_"):
                continue
            if name == "ImageSegmenter" and method == "labels":  # set by instances
                continue
            assert hasattr(mine, method), (path, name, method)
            if signature.startswith("("):
                assert_parameters(getattr(mine, method), signature, (path, name, method))
                compared += 1
        if "function" in entry:
            assert_parameters(mine, entry["function"], (path, name))
            compared += 1
    assert compared > 120


def assert_parameters(function: Any, signature: str, where: Any) -> None:
    """Names in order, and which of them have defaults."""
    expected = [
        (name.strip(), "=" in text)
        for name, _, text in (part.partition(":") for part in parts(signature))
        if name.strip() not in ("self", "cls")
    ]
    parameters = inspect.signature(function).parameters.values()
    found = [(p.name, p.default is not p.empty) for p in parameters if p.name != "self"]
    assert found[: len(expected)] == expected, where
    assert all(has_default for _, has_default in found[len(expected) :]), where


def parts(signature: str) -> list[str]:
    """The parameters of a signature's text."""
    depth, texts = 0, [""]
    for letter in signature[1:]:
        depth += (letter in "([") - (letter in ")]")
        if depth < 0:
            break
        if letter == "," and depth == 0:
            texts.append("")
        else:
            texts[-1] += letter
    return [text for text in texts if text.strip()]


def test_what_is_absent_raises_by_name() -> None:
    names = [(path, name) for path, names in ABSENT.items() for name in names]
    for path, name in names:
        assert name in recorded()["modules"][path]
        with pytest.raises(AttributeError, match=f"has no attribute '{name}'"):
            ours(path, name)
    for path in ABSENT_MODULES:
        assert path in recorded()["modules"]
        with pytest.raises(ModuleNotFoundError, match=r"gles_apps\.tasks\."):
            importlib.import_module(f"gles_apps.tasks.{path}")


def test_the_documentation_names_what_is_absent() -> None:
    text = (EXAMPLES.parent / "docs" / "tasks.md").read_text("utf-8")
    classes = {name for names in ABSENT.values() for name in names}
    kinds = {name for name in classes if f"{name}Options" in classes} | {"AudioEmbedder"}
    assert {kind for kind in kinds if f"`{kind}`" not in text} == set()
    assert "`tasks.text`" in text
