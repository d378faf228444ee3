"""HandLandmarker: 21 points of hands, and which hand it is."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gles_apps.tasks.components.containers import (
    Category,
    Drawn,
    Landmark,
    NormalizedLandmark,
    Row,
    points_row,
)
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.connections import HandLandmarksConnections as HandLandmarksConnections
from gles_apps.tasks.vision.drawing_utils import draw_points
from gles_apps.tasks.vision.face_landmarker import at_least_one
from gles_apps.tasks.vision.finding import (
    Follower,
    Landmarker,
    Reader,
    in_meters,
    normalized,
    reader_of,
)
from gles_apps.vision.detection import PALM_DETECTOR
from gles_apps.vision.drawing import Drawing
from gles_apps.vision.landmarks import HAND, Landmarks
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import HAND_EDGES
from gles_apps.vision.tracking import Tracker
from gles_delegate.image.transform import Size
from gles_delegate.support.closing import on_error

R = TypeVar("R")

COLORS = {"Left": (255, 140, 60), "Right": (60, 220, 140)}


class HandLandmark(enum.IntEnum):
    """The points of a hand."""

    WRIST = 0
    THUMB_CMC = 1
    THUMB_MCP = 2
    THUMB_IP = 3
    THUMB_TIP = 4
    INDEX_FINGER_MCP = 5
    INDEX_FINGER_PIP = 6
    INDEX_FINGER_DIP = 7
    INDEX_FINGER_TIP = 8
    MIDDLE_FINGER_MCP = 9
    MIDDLE_FINGER_PIP = 10
    MIDDLE_FINGER_DIP = 11
    MIDDLE_FINGER_TIP = 12
    RING_FINGER_MCP = 13
    RING_FINGER_PIP = 14
    RING_FINGER_DIP = 15
    RING_FINGER_TIP = 16
    PINKY_MCP = 17
    PINKY_PIP = 18
    PINKY_DIP = 19
    PINKY_TIP = 20


@dataclass
class HandLandmarkerResult(Drawn):
    """Hands in a picture.

    Attributes:
        handedness: "Left" or "Right" for each hand, if the picture is mirrored.
        hand_landmarks: 21 points of each hand; see `HandLandmark`.
        hand_world_landmarks: The same in meters.
    """

    handedness: list[list[Category]]
    hand_landmarks: list[list[NormalizedLandmark]]
    hand_world_landmarks: list[list[Landmark]]

    def draw(self, drawing: Drawing, captions: Sequence[str] | None = None) -> None:
        """Draw the fingers, and at the wrist the captions of the hands; None: their sides."""
        names = [side.category_name or "" for (side,) in self.handedness]
        for hand, side, caption in zip(
            self.hand_landmarks, names, names if captions is None else captions, strict=True
        ):
            color = COLORS.get(side, (255, 255, 255))
            draw_points(drawing, hand, HAND_EDGES, points=(255, 255, 255), lines=color)
            at = (hand[0].x or 0.0) * drawing.size[1], (hand[0].y or 0.0) * drawing.size[0]
            drawing.label(at, caption, color)

    def rows(self, size: Size) -> list[Row]:
        """A row for each hand, in pixels of a picture of this height and width."""
        return [
            points_row(hand, size) | {"side": side.category_name, "score": side.score}
            for hand, (side, *_) in zip(self.hand_landmarks, self.handedness, strict=True)
        ]


@dataclass
class HandOptions(VisionTaskOptions):
    """What the options of every task on hands have."""

    num_hands: int = 1
    min_hand_detection_confidence: float = 0.5
    min_hand_presence_confidence: float = 0.5
    min_tracking_confidence: float = 0.5


@dataclass
class HandLandmarkerOptions(HandOptions):
    """Options of `HandLandmarker`.

    Attributes:
        base_options: The bundle: hand_landmarker.task.
        running_mode: Single pictures, a video or a live stream.
        num_hands: Maximum number of hands.
        min_hand_detection_confidence: Minimum score of a detection.
        min_hand_presence_confidence: A hand is lost if its presence is not higher.
        min_tracking_confidence: A detection whose region overlaps a tracked hand's by more
            (intersection over union) is that hand.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
    """

    result_callback: Callable[[HandLandmarkerResult, Image, int], None] | None = None


class HandFollower(Follower[R]):
    """Base of tasks on hands. Their points are not smoothed, as in MediaPipe."""

    smoothing = None

    bundle = ""
    """Where hand_landmarker.task is in the bundle, if it is in one."""

    def __init__(self, options: Any) -> None:
        super().__init__(options)
        with on_error(self.close):
            most = at_least_one("num_hands", options.num_hands)
            detector = "hand_detector.tflite"
            confidence = options.min_hand_detection_confidence
            # The overlap is hand_detector_graph.cc's.
            finder = self._find_with(self.bundle + detector, (PALM_DETECTOR,), confidence, 0.3)
            hand = hand_reader(self._network(f"{self.bundle}hand_landmarks_detector.tflite"))
            overlap = options.min_tracking_confidence
            presence = options.min_hand_presence_confidence
            self._follow(finder, hand, Tracker(HAND, most, overlap, presence))


class HandLandmarker(HandFollower[HandLandmarkerResult], Landmarker[HandLandmarkerResult]):
    """Finds hands and their points.

    Examples:
        >>> path = "hand_landmarker.task"
        >>> with mp.tasks.vision.HandLandmarker.create_from_model_path(path) as landmarker:
        ...     result = landmarker.detect(picture)
        >>> len(result.hand_landmarks) == len(result.handedness)
        True
    """

    _options_type = HandLandmarkerOptions

    def _process(self, image: Image, region: Region, time_ms: int | None) -> HandLandmarkerResult:
        return hand_result([hand for hand, _ in self._seen(image, region, time_ms)], image)


def hand_result(hands: Sequence[Landmarks], image: Image) -> HandLandmarkerResult:
    """The result of hands in a picture."""
    return HandLandmarkerResult(
        [[_side(hand.right_hand or 0.0)] for hand in hands],
        [normalized(hand, image) for hand in hands],
        [in_meters(hand) for hand in hands],
    )


def hand_reader(network: PictureNetwork) -> Reader:
    """Raises ModelError if this is not a hand landmark network."""
    return reader_of(network, HAND, "21 points of a hand", (63, 1, 1, 63))


def _side(right: float) -> Category:
    """The likelier hand; "Right" is index 0 (hand_landmarks_detector_graph.cc)."""
    if right >= 0.5:
        return Category(0, right, "Right", "Right")
    return Category(1, 1 - right, "Left", "Left")
