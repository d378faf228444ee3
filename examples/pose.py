"""Draw skeletons of people with MediaPipe's bundle, PoseNet or MoveNet.

python examples/pose.py pose_landmarker_lite.task --camera 0
python examples/pose.py pose_detection.tflite pose_landmark_lite.tflite --camera 0
python examples/pose.py movenet_single_pose_lightning.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace

import app

from gles_apps.live import App, FrameHandler, frame_handler_for
from gles_apps.tasks.vision import TaskSettings


def skeletons(networks: App, arguments: Namespace) -> FrameHandler:
    """Draw a bundle's skeleton of 33 points, or the poses of a single network."""
    if len(arguments.models) > 1 or arguments.models[0].suffix == ".task":
        return frame_handler_for(networks, app.bundle(arguments, "pose"))
    settings = TaskSettings("pose", threshold=arguments.threshold)
    return frame_handler_for(networks, arguments.models[0], settings)


if __name__ == "__main__":
    parser = app.parser(__doc__, models="a bundle, a detector and a body, PoseNet or MoveNet")
    parser.add_argument("--threshold", type=float, help="minimum score of a point, 0 to 1")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: skeletons(networks, arguments))
