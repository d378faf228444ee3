"""`AudioRecord`, with a microphone that the test plays."""

from __future__ import annotations

import sys
import threading
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from gles_apps.tasks.audio.core import audio_record  # type: ignore[import-not-found]


class Microphone:
    """The stream that sounddevice would make."""

    latest: Microphone

    def __init__(self, **options: Any) -> None:
        self.options, self.calls = options, list[str]()
        Microphone.latest = self

    def start(self) -> None:
        self.calls.append("start")

    def stop(self) -> None:
        self.calls.append("stop")

    def close(self) -> None:
        self.calls.append("close")

    def play(self, *samples: float) -> None:
        block = np.float32(samples).reshape(-1, self.options["channels"])
        self.options["callback"](block, len(block), None, None)


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("sounddevice")
    module.InputStream = Microphone  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "sounddevice", module)
    return module


def test_the_latest_samples_are_kept() -> None:
    with audio_record.AudioRecord(1, 16000, 4) as record:
        microphone = Microphone.latest
        assert {k: microphone.options[k] for k in ("channels", "samplerate")} == {
            "channels": 1, "samplerate": 16000,
        }  # fmt: skip
        record.start_recording()
        for block, kept in [((1, 2), [0, 0, 1, 2]), ((3,), [0, 1, 2, 3]), (range(9), [5, 6, 7, 8])]:
            microphone.play(*block)
            np.testing.assert_array_equal(record.read(4)[:, 0], kept)
        np.testing.assert_array_equal(record.read(1), [[8]])
        record.stop()
        record.start_recording()
        assert not record.read(4).any()
    assert microphone.calls == ["start", "stop", "start", "close"]


def test_two_channels_and_another_thread() -> None:
    record = audio_record.AudioRecord(2, 8000, 3)
    playing = threading.Thread(target=Microphone.latest.play, args=(1, 2, 3, 4))
    playing.start()
    playing.join()
    np.testing.assert_array_equal(record.read(3), [[0, 0], [1, 2], [3, 4]])
    kept = record.read(3)
    Microphone.latest.play(9, 9)
    assert not (kept == 9).any()


@pytest.mark.parametrize("sizes", [(0, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_wrong_sizes(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="must be positive"):
        audio_record.AudioRecord(*sizes)


@pytest.mark.parametrize(("size", "message"), [(0, "Size must be"), (5, "more samples than the")])
def test_reads_of_wrong_sizes(size: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        audio_record.AudioRecord(1, 1, 4).read(size)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(ImportError, match="pip install sounddevice"):
        audio_record.AudioRecord(1, 1, 1)
