"""Draw boxes around what a detector finds, with names and scores.

python examples/detect.py ssd_mobilenet.tflite --labels labels.txt --camera 0

It takes TensorFlow's SSDs, with TFLite_Detection_PostProcess at their end or without, and
MediaPipe's detectors of faces, palms and poses.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
from imaging import read_labels

from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.vision import find_detector, palette, read_detections

COLOURS = palette(20)


def finder(networks: App, arguments: Namespace) -> Seer:
    """Detections of a network, whose kind its shapes tell."""
    network = networks.network(arguments.model)
    outputs = [details["shape"].tolist() for details in network.outputs]
    detector = find_detector(network.inputs[0]["shape"].tolist(), outputs)
    names = read_labels(arguments.labels) if arguments.labels else network.labels
    if detector is not None:
        network.transform = detector.transform

    def see(frame: Frame, canvas: Canvas) -> None:
        found = read_detections(network(frame), detector, threshold=arguments.threshold)
        for detection in found:
            number = detection.class_index
            name = names[number] if number < len(names) else f"class {number}"
            canvas.drawing.detection(
                detection.to_picture(network.transform, frame.size, network.size),
                name if names or detector is None else "",
                COLOURS[number % len(COLOURS)],
            )

    return see


if __name__ == "__main__":
    parser = app.parser(__doc__, model="a detector")
    parser.add_argument("--labels", type=Path, help="names of the classes, one a line")
    parser.add_argument("--threshold", type=float, default=0.5, help="the least score, 0 to 1")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: finder(networks, arguments))
