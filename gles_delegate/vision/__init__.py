"""From the tensors of a network to boxes, points and masks on a picture, in numpy.

Functions are pure, and what changes from frame to frame is a frozen dataclass. Only drawing needs
Pillow.
"""

from gles_delegate.vision.detection import (
    FACE_DETECTOR,
    PALM_DETECTOR,
    POSE_DETECTOR,
    POSE_DETECTOR_128,
    AnchorOptions,
    Detection,
    Detector,
    PyramidAnchorOptions,
    box_overlaps,
    decode_boxes,
    detect,
    find_detector,
    read_detections,
    select_detections,
    sigmoid,
    ssd_anchors,
    ssd_mobilenet,
    ssd_mobilenet_fpn,
    suppress,
)
from gles_delegate.vision.drawing import Colour, Drawing, palette
from gles_delegate.vision.regions import (
    Region,
    landmarks_in_picture,
    region_of_detection,
    region_of_landmarks,
    rotation_between,
)
from gles_delegate.vision.smoothing import OneEuro

__all__ = [
    "FACE_DETECTOR",
    "PALM_DETECTOR",
    "POSE_DETECTOR",
    "POSE_DETECTOR_128",
    "AnchorOptions",
    "Colour",
    "Detection",
    "Detector",
    "Drawing",
    "OneEuro",
    "PyramidAnchorOptions",
    "Region",
    "box_overlaps",
    "decode_boxes",
    "detect",
    "find_detector",
    "landmarks_in_picture",
    "palette",
    "read_detections",
    "region_of_detection",
    "region_of_landmarks",
    "rotation_between",
    "select_detections",
    "sigmoid",
    "ssd_anchors",
    "ssd_mobilenet",
    "ssd_mobilenet_fpn",
    "suppress",
]
