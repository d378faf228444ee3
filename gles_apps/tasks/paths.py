"""MediaPipe's module paths, such as ``gles_apps.tasks.core.base_options``."""

from __future__ import annotations

import sys
from types import ModuleType

from gles_apps.tasks import image, options
from gles_apps.tasks.audio import audio_classifier, audio_record
from gles_apps.tasks.components import containers, processors
from gles_apps.tasks.vision import gesture_recognizer, image_embedder

PATHS = {
    "audio.core.audio_record": audio_record,
    "audio.core.audio_task_running_mode": audio_classifier,
    "components.containers.audio_data": containers,
    "components.containers.bounding_box": containers,
    "components.containers.category": containers,
    "components.containers.classification_result": containers,
    "components.containers.detections": containers,
    "components.containers.embedding_result": containers,
    "components.containers.keypoint": containers,
    "components.containers.landmark": containers,
    "components.containers.landmark_detection_result": containers,
    "components.containers.rect": containers,
    "components.processors.classifier_options": processors,
    "components.utils.cosine_similarity": image_embedder,
    "core.base_options": options,
    "vision.core.image": image,
    "vision.core.image_processing_options": options,
    "vision.core.vision_task_running_mode": options,
    "vision.gesture_recognizer_result": gesture_recognizer,
}
"""Our module with the names of MediaPipe's, by the path of MediaPipe's in ``tasks``."""


def register_paths() -> None:
    """Let ``import`` find `PATHS`, and the packages above them."""
    for path, module in PATHS.items():
        parent = sys.modules[__package__]
        *packages, last = path.split(".")
        for name in packages:
            full = f"{parent.__name__}.{name}"
            if full not in sys.modules:
                sys.modules[full] = ModuleType(full, "A package of MediaPipe's.")
                setattr(parent, name, sys.modules[full])
            parent = sys.modules[full]
        sys.modules[f"{parent.__name__}.{last}"] = module
        setattr(parent, last, module)
