"""Color each pixel of a picture, a video or a camera by its class.

python examples/segment.py deeplabv3.tflite --mean 127.5 --labels pascal_voc_labels.txt --camera 0
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app

from gles_apps.live import App, FrameHandler, frame_handler_for
from gles_apps.tasks.vision import TaskSettings
from gles_delegate.model.labels import read_labels


def segmenter(networks: App, arguments: Namespace) -> FrameHandler:
    """Draw scores [1, height, width, classes], or class numbers, as colors over the frame."""
    labels = read_labels(arguments.labels) if arguments.labels else None
    std = None if arguments.mean is None else arguments.std
    settings = TaskSettings("segment", labels=labels)
    return frame_handler_for(networks, arguments.model, settings, mean=arguments.mean, std=std)


if __name__ == "__main__":
    parser = app.parser(__doc__, model="a segmentation network")
    parser.add_argument("--labels", type=Path, help="names of the classes, one per line")
    parser.add_argument("--mean", type=float, help="subtracted from pixels of 0 to 255")
    parser.add_argument("--std", type=float, default=127.5, help="divides them afterwards")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: segmenter(networks, arguments))
