"""AudioClassifier: classes of sounds."""

from __future__ import annotations

import enum
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import numpy as np

from gles_apps.tasks.audio.audio_record import AudioRecord
from gles_apps.tasks.classes import Classifier
from gles_apps.tasks.components.containers import AudioData, ClassificationResult
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.stream import Answer
from gles_apps.tasks.task import Task
from gles_delegate import ModelError
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

AudioClassifierResult = ClassificationResult


class AudioTaskRunningMode(enum.Enum):
    """Single clips, or parts of a stream."""

    AUDIO_CLIPS = "AUDIO_CLIPS"
    AUDIO_STREAM = "AUDIO_STREAM"


@dataclass
class AudioTaskOptions:
    """Options of every task on sounds.

    Attributes:
        base_options: The model, with the sample rate in its metadata.
        running_mode: Clips or a stream.
    """

    base_options: BaseOptions
    running_mode: AudioTaskRunningMode = AudioTaskRunningMode.AUDIO_CLIPS


@dataclass
class AudioClassifierOptions(ClassifierOptions, AudioTaskOptions):
    """Options of `AudioClassifier`; see `components.processors.ClassifierOptions` for classes.

    Attributes:
        base_options: The model, with the sample rate in its metadata.
        running_mode: Clips or a stream.
        result_callback: Called in a stream with the result of each window, and its time in ms.
    """

    result_callback: Callable[[ClassificationResult, int], None] | None = None


class AudioClassifier(Task[list[ClassificationResult]]):
    """Classifies windows of sound by a network of samples, such as YAMNet.

    Sounds of another sample rate are resampled. Windows follow each other without overlap; the
    last one of a clip is filled up with silence, and so is that of a stream as the task is closed.

    Examples:
        >>> from gles_apps.tasks.components.containers import AudioData
        >>> path = "yamnet.tflite"
        >>> with mp.tasks.audio.AudioClassifier.create_from_model_path(path) as classifier:
        ...     sound = AudioData.create_from_array(np.zeros(16000, np.float32), 16000)
        ...     windows = classifier.classify(sound)
    """

    _options_type = AudioClassifierOptions

    def __init__(self, options: AudioClassifierOptions) -> None:
        is_stream = options.running_mode == AudioTaskRunningMode.AUDIO_STREAM
        if is_stream != (options.result_callback is not None):
            raise ValueError(
                "The audio task is in audio stream mode, a user-defined result callback must be "
                "provided."
                if is_stream
                else "The audio task is in audio clips mode, a user-defined result callback "
                "should not be provided."
            )
        super().__init__(options)
        self._lock = threading.Lock()
        self._rest: Array = np.empty(0, np.float32)
        self._rest_time = 0
        with on_error(self.close):
            network = self._network()
            if len(network.inputs) != 1:
                raise ModelError(f"expected one input, found {len(network.inputs)}")
            metadata = network.metadata.inputs[0]
            shape = network.inputs[0]["shape"].tolist()
            dtype = network.inputs[0]["dtype"]
            if not metadata.sample_rate or dtype != np.float32:
                raise ModelError(
                    "expected a model of float32 samples whose TFLite Metadata has their rate, "
                    f"found {dtype.__name__} {shape} at {metadata.sample_rate} Hz"
                )
            self._rate = metadata.sample_rate
            self._channels = max(metadata.channels, 1)
            self._samples = int(np.prod(shape)) // self._channels
            self._shape = shape
            self._classifier = Classifier(network.shapes, network.metadata.outputs, options)
            if is_stream:
                self._start_stream(newest_only=False)

    def classify(self, audio_clip: AudioData) -> list[ClassificationResult]:
        """The classes of each window of a clip; times are in ms from its start.

        Raises:
            ValueError: The task is for streams or closed, or the clip does not fit the network.
        """
        self._require(AudioTaskRunningMode.AUDIO_CLIPS)
        samples = self._samples_of(audio_clip)
        starts = range(0, max(len(samples), 1), self._samples)
        windows = [(samples[i : i + self._samples], int(1000 * i / self._rate)) for i in starts]
        return self._run(lambda: [self._window(*each) for each in windows])

    def classify_async(self, audio_block: AudioData, timestamp_ms: int) -> None:
        """Add a block to the stream; `result_callback` gets the result of each full window.

        Raises:
            ValueError: As `classify`; or the time is not later than the last block's.
        """
        self._require(AudioTaskRunningMode.AUDIO_STREAM)
        samples = self._samples_of(audio_block)
        with self._lock:
            self._advance(timestamp_ms)
            if not len(self._rest):
                self._rest_time = timestamp_ms
            self._rest = np.concatenate([self._rest, samples]) if len(self._rest) else samples
            windows = list[Answer]()
            while len(self._rest) >= self._samples:
                window = self._rest[: self._samples]
                self._rest = self._rest[self._samples :]
                windows.append(partial(self._deliver, window, self._rest_time))
                self._rest_time += round(1000 * self._samples / self._rate)
            assert self._stream is not None
            self._stream.send(*windows)

    def close(self) -> None:
        """As for every task; first, the rest of a stream is classified, filled up with silence."""
        if self._stream is not None:
            with self._lock, suppress(ValueError):  # it has ended before
                rest = self._rest
                self._rest = self._rest[:0]
                if len(rest):
                    self._stream.send(partial(self._deliver, rest, self._rest_time))
                self._stream.end()
        super().close()

    def create_audio_record(
        self, num_channels: int, sample_rate: int, required_input_buffer_size: int
    ) -> AudioRecord:
        """A recorder of sounds to classify; see `AudioRecord`, also for errors."""
        return AudioRecord(num_channels, sample_rate, required_input_buffer_size)

    def _deliver(self, samples: Array, timestamp_ms: int) -> Callable[[], object]:
        """Classify a window; return the call of the callback."""
        result = self._run(lambda: [self._window(samples, timestamp_ms)])[0]
        return lambda: self.options.result_callback(result, timestamp_ms)

    def _window(self, samples: Array, timestamp_ms: int) -> ClassificationResult:
        padded = np.zeros((self._samples, self._channels), np.float32)
        padded[: len(samples)] = samples
        outputs = self.network.run({0: padded.reshape(self._shape)})
        return ClassificationResult(self._classifier.heads(outputs), timestamp_ms)

    def _samples_of(self, audio: AudioData) -> Array:
        """Samples [n, channels] at the network's rate."""
        if not isinstance(audio, AudioData):
            raise TypeError(f"expected AudioData, found {type(audio).__name__}")
        samples = audio.buffer.reshape(audio.buffer_length, -1)
        rate = audio.audio_format.sample_rate
        if not rate:
            raise ValueError("Must provide the audio sample rate in audio data.")
        if self._channels == 1:
            samples = samples.mean(1, keepdims=True)  # as in AudioToTensorCalculator
        elif samples.shape[1] != self._channels:
            raise ValueError(
                f"Audio input has {samples.shape[1]} channel(s) but the model requires "
                f"{self._channels} channel(s)."
            )
        if rate == self._rate:
            return samples
        return np.stack([resampled(c, rate, self._rate) for c in samples.T], 1)


REACH = 5.0
"""Half of the resampling kernel's length, in samples of the lower rate."""
CUTOFF = 0.9
"""Its cutoff, in shares of the lower rate's Nyquist frequency."""
BETA = 6.0
"""The parameter of its Kaiser window."""


def resampled(samples: Array, rate: float, target: float) -> Array:
    """Samples [n] at another rate, by a windowed sinc (Smith, "Digital Audio Resampling",
    ccrma.stanford.edu/~jos/resample), with the defaults of audio_dsp's QResampler.
    """
    reach = REACH * max(1.0, rate / target)
    cutoff = CUTOFF * min(1.0, target / rate)
    at = np.arange(int(np.ceil(len(samples) * target / rate))) * (rate / target)
    first = np.floor(at).astype(int)
    margin = int(reach) + 1
    padded = np.pad(samples.astype(np.float64), margin)
    result = np.zeros(len(at))
    total = np.zeros(len(at))
    for tap in range(-margin + 1, margin + 1):
        distance = first + tap - at
        inside = np.sqrt(np.maximum(1 - (distance / reach) ** 2, 0))
        weight = np.where(np.abs(distance) < reach, np.i0(BETA * inside), 0)
        weight *= np.sinc(cutoff * distance)
        result += padded[(first + tap + margin).clip(0, len(padded) - 1)] * weight
        total += weight
    return (result / total).astype(np.float32)
