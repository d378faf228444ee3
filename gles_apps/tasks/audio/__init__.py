"""Tasks on sounds."""

from gles_apps.tasks.audio.audio_classifier import (
    AudioClassifier,
    AudioClassifierOptions,
    AudioClassifierResult,
)
from gles_apps.tasks.audio.audio_classifier import AudioTaskRunningMode as RunningMode

__all__ = ["AudioClassifier", "AudioClassifierOptions", "AudioClassifierResult", "RunningMode"]
