"""Repaint frames in the style of a painting.

python examples/style.py style_predict.tflite style_transfer.tflite starry_night.jpg --camera 0

Both networks are Magenta's, from Ghiasi et al. 2017. The first runs once and turns the painting
into 100 numbers; the second repaints each frame with them.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
import numpy as np
from imaging import load_picture, single
from PIL import Image

import gles_delegate as gd
from gles_apps.live import App, FrameHandler, repaint
from gles_delegate.image.pictures import as_tensor


def painter(networks: App, arguments: Namespace) -> FrameHandler:
    """Run the second network on frames and on the style vector from the first."""
    transfer = networks.network(arguments.transfer)
    style = describe(arguments.predict, load_picture(arguments.painting))
    others = [i for i, d in enumerate(transfer.inputs) if np.prod(d["shape"]) == style.size]
    if len(transfer.inputs) != 2 or not others:
        shapes = [d["shape"].tolist() for d in transfer.inputs]
        raise ValueError(
            f"expected inputs for a frame and for {style.size} numbers, found {shapes}"
        )
    feeds = {others[0]: style.reshape(transfer.inputs[others[0]]["shape"])}
    return repaint(transfer, feeds=feeds, opacity=arguments.strength)


def describe(model: Path, painting: Image.Image) -> np.ndarray:
    """The style vector of a painting."""
    with gd.Interpreter(model_path=model) as interpreter:
        image, style = single(interpreter)
        transform = gd.ImageTransform.for_input(interpreter, image["index"])
        interpreter.allocate_tensors()
        interpreter.set_tensor(image["index"], as_tensor(painting, image, transform))
        interpreter.invoke()
        return interpreter.get_tensor(style["index"])


if __name__ == "__main__":
    parser = app.parser(
        __doc__, predict="the network that sees the style", transfer="the network that paints"
    )
    parser.add_argument("painting", type=Path, help="a picture in the desired style")
    parser.add_argument("--strength", type=float, default=1.0, help="0 to 1")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: painter(networks, arguments))
