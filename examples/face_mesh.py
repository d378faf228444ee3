"""Draw a mesh of 468 points on each face, and circles around the irises.

python examples/face_mesh.py face_landmarker.task --camera 0
python examples/face_mesh.py face_detection_short_range.tflite face_landmark.tflite --camera 0

Irises need the bundle, or face_landmark_with_attention.tflite as the second network.
"""

from __future__ import annotations

import app
from imaging import positive

from gles_apps.live import frame_handler_for
from gles_apps.tasks.vision import TaskSettings

if __name__ == "__main__":
    parser = app.parser(__doc__, models="face_landmarker.task, or a detector and a mesh")
    parser.add_argument("--most", type=positive, default=4, help="maximum number of faces")
    arguments = parser.parse_args()
    model = app.bundle(arguments, "face")
    settings = TaskSettings(top=arguments.most)
    app.run(arguments, lambda networks: frame_handler_for(networks, model, settings))
