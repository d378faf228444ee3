"""The API of `gles_apps.tasks` beside the recorded one of MediaPipe 1.2.3."""

import dataclasses
import importlib
import inspect
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import gles_apps.tasks as mp
from tests.support.example import EXAMPLES
from tests.support.mediapipe_api import RECORDED, described, field_text

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
LATER = {"_result_callback_c"}
"""A field of the binding."""
EXTRA = {
    *("context", "gpu_options", "antialias", "progress", "rigid_smoothing", "output_texture"),
    *("kind", "labels", "found", "texture", "mean", "std", "requires_normalization", "assets"),
    *("probabilities", "usual_threshold", "shares", "track", "track_id", "size"),
}
"""Options and fields that MediaPipe does not have."""


@cache
def recorded() -> Any:
    return json.loads(RECORDED.read_text("utf-8"))


def entries() -> Iterator[tuple[str, str, Any]]:
    """Path, name and description of each public name that is there."""
    for path, names in recorded()["modules"].items():
        for name, entry in names.items() if path not in ABSENT_MODULES else ():
            if name in ABSENT.get(path, ()):
                continue
            while isinstance(entry, str):
                module, _, key = entry.rpartition(".")
                entry = recorded()["modules"][module][key]
            yield path, name, entry


def ours(path: str, name: str) -> Any:
    return getattr(importlib.import_module(f"gles_apps.tasks.{path}"), name)


def test_the_record_is_of_the_installed_mediapipe() -> None:
    """Where there is one, and it has the recorded version."""
    mediapipe = pytest.importorskip("mediapipe")
    if mediapipe.__version__ != recorded()["mediapipe"]:
        pytest.skip(f"MediaPipe {mediapipe.__version__} is installed")
    assert described() == recorded()


def test_all_modules_and_names_are_there() -> None:
    found = [ours(path, name) for path, name, _ in entries()]
    assert len(found) > 110
    top = [name for name in recorded()["tasks"] if hasattr(mp.tasks, name)]
    assert set(recorded()["tasks"]) - set(top) == {"decision", "retrieval", "text"}
    assert all(hasattr(mp, name) for name in recorded()["top"])
    public = recorded()["mp.Image"]["methods"]
    assert {m for m in public if not hasattr(mp.Image, m)} == set()
    assert {f.name: repr(f.value) for f in mp.ImageFormat} == recorded()["mp.ImageFormat"]["enum"]


def test_enums_have_the_same_members() -> None:
    compared = 0
    for path, name, entry in entries():
        nested = (entry.get("nested") or {}).items() if isinstance(entry, dict) else ()
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
        if not isinstance(entry, dict) or not entry.get("fields"):
            continue
        mine = [field_text(each) for each in dataclasses.fields(ours(path, name))]
        theirs = [field for field in entry["fields"] if field.split("=")[0] not in LATER]
        assert [field for field in mine if field.split("=")[0] not in EXTRA] == theirs, (path, name)
        compared += len(theirs)
    assert compared > 200


def test_classes_have_the_same_methods_and_parameters() -> None:
    compared = 0
    for path, name, entry in entries():
        mine = ours(path, name)
        if isinstance(entry, list):
            assert_parameters(mine, entry, (path, name))
            continue
        for method, parameters in (entry.get("methods") or {}).items():
            if method in LATER or method == "labels":  # set by instances
                continue
            assert hasattr(mine, method), (path, name, method)
            if parameters is not None and (method != "__init__" or entry.get("fields")):
                assert_parameters(getattr(mine, method), parameters, (path, name, method))
                compared += 1
    assert compared > 120


def assert_parameters(function: Any, expected: list[str], where: Any) -> None:
    """Names in order, and which of them have defaults; names after "*" have a test below."""
    listed = expected[: expected.index("*")] if "*" in expected else expected
    wanted = [(each.split("=")[0], "=" in each) for each in listed]
    wanted = [pair for pair in wanted if pair[0] not in LATER]
    parameters = inspect.signature(function).parameters.values()
    found = [(p.name, p.default is not p.empty) for p in parameters if p.name != "self"]
    assert found[: len(wanted)] == wanted, where
    assert all(has_default for _, has_default in found[len(wanted) :]), where


OLDER = {
    "vision.gesture_recognizer.GestureRecognizerOptions": {
        "canned_gesture_classifier_options": "canned_gestures_classifier_options",
        "custom_gesture_classifier_options": "custom_gestures_classifier_options",
    },
    "vision.holistic_landmarker.HolisticLandmarkerOptions": {
        "min_face_landmarks_confidence": "min_face_presence_confidence",
        "min_pose_landmarks_confidence": "min_pose_presence_confidence",
        "output_segmentation_mask": "output_pose_segmentation_masks",
    },
}
"""Names of fields that MediaPipe still accepts."""


def test_all_older_names_are_known() -> None:
    listed = {}
    for path, name, entry in entries():
        parameters = (entry.get("methods") or {}).get("__init__") if "fields" in entry else None
        if parameters and "*" in parameters:
            older = parameters[parameters.index("*") + 1 :]
            listed[path, name] = {each.split("=")[0] for each in older}
    known = {tuple(where.rsplit(".", 1)): {*names} for where, names in OLDER.items()}
    in_packages = {("vision", name): names for (_, name), names in known.items()}
    assert listed == known | in_packages


@pytest.mark.parametrize(
    ("where", "old", "new"),
    [(where, old, new) for where, names in OLDER.items() for old, new in names.items()],
)
def test_fields_have_their_older_names(where: str, old: str, new: str) -> None:
    path, _, name = where.rpartition(".")
    kind, base, value = ours(path, name), mp.BaseOptions(model_asset_path="x"), object()
    for options in (kind(base, **{old: value}), kind(base, **{new: value})):
        assert getattr(options, old) is getattr(options, new) is value
        assert dataclasses.replace(options, running_mode=None) != options
        assert dataclasses.replace(options) == options
        setattr(options, old, 3)
        assert getattr(options, new) == 3
    default = getattr(kind(base), new)
    assert getattr(kind(base, **{old: None}), new) == default
    assert getattr(kind(base, **{old: None, new: None}), old) == default
    with pytest.raises(ValueError, match=f"Specify either `{new}` or `{old}`, not both"):
        kind(base, **{old: value, new: value})


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
