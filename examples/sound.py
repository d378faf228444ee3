"""Show a sound's spectrogram, and below it what a network hears, and when.

python examples/sound.py yamnet.tflite --sound song.mp3 --headless --output song.png
python examples/sound.py yamnet.tflite --microphone alsa:default

The network is YAMNet, or another one from 16 000 samples a second to scores of classes.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import app
import av
import numpy as np
from imaging import ending_in_a_sentence, read_labels

from gles_delegate.errors import reason_of
from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.vision import palette

RATE = 16000
"""Samples a second."""
STEP = 256
"""Samples from one column of the spectrogram to the next."""
WINDOW = 1024
"""Samples of which a column is the spectrum."""
COLUMNS = 30
"""Of the spectrogram that a frame adds: 0.48 seconds."""
SIZE = (720, 1260)
ROWS = 440
"""Of the picture, for the spectrogram; the classes are below."""
SHOWN = 7
"""Classes."""
HERTZ = (60, 7800)
"""Lowest and highest frequency."""
DECIBELS = 70
"""From black to the brightest colour."""
GRADIENT = np.array([(4, 4, 20), (80, 18, 110), (215, 60, 80), (252, 170, 60), (252, 250, 190)])
ALSA = "/usr/share/alsa/alsa.conf"


class Sound:
    """A sound file, or a microphone, as frames that are spectrograms.

    Attributes:
        samples: What was heard last, as many as the picture shows.
    """

    size, rate, count = SIZE, RATE / (COLUMNS * STEP), None

    def __init__(self, name: str, *, microphone: bool) -> None:
        # PyAV's wheels have an ALSA that does not know where its settings are.
        if microphone and Path(ALSA).exists():
            os.environ.setdefault("ALSA_CONFIG_PATH", ALSA)
        kind, _, file = name.partition(":") if microphone else (None, "", name)
        try:
            self._container = av.open(file, format=kind)
        except (av.FFmpegError, ValueError) as error:
            raise OSError(f"cannot open the sound {name}: {reason_of(error)}") from error
        if not self._container.streams.audio:
            raise OSError(f"expected a stream of sound, found none in {name}")
        self._frames = self._container.decode(audio=0)
        self._resampler = av.AudioResampler(format="fltp", layout="mono", rate=RATE)
        self._chunks = self._cut()
        self.samples = np.zeros(SIZE[1] * STEP + WINDOW, np.float32)
        self._pixels = np.full((*SIZE, 4), (4, 4, 20, 255), np.uint8)

    def _cut(self) -> Iterator[np.ndarray]:
        """As many samples as a frame adds; the last ones are completed by silence."""
        rest, length = np.empty(0, np.float32), COLUMNS * STEP
        for frame in self._frames:
            parts = [part.to_ndarray()[0] for part in self._resampler.resample(frame)]
            rest = np.concatenate([rest, *parts])
            while len(rest) >= length:
                yield rest[:length]
                rest = rest[length:]
        if len(rest):
            yield np.pad(rest, (0, length - len(rest)))

    def read(self) -> np.ndarray | None:
        chunk = next(self._chunks, None)
        if chunk is None:
            return None
        self.samples = np.concatenate([self.samples[len(chunk) :], chunk])
        self._pixels[:ROWS, :-COLUMNS] = self._pixels[:ROWS, COLUMNS:]
        self._pixels[:ROWS, -COLUMNS:, :3] = columns_of(self.samples)
        return self._pixels.copy()

    def close(self) -> None:
        self._container.close()


def columns_of(samples: np.ndarray) -> np.ndarray:
    """The last columns of a spectrogram, their frequencies on a logarithmic scale, in colours."""
    last = samples[-(COLUMNS - 1) * STEP - WINDOW :]
    windows = np.lib.stride_tricks.sliding_window_view(last, WINDOW)[::STEP] * np.hanning(WINDOW)
    power = np.abs(np.fft.rfft(windows)).T / (WINDOW / 4)
    bins = np.geomspace(*HERTZ[::-1], ROWS) / (RATE / WINDOW)
    low = bins.astype(int)
    share = (bins - low)[:, np.newaxis]
    level = 20 * np.log10(power[low] * (1 - share) + power[low + 1] * share + 1e-9)
    brightness = (level / DECIBELS + 1).clip(0, 1) * (len(GRADIENT) - 1)
    steps = np.arange(len(GRADIENT))
    return np.stack([np.interp(brightness, steps, GRADIENT[:, i]) for i in range(3)], -1)


def listener(networks: App, arguments: Namespace, sound: Sound) -> Seer:
    """Scores of the last second for each frame, and the classes that were heard most."""
    network = networks.network(arguments.model)
    shape = network.inputs[0]["shape"].tolist()
    if len(network.inputs) != 1 or len(shape) > 2 or max(shape) < STEP:
        raise ValueError(f"expected a network with one input, [samples], found {shape}")
    length = max(shape)
    names = read_labels(arguments.labels) if arguments.labels else network.labels
    colours, history = palette(SHOWN), []

    def see(frame: Frame, canvas: Canvas) -> None:
        waveform = sound.samples[-length:].reshape(shape)
        history.append(network.run({0: waveform})[0].reshape(-1))
        shown = np.array(history[-SIZE[1] // COLUMNS :])
        best = np.argsort(-shown.max(0), kind="stable")[:SHOWN]
        line = (SIZE[0] - ROWS) / SHOWN
        for row, (number, colour) in enumerate(zip(best, colours, strict=True)):
            top = ROWS + row * line
            for i, score in enumerate(shown[::-1, number].tolist()):
                right = SIZE[1] - i * COLUMNS
                box = (right - COLUMNS, top + 2, right, top + line - 2)
                canvas.drawing.rectangle(box, (*colour, round(255 * min(max(score, 0), 1))))
            name = names[number] if number < len(names) else f"class {number}"
            canvas.drawing.text((8, top + 8), name)

    return see


@ending_in_a_sentence()
def main() -> None:
    parser = app.parser(__doc__, frames=False, model="YAMNet")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--sound", help="a sound file")
    group.add_argument("--microphone", help="FORMAT:NAME of FFmpeg's devices: alsa:default")
    parser.add_argument("--labels", type=Path, help="names of the classes, one a line")
    arguments = parser.parse_args()
    sound = Sound(arguments.sound or arguments.microphone, microphone=not arguments.sound)
    app.run(arguments, lambda networks: listener(networks, arguments, sound), sound)


if __name__ == "__main__":
    main()
