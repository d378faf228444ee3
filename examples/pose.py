"""Draw skeletons of people with MediaPipe's bundle, PoseNet or MoveNet.

python examples/pose.py pose_landmarker_lite.task --camera 0
python examples/pose.py pose_detection.tflite pose_landmark_lite.tflite --camera 0
python examples/pose.py movenet_single_pose_lightning.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace

import app

from gles_delegate.live import App, Canvas, Frame, Seer, pose
from gles_delegate.tasks import BaseOptions, vision


def bodies(networks: App, arguments: Namespace) -> Seer:
    """Draw MediaPipe's skeleton of 33 points."""

    def make(base: BaseOptions) -> vision.PoseLandmarker:
        options = vision.PoseLandmarkerOptions(base, vision.RunningMode.VIDEO, rigid_smoothing=True)
        return vision.PoseLandmarker(options)

    people = networks.task(make, app.bundle(arguments, "pose"), "poses")

    def see(frame: Frame, canvas: Canvas) -> None:
        result = people(frame)
        canvas.count("pose", len(result.pose_landmarks))
        result.draw(canvas.drawing)

    return see


def skeletons(networks: App, arguments: Namespace) -> Seer:
    """Draw the poses of a network whose type is inferred from its outputs."""
    return pose(networks.network(arguments.models[0]), threshold=arguments.threshold)


if __name__ == "__main__":
    parser = app.parser(__doc__, models="a bundle, a detector and a body, PoseNet or MoveNet")
    parser.add_argument(
        "--threshold", type=float, default=0.3, help="minimum score of a point, 0 to 1"
    )
    arguments = parser.parse_args()
    is_bundle = len(arguments.models) > 1 or arguments.models[0].suffix == ".task"
    make = bodies if is_bundle else skeletons
    app.run(arguments, lambda networks: make(networks, arguments))
