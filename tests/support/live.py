"""Frames, and small networks that look at them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gles_apps.live import App, Frame
from gles_apps.live.painter import new_texture
from gles_delegate import EglContext
from gles_delegate.gl import drawing
from gles_delegate.gl.current import current_functions
from gles_delegate.gl.drawing import Texture
from tests.support.tflite_builder import ModelBuilder

COLORS = {"red": (1, -1, -1), "green": (-1, 1, -1), "blue": (-1, -1, 1)}


@contextmanager
def live_app() -> Iterator[App]:
    """An app with a context, which is current."""
    with EglContext() as egl:
        app = App("current")
        yield app
        app.close()
        egl.release()


def frame_of(app: App, pixels: NDArray[np.uint8]) -> Frame:
    """A frame of RGB [height, width, 3] or RGBA."""
    height, width, depth = pixels.shape
    rgba = np.dstack([pixels, np.full((height, width, 4 - depth), 255, np.uint8)])
    return Frame(rgba, new_texture(rgba), 0.0)


def read_texture(texture: Texture) -> NDArray[np.uint8]:
    """The pixels of an RGBA8 texture, uint8 [height, width, 4], in the current context."""
    pixels: NDArray[np.uint8] = drawing.read_texture(current_functions(), texture)
    return pixels


def one_color(color: tuple[int, int, int], height: int, width: int) -> NDArray[np.uint8]:
    return np.full((height, width, 3), color, np.uint8)


def color_model(path: Path, *, as_numbers: bool = False) -> Path:
    """Scores of three colors for each pixel [1, 8, 12, 3], or the index of the top score."""
    builder = ModelBuilder()
    x = builder.input((1, 8, 12, 3))
    weights = builder.constant(np.array(list(COLORS.values()), np.float32).reshape(3, 1, 1, 3))
    bias = builder.constant(np.zeros(3, np.float32))
    y = builder.op("CONV_2D", [x, weights, bias], [(1, 8, 12, 3)], stride_w=1, stride_h=1)
    if as_numbers:
        axis = builder.constant(np.array(3, np.int32))
        y = builder.op("ARG_MAX", [y, axis], [builder.tensor((1, 8, 12), np.int32)], output_type=2)
    path.write_bytes(builder.build(outputs=[y]))
    return path


def mean_model(path: Path, factor: float = 1.0) -> Path:
    """The mean of each color times a factor, [1, 3]: a classifier of red, green, blue."""
    builder = ModelBuilder()
    x = builder.input((1, 4, 6, 3))
    axes = builder.constant(np.array([1, 2], np.int32))
    y = builder.op("MEAN", [x, axes], [(1, 3)])
    y = builder.op("MUL", [y, builder.constant(np.array([factor], np.float32))], [(1, 3)])
    path.write_bytes(builder.build(outputs=[y]))
    return path


def shapeless_model(path: Path) -> Path:
    """As `mean_model`, and only a preparation finds the shape of the output."""
    builder = ModelBuilder()
    x = builder.input((1, 4, 6, 3))
    axes = builder.constant(np.array([1, 2], np.int32))
    y = builder.op("MEAN", [x, axes], [builder.tensor(())])
    path.write_bytes(builder.build(outputs=[y]))
    return path


def alpha_model(path: Path) -> Path:
    """[1, 8, 12, 4] to scores [1, 8, 12, 2]: half, and alpha."""
    builder = ModelBuilder()
    x, shape = builder.input((1, 8, 12, 4)), (1, 8, 12, 2)
    ends = [builder.constant(np.array(each, np.int32)) for each in ((0, 0, 0, 2), shape)]
    y = builder.op("SLICE", [x, *ends], [shape])
    factors = [builder.constant(np.array(each, np.float32)) for each in ((0, 1), (0.5, 0))]
    y = builder.op("ADD", [builder.op("MUL", [y, factors[0]], [shape]), factors[1]], [shape])
    path.write_bytes(builder.build(outputs=[y]))
    return path


def negative_model(path: Path) -> Path:
    """1 - the picture, [1, 4, 6, 3]."""
    builder = ModelBuilder()
    x = builder.input((1, 4, 6, 3))
    one = builder.constant(np.array([1], np.float32))
    path.write_bytes(builder.build(outputs=[builder.op("SUB", [one, x], [(1, 4, 6, 3)])]))
    return path
