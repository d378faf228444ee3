"""HolisticLandmarker: the points of one body, its face and its hands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gles_apps.tasks.components.containers import (
    Category,
    Drawn,
    Landmark,
    NormalizedLandmark,
    Row,
    points_row,
)
from gles_apps.tasks.image import Image, ImageFormat, ResultImage
from gles_apps.tasks.options import VisionTaskOptions, also_named
from gles_apps.tasks.vision.drawing_utils import draw_points, positions
from gles_apps.tasks.vision.face_landmarker import FACE_DETECTORS, Expressions, face_reader
from gles_apps.tasks.vision.finding import Landmarker, Reader, in_meters, normalized, reader_of
from gles_apps.tasks.vision.hand_landmarker import COLORS, hand_reader
from gles_apps.tasks.vision.pose_landmarker import POSE_DETECTORS, body_mask, body_reader
from gles_apps.vision import holistic
from gles_apps.vision.drawing import Drawing, color_of
from gles_apps.vision.landmarks import HAND, POSE, Landmarks, RegionRule
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import FACE_EDGES, HAND_EDGES, POSE_EDGES
from gles_apps.vision.tracking import Tracker, is_usable
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

REFINEMENT = "hand_roi_refinement.tflite"
"""The file by which the bundle is recognized."""


@dataclass
class HolisticLandmarkerResult(Drawn):
    """A body in a picture; lists are empty for what was not found.

    Attributes:
        face_landmarks: 478 points of the face.
        pose_landmarks: 33 points of the body; see `PoseLandmark`.
        pose_world_landmarks: The same in meters, from the middle of the hips.
        left_hand_landmarks: 21 points of the person's left hand; see `HandLandmark`.
        right_hand_landmarks: Of the right hand.
        left_hand_world_landmarks: The same in meters, with the wrist at the body's.
        right_hand_world_landmarks: Likewise.
        face_blendshapes: 52 expressions and their scores, if they are wanted and there is a face.
        segmentation_mask: Float32 [height, width, 1] of 0 to 1, if it is wanted.
    """

    face_landmarks: list[NormalizedLandmark]
    pose_landmarks: list[NormalizedLandmark]
    pose_world_landmarks: list[Landmark]
    left_hand_landmarks: list[NormalizedLandmark]
    left_hand_world_landmarks: list[Landmark]
    right_hand_landmarks: list[NormalizedLandmark]
    right_hand_world_landmarks: list[Landmark]
    face_blendshapes: list[Category] | None = None
    segmentation_mask: Image | None = None

    def draw(self, drawing: Drawing) -> None:
        """Draw the body's visible points, the fingers and the face's contours."""
        if self.pose_landmarks:
            at = positions(self.pose_landmarks, drawing.size)
            drawing.skeleton(at, POSE_EDGES, color_of(1))
        if self.face_landmarks:
            draw_points(drawing, self.face_landmarks, FACE_EDGES, lines=(0, 240, 190))
        hands = {"Left": self.left_hand_landmarks, "Right": self.right_hand_landmarks}
        for side, hand in hands.items():
            if hand:
                draw_points(drawing, hand, HAND_EDGES, points=(255, 255, 255), lines=COLORS[side])

    def rows(self, size: Size) -> list[Row]:
        """A row for each part that was found, in pixels of a picture of this height and width."""
        parts = {
            "body": self.pose_landmarks,
            "face": self.face_landmarks,
            "left hand": self.left_hand_landmarks,
            "right hand": self.right_hand_landmarks,
        }
        return [
            points_row(points, size) | {"label": name} for name, points in parts.items() if points
        ]


@also_named(
    min_face_landmarks_confidence="min_face_presence_confidence",
    min_pose_landmarks_confidence="min_pose_presence_confidence",
    output_segmentation_mask="output_pose_segmentation_masks",
)
@dataclass
class HolisticLandmarkerOptions(VisionTaskOptions):
    """Options of `HolisticLandmarker`.

    Attributes:
        base_options: The bundle: holistic_landmarker.task.
        running_mode: Single pictures, a video or a live stream.
        min_face_detection_confidence: Minimum score of a face's detection.
        min_face_suppression_threshold: Maximum overlap of detections of different faces.
        min_face_presence_confidence: A face is lost if its presence is not higher.
        min_pose_detection_confidence: Minimum score of a body's detection.
        min_pose_suppression_threshold: Maximum overlap of detections of different bodies.
        min_pose_presence_confidence: A body is lost if its presence is not higher.
        min_hand_landmarks_confidence: A hand is lost if its presence is not higher.
        output_face_blendshapes: Whether to return expressions.
        output_pose_segmentation_masks: Whether to return a mask.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
        rigid_smoothing: Smooth all points of the body alike; see `OneEuro.rigid`. Not MediaPipe's.
    """

    min_face_detection_confidence: float = 0.5
    min_face_suppression_threshold: float = 0.3
    min_face_presence_confidence: float = 0.5
    min_pose_detection_confidence: float = 0.5
    min_pose_suppression_threshold: float = 0.3
    min_pose_presence_confidence: float = 0.5
    min_hand_landmarks_confidence: float = 0.5
    output_face_blendshapes: bool = False
    output_pose_segmentation_masks: bool = False
    result_callback: Callable[[HolisticLandmarkerResult, Image, int], None] | None = None
    rigid_smoothing: bool = False


class HolisticLandmarker(Landmarker[HolisticLandmarkerResult]):
    """Finds a body, and its face and hands by the body's points.

    Unlike MediaPipe's, it does not remember the picture before in its image mode, and obeys
    `ImageProcessingOptions.rotation_degrees`.

    Examples:
        >>> path = "holistic_landmarker.task"
        >>> with mp.tasks.vision.HolisticLandmarker.create_from_model_path(path) as landmarker:
        ...     result = landmarker.detect(picture)
        >>> len(result.pose_landmarks) in (0, 33)
        True
    """

    _options_type = HolisticLandmarkerOptions

    smoothing = holistic.BODY_SMOOTHING

    def __init__(self, options: HolisticLandmarkerOptions) -> None:
        super().__init__(options)
        self._expressions: Expressions | None = None
        self._previous: dict[str, Landmarks | None] = {}
        self._previous_mask: Array | None = None
        with on_error(self.close):
            least = options.min_pose_detection_confidence
            overlap = options.min_pose_suppression_threshold
            bodies = self._find_with("pose_detector.tflite", POSE_DETECTORS, least, overlap)
            limits = Tracker(POSE, presence=options.min_pose_presence_confidence)
            body = body_reader(self._network("pose_landmarks_detector.tflite"))
            self._follow(bodies, body, limits)
            least = options.min_face_detection_confidence
            overlap = options.min_face_suppression_threshold
            self._faces = self._find_with("face_detector.tflite", FACE_DETECTORS, least, overlap)
            self._face = face_reader(self._network("face_landmarks_detector.tflite"))
            if options.output_face_blendshapes:
                shapes = self._network("face_blendshapes.tflite")
                self._expressions = Expressions(shapes, self._face)
            refinement = self._network(REFINEMENT)
            self._recrop = reader_of(refinement, holistic.RECROP, "two points of a hand", (4,))
            self._hand = hand_reader(self._network("hand_landmarks_detector.tflite"))

    def _process(
        self, image: Image, region: Region, time_ms: int | None
    ) -> HolisticLandmarkerResult:
        seen = self._seen(image, region, time_ms)
        body = None
        face = None
        left = None
        right = None
        mask = None
        if seen:
            body, transform = seen[0]
            face = self._face_of(image, body)
            left = self._hand_of(image, body, "left", holistic.LEFT_PALM)
            right = self._hand_of(image, body, "right", holistic.RIGHT_PALM)
            if self.options.output_pose_segmentation_masks:
                mask = body_mask(body, transform, image)
            if mask is not None and self._previous_mask is not None:
                mask = holistic.steadied_mask(mask, self._previous_mask)
        if self.is_stream:
            self._previous = {"face": face, "left": left, "right": right}
            self._previous_mask = mask
        return HolisticLandmarkerResult(
            face_landmarks=_shares(face, image),
            pose_landmarks=_shares(body, image),
            pose_world_landmarks=_meters(body),
            left_hand_landmarks=_shares(left, image),
            left_hand_world_landmarks=_meters(left),
            right_hand_landmarks=_shares(right, image),
            right_hand_world_landmarks=_meters(right),
            face_blendshapes=self._expressions(face) if face and self._expressions else None,
            segmentation_mask=None if mask is None else ResultImage(ImageFormat.VEC32F1, mask),
        )

    def _face_of(self, image: Image, body: Landmarks) -> Landmarks | None:
        around = holistic.FACE_DETECTOR_REGION.of_landmarks(body.points[:11])
        if not is_usable(around):
            return None
        detections = self._detections(self._faces, image, around)
        if not detections or not detections[0].is_finite:
            return None
        height, width = image.size
        points = np.array(detections[0].key_points) * (width, height)
        found = holistic.DETECTED_FACE_REGION.of_landmarks(points)
        confidence = self.options.min_face_presence_confidence
        return self._part(
            image, "face", self._face, found, holistic.FACE_REGION, holistic.FACE_LIMITS, confidence
        )

    def _hand_of(
        self, image: Image, body: Landmarks, side: str, palm: tuple[int, int, int]
    ) -> Landmarks | None:
        """A hand of a body, with its points in meters at the body's wrist."""
        coarse = holistic.palm_region(body, palm)
        if coarse is None or not is_usable(coarse):
            return None
        middle, _ = self._look(self._recrop, image, coarse)
        if not middle.is_finite:
            return None
        found = holistic.RECROP_REGION.of_landmarks(middle.points)
        confidence = self.options.min_hand_landmarks_confidence
        hand = self._part(
            image, side, self._hand, found, HAND.tracked, holistic.HAND_LIMITS, confidence
        )
        return hand and replace(hand, world=holistic.at_wrist(hand, body, palm))

    def _part(
        self,
        image: Image,
        name: str,
        reader: Reader,
        found: Region,
        rule: RegionRule,
        limits: holistic.RegionLimits,
        confidence: float,
    ) -> Landmarks | None:
        """The points of a face or a hand whose presence is high enough, if any.

        `found` is its region in this picture, and `rule` gives it by the points in the picture
        before; `limits` decides which of the two is used.
        """
        previous = self._previous.get(name)
        if previous is not None:
            found = limits.steadied(found, rule.of_landmarks(previous.points), previous.points)
        if not is_usable(found):
            return None
        part, _ = self._look(reader, image, found)
        return part if part.presence > confidence and part.is_finite else None


def _shares(part: Landmarks | None, image: Image) -> list[NormalizedLandmark]:
    """Points in shares of the picture, if there are any."""
    return [] if part is None else normalized(part, image)


def _meters(part: Landmarks | None) -> list[Landmark]:
    """World points, if there are any."""
    return [] if part is None else in_meters(part)
