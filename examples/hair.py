"""Dye hair.

python examples/hair.py hair_segmentation.tflite --color "#b5562e" --camera 0
"""

from __future__ import annotations

from argparse import Namespace

import app
from PIL import ImageColor

import gles_delegate as gd
from gles_apps.live import App, Canvas, Frame, FrameHandler


def dyer(networks: App, arguments: Namespace) -> FrameHandler:
    """Color the hair mask.

    The network's two output classes are background and hair. Its fourth input channel takes the
    previous frame's mask, which is left empty.
    """
    network = networks.network(arguments.model)
    network.pictures[0] = gd.ImageOutput(palette=[(0, 0, 0, 0), (255, 255, 255, 255)])
    fill = ImageColor.getrgb(arguments.color)[:3]

    def see(frame: Frame, canvas: Canvas) -> None:
        (mask,) = network(frame)
        style = {"fill": fill, "tint": True, "edges": (0.1, 0.9), "opacity": arguments.strength}
        canvas.layer(network.layer(mask, network.transform, frame, **style))

    return see


if __name__ == "__main__":
    parser = app.parser(__doc__, model="MediaPipe's hair_segmentation.tflite")
    parser.add_argument("--color", default="#b5562e", help="the new hair color")
    parser.add_argument("--strength", type=float, default=0.8, help="0 to 1")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: dyer(networks, arguments))
