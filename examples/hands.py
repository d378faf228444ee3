"""Draw hand skeletons, labeled as left or right in a mirrored picture.

python examples/hands.py hand_landmarker.task --camera 0
python examples/hands.py palm_detection_full.tflite hand_landmark_full.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace

import app
from imaging import positive

from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.tasks import BaseOptions, vision


def fingers(networks: App, arguments: Namespace) -> Seer:
    """Draw lines along the fingers of each hand."""

    def make(base: BaseOptions) -> vision.HandLandmarker:
        video = vision.RunningMode.VIDEO
        return vision.HandLandmarker(vision.HandLandmarkerOptions(base, video, arguments.most))

    hands = networks.task(make, app.bundle(arguments, "hand"), "hands")

    def see(frame: Frame, canvas: Canvas) -> None:
        result = hands(frame)
        canvas.count("hand", len(result.hand_landmarks))
        result.draw(canvas.drawing)

    return see


if __name__ == "__main__":
    parser = app.parser(__doc__, models="hand_landmarker.task, or a palm detector and a hand")
    parser.add_argument("--most", type=positive, default=2, help="maximum number of hands")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: fingers(networks, arguments))
