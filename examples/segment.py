"""Colour what a segmentation network sees, on a picture, a video or a camera.

python examples/segment.py deeplabv3.tflite --mean 127.5 --labels pascal_voc_labels.txt --camera 0
"""

from __future__ import annotations

from argparse import Namespace
from dataclasses import replace
from pathlib import Path

import app
import numpy as np
from imaging import load_labels
from numpy.typing import NDArray

import gles_delegate as gd
from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.vision import palette

Pixels = NDArray[np.uint8]
MOST = 64
"""Classes of a network that gives their numbers, and not scores."""
LEAST = 0.002
"""Share of the frame from which on a class is in the legend."""


def segmenter(networks: App, arguments: Namespace) -> Seer:
    """Scores [1, height, width, classes], or class numbers, as colours over the frame."""
    network = networks.network(arguments.model)
    if arguments.mean is not None:
        network.transform = replace(network.transform, mean=arguments.mean, std=arguments.std)
    output = network.outputs[0]
    shape, dtype = output["shape"].tolist(), np.dtype(output["dtype"])
    if len(network.outputs) != 1 or len(shape) not in (3, 4) or shape[1] > network.size[0]:
        raise ValueError(
            "expected a segmentation network, with one output [1, height, width, classes] no "
            f"larger than its input, found {[d['shape'].tolist() for d in network.outputs]}"
        )
    scores = shape[3] if len(shape) == 4 else 1
    are_numbers = scores == 1 and dtype in (np.int32, np.int64)
    names = load_labels(arguments.model, arguments.labels, MOST if are_numbers else max(scores, 2))
    colours = [(0, 0, 0, 0), *((*colour, 255) for colour in palette(len(names))[1:])]
    network.pictures[0] = gd.ImageOutput(palette=colours)

    def see(frame: Frame, canvas: Canvas) -> None:
        (mask,) = network(frame)
        style = {"opacity": 0.55, "edges": (0.3, 0.7)}
        canvas.layer(network.layer(mask, network.transform, frame, **style))
        found = classes_of(network.read(mask), colours)
        seen = [i for i, count in enumerate(found) if i and count > LEAST * sum(found)]
        canvas.drawing.legend([names[i] for i in seen], [colours[i] for i in seen])

    return see


def classes_of(mask: Pixels, colours: list[tuple[int, ...]]) -> list[int]:
    """How many pixels of a mask [height, width, 4] have each colour."""
    packed, counts = np.unique(mask.view(np.uint32), return_counts=True)
    known = dict(zip(packed.tolist(), counts.tolist(), strict=True))
    keys = np.array(colours, np.uint8).view(np.uint32).ravel().tolist()
    return [known.get(key, 0) for key in keys]


if __name__ == "__main__":
    parser = app.parser(__doc__, model="a segmentation network")
    parser.add_argument("--labels", type=Path, help="names of the classes, one a line")
    parser.add_argument("--mean", type=float, help="subtracted from pixels of 0 to 255")
    parser.add_argument("--std", type=float, default=127.5, help="divides them afterwards")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: segmenter(networks, arguments))
