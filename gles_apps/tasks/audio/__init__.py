"""Tasks on sounds."""

from typing import NoReturn

from gles_apps.tasks.audio.audio_classifier import (
    AudioClassifier,
    AudioClassifierOptions,
    AudioClassifierResult,
)
from gles_apps.tasks.audio.audio_classifier import AudioTaskRunningMode as RunningMode
from gles_apps.tasks.missing import missing

__all__ = ["AudioClassifier", "AudioClassifierOptions", "AudioClassifierResult", "RunningMode"]


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name)
