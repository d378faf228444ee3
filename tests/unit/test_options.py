"""The delegate's options: TFLite's meaning and defaults, and what is refused."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gles_delegate import GpuDelegateOptions, InferencePreference, InferencePriority

AUTO, PRECISION, LATENCY, MEMORY = InferencePriority


def test_defaults_are_those_of_tflite() -> None:
    options = GpuDelegateOptions()
    assert options.inference_preference == InferencePreference.FAST_SINGLE_ANSWER
    assert options.priorities == (PRECISION, LATENCY, MEMORY)
    assert not options.half_allowed
    assert options.quantized_models_allowed
    assert options.max_delegated_partitions == 1
    assert (options.first_delegate_node_index, options.last_delegate_node_index) == (0, None)


@pytest.mark.parametrize(
    ("given", "resolved"),
    [
        ((LATENCY, AUTO, AUTO), (LATENCY, MEMORY, PRECISION)),
        ((MEMORY, AUTO, AUTO), (MEMORY, PRECISION, LATENCY)),
        ((PRECISION, AUTO, AUTO), (PRECISION, LATENCY, MEMORY)),
        ((PRECISION, MEMORY, AUTO), (PRECISION, MEMORY, LATENCY)),
        ((2, 1, 0), (LATENCY, PRECISION, MEMORY)),
        ((MEMORY, LATENCY, PRECISION), (MEMORY, LATENCY, PRECISION)),
    ],
)
def test_priorities_are_resolved(given: tuple[Any, ...], resolved: tuple[Any, ...]) -> None:
    options = GpuDelegateOptions(
        inference_priority1=given[0], inference_priority2=given[1], inference_priority3=given[2]
    )
    assert options.priorities == resolved
    assert options.half_allowed == (resolved[0] != PRECISION)


@pytest.mark.parametrize(("allowed", "first"), [(True, LATENCY), (False, PRECISION)])
def test_precision_loss_stands_for_the_priorities(allowed: bool, first: InferencePriority) -> None:
    options = GpuDelegateOptions(precision_loss_allowed=allowed)
    assert options.priorities[0] == first
    assert options.half_allowed == allowed


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"inference_priority1": AUTO}, "inference_priority1 cannot be AUTO"),
        ({"inference_priority3": MEMORY}, "inference_priority3 must be AUTO"),
        ({"inference_priority2": PRECISION}, "three different .* MAX_PRECISION, MAX_PRECISION, A"),
        (
            {"inference_priority2": MEMORY, "inference_priority3": MEMORY},
            "three different inference priorities",
        ),
        ({"inference_priority1": 7}, r"one of AUTO \(0\), .*; not 7"),
        ({"inference_preference": "fast"}, "inference_preference must be one of FAST_SINGLE"),
        ({"inference_preference": True}, "not True"),
        (
            {"precision_loss_allowed": True, "inference_priority1": LATENCY},
            "precision_loss_allowed is a shorthand",
        ),
        ({"max_delegated_partitions": 0}, "1 or more, not 0"),
        ({"first_delegate_node_index": -1}, "found -1 and None"),
        ({"first_delegate_node_index": 3, "last_delegate_node_index": 2}, "found 3 and 2"),
        ({"device_index": -1}, "0 or more, not -1"),
        ({"model_token": "m"}, "model_token names a file in serialization_dir"),
        ({"serialization_dir": "a\0b"}, "the path of a folder, not 'a.x00b': it has a null"),
        ({"serialization_dir": "\ud800"}, "the path of a folder, not '.ud800': .* surrogates"),
        ({"software_vector_bits": 100}, "software_vector_bits must be 128, 256 or 512, not 100"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        GpuDelegateOptions(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"precision_loss_allowed": "no"}, "must be True or False or None, not 'no'"),
        ({"own_thread": 1}, "own_thread must be True or False, not 1"),
        ({"pin_software_threads": None}, "pin_software_threads must be True or False, not None"),
        ({"max_delegated_partitions": True}, "max_delegated_partitions must be an int, not True"),
        ({"max_delegated_partitions": 2.5}, "must be an int, not 2.5"),
        ({"last_delegate_node_index": "3"}, "must be an int or None, not '3'"),
        ({"first_delegate_node_index": None}, "must be an int, not None"),
        ({"serialization_dir": b"x" * 999}, r"must be a str or a Path or None, not b'x+\.\.\.x+'$"),
        ({"serialization_dir": ".", "model_token": 3}, "model_token must be a str or None, not 3"),
        ({"device_index": False}, "device_index must be an int or None, not False"),
        ({"software_vector_bits": "128"}, "must be an int or None, not '128'"),
    ],
)
def test_another_type_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        GpuDelegateOptions(**options)


@pytest.mark.parametrize("name", ["precision_loss", "is_precision_loss_allowed"])
def test_a_misspelt_option_is_named(name: str) -> None:
    hint = f"has no option '{name}'; did you mean precision_loss_allowed"
    with pytest.raises(TypeError, match=hint):
        GpuDelegateOptions(**{name: True})
    with pytest.raises(TypeError, match=r"has no option 'zzz'$"):
        GpuDelegateOptions(zzz=1)  # type: ignore[call-arg]


class FolderPath:
    """A path that is no Path."""

    def __fspath__(self) -> str:
        return "cache"


@pytest.mark.parametrize("folder", ["cache", Path("cache"), FolderPath()])
def test_a_relative_folder_is_one_folder(
    folder: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    options = GpuDelegateOptions(inference_priority1=LATENCY, serialization_dir=folder)
    monkeypatch.chdir("/")
    assert options.serialization_dir == str(tmp_path / "cache")
    assert pickle.loads(pickle.dumps(options)) == options
    assert copy.deepcopy(options) == replace(options, own_thread=False) == options


def test_a_folder_in_the_current_one_that_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ValueError, match="'cache' is relative, but the current folder is gone"):
        GpuDelegateOptions(serialization_dir="cache")
    assert GpuDelegateOptions(serialization_dir=tmp_path).serialization_dir == tmp_path
