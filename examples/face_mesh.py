"""Draw a mesh of 468 points on each face, and circles around the irises.

python examples/face_mesh.py face_landmarker.task --camera 0
python examples/face_mesh.py face_detection_short_range.tflite face_landmark.tflite --camera 0

Irises need the bundle, or face_landmark_with_attention.tflite as the second network.
"""

from __future__ import annotations

from argparse import Namespace

import app
from imaging import positive

from gles_delegate.live import App, Canvas, Frame, Seer
from gles_delegate.tasks import BaseOptions, vision


def mesher(networks: App, arguments: Namespace) -> Seer:
    """Draw the mesh, contours and irises of each face."""

    def make(base: BaseOptions) -> vision.FaceLandmarker:
        video = vision.RunningMode.VIDEO
        options = vision.FaceLandmarkerOptions(base, video, arguments.most, rigid_smoothing=True)
        return vision.FaceLandmarker(options)

    faces = networks.task(make, app.bundle(arguments, "face"), "faces")

    def see(frame: Frame, canvas: Canvas) -> None:
        result = faces(frame)
        canvas.count("face", len(result.face_landmarks))
        result.draw(canvas.drawing)

    return see


if __name__ == "__main__":
    parser = app.parser(__doc__, models="face_landmarker.task, or a detector and a mesh")
    parser.add_argument("--most", type=positive, default=4, help="maximum number of faces")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: mesher(networks, arguments))
