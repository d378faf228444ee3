"""Draw the skeletons of people, by PoseNet, MoveNet, or MediaPipe's two networks.

python examples/pose.py movenet_single_pose_lightning.tflite --camera 0
python examples/pose.py pose_landmark_lite.tflite --detector pose_detection.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

import app
import numpy as np

from gles_delegate.live import App, Canvas, Frame, Network, Seer
from gles_delegate.vision import (
    COCO_EDGES,
    MOVENET_INPUT,
    POSE,
    POSE_DETECTOR,
    POSE_DETECTOR_128,
    POSE_EDGES,
    POSENET_INPUT,
    Colour,
    Drawing,
    Pose,
    palette,
    posenet_poses,
    read_movenet,
)

COLOURS = palette(9)[1:]
Edges = tuple[tuple[int, int], ...]


def bodies(networks: App, arguments: Namespace) -> Seer:
    """MediaPipe's: 33 points, and a mask."""
    people = app.Follower(
        networks,
        arguments.detector,
        arguments.model,
        POSE,
        (POSE_DETECTOR, POSE_DETECTOR_128),
        most=1,
    )

    def see(frame: Frame, canvas: Canvas) -> None:
        for body in people(frame):
            points = body.points[:, :2].copy()
            points[body.visibility < 0.5] = np.nan
            draw(canvas.drawing, points, POSE_EDGES, COLOURS[0])

    return see


def skeletons(networks: App, arguments: Namespace) -> Seer:
    """Poses of a network, whose kind its outputs tell."""
    network = networks.network(arguments.model)
    read = reader(network, arguments.threshold)

    def see(frame: Frame, canvas: Canvas) -> None:
        height, width = frame.size
        for person, colour in zip(read(network(frame)), COLOURS, strict=False):
            pose = person.to_picture(network.transform, frame.size, network.size)
            points = np.multiply(pose.points, (width, height))
            points[np.array(pose.scores) < arguments.threshold] = np.nan
            draw(canvas.drawing, points, COCO_EDGES, colour)

    return see


def draw(drawing: Drawing, points: np.ndarray, edges: Edges, colour: Colour) -> None:
    """A skeleton; points that are not finite are left out."""
    drawing.lines(points, edges, colour, 2.5 * drawing.unit)
    drawing.points(points, (255, 255, 255), 4 * drawing.unit)


def reader(network: Network, threshold: float) -> Callable[[list[np.ndarray]], list[Pose]]:
    """What makes poses of the network's outputs."""
    shapes = [details["shape"].tolist() for details in network.outputs]
    if len(shapes) == 1:
        network.transform = MOVENET_INPUT
        return lambda outputs: read_movenet(outputs[0])
    if len(shapes) != 4:
        raise ValueError(f"expected PoseNet or MoveNet, found outputs {shapes}")
    network.transform = POSENET_INPUT
    # Both kinds of displacements have the same shape: only names tell them apart.
    names = [details["name"] for details in network.outputs]
    wanted = ("heatmap", "offset", "displacement_fwd", "displacement_bwd")
    places = [[i for i, name in enumerate(names) if word in name] for word in wanted]
    if any(len(found) != 1 for found in places):
        raise ValueError(f"expected outputs named {wanted}, as of PoseNet, found {names}")
    heat, offset, forward, backward = (found[0] for found in places)

    def read(outputs: list[np.ndarray]) -> list[Pose]:
        maps = (outputs[i] for i in (heat, offset, forward, backward))
        return posenet_poses(*maps, network.size, threshold=threshold)

    return read


if __name__ == "__main__":
    parser = app.parser(__doc__, model="PoseNet, MoveNet, or pose_landmark_lite")
    parser.add_argument("--detector", type=Path, help="pose_detection, for pose_landmark_lite")
    parser.add_argument(
        "--threshold", type=float, default=0.3, help="the least score of a point, 0 to 1"
    )
    arguments = parser.parse_args()
    make = bodies if arguments.detector else skeletons
    app.run(arguments, lambda networks: make(networks, arguments))
