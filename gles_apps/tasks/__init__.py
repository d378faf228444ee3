"""Tasks with the names of MediaPipe's Python API: ``import gles_apps.tasks as mp``.

Programs for ``mediapipe`` run with their imports changed: ``import mediapipe as mp`` becomes
``import gles_apps.tasks as mp``, ``from mediapipe.tasks import python`` becomes ``from gles_apps
import tasks as python``, and ``mediapipe.tasks.python`` becomes
``gles_apps.tasks``.
"""

import sys
from typing import TYPE_CHECKING

from gles_apps.tasks import audio, components, vision
from gles_apps.tasks.image import Image, ImageFormat
from gles_apps.tasks.options import BaseOptions
from gles_apps.tasks.paths import register_paths
from gles_apps.tasks.task import TaskReport

SOLUTIONS = (
    "solutions", "FaceDetection", "FaceMesh", "Hands", "Holistic", "Objectron", "Pose",
    "SelfieSegmentation",
)  # fmt: skip
"""MediaPipe's module of what came before tasks, and its classes."""

tasks = sys.modules[__name__]
"""This module: ``mp.tasks.vision`` is ``mp.vision``."""

__all__ = [
    "BaseOptions",
    "Image",
    "ImageFormat",
    "TaskReport",
    "audio",
    "components",
    "tasks",
    "vision",
]


if not TYPE_CHECKING:

    def __getattr__(name):
        reason = ""
        places = [place for place in (vision, audio) if hasattr(place, name)]
        if places:
            reason = f": it is in {places[0].__name__}"
        elif name in SOLUTIONS:
            reason = (
                ": the older solutions became tasks, such as vision.FaceLandmarker; the page "
                "Porting has a table"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")


register_paths()
