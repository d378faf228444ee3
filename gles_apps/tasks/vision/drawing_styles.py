"""Colors and widths of points and lines, for `drawing_utils`.

Colors are MediaPipe's (mediapipe/tasks/python/vision/drawing_styles.py), with channels in the order
of OpenCV.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gles_apps.tasks.vision.connections import FaceLandmarksConnections, HandLandmarksConnections
from gles_apps.tasks.vision.drawing_utils import Connection, DrawingSpec

Lines = Mapping[tuple[int, int], DrawingSpec]
WHITE = (224, 224, 224)
GRAY = (128, 128, 128)
RED = (48, 48, 255)
GREEN = (48, 255, 48)
BLUE = (192, 101, 21)
YELLOW = (0, 204, 255)
PURPLE = (128, 64, 128)
PEACH = (180, 229, 255)
CYAN = (192, 255, 48)
MAGENTA = (192, 48, 255)
LEFT = (0, 138, 255)
RIGHT = (231, 217, 0)
"""Colors of a body's sides."""
FINGERS = (PEACH, PURPLE, YELLOW, GREEN, BLUE)
"""Colors of fingers, from the thumb on."""


def _lines(thickness: int, *colored: tuple[Sequence[Connection], tuple[int, int, int]]) -> Lines:
    return {
        (line.start, line.end): DrawingSpec(color, thickness)
        for lines, color in colored
        for line in lines
    }


def get_default_hand_landmarks_style() -> Mapping[int, DrawingSpec]:
    """Styles of a hand's points."""
    palm = dict.fromkeys((0, 1, 5, 9, 13, 17), RED)
    fingers = {4 * i + j: color for i, color in enumerate(FINGERS) for j in (2, 3, 4)}
    return {i: DrawingSpec(color, -1, 5) for i, color in (palm | fingers).items()}


def get_default_hand_connections_style() -> Lines:
    """Styles of a hand's lines."""
    hand = HandLandmarksConnections
    fingers = (
        hand.HAND_THUMB_CONNECTIONS,
        hand.HAND_INDEX_FINGER_CONNECTIONS,
        hand.HAND_MIDDLE_FINGER_CONNECTIONS,
        hand.HAND_RING_FINGER_CONNECTIONS,
        hand.HAND_PINKY_FINGER_CONNECTIONS,
    )
    palm = _lines(3, (hand.HAND_PALM_CONNECTIONS, GRAY))
    return {**palm, **_lines(2, *zip(fingers, FINGERS, strict=True))}


def get_default_face_mesh_contours_style(i: int = 0) -> Lines:
    """Styles of a face's contours.

    Args:
        i: 1: colors the eyes and the lips apart from the rest, and has the nose.
    """
    face = FaceLandmarksConnections
    other = i == 1
    return _lines(
        2,
        (face.FACE_LANDMARKS_LIPS, BLUE if other else WHITE),
        (face.FACE_LANDMARKS_LEFT_EYE, CYAN if other else GREEN),
        (face.FACE_LANDMARKS_LEFT_EYEBROW, GREEN),
        (face.FACE_LANDMARKS_RIGHT_EYE, MAGENTA if other else RED),
        (face.FACE_LANDMARKS_RIGHT_EYEBROW, RED),
        (face.FACE_LANDMARKS_FACE_OVAL, WHITE),
        *([(face.FACE_LANDMARKS_NOSE, YELLOW)] if other else []),
    )


def get_default_face_mesh_tesselation_style() -> DrawingSpec:
    """The style of a face's triangles."""
    return DrawingSpec(GRAY, 1)


def get_default_face_mesh_iris_connections_style() -> Lines:
    """Styles of the irises."""
    face = FaceLandmarksConnections
    return _lines(2, (face.FACE_LANDMARKS_LEFT_IRIS, GREEN), (face.FACE_LANDMARKS_RIGHT_IRIS, RED))


def get_default_pose_landmarks_style() -> Mapping[int, DrawingSpec]:
    """Styles of a body's points."""
    left = {*range(1, 4), *range(7, 33, 2)}
    sides = {i: LEFT if i in left else RIGHT for i in range(1, 33)}
    return {i: DrawingSpec(color, 2) for i, color in ({0: WHITE} | sides).items()}


__all__ = [
    "get_default_face_mesh_contours_style",
    "get_default_face_mesh_iris_connections_style",
    "get_default_face_mesh_tesselation_style",
    "get_default_hand_connections_style",
    "get_default_hand_landmarks_style",
    "get_default_pose_landmarks_style",
]
