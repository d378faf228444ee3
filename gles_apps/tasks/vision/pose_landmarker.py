"""PoseLandmarker: 33 points of bodies, and their masks."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

from gles_apps.tasks.components.containers import (
    Drawn,
    Landmark,
    NormalizedLandmark,
    Row,
    points_row,
)
from gles_apps.tasks.image import Image, ImageFormat, ResultImage
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.connections import PoseLandmarksConnections as PoseLandmarksConnections
from gles_apps.tasks.vision.drawing_utils import positions
from gles_apps.tasks.vision.face_landmarker import at_least_one
from gles_apps.tasks.vision.finding import Landmarker, Reader, in_meters, normalized, reader_of
from gles_apps.vision.detection import POSE_DETECTOR, POSE_DETECTOR_128
from gles_apps.vision.drawing import Drawing, color_of
from gles_apps.vision.landmarks import POSE, Landmarks, mask_in_picture
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import POSE_EDGES
from gles_apps.vision.tracking import Tracker
from gles_delegate import ImageTransform
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

OUTPUTS = (195, 1, 256 * 256, 64 * 64 * 39, 117)
"""Numbers in the outputs of pose_landmark_lite, _full and _heavy."""
POSE_DETECTORS = (POSE_DETECTOR, POSE_DETECTOR_128)


class PoseLandmark(enum.IntEnum):
    """The points of a body; left and right are the person's."""

    NOSE = 0
    LEFT_EYE_INNER = 1
    LEFT_EYE = 2
    LEFT_EYE_OUTER = 3
    RIGHT_EYE_INNER = 4
    RIGHT_EYE = 5
    RIGHT_EYE_OUTER = 6
    LEFT_EAR = 7
    RIGHT_EAR = 8
    MOUTH_LEFT = 9
    MOUTH_RIGHT = 10
    LEFT_SHOULDER = 11
    RIGHT_SHOULDER = 12
    LEFT_ELBOW = 13
    RIGHT_ELBOW = 14
    LEFT_WRIST = 15
    RIGHT_WRIST = 16
    LEFT_PINKY = 17
    RIGHT_PINKY = 18
    LEFT_INDEX = 19
    RIGHT_INDEX = 20
    LEFT_THUMB = 21
    RIGHT_THUMB = 22
    LEFT_HIP = 23
    RIGHT_HIP = 24
    LEFT_KNEE = 25
    RIGHT_KNEE = 26
    LEFT_ANKLE = 27
    RIGHT_ANKLE = 28
    LEFT_HEEL = 29
    RIGHT_HEEL = 30
    LEFT_FOOT_INDEX = 31
    RIGHT_FOOT_INDEX = 32


@dataclass
class PoseLandmarkerResult(Drawn):
    """Bodies in a picture.

    Attributes:
        pose_landmarks: 33 points of each body, with visibility and presence; see `PoseLandmark`.
        pose_world_landmarks: The same in meters, from the middle of the hips.
        segmentation_masks: Float32 of the picture's size for each body, 0 to 1, if they are
            wanted and there is one.
    """

    pose_landmarks: list[list[NormalizedLandmark]]
    pose_world_landmarks: list[list[Landmark]]
    segmentation_masks: list[Image] | None = None

    def draw(self, drawing: Drawing) -> None:
        """Draw skeletons of the visible points."""
        for i, body in enumerate(self.pose_landmarks):
            drawing.skeleton(positions(body, drawing.size), POSE_EDGES, color_of(1 + i % 19))

    def rows(self, size: Size) -> list[Row]:
        """A row for each body, in pixels of a picture of this height and width."""
        return [points_row(body, size) for body in self.pose_landmarks]


@dataclass
class PoseLandmarkerOptions(VisionTaskOptions):
    """Options of `PoseLandmarker`.

    Attributes:
        base_options: The bundle: pose_landmarker_lite.task, _full or _heavy.
        running_mode: Single pictures, a video or a live stream.
        num_poses: Maximum number of bodies. Landmarks are smoothed in streams only if it is 1.
        min_pose_detection_confidence: Minimum score of a detection.
        min_pose_presence_confidence: A body is lost if its presence is not higher.
        min_tracking_confidence: In streams, a detection whose region overlaps that of a tracked
            body, or of a better detection, by more (intersection over union) replaces it.
        output_segmentation_masks: Whether to return masks.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        rigid_smoothing: Smooth all points alike; see `OneEuro.rigid`. Not MediaPipe's.
    """

    num_poses: int = 1
    min_pose_detection_confidence: float = 0.5
    min_pose_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5
    output_segmentation_masks: bool = False
    result_callback: Callable[[PoseLandmarkerResult, Image, int], None] | None = None
    rigid_smoothing: bool = False


class PoseLandmarker(Landmarker[PoseLandmarkerResult]):
    """Finds bodies and their points.

    Examples:
        >>> path = "pose_landmarker_lite.task"
        >>> with mp.tasks.vision.PoseLandmarker.create_from_model_path(path) as landmarker:
        ...     bodies = landmarker.detect(picture).pose_landmarks
    """

    _options_type = PoseLandmarkerOptions

    def __init__(self, options: PoseLandmarkerOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            confidence = options.min_pose_detection_confidence
            finder = self._find_with("pose_detector.tflite", POSE_DETECTORS, confidence)
            body = body_reader(self._network("pose_landmarks_detector.tflite"))
            most = at_least_one("num_poses", options.num_poses)
            overlap = options.min_tracking_confidence
            presence = options.min_pose_presence_confidence
            limits = Tracker(POSE, most, overlap, presence, takes_all=True)
            self._follow(finder, body, limits)

    def _process(self, image: Image, region: Region, time_ms: int | None) -> PoseLandmarkerResult:
        seen = self._seen(image, region, time_ms)
        masks: list[Image] | None = None
        if self.options.output_segmentation_masks:
            made = (body_mask(body, transform, image) for body, transform in seen)
            masks = [ResultImage(ImageFormat.VEC32F1, mask) for mask in made if mask is not None]
        return PoseLandmarkerResult(
            [normalized(body, image) for body, _ in seen],
            [in_meters(body) for body, _ in seen],
            masks or None,
        )


def body_reader(network: PictureNetwork) -> Reader:
    """Raises ModelError if this is not a body landmark network."""
    return reader_of(network, POSE, "33 points of a body", OUTPUTS)


def body_mask(body: Landmarks, transform: ImageTransform, image: Image) -> Array | None:
    """The mask of a body in the picture that its landmarks come from, by this transform."""
    if body.mask is None:
        return None
    return mask_in_picture(body.mask, transform, image.size, opencv=True)
