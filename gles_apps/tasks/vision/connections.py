"""Lines between points, by MediaPipe's names."""

from __future__ import annotations

from gles_apps.tasks.vision.drawing_utils import Connection
from gles_apps.vision import skeletons
from gles_apps.vision.skeletons import Edges
from gles_apps.vision.triangles import face_triangles


def _lines(edges: Edges) -> list[Connection]:
    return [Connection(start, end) for start, end in edges]


class FaceLandmarksConnections:
    """Lines between the points of a face; left and right are the person's.

    Examples:
        >>> lines = mp.tasks.vision.FaceLandmarksConnections.FACE_LANDMARKS_LIPS
        >>> lines[0].start, lines[0].end
        (61, 146)
    """

    Connection = Connection
    FACE_LANDMARKS_LIPS = _lines(skeletons.LIPS)
    FACE_LANDMARKS_LEFT_EYE = _lines(skeletons.LEFT_EYE)
    FACE_LANDMARKS_LEFT_EYEBROW = _lines(skeletons.LEFT_BROW)
    FACE_LANDMARKS_LEFT_IRIS = _lines(skeletons.LEFT_IRIS)
    FACE_LANDMARKS_RIGHT_EYE = _lines(skeletons.RIGHT_EYE)
    FACE_LANDMARKS_RIGHT_EYEBROW = _lines(skeletons.RIGHT_BROW)
    FACE_LANDMARKS_RIGHT_IRIS = _lines(skeletons.RIGHT_IRIS)
    FACE_LANDMARKS_FACE_OVAL = _lines(skeletons.FACE_OVAL)
    FACE_LANDMARKS_NOSE = _lines(skeletons.NOSE)
    FACE_LANDMARKS_CONTOURS = _lines(skeletons.FACE_EDGES)
    FACE_LANDMARKS_TESSELATION = _lines(
        tuple(edge for a, b, c in face_triangles().tolist() for edge in ((a, b), (b, c), (c, a)))
    )


class HandLandmarksConnections:
    """Lines between the points of a hand.

    Examples:
        >>> lines = mp.tasks.vision.HandLandmarksConnections.HAND_CONNECTIONS
        >>> lines[0].start, lines[0].end
        (0, 1)
    """

    Connection = Connection
    HAND_PALM_CONNECTIONS = _lines(skeletons.PALM)
    (
        HAND_THUMB_CONNECTIONS,
        HAND_INDEX_FINGER_CONNECTIONS,
        HAND_MIDDLE_FINGER_CONNECTIONS,
        HAND_RING_FINGER_CONNECTIONS,
        HAND_PINKY_FINGER_CONNECTIONS,
    ) = map(_lines, skeletons.FINGERS)
    HAND_CONNECTIONS = _lines(skeletons.HAND_EDGES)


class PoseLandmarksConnections:
    """Lines between the points of a body.

    Examples:
        >>> len(mp.tasks.vision.PoseLandmarksConnections.POSE_LANDMARKS)
        35
    """

    Connection = Connection
    POSE_LANDMARKS = _lines(skeletons.POSE_EDGES)
