"""Replace the background behind a person with a picture or a color.

python examples/background.py selfie_segmenter.tflite --background beach.jpg --camera 0
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
import numpy as np
from imaging import load_picture
from PIL import ImageColor

import gles_delegate as gd
from gles_apps.live import App, Canvas, Frame, FrameHandler

PERSON = 15
"""The person class in Pascal VOC, for networks with many classes."""
MOST = 64
"""Assumed number of classes for networks that output class numbers instead of scores."""


def changer(networks: App, arguments: Namespace) -> FrameHandler:
    """Fill everything outside the person's soft mask."""
    network = networks.network(arguments.model)
    fill = filling(arguments.background)
    output = network.outputs[0]
    shape = output["shape"].tolist()
    are_numbers = np.dtype(output["dtype"]).kind == "i"
    scores = shape[3] if len(shape) == 4 else 1
    if scores == 1 and not are_numbers:
        network.pictures[0] = gd.ImageOutput()
    else:
        classes = MOST if are_numbers else scores
        person = min(PERSON, classes - 1)
        colors = [(255 * (i == person),) * 3 + (255,) for i in range(classes)]
        network.pictures[0] = gd.ImageOutput(palette=colors)

    def see(frame: Frame, canvas: Canvas) -> None:
        (mask, *_) = network(frame)
        style = {"fill": fill, "inverse": True, "edges": (0.2, 0.8)}
        canvas.layer(network.layer(mask, network.transform, frame, **style))

    return see


def filling(background: str) -> tuple[int, int, int] | np.ndarray:
    """A color given by name or number, such as #204060, or else the picture in that file."""
    try:
        return ImageColor.getrgb(background)[:3]
    except ValueError:
        return np.asarray(load_picture(Path(background)))


if __name__ == "__main__":
    parser = app.parser(__doc__, model="a network that segments people")
    parser.add_argument("--background", default="#204060", help="a picture or a color")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: changer(networks, arguments))
