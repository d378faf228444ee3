"""Tasks on pictures."""

from typing import NoReturn

from gles_delegate.tasks.missing import missing
from gles_delegate.tasks.options import ImageProcessingOptions
from gles_delegate.tasks.options import VisionTaskRunningMode as RunningMode
from gles_delegate.tasks.vision import drawing_styles, drawing_utils
from gles_delegate.tasks.vision.face_detector import (
    FaceDetector,
    FaceDetectorOptions,
    FaceDetectorResult,
)
from gles_delegate.tasks.vision.face_landmarker import (
    Blendshapes,
    FaceLandmarker,
    FaceLandmarkerOptions,
    FaceLandmarkerResult,
    FaceLandmarksConnections,
)
from gles_delegate.tasks.vision.hand_landmarker import (
    HandLandmark,
    HandLandmarker,
    HandLandmarkerOptions,
    HandLandmarkerResult,
    HandLandmarksConnections,
)
from gles_delegate.tasks.vision.image_classifier import (
    ImageClassifier,
    ImageClassifierOptions,
    ImageClassifierResult,
)
from gles_delegate.tasks.vision.image_embedder import (
    ImageEmbedder,
    ImageEmbedderOptions,
    ImageEmbedderResult,
)
from gles_delegate.tasks.vision.image_segmenter import (
    ImageSegmenter,
    ImageSegmenterOptions,
    ImageSegmenterResult,
)
from gles_delegate.tasks.vision.object_detector import (
    ObjectDetector,
    ObjectDetectorOptions,
    ObjectDetectorResult,
)
from gles_delegate.tasks.vision.opening import TaskSettings, open_task
from gles_delegate.tasks.vision.pose_estimator import (
    PoseEstimator,
    PoseEstimatorOptions,
    PoseEstimatorResult,
)
from gles_delegate.tasks.vision.pose_landmarker import (
    PoseLandmark,
    PoseLandmarker,
    PoseLandmarkerOptions,
    PoseLandmarkerResult,
    PoseLandmarksConnections,
)

__all__ = [
    "Blendshapes",
    "FaceDetector",
    "FaceDetectorOptions",
    "FaceDetectorResult",
    "FaceLandmarker",
    "FaceLandmarkerOptions",
    "FaceLandmarkerResult",
    "FaceLandmarksConnections",
    "HandLandmark",
    "HandLandmarker",
    "HandLandmarkerOptions",
    "HandLandmarkerResult",
    "HandLandmarksConnections",
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


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name)
