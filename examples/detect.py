"""Draw boxes around detected objects, with names and scores.

python examples/detect.py ssd_mobilenet.tflite --labels labels.txt --camera 0

It supports TensorFlow's SSDs, with or without TFLite_Detection_PostProcess, YOLO networks, and
MediaPipe's face, palm and pose detectors.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app

from gles_apps.live import App, FrameHandler, frame_handler_for
from gles_apps.tasks.vision import TaskSettings
from gles_delegate.model.labels import read_labels


def finder(networks: App, arguments: Namespace) -> FrameHandler:
    """Draw the detections of a network whose type is inferred from its shapes."""
    labels = read_labels(arguments.labels) if arguments.labels else None
    settings = TaskSettings("detect", labels=labels, threshold=arguments.threshold)
    return frame_handler_for(networks, arguments.model, settings)


if __name__ == "__main__":
    parser = app.parser(__doc__, model="a detector")
    parser.add_argument("--labels", type=Path, help="names of the classes, one per line")
    parser.add_argument("--threshold", type=float, help="minimum score, 0 to 1")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: finder(networks, arguments))
