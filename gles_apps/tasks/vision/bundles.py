"""Bundles of landmarkers, recognized by their files."""

from __future__ import annotations

from typing import Any

from gles_apps.tasks.assets import Assets
from gles_apps.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_apps.tasks.vision.face_landmarker import FaceLandmarker, FaceLandmarkerOptions
from gles_apps.tasks.vision.finding import Landmarker
from gles_apps.tasks.vision.hand_landmarker import HandLandmarker, HandLandmarkerOptions
from gles_apps.tasks.vision.pose_landmarker import PoseLandmarker, PoseLandmarkerOptions

LANDMARKERS: dict[str, tuple[Any, Any, int]] = {
    "face": (FaceLandmarker, FaceLandmarkerOptions, 4),
    "hand": (HandLandmarker, HandLandmarkerOptions, 2),
    "pose": (PoseLandmarker, PoseLandmarkerOptions, 1),
}
"""The task, its options and the usual limit of objects, by kind."""


def landmarker_kind(base: BaseOptions) -> str | None:
    """The key of `LANDMARKERS` for a bundle, or for its files by name; None for other models.

    Raises:
        FileNotFoundError: There is no such file.
        ModelError: The bundle is damaged.
    """
    files = Assets(base).files
    kinds = (kind for kind in LANDMARKERS if f"{kind}_landmarks_detector.tflite" in files)
    return next(kinds, None)


def make_landmarker(
    kind: str, base: BaseOptions, mode: VisionTaskRunningMode, most: int | None = None
) -> Landmarker[Any]:
    """A landmarker that smooths rigidly.

    Args:
        kind: A key of `LANDMARKERS`.
        base: Has the bundle.
        mode: Single pictures or a video.
        most: The limit of objects; None: the usual one.
    """
    task, options, usual = LANDMARKERS[kind]
    chosen = options(base, mode, usual if most is None else most)
    if kind != "hand":
        chosen.rigid_smoothing = True
    made: Landmarker[Any] = task(chosen)
    return made
