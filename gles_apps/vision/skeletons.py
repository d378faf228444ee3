"""Names of key points, and the lines between them.

Indices follow COCO's key points (Lin et al. 2014) and MediaPipe's landmarks of bodies,
hands and faces (its python/solutions). Left and right are the person's.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TypeAlias

Edges: TypeAlias = tuple[tuple[int, int], ...]
"""Pairs of indices of points."""


def _chains(*chains: tuple[int, ...]) -> Edges:
    return tuple(edge for chain in chains for edge in pairwise(chain))


COCO_KEY_POINTS = (
    "nose", "left eye", "right eye", "left ear", "right ear",
    "left shoulder", "right shoulder", "left elbow", "right elbow", "left wrist", "right wrist",
    "left hip", "right hip", "left knee", "right knee", "left ankle", "right ankle",
)  # fmt: skip
"""The 17 points of PoseNet and MoveNet."""

COCO_EDGES = _chains(
    (3, 1, 0, 2, 4), (9, 7, 5, 6, 8, 10), (5, 11, 12, 6), (11, 13, 15), (12, 14, 16)
)  # fmt: skip

POSE_EDGES = _chains(
    (0, 1, 2, 3, 7), (0, 4, 5, 6, 8), (9, 10),
    (11, 12, 24), (11, 23, 24), (11, 13, 15, 17, 19), (12, 14, 16, 18, 20),
    (15, 19), (15, 21), (16, 20), (16, 22),
    (23, 25, 27, 29, 31), (24, 26, 28, 30, 32), (27, 31), (28, 32),
)  # fmt: skip

PALM = _chains((0, 1), (0, 5, 9, 13, 17), (0, 17))
FINGERS = tuple(_chains(tuple(range(first, first + 4))) for first in (1, 5, 9, 13, 17))
"""Lines of the thumb, the index, middle, ring and little finger, from the knuckle on."""
HAND_EDGES = PALM + sum(FINGERS, ())

LIPS = _chains(
    (61, 146, 91, 181, 84, 17, 314, 405, 321, 375, 291),
    (61, 185, 40, 39, 37, 0, 267, 269, 270, 409, 291),
    (78, 95, 88, 178, 87, 14, 317, 402, 318, 324, 308),
    (78, 191, 80, 81, 82, 13, 312, 311, 310, 415, 308),
)  # fmt: skip
RIGHT_EYE = _chains(
    (33, 7, 163, 144, 145, 153, 154, 155, 133), (33, 246, 161, 160, 159, 158, 157, 173, 133)
)  # fmt: skip
LEFT_EYE = _chains(
    (263, 249, 390, 373, 374, 380, 381, 382, 362), (263, 466, 388, 387, 386, 385, 384, 398, 362)
)  # fmt: skip
RIGHT_BROW = _chains((46, 53, 52, 65, 55), (70, 63, 105, 66, 107))
LEFT_BROW = _chains((276, 283, 282, 295, 285), (300, 293, 334, 296, 336))
NOSE = _chains(
    (168, 6, 197, 195, 5, 4, 1, 19, 94, 2), (98, 97, 2, 326, 327, 294, 278, 344, 440, 275, 4),
    (4, 45, 220, 115, 48, 64, 98),
)  # fmt: skip
FACE_OVAL = _chains(
    (10, 338, 297, 332, 284, 251, 389, 356, 454, 323, 361, 288, 397, 365, 379, 378, 400, 377,
     152, 148, 176, 149, 150, 136, 172, 58, 132, 93, 234, 127, 162, 21, 54, 103, 67, 109, 10),
)  # fmt: skip

FACE_EDGES = LIPS + LEFT_EYE + LEFT_BROW + RIGHT_EYE + RIGHT_BROW + FACE_OVAL
"""Contours of the 468 points of MediaPipe's face mesh: lips, eyes, brows and oval."""

RIGHT_IRIS = _chains((469, 470, 471, 472, 469))
"""Five of the 478 points of a mesh with irises; 468 is the center."""
LEFT_IRIS = _chains((474, 475, 476, 477, 474))
"""Likewise; 473 is the center."""
