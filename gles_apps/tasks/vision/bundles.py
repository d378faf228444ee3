"""Bundles of tasks on faces, hands and bodies, recognized by their files."""

from __future__ import annotations

from typing import Any

from gles_apps.tasks.assets import Assets, task_of
from gles_apps.tasks.options import BaseOptions, VisionTaskRunningMode
from gles_apps.tasks.task import VisionTask
from gles_apps.tasks.vision.face_landmarker import FaceLandmarker, FaceLandmarkerOptions
from gles_apps.tasks.vision.gesture_recognizer import GestureRecognizer, GestureRecognizerOptions
from gles_apps.tasks.vision.hand_landmarker import HandLandmarker, HandLandmarkerOptions
from gles_apps.tasks.vision.holistic_landmarker import HolisticLandmarker, HolisticLandmarkerOptions
from gles_apps.tasks.vision.pose_landmarker import PoseLandmarker, PoseLandmarkerOptions

LANDMARKERS: dict[str, tuple[Any, Any, int | None]] = {
    "face": (FaceLandmarker, FaceLandmarkerOptions, 4),
    "hand": (HandLandmarker, HandLandmarkerOptions, 2),
    "pose": (PoseLandmarker, PoseLandmarkerOptions, 1),
    "gesture": (GestureRecognizer, GestureRecognizerOptions, 2),
    "holistic": (HolisticLandmarker, HolisticLandmarkerOptions, None),
}
"""The task, its options and the usual limit of objects, by kind; None: it finds one object."""


def landmarker_kind(assets: Assets) -> str | None:
    """The key of `LANDMARKERS` for a bundle, or for its files by name; None for other models."""
    task = task_of(assets.files)
    return next((kind for kind, (made, *_) in LANDMARKERS.items() if made.__name__ == task), None)


def make_landmarker(
    kind: str, base: BaseOptions, mode: VisionTaskRunningMode, most: int | None = None
) -> VisionTask[Any]:
    """A task that smooths rigidly, if at all.

    Args:
        kind: A key of `LANDMARKERS`.
        base: Has the bundle.
        mode: Single pictures or a video.
        most: The limit of objects; None: the usual one.

    Raises:
        ValueError: The kind has no limit.
    """
    task, options, usual = LANDMARKERS[kind]
    if usual is None and most is not None:
        raise ValueError(f"expected no limit for {kind}, which finds one object, found {most}")
    limit = usual if most is None else most
    chosen = options(base, mode) if limit is None else options(base, mode, limit)
    if hasattr(chosen, "rigid_smoothing"):
        chosen.rigid_smoothing = True
    made: VisionTask[Any] = task(chosen)
    return made
