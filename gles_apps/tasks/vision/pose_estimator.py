"""PoseEstimator: 17 points of people, by PoseNet or MoveNet. Not MediaPipe's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gles_apps.tasks.components.containers import Drawn, Row, pixels
from gles_apps.tasks.image import Image
from gles_apps.tasks.network import PictureNetwork
from gles_apps.tasks.options import VisionTaskOptions
from gles_apps.tasks.vision.methods import Detects
from gles_apps.vision.drawing import Drawing, color_of
from gles_apps.vision.poses import MOVENET_INPUT, POSENET_INPUT, Pose, posenet_poses, read_movenet
from gles_apps.vision.regions import Region
from gles_apps.vision.skeletons import COCO_EDGES
from gles_delegate import ModelError
from gles_delegate.image.transform import Size
from gles_delegate.support.closing import on_error

POSENET_OUTPUTS = ("heatmap", "offset", "displacement_fwd", "displacement_bwd")
"""Words in the names of PoseNet's outputs; forward and backward differ only in them."""


@dataclass
class PoseEstimatorResult(Drawn):
    """People in a picture.

    Attributes:
        poses: Each person's points, in the order of `COCO_KEY_POINTS`, as shares of the
            picture; the best person first.
        threshold: Minimum score of a point that is drawn.
    """

    poses: list[Pose]
    threshold: float

    def draw(self, drawing: Drawing) -> None:
        """Draw skeletons of the points whose scores are high enough."""
        height, width = drawing.size
        for i, person in enumerate(self.poses):
            points = np.multiply(person.points, (width, height))
            points[np.less(person.scores, self.threshold)] = np.nan
            drawing.skeleton(points, COCO_EDGES, color_of(1 + i % 19))

    def rows(self, size: Size) -> list[Row]:
        """A row for each person: score, and points in pixels of a picture of this height and
        width, with their scores.
        """
        return [
            {
                "score": person.score,
                "key_points": pixels(person.points, size),
                "key_point_scores": list(person.scores),
            }
            for person in self.poses
        ]


@dataclass
class PoseEstimatorOptions(VisionTaskOptions):
    """Options of `PoseEstimator`.

    Attributes:
        base_options: The model.
        running_mode: Single pictures, a video or a live stream.
        score_threshold: Minimum score of a point that counts; people without one are left out.
        result_callback: Called in a live stream with the result, the picture and its time in ms.
    """

    score_threshold: float = 0.3
    result_callback: Callable[[PoseEstimatorResult, Image, int], None] | None = None


class PoseEstimator(Detects[PoseEstimatorResult]):
    """Finds people by PoseNet, which the names of its outputs show, or by MoveNet.

    Examples:
        >>> path = "movenet_single_pose_lightning_ptq.tflite"
        >>> with mp.tasks.vision.PoseEstimator.create_from_model_path(path) as estimator:
        ...     people = estimator.detect(picture).poses
    """

    _options_type = PoseEstimatorOptions

    def __init__(self, options: PoseEstimatorOptions) -> None:
        super().__init__(options)
        with on_error(self.close):
            network = self._network()
            self._maps = _posenet_maps(network)
            self._like = network.normalized(POSENET_INPUT if self._maps else MOVENET_INPUT)

    def _process(self, image: Image, region: Region, time_ms: int | None) -> PoseEstimatorResult:
        network = self.network
        least = self.options.score_threshold
        transform = self._sampling(region, self._like, "letterbox")
        outputs = network(image, transform)
        if self._maps:
            heat, offset, forward, backward = (outputs[position] for position in self._maps)
            poses = posenet_poses(heat, offset, forward, backward, network.size, threshold=least)
        else:
            poses = read_movenet(outputs[0])
        seen = [pose for pose in poses if max(pose.scores) >= least]
        people = [pose.to_picture(transform, image.size, network.size) for pose in seen]
        return PoseEstimatorResult(people, least)


def _posenet_maps(network: PictureNetwork) -> Sequence[int]:
    """The positions of PoseNet's outputs; none for MoveNet. Raises ModelError for others."""
    if len(network.outputs) not in (1, 4):
        raise ModelError(
            f"expected PoseNet or MoveNet, found outputs {network.shapes}; a network of "
            "landmarks needs a detector before it"
        )
    if len(network.outputs) == 1:
        return ()
    names = [details["name"] for details in network.outputs]
    maps = [[i for i, n in enumerate(names) if word in n] for word in POSENET_OUTPUTS]
    if any(len(matches) != 1 for matches in maps):
        raise ModelError(f"expected PoseNet's outputs named {POSENET_OUTPUTS}, found {names}")
    return [position for (position,) in maps]
