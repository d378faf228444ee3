"""GestureRecognizer: gestures of hands, by their points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from gles_apps.tasks.classes import Classifier
from gles_apps.tasks.components.containers import Category, Drawn, Landmark, NormalizedLandmark, Row
from gles_apps.tasks.components.processors import ClassifierOptions
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import also_named
from gles_apps.tasks.vision.hand_landmarker import (
    HandFollower,
    HandLandmarkerResult,
    HandOptions,
    hand_result,
)
from gles_apps.tasks.vision.methods import Recognizes
from gles_apps.vision.drawing import Drawing
from gles_apps.vision.landmarks import Landmarks
from gles_apps.vision.regions import Region
from gles_delegate import ModelError
from gles_delegate.image.transform import Size
from gles_delegate.model.graph import Array
from gles_delegate.support.closing import on_error

HANDS = "hand_landmarker.task/"
GESTURES = "hand_gesture_recognizer.task/"
CANNED, CUSTOM = (f"{GESTURES}{kind}_gesture_classifier.tflite" for kind in ("canned", "custom"))
NO_GESTURE = "None"
"""The class of a hand without a gesture, in both classifiers."""


@dataclass
class GestureRecognizerResult(Drawn):
    """Hands in a picture, and their gestures.

    Attributes:
        gestures: The gesture of each hand, with the index -1; "None" is the class of no gesture.
            Empty for a hand of which no class is allowed.
        handedness: "Left" or "Right" for each hand, if the picture is mirrored.
        hand_landmarks: 21 points of each hand; see `HandLandmark`.
        hand_world_landmarks: The same in meters.
    """

    gestures: list[list[Category]]
    handedness: list[list[Category]]
    hand_landmarks: list[list[NormalizedLandmark]]
    hand_world_landmarks: list[list[Landmark]]

    def draw(self, drawing: Drawing) -> None:
        """Draw the fingers, and the side and the gesture at the wrist."""
        sides = [side.category_name or "" for (side,) in self.handedness]
        captions = [" ".join(filter(None, pair)) for pair in zip(sides, self._names, strict=True)]
        self._hands.draw(drawing, captions)

    def rows(self, size: Size) -> list[Row]:
        """A row for each hand, in pixels of a picture of this height and width."""
        rows = self._hands.rows(size)
        return [row | {"gesture": name} for row, name in zip(rows, self._names, strict=True)]

    @property
    def _names(self) -> list[str | None]:
        return [gestures[0].category_name if gestures else None for gestures in self.gestures]

    @property
    def _hands(self) -> HandLandmarkerResult:
        return HandLandmarkerResult(self.handedness, self.hand_landmarks, self.hand_world_landmarks)


@also_named(
    canned_gesture_classifier_options="canned_gestures_classifier_options",
    custom_gesture_classifier_options="custom_gestures_classifier_options",
)
@dataclass
class GestureRecognizerOptions(HandOptions):
    """Options of `GestureRecognizer`.

    Attributes:
        base_options: The bundle: gesture_recognizer.task.
        running_mode: Single pictures, a video or a live stream.
        num_hands: Maximum number of hands.
        min_hand_detection_confidence: Minimum score of a detection.
        min_hand_presence_confidence: A hand is lost if its presence is not higher.
        min_tracking_confidence: A detection whose region overlaps a tracked hand's by more
            (intersection over union) is that hand.
        canned_gestures_classifier_options: Which of MediaPipe's gestures count.
        custom_gestures_classifier_options: Which of the bundle's own gestures count, if it has any.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
    """

    canned_gestures_classifier_options: ClassifierOptions = field(default_factory=ClassifierOptions)
    custom_gestures_classifier_options: ClassifierOptions = field(default_factory=ClassifierOptions)
    result_callback: Callable[[GestureRecognizerResult, Image, int], None] | None = None


class GestureRecognizer(HandFollower[GestureRecognizerResult], Recognizes[GestureRecognizerResult]):
    """Finds hands and their gestures.

    The bundle has two bundles: hand_landmarker.task, and hand_gesture_recognizer.task with
    gesture_embedder.tflite, canned_gesture_classifier.tflite and maybe
    custom_gesture_classifier.tflite. A custom gesture other than "None" wins.

    Examples:
        >>> path = "gesture_recognizer.task"
        >>> with mp.tasks.vision.GestureRecognizer.create_from_model_path(path) as recognizer:
        ...     result = recognizer.recognize(picture)
        >>> len(result.gestures) == len(result.handedness)
        True
    """

    _options_type = GestureRecognizerOptions
    bundle = HANDS

    def __init__(self, options: GestureRecognizerOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            self._embedder = self._network(f"{GESTURES}gesture_embedder.tflite")
            _require_inputs(self._embedder, 63, 1, 63)
            length = int(np.prod(self._embedder.shapes[0]))
            canned = self._classifier(CANNED, options.canned_gestures_classifier_options)
            self._classifiers = [canned]
            if self.assets.has(CUSTOM):
                chosen = options.custom_gestures_classifier_options
                self._classifiers.insert(0, self._classifier(CUSTOM, chosen))
            for network, _ in self._classifiers:
                _require_inputs(network, length)

    def _classifier(
        self, name: str, options: ClassifierOptions
    ) -> tuple[PictureNetwork, Classifier]:
        network = self._network(name)
        return network, Classifier(network.shapes[:1], network.metadata.outputs[:1], options)

    def _process(
        self, image: Image, region: Region, time_ms: int | None
    ) -> GestureRecognizerResult:
        hands = [hand for hand, _ in self._seen(image, region, time_ms)]
        turn = math.radians(-region.rotation)
        gestures = [self._gesture(hand, turn, image.size) for hand in hands]
        shown = hand_result(hands, image)
        return GestureRecognizerResult(
            gestures, shown.handedness, shown.hand_landmarks, shown.hand_world_landmarks
        )

    def _gesture(self, hand: Landmarks, turn: float, picture: Size) -> list[Category]:
        assert hand.world is not None
        height, width = picture
        left = 1 - (hand.right_hand or 0.0)  # its probability (handedness_util.cc)
        features = [
            seen_by_embedder(hand.points / (width, height, width), turn, picture),
            np.array([left], np.float32),
            seen_by_embedder(hand.world, turn),
        ]
        embedding = _outputs(self._embedder, features)[0]
        answers = [
            classifier.heads(_outputs(network, [embedding])[:1])[0].categories
            for network, classifier in self._classifiers
        ]
        return combined(answers)


def seen_by_embedder(points: Array, turn: float, picture: Size | None = None) -> Array:
    """Points relative to the wrist and to the size of the hand (landmarks_to_matrix_calculator.cc).

    Args:
        points: [21, 3], in shares of the picture or in meters.
        turn: How far the picture is to be turned clockwise, in radians.
        picture: Its height and width, for points in shares of it.
    """
    points = points.astype(np.float64)
    if picture is not None:
        points[:, :2] *= np.array(picture[::-1]) / max(picture)
    x = points[:, 0].copy()
    y = points[:, 1].copy()
    points[:, 0] = x * math.cos(turn) - y * math.sin(turn)
    points[:, 1] = y * math.cos(turn) + x * math.sin(turn)
    points -= points[0]
    extent = np.ptp(points[:, :2], axis=0).max() + 1e-5
    return np.asarray(points / extent, np.float32)


def combined(answers: Sequence[Sequence[Category]]) -> list[Category]:
    """The first classifier's best class that is a gesture, or else the first best class
    (combined_prediction_calculator.cc).

    Args:
        answers: The classes of each classifier, best first.
    """
    best = [answer[0] for answer in answers if answer]
    chosen = next((each for each in best if each.category_name != NO_GESTURE), None)
    chosen = chosen or next(iter(best), None)
    return [] if chosen is None else [Category(-1, chosen.score, None, chosen.category_name)]


def _outputs(network: PictureNetwork, features: Sequence[Array]) -> list[Array]:
    pairs = zip(features, network.inputs, strict=True)
    arrays = [np.reshape(each, details["shape"]) for each, details in pairs]
    return network.run(dict(enumerate(arrays)))


def _require_inputs(network: PictureNetwork, *elements: int) -> None:
    """Raise ModelError unless the inputs have these numbers of elements, in float32."""
    found = [(int(np.prod(each["shape"])), each["dtype"]) for each in network.inputs]
    if found != [(count, np.float32) for count in elements]:
        shapes = [each["shape"].tolist() for each in network.inputs]
        raise ModelError(
            f"expected {network.name} to have float32 inputs of {', '.join(map(str, elements))} "
            f"elements, found {shapes}"
        )
