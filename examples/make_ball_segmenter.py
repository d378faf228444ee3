"""Train the live examples' network, which finds the synthetic camera's ball.

    python examples/make_ball_segmenter.py

Four convolutions are trained with Adam, in numpy, on frames drawn by OpenGL; this takes about two
minutes. The camera knows the position of the ball, so every frame comes with its mask.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

import moderngl
import numpy as np
from ai_edge_litert import schema_py_generated as tfl
from overlay import MODEL, SyntheticCamera, ball_at, read_pixels
from rich.console import Console
from rich.progress import track
from tflite_writer import Description, TfliteWriter

import gles_delegate as gd

HEIGHT = 144
WIDTH = 256
CHANNELS = (3, 8, 16, 16, 1)
STRIDES = (2, 2, 1, 1)
BATCH = 8
RATE = 4e-3
SCALE = 4
"""Frame pixels per pixel of the training mask, along each axis."""

ABOUT = Description(
    "ball segmenter",
    "finds the ball of the live examples' synthetic camera",
    "Apache-2.0",
    image=("image", "an RGB frame"),
    result=("ball", "how likely each pixel shows the ball, 0 to 1"),
    mean=127.5,
    std=127.5,
    labels=["ball"],
)

Array = np.ndarray


class Conv:
    """A 3x3 convolution with TFLite's SAME padding, trained with Adam."""

    def __init__(self, rng: np.random.Generator, inputs: int, outputs: int, stride: int) -> None:
        scale = np.sqrt(2 / (9 * inputs))
        self.weights = scale * rng.standard_normal((9 * inputs, outputs))
        self.bias = np.zeros(outputs)
        self.stride = stride
        self._moments = [np.zeros((2, *p.shape)) for p in (self.weights, self.bias)]

    def forward(self, x: Array) -> Array:
        """[n, height, width, inputs], even sizes -> [n, height / stride, ..., outputs]."""
        self._shape = x.shape
        before = 2 - self.stride
        padded = np.pad(x, ((0, 0), (before, 1), (before, 1), (0, 0)))
        self._patches = np.concatenate([padded[window] for window in self._windows()], -1)
        self.output = self._patches @ self.weights + self.bias
        return self.output

    def backward(self, gradient: Array, step: int, rate: float) -> Array:
        """Take an optimizer step, and return the gradient of the input."""
        n, height, width, inputs = self._shape
        patches = (gradient @ self.weights.T).reshape(*gradient.shape[:3], 9, inputs)
        before = 2 - self.stride
        padded = np.zeros((n, height + before + 1, width + before + 1, inputs))
        for i, window in enumerate(self._windows()):
            padded[window] += patches[..., i, :]
        flat = gradient.reshape(-1, gradient.shape[-1])
        slopes = (self._patches.reshape(len(flat), -1).T @ flat, flat.sum(0))
        for parameter, slope, (mean, square) in zip(
            (self.weights, self.bias), slopes, self._moments, strict=True
        ):
            mean += 0.1 * (slope - mean)
            square += 0.001 * (slope**2 - square)
            corrected = mean / (1 - 0.9**step), square / (1 - 0.999**step)
            parameter -= rate * corrected[0] / (np.sqrt(corrected[1]) + 1e-8)
        return padded[:, before : before + height, before : before + width]

    def _windows(self) -> list[tuple[slice, ...]]:
        """The slices of the padded picture that the nine kernel weights read."""
        _, height, width, _ = self._shape
        every = slice(None)
        return [
            (every, slice(y, y + height, self.stride), slice(x, x + width, self.stride))
            for y in range(3)
            for x in range(3)
        ]


def frames(camera: SyntheticCamera, rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """Frames in -1..1, and masks of the ball at a quarter of their size."""
    pictures = []
    masks = []
    y, x = (np.indices((HEIGHT // SCALE, WIDTH // SCALE)) + 0.5) * SCALE / HEIGHT
    for frame in rng.uniform(0, 100_000, count):
        camera.show(frame)
        pictures.append(np.asarray(read_pixels(camera.framebuffer)) / 127.5 - 1)
        center_x, center_y, radius = ball_at(frame)
        masks.append((x - center_x) ** 2 + (y - center_y) ** 2 < radius**2)
    return np.array(pictures), np.array(masks, float)[..., np.newaxis]


def scores(layers: list[Conv], pictures: Array) -> Array:
    x = pictures
    for layer in layers[:-1]:
        x = np.maximum(layer.forward(x), 0)
    return layers[-1].forward(x)


def train(camera: SyntheticCamera, rng: np.random.Generator, steps: int) -> list[Conv]:
    """Train the layers with the cross entropy of each pixel."""
    shapes = zip(pairwise(CHANNELS), STRIDES, strict=True)
    layers = [Conv(rng, *channels, stride) for channels, stride in shapes]
    terminal = Console(stderr=True)
    for step in track(range(1, steps + 1), "training", console=terminal, transient=True):
        rate = RATE * (1 - step / (steps + 1))
        pictures, masks = frames(camera, rng, BATCH)
        gradient = (1 / (1 + np.exp(-scores(layers, pictures))) - masks) / masks.size
        for i in reversed(range(len(layers))):
            gradient = layers[i].backward(gradient, step, rate)
            if i:
                gradient *= layers[i - 1].output > 0
    return layers


def to_tflite(layers: list[Conv]) -> bytes:
    """The content of a .tflite file: the layers, then a resize of the mask to the frame's size."""
    writer = TfliteWriter()
    image = x = writer.tensor("image", (1, HEIGHT, WIDTH, 3))
    height = HEIGHT
    width = WIDTH
    for i, layer in enumerate(layers):
        inputs = len(layer.weights) // 9
        outputs = len(layer.bias)
        height //= layer.stride
        width //= layer.stride
        weights = layer.weights.T.reshape(outputs, 3, 3, inputs)
        relu = tfl.ActivationFunctionType.RELU * (layer is not layers[-1])
        x = writer.operator(
            "CONV_2D",
            [x, writer.constant(f"weights{i}", weights), writer.constant(f"bias{i}", layer.bias)],
            writer.tensor(f"layer{i}", (1, height, width, outputs)),
            tfl.Conv2DOptionsT(
                padding=tfl.Padding.SAME,
                strideW=layer.stride,
                strideH=layer.stride,
                fusedActivationFunction=relu,
            ),
        )
    shape = (1, HEIGHT, WIDTH, 1)
    size = writer.constant("size", np.array([HEIGHT, WIDTH]))
    options = tfl.ResizeBilinearOptionsT(halfPixelCenters=True)
    x = writer.operator("RESIZE_BILINEAR", [x, size], writer.tensor("enlarged", shape), options)
    x = writer.operator("LOGISTIC", [x], writer.tensor("ball", shape))
    licence = "Apache-2.0; trained on frames of SyntheticCamera in examples/overlay.py alone"
    return writer.finish(image, x, ABOUT, licence)


def find(model: bytes, pictures: Array) -> Array:
    """The model's output for each picture, sampled at the masks' pixels."""
    results = []
    with gd.Interpreter(model_content=model) as interpreter:
        interpreter.allocate_tensors()
        image = interpreter.get_input_details()[0]["index"]
        ball = interpreter.get_output_details()[0]["index"]
        for picture in pictures.astype(np.float32):
            interpreter.set_tensor(image, picture[np.newaxis])
            interpreter.invoke()
            results.append(interpreter.get_tensor(ball)[0])
    return np.array(results)[:, SCALE // 2 :: SCALE, SCALE // 2 :: SCALE]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=MODEL, help="file to write")
    parser.add_argument("--steps", type=int, default=800, help="optimizer steps, eight frames each")
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    egl = gd.EglContext()
    with egl:
        camera = SyntheticCamera(moderngl.create_context(context=egl, require=310), (WIDTH, HEIGHT))
        layers = train(camera, rng, arguments.steps)
        pictures, masks = frames(camera, rng, 100)
    model = to_tflite(layers)
    arguments.output.write_bytes(model)
    predicted = find(model, pictures) > 0.5
    true = masks > 0
    print(
        f"{arguments.output}: {len(model)} bytes; intersection over union on 100 new frames "
        f"{(predicted & true).sum() / (predicted | true).sum():.3f}"
    )


if __name__ == "__main__":
    main()
