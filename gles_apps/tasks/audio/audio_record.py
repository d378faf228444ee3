"""AudioRecord: the latest samples of a microphone."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from gles_apps.tasks.components.containers import AudioData, AudioDataFormat
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import Closing


class AudioRecord(Closing):
    """Records from the default microphone by the package sounddevice, and keeps the latest samples.

    Args:
        channels: Of the microphone.
        sampling_rate: Samples per second.
        buffer_size: How many samples of each channel are kept.

    Raises:
        ValueError: An argument is not positive.
        ImportError: The package sounddevice is not installed.
        OSError: It does not find PortAudio.
    """

    def __init__(self, channels: int, sampling_rate: int, buffer_size: int) -> None:
        sizes = dict(channels=channels, sampling_rate=sampling_rate, buffer_size=buffer_size)
        for name, value in sizes.items():
            if value <= 0:
                raise ValueError(f"{name} must be positive. Found {value}")
        try:
            import sounddevice
        except ImportError as error:
            advice = "recording needs the package sounddevice: pip install sounddevice"
            raise ImportError(advice) from error
        self.channels = channels
        self.sampling_rate = sampling_rate
        self.buffer_size = buffer_size
        self._lock = threading.Lock()
        self._samples = AudioData(buffer_size, AudioDataFormat(channels, sampling_rate))
        self._stream = sounddevice.InputStream(
            channels=channels, samplerate=sampling_rate, callback=self._receive
        )

    def _receive(self, samples: Array, *_: Any) -> None:
        """Keep a block [n, channels]; PortAudio's thread calls this."""
        latest = np.asarray(samples, np.float32)[-self.buffer_size :]
        with self._lock:
            self._samples.load_from_array(latest.reshape(-1, self.channels))

    def start_recording(self) -> None:
        """Record from now on; earlier samples become silence."""
        with self._lock:
            self._samples.clear()
        self._stream.start()

    def stop(self) -> None:
        """Stop recording. The samples stay."""
        self._stream.stop()

    def read(self, size: int) -> Array:
        """The latest samples [size, channels], -1 to 1.

        Raises:
            ValueError: `size` is not positive, or larger than the buffer.
        """
        if size <= 0:
            raise ValueError(f"Size must be positive. Found {size}")
        if size > self.buffer_size:
            raise ValueError(
                "Cannot read more samples than the size of the buffer. "
                f"Expected at most {self.buffer_size}, found {size}"
            )
        with self._lock:
            return np.array(self._samples.buffer[-size:])

    def close(self) -> None:
        """Stop recording, and free the microphone."""
        self._stream.close()
