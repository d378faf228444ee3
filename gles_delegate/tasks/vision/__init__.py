"""Tasks on pictures."""

from typing import NoReturn

from gles_delegate.tasks.components.containers import ClassificationResult as ImageClassifierResult
from gles_delegate.tasks.components.containers import DetectionResult as FaceDetectorResult
from gles_delegate.tasks.components.containers import DetectionResult as ObjectDetectorResult
from gles_delegate.tasks.components.containers import EmbeddingResult as ImageEmbedderResult
from gles_delegate.tasks.missing import missing
from gles_delegate.tasks.options import ImageProcessingOptions
from gles_delegate.tasks.options import VisionTaskRunningMode as RunningMode
from gles_delegate.tasks.vision import drawing_styles, drawing_utils
from gles_delegate.tasks.vision.connections import (
    FaceLandmarksConnections,
    HandLandmarksConnections,
    PoseLandmarksConnections,
)
from gles_delegate.tasks.vision.face_detector import FaceDetector, FaceDetectorOptions
from gles_delegate.tasks.vision.face_landmarker import (
    Blendshapes,
    FaceLandmarker,
    FaceLandmarkerOptions,
    FaceLandmarkerResult,
)
from gles_delegate.tasks.vision.hand_landmarker import (
    HandLandmark,
    HandLandmarker,
    HandLandmarkerOptions,
    HandLandmarkerResult,
)
from gles_delegate.tasks.vision.image_classifier import ImageClassifier, ImageClassifierOptions
from gles_delegate.tasks.vision.image_embedder import ImageEmbedder, ImageEmbedderOptions
from gles_delegate.tasks.vision.image_segmenter import (
    ImageSegmenter,
    ImageSegmenterOptions,
    ImageSegmenterResult,
)
from gles_delegate.tasks.vision.object_detector import ObjectDetector, ObjectDetectorOptions
from gles_delegate.tasks.vision.pose_landmarker import (
    PoseLandmark,
    PoseLandmarker,
    PoseLandmarkerOptions,
    PoseLandmarkerResult,
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
    "PoseLandmark",
    "PoseLandmarker",
    "PoseLandmarkerOptions",
    "PoseLandmarkerResult",
    "PoseLandmarksConnections",
    "RunningMode",
    "drawing_styles",
    "drawing_utils",
]


def __getattr__(name: str) -> NoReturn:
    missing(__name__, name)
