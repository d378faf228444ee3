"""Draw a mesh of 468 points on each face, and circles around the irises.

python examples/face_mesh.py face_detection_short_range.tflite face_landmark.tflite --camera 0
python examples/face_mesh.py ... --iris iris_landmark.tflite --picture face.jpg

face_landmark_with_attention.tflite includes lips and irises, so it needs no third network.
"""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import app
import numpy as np
from imaging import positive

from gles_delegate.live import App, Canvas, Frame, Network, Seer
from gles_delegate.vision import (
    EYE,
    FACE,
    FACE_DETECTOR,
    FACE_DETECTOR_FULL_RANGE,
    FACE_EDGES,
    LEFT_EYE_REGION,
    RIGHT_EYE_REGION,
    RegionRule,
    with_irises,
)

POINTS, LINES, IRIS = (0, 255, 200), (255, 255, 255), (255, 220, 0)
CIRCLE = [(i, (i + 1) % 32) for i in range(32)]


def mesher(networks: App, arguments: Namespace) -> Seer:
    """Draw points, contours and irises of each face."""
    faces = app.Follower(
        networks,
        arguments.detector,
        arguments.landmarks,
        FACE,
        (FACE_DETECTOR, FACE_DETECTOR_FULL_RANGE),
        most=arguments.most,
    )
    iris = networks.network(arguments.iris) if arguments.iris else None

    def see(frame: Frame, canvas: Canvas) -> None:
        drawing = canvas.drawing
        meshes = faces(frame)
        canvas.count("face", len(meshes))
        for face in meshes:
            mesh = face.points
            if iris is not None:
                right = eye(iris, frame, mesh, RIGHT_EYE_REGION, mirrored=False)
                left = eye(iris, frame, mesh, LEFT_EYE_REGION, mirrored=True)
                mesh = with_irises(mesh[:468], right, left)
            unit = max(0.6, np.ptp(mesh[:, 0]) / 200)
            drawing.points(mesh[:468], POINTS, 2.5 * unit)
            drawing.lines(mesh, FACE_EDGES, LINES, 1.3 * unit)
            for iris_points in (mesh[468:473], mesh[473:478]):
                if len(iris_points):
                    drawing.lines(circle(iris_points), CIRCLE, IRIS, 1.5 * unit)

    return see


def circle(iris: np.ndarray) -> np.ndarray:
    """32 points on a circle around an iris, whose first of five points is the center."""
    center, rim = iris[0, :2], iris[1:, :2]
    angles = np.linspace(0, 2 * np.pi, len(CIRCLE), endpoint=False)
    radius = np.linalg.norm(rim - center, axis=1).mean()
    return center + radius * np.column_stack([np.cos(angles), np.sin(angles)])


def eye(
    network: Network, frame: Frame, mesh: np.ndarray, rule: RegionRule, *, mirrored: bool
) -> np.ndarray:
    """The 76 points of an eye, in pixels of the frame."""
    transform = EYE.transform(rule.of_landmarks(mesh), mirrored=mirrored)
    landmarks = EYE.read(network(frame, transform))
    return landmarks.to_picture(transform, frame.size, EYE.size).points


if __name__ == "__main__":
    parser = app.parser(
        __doc__,
        detector="face_detection_short_range, _front or _full_range",
        landmarks="face_landmark",
    )
    parser.add_argument("--iris", type=Path, help="iris_landmark")
    parser.add_argument("--most", type=positive, default=4, help="maximum number of faces")
    arguments = parser.parse_args()
    app.run(arguments, lambda networks: mesher(networks, arguments))
