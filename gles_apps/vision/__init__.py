"""Boxes, points and masks on pictures from the tensors of networks, in numpy.

Functions are pure, and state that changes from frame to frame is a frozen dataclass. Only drawing
needs Pillow.
"""

from gles_apps.vision.classes import top_classes
from gles_apps.vision.detection import (
    FACE_DETECTOR,
    FACE_DETECTOR_FULL_RANGE,
    PALM_DETECTOR,
    POSE_DETECTOR,
    Detection,
    Detector,
    detect,
    suppress,
)
from gles_apps.vision.detectors import find_detector, read_detections
from gles_apps.vision.drawing import Color, Drawing, palette
from gles_apps.vision.landmarks import FACE, HAND, POSE, Landmarks, mask_in_picture
from gles_apps.vision.poses import MOVENET_INPUT, Pose, read_movenet
from gles_apps.vision.regions import region_of_detection
from gles_apps.vision.skeletons import COCO_EDGES, FACE_EDGES, HAND_EDGES, POSE_EDGES
from gles_apps.vision.tracking import Smoothing, Tracker
from gles_apps.vision.yolo import YOLO_KINDS, YoloDetector
from gles_delegate.runtime.standalone import dequantize

__all__ = [
    "COCO_EDGES",
    "FACE",
    "FACE_DETECTOR",
    "FACE_DETECTOR_FULL_RANGE",
    "FACE_EDGES",
    "HAND",
    "HAND_EDGES",
    "MOVENET_INPUT",
    "PALM_DETECTOR",
    "POSE",
    "POSE_DETECTOR",
    "POSE_EDGES",
    "YOLO_KINDS",
    "Color",
    "Detection",
    "Detector",
    "Drawing",
    "Landmarks",
    "Pose",
    "Smoothing",
    "Tracker",
    "YoloDetector",
    "dequantize",
    "detect",
    "find_detector",
    "mask_in_picture",
    "palette",
    "read_detections",
    "read_movenet",
    "region_of_detection",
    "suppress",
    "top_classes",
]
