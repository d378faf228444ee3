"""Draw hand skeletons, labeled as left or right in a mirrored picture.

python examples/hands.py hand_landmarker.task --camera 0
python examples/hands.py palm_detection_full.tflite hand_landmark_full.tflite --camera 0
"""

from __future__ import annotations

import app
from imaging import positive

from gles_apps.live import frame_handler_for
from gles_apps.tasks.vision import TaskSettings

if __name__ == "__main__":
    parser = app.parser(__doc__, models="hand_landmarker.task, or a palm detector and a hand")
    parser.add_argument("--most", type=positive, default=2, help="maximum number of hands")
    arguments = parser.parse_args()
    model = app.bundle(arguments, "hand")
    settings = TaskSettings(top=arguments.most)
    app.run(arguments, lambda networks: frame_handler_for(networks, model, settings))
