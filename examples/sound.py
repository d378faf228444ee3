"""Show a sound's spectrogram, and below it the classes that a network recognizes over time.

python examples/sound.py yamnet.tflite --sound song.mp3 --headless --output song.png
python examples/sound.py yamnet.tflite --microphone alsa:default

The network is YAMNet, or another one that maps samples at 16 kHz to class scores.
"""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

import app
import av
import numpy as np
from imaging import ending_in_a_sentence

from gles_apps.live import App, Canvas, Frame, FrameHandler
from gles_apps.vision import Drawing, palette
from gles_apps.vision.classes import class_name, top_indices
from gles_delegate.errors import reason_of
from gles_delegate.model.labels import read_labels

RATE = 16000
"""Samples per second."""
STEP = 256
"""Samples between two columns of the spectrogram."""
WINDOW = 1024
"""Samples per column's spectrum."""
COLUMNS = 30
"""Spectrogram columns per frame: 0.48 seconds."""
SIZE = (720, 1260)
ROWS = 440
"""Height of the spectrogram in the picture; the classes are below it."""
SHOWN = 7
"""Number of classes shown."""
HERTZ = (60, 7800)
"""Lowest and highest frequency shown."""
TICKS = (100, 300, 1000, 3000)
"""Frequencies on the axis."""
DECIBELS = 70
"""Range from black to the brightest color."""
GRADIENT = np.array([(4, 4, 20), (80, 18, 110), (215, 60, 80), (252, 170, 60), (252, 250, 190)])
ALSA = "/usr/share/alsa/alsa.conf"


class Sound:
    """A sound file or a microphone, as frames that show spectrograms.

    Attributes:
        samples: The latest samples, for the width of the picture.
    """

    size = SIZE
    rate = RATE / (COLUMNS * STEP)
    count = None

    def __init__(self, name: str, *, microphone: bool) -> None:
        # PyAV's wheels include an ALSA that cannot find its configuration.
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
        """Yield the samples of each frame; pad the last ones with silence."""
        rest = np.empty(0, np.float32)
        length = COLUMNS * STEP
        for frame in self._frames:
            chunks = [chunk.to_ndarray()[0] for chunk in self._resampler.resample(frame)]
            rest = np.concatenate([rest, *chunks])
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
    """The last columns of a spectrogram, as colors, with a logarithmic frequency axis."""
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


def listener(networks: App, arguments: Namespace, sound: Sound) -> FrameHandler:
    """Draw the scores of the last second for each frame, for the strongest classes."""
    network = networks.network(arguments.model)
    shape = network.inputs[0]["shape"].tolist()
    if len(network.inputs) != 1 or len(shape) > 2 or max(shape) < STEP:
        raise ValueError(f"expected a network with one input, [samples], found {shape}")
    length = max(shape)
    names = read_labels(arguments.labels) if arguments.labels else network.labels
    colors = palette(SHOWN)
    history = []

    def see(frame: Frame, canvas: Canvas) -> None:
        draw_axes(canvas.drawing)
        waveform = sound.samples[-length:].reshape(shape)
        history.append(network.run({0: waveform})[0].reshape(-1))
        shown = np.array(history[-SIZE[1] // COLUMNS :])
        best = top_indices(shown.max(0), SHOWN)
        line = (SIZE[0] - ROWS) / SHOWN
        for row, (number, color) in enumerate(zip(best, colors, strict=True)):
            top = ROWS + row * line
            for i, score in enumerate(shown[::-1, number].tolist()):
                right = SIZE[1] - i * COLUMNS
                box = (right - COLUMNS, top + 2, right, top + line - 2)
                canvas.drawing.rectangle(box, (*color, round(255 * min(max(score, 0), 1))))
            drawing = canvas.drawing
            middle = top + (line - 1.2 * drawing.font_size) / 2
            drawing.text((drawing.font_size / 2, middle), class_name(names, number))

    return see


def draw_axes(drawing: Drawing) -> None:
    """Frequencies on the left, seconds before now at the bottom, and what the rows' colors mean."""
    small = 2 * drawing.font_size // 3
    white = (255, 255, 255)
    for hertz in TICKS:
        y = ROWS * np.log(HERTZ[1] / hertz) / np.log(HERTZ[1] / HERTZ[0])
        drawing.rectangle((0, y - 1, 10, y + 1), white)
        drawing.text((14, y - 0.7 * small), f"{hertz} Hz", white, small)
    second = RATE / STEP
    for seconds in range(5, int(SIZE[1] / second), 5):
        x = SIZE[1] - seconds * second
        drawing.rectangle((x - 1, ROWS - 10, x + 1, ROWS), white)
        drawing.text((x + 6, ROWS - 1.5 * small), f"-{seconds} s", white, small)
    for step in range(5):
        left = SIZE[1] - (7 - step) * small
        drawing.rectangle((left, 8, left + small, 8 + small), (*white, 51 * step + 51))
    drawing.text((SIZE[1] - 14 * small, 8), "score: 0.2 to 1", white, small)


@ending_in_a_sentence()
def main() -> None:
    parser = app.parser(__doc__, frames=False, model="YAMNet")
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--sound", help="a sound file")
    group.add_argument("--microphone", help="FORMAT:NAME of FFmpeg's devices: alsa:default")
    parser.add_argument("--labels", type=Path, help="names of the classes, one per line")
    arguments = parser.parse_args()
    sound = Sound(arguments.sound or arguments.microphone, microphone=not arguments.sound)
    app.run(arguments, lambda networks: listener(networks, arguments, sound), sound)


if __name__ == "__main__":
    main()
