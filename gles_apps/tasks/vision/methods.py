"""MediaPipe's names of `VisionTask.process`, `process_frame` and `process_async`, by task."""

from __future__ import annotations

from typing import Generic, TypeVar

from gles_apps.tasks.task import VisionTask

R = TypeVar("R")


class Detects(VisionTask[R], Generic[R]):
    """Tasks that find objects."""

    detect = VisionTask.process
    detect_for_video = VisionTask.process_frame
    detect_async = VisionTask.process_async


class Recognizes(VisionTask[R], Generic[R]):
    """Tasks that recognize gestures."""

    recognize = VisionTask.process
    recognize_for_video = VisionTask.process_frame
    recognize_async = VisionTask.process_async


class Classifies(VisionTask[R], Generic[R]):
    """Tasks that classify pictures."""

    allows_region = True
    classify = VisionTask.process
    classify_for_video = VisionTask.process_frame
    classify_async = VisionTask.process_async


class Segments(VisionTask[R], Generic[R]):
    """Tasks that make masks."""

    allows_region = True
    segment = VisionTask.process
    segment_for_video = VisionTask.process_frame
    segment_async = VisionTask.process_async


class Embeds(VisionTask[R], Generic[R]):
    """Tasks that make feature vectors."""

    allows_region = True
    embed = VisionTask.process
    embed_for_video = VisionTask.process_frame
    embed_async = VisionTask.process_async
