"""Double the resolution of pictures, videos and cameras.

python examples/upscale.py --video small.mp4 --headless --output large.mp4

It uses demo.py's network. Frames of more than a megapixel are doubled in tiles.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
import numpy as np
from tiles import doubled

import gles_delegate as gd
from gles_apps.live import App, Canvas, Frame, FrameHandler, Layer, Network

MODEL = Path(__file__).parent / "models" / "super_resolution_x2.tflite"
LARGEST = 2**20
"""Maximum pixels of a frame in one piece; each takes 400 bytes of GPU memory."""


def enlarger(networks: App, arguments: Namespace) -> FrameHandler:
    """Draw the frame as doubled by the network."""
    network = networks.network(arguments.model)

    def see(frame: Frame, canvas: Canvas) -> None:
        height, width = frame.size
        if height * width > LARGEST:
            canvas.layer(Layer(in_tiles(network, frame), smooth=False))
            return
        network.resize(frame.size)
        network.pictures[0] = gd.ImageOutput()
        (large,) = network(frame)
        canvas.layer(Layer(large, smooth=False))

    return see


def in_tiles(network: Network, frame: Frame) -> np.ndarray:
    """The doubled frame, RGBA of 0 to 1, computed in tiles through numpy."""

    def run(tile: np.ndarray) -> np.ndarray:
        network.resize(tile.shape[1:3])
        return network.run({0: tile})[0]

    large = doubled(run, frame.pixels[np.newaxis, ..., :3] / np.float32(255))[0]
    return np.dstack([large, np.ones_like(large[..., :1])])


if __name__ == "__main__":
    parser = app.parser(__doc__)
    parser.add_argument("--model", type=Path, default=MODEL, help="a network that doubles pictures")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: enlarger(networks, arguments), scale=2)
