"""Draw hand skeletons, labeled as left or right.

python examples/hands.py palm_detection_full.tflite hand_landmark_full.tflite --camera 0
"""

from __future__ import annotations

from argparse import Namespace

import app
import numpy as np
from imaging import positive

from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.vision import HAND, HAND_EDGES, PALM_DETECTOR

COLORS = {"left": (255, 140, 60), "right": (60, 220, 140)}


def fingers(networks: App, arguments: Namespace) -> Seer:
    """Draw lines along the fingers of each hand."""
    hands = app.Follower(
        networks,
        arguments.detector,
        arguments.landmarks,
        HAND,
        (PALM_DETECTOR,),
        most=arguments.most,
    )

    def see(frame: Frame, canvas: Canvas) -> None:
        drawing = canvas.drawing
        tracked = hands(frame)
        canvas.count("hand", len(tracked))
        for hand in tracked:
            side = "right" if (hand.right_hand or 0) > 0.5 else "left"
            unit = max(1.0, np.ptp(hand.points[:, :2], axis=0).max() / 100)
            drawing.lines(hand.points, HAND_EDGES, COLORS[side], 1.5 * unit)
            drawing.points(hand.points, (255, 255, 255), 2.5 * unit)
            x, y, _ = hand.points[0]
            drawing.label((x, y + 4 * unit), side, COLORS[side])

    return see


if __name__ == "__main__":
    parser = app.parser(
        __doc__, detector="palm_detection_full or _lite", landmarks="hand_landmark_full or _lite"
    )
    parser.add_argument("--most", type=positive, default=2, help="maximum number of hands")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: fingers(networks, arguments))
