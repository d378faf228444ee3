"""Tasks on pictures."""

from typing import TYPE_CHECKING

from gles_apps.tasks.options import ImageProcessingOptions
from gles_apps.tasks.options import VisionTaskRunningMode as RunningMode
from gles_apps.tasks.vision import drawing_styles, drawing_utils
from gles_apps.tasks.vision.face_detector import (
    FaceDetector,
    FaceDetectorOptions,
    FaceDetectorResult,
)
from gles_apps.tasks.vision.face_landmarker import (
    Blendshapes,
    FaceLandmarker,
    FaceLandmarkerOptions,
    FaceLandmarkerResult,
    FaceLandmarksConnections,
)
from gles_apps.tasks.vision.gesture_recognizer import (
    GestureRecognizer,
    GestureRecognizerOptions,
    GestureRecognizerResult,
)
from gles_apps.tasks.vision.hand_landmarker import (
    HandLandmark,
    HandLandmarker,
    HandLandmarkerOptions,
    HandLandmarkerResult,
    HandLandmarksConnections,
)
from gles_apps.tasks.vision.holistic_landmarker import (
    HolisticLandmarker,
    HolisticLandmarkerOptions,
    HolisticLandmarkerResult,
)
from gles_apps.tasks.vision.image_classifier import (
    ImageClassifier,
    ImageClassifierOptions,
    ImageClassifierResult,
)
from gles_apps.tasks.vision.image_embedder import (
    ImageEmbedder,
    ImageEmbedderOptions,
    ImageEmbedderResult,
)
from gles_apps.tasks.vision.image_segmenter import (
    ImageSegmenter,
    ImageSegmenterOptions,
    ImageSegmenterResult,
)
from gles_apps.tasks.vision.interactive_segmenter_legacy import (
    InteractiveSegmenterLegacy,
    InteractiveSegmenterLegacyOptions,
)
from gles_apps.tasks.vision.interactive_segmenter_legacy import (
    RegionOfInterest as InteractiveSegmenterLegacyRegionOfInterest,
)
from gles_apps.tasks.vision.object_detector import (
    ObjectDetector,
    ObjectDetectorOptions,
    ObjectDetectorResult,
)
from gles_apps.tasks.vision.opening import TaskSettings, open_task
from gles_apps.tasks.vision.pose_estimator import (
    PoseEstimator,
    PoseEstimatorOptions,
    PoseEstimatorResult,
)
from gles_apps.tasks.vision.pose_landmarker import (
    PoseLandmark,
    PoseLandmarker,
    PoseLandmarkerOptions,
    PoseLandmarkerResult,
    PoseLandmarksConnections,
)

if not TYPE_CHECKING:

    def __getattr__(name):
        reason = ""
        if name.startswith("InteractiveSegmenter"):
            reason = (
                ": how MediaPipe turns strokes into its network's input is not published; "
                "InteractiveSegmenterLegacy takes a point"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}{reason}")


__all__ = [
    "Blendshapes",
    "FaceDetector",
    "FaceDetectorOptions",
    "FaceDetectorResult",
    "FaceLandmarker",
    "FaceLandmarkerOptions",
    "FaceLandmarkerResult",
    "FaceLandmarksConnections",
    "GestureRecognizer",
    "GestureRecognizerOptions",
    "GestureRecognizerResult",
    "HandLandmark",
    "HandLandmarker",
    "HandLandmarkerOptions",
    "HandLandmarkerResult",
    "HandLandmarksConnections",
    "HolisticLandmarker",
    "HolisticLandmarkerOptions",
    "HolisticLandmarkerResult",
    "ImageClassifier",
    "ImageClassifierOptions",
    "ImageClassifierResult",
    "ImageEmbedder",
    "ImageEmbedderOptions",
    "ImageEmbedderResult",
    "ImageProcessingOptions",
    "ImageSegmenter",
    "ImageSegmenterOptions",
    "ImageSegmenterResult",
    "InteractiveSegmenterLegacy",
    "InteractiveSegmenterLegacyOptions",
    "InteractiveSegmenterLegacyRegionOfInterest",
    "ObjectDetector",
    "ObjectDetectorOptions",
    "ObjectDetectorResult",
    "PoseEstimator",
    "PoseEstimatorOptions",
    "PoseEstimatorResult",
    "PoseLandmark",
    "PoseLandmarker",
    "PoseLandmarkerOptions",
    "PoseLandmarkerResult",
    "PoseLandmarksConnections",
    "RunningMode",
    "TaskSettings",
    "drawing_styles",
    "drawing_utils",
    "open_task",
]
