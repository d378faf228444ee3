"""Draw skeletons of people with PoseNet, MoveNet, or MediaPipe's two networks.

python examples/pose.py movenet_single_pose_lightning.tflite --camera 0
python examples/pose.py pose_landmark_lite.tflite --detector pose_detection.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
import numpy as np

from gles_delegate.live import App, Canvas, Frame, Seer, pose
from gles_delegate.vision import POSE, POSE_DETECTOR, POSE_DETECTOR_128, POSE_EDGES, palette

COLOR = palette(2)[1]


def bodies(networks: App, arguments: Namespace) -> Seer:
    """Draw MediaPipe's skeletons of 33 points."""
    people = app.Follower(
        networks,
        arguments.detector,
        arguments.model,
        POSE,
        (POSE_DETECTOR, POSE_DETECTOR_128),
        most=1,
    )

    def see(frame: Frame, canvas: Canvas) -> None:
        tracked = people(frame)
        canvas.count("pose", len(tracked))
        for body in tracked:
            points = body.points[:, :2].copy()
            points[body.visibility < 0.5] = np.nan
            canvas.drawing.skeleton(points, POSE_EDGES, COLOR)

    return see


def skeletons(networks: App, arguments: Namespace) -> Seer:
    """Draw the poses of a network whose type is inferred from its outputs."""
    return pose(networks.network(arguments.model), threshold=arguments.threshold)


if __name__ == "__main__":
    parser = app.parser(__doc__, model="PoseNet, MoveNet, or pose_landmark_lite")
    parser.add_argument("--detector", type=Path, help="pose_detection, for pose_landmark_lite")
    parser.add_argument(
        "--threshold", type=float, default=0.3, help="minimum score of a point, 0 to 1"
    )
    arguments = parser.parse_args()
    make = bodies if arguments.detector else skeletons
    app.run(arguments, lambda networks: make(networks, arguments))
